"""The tracker: what it asks of runs with gaps, that runs and agents do not mix, and that nothing grows or raises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_loopguard import detectors
from otel_loopguard.detectors import DETECTORS
from otel_loopguard.model import (
    CallFacts,
    DeniedBy,
    Effect,
    ErrorCategory,
    Extent,
    Kind,
    Mark,
    Outcome,
    Pattern,
    Progress,
    ResultClass,
    Severity,
    Signals,
    ToolCall,
    Unknown,
)
from otel_loopguard.observation import Limits, Observation
from otel_loopguard.policy import load
from otel_loopguard.tracker import Tracker
from tests.detectors.feeding import POLICY, UNSEEN, Run, digest, item, page, state

# --- would_complete: unscorable ---------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "expected"), [(2, None), (3, 3), (8, 3)])
def test_calls_without_anything_known_would_complete_a_repeat(count: int, expected: int | None) -> None:
    """Fault "threshold off by one": three calls of one tool of which nothing is known could be a loop, two not."""
    run = Run()
    run.repeat(count, "tool", UNSEEN, UNSEEN)
    found = run.tracker.would_complete
    assert expected == (found and found.call)
    assert set() == run.kinds()


def test_reason_says_why_a_call_is_unknown() -> None:
    """Truncated arguments are another reason than missing ones."""
    run = Run()
    run.repeat(3, "tool", UNSEEN, "same", call_unknown=Unknown.TRUNCATED)
    found = run.tracker.would_complete
    assert found is not None
    assert ("tool", Unknown.TRUNCATED) == (found.tool, found.reason)


def test_equal_calls_without_results_would_complete_a_repeat() -> None:
    """Equal arguments and no result, three times."""
    run = Run()
    run.repeat(3, "tool", "a", UNSEEN)
    found = run.tracker.would_complete
    assert found is not None
    assert (3, Unknown.NOT_CAPTURED) == (found.call, found.reason)


def test_known_and_unknown_calls_mix() -> None:
    """Two unchanged answers and a third that was not captured could be a loop."""
    run = Run()
    run.repeat(2)
    run.call(result=UNSEEN)
    assert run.tracker.would_complete is not None


@pytest.mark.parametrize("known", [{"arguments": UNSEEN}, {"result": UNSEEN}])
def test_what_is_known_to_differ_is_no_repeat(known: dict[str, Any]) -> None:
    """Arguments that differ without results, or results that differ without arguments, cannot be a loop."""
    run = Run()
    for number in range(20):
        run.call("tool", **{"arguments": f"{number}", "result": f"{number}", **known})
    assert run.tracker.would_complete is None


def test_known_difference_breaks_the_chain() -> None:
    """Unknown equals anything, but not two different things at once."""
    run = Run()
    for arguments in ("a", UNSEEN, "b", UNSEEN, "c", UNSEEN, "d"):
        run.call("tool", arguments, UNSEEN)
    found = run.tracker.would_complete
    assert found is not None
    assert 4 == found.call


@pytest.mark.parametrize("words", [("a", UNSEEN, "b"), ("a", "b", UNSEEN), (UNSEEN, "a", "b")])
def test_chain_needs_one_value_for_all(words: tuple[str | None, ...]) -> None:
    """Wherever the unknown call stands, no three calls are equal of which two differ."""
    for unknown in ({"result": UNSEEN}, {"result": "same"}):
        run = Run()
        for arguments in words:
            run.call("tool", arguments, **unknown)
        assert run.tracker.would_complete is None
    run = Run()
    for result in words:
        run.call("tool", UNSEEN, result)
    assert run.tracker.would_complete is None


def test_denied_call_breaks_the_chain() -> None:
    """A refused call is known to have given nothing."""
    run = Run()
    for _ in range(4):
        run.repeat(2, "tool", UNSEEN, UNSEEN)
        run.refuse("tool", UNSEEN)
    assert run.tracker.would_complete is None


def test_other_tool_breaks_the_chain() -> None:
    """Unknown calls of two tools in turn are no repeat; three rounds of them would be a cycle."""
    run = Run()
    for _ in range(2):
        run.call("one", UNSEEN, UNSEEN)
        run.call("two", UNSEEN, UNSEEN)
    run.call("one", UNSEEN, UNSEEN)
    assert run.tracker.would_complete is None
    run.call("two", UNSEEN, UNSEEN)
    assert run.tracker.would_complete is not None
    assert 6 == run.tracker.would_complete.call


def test_cycle_with_one_unknown_call() -> None:
    """Eleven known calls of a cycle and an unknown one in its place."""
    run = Run()
    for number in range(12):
        name = "abcd"[number % 4]
        run.call(f"tool_{name}", UNSEEN if number == 6 else name, name)
    assert run.tracker.would_complete is not None
    assert 12 == run.tracker.would_complete.call
    assert Kind.CYCLE not in run.kinds()


def test_silent_cycle_is_not_supposed() -> None:
    """What would be no cycle if all were known is none where arguments are unknown."""
    run = Run()
    for number in range(20):
        run.call(("press", "wait")[number % 2], UNSEEN, "", result_class=ResultClass.SILENCE)
    assert run.tracker.would_complete is None


def test_user_turn_and_agents_part_the_chain() -> None:
    """What no repeat may span, no supposed repeat may."""
    turns = Run()
    for turn in (1, 1, 2, 2, 3, 3):
        turns.user_turn = turn
        turns.call("tool", UNSEEN, UNSEEN)
    assert turns.tracker.would_complete is None
    agents = Run()
    for agent in "aabbcc":
        agents.call("tool", UNSEEN, UNSEEN, agent=agent)
    assert agents.tracker.would_complete is None


def test_siblings_are_no_chain() -> None:
    """Eight unknown calls of one turn are one round."""
    run = Run()
    for _ in range(8):
        run.call("tool", UNSEEN, UNSEEN, sibling=True)
    assert run.tracker.would_complete is None


@pytest.mark.parametrize(
    ("result_class", "expected"), [(ResultClass.ACK, 5), (ResultClass.EMPTY, 5), (ResultClass.SILENCE, None)]
)
def test_known_classes_keep_their_thresholds(result_class: ResultClass, expected: int | None) -> None:
    """What a known answer says little of takes as long without arguments."""
    run = Run()
    run.repeat(20, "tool", UNSEEN, "ok", result_class=result_class)
    found = run.tracker.would_complete
    assert expected == (found and found.call)


def test_poller_without_results_keeps_its_patience() -> None:
    """Eleven polls of unknown answer could be a stalled poll, ten not."""
    run = Run()
    run.repeat(10, "poll", "job", UNSEEN)
    assert run.tracker.would_complete is None
    run.call("poll", "job", UNSEEN)
    assert run.tracker.would_complete is not None


def test_transient_failures_are_no_chain() -> None:
    """An outage is no loop, whatever the arguments were."""
    run = Run()
    for _ in range(9):
        run.fail("tool", UNSEEN, error_category=ErrorCategory.TRANSIENT)
    assert run.tracker.would_complete is None


def test_known_runs_are_scorable() -> None:
    """Where everything is known, nothing is supposed, loop or not."""
    run = Run()
    run.repeat(12)
    run.repeat(12, result_class=ResultClass.SILENCE)
    assert run.tracker.would_complete is None


# --- runs and agents do not mix ------------------------------------------------------------------------

ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["tool", "read", "poll", "think"]),
        st.sampled_from(["a", "b", UNSEEN]),
        st.sampled_from(["r", "s", UNSEEN]),
        st.booleans(),
    ),
    max_size=25,
)


@given(ACTIONS, ACTIONS, st.randoms(use_true_random=False))
def test_interleaved_agents_keep_their_findings(first: list[Any], second: list[Any], order: Any) -> None:
    """Another agent's declared reads never change what is found of an agent, but for circles of both."""
    alone = _play([("a", action) for action in first])
    mixed = [("a", action) for action in first]
    for action in second:
        mixed.insert(order.randint(0, len(mixed)), ("b", action))
    both = _play(_whole_turns(mixed, first, second))
    assert _shape(alone, "a") == _shape(both, "a")


