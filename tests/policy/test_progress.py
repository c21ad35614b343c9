"""Progress rules at their boundaries, alone and together."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_loopguard.errors import LoopGuardError
from otel_loopguard.model import Progress, Signals
from otel_loopguard.policy import ToolContract, default
from otel_loopguard.policy.progress import ProgressRule, Rule
from tests.policy.made import DIGESTS, FakeDigests, contract

A, U, Q = Progress.ADVANCED, Progress.UNCHANGED, Progress.UNKNOWN


def judged(tool: ToolContract, before: Any, now: Any, seen: frozenset[int] = frozenset()) -> Progress:
    """What the tool's rules say of two results."""
    first, second = (tool.signals({}, result, DIGESTS) for result in (before, now))
    return tool.compare(first, second, seen)[0]


@pytest.mark.parametrize(
    ("rule", "before", "now", "expected"),
    [
        ({"rule": "increases"}, 7, 8, A),
        ({"rule": "increases"}, 7, 7, U),
        ({"rule": "increases"}, 7, 7.0, U),
        ({"rule": "increases"}, 7, 6, U),
        ({"rule": "increases"}, 7, 7.5, A),
        ({"rule": "increases"}, False, True, Q),
        ({"rule": "increases"}, 0, True, Q),
        ({"rule": "increases"}, "7", "8", Q),
        ({"rule": "increases"}, 7, None, Q),
        ({"rule": "increases"}, None, 7, Q),
        ({"rule": "increases"}, 7, float("inf"), Q),
        ({"rule": "increases"}, 7, float("nan"), Q),
        ({"rule": "increases"}, 2**63 - 2, 2**63 - 1, A),
        ({"rule": "increases"}, 2**63 - 1, 2**63, Q),
        ({"rule": "increases"}, 7, 10**400, Q),
        ({"rule": "changes"}, "a", "b", A),
        ({"rule": "changes"}, "a", "a", U),
        ({"rule": "changes"}, {"x": [1]}, {"x": [2]}, A),
        ({"rule": "changes"}, True, 1, A),
        ({"rule": "changes"}, "a", None, Q),
        ({"rule": "shrinks"}, [1, 2], [3], A),
        ({"rule": "shrinks"}, [1, 2], [3, 4], U),
        ({"rule": "shrinks"}, [1], [3, 4], U),
        ({"rule": "shrinks"}, [1], [], A),
        ({"rule": "shrinks"}, {"a": 1}, {}, A),
        ({"rule": "shrinks"}, 3, 2, A),
        ({"rule": "shrinks"}, "abc", "ab", Q),
        ({"rule": "shrinks"}, [1], None, Q),
        ({"in_order": ["queued", "running", "complete"]}, "queued", "running", A),
        ({"in_order": ["queued", "running", "complete"]}, "queued", "complete", A),
        ({"in_order": ["queued", "running", "complete"]}, "running", "running", U),
        ({"in_order": ["queued", "running", "complete"]}, "running", "queued", U),
        ({"in_order": ["queued", "running", "complete"]}, "running", "lost", Q),
        ({"in_order": ["queued", "running", "complete"]}, "lost", "running", Q),
        ({"in_order": [1, True]}, 1, True, A),
        ({"in_order": [0.5, 1.5]}, 0.5, 1.5, A),
        ({"in_order": ["a"]}, ["a"], ["a"], Q),
        ({"reaches": ["complete"]}, "running", "complete", A),
        ({"reaches": ["complete"]}, "complete", "complete", U),
        ({"reaches": ["complete"]}, "running", "stopped", U),
        ({"reaches": ["complete"]}, "complete", "running", U),
        ({"reaches": ["complete"]}, "running", None, Q),
        ({"reaches": [1]}, 0, True, U),
        ({"rule": "new_items"}, [1], [1, 2], A),
        ({"rule": "new_items"}, [1], None, Q),
        ({"rule": "new_items"}, None, [1], A),
        ({"rule": "new_items"}, [1], [], U),
        ({"rule": "new_items"}, (), (1, 2), A),
    ],
    ids=repr,
)
def test_one_rule_at_its_boundary(rule: dict[str, Any], before: Any, now: Any, expected: Progress) -> None:
    """Equal is not progress, back is not progress, a bool is no number, and what is absent is unknown."""
    assert expected is judged(contract(progress=[{"path": "v", **rule}]), {"v": before}, {"v": now})


