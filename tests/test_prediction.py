"""Guard decisions as predictions: what a call would complete, the ladder, and that asking changes nothing."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_loopguard import model
from otel_loopguard.model import (
    Action,
    CallFacts,
    Decision,
    DeniedBy,
    Effect,
    ErrorCategory,
    Kind,
    ResultClass,
    ToolCall,
)
from otel_loopguard.observation import Observation
from otel_loopguard.policy import load
from otel_loopguard.tracker import Tracker
from otel_loopguard.verdict import judge
from tests.detectors.feeding import Run, digest, page
from tests.test_tracker import FACTS

HEAD = "version: 1\npolicy: t\npolicy_version: 1\n"
POLICY = (
    HEAD
    + """
noop_tools: [think]
tools:
  read: {effect: read}
  strict: {effect: read, allowed_repeats: 1}
  write: {effect: write}
  pay: {effect: write, business_key: [order], idempotency_key: key, unknown_outcome: allow_same_key}
  safe: {effect: write, business_key: [order], idempotency_key: key}
  poll: {effect: read, polling: {max_unchanged: 3, max_polls: 5, min_interval_s: 5}}
  pages: {effect: read, pagination: {cursor: next, items: "rows[].id"}}
  paid: {max_calls: 2}
  each: {parallel: run}
"""
)


class _Asked:
    """A tracker that is asked before each call, and otherwise what it is."""

    def __init__(self, tracker: Tracker, said: list[Decision]) -> None:
        self._tracker, self._said = tracker, said

    def observe(self, call: ToolCall) -> Observation:
        """Asks, and takes the call in."""
        self._said.append(self._tracker.propose(call))
        return self._tracker.observe(call)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tracker, name)


class Guarded(Run):
    """A run that asks before each call and notes the answer; the call then runs all the same."""

    def __init__(self, policy: str = POLICY) -> None:
        super().__init__(policy)
        self.said: list[Decision] = []
        self.tracker = cast("Tracker", _Asked(self.tracker, self.said))

    def actions(self) -> str:
        """One letter a call: a for allow, w for warn, s for share, d for deny, x for stop."""
        letters = {Action.ALLOW: "a", Action.WARN: "w", Action.SHARE: "s", Action.DENY: "d", Action.STOP: "x"}
        return "".join(letters[decision.action] for decision in self.said)

    def reasons(self) -> list[Kind | None]:
        """The reason of each decision that is not allow."""
        return [decision.reason for decision in self.said if decision.action is not Action.ALLOW]


@pytest.mark.parametrize(
    ("tool", "expected"), [("read", "awdxx"), ("strict", "adxxx"), ("other", "aaaaaawdxx"), ("think", "aaaaaaaaaa")]
)
def test_ladder_of_equal_answers(tool: str, expected: str) -> None:
    """Warn once on the last allowed call, deny, stop; a tool that nobody declared is given seven repeats."""
    run = Guarded()
    run.repeat(len(expected), tool)
    assert expected == run.actions()
    assert {Kind.EXACT_REPEAT} >= set(run.reasons())


@pytest.mark.parametrize(
    ("actions", "expected"),
    [("[deny]", "awdddd"), ("[stop]", "awxxxx"), ("[deny, restrict_tool, stop]", "awddxx")],
)
def test_policys_ladder(actions: str, expected: str) -> None:
    """The steps are the owner's."""
    run = Guarded(POLICY + f"actions: {actions}\n")
    run.repeat(len(expected), "read")
    assert expected == run.actions()


@pytest.mark.parametrize(
    ("result_class", "expected"),
    [(ResultClass.ACK, "aaawdx"), (ResultClass.EMPTY, "aaawdx"), (ResultClass.SILENCE, "aaaaaaaaaaaa")],
)
def test_quiet_answers_keep_their_patience(result_class: ResultClass, expected: str) -> None:
    """What is no finding is no denial."""
    run = Guarded()
    run.repeat(len(expected), "read", result_class=result_class)
    assert expected == run.actions()


def test_failures() -> None:
    """Equal failures are denied, passing ones never."""
    run = Guarded()
    for _ in range(4):
        run.fail("read")
    assert ("awdx", {Kind.ERROR_REPEAT}) == (run.actions(), set(run.reasons()))
    outage = Guarded()
    for _ in range(9):
        outage.fail("read", error_category=ErrorCategory.TRANSIENT)
    assert "a" * 9 == outage.actions()


