"""From received spans and call records to one report a run, in bounded memory.

Invariants: content is digested at once and never kept; the reports do not depend on the order in which items
came. Facts above `spill_after_spans` go to disk (`spill`): digests, numbers that progress rules compare, and
checked names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from otel_loopguard.assembly import Grouper, assemble
from otel_loopguard.detectors.writes import BusinessMemory
from otel_loopguard.digest import Digester
from otel_loopguard.facts import FactsReader
from otel_loopguard.model import CallRecord, Flag, Role, Run, Span, SpanFacts, ToolCall, Verdict
from otel_loopguard.observation import Observation
from otel_loopguard.policy import Policy
from otel_loopguard.spill import Spill, cut_order, run_order
from otel_loopguard.verdict import judge

DEFAULT_SPILL_AFTER_SPANS: Final = 100_000
"""Facts kept in memory before they go to disk: one to two kB each, so at most some 200 MB."""

DEFAULT_MAX_GROUP_SPANS: Final = 125_000
"""Spans looked at together at most; a group that is larger is cut by time, and its runs say
`run_limit` and bear a number from the second part on. Judging holds some 3 kB a span."""


class RunReport(msgspec.Struct, frozen=True, kw_only=True):
    """One judged run; `observations` are parallel to `calls`."""

    verdict: Verdict
    calls: tuple[ToolCall, ...]
    observations: tuple[Observation, ...]


class Counts(msgspec.Struct, kw_only=True):
    """What went in and came out."""

    spans: int = 0
    records: int = 0
    tool_spans: int = 0
    runs: int = 0
    calls: int = 0
    dialects: Counter[str] = msgspec.field(default_factory=Counter)
    """Spans that told something of a run, by the dialect that read them."""


class Replay:
    """Collects spans and call records, then judges the runs in them.

    Args:
        policy: the owner's policy, or `policy.default()`.
        digester: one digester for everything, since equal calls must match across traces.
        spill_after_spans: facts kept in memory before they go to a temporary database.
        max_group_spans: spans looked at together at most.

    Thread safety: none; one thread adds, then reads.
    """

    def __init__(
        self,
        policy: Policy,
        digester: Digester,
        *,
        spill_after_spans: int = DEFAULT_SPILL_AFTER_SPANS,
        max_group_spans: int = DEFAULT_MAX_GROUP_SPANS,
    ) -> None:
        if min(spill_after_spans, max_group_spans) < 1:
            message = "spill_after_spans and max_group_spans must be at least 1"
            raise ValueError(message)
        self._policy = policy
        self._reader = FactsReader(policy, lambda _: digester)
        self._grouper = Grouper(policy)
        self._held: dict[int, list[SpanFacts]] = {}
        """By the grouper's node."""
        self._held_spans = 0
        self._spill: Spill | None = None
        self._spill_after = spill_after_spans
        self._max_group = max_group_spans
        self._parts: dict[str, int] = {}
        self._taken = False
        self.counts = Counts()

    def add(self, item: Span | CallRecord | SpanFacts) -> None:
        """Takes one span, call record, or facts made elsewhere.

        Raises:
            SpillError: the disk is full.
        """
        counts = self.counts
        if isinstance(item, Span):
            counts.spans += 1
            facts = self._reader.of_span(item)
        elif isinstance(item, CallRecord):
            counts.records += 1
            facts = self._reader.of_record(item)
        else:
            counts.spans += 1
            facts = item
        if facts.call is not None:
            counts.tool_spans += 1
        if facts.role is not Role.OTHER and facts.dialect is not None and not isinstance(item, CallRecord):
            counts.dialects[facts.dialect] += 1
        node = self._grouper.add(facts)
        held = self._held.get(node)
        if held is None:
            self._held[node] = [facts]
        else:
            held.append(facts)
        self._held_spans += 1
        if self._held_spans >= self._spill_after:
            if self._spill is None:
                self._spill = Spill()
            self._let_go(self._spill)

    def reports(self) -> Iterator[RunReport]:
        """Judges every run once, ordered by the start of its group, then of the run.

        Yields:
            One report a run. Memory: the largest group, at most `max_group_spans` spans.

        Raises:
            SpillError: the disk is full.
            RuntimeError: the reports were read before.
        """
        if self._taken:
            message = "the reports of a Replay are read once; make a new one"
            raise RuntimeError(message)
        self._taken = True
        memory = BusinessMemory()
        for group, cut in self._groups():
            for run in assemble(group, self._policy):
                limited = self._limited(run) if cut else run
                verdict, observations = judge(limited, self._policy, memory=memory)
                self.counts.runs += 1
                self.counts.calls += len(limited.calls)
                yield RunReport(verdict=verdict, calls=limited.calls, observations=observations)

    def _limited(self, run: Run) -> Run:
        """A part of a group that was cut: flagged, and from the second part on with a number of its own."""
        part = self._parts[run.run_id] = self._parts.get(run.run_id, 0) + 1
        run_id = run.run_id if part == 1 else f"{run.run_id}~{part}"
        return msgspec.structs.replace(run, run_id=run_id, flags=run.flags | {Flag.RUN_LIMIT})

    def _let_go(self, spill: Spill) -> None:
        spill.put(self._held)
        self._held.clear()
        self._held_spans = 0

    def _groups(self) -> Iterator[tuple[list[SpanFacts], bool]]:
        if self._spill is not None:
            self._let_go(self._spill)
            yield from self._spill.groups(self._grouper, self._max_group)
            self._spill = None
            return
        groups: dict[int, list[SpanFacts]] = {}
        for node, spans in self._held.items():
            groups.setdefault(self._grouper.group(node), []).extend(spans)
        self._held.clear()
        for spans in sorted(groups.values(), key=_first):
            yield from _cut(spans, self._max_group)


def _first(spans: Iterable[SpanFacts]) -> bytes:
    return min(map(run_order, spans))


def _cut(spans: list[SpanFacts], limit: int) -> Iterator[tuple[list[SpanFacts], bool]]:
    if len(spans) <= limit:
        yield spans, False
        return
    spans.sort(key=cut_order)
    for start in range(0, len(spans), limit):
        yield spans[start : start + limit], True