def test_a_tuple_holds_items_as_a_list_does() -> None:
    """A value that was no JSON text may hold tuples."""
    tool = contract(progress=[{"path": "v", "rule": "new_items"}])
    listed, tupled = (tool.signals({}, {"v": v}, DIGESTS) for v in ([1, 2], (1, 2)))
    assert listed == tupled


@pytest.mark.parametrize(
    ("rule", "before", "now", "expected"),
    [
        (Rule.CHANGES, (1,), (2,), Q),
        (Rule.CHANGES, "a", (2,), Q),
        (Rule.INCREASES, (1,), 2, Q),
        (Rule.INCREASES, 1, (2,), Q),
        (Rule.INCREASES, 1, "a", A),
        (Rule.SHRINKS, "a", 1, A),
        (Rule.NEW_ITEMS, 1, 2, A),
        (Rule.NEW_ITEMS, None, 2, Q),
        (Rule.NEW_ITEMS, None, (2,), A),
    ],
)
def test_marks_of_any_kind_can_be_compared(rule: Rule, before: Any, now: Any, expected: Progress) -> None:
    """Marks arrive from other processes too: of whatever kind they are, comparing them raises nothing."""
    assert expected is ProgressRule(rule=rule, name="v").judge(before, now, frozenset())


def test_new_items_are_new_to_the_run() -> None:
    """An item seen two pages ago is not new, although the page before did not hold it."""
    tool = contract(progress=[{"path": "ids", "rule": "new_items"}])
    pages = [tool.signals({}, {"ids": ids}, DIGESTS) for ids in ([1, 2], [3], [1], [1, 4])]
    seen: set[int] = set()
    found = []
    for before, now in zip([None, *pages], pages, strict=False):
        found.append(tool.compare(before, now, seen)[0])
        assert now is not None
        seen.update(now.items or ())
    assert [A, A, U, A] == found


def test_equal_ids_of_two_lists_are_two_items() -> None:
    """Case 7 in one list says nothing about case 7 in another."""
    tool = contract(progress=[{"path": "a", "rule": "new_items"}, {"path": "b", "rule": "new_items"}])
    first = tool.signals({}, {"a": [7], "b": []}, DIGESTS)
    second = tool.signals({}, {"a": [], "b": [7]}, DIGESTS)
    assert first is not None
    assert (A, "b new_items") == tool.compare(first, second, frozenset(first.items or ()))


def test_too_many_items_are_unknown() -> None:
    """A list that is cut could hide the new one, so none of it counts."""
    tool = contract(progress=[{"path": "ids", "rule": "new_items"}])
    assert A is judged(tool, {"ids": []}, {"ids": list(range(10_000))})
    assert Q is judged(tool, {"ids": []}, {"ids": list(range(10_001))})


def test_several_rules_need_one_that_advanced() -> None:
    """Any advanced is progress; all unchanged is none; anything else is unknown; the rule that decided is named."""
    tool = contract(progress=[{"path": "n", "rule": "increases"}, {"path": "s", "rule": "changes"}])

    def both(before: Any, now: Any) -> tuple[Progress, str | None]:
        return tool.compare(tool.signals({}, before, DIGESTS), tool.signals({}, now, DIGESTS))

    assert (A, "s changes") == both({"n": 1, "s": "a"}, {"n": 1, "s": "b"})
    assert (A, "n increases") == both({"n": 1, "s": "a"}, {"n": 2, "s": "b"})
    assert (A, "n increases") == both({"n": 1}, {"n": 2})
    assert (U, "n increases") == both({"n": 1, "s": "a"}, {"n": 1, "s": "a"})
    assert (Q, "s changes") == both({"n": 1, "s": "a"}, {"n": 1})
    assert (Q, "n increases") == both({}, {})


def test_without_rules_there_is_nothing_to_say() -> None:
    """(UNKNOWN, None) sends the caller to the results themselves."""
    plain = default().contract("t")
    assert plain.signals({}, {"v": 1}, DIGESTS) is None
    assert (Q, None) == plain.compare(None, None)
    assert not plain.has_progress
    assert not contract(polling={}).has_progress


