"""Makes runs of a group's spans: who belongs to which run, its calls in order, what is missing, how it ended.

Run identity, first that applies (DESIGN 4): an explicit run id; the policy's scope; a link to another run's
tool span; the outermost agent or workflow span above in its trace; the conversation of a tool span in a
trace without any agent (flag `orphan_roots`); the trace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from otel_loopguard.assembly import ending
from otel_loopguard.assembly.flags import call_flags, version_flags
from otel_loopguard.assembly.grouping import Versions, one_version, span_key
from otel_loopguard.assembly.layers import SameCall, one_call, same_calls
from otel_loopguard.assembly.order import by_turn, in_order, order_matters, skewed_hosts
from otel_loopguard.assembly.records import is_record, record_runs
from otel_loopguard.assembly.tree import Above, Tree
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

RunKey: TypeAlias = tuple[str, ...]

_CONTAINERS: Final = (Role.AGENT, Role.WORKFLOW)
MAX_REPORTED_GAP: Final = 1000
"""Missing numbers listed at most in a run; a forged sequence of 10^18 must not fill memory."""


def assemble(spans: Iterable[SpanFacts], policy: Policy) -> tuple[Run, ...]:
    """Makes the runs of one group of spans or call records (`grouping.Grouper`).

    Args:
        spans: any order, any number of copies.
        policy: its scope and identity decide what a run is.

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
        runs.extend(_Traces(versions, policy).runs())
    return tuple(sorted(runs, key=lambda run: (run.started_ns or 0, run.run_id)))


class _Parts(msgspec.Struct, kw_only=True):
    """The spans of one run, by what they are."""

    calls: list[SameCall] = []
    containers: list[SpanFacts] = []
    chats: list[SpanFacts] = []
    others: list[SpanFacts] = []
    """Decisions, run ends, hand-overs and tool-like spans that are no calls."""
    orphans: bool = False
    incomplete_tree: bool = False

    def bucket(self, role: Role) -> list[SpanFacts]:
        """The list that spans of this role go to."""
        if role in _CONTAINERS:
            return self.containers
        return self.chats if role is Role.CHAT else self.others

    def spans(self) -> list[SpanFacts]:
        """All spans of the run."""
        return [*(s for same in self.calls for s in same.spans), *self.containers, *self.chats, *self.others]