def test_calls_that_move_are_never_denied() -> None:
    """The same request with something new each time; a warning may be foreseen, and is not sent (see the verdict)."""
    run = Guarded()
    for number in range(30):
        run.call("read", "a", f"{number}")
    assert not {Action.DENY, Action.STOP} & {decision.action for decision in run.said}


def test_denied_calls_stay_in_their_stretch() -> None:
    """A call that the guard denied moves the ladder as one that ran does."""
    run = Guarded()
    run.repeat(2, "read")
    run.refuse("read", by=DeniedBy.GUARD)
    run.refuse("read", by=DeniedBy.GUARD)
    assert "awdx" == run.actions()
    assert 3 == run.first(Kind.EXACT_REPEAT)


def test_relapse_gets_no_fresh_allowance() -> None:
    """Not even where nobody declared the tool."""
    run = Guarded()
    run.repeat(3, "grep")
    run.call("read", "x", "y")
    run.repeat(2, "grep")
    assert ("aaaadx", [Kind.RELAPSE] * 2) == (run.actions(), run.reasons())


def test_doubtful_relapse_is_not_denied() -> None:
    """An acknowledged deed lies between: that is only a suspicion."""
    run = Guarded()
    run.repeat(3, "grep")
    run.call("edit", "x", "done", result_class=ResultClass.ACK)
    run.call("grep")
    assert "aaaaa" == run.actions()


def test_interleaved_standstill() -> None:
    """Failures lie between; reading between is only suspect and never denied."""
    run = Guarded()
    for number in range(4):
        run.call("read", "a", "same")
        run.fail("open", f"{number}")
    assert "aawadaxa" == run.actions()
    assert {Kind.INTERLEAVED_REPEAT} == set(run.reasons())
    news = Guarded()
    for number in range(8):
        news.call("read", "a", "same")
        news.call("read", f"{number}", f"{number}")
    assert "a" * 16 == news.actions()


def test_cycle_of_declared_tools() -> None:
    """The call that would close the third round is denied, after a warning one round before it."""
    run = Guarded()
    for number in range(8):
        run.call("read", "abc"[number % 3], "rst"[number % 3])
    run.call("read", "c", "t")
    assert Kind.CYCLE in run.reasons()
    assert 8 == run.actions().index("d")
    assert "w" == run.actions()[7]


def test_cycle_of_undeclared_tools_has_eight_rounds() -> None:
    """Seven repeats of each call first."""
    run = Guarded()
    for number in range(18):
        run.call("tool", "ab"[number % 2], "rs"[number % 2])
    assert 15 == run.actions().index("d")


def test_handoff_cycle() -> None:
    """Agents that pass the same work round."""
    run = Guarded()
    for number in range(7):
        run.call("read", "ab"[number % 2], "rs"[number % 2], agent="xy"[number % 2])
    assert 6 == run.first(Kind.HANDOFF_CYCLE)
    assert {Action.DENY, Action.STOP} & {decision.action for decision in run.said[:6]}


def test_siblings_never_block_each_other() -> None:
    """Equal siblings share one outcome; different ones all run; a tool that says so runs each."""
    run = Guarded()
    run.repeat(1, "read")
    for _ in range(4):
        run.call("read", sibling=True)
    for number in range(4):
        run.call("read", f"{number}", "r", sibling=True)
    for _ in range(3):
        run.call("each", "x", "y", sibling=True)
    assert "assss" + "aaaa" + "aaa" == run.actions()


def test_writes_are_denied_at_the_second() -> None:
    """And the third stops the run; a different write, another turn of the user, clears."""
    run = Guarded()
    run.repeat(3, "write", "a", "ok")
    assert ("adx", {Kind.DUPLICATE_WRITE}) == (run.actions(), set(run.reasons()))
    other = Guarded()
    for arguments in "abab":
        other.call("write", arguments, "ok")
    other.user_turn = 2
    other.call("write", "b", "ok")
    assert "aaaaa" == other.actions()


