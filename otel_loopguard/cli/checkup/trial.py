"""Starts the child that tries an application's set-up code, and reads what it found.

Invariants: the child's output goes nowhere; it and whatever it started are ended when their time is up. A child that
does not come to its end is one of the things found, with the part that it was at.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from otel_loopguard.cli import checkup
from otel_loopguard.cli.checkup import Check, Diagnosis

MODULE: Final = "otel_loopguard.cli.checkup.child"
_KINDS: Final[Mapping[str, Check]] = {
    "the SDK": Check.REMOVAL,
    "your set-up code": Check.SETUP,
    "the canary": Check.CANARY,
    "the log canary": Check.LOGS,
}


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What the child is asked to do."""

    app: str | None = None
    """`module` or `module:attribute`."""
    script: str | None = None
    """Path of a file."""
    zero_code: bool = False
    """`opentelemetry-instrument` started the child and has set things up."""
    all_processors: bool = False
    endpoints: bool = False
    """Whether to try the endpoints of exporters that were made in code."""

    @property
    def own(self) -> bool:
        """Whether the provider is the application's."""
        return bool(self.app or self.script or self.zero_code)


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line that the child writes."""

    part: str = ""
    """The part of its work that it begins with."""
    diagnosis: Diagnosis | None = None
    ended: bool = False
    """It has come to its end."""


def trial(
    request: Request, environ: Mapping[str, str], *, command: str | None, timeout_s: float
) -> Iterator[Diagnosis]:
    """Runs the child.

    Args:
        request: what it is asked to do.
        environ: the child's environment.
        command: `opentelemetry-instrument`, to run it under; None to run it as it is.
        timeout_s: how long it may take.
    """
    with tempfile.TemporaryDirectory(prefix="loopguard-doctor-") as folder:
        file = Path(folder) / "found.jsonl"
        started = [command] if command else []
        status = _run(
            [*started, sys.executable, "-m", MODULE, msgspec.json.encode(request).decode(), str(file)],
            environ,
            timeout_s,
        )
        part, ended = "start", False
        for line in _lines(file):
            part = line.part or part
            ended = ended or line.ended
            if line.diagnosis is not None:
                yield line.diagnosis
    if not ended:
        yield _unended(part, status, timeout_s)


def _unended(part: str, status: int | None, timeout_s: float) -> Diagnosis:
    check = _KINDS.get(part, Check.SETUP)
    if status is None:
        return checkup.problem(
            check,
            f"not at an end after {timeout_s:.0f} s, while trying {part}",
            "name code that sets tracing up and returns, or allow more with --timeout",
        )
    what = f"signal {-status}" if status < 0 else f"exit code {status}"
    if part == "start":
        return checkup.problem(
            Check.REMOVAL,
            f"the SDK or this package cannot be imported here ({what})",
            "see `versions` above; `python -c 'import opentelemetry.sdk.trace'` says more",
        )
    return checkup.problem(
        check, f"the process ended with {what} while trying {part}", "name code that sets tracing up and returns"
    )


def _run(command: list[str], environ: Mapping[str, str], timeout_s: float) -> int | None:
    """Runs a command in a session of its own; returns its exit code, or None where its time was up."""
    started = subprocess.Popen(  # noqa: S603 - our own command line
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=dict(environ),
        start_new_session=True,
    )
    try:
        return started.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        _end(started)


def _end(started: subprocess.Popen[bytes]) -> None:
    """Ends what is left of the child's session: servers and workers that the application started."""
    with suppress(ProcessLookupError, PermissionError):  # all of it has ended
        os.killpg(started.pid, signal.SIGKILL)
    started.wait()


def _lines(file: Path) -> Iterator[Line]:
    try:
        text = file.read_text(encoding="utf-8")
    except OSError:
        return
    for line in text.splitlines():
        try:
            yield msgspec.json.decode(line, type=Line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue  # the last line of a process that was ended while it wrote
