"""One call, one count: finds the tool spans that show the same call, and makes one set of facts of them.

Two tool spans are one call where one is nested in the other (with no agent or model between), where a link
joins them, where the same call id has the same start and end in one trace, or where an MCP span lies within
the time of the host's span for the same tool. A call id alone is not enough: ids are reused (DESIGN 4).
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from otel_loopguard.assembly.tree import Tree
from otel_loopguard.model import CallFacts, ErrorCategory, Layer, Outcome, ResultClass, SpanFacts, SpanKey

_LAYER_ORDER: Final = {Layer.HOST: 0, Layer.CLIENT: 1, Layer.SERVER: 2}
_NAME_SEPARATORS: Final = ("__", ".", "/", ":")


class SameCall(msgspec.Struct, frozen=True, gc=False):
    """The spans of one call, outermost first, and how many of them are re-identified copies."""

    host: SpanFacts
    """The outermost span."""
    spans: tuple[SpanFacts, ...]
    """All spans, the outermost among them."""
    reidentified: int = 0


def same_calls(tools: Sequence[SpanFacts], tree: Tree) -> tuple[SameCall, ...]:
    """Groups tool spans by the call they show.

    Args:
        tools: tool spans that count as calls, one version of each, any order.
        tree: the spans above them.

    Returns:
        One entry a call, in no particular order; each span is in exactly one.

    Cost: n log n in the number of tool spans.
    """
    if _all_apart(tools, tree):
        return tuple([SameCall(tool, (tool,)) for tool in tools])
    groups = _Union(len(tools))
    places: dict[SpanKey, int] = {(tool.trace_id, tool.span_id): place for place, tool in enumerate(tools)}
    _join_nested(tools, tree, places, groups)
    _join_linked(tools, places, groups)
    reidentified = _join_copies(tools, groups)
    _join_instrumentations(tools, groups)
    _join_siblings(tools, groups)
    members: dict[int, list[int]] = {}
    for place in range(len(tools)):
        members.setdefault(groups.root(place), []).append(place)
    found: list[SameCall] = []
    for places_ in members.values():
        spans = tuple(sorted([tools[place] for place in places_], key=_outermost_first))
        found.append(SameCall(spans[0], spans, sum([place in reidentified for place in places_])))
    return tuple(found)


def _all_apart(tools: Sequence[SpanFacts], tree: Tree) -> bool:
    """Tells quickly of most runs that nothing joins two of their tool spans; False says nothing."""
    ids: set[tuple[str, int]] = set()
    dialect = tools[0].dialect if tools else None
    for tool in tools:
        if tool.links or tool.layer is not Layer.HOST or tree.above(tool).tool is not None:
            return False
        if tool.dialect != dialect:
            return False
        if tool.call is not None and tool.call.call_id is not None:
            same_id = (tool.call.call_id, tool.start_ns)
            if same_id in ids:
                return False
            ids.add(same_id)
    return True


def one_call(same: SameCall) -> CallFacts:
    """Returns the facts of one call from all its spans: the outermost span's, gaps filled from those within.

    An error on any layer makes the call an error: hosts report handled errors as successes.
    """
    facts = same.host.call
    if facts is None:
        message = "a tool span without call facts cannot be counted"
        raise ValueError(message)
    if len(same.spans) > 1:
        for span in same.spans[1:]:
            if span.call is not None:
                facts = _fill(facts, span.call)
    return facts


def _fill(outer: CallFacts, inner: CallFacts) -> CallFacts:
    changes: dict[str, object] = {}
    if outer.call_id is None and inner.call_id is not None:
        changes["call_id"] = inner.call_id
    if outer.call_digest is None and inner.call_digest is not None:
        changes.update(
            call_digest=inner.call_digest,
            call_unknown=None,
            business_digest=inner.business_digest,
            idempotency_digest=inner.idempotency_digest,
        )
    if outer.result_digest is None and inner.result_digest is not None:
        changes.update(
            result_digest=inner.result_digest,
            result_unknown=None,
            result_class=inner.result_class,
            signals=inner.signals,
        )
    outcome = _worse(outer.outcome, inner.outcome)
    if outcome is not outer.outcome:
        changes.update(outcome=outcome, denied_by=outer.denied_by or inner.denied_by)
    if outcome is Outcome.ERROR:
        changes["result_class"] = ResultClass.ERROR
        known = [c for c in (outer.error_category, inner.error_category) if c not in (None, ErrorCategory.UNKNOWN)]
        changes["error_category"] = known[0] if known else ErrorCategory.UNKNOWN
        changes["error_type"] = outer.error_type or inner.error_type
    return msgspec.structs.replace(outer, **changes) if changes else outer


def _worse(outer: Outcome, inner: Outcome) -> Outcome:
    for outcome in (Outcome.DENIED, Outcome.ERROR, Outcome.OK):
        if outcome in (outer, inner):
            return outcome
    return Outcome.UNKNOWN


def _join_nested(tools: Sequence[SpanFacts], tree: Tree, places: Mapping[SpanKey, int], groups: _Union) -> None:
    for place, tool in enumerate(tools):
        outer = tree.above(tool).tool
        if outer is None or starts_after(tool, outer.end_ns):
            continue
        if tool.layer is not Layer.HOST or _same_tool(outer, tool) or _same_id(outer, tool):
            groups.join(place, places[(outer.trace_id, outer.span_id)])


def starts_after(span: SpanFacts, end_ns: int | None) -> bool:
    """Tells whether a span began when another was over, the end of which is given; False while that is open.

    A context that nobody detached makes each call the parent of the next: below it by id alone, it is no layer of it.
    """
    return end_ns is not None and span.start_ns >= end_ns and (span.end_ns is None or span.end_ns > end_ns)


def _join_linked(tools: Sequence[SpanFacts], places: Mapping[SpanKey, int], groups: _Union) -> None:
    for place, tool in enumerate(tools):
        for link in tool.links:
            other = places.get(link)
            if other is not None:
                groups.join(place, other)


def _join_copies(tools: Sequence[SpanFacts], groups: _Union) -> set[int]:
    """Joins copies that were given a new span id on the way, and returns the places of the copies."""
    first: dict[tuple[object, ...], int] = {}
    copies: set[int] = set()
    for place, tool in sorted(enumerate(tools), key=lambda item: (item[1].start_ns, item[1].span_id)):
        if tool.call is None or tool.call.call_id is None or tool.end_ns is None:
            continue
        key = (tool.trace_id, tool.call.call_id, tool.call.tool, tool.layer, tool.start_ns, tool.end_ns)
        other = first.setdefault(key, place)
        if other != place and groups.root(other) != groups.root(place):
            groups.join(place, other)
            copies.add(place)
    return copies


def _join_instrumentations(tools: Sequence[SpanFacts], groups: _Union) -> None:
    """Joins what two instrumentations of one framework show beside each other.

    Equal calls (by digest) of one tool in one trace that overlap in time, told in different dialects: the first of
    one is the first of the other, and so on. Equal siblings come in one dialect, so they stay apart.
    """
    told: dict[tuple[str, str, str], dict[str, list[int]]] = {}
    for place, tool in enumerate(tools):
        if tool.layer is Layer.HOST and tool.call is not None and tool.call.call_digest is not None:
            key = (tool.trace_id, _last_name(tool), tool.call.call_digest)
            told.setdefault(key, {}).setdefault(tool.dialect or "", []).append(place)
    for by_dialect in told.values():
        if len(by_dialect) > 1:
            lists = [
                sorted(places, key=lambda p: (tools[p].start_ns, tools[p].span_id))
                for _, places in sorted(by_dialect.items())
            ]
            for others in lists[1:]:
                for one, other in zip(lists[0], others, strict=False):
                    if tools[one].start_ns <= _end(tools[other]) and tools[other].start_ns <= _end(tools[one]):
                        groups.join(one, other)


def _join_siblings(tools: Sequence[SpanFacts], groups: _Union) -> None:
    """Joins MCP spans to the host span of the same tool whose time they lie in."""
    inner = [p for p, tool in enumerate(tools) if tool.layer is not Layer.HOST]
    if not inner:
        return
    hosts: dict[tuple[str, str], list[int]] = {}
    for place, tool in enumerate(tools):
        if tool.layer is Layer.HOST:
            hosts.setdefault((tool.trace_id, _last_name(tool)), []).append(place)
    taken = {groups.root(h) for places in hosts.values() for h in places} & {groups.root(p) for p in inner}
    waiting: dict[tuple[str, str], list[int]] = {}
    for place in inner:
        if groups.root(place) not in taken:
            waiting.setdefault((tools[place].trace_id, _last_name(tools[place])), []).append(place)
    for key, places in waiting.items():
        free = [h for h in hosts.get(key, ()) if groups.root(h) not in taken]
        _match(tools, sorted(free, key=lambda h: _latest_end_first(tools[h])), places, groups)


def _match(tools: Sequence[SpanFacts], hosts: Sequence[int], inner: Sequence[int], groups: _Union) -> None:
    """Joins each inner span to a host span around it, as many as can be.

    Latest end first, each to the free host that starts last: no other choice joins more (interval matching).
    `hosts` are sorted by latest end, open spans first.
    """
    open_hosts: list[tuple[int, str, int]] = []  # those that end late enough, by start
    joined: set[int] = set()
    next_host = 0
    for place in sorted(inner, key=lambda p: (-_end(tools[p]), -tools[p].start_ns, tools[p].span_id)):
        if groups.root(place) in joined:
            continue
        tool = tools[place]
        while next_host < len(hosts) and _ends_after(tools[hosts[next_host]], tool):
            host = hosts[next_host]
            insort(open_hosts, (tools[host].start_ns, tools[host].span_id, host))
            next_host += 1
        at = bisect_right(open_hosts, tool.start_ns, key=lambda entry: entry[0])
        if at:
            _, _, host = open_hosts.pop(at - 1)
            groups.join(place, host)
            joined.add(groups.root(place))


def _ends_after(host: SpanFacts, inner: SpanFacts) -> bool:
    return host.end_ns is None or (inner.end_ns is not None and inner.end_ns <= host.end_ns)


def _latest_end_first(span: SpanFacts) -> tuple[bool, int, str]:
    return (span.end_ns is not None, -_end(span), span.span_id)


def _end(span: SpanFacts) -> int:
    return span.start_ns if span.end_ns is None else span.end_ns


def _same_id(one: SpanFacts, other: SpanFacts) -> bool:
    return one.call is not None and other.call is not None and one.call.call_id == other.call.call_id is not None


def _same_tool(one: SpanFacts, other: SpanFacts) -> bool:
    return _last_name(one) == _last_name(other)


def _last_name(span: SpanFacts) -> str:
    """Returns the tool's name without the server or agent that instrumentations put before it."""
    name = span.call.tool if span.call is not None else ""
    for separator in _NAME_SEPARATORS:
        name = name.rpartition(separator)[2] or name
    return name


def _outermost_first(span: SpanFacts) -> tuple[int, int, int, str, str]:
    end_ns = -1 if span.end_ns is None else span.end_ns
    return (_LAYER_ORDER[span.layer], span.start_ns, -end_ns, span.trace_id, span.span_id)


class _Union:
    """Disjoint sets of small integers."""

    __slots__ = ("_parent",)

    def __init__(self, size: int) -> None:
        self._parent = list(range(size))

    def root(self, place: int) -> int:
        parent = self._parent
        while parent[place] != place:
            parent[place] = parent[parent[place]]
            place = parent[place]
        return place

    def join(self, one: int, other: int) -> None:
        # The smaller root wins, so the outcome does not depend on the order of joining.
        one, other = sorted((self.root(one), self.root(other)))
        self._parent[other] = one
