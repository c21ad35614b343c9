"""Makes runs of call records: the application already says run, order and turn.

Invariants: order comes from sequence and time, never from the place in the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from otel_loopguard.assembly.flags import call_flags, span_flags
from otel_loopguard.assembly.grouping import Versions
from otel_loopguard.assembly.order import SKEW_NS
from otel_loopguard.assembly.turns import DEFAULT_AGENT
from otel_loopguard.facts import RECORD_TRACE
from otel_loopguard.model import Duplicates, Flag, Run, SpanFacts, SpanKey, ToolCall
from otel_loopguard.policy import Policy, Scope


def is_record(span: SpanFacts) -> bool:
    """True for the facts of a call record."""
    return span.trace_id == RECORD_TRACE


def record_runs(records: Mapping[SpanKey, SpanFacts], versions: Versions, policy: Policy) -> list[Run]:
    """Makes the runs of one group of call records, one version of each, any order."""
    members: dict[tuple[str, ...], list[tuple[SpanKey, SpanFacts]]] = {}
    for key, record in records.items():
        members.setdefault(_run_key(record, policy.scope), []).append((key, record))
    return [_run(key, items, versions, policy.scope) for key, items in members.items()]


def _run_key(record: SpanFacts, scope: Scope) -> tuple[str, ...]:
    run_id = record.run_id or ""
    session = record.conversation
    if scope is Scope.TASK and record.task is not None:
        return ("task", record.task)
    if scope is Scope.CONVERSATION and session is not None:
        return ("conversation", session)
    if scope is Scope.USER_TURN and record.user_turn is not None:
        return ("user_turn", session or run_id, record.user_turn)
    return ("run", run_id)


def _run(key: tuple[str, ...], items: list[tuple[SpanKey, SpanFacts]], versions: Versions, scope: Scope) -> Run:
    ordered, skewed = _in_order([record for _, record in items])
    calls = _calls(ordered, scope)
    flags = span_flags(ordered, versions) | call_flags(calls)
    if skewed:
        flags.add(Flag.CLOCK_SKEW)
    keys = [span_key for span_key, _ in items]
    return Run(
        run_id=":".join(key[1:]),
        calls=calls,
        service=None,
        agent=next((record.agent for record in ordered if record.agent is not None), None),
        started_ns=min(record.start_ns for record in ordered) or None,
        ended_ns=max(record.start_ns for record in ordered) or None,
        flags=frozenset(flags),
        duplicates=Duplicates(
            identical=sum(versions.identical.get(k, 0) for k in keys),
            conflicting=sum(versions.conflicting.get(k, 0) for k in keys),
        ),
    )


def _in_order(records: Sequence[SpanFacts]) -> tuple[list[SpanFacts], bool]:
    """Returns the records in order, and whether their times contradict their sequences by more than a second.

    Within a run id user turns follow one another, in them attempts, and in these the sequence is the order. Run ids
    that a wider scope joins are merged by time where every record has one that agrees with its sequence; else one
    run id follows the other.
    """
    by_run: dict[str, list[SpanFacts]] = {}
    for record in records:
        by_run.setdefault(record.run_id or "", []).append(record)
    parts = [_one_run(part) for part in by_run.values()]
    pairs = [pair for part in parts for pair in pairwise(part)]
    skewed = any(one.start_ns - other.start_ns > SKEW_NS for one, other in pairs if one.start_ns and other.start_ns)
    if len(parts) == 1:
        return parts[0], skewed
    if all(record.start_ns for record in records) and all(one.start_ns <= other.start_ns for one, other in pairs):
        return sorted(records, key=lambda record: (record.start_ns, *_place(record))), skewed
    parts.sort(key=lambda part: (part[0].start_ns, *_place(part[0])))
    return [record for part in parts for record in part], skewed


def _one_run(records: Sequence[SpanFacts]) -> list[SpanFacts]:
    user_turns = _ranks(records, [record.user_turn for record in records])
    attempts = _ranks(records, [record.attempt for record in records])
    return sorted(records, key=lambda record: (user_turns[record.user_turn], attempts[record.attempt], *_place(record)))


def _ranks(records: Sequence[SpanFacts], names: Sequence[str | None]) -> dict[str | None, int]:
    """Returns the order of user turns or attempts: by number where they are numbers, else by their first call."""
    if all(name is None or name.isdecimal() for name in names):
        return {name: -1 if name is None else int(name) for name in names}
    first: dict[str | None, tuple[object, ...]] = {}
    for record, name in zip(records, names, strict=True):
        place = (record.start_ns, *_place(record))
        first[name] = min(first.get(name, place), place)
    return {name: rank for rank, name in enumerate(sorted(first, key=lambda name: first[name]))}


def _place(record: SpanFacts) -> tuple[int, str, int, str, str, str]:
    """A fixed order of a run's records: the sequence first, then what tells records of one sequence apart."""
    call = record.call
    shown = ("", "", "") if call is None else (call.tool, call.call_id or "", call.call_digest or "")
    return (record.sequence or 0, record.agent or "", record.start_ns, *shown)


def _calls(ordered: list[SpanFacts], scope: Scope) -> tuple[ToolCall, ...]:
    turns: dict[tuple[str | None, ...], list[SpanFacts]] = {}
    together = 0  # records without a turn are turns of their own, but those marked concurrent in a row are one
    for place, record in enumerate(ordered):
        if not (record.concurrent and place and ordered[place - 1].concurrent):
            together = place
        own = record.turn if record.turn is not None else f"\x00{together}"
        key = (record.run_id, record.agent, record.conversation, record.user_turn, record.attempt, own)
        turns.setdefault(key, []).append(record)
    user_turns: dict[str | None, int] = {}
    calls: list[ToolCall] = []
    for turn, siblings in enumerate(turns.values(), start=1):
        for record in siblings:
            if record.call is None:
                continue
            user_turn = user_turns.setdefault(record.user_turn, len(user_turns) + 1)
            calls.append(
                ToolCall(
                    number=len(calls) + 1,
                    turn=turn,
                    agent=record.agent or DEFAULT_AGENT,
                    user_turn=user_turn if scope is Scope.RUN else 1,
                    attempt=record.attempt,
                    session=record.conversation,
                    task=record.task,
                    facts=record.call,
                    start_ns=record.start_ns,
                    end_ns=record.end_ns,
                )
            )
    return tuple(calls)
