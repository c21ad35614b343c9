"""What the receivers count, for the metrics.

Invariants: every request adds to exactly one result; counters only go up; safe from any thread.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec


class Transport(StrEnum):
    """How a request came."""

    HTTP = "http"
    GRPC = "grpc"


TAKEN: Final = "taken"
"""Result of a request all of whose spans were kept."""
PARTLY_TAKEN: Final = "partly_taken"
"""Result of a request some or all of whose spans were rejected, each with its reason."""
CUT_OFF: Final = "cut_off"
"""Result of a request whose sender went away before it was read."""
FAILED: Final = "failed"
"""Result of a request that met a fault of the scorer's own."""


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """All that was counted since the start."""

    requests: Mapping[tuple[str, str], int]
    """By transport, and by result: one of the four above, or a `Refusal`."""
    spans: Mapping[str, int]
    """Spans that were kept, by transport."""
    rejected: Mapping[str, int]
    """Spans that were not, though their request was taken, by `files.Reason`."""
    mended: Mapping[str, int]
    """Spans that were kept without a part, by `files.Reason`."""
    sent_bytes: Mapping[str, int]
    """Bodies as they were sent, by transport; of gRPC, as they were unpacked, since only those are seen."""
    unpacked_bytes: Mapping[str, int]
    """Bodies that were unpacked, by transport."""


class Counts:
    """Counts requests and spans."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, str]] = Counter()
        self._spans: Counter[str] = Counter()
        self._rejected: Counter[str] = Counter()
        self._mended: Counter[str] = Counter()
        self._sent: Counter[str] = Counter()
        self._unpacked: Counter[str] = Counter()

    def body(self, transport: Transport, *, sent: int, unpacked: int) -> None:
        """Counts a body that was read and unpacked; sizes in bytes."""
        with self._lock:
            self._sent[transport.value] += sent
            self._unpacked[transport.value] += unpacked

    def ended(self, transport: Transport, result: str) -> None:
        """Counts a request that kept nothing."""
        with self._lock:
            self._requests[transport.value, result] += 1

    def took(self, transport: Transport, *, spans: int, rejected: Mapping[str, int], mended: Mapping[str, int]) -> None:
        """Counts a request that was taken."""
        with self._lock:
            self._requests[transport.value, PARTLY_TAKEN if rejected else TAKEN] += 1
            self._spans[transport.value] += spans
            self._rejected.update(rejected)
            self._mended.update(mended)

    def read(self) -> Received:
        """Everything counted so far, of one moment."""
        with self._lock:
            return Received(
                requests=dict(self._requests),
                spans=dict(self._spans),
                rejected=dict(self._rejected),
                mended=dict(self._mended),
                sent_bytes=dict(self._sent),
                unpacked_bytes=dict(self._unpacked),
            )
