"""budget: more calls of a tool than its owner allows."""

from __future__ import annotations

import pytest

from otel_loopguard.model import DeniedBy, Kind, Severity
from tests.detectors.feeding import Run
from tests.detectors.variants import Record, call, check

KIND = Kind.BUDGET
HEAD = "version: 1\npolicy: t\npolicy_version: 1\n"
POLICY = HEAD + "tools: {paid: {max_calls: 3}, each: {max_calls: 3, parallel: run}}\n"


def _paid(count: int, **fields: object) -> list[Record]:
    return [call("paid", {"q": f"q{n}"}, f"answer {n}", **fields) for n in range(count)]


@pytest.mark.parametrize(("count", "expected"), [(2, None), (3, None), (4, 4), (5, 4)])
def test_first_call_past_the_budget(count: int, expected: int | None) -> None:
    """Fault "budget off by one": the fourth of three allowed, whatever it asked for."""
    findings = check(_paid(count), {KIND: expected}, policy=POLICY)
    assert [(Severity.BUDGET, count, "max_calls")] * (expected is not None) == [
        (one.severity, one.count, one.rule) for one in findings
    ]


def test_budget_for_every_tool() -> None:
    """In `defaults` it holds for each tool by itself."""
    policy = HEAD + "defaults: {max_calls: 2}\n"
    records = [call(f"tool_{n % 2}", {"n": n}, f"answer {n}") for n in range(6)]
    check(records, {KIND: 5}, policy=policy)


def test_other_tools_and_refused_calls_cost_nothing() -> None:
    """Only what reached the tool is paid for."""
    refused = call("paid", {"q": "x"}, None, error="denied", denied=True)
    check([*_paid(3), *[call("free", {"n": n}, f"{n}") for n in range(9)], refused], {KIND: None}, policy=POLICY)


def test_no_budget_no_finding() -> None:
    """Nothing is counted that nobody declared."""
    check(_paid(50), {KIND: None})


def test_equal_siblings_are_one_call() -> None:
    """They share one outcome, unless the tool runs each of them."""
    for tool, expected in (("paid", None), ("each", 4)):
        run = Run(POLICY)
        for _ in range(6):
            run.call(tool, "a", "r", sibling=True)
        run.call(tool, "b", "r")
        assert (expected is not None) is (KIND in run.kinds()), tool


def test_user_turn_gives_no_new_budget() -> None:
    """It is the run's."""
    run = Run(POLICY)
    for number in range(4):
        run.user_turn = number
        run.call("paid", f"{number}", f"{number}")
    assert 4 == run.first(KIND)


def test_calls_without_arguments_are_paid_for() -> None:
    """The tool is known, so the call counts."""
    run = Run(POLICY)
    for number in range(4):
        run.call("paid", None, f"{number}")
    assert 4 == run.first(KIND)


def test_calls_that_the_guard_denied_are_free() -> None:
    """They did not run."""
    run = Run(POLICY)
    for number in range(9):
        run.refuse("paid", f"{number}", by=DeniedBy.GUARD)
    assert KIND not in run.kinds()