def test_a_lost_result_is_unknown() -> None:
    """Declared rules and no signals: unknown, and the rule says so."""
    tool = contract(progress=[{"path": "v", "rule": "changes"}])
    known = tool.signals({}, {"v": 1}, DIGESTS)
    assert (Q, "v changes") == tool.compare(known, None)
    assert (Q, "v changes") == tool.compare(None, known)


def test_marks_of_another_policy_are_not_compared() -> None:
    """After a policy change the same place holds another rule."""
    before = contract(progress=[{"path": "a", "rule": "increases"}]).signals({}, {"a": 1}, DIGESTS)
    tool = contract(progress=[{"path": "b", "rule": "increases"}])
    assert Q is tool.compare(before, tool.signals({}, {"b": 2}, DIGESTS))[0]


def test_a_poller_advances_with_its_state() -> None:
    """A changed state or a terminal one is progress; the terminal flag is told apart."""
    tool = contract(polling={"state": "status", "terminal": ["complete", "failed"]})
    results = [{"status": "queued"}, {"status": "queued"}, {"status": "running"}, {"status": "complete"}, {}]
    signals = [tool.signals({}, result, DIGESTS) for result in results]
    assert [False, False, False, True, None] == [one.terminal for one in signals if one is not None]
    compared = [tool.compare(*pair) for pair in pairwise(signals)]
    assert [(U, "status changes"), (A, "status changes"), (A, "status changes"), (Q, "status changes")] == compared
    assert U is judged(tool, {"status": "complete"}, {"status": "complete"})


def test_a_poller_without_terminal_states_never_ends() -> None:
    """Not declared is not known."""
    signals = contract(polling={"state": "s"}).signals({}, {"s": 1}, DIGESTS)
    assert signals is not None
    assert signals.terminal is None


def test_a_pager_advances_with_new_items() -> None:
    """The items decide where they are declared; the cursor that the page leads to is kept beside them."""
    tool = contract(pagination={"cursor": "next", "items": "cases[].id"})
    first = tool.signals({}, {"cases": [{"id": 1}, {"id": 2}], "next": "p2"}, DIGESTS)
    second = tool.signals({}, {"cases": [{"id": 3}], "next": None}, DIGESTS)
    assert first is not None
    assert second is not None
    assert (DIGESTS.state("p2"), None) == (first.cursor, second.cursor)
    assert 2 == len(first.items or ())
    assert (A, "cases[].id new_items") == tool.compare(first, second, frozenset(first.items or ()))
    assert (U, "cases[].id new_items") == tool.compare(first, first, frozenset(first.items or ()))
    assert Q is tool.compare(first, tool.signals({}, "no page", DIGESTS), frozenset())[0]


def test_a_pager_without_items_advances_with_its_cursor() -> None:
    """An equal call that leads elsewhere has moved; a last page without cursor is for its result to judge."""
    tool = contract(pagination={"cursor": "next"})
    one, two, last = (tool.signals({}, {"next": cursor}, DIGESTS) for cursor in ("p2", "p3", ""))
    assert (A, "next changes") == tool.compare(one, two)
    assert (U, "next changes") == tool.compare(one, one)
    assert (Q, None) == tool.compare(last, last)
    assert (Q, None) == tool.compare(one, last)
    assert (Q, None) == tool.compare(last, one)
    assert (Q, None) == tool.compare(None, one)


def test_items_outvote_the_cursor() -> None:
    """A page that leads elsewhere without a new item is no progress: the cursor may change by itself."""
    tool = contract(pagination={"cursor": "next", "items": "ids"})
    one, two = (tool.signals({}, {"ids": [1], "next": cursor}, DIGESTS) for cursor in ("p2", "p3"))
    assert one is not None
    assert (U, "ids new_items") == tool.compare(one, two, frozenset(one.items or ()))


def test_parts_that_are_not_declared_say_nothing() -> None:
    """A poller without a state and a pager without a cursor leave the judgement to what is declared beside them."""
    for tool in (
        contract(polling={}, progress=[{"path": "v", "rule": "increases"}]),
        contract(pagination={"items": "v"}),
    ):
        one, two = (tool.signals({}, {"v": v}, DIGESTS) for v in (1, 2))
        assert one is not None
        assert (None, None, None) == (one.state, one.terminal, one.cursor)
        assert A is tool.compare(one, two, frozenset(one.items or ()))[0]


