"""Which spans that were kept are to be judged together, and when: the index of open groups.

Invariants: traces are joined exactly as `assembly.Grouper` joins them; every row that was added is in one group until
it is taken, and is taken once unless it is put back. Pure: time is a parameter. Rows only are held, no facts: under
150 bytes a span in batches of ten.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from otel_loopguard.assembly import global_write
from otel_loopguard.detectors.recent import Recent
from otel_loopguard.model import Role, SpanFacts
from otel_loopguard.policy import Policy, Scope
from otel_loopguard.scorer.records import Close, Pending
from otel_loopguard.scorer.settings import ScorerSettings

NS_PER_S: Final = 1_000_000_000
MAX_ENDED_TRACES: Final = 65_536
"""Judged traces whose root had ended that are remembered: what comes late for them waits for the grace period only."""
MAX_RESTING_NAMES: Final = 65_536
MAX_REST_NS: Final = 120 * NS_PER_S
_EARLIEST: Final = -(2**63)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """When a group is judged, all in nanoseconds but `max_spans`."""

    grace_ns: int = 5 * NS_PER_S
    idle_ns: int = 60 * NS_PER_S
    max_age_ns: int = 900 * NS_PER_S
    max_spans: int = 125_000

    @classmethod
    def of(cls, settings: ScorerSettings) -> Limits:
        """Returns the limits that the settings give."""
        return cls(
            grace_ns=int(settings.grace_s * NS_PER_S),
            idle_ns=int(settings.idle_s * NS_PER_S),
            max_age_ns=int(settings.max_age_s * NS_PER_S),
            max_spans=settings.max_group_spans,
        )


def joining_names(facts: SpanFacts, policy: Policy) -> Iterator[str]:
    """Gives what joins a span's trace to others, beside the trace id itself (see `assembly.Grouper`)."""
    if facts.run_id is not None:
        yield f"r:{facts.run_id}"
    if facts.conversation is not None and (facts.role is Role.TOOL or policy.scope is Scope.CONVERSATION):
        yield f"c:{facts.conversation}"
    digest = global_write(facts, policy)
    if digest is not None:
        yield f"w:{digest}"
    for trace_id, _ in facts.links:
        if trace_id != facts.trace_id:
            yield trace_id


class _Trace:
    """What is open of one trace."""

    __slots__ = ("ended", "first_ns", "group", "last_ns", "rows", "spans", "trace_id")

    def __init__(self, pending: Pending, group: _Group, *, ended: bool) -> None:
        self.trace_id = pending.trace_id
        self.rows = array("Q")
        self.spans = 0
        self.first_ns = self.last_ns = pending.received_ns
        self.ended = ended
        self.group = group


class _Group:
    """Traces that are judged together."""

    __slots__ = ("at_ns", "first_ns", "hold_ns", "last_ns", "names", "open", "spans", "traces")

    def __init__(self) -> None:
        self.traces: list[_Trace] = []
        """Empty once the group is taken, or is part of another."""
        self.names: list[str] | None = None
        """What joins it but the ids of its own traces, each once; None for none."""
        self.spans = 0
        self.open = 0
        """Traces whose root has not ended."""
        self.first_ns, self.last_ns = -_EARLIEST, _EARLIEST
        self.hold_ns = _EARLIEST
        self.at_ns = -_EARLIEST


class Due(msgspec.Struct, frozen=True, kw_only=True):
    """A group that is to be judged now; it is no longer in the index."""

    rows: tuple[int, ...]
    """Ascending; not empty."""
    names: frozenset[str]
    """Its trace ids, and whatever else joins it."""
    close: Close
    received: Mapping[str, int]
    """When the first span of each trace came, Unix nanoseconds."""
    spans: int
    traces: tuple[_Trace, ...]
    """The index's own, for putting it back."""


