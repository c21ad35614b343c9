"""Which traces and records must be looked at together, and one version of each span.

Invariants: both are order-free: the same set of spans gives the same groups and the same versions, however
often and in whatever order each span came.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from otel_loopguard.facts import RECORD_TRACE
from otel_loopguard.model import Role, SpanFacts, SpanKey
from otel_loopguard.policy import BusinessScope, Policy, Scope

_encode = msgspec.msgpack.Encoder(order="deterministic").encode

RECORD_KEY_SEPARATOR: Final = "\x1f"


class Grouper:
    """Joins what may belong to one run: traces that share a run id, a link, or a tool span's conversation.

    Runs that make the same write whose business key holds everywhere are joined, too, so that they are judged in the
    order of their starts. A group may hold several runs, never part of one. Memory: one entry a trace, run id,
    conversation and such key.

    Args:
        policy: the owner's; under the scope `conversation` every span's conversation joins, not only a tool span's.
            None: the scope `run`, and no such keys.
    """

    def __init__(self, policy: Policy | None = None) -> None:
        self._policy = policy
        self._by_conversation = policy is not None and policy.scope is Scope.CONVERSATION
        self._parent: list[int] = []
        self._node_of: dict[str, int] = {}

    def add(self, span: SpanFacts) -> int:
        """Takes note of one span or record and returns its node; `group` of the node is final once all are in."""
        if span.trace_id == RECORD_TRACE:
            node = self._node(f"r:{span.run_id}")
            for name, value in (("c", span.conversation), ("t", span.task)):
                if value is not None:
                    self._join(node, self._node(f"{name}:{value}"))
            self._join_writes(node, span)
            return node
        node = self._node(span.trace_id)
        if span.run_id is not None:
            self._join(node, self._node(f"r:{span.run_id}"))
        if span.conversation is not None and (span.role is Role.TOOL or self._by_conversation):
            self._join(node, self._node(f"c:{span.conversation}"))
        for trace_id, _ in span.links:
            if trace_id != span.trace_id:
                self._join(node, self._node(trace_id))
        self._join_writes(node, span)
        return node

    def group(self, node: int) -> int:
        """Returns the group that `node` belongs to so far."""
        parent = self._parent
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    def _join_writes(self, node: int, span: SpanFacts) -> None:
        digest = None if self._policy is None else global_write(span, self._policy)
        if digest is not None:
            self._join(node, self._node(f"w:{digest}"))

    def _node(self, name: str) -> int:
        node = self._node_of.get(name)
        if node is None:
            node = self._node_of[name] = len(self._parent)
            self._parent.append(node)
        return node

    def _join(self, one: int, other: int) -> None:
        one, other = self.group(one), self.group(other)
        if one != other:
            self._parent[max(one, other)] = min(one, other)


def global_write(span: SpanFacts, policy: Policy) -> str | None:
    """Returns the business digest of a call whose key holds everywhere; None for any other span."""
    call = span.call
    if call is None or call.business_digest is None:
        return None
    return call.business_digest if policy.contract(call.tool).business_scope is BusinessScope.GLOBAL else None


class Versions(msgspec.Struct, frozen=True, gc=False):
    """One version of each span, and what was left out.

    `identical` and `conflicting` count left-out copies by the key of the span they were copies of.
    """

    spans: dict[SpanKey, SpanFacts]
    identical: dict[SpanKey, int]
    conflicting: dict[SpanKey, int]
    revised: frozenset[SpanKey]


def one_version(spans: Iterable[SpanFacts]) -> Versions:
    """Keeps one version of each span: an ended one before an open one, then one with a result, then a fixed choice.

    Args:
        spans: any order, any number of copies. Call records are told apart by run id and sequence.

    Returns:
        The kept versions in a fixed order (start, trace id, span id).
    """
    kept: dict[SpanKey, SpanFacts] = {}
    identical: dict[SpanKey, int] = {}
    others: dict[SpanKey, list[SpanFacts]] = {}
    for span in spans:
        key = span_key(span)
        known = kept.get(key)
        if known is None:
            kept[key] = span
        elif known == span:
            identical[key] = identical.get(key, 0) + 1
        else:
            others.setdefault(key, []).append(span)
    conflicting: dict[SpanKey, int] = {}
    revised: set[SpanKey] = set()
    for key, more in others.items():
        versions = sorted({_encode(span): span for span in (kept[key], *more)}.items(), key=_better_last)
        best = kept[key] = versions[-1][1]
        copies = 1 + identical.get(key, 0) + len(more)
        open_versions = sum(span.end_ns is None for _, span in versions) if best.end_ns is not None else 0
        if open_versions:
            revised.add(key)
        clashes = len(versions) - 1 - open_versions
        if clashes:
            conflicting[key] = clashes
        identical[key] = copies - len(versions)
    ordered = sorted(kept.items(), key=lambda item: (item[1].start_ns, item[0]))
    return Versions(dict(ordered), {k: n for k, n in identical.items() if n}, conflicting, frozenset(revised))


def span_key(span: SpanFacts) -> SpanKey:
    """Returns what tells a span from every other; for a call record its place and the call it shows.

    Agents, user turns and attempts may number their calls each from the start, and two different calls are two
    calls whatever their number.
    """
    if span.trace_id != RECORD_TRACE:
        return (span.trace_id, span.span_id)
    place = (span.run_id, span.agent, span.conversation, span.user_turn, span.attempt, str(span.sequence))
    call = span.call
    shown = () if call is None else (call.tool, call.call_id, call.call_digest)
    return (RECORD_TRACE, RECORD_KEY_SEPARATOR.join([part or "" for part in (*place, *shown)]))


def _better_last(item: tuple[bytes, SpanFacts]) -> tuple[bool, bool, int, bytes]:
    encoded, span = item
    call = span.call
    return (span.end_ns is not None, call is not None and call.result_digest is not None, span.end_ns or 0, encoded)