def _whole_turns(mixed: list[Any], first: list[Any], second: list[Any]) -> list[Any]:
    """The agents' own orders, without a turn being torn apart: a sibling follows its turn at once."""
    left = {"a": list(first), "b": list(second)}
    made: list[Any] = []
    for agent, _ in mixed:
        while left[agent]:
            made.append((agent, left[agent].pop(0)))
            if not (left[agent] and left[agent][0][3]):
                break
    return made


def _play(actions: list[tuple[str, Any]]) -> Run:
    run = Run()
    last = None
    for agent, (tool, arguments, result, sibling) in actions:
        effect = Effect.READ if agent == "b" else Effect.UNKNOWN
        run.call(tool, arguments, result, agent=agent, effect=effect, sibling=sibling and agent == last)
        last = agent
    return run


def _shape(run: Run, agent: str) -> list[Any]:
    """An agent's findings, its calls counted by their place among its own."""
    own = {call.number: place for place, call in enumerate((c for c in run.calls if c.agent == agent), start=1)}
    return sorted(
        (finding.kind, finding.count, finding.period, [own[number] for number in finding.calls], own[finding.at_call])
        for finding in run.tracker.findings()
        if finding.agent == agent and finding.kind is not Kind.HANDOFF_CYCLE
    )


@given(ACTIONS)
def test_duplicated_siblings_change_no_loop(actions: list[Any]) -> None:
    """Asking for each call twice in its turn adds parallel duplicates, and no other finding."""
    once, twice = Run(), Run()
    for tool, arguments, result, sibling in actions:
        once.call(tool, arguments, result, sibling=sibling)
        twice.call(tool, arguments, result, sibling=sibling)
        twice.call(tool, arguments, result, sibling=True)
    counted = [
        [(f.kind, f.count) for f in r.tracker.findings() if f.severity is not Severity.REPORT] for r in (once, twice)
    ]
    assert counted[0] == counted[1]