@pytest.mark.parametrize(("tool", "key", "expected"), [("pay", "k1", "aa"), ("pay", "k2", "ad"), ("safe", "k1", "ad")])
def test_unknown_outcomes(tool: str, key: str, expected: str) -> None:
    """A retry under an equal key is let through where the owner says so; else nothing is."""
    run = Guarded()
    known: dict[str, Any] = {"business_digest": digest("o1"), "idempotency_digest": digest("k1")}
    run.fail(tool, "1", **known)
    run.call(tool, "2", "ok", **{**known, "idempotency_digest": digest(key)})
    assert expected == run.actions()


def test_undeclared_writes_have_their_repeats() -> None:
    """An annotation makes a finding at the second, and no denial."""
    run = Guarded()
    for _ in range(4):
        run.call("post", "a", "ok", effect=Effect.WRITE, business_digest=digest("b"))
    assert Kind.DUPLICATE_WRITE in run.kinds()
    assert "aaaa" == run.actions()


def test_budgets() -> None:
    """Whatever was asked, with or without arguments."""
    run = Guarded()
    run.call("paid", "1", "1")
    run.call("paid", "2", "2")
    run.call("paid", "3", "3")
    run.call("paid", None, "4")
    assert ("aadx", {Kind.BUDGET}) == (run.actions(), set(run.reasons()))


def test_pollers() -> None:
    """Too soon is denied, unchanged for too long is denied, and too many."""
    run = Guarded()
    for number in range(5):
        run.call("poll", "job", "running", at_s=1 + 10 * number)
    assert ("aawdx", {Kind.STALLED_POLL}) == (run.actions(), set(run.reasons()))
    soon = Guarded()
    soon.call("poll", "job", "1", at_s=1)
    soon.call("poll", "job", "2", at_s=3)
    soon.call("poll", "job", "3", at_s=9)
    assert ("ada", [Kind.POLL_BUDGET]) == (soon.actions(), soon.reasons())
    many = Guarded()
    for number in range(7):
        many.call("poll", "job", f"{number}", at_s=1 + 10 * number)
    assert ("aaaaadx", {Kind.POLL_BUDGET}) == (many.actions(), set(many.reasons()))


def test_pages() -> None:
    """A page that was read before, for the second time in a row."""
    run = Guarded()
    for number in range(4):
        run.call("pages", f"{number}", f"{number}", signals=page(f"i{number}", leads_to=f"{number + 1}"))
    for number in (1, 2, 3):
        run.call("pages", f"{number}", f"{number}", signals=page(f"i{number}", leads_to=f"{number + 1}"))
    assert ("aaaaadx", {Kind.PAGINATION_STALL}) == (run.actions(), set(run.reasons()))


def test_refusals_by_others() -> None:
    """A call that is refused each time is stopped in the end."""
    run = Guarded()
    for _ in range(4):
        run.refuse("read")
    assert ("aadx", {Kind.DENIED_REPEAT}) == (run.actions(), set(run.reasons()))


def test_standstill_of_the_state() -> None:
    """A declared call that left the state as it was would do so again."""
    run = Guarded()
    names = "abcdefgha"
    for name in names:
        run.call("read", name, name, state_digest=digest("s"))
    assert ("aaaaaaaad", [Kind.NO_PROGRESS]) == (run.actions(), run.reasons())


def test_user_turn_clears() -> None:
    """A new question, a new allowance; and a write gives one, too."""
    run = Guarded()
    run.repeat(2, "read")
    run.user_turn = 2
    run.repeat(2, "read")
    run.call("write", "w", "ok")
    run.repeat(2, "read")
    assert "awaw" + "a" + "aw" == run.actions()


def test_verdict_lists_would_be_decisions_up_to_the_first_stop() -> None:
    """Not enforced, with their reasons; a warning only where the result did not change."""
    run = Run(POLICY)
    run.call("read", "b", "1")
    run.call("read", "b", "2")
    run.repeat(6, "read")
    verdict, _ = judge(model.Run(run_id="r", calls=tuple(run.calls)), run.policy)
    assert [(4, "warn", False), (5, "deny", False), (6, "stop", False)] == [
        (entry.call, entry.action, entry.enforced) for entry in verdict.guard
    ]
    assert {"exact_repeat"} == {entry.reason for entry in verdict.guard}
    assert (None, None) == (verdict.dispatch_denied, verdict.guard_fired_at)


