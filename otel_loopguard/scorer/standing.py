"""How one scorer stands: what its own metrics and its page of health say, read from its parts.

Invariants: it reads and changes nothing but the count of evictions; reading waits for nothing that receiving waits for.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path

from otel_loopguard.scorer.judge import Judge
from otel_loopguard.scorer.outputs import Outlet
from otel_loopguard.scorer.own_health import Work, health
from otel_loopguard.scorer.pages.source import Health
from otel_loopguard.scorer.pages.store_source import health_of
from otel_loopguard.scorer.receiving import Receiver
from otel_loopguard.scorer.records import Totals
from otel_loopguard.scorer.settings import ScorerSettings
from otel_loopguard.scorer.store import Store
from otel_loopguard.scorer.totals import Accumulated


class Standing:
    """Gives the values of the metrics of source `health`.

    Args:
        settings: name the data folder, and what it may hold.
        clock: Unix time in nanoseconds.

    Thread safety: any thread.
    """

    def __init__(
        self,
        *,
        settings: ScorerSettings,
        store: Store,
        judge: Judge,
        receiver: Receiver,
        totals: Accumulated,
        outlets: Sequence[Outlet],
        clock: Callable[[], int],
    ) -> None:
        self._folder, self._max_data_bytes = settings.data, settings.max_data_bytes
        self._store, self._judge, self._receiver, self._totals = store, judge, receiver, totals
        self._others: list[Callable[[], Totals]] = [outlet.health for outlet in outlets]
        self._lock = threading.Lock()
        self._evicted: Counter[str] = Counter()
        self._clock = clock
        self._started_ns = clock()
        self._version = metadata.version("otel-loopguard")

    def also(self, other: Callable[[], Totals]) -> None:
        """Adds a source of values to the metrics."""
        self._others.append(other)

    def evicted(self, runs: Mapping[str, int]) -> None:
        """Counts runs that were deleted, by reason."""
        with self._lock:
            self._evicted.update(runs)

    def values(self) -> Totals:
        """The values of all metrics of source `health`."""
        found = health(self._receiver.counts.read(), self._store.counts, self._work(), version=self._version)
        for other in self._others:
            found.update(other())
        return found

    def _work(self) -> Work:
        with self._lock:
            evicted = dict(self._evicted)
        return Work(
            open_groups=self._judge.open_groups(),
            open_spans=self._judge.open_spans(),
            lag_s=self._judge.lag_s(),
            failed_settlements=self._judge.failures,
            data_bytes=_size(self._folder),
            evicted=evicted,
        )

    def page(self) -> Health:
        """How the scorer does, as the page says it."""
        series = {**self._totals.snapshot(now_ns=self._clock()).values, **self.values()}
        return health_of(
            series,
            started_ns=self._started_ns,
            max_disk_bytes=self._max_data_bytes,
            free_bytes=_free(self._folder),
        )


def _size(folder: Path) -> int:
    """Bytes of the files right in a folder; what is not there, or not any more, counts nothing."""
    size = 0
    with contextlib.suppress(OSError):
        for file in folder.iterdir():
            with contextlib.suppress(FileNotFoundError):
                size += file.stat().st_size
    return size


def _free(folder: Path) -> int | None:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None