@given(ACTIONS)
def test_runs_are_independent_and_repeatable(actions: list[Any]) -> None:
    """The same calls give the same observations and findings, whatever else was tracked meanwhile."""
    first = _play([("a", action) for action in actions])
    second = Tracker(first.policy)
    other = Tracker(first.policy)
    seen = []
    for call in first.calls:
        other.observe(call)
        other.observe(call)
        seen.append(second.observe(call))
    assert first.seen == seen
    assert first.tracker.findings() == second.findings()


# --- what a producer computed is enough -------------------------------------------------------------------


def _without_content(call: ToolCall, seen: Observation) -> ToolCall:
    """The call as a scorer gets it: the producer's progress in place of the signals."""
    facts = msgspec.structs.replace(
        call.facts,
        signals=None,
        progress=seen.progress,
        progress_rule=seen.rule,
        terminal=seen.terminal,
        new_items=seen.new_items,
        covered=seen.covered,
    )
    return msgspec.structs.replace(call, facts=facts)


SIGNALS = {
    "export": st.sampled_from([state("queued", terminal=False), state("done", terminal=True)]),
    "order": st.sampled_from([Signals(marks=(Mark("version increases", version),)) for version in (1, 2, None)]),
    "pages": st.sampled_from([page("a", leads_to="2"), page("b", leads_to="3"), page(), page("a", "c")]),
    "scroll": st.sampled_from([Signals(cursor="2" * 32), Signals(cursor="3" * 32), Signals()]),
    "read": st.none(),
    "tool": st.none(),
    "write": st.none(),
    "think": st.none(),
    "lines": st.sampled_from([Signals(extent=Extent("f" * 32, start, start + 10.0)) for start in (0.0, 5.0, 10.0)]),
    "paid": st.none(),
    "send": st.none(),
}


