"""relapse: going back to a repeat that had been found to be a loop."""

from __future__ import annotations

import pytest

from otel_loopguard.model import DeniedBy, Kind, ResultClass, Severity
from tests.detectors.feeding import Run
from tests.detectors.variants import Record, call, check

KIND = Kind.RELAPSE


def _grep() -> Record:
    return call("grep", {"pattern": "zorb"}, "no match")


def _others(count: int) -> list[Record]:
    return [call("read_text", {"path": f"u{n}"}, f"text number {n}") for n in range(count)]


@pytest.mark.parametrize(("before", "expected"), [(2, None), (3, 10), (4, 11)])
def test_first_return_after_a_loop(before: int, expected: int | None) -> None:
    """Fault "a fresh allowance": after three equal answers and other work, the fourth is a relapse at once."""
    findings = check([*[_grep()] * before, *_others(6), _grep(), _grep()], {KIND: expected})
    assert [(Severity.LOOP, before + 2)] * (expected is not None) == [
        (one.severity, one.count) for one in findings if one.kind is KIND
    ]


def test_return_after_a_failing_loop() -> None:
    """Failures that were a loop are one when they come back."""
    failed = call("open", {"path": "x"}, error="locked by another process")
    check([failed, failed, failed, *_others(2), failed], {Kind.ERROR_REPEAT: 3, KIND: 6})


def test_return_after_an_interleaved_loop() -> None:
    """A chain that was found and then parted by news."""
    run = Run()
    for number in range(3):
        run.call("status", "a", "same")
        run.fail("other", f"{number}")
    run.call("edit", "e", "saved, and here is what the file says now")
    run.call("status", "a", "same")
    assert (5, 8) == (run.first(Kind.INTERLEAVED_REPEAT), run.first(KIND))


def test_all_returns_are_one_finding() -> None:
    """Count and calls go on, and exact_repeat is not found again."""
    run = Run()
    run.repeat(3)
    for number in range(3):
        run.call("read", f"{number}", f"{number}")
        run.repeat(4)
    (found,) = run.found(KIND)
    assert (5, 15) == (found.at_call, found.count)
    assert [(1, 3, 3)] == [(one.first_call, one.at_call, one.count) for one in run.found(Kind.EXACT_REPEAT)]
    assert 14 == len(run.tracker.wasted_calls)


@pytest.mark.parametrize(
    ("tool", "result_class", "severity"),
    [
        ("edit", ResultClass.ACK, Severity.SUSPECT),
        ("edit", ResultClass.SILENCE, Severity.SUSPECT),
        ("edit", ResultClass.CONTENT, Severity.LOOP),
        ("read", ResultClass.ACK, Severity.LOOP),
    ],
)
def test_something_may_have_been_done(tool: str, result_class: ResultClass, severity: Severity) -> None:
    """Only a warning where a call of unknown effect was acknowledged, or said nothing."""
    run = Run()
    run.repeat(3)
    run.call(tool, "b", "done", result_class=result_class)
    run.call()
    assert [(severity, 5)] == [(one.severity, one.at_call) for one in run.found(KIND)]


def test_doubtful_return_and_then_a_sure_one() -> None:
    """Two findings: the suspicion, then the certainty."""
    run = Run()
    run.repeat(3)
    run.call("edit", "b", "done", result_class=ResultClass.ACK)
    run.call()
    run.call("read", "x", "y")
    run.call()
    assert [(Severity.SUSPECT, 5), (Severity.LOOP, 7)] == [(one.severity, one.at_call) for one in run.found(KIND)]


@pytest.mark.parametrize("between", ["write", "user", "attempt"])
def test_cleared_loops_are_forgotten(between: str) -> None:
    """A declared write or a user turn gives a new allowance."""
    run = Run()
    run.repeat(3)
    if between == "write":
        run.call("write", "w", "ok")
    elif between == "user":
        run.user_turn += 1
    else:
        run.attempt = "2"
    run.repeat(2)
    assert {Kind.EXACT_REPEAT} == run.kinds()


def test_another_answer_ends_the_loop() -> None:
    """The call moved on; coming back to what it said before is new."""
    check(
        [*[_grep()] * 3, *_others(1), call("grep", {"pattern": "zorb"}, "one match"), *_others(2), _grep(), _grep()],
        {KIND: None},
    )


def test_return_without_a_loop_is_quiet() -> None:
    """Two equal answers, other work, two more."""
    check([_grep(), _grep(), *_others(9), _grep(), _grep()], {KIND: None})


def test_calls_denied_by_the_guard_count() -> None:
    """A relapse that the guard stopped is one all the same, and cost nothing."""
    run = Run()
    run.repeat(3)
    run.call("read", "x", "y")
    run.refuse(by=DeniedBy.GUARD)
    assert 5 == run.first(KIND)
    assert frozenset({2, 3}) == run.tracker.wasted_calls


def test_other_agents_loops_are_their_own() -> None:
    """That one agent was stuck with a call says nothing of another that makes it."""
    run = Run()
    run.repeat(3, agent="a")
    run.call("read", "x", "y", agent="b")
    run.call(agent="b")
    assert KIND not in run.kinds()
