"""From one assembled run to its verdict: feeds the tracker, then derives every field of DESIGN 8.

Invariants: no field is guessed; missing evidence has its own outcome and is never clean. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import msgspec

from otel_loopguard.detectors.writes import BusinessMemory
from otel_loopguard.model import (
    Action,
    DeniedBy,
    Effect,
    Finding,
    Flag,
    GuardEntry,
    Kind,
    Progress,
    Run,
    RunOutcome,
    Severity,
    ToolCall,
    Verdict,
)
from otel_loopguard.observation import Observation
from otel_loopguard.policy import Mode, Policy
from otel_loopguard.prediction import ALLOW
from otel_loopguard.tracker import Tracker

_OUTCOME_OF: Final = {
    Severity.LOOP: RunOutcome.LOOP,
    Severity.DUPLICATE_WRITE: RunOutcome.DUPLICATE_WRITE,
    Severity.INDETERMINATE_WRITE: RunOutcome.INDETERMINATE_WRITE,
    Severity.BUDGET: RunOutcome.BUDGET_EXCEEDED,
    Severity.OUTAGE: RunOutcome.OUTAGE,
    Severity.SUSPECT: RunOutcome.SUSPECT,
}
_REFUSALS: Final = (Action.DENY, Action.STOP)
INCOMPLETE_FLAGS: Final = frozenset(
    {Flag.SEQUENCE_GAP, Flag.PRODUCER_NOT_CLOSED, Flag.REQUESTED_NOT_SEEN, Flag.OPEN_SPANS, Flag.RUN_LIMIT}
)


def judge(run: Run, policy: Policy, *, memory: BusinessMemory | None = None) -> tuple[Verdict, tuple[Observation, ...]]:
    """Judges one run.

    Args:
        run: as `assembly.assemble` made it; it may have no calls.
        policy: decides contracts, thresholds and mode.
        memory: what runs that started before this one wrote, and gains what this one writes; None for a run alone.

    Returns:
        The verdict, and what the tracker saw at each call (as many as `run.calls`, in their order).

    Cost: one tracker step and one prediction a call.
    """
    tracker = Tracker(policy, memory=memory)
    guard = _guard_entries(run)
    if guard:
        observations = tuple([tracker.observe(call) for call in run.calls])
    else:
        observations, guard = _predicted(run.calls, tracker)
    claimed = tracker.findings()
    findings = tuple(_doubted(finding, run.gaps) for finding in claimed)
    flags = set(run.flags)
    if findings != claimed:
        flags.add(Flag.GAP_IN_FINDING)
    if tracker.evictions.findings:
        flags.add(Flag.FINDINGS_DROPPED)
    loops = [finding for finding in findings if finding.severity is Severity.LOOP]
    finding_at = min([finding.at_call for finding in loops], default=None)
    looped = {digest for finding in loops for digest in finding.digests}
    denied_at = min([entry.call for entry in guard if entry.call is not None and _refused(entry)], default=None)
    denied: AbstractSet[str] = frozenset() if denied_at is None else _denied_digests(run)
    counts = _count(run.calls)
    terminal_at = len(run.calls) + 1 if run.final_answer else None
    wasted = tracker.wasted_calls
    verdict = Verdict(
        run_id=run.run_id,
        outcome=_outcome(run, findings, flags, tracker),
        first_loop_call=finding_at,
        trace_ids=run.trace_ids,
        service=run.service,
        release=run.release,
        agent=run.agent,
        model=run.model,
        policy=policy.label,
        key_ids=counts.key_ids,
        started_ns=run.started_ns,
        ended_ns=run.ended_ns,
        stalled_repeat=tracker.stalled_repeat,
        cycle=any(finding.kind in (Kind.CYCLE, Kind.HANDOFF_CYCLE) for finding in findings),
        progress_observed=tracker.progress_observed,
        calls=len(run.calls),
        distinct_calls=counts.distinct_calls + run.requested_unseen,
        distinct_digests=counts.distinct_digests,
        turns=counts.turns,
        new_items_observed=tracker.new_items_observed,
        poll_budget_exhausted=tracker.poll_budget_exhausted,
        terminal_state=tracker.terminal_state,
        finding_created=finding_at,
        dispatch_denied=denied_at,
        terminal_response_emitted=terminal_at,
        checkpoints_in_order=_in_order(finding_at, denied_at, terminal_at),
        guard_expected_at=finding_at,
        guard_fired_at=denied_at,
        guard_on_time=_on_time(finding_at, denied_at, policy),
        executions_after_finding=_executions_after(run.calls, finding_at, looped),
        executions_after_denial=_executions_after(run.calls, denied_at, denied),
        side_effects_after_denial=_executions_after(run.calls, denied_at, denied, writes_only=True),
        termination_reason=run.termination,
        wasted_calls=len(wasted),
        wasted_ms=_wasted_ms(run.calls, wasted),
        wasted_tokens=_wasted_tokens(run.calls, wasted),
        findings=findings,
        guard=guard,
        flags=tuple(sorted(flags)),
        unknown_calls=counts.unknown_calls,
        missing_sequences=run.missing_sequences,
        duplicates=run.duplicates,
    )
    return verdict, observations


def _outcome(run: Run, findings: Sequence[Finding], flags: set[Flag], tracker: Tracker) -> RunOutcome:
    if Flag.ORDER_UNCERTAIN in flags:
        return RunOutcome.UNSCORABLE
    claimed = {finding.severity for finding in findings}
    for severity, outcome in _OUTCOME_OF.items():
        if severity in claimed:
            return outcome
    if tracker.would_complete or (not run.calls and not run.scorable_without_calls and not run.requested_unseen):
        return RunOutcome.UNSCORABLE
    if run.requested_unseen or flags & INCOMPLETE_FLAGS:
        return RunOutcome.INCOMPLETE
    return RunOutcome.CLEAN


def _doubted(finding: Finding, gaps: Sequence[int]) -> Finding:
    """A call that was never seen inside the evidence may have been the progress: the loop is only suspected."""
    if finding.severity is Severity.LOOP and any(finding.first_call <= gap < finding.at_call for gap in gaps):
        return msgspec.structs.replace(finding, severity=Severity.SUSPECT)
    return finding


def _predicted(calls: Sequence[ToolCall], tracker: Tracker) -> tuple[tuple[Observation, ...], tuple[GuardEntry, ...]]:
    """What the tracker saw of each call, and what a guard would have said of it before, up to the first stop."""
    observations: list[Observation] = []
    entries: list[GuardEntry] = []
    stopped = False
    for call in calls:
        decision = ALLOW if stopped else tracker.propose(call)
        seen = tracker.observe(call)
        observations.append(seen)
        if decision.action is Action.ALLOW:
            continue
        # A warning goes out with the result of the last allowed call: not where that brought something after all.
        if decision.action is Action.WARN and (seen.progress is not Progress.UNCHANGED or not call.executed):
            continue
        stopped = decision.action is Action.STOP
        entries.append(
            GuardEntry(
                call_id=call.facts.call_id,
                call=call.number,
                action=decision.action,
                enforced=False,
                reason=decision.reason,
            )
        )
    return tuple(observations), tuple(entries)


def _guard_entries(run: Run) -> tuple[GuardEntry, ...]:
    entries = [
        GuardEntry(
            call_id=placed.decision.call_id,
            call=placed.call if placed.call is not None else placed.after_call + 1,
            action=placed.decision.action,
            enforced=placed.decision.enforced,
            reason=placed.decision.reason,
        )
        for placed in run.decisions
    ]
    said = {entry.call for entry in entries}
    entries.extend(
        GuardEntry(call_id=call.facts.call_id, call=call.number, action=Action.DENY, enforced=True)
        for call in run.calls
        if call.facts.denied_by is DeniedBy.GUARD and call.number not in said
    )
    return tuple(sorted(entries, key=lambda entry: (entry.call or 0, entry.action)))


def _refused(entry: GuardEntry) -> bool:
    return entry.enforced and entry.action in _REFUSALS


def _denied_digests(run: Run) -> set[str]:
    said = {placed.decision.call_digest for placed in run.decisions if placed.decision.action in _REFUSALS}
    said.update(call.facts.call_digest for call in run.calls if call.facts.denied_by is DeniedBy.GUARD)
    return {digest for digest in said if digest is not None}


def _executions_after(
    calls: Sequence[ToolCall], at_call: int | None, digests: AbstractSet[str], *, writes_only: bool = False
) -> int:
    if at_call is None:
        return 0
    return sum(
        call.number > at_call
        and call.executed
        and call.facts.call_digest in digests
        and (not writes_only or call.facts.effect is Effect.WRITE)
        for call in calls
    )


def _in_order(finding_at: int | None, denied_at: int | None, terminal_at: int | None) -> bool | None:
    if finding_at is None:
        return None
    positions = [position for position in (finding_at, denied_at, terminal_at) if position is not None]
    return positions == sorted(positions)


def _on_time(expected_at: int | None, fired_at: int | None, policy: Policy) -> bool | None:
    if expected_at is None or (fired_at is None and policy.mode is not Mode.ENFORCE):
        return None
    return fired_at is not None and fired_at <= expected_at


class _Counts(msgspec.Struct, frozen=True, gc=False):
    """What is counted of a run's calls; `distinct_calls` counts equal calls of one turn once."""

    turns: int
    distinct_calls: int
    distinct_digests: int
    key_ids: tuple[str, ...]
    unknown_calls: dict[str, int]