def _one_of(tool: str) -> st.SearchStrategy[Any]:
    return st.tuples(
        st.just(tool),
        st.sampled_from(["a", "a", "b", UNSEEN]),
        st.sampled_from(["r", "r", "s", UNSEEN]),
        SIGNALS[tool],
        st.sampled_from(["ok", "ok", "ok", "failed", "transient", "refused", "guarded"]),
        st.sampled_from(["turn", "turn", "sibling", "user"]),
        st.sampled_from("xxy"),
    )


@settings(max_examples=300)
@given(st.lists(st.sampled_from(sorted(SIGNALS)).flatmap(_one_of), max_size=40))
def test_attributes_carry_everything(actions: list[Any]) -> None:
    """Parity: what the processor saw with content, a scorer finds from the attributes alone."""
    inside = Run()
    for tool, arguments, result, signals, ending, place, agent in actions:
        inside.user_turn += place == "user"
        sibling = place == "sibling" and bool(inside.calls) and inside.calls[-1].agent == agent
        if ending == "ok":
            state_digest = digest("state") if result == "r" else None
            inside.call(
                tool, arguments, result, signals=signals, sibling=sibling, agent=agent, state_digest=state_digest
            )
        elif ending in {"failed", "transient"}:
            category = ErrorCategory.TRANSIENT if ending == "transient" else ErrorCategory.BUSINESS
            text = digest("error", result)
            inside.fail(tool, arguments, error_category=category, sibling=sibling, agent=agent, error_digest=text)
        else:
            by = DeniedBy.GUARD if ending == "guarded" else DeniedBy.OTHER
            inside.refuse(tool, arguments, by=by, sibling=sibling, agent=agent)
    outside = Tracker(inside.policy)
    seen = [outside.observe(_without_content(call, was)) for call, was in zip(inside.calls, inside.seen, strict=True)]
    assert inside.seen == seen
    assert inside.tracker.findings() == outside.findings()
    assert inside.tracker.wasted_calls == outside.wasted_calls
    assert inside.tracker.terminal_state is outside.terminal_state
    assert inside.tracker.new_items_observed is outside.new_items_observed
    assert inside.tracker.progress_observed is outside.progress_observed
    assert inside.tracker.would_complete == outside.would_complete


# --- nothing grows, nothing raises --------------------------------------------------------------------------


def test_digests_are_bounded_and_evictions_counted() -> None:
    """Calls seen longest ago are forgotten, half of what is kept at a time; a repeat of one counts as a first."""
    run = Run()
    run.tracker = Tracker(run.policy, limits=Limits(digests=4))
    run.call("read", "a", "r")
    for number in range(4):
        run.call("read", f"{number}", f"{number}")
    assert 2 == run.tracker.evictions.digests
    assert Progress.FIRST is run.call("read", "a", "r").progress
    assert Progress.UNCHANGED is run.call("read", "3", "3").progress
    assert Progress.UNCHANGED is run.call("read", "2", "2").progress


def test_a_call_in_use_is_not_forgotten() -> None:
    """What is repeated stays, however many other calls go by."""
    run = Run()
    run.tracker = Tracker(run.policy, limits=Limits(digests=4))
    for number in range(20):
        run.call("export", "job", "queued", signals=state("queued", terminal=False))
        run.call("read", f"{number}", f"{number}")
    assert 7 == run.first(Kind.STALLED_POLL)
    assert [20] == [finding.count for finding in run.found(Kind.STALLED_POLL)]


def test_agents_are_bounded_and_evictions_counted() -> None:
    """Agents heard of longest ago are forgotten, half of what is kept at a time."""
    run = Run()
    run.tracker = Tracker(run.policy, limits=Limits(agents=4))
    for agent in "abcde":
        run.call(agent=agent)
    assert 2 == run.tracker.evictions.agents


