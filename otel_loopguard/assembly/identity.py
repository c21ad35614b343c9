"""Which run a span belongs to.

First that applies (DESIGN 4): an explicit run id; the policy's scope; a link to another run's tool span; the
outermost agent or workflow span above in its trace; the conversation of a tool span in a trace without any
agent (flag `orphan_roots`); the trace. The first outermost agent span of a trace and the trace itself are one
run, so that a tool span whose parents are lost stays where it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from otel_loopguard.assembly.grouping import span_key
from otel_loopguard.assembly.layers import SameCall
from otel_loopguard.assembly.tree import Above, Tree
from otel_loopguard.model import Role, SpanFacts, SpanKey
from otel_loopguard.policy import Scope

RunKey: TypeAlias = tuple[str, ...]
"""(what the run is known by, then the parts of its id)."""

CONTAINERS: Final = (Role.AGENT, Role.WORKFLOW)
_OF_A_RUN: Final = (Role.DECISION, Role.RUN_END, Role.TOOL)
"""Roles that speak of a run even where no agent is above them."""
_PASSED_OVER: Final = (Role.OTHER, Role.SETUP)


class Parts(msgspec.Struct, kw_only=True, gc=False):
    """The spans of one run, by what they are."""

    calls: list[SameCall] = []
    containers: list[SpanFacts] = []
    chats: list[SpanFacts] = []
    others: list[SpanFacts] = []
    """Decisions, run ends, turns, hand-overs and tool-like spans that are no calls."""
    orphans: bool = False
    incomplete_tree: bool = False

    def spans(self) -> list[SpanFacts]:
        """All spans of the run."""
        found = [span for same in self.calls for span in same.spans]
        found += self.containers
        found += self.chats
        found += self.others
        return found


def parts_of_runs(
    spans: Mapping[SpanKey, SpanFacts], calls: Sequence[SameCall], tree: Tree, scope: Scope
) -> dict[RunKey, Parts]:
    """Sorts the spans of a group by run.

    Args:
        spans: one version of each, ordered by start.
        calls: the tool spans among them, one entry a call.
        tree: the spans above them.
        scope: the policy's.

    Returns:
        The parts of each run that has a call or an agent, by the run's key.
    """
    return _Sorting(spans, tree, scope).sort(calls)


class _Sorting:
    def __init__(self, spans: Mapping[SpanKey, SpanFacts], tree: Tree, scope: Scope) -> None:
        self._spans, self._tree, self._scope = spans, tree, scope
        self._main: dict[str, SpanFacts] = {}
        self._joined: dict[RunKey, RunKey] = {}
        self._holds: dict[SpanKey, set[RunKey]] = {}
        """Runs of the calls below each outermost container."""
        for span in spans.values():
            if span.role in CONTAINERS and tree.above(span).outermost is None:
                self._main.setdefault(span.trace_id, span)

    def sort(self, calls: Sequence[SameCall]) -> dict[RunKey, Parts]:
        parts: dict[RunKey, Parts] = {}
        self._follow_links(calls)
        for same in calls:
            self._place_call(same, parts)
        for span in self._spans.values():
            if span.call is None and span.role not in _PASSED_OVER:
                self._place_other(span, parts)
        return {key: part for key, part in parts.items() if part.calls or part.containers}

    def _place_call(self, same: SameCall, parts: dict[RunKey, Parts]) -> None:
        host = same.host
        above = self._tree.above(host)
        if above.outermost is None and len(same.spans) > 1:
            above = self._above_of_a_layer(same, above)
        key = self._joint(self._key(host, above))
        part = parts.get(key)
        if part is None:
            part = parts[key] = Parts()
        part.calls.append(same)
        if not above.complete:
            part.incomplete_tree = True
        outermost = above.outermost
        if outermost is not None:
            self._holds.setdefault((outermost.trace_id, outermost.span_id), set()).add(key)
        elif key[0] == "conversation" and self._scope is not Scope.CONVERSATION:
            part.orphans = True

    def _place_other(self, span: SpanFacts, parts: dict[RunKey, Parts]) -> None:
        above = self._tree.above(span)
        container = span.role in CONTAINERS
        outermost = above.outermost or (span if container else None)
        if outermost is None and span.role not in _OF_A_RUN:
            return  # a model response outside any agent is no run's business
        key = self._joint(self._key(span, above))
        held = None if outermost is None else self._holds.get((outermost.trace_id, outermost.span_id))
        if held is not None and key not in held:
            # Its calls say better which run it holds (a run id may stand on tool spans only).
            if len(held) > 1:
                return
            (key,) = held
        part = parts.get(key)
        if part is None:
            part = parts[key] = Parts()
        if container:
            part.containers.append(span)
            part.incomplete_tree = part.incomplete_tree or not above.complete
        elif span.role is Role.CHAT:
            part.chats.append(span)
        else:
            part.others.append(span)

    def _joint(self, key: RunKey) -> RunKey:
        if not self._joined:
            return key
        seen = {key}
        while key in self._joined and self._joined[key] not in seen:
            key = self._joined[key]
            seen.add(key)
        return key

    def _key(self, span: SpanFacts, above: Above) -> RunKey:
        run_id = span.run_id or above.run_id
        if run_id is not None:
            return ("run", run_id)
        conversation = span.conversation or above.conversation
        if self._scope is Scope.CONVERSATION and conversation is not None:
            return ("conversation", conversation)
        outermost = above.outermost or (span if span.role in CONTAINERS else None)
        main = self._main.get(span.trace_id)
        if outermost is not None and outermost is not main:
            return ("agent", outermost.trace_id, outermost.span_id)
        if main is not None and main is not span and outermost is None:
            return self._key(main, self._tree.above(main))
        if main is None and span.role is Role.TOOL:
            # Of a tool span only, as only these join traces: the run would else be in several groups.
            conversation = span.conversation or (None if above.tool is None else above.tool.conversation)
            if conversation is not None:
                return ("conversation", conversation)
        return ("trace", span.trace_id)

    def _above_of_a_layer(self, same: SameCall, above: Above) -> Above:
        for span in same.spans[1:]:
            inner = self._tree.above(span)
            if inner.outermost is not None and span.trace_id == same.host.trace_id:
                return inner
        return above

    def _follow_links(self, calls: Sequence[SameCall]) -> None:
        """A run whose agent span links to a tool span of another run is part of that run."""
        linking = [span for span in self._spans.values() if span.links and span.role in CONTAINERS]
        if not linking:
            return
        hosts = {span_key(span): same.host for same in calls for span in same.spans}
        for span in linking:
            for link in span.links:
                host = hosts.get(link)
                if host is not None:
                    own = self._key(span, self._tree.above(span))
                    other = self._key(host, self._tree.above(host))
                    if own != other:
                        self._joined.setdefault(own, other)
