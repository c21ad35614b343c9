"""denied_repeat: one call that is proposed again and again although it is refused."""

from __future__ import annotations

import pytest

from otel_loopguard.model import DeniedBy, Kind, Severity
from tests.detectors.feeding import Run
from tests.detectors.variants import Record, call, check

KIND = Kind.DENIED_REPEAT


def _refused(line: str = "history show") -> Record:
    return call("shell", {"line": line}, None, error="denied: needs approval", denied=True)


@pytest.mark.parametrize(("count", "expected"), [(2, None), (3, 3), (4, 3)])
def test_third_refusal(count: int, expected: int | None) -> None:
    """Fault "threshold off by one": refused three times is a loop, and nothing was wasted."""
    findings = check([_refused()] * count, {KIND: expected})
    assert [(Severity.LOOP, count)] * (expected is not None) == [(one.severity, one.count) for one in findings]


def test_whatever_lies_between() -> None:
    """Other work between the refusals does not make the third more promising."""
    news = [call("read", {"n": n}, f"page {n}") for n in range(12)]
    check([_refused(), *news[:6], _refused(), *news[6:], _refused()], {KIND: 15})


def test_other_arguments_are_quiet() -> None:
    """Asking for something else each time is looking for a way."""
    check([_refused(f"line {number}") for number in range(9)], {KIND: None})


def test_call_that_got_through_starts_over() -> None:
    """Approved once: the refusals before it are settled."""
    run = Run()
    run.refuse()
    run.refuse()
    run.call()
    run.refuse()
    run.refuse()
    assert KIND not in run.kinds()
    run.refuse()
    assert 6 == run.first(KIND)


@pytest.mark.parametrize("between", ["write", "user"])
def test_user_turn_and_write_start_over(between: str) -> None:
    """The user may have given leave."""
    run = Run()
    for number in range(6):
        run.refuse()
        if between == "user":
            run.user_turn += 1
        else:
            run.call("write", f"{number}", "ok")
    assert KIND not in run.kinds()


def test_siblings_count_once() -> None:
    """Five equal proposals of one response are one."""
    check([{**_refused(), "turn": 1} for _ in range(5)], {KIND: None})


def test_guards_own_denials_are_others() -> None:
    """They stay in the stretch for which the guard denied."""
    run = Run()
    run.call()
    for _ in range(5):
        run.refuse(by=DeniedBy.GUARD)
    assert KIND not in run.kinds()
    assert 3 == run.first(Kind.EXACT_REPEAT)


def test_tools_own_patience() -> None:
    """`allowed_repeats` holds for refusals, too."""
    for tool, expected in (("strict", 2), ("patient", 5)):
        run = Run()
        for _ in range(6):
            run.refuse(tool)
        assert expected == run.first(KIND)
