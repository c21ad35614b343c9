"""Takes decoded spans in: facts at once, content gone, and done when they are on disk.

Invariants: what leaves `submit` holds no content; the index learns of an arrival only after it was committed; what
cannot be kept is refused before anything of it is, and there is no success for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Final, Protocol

import msgspec

from otel_loopguard import dialects
from otel_loopguard.dialects.reading import Reading
from otel_loopguard.digest import Keyring
from otel_loopguard.facts import FactsReader
from otel_loopguard.files.reasons import Reason
from otel_loopguard.model import Role, Span, SpanFacts
from otel_loopguard.policy import Policy
from otel_loopguard.scorer.groups import joining_names
from otel_loopguard.scorer.records import Arrival, Pending, Refusal, RefusedError, Row
from otel_loopguard.scorer.settings import Raw
from otel_loopguard.scorer.shapes import Shapes

MAX_LOAD: Final = 2_000_000
"""Spans, and names that join them, that may wait to be judged: past it senders are asked to come again later. A span
takes some 100 bytes of memory, a name some 250."""

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(SpanFacts).decode


class Keeps(Protocol):
    """The part of the store that an intake needs."""

    def append(self, arrivals: Sequence[Arrival]) -> Future[tuple[int, ...]]:
        """Keeps arrivals: done when they are on disk, with their rows in order; may raise `RefusedError`."""


class IntakeQueue:
    """Digests spans, keeps them, and tells the judge of them once they are kept.

    Args:
        store: where they are kept.
        policy: the owner's policy.
        keyring: its environment's digester digests what still holds content: equal calls match across traces.
        learn: takes what was kept, in the order of the store's commits; called from the store's thread.
        load: how many spans and names wait to be judged.
        raw: what is done with tool spans that still hold content.
        max_load: how many may.
        clock: Unix time in nanoseconds.

    Thread safety: any thread may call any method.
    """

    def __init__(
        self,
        store: Keeps,
        policy: Policy,
        keyring: Keyring,
        *,
        learn: Callable[[Sequence[Pending]], None],
        load: Callable[[], int] = lambda: 0,
        raw: Raw = Raw.DIGEST,
        max_load: int = MAX_LOAD,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._store, self._policy = store, policy
        self._reader = FactsReader(policy, lambda _: keyring.environment(), sketches=False)
        self.shapes: Final = Shapes(self._reader, keyring.environment().conversation)
        """Knows spans by their bytes; for whoever decodes what is submitted here."""
        self._learn, self._load = learn, load
        self._refuses_raw = raw is Raw.REFUSE
        self._max_load = max_load
        self._clock = clock
        self._stopping = threading.Event()

    def submit(self, spans: Sequence[Span], rows: Sequence[Row] = ()) -> Future[Mapping[str, int]]:
        """Digests spans and keeps them; see `records.Intake`."""
        if self._stopping.is_set():
            raise RefusedError(Refusal.STOPPING)
        if self._load() >= self._max_load:
            raise RefusedError(Refusal.BUSY, retry_after_s=5.0)
        arrivals, rejected = self.digest(spans, rows)
        done: Future[Mapping[str, int]] = Future()
        done.set_running_or_notify_cancel()  # a caller that gives up does not take back what is being written
        if not arrivals:
            done.set_result(rejected)
            return done
        kept = self._store.append(arrivals)

        def after(kept: Future[tuple[int, ...]]) -> None:
            error = kept.exception()
            if error is not None:
                done.set_exception(error)
                return
            self._learn([_pending(row, arrival) for row, arrival in zip(kept.result(), arrivals, strict=True)])
            done.set_result(rejected)

        kept.add_done_callback(after)
        return done

    def digest(self, spans: Sequence[Span], rows: Sequence[Row] = ()) -> tuple[list[Arrival], Mapping[str, int]]:
        """Makes the arrivals of some spans, one a trace, and counts those that are rejected by reason."""
        read, of_reading = dialects.read, self._reader.of_reading
        traces: dict[str, _Trace] = {}
        refused = 0
        for row in rows:
            self._add_row(traces.get(row.trace_id) or _Trace(traces, row.trace_id), row)
        for span in spans:
            reading = read(span)
            if self._refuses_raw and reading is not None and holds_content(reading):
                refused += 1
                continue
            facts = of_reading(span, reading)
            self._add(traces.get(facts.trace_id) or _Trace(traces, facts.trace_id), facts)
        now_ns = self._clock()
        arrivals = [trace.arrival(trace_id, now_ns) for trace_id, trace in traces.items()]
        return arrivals, {Reason.RAW_CONTENT.value: refused} if refused else {}

    def stop(self) -> None:
        """Takes nothing more in; what was taken goes on to be kept."""
        self._stopping.set()

    def arrival(self, trace_id: str, facts: Sequence[SpanFacts], now_ns: int) -> Arrival:
        """Makes one row of facts of one trace."""
        trace = _Trace({}, trace_id)
        for span in facts:
            self._add(trace, span)
        return trace.arrival(trace_id, now_ns)

    def _add_row(self, trace: _Trace, row: Row) -> None:
        trace.rows.append(row.facts)
        if row.ended:
            trace.ended = True
        if row.joins != trace.joined and row.joins is not None:
            trace.joined = row.joins
            trace.names.update(dict.fromkeys(joining_names(_decode(row.facts), self._policy)))

    def _add(self, trace: _Trace, span: SpanFacts) -> None:
        trace.rows.append(_encode(span))
        call = span.call
        written = None if call is None or call.business_digest is None else (call.tool, call.business_digest)
        if span.run_id is not None or span.conversation is not None or span.links or written is not None:
            # Most spans of a trace are joined by what the one before is.
            by = (span.run_id, span.conversation, span.role, span.links, written)
            if by != trace.joined:
                trace.joined = by
                trace.names.update(dict.fromkeys(joining_names(span, self._policy)))
        if span.parent_id is None and span.end_ns is not None:
            trace.ended = True


class _Trace:
    """What one request holds of one trace."""

    __slots__ = ("ended", "joined", "names", "rows")

    def __init__(self, traces: dict[str, _Trace], trace_id: str) -> None:
        traces[trace_id] = self
        self.rows: list[bytes] = []
        self.names: dict[str, None] = {}
        self.joined: tuple[object, ...] | None = None
        """What the span before was joined by."""
        self.ended = False

    def arrival(self, trace_id: str, now_ns: int) -> Arrival:
        rows = self.rows
        count = len(rows)
        head = bytes([0x90 | count]) if count <= _FEW else b"\xdd" + count.to_bytes(4, "big")
        return Arrival(
            trace_id=trace_id,
            received_ns=now_ns,
            spans=count,
            names=tuple(self.names),
            root_ended=self.ended,
            facts=head + b"".join(rows),
        )


_FEW: Final = 15
"""Entries that the shortest head of a MessagePack array can tell of."""


def holds_content(reading: Reading) -> bool:
    """Tells whether a tool span still holds arguments, a result, or an error's text."""
    if reading.role is not Role.TOOL:
        return False
    return reading.arguments.unknown is None or reading.result.unknown is None or bool(reading.error_text)


def _pending(row: int, arrival: Arrival) -> Pending:
    return Pending(
        row=row,
        trace_id=arrival.trace_id,
        received_ns=arrival.received_ns,
        spans=arrival.spans,
        names=arrival.names,
        root_ended=arrival.root_ended,
    )
