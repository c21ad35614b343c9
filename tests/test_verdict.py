"""Every field of a verdict follows from the run, and the first outcome that applies is the one named."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from otel_loopguard import policy
from otel_loopguard.model import (
    Action,
    CallFacts,
    DecisionFacts,
    DeniedBy,
    Effect,
    Flag,
    Kind,
    Outcome,
    Pattern,
    PlacedDecision,
    ResultClass,
    Run,
    RunOutcome,
    Severity,
    TerminationReason,
    ToolCall,
    Unknown,
    Verdict,
)
from otel_loopguard.verdict import judge

OBSERVE = policy.default()
ENFORCE = policy.load("version: 1\npolicy: p\npolicy_version: '1'\nmode: enforce\n", source="test")
POLLING = policy.load(
    "version: 1\npolicy: p\npolicy_version: '1'\ntools:\n  look: {polling: {max_polls: 3, max_unchanged: 2}}\n",
    source="test",
)
MS = 1_000_000
FIELDS = """
run_id outcome first_loop_call trace_ids service release agent model policy key_ids started ended revision final
stalled_repeat cycle progress_observed calls distinct_calls distinct_digests turns new_items_observed
poll_budget_exhausted terminal_state finding_created dispatch_denied terminal_response_emitted checkpoints_in_order
guard_expected_at guard_fired_at guard_on_time executions_after_finding executions_after_denial
side_effects_after_denial termination_reason wasted_calls wasted_ms wasted_tokens findings guard flags unknown_calls
missing_sequences duplicates
"""
"""The names of DESIGN 8, `first_loop_call`, and the reasons of calls without digest."""


def call(number: int, args: str = "a", result: str | None = "r", **fields: Any) -> ToolCall:
    """A call in a turn of its own; digests are the texts padded to length."""
    facts = {
        "tool": "look",
        "call_id": f"c{number}",
        "call_digest": args.ljust(32, "0"),
        "result_digest": None if result is None else result.ljust(32, "0"),
        "outcome": Outcome.OK,
        "result_class": ResultClass.CONTENT,
        "key_id": "k1",
    } | fields.pop("facts", {})
    place: dict[str, Any] = {
        "turn": number,
        "start_ns": number * 10 * MS,
        "end_ns": (number * 10 + 4) * MS,
        "tokens": 100,
    }
    return ToolCall(number=number, agent="A", facts=CallFacts(**facts), **(place | fields))


def judged(*calls: ToolCall, under: policy.Policy = OBSERVE, **fields: Any) -> Verdict:
    """The verdict on a run of these calls."""
    return judge(Run(run_id="r", calls=calls, **fields), under)[0]


LOOP = tuple(call(number) for number in range(1, 6))


def test_a_run_of_different_calls_is_clean() -> None:
    """Nothing repeated, nothing missing."""
    verdict = judged(*(call(n, args=str(n)) for n in range(1, 6)))
    assert (verdict.outcome, verdict.first_loop_call, verdict.wasted_calls) == (RunOutcome.CLEAN, None, 0)


def test_a_loop_names_when_it_became_certain_and_what_it_cost() -> None:
    """The third of five equal calls; four of them brought nothing, 4 ms and 100 tokens each."""
    verdict = judged(*LOOP)
    assert (verdict.outcome, verdict.first_loop_call, verdict.finding_created) == (RunOutcome.LOOP, 3, 3)
    assert (verdict.wasted_calls, verdict.wasted_ms, verdict.wasted_tokens) == (4, 16.0, 400)
    assert (verdict.stalled_repeat, verdict.cycle) == (True, False)
    assert (verdict.calls, verdict.distinct_calls, verdict.distinct_digests, verdict.turns) == (5, 5, 1, 5)


def test_tokens_of_a_turn_with_a_useful_call_are_not_wasted() -> None:
    """A response that also asked for something new was not for nothing."""
    calls = (
        call(1),
        call(2),
        call(3, turn=3),
        call(4, args="new", turn=3, tokens=0),
    )
    verdict = judged(*calls)
    assert (verdict.wasted_calls, verdict.wasted_tokens) == (2, 100)


@pytest.mark.parametrize(
    ("gap", "outcome"), [(0, RunOutcome.LOOP), (1, RunOutcome.SUSPECT), (2, RunOutcome.SUSPECT), (3, RunOutcome.LOOP)]
)
def test_a_gap_inside_the_evidence_makes_the_loop_a_suspicion(gap: int, outcome: RunOutcome) -> None:
    """A lost call between the first and the deciding one may have been the progress; elsewhere it changes nothing."""
    verdict = judged(*LOOP, gaps=(gap,), missing_sequences=(9,), flags=frozenset({Flag.SEQUENCE_GAP}))
    assert (verdict.outcome, Flag.GAP_IN_FINDING in verdict.flags) == (outcome, outcome is RunOutcome.SUSPECT)
    assert verdict.findings[0].severity is (Severity.SUSPECT if outcome is RunOutcome.SUSPECT else Severity.LOOP)


def test_uncertain_order_outranks_every_claim() -> None:
    """Whether the calls repeat is not known, whatever they look like."""
    assert judged(*LOOP, flags=frozenset({Flag.ORDER_UNCERTAIN})).outcome is RunOutcome.UNSCORABLE


def test_what_is_unknown_and_could_be_a_loop_is_unscorable() -> None:
    """Three calls without digests of one tool."""
    unknown = {"call_digest": None, "call_unknown": Unknown.NOT_CAPTURED, "result_digest": None}
    verdict = judged(*(call(n, facts=unknown) for n in (1, 2, 3)))
    assert (verdict.outcome, verdict.unknown_calls) == (RunOutcome.UNSCORABLE, {"not_captured": 3})
    assert judged(*(call(n, facts=unknown) for n in (1, 2))).outcome is RunOutcome.CLEAN


def test_no_calls_are_clean_only_where_no_call_was_asked_for() -> None:
    """An agent without tool spans may have made any number of calls."""
    assert judged(scorable_without_calls=False).outcome is RunOutcome.UNSCORABLE
    assert judged(scorable_without_calls=True).outcome is RunOutcome.CLEAN
    assert judged(requested_unseen=2).outcome is RunOutcome.INCOMPLETE


@pytest.mark.parametrize(
    "fields",
    [
        {"flags": frozenset({Flag.SEQUENCE_GAP})},
        {"flags": frozenset({Flag.PRODUCER_NOT_CLOSED})},
        {"flags": frozenset({Flag.OPEN_SPANS})},
        {"flags": frozenset({Flag.RUN_LIMIT})},
        {"requested_unseen": 1},
    ],
)
def test_what_is_missing_is_never_clean(fields: dict[str, Any]) -> None:
    """Each way of missing something makes a run without findings incomplete, and leaves a loop a loop."""
    assert judged(call(1), **fields).outcome is RunOutcome.INCOMPLETE
    assert judged(*LOOP, **fields).outcome is RunOutcome.LOOP


@pytest.mark.parametrize("flag", [Flag.NO_ROOT, Flag.ORPHAN_ROOTS, Flag.SAMPLED, Flag.KEY_CHANGED, Flag.SPAN_REVISED])
def test_what_is_only_worth_saying_does_not_change_the_outcome(flag: Flag) -> None:
    """Missing roots, sampling and revisions are flags."""
    verdict = judged(call(1), flags=frozenset({flag}))
    assert (verdict.outcome, verdict.flags) == (RunOutcome.CLEAN, (flag,))


def test_a_requested_call_that_was_never_seen_counts_as_distinct() -> None:
    """It was asked for, so the run was to make it."""
    assert judged(call(1), requested_unseen=2).distinct_calls == 3


def test_equal_siblings_count_once() -> None:
    """Two equal calls of one response are one distinct call; in two turns they are two."""
    together = judged(call(1, turn=1), call(2, turn=1))
    apart = judged(call(1, turn=1), call(2, turn=2))
    assert (together.distinct_calls, apart.distinct_calls) == (1, 2)
    assert [finding.kind for finding in together.findings] == [Kind.PARALLEL_DUPLICATE]
    assert together.outcome is RunOutcome.CLEAN


def test_a_poll_over_its_budget_is_its_own_outcome() -> None:
    """Four moving polls where three are allowed."""
    polling = {"pattern": Pattern.POLLING}
    verdict = judged(*(call(n, result=str(n), facts=polling) for n in range(1, 5)), under=POLLING)
    assert (verdict.outcome, verdict.poll_budget_exhausted) == (RunOutcome.BUDGET_EXCEEDED, True)


# --- guard ---------------------------------------------------------------------------------------------


def denial(number: int, *, enforced: bool = True) -> PlacedDecision:
    """A guard's decision to deny the call with this number."""
    decision = DecisionFacts(
        call_id=f"c{number}",
        action=Action.DENY,
        enforced=enforced,
        reason="exact_repeat",
        call_digest="a".ljust(32, "0"),
    )
    return PlacedDecision(decision=decision, call=None, after_call=number - 1)


