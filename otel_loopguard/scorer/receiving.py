"""What OTLP over HTTP and over gRPC have in common: from the bytes of a request to its spans on disk.

Invariants: a request is answered as taken only when all of its spans that could be used are on disk; every other way
out has a reason and is counted. Bodies that are being read are bounded together, not only each.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import CancelledError, Future
from typing import Final

import msgspec

from otel_loopguard.scorer.counts import Counts, Transport
from otel_loopguard.scorer.decode import Decoded, Encoding, decode
from otel_loopguard.scorer.rate import Rate
from otel_loopguard.scorer.records import Intake, Refusal, RefusedError
from otel_loopguard.scorer.shapes import Shapes
from otel_loopguard.scorer.unpacking import unpack

COMMIT_S: Final = 30.0
"""How long a sender is let wait for the disk; senders give up after 10 s, most of them."""
ROOM_BYTES: Final = 256 * 2**20
"""Bodies in memory at one time, all together, as they were sent."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one request; see `settings`."""

    max_body_bytes: int
    max_unpacked_bytes: int


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """A request whose spans are on their way to the disk."""

    decoded: Decoded
    done: Future[Mapping[str, int]] | None
    """None where there was nothing to keep."""


class Room:
    """Bytes that may be held at one time, by all requests together."""

    def __init__(self, size: int = ROOM_BYTES) -> None:
        self._left = size
        self._lock = threading.Lock()

    def take(self, size: int) -> None:
        """Takes so many bytes.

        Raises:
            RefusedError: BUSY, there is not so much left; nothing was taken.
        """
        with self._lock:
            if size > self._left:
                raise RefusedError(Refusal.BUSY)
            self._left -= size

    def give_back(self, size: int) -> None:
        """Gives back what was taken."""
        with self._lock:
            self._left += size


class Receiver:
    """Takes requests of either protocol.

    Args:
        intake: keeps the spans.
        shapes: of the spans of this intake; None: each span is read.
        limits: bounds of one request.
        rate: bounds all of them.
        counts: what the metrics read.
        room: bounds the bodies in memory.

    Thread safety: all methods, from any thread.
    """

    def __init__(
        self,
        intake: Intake,
        *,
        limits: Limits,
        shapes: Shapes | None = None,
        rate: Rate | None = None,
        counts: Counts | None = None,
        room: Room | None = None,
    ) -> None:
        self._intake, self._shapes = intake, shapes
        self._rate = rate or Rate(0)
        self._stopping = threading.Event()
        self.limits: Final = limits
        self.counts: Final = counts or Counts()
        self.room: Final = room or Room()

    @property
    def stopping(self) -> bool:
        """Whether new requests are refused."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Refuses what comes from now on; requests that are under way are still taken."""
        self._stopping.set()

    def check(self) -> None:
        """Refuses a request before it is read.

        Raises:
            RefusedError: STOPPING or RATE.
        """
        if self._stopping.is_set():
            raise RefusedError(Refusal.STOPPING)
        self._rate.check()

    def accept(
        self, body: bytes, coding: str, encoding: Encoding, transport: Transport, *, limit: int | None = None
    ) -> Accepted:
        """Unpacks and decodes a request and hands its spans on.

        Args:
            body: as it was sent.
            coding: how it is packed; empty for not at all.
            encoding: how it is written.
            transport: how it came.
            limit: size unpacked at most, where that is less than what the limits say.

        Returns:
            What it holds; `finish` tells when that is on disk.

        Raises:
            RefusedError: it is not taken; nothing of it was kept.
        """
        most = self.limits.max_unpacked_bytes
        unpacked = unpack(body, coding, limit=most if limit is None else min(limit, most))
        self.counts.body(transport, sent=len(body), unpacked=len(unpacked))
        decoded = decode(unpacked, encoding, self._shapes)
        if not decoded.count:
            return Accepted(decoded=decoded, done=None)
        self._rate.spend(decoded.count)
        return Accepted(decoded=decoded, done=self._intake.submit(decoded.spans, decoded.rows))

    def finish(self, accepted: Accepted, transport: Transport) -> Mapping[str, int]:
        """Counts a request whose future is done.

        Returns:
            Its spans that were rejected, by reason.

        Raises:
            RefusedError: its spans were not kept.
        """
        decoded, rejected = accepted.decoded, Counter(accepted.decoded.rejected)
        kept = decoded.count
        if accepted.done is not None:
            failure = _failure(accepted.done)
            if failure is not None:
                raise failure
            left_out = accepted.done.result()
            kept -= sum(left_out.values())
            rejected.update(left_out)
        self.counts.took(transport, spans=kept, rejected=rejected, mended=decoded.mended)
        return rejected


def _failure(done: Future[Mapping[str, int]]) -> RefusedError | None:
    """Why spans were not kept; a future that is not done yet has taken too long."""
    if not done.done():
        return RefusedError(Refusal.STORE_FAILED)
    try:
        error = done.exception()
    except CancelledError:
        return RefusedError(Refusal.STORE_FAILED)
    if error is None or isinstance(error, RefusedError):
        return error
    return RefusedError(Refusal.STORE_FAILED)
