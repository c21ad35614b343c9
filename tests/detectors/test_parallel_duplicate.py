"""parallel_duplicate: equal calls inside one turn, reported only."""

from __future__ import annotations

import pytest

from otel_loopguard.model import Kind, ResultClass, Severity
from tests.detectors.feeding import UNSEEN, Run


@pytest.mark.parametrize(("count", "expected"), [(1, None), (2, 2), (3, 2)])
def test_threshold(count: int, expected: int | None) -> None:
    """The second equal sibling is reported."""
    run = Run()
    for _ in range(count):
        run.call(sibling=True)
    assert expected == run.first(Kind.PARALLEL_DUPLICATE)
    assert [(Severity.REPORT, count, 1)] * (expected is not None) == [
        (finding.severity, finding.count, finding.first_call) for finding in run.tracker.findings()
    ]


def test_equal_writes_are_reported() -> None:
    """Two equal writes at the same instant are a parallel duplicate, no loop."""
    run = Run()
    run.call("write", "R4 at 10", "ok")
    run.call("write", "R4 at 10", "ok", sibling=True)
    assert {Kind.PARALLEL_DUPLICATE} == run.kinds()


def test_every_turn_is_reported_for_itself() -> None:
    """A turn with duplicates is one stretch."""
    run = Run()
    for arguments in "ab":
        run.call(arguments=arguments, result=arguments)
        run.call(arguments=arguments, result=arguments, sibling=True)
    assert [(1, 2), (3, 2)] == [(finding.first_call, finding.count) for finding in run.tracker.findings()]


def test_duplicates_need_not_be_neighbours() -> None:
    """Siblings have no order."""
    run = Run()
    for arguments in "aba":
        run.call(arguments=arguments, sibling=True)
    assert (1, 3) == run.tracker.findings()[0].calls


def test_different_siblings_are_quiet() -> None:
    """Parallel exploration: five different reads in one turn."""
    run = Run()
    for number in range(5):
        run.call("read", f"{number}", "same", sibling=True)
    assert set() == run.kinds()


def test_equal_calls_of_different_turns_are_quiet() -> None:
    """A sequence is another kind's matter."""
    run = Run()
    run.repeat(2)
    assert set() == run.kinds()


def test_equal_siblings_of_different_agents_are_quiet() -> None:
    """Two agents that look at the same thing did not ask twice in one turn."""
    run = Run()
    run.call(agent="a")
    run.call(agent="b")
    assert set() == run.kinds()


def test_declared_parallel_runs_are_quiet() -> None:
    """Rolling dice three times is meant."""
    run = Run()
    for number in range(3):
        run.call("dice", "d6", f"{number}", sibling=True)
    assert set() == run.kinds()


def test_unknown_arguments_are_quiet() -> None:
    """Calls without digest may well differ."""
    run = Run()
    for _ in range(5):
        run.call(arguments=UNSEEN, sibling=True)
    assert set() == run.kinds()


def test_duplicates_of_a_loop_are_wasted_too() -> None:
    """Equal siblings count once for the loop, but each of them was executed."""
    run = Run()
    for _ in range(4):
        run.call()
        run.call(sibling=True)
    (finding,) = run.found(Kind.EXACT_REPEAT)
    assert (4, 5) == (finding.count, finding.at_call)
    assert frozenset(range(3, 9)) <= run.tracker.wasted_calls


def test_silent_siblings_are_reported() -> None:
    """What they answered does not matter."""
    run = Run()
    run.call(result_class=ResultClass.SILENCE)
    run.call(result_class=ResultClass.SILENCE, sibling=True)
    assert {Kind.PARALLEL_DUPLICATE} == run.kinds()