def test_an_agent_at_work_is_not_forgotten() -> None:
    """However many others come and go, the one that leads stays, and its loop is found."""
    run = Run()
    run.tracker = Tracker(run.policy, limits=Limits(agents=4))
    for number in range(9):
        run.call("ask", "again", "same", agent="leader")
        run.call("read", f"{number}", f"{number}", agent=f"helper {number}")
    assert 5 == run.first(Kind.EXACT_REPEAT)
    assert [9] == [finding.count for finding in run.found(Kind.EXACT_REPEAT)]


def test_agent_that_comes_back_after_it_was_forgotten() -> None:
    """Its rounds are numbered anew, so that no old round looks like the one before."""
    run = Run()
    run.tracker = Tracker(run.policy, limits=Limits(agents=2))
    run.call("read", "x", "y", agent="a")
    run.call("read", "z", "y", agent="a")
    for agent in "bc":
        run.call("read", "x", "y", agent=agent)
    assert 1 == run.tracker.evictions.agents
    run.call("read", "w", "y", agent="a")
    run.call("read", "z", "y", agent="a")
    assert 1 == run.seen[-1].repeat_count
    run.call("read", "z", "y", agent="a")
    assert Kind.EXACT_REPEAT not in run.kinds()


def test_writes_without_arguments_would_complete_a_repeat() -> None:
    """Five writes of one tool in a row, of which no arguments are known."""
    run = Run()
    run.repeat(4, "write", UNSEEN, "ok")
    assert run.tracker.would_complete is None
    run.call("write", UNSEEN, "ok")
    assert run.tracker.would_complete is not None


def test_turn_with_thousands_of_calls() -> None:
    """One turn, however wide, is taken in bounded memory, and is no loop."""
    run = Run()
    for number in range(3_000):
        run.call("dice", f"{number % 1500}", "same", sibling=True)
        run.call("tool", UNSEEN, UNSEEN, sibling=True)
    assert set() == run.kinds()
    assert run.tracker.would_complete is None


def test_findings_are_bounded_and_counted() -> None:
    """Past the limit findings are counted, and the kinds still reported call by call."""
    run = Run()
    run.tracker = Tracker(run.policy, limits=Limits(findings=2))
    for number in range(4):
        run.repeat(3, arguments=f"{number}", result=f"{number}")
    assert 2 == len(run.tracker.findings())
    assert 2 == run.tracker.evictions.findings
    assert 4 == sum(Kind.EXACT_REPEAT in seen.kinds for seen in run.seen)
    assert 8 == len(run.tracker.wasted_calls)


def test_long_stretch_lists_its_beginning_and_counts_on() -> None:
    """A finding lists a bounded number of calls; its count and what was wasted go on."""
    run = Run()
    run.repeat(1_000)
    (finding,) = run.tracker.findings()
    assert (1_000, 256, 999) == (finding.count, len(finding.calls), len(run.tracker.wasted_calls))


def test_items_are_bounded() -> None:
    """Past the limit unseen items are taken for new, which can only make a pager quieter."""
    run = Run()
    run.tracker = Tracker(run.policy, limits=Limits(items=10))
    for number in range(40):
        names = tuple(f"{number}-{k}" for k in range(3))
        run.call("pages", f"{number}", f"{number}", signals=page(*names, leads_to=f"{number}"))
    assert set() == run.kinds()


def test_findings_are_in_order() -> None:
    """By the call at which they became true, then by kind."""
    run = Run()
    for number in range(7):
        run.call("ask", "xz"[number % 2], "y", agent="ab"[number % 2])
    found = [(finding.at_call, finding.kind) for finding in run.tracker.findings()]
    assert sorted(found) == found
    assert [(6, "exact_repeat"), (6, "handoff_cycle"), (7, "exact_repeat")] == found