def test_a_denial_in_time_stops_the_waste() -> None:
    """Denied at the call that would have completed the loop, and never executed again."""
    denied = {"outcome": Outcome.DENIED, "denied_by": DeniedBy.GUARD, "result_digest": None, "result_class": None}
    verdict = judged(call(1), call(2), call(3, facts=denied), under=ENFORCE, final_answer=True)
    assert (verdict.guard_expected_at, verdict.guard_fired_at, verdict.guard_on_time) == (3, 3, True)
    assert (verdict.executions_after_denial, verdict.checkpoints_in_order) == (0, True)
    assert [(entry.call, entry.action, entry.enforced) for entry in verdict.guard] == [(3, Action.DENY, True)]


def test_executions_after_a_denial_are_counted() -> None:
    """A dispatcher that ignored the guard ran the denied call twice more; as a write that is a side effect."""
    calls = (*(call(n) for n in (1, 2)), *(call(n, facts={"effect": Effect.WRITE}) for n in (4, 5)))
    calls = tuple(msgspec.structs.replace(one, number=place) for place, one in enumerate(calls, start=1))
    verdict = judged(*calls, decisions=(denial(2),), under=ENFORCE)
    assert (verdict.dispatch_denied, verdict.executions_after_denial, verdict.side_effects_after_denial) == (2, 2, 2)