class OpenGroups:
    """The groups of all spans that were not judged yet.

    Args:
        limits: when a group is judged.

    Thread safety: none; one thread adds and takes.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._traces: dict[str, _Trace] = {}
        self._named: dict[str, _Group] = {}
        self._queue: list[tuple[int, int, _Group]] = []
        """A heap: a group is looked at not later than it is due."""
        self._turn = 0
        self._latest_ns = _EARLIEST
        self._ended: Recent[str, bool] = Recent(MAX_ENDED_TRACES)
        self._resting: Recent[str, int] = Recent(MAX_RESTING_NAMES)
        self.spans = 0
        """Spans in all groups; may be read from any thread."""
        self.groups = 0
        """How many groups there are; may be read from any thread."""

    @property
    def names(self) -> int:
        """How many names join traces; may be asked from any thread."""
        return len(self._named)

    def add(self, pending: Pending) -> None:
        """Takes note of one arrival that was kept. The order of arrivals makes no difference."""
        trace = self._traces.get(pending.trace_id)
        if trace is None:
            trace = self._begin(pending)
        elif pending.root_ended and not trace.ended:
            trace.ended = True
            trace.group.open -= 1
        received = pending.received_ns
        trace.rows.append(pending.row)
        trace.spans += pending.spans
        trace.first_ns, trace.last_ns = min(trace.first_ns, received), max(trace.last_ns, received)
        self._latest_ns = max(self._latest_ns, received)
        self.spans += pending.spans
        group = trace.group
        group.spans += pending.spans
        group.first_ns, group.last_ns = min(group.first_ns, received), max(group.last_ns, received)
        for name in pending.names:
            group = self._name(group, name)
        self._plan(group)

    def due(self, now_ns: int) -> Iterator[Due]:
        """Takes the groups that are due, one at a time: what is not asked for stays.

        Args:
            now_ns: Unix time. Where it went back, waiting begins anew.
        """
        if now_ns < self._latest_ns - NS_PER_S:
            self._turn_back(now_ns)
        self._latest_ns = max(self._latest_ns, now_ns)
        while self._queue and self._queue[0][0] <= now_ns:
            at_ns, _, group = heapq.heappop(self._queue)
            if not group.traces or at_ns != group.at_ns:
                continue  # gone, or planned anew since
            actual_ns = self._due_ns(group)
            if actual_ns > now_ns:
                self._push(group, actual_ns)
            else:
                yield self._take(group, now_ns)

    def overdue_ns(self, now_ns: int) -> int:
        """Tells for how long a group has been due that is due the longest, about; may be called from any thread."""
        queue = self._queue
        try:
            return max(0, now_ns - queue[0][0])
        except IndexError:
            return 0

    def put_back(self, due: Due, *, until_ns: int) -> None:
        """Puts a group back that could not be judged; it is not due before `until_ns`."""
        group = _Group()
        self.groups += 1
        for trace in due.traces:
            known = self._traces.get(trace.trace_id)
            if known is None:
                trace.group = group
                self._traces[trace.trace_id] = trace
                group.traces.append(trace)
                _count(group, trace)
                self.spans += trace.spans
            else:
                self._add_to(known, trace)
        if not group.traces:
            group = self._traces[due.traces[0].trace_id].group
            self.groups -= 1
        for name in due.names:
            group = self._name(group, name)
        group.hold_ns = max(group.hold_ns, until_ns)
        self._push(group, self._due_ns(group))

    def rest(self, names: Iterable[str], *, until_ns: int) -> None:
        """Lets nothing of these names be due before `until_ns`: a large group is not looked at anew for each span."""
        for name in names:
            self._resting.drop(name)
            self._resting.add(name, until_ns)

    def _begin(self, pending: Pending) -> _Trace:
        trace_id = pending.trace_id
        group = self._named.get(trace_id)
        if group is None:
            group = _Group()
            group.hold_ns = self._rests_until(trace_id)
            self.groups += 1
        ended = pending.root_ended or self._ended.peek(trace_id) is not None
        trace = self._traces[trace_id] = _Trace(pending, group, ended=ended)
        group.traces.append(trace)
        group.open += not ended
        return trace

    def _name(self, group: _Group, name: str) -> _Group:
        """Joins a group with whatever has this name; returns the group that it is then part of."""
        trace = self._traces.get(name)
        other = self._named.get(name) if trace is None else trace.group
        if other is group:
            return group
        if other is not None:
            return self._join(group, other)
        self._named[name] = group
        if group.names is None:
            group.names = [name]
        else:
            group.names.append(name)
        group.hold_ns = max(group.hold_ns, self._rests_until(name))
        return group

    def _rests_until(self, name: str) -> int:
        until_ns = self._resting.peek(name)
        # Whatever the clock did since, nothing rests for longer.
        return _EARLIEST if until_ns is None else min(until_ns, self._latest_ns + MAX_REST_NS)

    def _join(self, one: _Group, other: _Group) -> _Group:
        large, small = (one, other) if len(one.traces) >= len(other.traces) else (other, one)
        for trace in small.traces:
            trace.group = large
        large.traces += small.traces
        if small.names:
            self._named.update(dict.fromkeys(small.names, large))
            if large.names is None:
                large.names = small.names
            else:
                large.names += small.names
        large.spans += small.spans
        large.open += small.open
        large.first_ns, large.last_ns = min(one.first_ns, other.first_ns), max(one.last_ns, other.last_ns)
        large.hold_ns = max(one.hold_ns, other.hold_ns)
        small.traces = []
        small.names = None
        self.groups -= 1
        self._plan(large)
        return large

    def _add_to(self, known: _Trace, trace: _Trace) -> None:
        """Adds what was taken of a trace to what came of it since."""
        known.rows.extend(trace.rows)
        known.spans += trace.spans
        known.first_ns, known.last_ns = min(known.first_ns, trace.first_ns), max(known.last_ns, trace.last_ns)
        group = known.group
        if trace.ended and not known.ended:
            known.ended = True
            group.open -= 1
        group.spans += trace.spans
        group.first_ns, group.last_ns = min(group.first_ns, trace.first_ns), max(group.last_ns, trace.last_ns)
        self.spans += trace.spans

    def _due_ns(self, group: _Group) -> int:
        limits = self._limits
        if group.spans >= limits.max_spans:
            return max(group.hold_ns, group.last_ns)
        wait_ns = limits.idle_ns if group.open else min(limits.grace_ns, limits.idle_ns)
        return max(group.hold_ns, min(group.last_ns + wait_ns, group.first_ns + limits.max_age_ns))

    def _plan(self, group: _Group) -> None:
        """Sees to it that the group is looked at in time; later than planned is told when it is looked at."""
        at_ns = self._due_ns(group)
        if at_ns < group.at_ns:
            self._push(group, at_ns)

    def _push(self, group: _Group, at_ns: int) -> None:
        self._turn += 1
        group.at_ns = at_ns
        heapq.heappush(self._queue, (at_ns, self._turn, group))

    def _why(self, group: _Group, now_ns: int) -> Close:
        limits = self._limits
        if group.spans >= limits.max_spans:
            return Close.SPAN_LIMIT
        if not group.open and group.last_ns + limits.grace_ns <= now_ns:
            return Close.ROOT_ENDED
        return Close.IDLE if group.last_ns + limits.idle_ns <= now_ns else Close.AGE_LIMIT

    def _take(self, group: _Group, now_ns: int) -> Due:
        traces = tuple(group.traces)
        names = group.names or []
        for trace in traces:
            del self._traces[trace.trace_id]
            if trace.ended:
                self._ended.drop(trace.trace_id)
                self._ended.add(trace.trace_id, value=True)
        for name in names:
            del self._named[name]
        self.spans -= group.spans
        self.groups -= 1
        due = Due(
            rows=tuple(sorted(row for trace in traces for row in trace.rows)),
            names=frozenset([*names, *[trace.trace_id for trace in traces]]),
            close=self._why(group, now_ns),
            received={trace.trace_id: trace.first_ns for trace in traces},
            spans=group.spans,
            traces=traces,
        )
        group.traces, group.names = [], None
        return due

    def _turn_back(self, now_ns: int) -> None:
        """The clock went back: nothing waits longer for that than it would have from now on."""
        self._latest_ns = now_ns
        for trace in self._traces.values():
            trace.first_ns, trace.last_ns = min(trace.first_ns, now_ns), min(trace.last_ns, now_ns)
            group = trace.group
            group.first_ns, group.last_ns = min(group.first_ns, now_ns), min(group.last_ns, now_ns)
            group.hold_ns = min(group.hold_ns, now_ns)
            self._plan(group)


def _count(group: _Group, trace: _Trace) -> None:
    group.spans += trace.spans
    group.open += not trace.ended
    group.first_ns, group.last_ns = min(group.first_ns, trace.first_ns), max(group.last_ns, trace.last_ns)