def test_registry_names_each_kind_once() -> None:
    """One detector a kind, one module and one page of that name."""
    kinds = [make().kind for make in DETECTORS]
    assert sorted(set(kinds)) == sorted(kinds)
    folder = Path(detectors.__file__).parent
    assert [] == [kind for kind in kinds if not (folder / f"{kind}.py").is_file()]
    assert kinds == [
        kind for kind in kinds if (folder / f"{kind}.md").read_text(encoding="utf-8").startswith(f"# {kind}\n")
    ]


def test_noop_tools_are_no_evidence() -> None:
    """Thinking the same thought often is no tool call that repeats."""
    run = Run()
    run.repeat(20, "think", "thought", "ok")
    assert set() == run.kinds()
    assert [Progress.UNKNOWN] * 20 == run.progress()


FACTS = st.builds(
    CallFacts,
    tool=st.sampled_from(["tool", "write", "read", "poll", "export", "timed", "pages", "scroll", "order", "think", ""]),
    call_id=st.sampled_from([None, "c"]),
    call_digest=st.sampled_from([None, "a" * 32, "b" * 32]),
    call_unknown=st.sampled_from([None, *Unknown]),
    result_digest=st.sampled_from([None, "r" * 32, "s" * 32]),
    result_unknown=st.sampled_from([None, *Unknown]),
    result_class=st.sampled_from([None, *ResultClass]),
    outcome=st.sampled_from(Outcome),
    error_category=st.sampled_from([None, *ErrorCategory]),
    error_type=st.sampled_from([None, "KeyError"]),
    denied_by=st.sampled_from([None, *DeniedBy]),
    dispatched=st.sampled_from([None, True, False]),
    effect=st.sampled_from(Effect),
    pattern=st.sampled_from(Pattern),
    contract=st.sampled_from([None, "00000001"]),
    key_id=st.sampled_from([None, "k1", "k2"]),
    signals=st.sampled_from(
        [None, Signals(), state("x", terminal=True), state("y"), page("a"), page("b", leads_to="2")]
    ),
    progress=st.sampled_from([None, *Progress]),
    progress_rule=st.sampled_from([None, "new_items"]),
    terminal=st.sampled_from([None, True, False]),
    new_items=st.sampled_from([None, 0, 3]),
)


@given(
    st.lists(
        st.tuples(
            FACTS,
            st.sampled_from([0, 1, 1]),
            st.sampled_from(["a", "b", "c", ""]),
            st.sampled_from([1, 1, 1, 2]),
            st.sampled_from([0, 1, 10**9, 10**18, -5]),
        ),
        max_size=40,
    )
)
def test_any_calls_are_taken(rows: list[Any]) -> None:
    """Whatever the facts say, in whatever combination, the tracker answers and its findings hold together."""
    tracker = Tracker(load(POLICY), limits=Limits(digests=3, agents=2, findings=5, items=2))
    turn = 1
    kinds: list[Kind] = []
    for number, (facts, step, agent, user_turn, start_ns) in enumerate(rows, start=1):
        turn += step
        seen = tracker.observe(
            ToolCall(number=number, turn=turn, agent=agent, user_turn=user_turn, facts=facts, start_ns=start_ns)
        )
        assert seen.repeat_count >= 1
        kinds += seen.kinds
    findings = tracker.findings()
    assert len(kinds) == len(findings) + tracker.evictions.findings
    for finding in findings:
        assert list(finding.calls) == sorted(set(finding.calls))
        assert finding.first_call == finding.calls[0] <= finding.at_call <= len(rows)
        assert finding.count >= 2 or finding.kind is Kind.POLL_BUDGET
    assert all(rows[number - 1][0].outcome is not Outcome.DENIED for number in tracker.wasted_calls)


def test_items_hash_to_64_bits() -> None:
    """The fixture's items look like the digester's."""
    assert item("a") < 2**64