def test_a_decision_that_was_not_enforced_denies_nothing() -> None:
    """In observe mode the would-be decision is listed and fires nothing."""
    verdict = judged(*LOOP, decisions=(denial(3, enforced=False),))
    assert (verdict.guard[0].enforced, verdict.guard_fired_at, verdict.dispatch_denied) == (False, None, None)
    assert verdict.executions_after_denial == 0


@pytest.mark.parametrize(("under", "on_time"), [(OBSERVE, None), (ENFORCE, False)])
def test_a_loop_without_a_guard_is_late_only_where_one_was_to_act(under: policy.Policy, on_time: bool | None) -> None:  # noqa: FBT001 - a parameter
    """Observe mode has no guard to be late."""
    verdict = judged(*LOOP, under=under)
    assert (verdict.guard_expected_at, verdict.guard_on_time) == (3, on_time)


def test_a_late_denial_is_not_on_time() -> None:
    """Denied at the fourth call where the third completed the loop."""
    assert judged(*LOOP, decisions=(denial(4),), under=ENFORCE).guard_on_time is False


def test_checkpoints_out_of_order_are_said() -> None:
    """A denial before any finding is not what the guard contract says."""
    assert judged(*LOOP, decisions=(denial(2),)).checkpoints_in_order is False
    assert judged(call(1)).checkpoints_in_order is None


def test_executions_after_the_finding_count_its_own_call_only() -> None:
    """Two more of the repeated call, and one of another, after the third."""
    verdict = judged(*LOOP, call(6, args="b"))
    assert verdict.executions_after_finding == 2


# --- the rest ---------------------------------------------------------------------------------------------


def test_the_end_is_what_the_run_says() -> None:
    """A termination is never inferred from repeats."""
    verdict = judged(*LOOP, termination=TerminationReason.TURN_LIMIT)
    assert (verdict.termination_reason, verdict.terminal_response_emitted) == (TerminationReason.TURN_LIMIT, None)
    answered = judged(*LOOP, termination=TerminationReason.FINAL_ANSWER, final_answer=True)
    assert answered.terminal_response_emitted == 6


def test_the_json_has_the_contracts_field_names() -> None:
    """Consumers read DESIGN 8's names."""
    keys = list(msgspec.json.decode(msgspec.json.encode(judged(call(1)))))
    assert keys == FIELDS.split()


def test_findings_that_were_dropped_are_said() -> None:
    """More than are kept of one severity: the verdict stands, and says that its list is not whole."""
    calls = [call(2 * n + place, args=str(n), turn=n + 1) for n in range(300) for place in (1, 2)]
    calls += [call(601 + n, args="stuck", turn=301 + n) for n in range(3)]
    verdict = judged(*calls)
    reports = [finding for finding in verdict.findings if finding.severity is Severity.REPORT]
    assert (verdict.outcome, Flag.FINDINGS_DROPPED in verdict.flags) == (RunOutcome.LOOP, True)
    assert (len(reports), verdict.first_loop_call) == (256, 603)
