"""outage: a tool that keeps failing in a way that passes by itself."""

from __future__ import annotations

import pytest

from otel_loopguard.model import ErrorCategory, Kind, Severity
from tests.detectors.feeding import Run
from tests.detectors.variants import Record, call, check

KIND = Kind.OUTAGE
POLICY = 'version: 1\npolicy: t\npolicy_version: 1\nerrors: {transient: ["503", "temporarily unavailable"]}\n'


def _down(number: int) -> Record:
    return call("search", {"q": f"q{number}"}, error=f"service temporarily unavailable, try {number}")


@pytest.mark.parametrize(("count", "expected"), [(3, None), (4, 4), (5, 4)])
def test_fourth_passing_error(count: int, expected: int | None) -> None:
    """Fault "threshold off by one": clients retry three times; the fourth is an outage, and no loop."""
    findings = check([_down(number) for number in range(count)], {KIND: expected}, policy=POLICY)
    assert [(Severity.OUTAGE, count)] * (expected is not None) == [(one.severity, one.count) for one in findings]


def test_equal_calls_are_an_outage_too() -> None:
    """The same request over and over into a dead service is waiting, and no error_repeat."""
    check([_down(1)] * 8, {KIND: 4, Kind.ERROR_REPEAT: None}, policy=POLICY)


def test_recovery_in_time_is_quiet() -> None:
    """Three errors, then an answer; and again."""
    records = [*[_down(n) for n in range(3)], call("search", {"q": "q"}, "found it")] * 3
    check(records, {KIND: None}, policy=POLICY)


def test_nothing_passes_by_itself() -> None:
    """Without a declaration a text never makes an error a passing one."""
    check([_down(1)] * 5, {KIND: None, Kind.ERROR_REPEAT: 3})


def test_other_tools_go_on() -> None:
    """What another tool answers says nothing of this one's recovery."""
    records = [one for n in range(4) for one in (_down(n), call("read", {"n": n}, f"page {n}"))]
    check(records, {KIND: 7}, policy=POLICY)


def test_siblings_count_once() -> None:
    """Six errors of one turn are one attempt."""
    check([{**_down(number), "turn": number // 3} for number in range(9)], {KIND: None}, policy=POLICY)


def test_types_and_other_failures_part() -> None:
    """Another type, or a failure that does not pass, is another story."""
    run = Run()
    for error_type in ("A", "B") * 4:
        run.fail(error_category=ErrorCategory.TRANSIENT, error_type=error_type)
    assert KIND not in run.kinds()
    run = Run()
    for number in range(9):
        category = ErrorCategory.BUSINESS if number % 4 == 3 else ErrorCategory.TRANSIENT
        run.fail(arguments=f"{number}", error_category=category)
    assert KIND not in run.kinds()


def test_user_turn_starts_over() -> None:
    """The user tries again later."""
    run = Run()
    for number in range(8):
        run.user_turn = number // 2
        run.fail(error_category=ErrorCategory.TRANSIENT)
    assert KIND not in run.kinds()
