"""The boundary that keeps our errors from the application."""

from __future__ import annotations

import logging
import os
import sys
import threading

import pytest

from otel_loopguard.processor.boundary import Boundary

CANARY = "kNrY7x"
LOGGER = logging.getLogger("tests.boundary")


def fail(text: str) -> int:
    """Stands for a step that meets content it cannot handle."""
    raise ValueError(text)


def test_what_a_step_gives_comes_back() -> None:
    """A step that works gives its result, and nothing is counted."""
    boundary = Boundary(LOGGER)
    assert 7 == boundary.run("adding", lambda left, right: left + right, 3, 4, otherwise=0)
    assert {} == boundary.failures


def test_a_failure_is_counted_each_time_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """The log has the step, the class and a line of ours, once a step; never the error's text."""
    boundary = Boundary(LOGGER)
    assert [0, 0, 0] == [boundary.run("reading", fail, CANARY, otherwise=0) for _ in range(3)]
    assert 5 == boundary.run("digesting", fail, CANARY, otherwise=5)
    assert {"reading": 3, "digesting": 1} == boundary.failures
    said = [record.getMessage() for record in caplog.records]
    assert ["reading failed: ValueError at ", "digesting failed: ValueError at "] == [
        text.partition("otel_loopguard.processor.boundary:")[0] for text in said
    ]
    assert CANARY not in caplog.text
    assert [None, None] == [record.exc_info for record in caplog.records]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_is_no_exception_passes(error: type[BaseException]) -> None:
    """Exits and interrupts are the application's: they pass and are not counted."""
    boundary = Boundary(LOGGER)

    def stop() -> None:
        raise error

    with pytest.raises(error):
        boundary.run("stopping", stop, otherwise=None)
    assert {} == boundary.failures


def test_an_exception_class_with_an_odd_name_is_not_named(caplog: pytest.LogCaptureFixture) -> None:
    """A class made at run time can carry anything in its name."""
    odd = type(f"{CANARY} of a user", (Exception,), {})

    def step() -> None:
        raise odd

    Boundary(LOGGER).run("reading", step, otherwise=None)
    assert CANARY not in caplog.text
    assert "an exception" in caplog.text


def test_a_log_handler_that_raises_does_not_get_through() -> None:
    """Saying that something failed must not fail the application either."""

    class Refusing(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            raise RuntimeError(record.levelno)

    logger = logging.getLogger("tests.boundary.refusing")
    logger.addFilter(Refusing())
    boundary = Boundary(logger)
    assert 1 == boundary.run("reading", fail, CANARY, otherwise=1)
    assert {"reading": 1} == boundary.failures


def test_failures_of_many_threads_are_all_counted() -> None:
    """No count is lost between threads."""
    boundary = Boundary(LOGGER)

    def many() -> None:
        for _ in range(500):
            boundary.run("reading", fail, CANARY, otherwise=0)

    switching = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=many) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(switching)
    assert {"reading": 4000} == boundary.failures


@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_a_fork_while_another_thread_counts_does_not_hang_the_child() -> None:
    """A lock that was held at the fork is renewed in the child."""
    boundary = Boundary(LOGGER)
    with boundary._lock:  # noqa: SLF001 - as another thread would hold it
        child = os.fork()
        if child == 0:
            boundary.run("reading", fail, CANARY, otherwise=0)
            os._exit(boundary.failures["reading"])
        _, status = os.waitpid(child, 0)
    assert 1 == os.waitstatus_to_exitcode(status)