def _count(calls: Sequence[ToolCall]) -> _Counts:
    turns: set[int] = set()
    in_turn: set[tuple[int, str]] = set()
    digests: set[str] = set()
    key_ids: set[str] = set()
    unknown: dict[str, int] = {}
    without_digest = 0
    for call in calls:
        facts = call.facts
        turns.add(call.turn)
        if facts.key_id is not None:
            key_ids.add(facts.key_id)
        if facts.call_digest is None:
            without_digest += 1
        else:
            digests.add(facts.call_digest)
            in_turn.add((call.turn, facts.call_digest))
        if facts.call_unknown is not None:
            unknown[facts.call_unknown] = unknown.get(facts.call_unknown, 0) + 1
    return _Counts(
        len(turns), len(in_turn) + without_digest, len(digests), tuple(sorted(key_ids)), dict(sorted(unknown.items()))
    )


def _wasted_ms(calls: Sequence[ToolCall], wasted: frozenset[int]) -> float:
    spent_ns = sum(
        max(0, call.end_ns - call.start_ns) for call in calls if call.number in wasted and call.end_ns is not None
    )
    return round(spent_ns / 1e6, 3)


def _wasted_tokens(calls: Sequence[ToolCall], wasted: frozenset[int]) -> int:
    """Tokens of model responses that asked for nothing but wasted calls."""
    useful = {call.turn for call in calls if call.number not in wasted}
    return sum(call.tokens for call in calls if call.turn not in useful)