def test_signals_that_nobody_declared_are_not_compared() -> None:
    """A cursor that another producer reports about a tool without rules is left to the results."""
    one, two = (contract(pagination={"cursor": "next"}).signals({}, {"next": to}, DIGESTS) for to in ("p2", "p3"))
    assert (Q, None) == default().contract("t").compare(one, two)


def test_a_state_needs_one_before_it() -> None:
    """The first state is no change, and neither is one that was or is not there."""
    tool = contract(polling={"state": "s"})
    known, unknown = (tool.signals({}, result, DIGESTS) for result in ({"s": "running"}, {}))
    for before, now in ((None, known), (unknown, known), (known, unknown), (unknown, unknown)):
        assert (Q, "s changes") == tool.compare(before, now)


def test_a_function_gives_one_scalar() -> None:
    """A callable rule sees arguments and result; whatever it raises or returns amiss is unknown."""

    def total(arguments: Any, result: Any) -> Any:
        return arguments["base"] + result["n"]

    def fail(_arguments: Any, _result: Any) -> Any:
        raise SystemError

    def odd(_arguments: Any, _result: Any) -> Any:
        return object()

    def half(_arguments: Any, result: Any) -> Any:
        return result["n"] / 2

    halved = contract({"half": half}.get, progress=[{"callable": "half", "rule": "increases"}])
    assert A is judged(halved, {"n": 1}, {"n": 2})
    functions = {"total": total, "fail": fail, "odd": odd}
    tool = contract(functions.get, progress=[{"callable": "total", "rule": "increases"}])
    one, two = (tool.signals({"base": 1}, {"n": n}, DIGESTS) for n in (1, 2))
    assert (A, "total increases") == tool.compare(one, two)
    assert (Q, "total increases") == tool.compare(one, tool.signals(None, None, DIGESTS))
    for name in ("fail", "odd"):
        for rule in ("increases", "changes", "shrinks", "new_items"):
            tool = contract(functions.get, progress=[{"callable": name, "rule": rule}])
            assert Q is judged(tool, {"n": 1}, {"n": 2})


def test_values_without_a_canonical_form_are_unknown() -> None:
    """A digest that cannot be made is no mark, and no exception."""

    class Refusing(FakeDigests):
        def state(self, value: Any) -> str:
            raise LoopGuardError(type(value).__name__)

    tool = contract(
        polling={"state": "v"}, progress=[{"path": "v", "rule": "changes"}, {"path": "v", "rule": "new_items"}]
    )
    signals = tool.signals({}, {"v": 1}, Refusing())
    assert signals is not None
    assert (None, None, None) == (signals.state, signals.items, signals.marks[0].value)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda x: st.lists(x, max_size=3) | st.dictionaries(st.sampled_from("abv"), x, max_size=3), max_leaves=6))  # fmt: skip  # noqa: E501
def test_no_result_makes_a_rule_raise_or_advance_over_itself(result: Any) -> None:
    """Whatever a tool returns: signals and a comparison; a result never advances over an equal one."""
    tool = contract(
        progress=[
            {"path": "v", "rule": "increases"},
            {"path": "a.b", "rule": "changes"},
            {"path": "[*].v", "rule": "shrinks"},
            {"path": "[].a", "rule": "new_items"},
            {"path": "max(v)", "rule": "increases"},
            {"path": "v[?a > `1`] | length(@)", "rule": "increases"},
            {"path": "v", "in_order": [1, "a"]},
        ],
    )
    signals = tool.signals(result, result, DIGESTS)
    assert signals is not None
    assert A is not tool.compare(signals, signals, frozenset(signals.items or ()))[0]


@pytest.mark.parametrize("value", [2**63 - 1, 2**63, -(2**64), 10**30])
def test_marks_fit_where_facts_are_kept(value: int) -> None:
    """A version of thirty digits must not stop the replay that spills it."""
    signals = contract(progress=[{"path": "v", "rule": "increases"}]).signals({}, {"v": value}, DIGESTS)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(signals), type=Signals) == signals
