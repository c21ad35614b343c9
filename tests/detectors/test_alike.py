"""What the likeness kinds share: nothing they find depends on seeing content, and nothing grows or raises."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_loopguard.detectors.alike import MAX_CHAINS, MAX_DIGESTS, Turns
from otel_loopguard.detectors.args_repeat import ArgsRepeat
from otel_loopguard.detectors.near_repeat import NearRepeat
from otel_loopguard.detectors.near_result import NearResult
from otel_loopguard.detectors.same_result import SameResult
from otel_loopguard.likeness import sketch
from otel_loopguard.model import Basis, Kind, Likenesses, Severity
from tests.detectors.feeding import Run
from tests.detectors.variants import Record, call, check

PAGE = [f"word{n}" for n in range(60)]
QUERIES = st.sampled_from(
    [
        {"q": "list all open invoices of the customer"},
        {"q": "please list all open invoices of the customer"},
        {"q": "now list all the open invoices of the customer"},
        {"q": "list all open invoices of the customer 2"},
        {"q": "list all open invoices of the customer", "top": 1},
        {"q": "invoices"},
    ]
)
RESULTS = st.sampled_from(
    [
        " ".join(PAGE),
        " ".join([*PAGE, "now"]),
        " ".join([*PAGE, "then", "and", "more"]),
        " ".join(["7", *PAGE]),
        " ".join(["9", *PAGE]),
        "Perhaps you often read about sailing",
        "Maybe you often read about sailing",
        "Error: no such customer as that",
        "No results",
        "",
        [],
        {"rows": PAGE},
        "ok",
    ]
)
FIELDS = st.sampled_from(
    [
        {},
        {},
        {},
        {},
        {"agent": "b"},
        {"error": "no such column: invoice"},
        {"error": "no such column: due"},
        {"denied": True},
    ]
)
CALLS = st.lists(
    st.tuples(st.sampled_from(["ask", "ask", "ask", "read"]), QUERIES, RESULTS, FIELDS, st.booleans()),
    min_size=1,
    max_size=30,
)


def _records(calls: list[Any]) -> list[Record]:
    turn, records = 0, []
    for tool, query, result, fields, sibling in calls:
        turn += not (sibling and fields == {})
        records.append(call(tool, query, result, turn=turn, **fields))
    return records


@settings(max_examples=100, deadline=None)
@given(CALLS)
def test_counts_carry_all_that_likeness_shows(calls: list[Any]) -> None:
    """Parity: fed call by call, delivered in any way, or scored from attributes alone, the findings are equal.

    And what rests on likeness says so.
    """
    for finding in check(_records(calls), {}):
        alike = finding.kind in {Kind.NEAR_REPEAT, Kind.NEAR_RESULT, Kind.ARGS_REPEAT}
        assert alike is (finding.basis is Basis.LIKENESS) or finding.kind is Kind.ERROR_CASCADE
        assert finding.kind is not Kind.ARGS_REPEAT or finding.severity is Severity.SUSPECT


@pytest.mark.parametrize("make", [SameResult, NearRepeat, NearResult, ArgsRepeat])
def test_what_is_remembered_is_bounded_and_counted(
    make: type[SameResult | NearRepeat | NearResult | ArgsRepeat],
) -> None:
    """Each forgets the tools and calls used longest ago, and says how many."""
    run, detector = Run(), make()
    run.tracker._always = (detector.judge,)  # noqa: SLF001  # this one detector, behind the real evidence
    run.tracker._judges = (detector.judge,)  # noqa: SLF001
    text = sketch("four words and more")
    for number in range(3 * MAX_CHAINS):
        known = Likenesses(arguments=text, frame="f" * 32, result=text, result_is_text=True)
        run.call(f"tool{number}", f"{number}", f"{number}", likenesses=known, result_words=4)
    assert 2 * MAX_CHAINS <= detector.evicted < 3 * MAX_CHAINS


def test_digests_of_a_finding_are_bounded() -> None:
    """A finding of a thousand requests names sixteen."""
    run = Run()
    for number in range(1_000):
        run.call("find", f"{number}", "nothing", result_words=1)
    (finding,) = run.found(Kind.SAME_RESULT)
    assert (1_000, MAX_DIGESTS, 256) == (finding.count, len(finding.digests), len(finding.calls))


def test_told_counts_decide_over_sketches() -> None:
    """A producer saw the whole content; what is left of it here may be cut."""
    run = Run()
    cut = Likenesses(arguments=sketch("cut"), frame="f" * 32)
    for number in range(1, 6):
        run.call("ask", f"{number}", f"{number}", likenesses=cut, near_repeat_count=number, near_repeat_alike=number)
    assert 4 == run.first(Kind.NEAR_REPEAT)


def test_told_counts_with_a_call_lost() -> None:
    """Fault "counted here": a lost span takes nothing from the count that the producer gave."""
    run = Run()
    for number in (1, 2, 4, 5):
        run.call("ask", f"{number}", f"{number}", near_repeat_count=number, near_repeat_alike=1)
    assert 4 == run.first(Kind.NEAR_REPEAT)
    (finding,) = run.found(Kind.NEAR_REPEAT)
    assert (5, (1, 2, 3, 4)) == (finding.count, finding.calls)


def test_turns_follow_each_agent() -> None:
    """The turn before is the agent's own."""
    run, turns = Run(), Turns()
    for agent in "abab":
        run.call(agent=agent)
    run.call(agent="b", sibling=True)
    assert [-1, -1, 1, 2, 2] == [turns.before(one) for one in run.calls]
