"""Makes runs of a group's spans: each run's calls in order, what is missing, how it ended.

Invariants: pure and order-free; the scorer and offline replay use `assemble` and nothing beside it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from otel_loopguard.assembly import ending, gaps
from otel_loopguard.assembly.flags import call_flags, span_flags
from otel_loopguard.assembly.grouping import Versions, one_version, span_key
from otel_loopguard.assembly.identity import Parts, RunKey, parts_of_runs
from otel_loopguard.assembly.layers import SameCall, one_call, same_calls
from otel_loopguard.assembly.order import by_turn, in_order, order_matters, skewed_hosts
from otel_loopguard.assembly.records import is_record, record_runs
from otel_loopguard.assembly.tree import Tree
from otel_loopguard.assembly.turns import DEFAULT_AGENT, Candidate, give_turns, name_agents
from otel_loopguard.model import (
    DecisionFacts,
    Duplicates,
    Flag,
    PlacedDecision,
    Role,
    Run,
    SpanFacts,
    SpanKey,
    ToolCall,
)
from otel_loopguard.policy import Policy, Scope

_AgentNames: TypeAlias = Mapping[SpanKey, str]


def assemble(spans: Iterable[SpanFacts], policy: Policy) -> tuple[Run, ...]:
    """Makes the runs of one group of spans or call records (`grouping.Grouper`).

    Args:
        spans: any order, any number of copies.
        policy: its scope decides what a run is.

    Returns:
        The runs by start, then by id; empty where the spans show neither an agent nor a tool call.

    Cost: n log n in the number of spans. Pure: the same set gives the same runs in whatever order it comes.
    """
    versions = one_version(spans)
    records = {key: span for key, span in versions.spans.items() if is_record(span)}
    runs: list[Run] = []
    if records:
        runs.extend(record_runs(records, versions, policy))
    if len(records) < len(versions.spans):
        known = {key: span for key, span in versions.spans.items() if key not in records} if records else versions.spans
        tree = Tree(known)
        calls = same_calls([span for span in known.values() if span.call is not None], tree)
        parts = parts_of_runs(known, calls, tree, policy.scope)
        numbered = gaps.Numbered(known.values())
        runs.extend(_run(key, part, tree, numbered, versions, policy.scope) for key, part in parts.items())
    return tuple(sorted(runs, key=lambda run: (run.started_ns or 0, run.run_id)))


def _run(key: RunKey, part: Parts, tree: Tree, numbered: gaps.Numbered, versions: Versions, scope: Scope) -> Run:
    spans = part.spans()
    agents = name_agents([span for span in part.containers if span.role is Role.AGENT], tree)
    ordered = in_order([_candidate(same, agents, tree) for same in part.calls])
    give_turns(ordered, [(_agent_of(chat, agents, tree), chat) for chat in part.chats], tree)
    placed = by_turn(ordered)
    user_turns = _user_turns(part.containers, tree) if scope is Scope.RUN else {}
    calls = _numbered(placed, _tokens(part.chats), user_turns, tree)
    end = ending.read(part.containers, part.chats, part.others, ordered, tree)
    lost = gaps.find([call for _, call in placed], numbered)
    flags = span_flags(spans, versions) | call_flags(calls) | end.flags | lost.flags
    flags |= _tree_flags(part) | _clock_flags(ordered, spans, versions)
    return Run(
        run_id=":".join(key[1:]),
        calls=calls,
        decisions=_decisions(part.others, calls),
        trace_ids=tuple(sorted({span.trace_id for span in spans})),
        service=_most_common([span.service for span in spans]),
        release=_most_common([span.release for span in spans]),
        agent=_root_agent(part.containers, calls),
        model=_most_common([chat.chat.model for chat in part.chats if chat.chat is not None]),
        started_ns=min([span.start_ns for span in spans]),
        ended_ns=max([span.end_ns or span.start_ns for span in spans]),
        flags=frozenset(flags),
        gaps=lost.after,
        missing_sequences=lost.missing,
        requested_unseen=end.unseen,
        scorable_without_calls=end.responses_without_calls,
        termination=end.termination,
        final_answer=end.final_answer,
        duplicates=_duplicates(part.calls, spans, versions),
    )


def _candidate(same: SameCall, agents: _AgentNames, tree: Tree) -> Candidate:
    host = same.host
    return Candidate(
        same=same,
        host=host,
        start_ns=host.start_ns,
        end_ns=host.end_ns,
        facts=one_call(same),
        agent=_agent_of(host, agents, tree),
    )


def _agent_of(span: SpanFacts, agents: _AgentNames, tree: Tree) -> str:
    above = tree.above(span).agent
    if above is not None:
        return agents.get((above.trace_id, above.span_id), above.agent or DEFAULT_AGENT)
    return span.agent or DEFAULT_AGENT


def _tokens(chats: Sequence[SpanFacts]) -> dict[SpanKey, int]:
    return {
        (chat.trace_id, chat.span_id): (chat.chat.input_tokens or 0) + (chat.chat.output_tokens or 0)
        for chat in chats
        if chat.chat is not None
    }


def _user_turns(containers: Sequence[SpanFacts], tree: Tree) -> dict[SpanKey, int]:
    """Returns the user turn, from 1, of each outermost agent span of a run that a name of its own joins.

    Agent spans that follow one another were each asked anew; those that overlap are of one user turn.
    """
    outermost = [span for span in containers if tree.above(span).outermost is None]
    user_turns: dict[SpanKey, int] = {}
    turn, latest = 0, None
    for span in sorted(outermost, key=_by_start):
        if latest is None or span.start_ns >= latest:
            turn += 1
        latest = max(latest or 0, span.start_ns if span.end_ns is None else span.end_ns)
        user_turns[span_key(span)] = turn
    return user_turns


def _numbered(
    placed: Sequence[tuple[int, Candidate]],
    tokens: dict[SpanKey, int],
    user_turns: Mapping[SpanKey, int],
    tree: Tree,
) -> tuple[ToolCall, ...]:
    several = len(user_turns) > 1
    return tuple(
        [
            ToolCall(
                number=number,
                turn=turn,
                agent=call.agent,
                user_turn=_user_turn(call, user_turns, tree) if several else 1,
                facts=call.facts,
                start_ns=call.start_ns,
                end_ns=call.end_ns,
                # A response's tokens stand on its first call only.
                tokens=0 if call.chat is None else tokens.pop(call.chat, 0),
                keys=_keys(call.same),
            )
            for number, (turn, call) in enumerate(placed, start=1)
        ]
    )


def _keys(same: SameCall) -> tuple[SpanKey, ...]:
    host = same.host
    if len(same.spans) == 1:
        return ((host.trace_id, host.span_id),)
    return tuple([(span.trace_id, span.span_id) for span in same.spans])


def _user_turn(call: Candidate, user_turns: Mapping[SpanKey, int], tree: Tree) -> int:
    outermost = tree.above(call.host).outermost
    return 1 if outermost is None else user_turns.get(span_key(outermost), 1)


def _tree_flags(part: Parts) -> set[Flag]:
    flags: set[Flag] = set()
    if part.orphans:
        flags.add(Flag.ORPHAN_ROOTS)
    if part.incomplete_tree:
        flags.add(Flag.NO_ROOT)
    if not part.calls:
        flags.add(Flag.NO_TOOL_SPANS)
    return flags


def _clock_flags(ordered: Sequence[Candidate], spans: Sequence[SpanFacts], versions: Versions) -> set[Flag]:
    skewed = skewed_hosts(spans, versions.spans)
    if not skewed:
        return set()
    return {Flag.CLOCK_SKEW, Flag.ORDER_UNCERTAIN} if order_matters(ordered, skewed) else {Flag.CLOCK_SKEW}


def _duplicates(calls: Sequence[SameCall], spans: Sequence[SpanFacts], versions: Versions) -> Duplicates:
    reidentified = sum([same.reidentified for same in calls])
    layered = sum([len(same.spans) for same in calls]) - len(calls) - reidentified
    if not versions.identical and not versions.conflicting:
        return Duplicates(reidentified=reidentified, layered=layered)
    keys = [span_key(span) for span in spans]
    return Duplicates(
        identical=sum([versions.identical.get(key, 0) for key in keys]),
        conflicting=sum([versions.conflicting.get(key, 0) for key in keys]),
        reidentified=reidentified,
        layered=layered,
    )


def _decisions(others: Sequence[SpanFacts], calls: Sequence[ToolCall]) -> tuple[PlacedDecision, ...]:
    deciding = sorted((span for span in others if span.decision is not None), key=_by_start)
    if not deciding:
        return ()
    numbers = {call.facts.call_id: call.number for call in calls if call.facts.call_id is not None}
    starts = sorted(call.start_ns for call in calls)
    return tuple(_placed(span.decision, span.start_ns, numbers, starts) for span in deciding if span.decision)


def _placed(
    decision: DecisionFacts, start_ns: int, numbers: Mapping[str, int], starts: Sequence[int]
) -> PlacedDecision:
    number = None if decision.call_id is None else numbers.get(decision.call_id)
    after_call = bisect_right(starts, start_ns) if number is None else number - 1
    return PlacedDecision(decision=decision, call=number, after_call=after_call)


def _root_agent(containers: Sequence[SpanFacts], calls: Sequence[ToolCall]) -> str | None:
    named = [span for span in containers if span.role is Role.AGENT and span.agent]
    if named:
        return min(named, key=_by_start).agent
    return next((call.agent for call in calls if call.agent != DEFAULT_AGENT), None)


def _most_common(names: Sequence[str | None]) -> str | None:
    distinct = set(names)
    distinct.discard(None)
    if len(distinct) <= 1:
        return distinct.pop() if distinct else None
    counted = Counter(names)
    return min(distinct, key=lambda name: (-counted[name], name or ""))


def _by_start(span: SpanFacts) -> tuple[int, str, str]:
    return (span.start_ns, span.trace_id, span.span_id)