class _Traces:
    """One pass over the spans of a group: span by span to its run, run by run to its calls."""

    def __init__(self, versions: Versions, policy: Policy) -> None:
        self._versions = versions
        self._spans = {key: span for key, span in versions.spans.items() if not is_record(span)}
        self._tree = Tree(self._spans)
        self._scope = policy.scope
        self._main: dict[str, SpanKey] = {}
        """The first outermost agent or workflow span of each trace: it and the trace are one run."""
        for key, span in self._spans.items():
            if span.role in _CONTAINERS and self._tree.above(span).outermost is None:
                self._main.setdefault(span.trace_id, key)
        self._joined: dict[RunKey, RunKey] = {}

    def runs(self) -> list[Run]:
        parts: dict[RunKey, _Parts] = {}
        tools = [span for span in self._spans.values() if span.role is Role.TOOL and span.call is not None]
        calls = same_calls(tools, self._tree)
        self._follow_links(calls)
        for same in calls:
            above = self._best_above(same)
            part = parts.setdefault(self._key(same.host, above), _Parts())
            part.calls.append(same)
            part.orphans = part.orphans or (above.outermost is None and self._is_orphan(same.host, above))
            part.incomplete_tree = part.incomplete_tree or not above.complete
        for span in self._spans.values():
            if span.role is Role.OTHER or span.role is Role.SETUP or span.call is not None:
                continue
            above = self._tree.above(span)
            if span.role in (Role.CHAT, Role.TURN, Role.HANDOFF) and above.outermost is None:
                continue  # a model response outside any agent is no run's business
            part = parts.setdefault(self._key(span, above), _Parts())
            part.bucket(span.role).append(span)
        return [self._run(key, part) for key, part in parts.items() if part.calls or part.containers]

    # --- run identity -------------------------------------------------------------------------------------

    def _key(self, span: SpanFacts, above: Above) -> RunKey:
        key = self._own_key(span, above)
        seen = {key}
        while key in self._joined and self._joined[key] not in seen:
            key = self._joined[key]
            seen.add(key)
        return key

    def _own_key(self, span: SpanFacts, above: Above) -> RunKey:
        run_id = span.run_id or above.run_id
        if run_id is not None:
            return ("run", run_id)
        conversation = span.conversation or above.conversation
        if self._scope is Scope.CONVERSATION and conversation is not None:
            return ("conversation", conversation)
        outermost = above.outermost or (span if span.role in _CONTAINERS else None)
        if outermost is not None:
            key = (outermost.trace_id, outermost.span_id)
            return ("trace", outermost.trace_id) if self._main.get(outermost.trace_id) == key else ("agent", *key)
        if conversation is not None and span.role is Role.TOOL and span.trace_id not in self._main:
            return ("conversation", conversation)
        return ("trace", span.trace_id)

    def _is_orphan(self, span: SpanFacts, above: Above) -> bool:
        return self._own_key(span, above)[0] == "conversation" and self._scope is not Scope.CONVERSATION

    def _best_above(self, same: SameCall) -> Above:
        above = self._tree.above(same.host)
        if above.outermost is None:
            for span in same.spans[1:]:
                inner = self._tree.above(span)
                if inner.outermost is not None and span.trace_id == same.host.trace_id:
                    return inner
        return above

    def _follow_links(self, calls: Sequence[SameCall]) -> None:
        """A run whose agent span links to a tool span of another run is part of that run."""
        hosts = {span_key(span): same.host for same in calls for span in same.spans}
        for span in self._spans.values():
            if span.role not in _CONTAINERS:
                continue
            for link in span.links:
                host = hosts.get(link)
                if host is not None:
                    own = self._own_key(span, self._tree.above(span))
                    other = self._own_key(host, self._tree.above(host))
                    if own != other:
                        self._joined.setdefault(own, other)

    # --- one run --------------------------------------------------------------------------------------------

    def _run(self, key: RunKey, part: _Parts) -> Run:
        spans = part.spans()
        agents = name_agents([span for span in part.containers if span.role is Role.AGENT], self._tree)
        found = [self._candidate(same, agents) for same in part.calls]
        ordered = in_order(found)
        chats = [(self._agent_of(chat, agents), chat) for chat in part.chats]
        give_turns(ordered, chats, self._tree)
        tokens = {
            (chat.trace_id, chat.span_id): (chat.chat.input_tokens or 0) + (chat.chat.output_tokens or 0)
            for chat in part.chats
            if chat.chat is not None
        }
        calls = _numbered(by_turn(ordered), tokens)
        end = ending.read(part.containers, part.chats, part.others, ordered, self._tree)
        missing, gaps, unclosed = _missing_sequences(calls, ordered, spans)
        flags = self._flags(part, spans, ordered, calls)
        flags.update(end.flags)
        flags.update(_gap_flags(missing, unclosed=unclosed))
        skewed = skewed_hosts(spans, self._spans)
        if skewed:
            flags.add(Flag.CLOCK_SKEW)
            if order_matters(ordered, skewed):
                flags.add(Flag.ORDER_UNCERTAIN)
        decisions = [span.decision for span in sorted(part.others, key=_by_start) if span.decision is not None]
        return Run(
            run_id=":".join(key[1:]),
            calls=calls,
            decisions=tuple(_place(decision, calls) for decision in decisions),
            trace_ids=tuple(sorted({span.trace_id for span in spans})),
            service=_most_common(span.service for span in spans),
            release=_most_common(span.release for span in spans),
            agent=_root_agent(part.containers, calls),
            model=_most_common(chat.chat.model for chat in part.chats if chat.chat is not None),
            started_ns=min((span.start_ns for span in spans), default=None),
            ended_ns=max((span.end_ns or span.start_ns for span in spans), default=None),
            flags=frozenset(flags),
            gaps=gaps,
            missing_sequences=missing,
            requested_unseen=end.unseen,
            scorable_without_calls=end.responses_without_calls,
            termination=end.termination,
            final_answer=end.final_answer,
            duplicates=self._duplicates(part, spans),
        )

    def _candidate(self, same: SameCall, agents: Mapping[SpanKey, str]) -> Candidate:
        return Candidate(same=same, facts=one_call(same), agent=self._agent_of(same.host, agents))

    def _agent_of(self, span: SpanFacts, agents: Mapping[SpanKey, str]) -> str:
        above = self._tree.above(span).agent
        if above is not None:
            return agents.get((above.trace_id, above.span_id), above.agent or DEFAULT_AGENT)
        return span.agent or DEFAULT_AGENT

    def _flags(
        self, part: _Parts, spans: Sequence[SpanFacts], found: Sequence[Candidate], calls: Sequence[ToolCall]
    ) -> set[Flag]:
        flags = version_flags(map(span_key, spans), self._versions)
        if part.orphans:
            flags.add(Flag.ORPHAN_ROOTS)
        if part.incomplete_tree or any(not self._tree.above(span).complete for span in part.containers[:1]):
            flags.add(Flag.NO_ROOT)
        if any(span.end_ns is None for span in spans):
            flags.add(Flag.OPEN_SPANS)
        if any(span.sampled for span in spans):
            flags.add(Flag.SAMPLED)
        if any(span.bad_attributes for span in spans):
            flags.add(Flag.BAD_ATTRIBUTES)
        if not found:
            flags.add(Flag.NO_TOOL_SPANS)
        flags.update(call_flags(calls))
        return flags

    def _duplicates(self, part: _Parts, spans: Sequence[SpanFacts]) -> Duplicates:
        keys = [span_key(span) for same in part.calls for span in same.spans]
        reidentified = sum(same.reidentified for same in part.calls)
        return Duplicates(
            identical=sum(self._versions.identical.get(span_key(span), 0) for span in spans),
            conflicting=sum(self._versions.conflicting.get(span_key(span), 0) for span in spans),
            reidentified=reidentified,
            layered=len(keys) - len(part.calls) - reidentified,
        )


