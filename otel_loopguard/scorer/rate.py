"""Spans a second, bounded: a bucket that fills at the rate allowed.

Invariants: over any time of T seconds no more than (T + 1) seconds' worth begins, and one request; a request larger
than the bucket is taken when it is full, since it could be taken at no other time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from otel_loopguard.scorer.records import Refusal, RefusedError


class Rate:
    """Refuses requests above a rate.

    Args:
        spans_per_s: the rate; 0 for no limit.
        clock: seconds, steady.
    """

    def __init__(self, spans_per_s: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = spans_per_s
        self._clock = clock
        self._lock = threading.Lock()
        self._level = float(spans_per_s)
        """Spans that may come at once; below zero after a request of more."""
        self._at = clock()

    def check(self) -> None:
        """Refuses while spans that came before are still to be made up for.

        Raises:
            RefusedError: RATE, with the time until then.
        """
        if not self._rate:
            return
        with self._lock:
            level = self._fill()
        if level <= 0:
            raise RefusedError(Refusal.RATE, retry_after_s=(1 - level) / self._rate)

    def spend(self, spans: int) -> None:
        """Takes a request's spans from what may come.

        Raises:
            RefusedError: RATE; nothing was taken.
        """
        if not self._rate or not spans:
            return
        with self._lock:
            level = self._fill()
            needed = min(spans, self._rate)
            if level >= needed:
                self._level = level - spans
                return
        raise RefusedError(Refusal.RATE, retry_after_s=(needed - level) / self._rate)

    def _fill(self) -> float:
        now = self._clock()
        self._level = min(float(self._rate), self._level + (now - self._at) * self._rate)
        self._at = now
        return self._level
