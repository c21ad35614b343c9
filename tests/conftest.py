"""What holds for every test: hypothesis profiles, no network, and no silent skip where CI runs.

Environment: `CI` set to anything but `0`, `false` or nothing means that a skip fails and that the larger hypothesis
profile runs. `HYPOTHESIS_PROFILE` names a profile outright.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Generator

IN_CI: Final = os.environ.get("CI", "").lower() not in {"", "0", "false"}

# No deadline: how long one example takes says more about the machine than about the code.
settings.register_profile("dev", max_examples=100, deadline=None)
# derandomize: a red run must be red again for whoever repeats it; new inputs are the fuzz scripts' part.
settings.register_profile(
    "ci",
    max_examples=300,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if IN_CI else "dev"))


class NetworkUsedError(RuntimeError):
    """A test reached for an address that is not on this machine."""


def _refuse_network(event: str, arguments: tuple[Any, ...]) -> None:
    """Audit hook: connect and look up names on the loopback only."""
    if event == "socket.connect":
        address = arguments[1]
        host = address[0] if isinstance(address, tuple) else None
    elif event == "socket.getaddrinfo":
        host = arguments[0]
    else:
        return
    if host is not None and host not in {"localhost", "::1", "", b"localhost"} and not str(host).startswith("127."):
        message = "tests use the loopback only"
        raise NetworkUsedError(message)


sys.addaudithook(_refuse_network)


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip into a failure in CI: a missing part must not look like a passed test."""
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI, which counts as a failure: {report.longrepr}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """See to skipped tests."""
    report = yield
    _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """See to modules that skip themselves."""
    report = yield
    _refuse_skip(report)
    return report