def _numbered(placed: Sequence[tuple[int, Candidate]], tokens: Mapping[SpanKey, int]) -> tuple[ToolCall, ...]:
    left = dict(tokens)
    return tuple(
        ToolCall(
            number=number,
            turn=turn,
            agent=call.agent,
            facts=call.facts,
            start_ns=call.start_ns,
            end_ns=call.end_ns,
            tokens=0 if call.chat is None else left.pop(call.chat, 0),
            keys=tuple((span.trace_id, span.span_id) for span in call.same.spans),
        )
        for number, (turn, call) in enumerate(placed, start=1)
    )


def _missing_sequences(
    calls: Sequence[ToolCall], found: Sequence[Candidate], spans: Sequence[SpanFacts]
) -> tuple[tuple[int, ...], tuple[int, ...], bool]:
    """Returns (missing numbers, call numbers after which one is missing, whether a producer never closed)."""
    number_of = {call.keys[0]: call.number for call in calls}
    seen: dict[str, dict[int, int]] = {}
    for call in found:
        for span in call.same.spans:
            if span.sequence is not None:
                seen.setdefault(span.producer or "", {})[span.sequence] = number_of[span_key(call.same.host)]
    totals: dict[str, int] = {}
    for span in spans:
        if span.run_calls is not None:
            totals[span.producer or ""] = max(totals.get(span.producer or "", 0), span.run_calls)
    missing: list[int] = []
    gaps: set[int] = set()
    for producer, numbers in sorted(seen.items()):
        before = 0
        for sequence in range(1, max(*numbers, totals.get(producer, 0)) + 1):
            if sequence in numbers:
                before = max(before, numbers[sequence])
            elif len(missing) < MAX_REPORTED_GAP:
                missing.append(sequence)
                gaps.add(before)
            else:
                break
    unclosed = any(producer and producer not in totals for producer in seen)
    return tuple(sorted(missing)), tuple(sorted(gaps)), unclosed


def _gap_flags(missing: Sequence[int], *, unclosed: bool) -> set[Flag]:
    flags: set[Flag] = set()
    if missing:
        flags.add(Flag.SEQUENCE_GAP)
    if unclosed:
        flags.add(Flag.PRODUCER_NOT_CLOSED)
    return flags


def _place(decision: DecisionFacts, calls: Sequence[ToolCall]) -> PlacedDecision:
    about = next((c for c in reversed(calls) if decision.call_id and c.facts.call_id == decision.call_id), None)
    return PlacedDecision(
        decision=decision,
        call=None if about is None else about.number,
        after_call=len(calls) if about is None else about.number - 1,
    )


def _root_agent(containers: Sequence[SpanFacts], calls: Sequence[ToolCall]) -> str | None:
    named = [span for span in sorted(containers, key=_by_start) if span.role is Role.AGENT and span.agent]
    if named:
        return named[0].agent
    return next((call.agent for call in calls if call.agent != DEFAULT_AGENT), None)


def _most_common(names: Iterable[str | None]) -> str | None:
    counted = Counter(name for name in names if name)
    return min(counted, key=lambda name: (-counted[name], name)) if counted else None


def _by_start(span: SpanFacts) -> tuple[int, str, str]:
    return (span.start_ns, span.trace_id, span.span_id)
