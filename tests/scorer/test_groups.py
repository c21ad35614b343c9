"""Open groups are those of assembly.Grouper, each row is taken once, and each group when it is due."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_loopguard import policy
from otel_loopguard.assembly import Grouper
from otel_loopguard.model import SpanFacts
from otel_loopguard.policy import Scope
from otel_loopguard.scorer.groups import MAX_REST_NS, NS_PER_S, Limits, OpenGroups, joining_names
from otel_loopguard.scorer.records import Close, Pending
from tests.scorer.made_runs import TRACES, made_spans

LIMITS = Limits(grace_ns=5 * NS_PER_S, idle_ns=60 * NS_PER_S, max_age_ns=900 * NS_PER_S, max_spans=100)
ONE, TWO, THREE = TRACES[:3]
SCOPES = {
    scope: policy.load(f'{{"version": 1, "policy": "p", "policy_version": "1", "scope": "{scope}"}}') for scope in Scope
}


def row(
    number: int, trace_id: str = ONE, at: float = 0.0, *, names: Sequence[str] = (), ended: bool = False
) -> Pending:
    """One arrival of ten spans."""
    return Pending(
        row=number,
        trace_id=trace_id,
        received_ns=int(at * NS_PER_S),
        spans=10,
        names=tuple(names),
        root_ended=ended,
    )


def open_groups(*pendings: Pending) -> OpenGroups:
    """An index of some arrivals."""
    groups = OpenGroups(LIMITS)
    for pending in pendings:
        groups.add(pending)
    return groups


def taken(groups: OpenGroups, at: float) -> list[tuple[tuple[int, ...], Close]]:
    """The rows that are due at a time in seconds, and why."""
    return [(due.rows, due.close) for due in groups.due(int(at * NS_PER_S))]


# --- when -------------------------------------------------------------------------------------------------


def test_a_group_whose_root_ended_is_due_after_the_grace_period() -> None:
    """Not a moment before, and once."""
    groups = open_groups(row(1), row(2, at=1.0, ended=True), row(3, at=2.0))
    assert [] == taken(groups, 6.999)
    assert [((1, 2, 3), Close.ROOT_ENDED)] == taken(groups, 7.0)
    assert [] == taken(groups, 10_000.0)
    assert (0, 0) == (groups.spans, groups.groups)


def test_a_group_without_an_ended_root_is_due_when_nothing_came_for_long() -> None:
    """Idle counts from the last span."""
    groups = open_groups(row(1), row(2, at=50.0))
    assert [] == taken(groups, 109.999)
    assert [((1, 2), Close.IDLE)] == taken(groups, 110.0)


def test_a_root_that_ended_does_not_close_a_group_while_another_trace_is_open() -> None:
    """A run over two traces is over when both are."""
    groups = open_groups(row(1, names=["r:job"], ended=True), row(2, TWO, names=["r:job"]))
    assert [] == taken(groups, 59.0)
    groups.add(row(3, TWO, at=59.0, ended=True))
    assert [] == taken(groups, 63.9)
    assert [((1, 2, 3), Close.ROOT_ENDED)] == taken(groups, 64.0)


def test_groups_that_are_joined_wait_for_what_either_waited_for() -> None:
    """An open trace stays open, and neither the first nor the last arrival is forgotten, whichever joins the other."""
    for turn in (1, -1):
        pair = [row(1, names=["r:job"]), row(2, TWO, names=["r:job"], ended=True)][::turn]
        assert [((1, 2), Close.IDLE)] == taken(open_groups(*pair), 60.0)
        assert [] == taken(open_groups(*pair), 59.9)
        ages = [row(1, at=50.0, names=["r:job"]), row(2, TWO, at=10.0, names=["r:job"])][::turn]
        assert [] == taken(open_groups(*ages), 109.9)
        assert [((1, 2), Close.IDLE)] == taken(open_groups(*ages), 110.0)
        old = [row(1, names=["r:job"]), row(2, TWO, at=890.0, names=["r:job"])][::turn]
        assert [((1, 2), Close.AGE_LIMIT)] == taken(open_groups(*old), 900.0)


def test_a_group_that_goes_on_is_due_at_its_age_limit_and_again() -> None:
    """A run of hours is judged every quarter of an hour."""
    wide = OpenGroups(Limits(max_spans=10**6))
    found = []
    for number in range(1, 100):
        wide.add(row(number, at=number * 20.0))
        found += [(rows[0], rows[-1], close) for rows, close in taken(wide, number * 20.0)]
    assert [(1, 46, Close.AGE_LIMIT), (47, 92, Close.AGE_LIMIT)] == found


def test_a_group_at_its_span_limit_is_due_at_once() -> None:
    """At nine tenths it is not."""
    groups = open_groups(*(row(number) for number in range(1, 10)))
    assert [] == taken(groups, 0.0)
    groups.add(row(10))
    assert [(tuple(range(1, 11)), Close.SPAN_LIMIT)] == taken(groups, 0.0)


def test_what_comes_late_for_an_ended_trace_waits_for_the_grace_period_only() -> None:
    """Its root will not end again."""
    groups = open_groups(row(1, ended=True))
    assert [((1,), Close.ROOT_ENDED)] == taken(groups, 5.0)
    groups.add(row(2, at=6.0))
    assert [] == taken(groups, 10.9)
    assert [((2,), Close.ROOT_ENDED)] == taken(groups, 11.0)


def test_a_clock_that_went_back_keeps_nothing_waiting() -> None:
    """An hour back: a group is due when it would be had it come now."""
    groups = open_groups(row(1, at=3600.0, ended=True), row(2, TWO, at=3600.0))
    assert [] == taken(groups, 10.0)
    assert [((1,), Close.ROOT_ENDED)] == taken(groups, 15.0)
    assert [((2,), Close.IDLE)] == taken(groups, 70.0)


def test_how_long_a_group_has_been_due_is_told() -> None:
    """For the judge's lag; nothing where nothing is due."""
    groups = open_groups(row(1, ended=True), *(row(number, TWO, at=3.0) for number in range(2, 12)))
    assert [0, 1, 7] == [groups.overdue_ns(at * NS_PER_S) // NS_PER_S for at in (0, 4, 10)]
    assert [(tuple(range(2, 12)), Close.SPAN_LIMIT), ((1,), Close.ROOT_ENDED)] == taken(groups, 10.0)
    assert ([], 0) == (taken(groups, 100.0), groups.overdue_ns(100 * NS_PER_S))


def test_names_that_rest_hold_what_comes_for_them() -> None:
    """A large group is not judged again for each span; and never for longer than a bound, whatever the clock did."""
    groups = open_groups(row(1, names=["r:all"], ended=True))
    assert [((1,), Close.ROOT_ENDED)] == taken(groups, 5.0)
    groups.rest(["r:all"], until_ns=50 * NS_PER_S)
    groups.add(row(2, TWO, at=6.0, names=["r:all"], ended=True))
    assert [] == taken(groups, 49.9)
    assert [((2,), Close.ROOT_ENDED)] == taken(groups, 50.0)
    groups.rest(["r:all"], until_ns=10**18)
    groups.add(row(3, THREE, at=50.0, names=["r:all"], ended=True))
    assert [((3,), Close.ROOT_ENDED)] == taken(groups, 50.0 + MAX_REST_NS / NS_PER_S)


# --- what -------------------------------------------------------------------------------------------------


def test_the_first_arrival_of_each_trace_is_told() -> None:
    """Whether a run is old goes by it."""
    groups = open_groups(row(1, at=3.0), row(2, at=2.0), row(3, TWO, at=4.0, names=[ONE]))
    (due,) = groups.due(100 * NS_PER_S)
    assert {ONE: 2 * NS_PER_S, TWO: 4 * NS_PER_S} == due.received
    assert (frozenset({ONE, TWO}), 30) == (due.names, due.spans)


def test_a_linked_trace_that_never_comes_is_a_name_and_holds_nothing_open() -> None:
    """A link to somebody else's trace."""
    groups = open_groups(row(1, names=[THREE], ended=True))
    (due,) = groups.due(5 * NS_PER_S)
    assert frozenset({ONE, THREE}) == due.names


def test_a_group_that_was_put_back_is_due_again_with_what_came_since() -> None:
    """Nothing of it is lost, nothing is there twice."""
    groups = open_groups(row(1, names=["r:job"], ended=True), row(2, TWO, names=["r:job"], ended=True))
    (due,) = groups.due(5 * NS_PER_S)
    groups.add(row(3, TWO, at=5.0))
    groups.add(row(4, THREE, at=5.0, names=["r:job"], ended=True))
    groups.put_back(due, until_ns=30 * NS_PER_S)
    assert (40, 1) == (groups.spans, groups.groups)
    assert [] == taken(groups, 29.9)
    assert [((1, 2, 3, 4), Close.ROOT_ENDED)] == taken(groups, 30.0)
    assert (0, 0) == (groups.spans, groups.groups)


@given(made_spans, st.sampled_from(Scope), st.randoms(use_true_random=False), st.data())
def test_traces_are_joined_as_the_grouper_joins_them(
    spans: list[SpanFacts], scope: Scope, chance: random.Random, data: st.DataObject
) -> None:
    """The same partition under every scope, in whatever order and portions the spans come, put back or not."""
    grouper = Grouper(SCOPES[scope])
    nodes = [(span.trace_id, grouper.add(span)) for span in spans]
    expected: dict[int, set[str]] = {}
    for trace_id, node in nodes:
        expected.setdefault(grouper.group(node), set()).add(trace_id)

    chance.shuffle(spans)
    groups = OpenGroups(LIMITS)
    number = 0
    while spans:
        portion = [spans.pop() for _ in range(min(len(spans), data.draw(st.integers(1, 5))))]
        for trace_id in {span.trace_id for span in portion}:
            number += 1
            names = {
                name for span in portion if span.trace_id == trace_id for name in joining_names(span, SCOPES[scope])
            }
            groups.add(row(number, trace_id, names=sorted(names)))
        if data.draw(st.booleans()):
            for due in list(groups.due(100 * NS_PER_S)):
                groups.put_back(due, until_ns=0)
    assert len(expected) == groups.groups
    found = list(groups.due(1000 * NS_PER_S))
    assert sorted(map(sorted, expected.values())) == sorted(sorted(due.received) for due in found)
    assert list(range(1, number + 1)) == sorted(number for due in found for number in due.rows)
    assert (0, 0) == (groups.spans, groups.groups)


@pytest.mark.parametrize(("batch", "most"), [(10, 150.0), (1, 250.0)])
def test_a_million_open_spans_take_little_memory(batch: int, most: float) -> None:
    """Bytes a span with ten spans a trace, which came in one request or in ten; a tenth of a million is measured."""
    tracemalloc.start()
    groups = OpenGroups(LIMITS)
    for trace in range(10_000):
        for part in range(10 // batch):
            groups.add(
                Pending(
                    row=trace * 10 + part + 2**33,
                    trace_id=f"{trace:032x}",
                    received_ns=trace * NS_PER_S // 1000,
                    spans=batch,
                    names=(),
                    root_ended=False,
                )
            )
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 100_000 == groups.spans
    assert held / groups.spans < most
