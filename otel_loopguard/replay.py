"""From received spans and call records to one report a run, in bounded memory.

Invariants: content is digested at once and never kept; the reports do not depend on the order in which items
came. Facts above `spill_after_spans` go to a private temporary database that has no name and is gone when the
process ends; it holds digests, numbers that progress rules compare, and checked names.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from otel_loopguard.assembly import Grouper, assemble
from otel_loopguard.digest import Digester
from otel_loopguard.facts import FactsReader
from otel_loopguard.model import CallRecord, Flag, Role, Run, Span, SpanFacts, ToolCall, Verdict
from otel_loopguard.policy import Policy
from otel_loopguard.tracker import Observation
from otel_loopguard.verdict import judge

DEFAULT_SPILL_AFTER_SPANS: Final = 100_000
"""Facts kept in memory before they go to disk: about 1 kB each, so 100 MB."""

DEFAULT_MAX_GROUP_SPANS: Final = 250_000
"""Spans looked at together at most; a group that is larger is cut by time, and its runs say `run_limit`."""

_SPILL_CACHE_KIB: Final = 65_536


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
        self._policy = policy
        self._reader = FactsReader(policy, lambda _: digester)
        self._grouper = Grouper()
        self._starts: list[int] = []
        self._held: list[tuple[int, SpanFacts]] = []
        self._spill: _Spill | None = None
        self._spill_after = spill_after_spans
        self._max_group = max_group_spans
        self.counts = Counts()

    def add(self, item: Span | CallRecord | SpanFacts) -> None:
        """Takes one span, call record, or facts made elsewhere."""
        if isinstance(item, Span):
            facts = self._reader.of_span(item)
        elif isinstance(item, CallRecord):
            facts = self._reader.of_record(item)
        else:
            facts = item
        counts = self.counts
        if isinstance(item, CallRecord):
            counts.records += 1
        else:
            counts.spans += 1
        if facts.call is not None:
            counts.tool_spans += 1
        if facts.role is not Role.OTHER and facts.dialect is not None:
            counts.dialects[facts.dialect] += 1
        node = self._grouper.add(facts)
        self._held.append((node, facts))
        if len(self._held) >= self._spill_after:
            if self._spill is None:
                self._spill = _Spill()
            self._spill.put(self._held)
            self._held.clear()

    def reports(self) -> Iterator[RunReport]:
        """Judges every run once, ordered by the start of its group, then of the run.

        Yields:
            One report a run. Memory: the largest group, at most `max_group_spans` spans.
        """
        for group, cut in self._groups():
            for run in assemble(group, self._policy):
                limited = _limited(run) if cut else run
                verdict, observations = judge(limited, self._policy)
                self.counts.runs += 1
                self.counts.calls += len(limited.calls)
                yield RunReport(verdict=verdict, calls=limited.calls, observations=observations)

    def _groups(self) -> Iterator[tuple[list[SpanFacts], bool]]:
        if self._spill is None:
            groups: dict[int, list[SpanFacts]] = {}
            for node, facts in self._held:
                groups.setdefault(self._grouper.group(node), []).append(facts)
            self._held.clear()
            for spans in sorted(groups.values(), key=_first_start):
                yield from _cut(spans, self._max_group)
            return
        self._spill.put(self._held)
        self._held.clear()
        yield from self._spill.groups(self._grouper, self._max_group)
        self._spill = None


def _first_start(spans: Iterable[SpanFacts]) -> tuple[int, str, str]:
    return min((span.start_ns, span.trace_id, span.run_id or span.span_id) for span in spans)


def _limited(run: Run) -> Run:
    return msgspec.structs.replace(run, flags=run.flags | {Flag.RUN_LIMIT})


def _cut(spans: list[SpanFacts], limit: int) -> Iterator[tuple[list[SpanFacts], bool]]:
    if len(spans) <= limit:
        yield spans, False
        return
    spans.sort(key=lambda span: (span.start_ns, span.trace_id, span.sequence or 0, span.span_id))
    for start in range(0, len(spans), limit):
        yield spans[start : start + limit], True


class _Spill:
    """A temporary database of encoded facts, read back group by group."""

    def __init__(self) -> None:
        # An empty name is SQLite's private on-disk database: unlinked at once, never visible to others.
        self._db = sqlite3.connect("")
        self._db.execute(f"PRAGMA cache_size = -{_SPILL_CACHE_KIB}")
        self._db.execute("PRAGMA journal_mode = OFF")
        self._db.execute("PRAGMA synchronous = OFF")
        self._db.execute("CREATE TABLE span (node INTEGER NOT NULL, start INTEGER NOT NULL, facts BLOB NOT NULL)")
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(SpanFacts).decode

    def put(self, held: Iterable[tuple[int, SpanFacts]]) -> None:
        self._db.executemany(
            "INSERT INTO span VALUES (?, ?, ?)",
            ((node, _sqlite_int(facts.start_ns), self._encode(facts)) for node, facts in held),
        )

    def groups(self, grouper: Grouper, limit: int) -> Iterator[tuple[list[SpanFacts], bool]]:
        db = self._db
        db.execute("CREATE TABLE member (node INTEGER PRIMARY KEY, grp INTEGER NOT NULL)")
        nodes = [node for (node,) in db.execute("SELECT DISTINCT node FROM span")]
        db.executemany("INSERT INTO member VALUES (?, ?)", ((node, grouper.group(node)) for node in nodes))
        db.execute(
            "CREATE TABLE first AS SELECT grp, min(start) AS start FROM span JOIN member USING (node) GROUP BY grp"
        )
        rows = db.execute(
            "SELECT member.grp, span.facts FROM span JOIN member USING (node) JOIN first USING (grp)"
            " ORDER BY first.start, member.grp, span.start"
        )
        current: list[SpanFacts] = []
        group, cut = None, False
        for grp, blob in rows:
            if grp != group or len(current) >= limit:
                full = grp == group
                if current:
                    yield current, cut or full
                cut = full
                group, current = grp, []
            current.append(self._decode(blob))
        if current:
            yield current, cut
        db.close()


def _sqlite_int(value: int) -> int:
    return max(-(2**63), min(2**63 - 1, value))
