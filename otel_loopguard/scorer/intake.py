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
from otel_loopguard.scorer.records import Arrival, Pending, Refusal, RefusedError
from otel_loopguard.scorer.settings import Raw

MAX_LOAD: Final = 2_000_000
"""Spans, and names that join them, that may wait to be judged: past it senders are asked to come again later. A span
takes some 100 bytes of memory, a name some 250."""

_encode: Final = msgspec.msgpack.Encoder().encode


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
        self._learn, self._load = learn, load
        self._refuses_raw = raw is Raw.REFUSE
        self._max_load = max_load
        self._clock = clock
        self._stopping = threading.Event()

    def submit(self, spans: Sequence[Span]) -> Future[Mapping[str, int]]:
        """Digests the spans and keeps them; see `records.Intake`."""
        if self._stopping.is_set():
            raise RefusedError(Refusal.STOPPING)
        if self._load() >= self._max_load:
            raise RefusedError(Refusal.BUSY, retry_after_s=5.0)
        arrivals, rejected = self.digest(spans)
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

    def digest(self, spans: Sequence[Span]) -> tuple[list[Arrival], Mapping[str, int]]:
        """Makes the arrivals of some spans, one a trace, and counts those that are rejected by reason."""
        read, reader = dialects.read, self._reader
        by_trace: dict[str, list[SpanFacts]] = {}
        refused = 0
        for span in spans:
            reading = read(span)
            if self._refuses_raw and reading is not None and holds_content(reading):
                refused += 1
                continue
            facts = reader.of_reading(span, reading)
            held = by_trace.get(facts.trace_id)
            if held is None:
                by_trace[facts.trace_id] = [facts]
            else:
                held.append(facts)
        now_ns = self._clock()
        arrivals = [self.arrival(trace_id, facts, now_ns) for trace_id, facts in by_trace.items()]
        return arrivals, {Reason.RAW_CONTENT.value: refused} if refused else {}

    def stop(self) -> None:
        """Takes nothing more in; what was taken goes on to be kept."""
        self._stopping.set()

    def arrival(self, trace_id: str, facts: Sequence[SpanFacts], now_ns: int) -> Arrival:
        """Makes one row of facts of one trace."""
        names: dict[str, None] = {}
        ended = False
        before: tuple[object, ...] = ()
        for span in facts:
            call = span.call
            written = None if call is None or call.business_digest is None else (call.tool, call.business_digest)
            if span.run_id is not None or span.conversation is not None or span.links or written is not None:
                # Most spans of a trace are joined by what the one before is.
                by = (span.run_id, span.conversation, span.role, span.links, written)
                if by != before:
                    names.update(dict.fromkeys(joining_names(span, self._policy)))
                    before = by
            if span.parent_id is None and span.end_ns is not None:
                ended = True
        return Arrival(
            trace_id=trace_id,
            received_ns=now_ns,
            spans=len(facts),
            names=tuple(names),
            root_ended=ended,
            facts=_encode(facts),
        )


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