def test_entries_of_a_real_guard_stand() -> None:
    """Where one was at work, nothing is made up beside it."""
    run = Run(POLICY)
    run.repeat(2, "read")
    run.refuse("read", by=DeniedBy.GUARD)
    run.repeat(3, "read")
    verdict, _ = judge(model.Run(run_id="r", calls=tuple(run.calls)), run.policy)
    assert [(3, "deny", True)] == [(entry.call, entry.action, entry.enforced) for entry in verdict.guard]


ROWS = st.lists(
    st.tuples(FACTS, st.sampled_from([0, 1, 1]), st.sampled_from(["a", "b", "c"]), st.sampled_from([1, 1, 1, 2])),
    max_size=30,
)


@settings(max_examples=200)
@given(ROWS, ROWS)
def test_asking_changes_nothing(rows: list[Any], asked: list[Any]) -> None:
    """Whatever is proposed between the calls of a run, what is found of it is the same, and nothing is raised."""
    plain, questioned = Tracker(load(POLICY)), Tracker(load(POLICY))
    turn = 1
    for number, (facts, step, agent, user_turn) in enumerate(rows, start=1):
        turn += step
        call = ToolCall(number=number, turn=turn, agent=agent, user_turn=user_turn, facts=facts)
        for other, ahead, name, theirs in asked[:4]:
            questioned.propose(ToolCall(number=number, turn=turn + ahead, agent=name, user_turn=theirs, facts=other))
        first, again = questioned.propose(call), questioned.propose(call)
        assert first == again == plain.propose(call)
        assert plain.observe(call) == questioned.observe(call)
    assert plain.findings() == questioned.findings()
    assert plain.evictions == questioned.evictions


@settings(max_examples=200)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("rs"), st.booleans()), max_size=30))
def test_what_is_denied_would_be_a_finding(actions: list[Any]) -> None:
    """Of declared reading tools: where a call is denied and comes back as it last did, a loop is found or goes on."""
    run = Guarded()
    last: dict[str, str] = {}
    for arguments, result, same in actions:
        result_ = last.get(arguments, result) if same else result
        unchanged = last.get(arguments) == result_
        before = {(finding.kind, finding.first_call): finding.count for finding in run.tracker.findings()}
        run.call("read", arguments, result_)
        last[arguments] = result_
        after = {(finding.kind, finding.first_call): finding.count for finding in run.tracker.findings()}
        refused = run.said[-1].action in {Action.DENY, Action.STOP}
        grown = {kind for (kind, first), count in after.items() if before.get((kind, first), 0) < count}
        if refused and unchanged:
            assert run.said[-1].reason in grown | {Kind.INTERLEAVED_REPEAT, Kind.CYCLE, Kind.EXACT_REPEAT, Kind.RELAPSE}
            assert grown


def test_nothing_is_read_of_what_a_proposed_call_gave_back() -> None:
    """A decision is the same whatever stands in the record of a call that ran later."""
    run = Run(POLICY)
    run.repeat(2, "read")
    bare = CallFacts(
        tool="read", call_digest=digest("read", "a"), effect=Effect.READ, contract=run.calls[0].facts.contract
    )
    rests: list[dict[str, Any]] = [{}, {"result_digest": digest("x")}, {"error_category": ErrorCategory.TRANSIENT}]
    known: dict[str, Any] = {
        "tool": "read",
        "call_digest": digest("read", "a"),
        "key_id": "k1",
        "contract": bare.contract,
    }
    decisions = {
        run.tracker.propose(ToolCall(number=3, turn=9, agent="agent", facts=CallFacts(**known, **rest))).action
        for rest in rests
    }
    assert {Action.DENY} == decisions


def test_own_siblings_of_unknown_effect_part_no_rounds() -> None:
    """What stood beside the last equal call, in its turn that is still open, is no other agent's work."""
    run = Guarded()
    for number in range(3):
        run.call("read", "a", "same")
        run.call("tool", f"{number}", f"{number}", sibling=True)
    assert "awd" == run.actions()[::2]
    assert [Kind.EXACT_REPEAT] * 2 == run.reasons()
