"""The totals of all metrics in memory: planned with each settlement, changed after its commit, shown at any time.

Invariants: what is shown is on disk, but for zeros. No counter goes down while it is shown. A series that an alert may
read is shown at 0 before it counts. Names are capped (`label_names`): where a release is displaced by a newer one, what
it had counted goes out of sight, and stays in the net.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from otel_loopguard.scorer import counting
from otel_loopguard.scorer.label_names import Caps, LabelNames, Release
from otel_loopguard.scorer.metrics import GONE, METRIC_OF, RELEASE, RELEASE_SEEN, SERVICE, START, Source
from otel_loopguard.scorer.records import JudgedRun, Labels, Series, Totals

Pairs: TypeAlias = Sequence[tuple[JudgedRun | None, JudgedRun | None]]
"""Of each run that a settlement touches: as it was counted, and as it is judged now."""

WAIT_NS: Final = 60 * 10**9
"""How long a first verdict waits at most for its zeros to be scraped; Prometheus asks every minute by default."""
SCRAPER_GONE_NS: Final = 300 * 10**9
"""Nobody who scrapes is waited for after nobody has come for so long."""

_GONE: Final = (RELEASE, GONE)
_WITH_EXEMPLARS: Final = frozenset(
    name
    for name, metric in METRIC_OF.items()
    if metric.source in (Source.OUTCOME, Source.RUN) and not name.endswith("_sum")
)
_WAITING: Final = frozenset(name for name, metric in METRIC_OF.items() if metric.zeros)


class Exemplar(msgspec.Struct, frozen=True, gc=False):
    """A trace that a series counted last."""

    trace_id: str
    value: float
    time_ns: int


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What one settlement does to the totals; where it is ready, `apply` or `abandon` follows."""

    ready: bool
    """False: ask again later, as somebody has to see the zeros first; there is nothing to undo."""
    runs: tuple[JudgedRun, ...] = ()
    """The runs as they are now, with their labels: the settlement's runs."""
    totals: Totals = {}
    """The settlement's totals."""
    forgotten: tuple[Series, ...] = ()
    added: Totals = {}
    """Of the totals, what is not shown yet."""
    first: Totals = {}
    """Of the totals, what is shown already and not on disk."""
    displaced: tuple[Release, ...] = ()
    """Services and releases that go out of sight."""
    exemplars: Mapping[Series, Exemplar] = {}


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown at one moment."""

    values: Totals
    exemplars: Mapping[Series, Exemplar]
    time_ns: int
    start_ns: int
    """Since when the totals count."""


class Accumulated:
    """All totals of one scorer.

    Args:
        stored: as `Store.totals` gives them.
        now_ns: Unix time.
        wait_ns: how long a first verdict waits for its zeros to be seen; 0: not at all.
        caps: of label values.

    Thread safety: all of it, by one lock.
    """

    def __init__(self, stored: Totals, *, now_ns: int, wait_ns: int = WAIT_NS, caps: Caps | None = None) -> None:
        self._lock = threading.Lock()
        self._wait_ns = wait_ns
        self._began_ns = now_ns
        self._seen_ns: int | None = None
        self._values: dict[Series, float] = dict(stored)
        self._unstored: dict[Series, float] = {}
        """Shown, and put on disk with the next settlement."""
        self._fresh: dict[Series, int] = {}
        """Series that nobody may have seen at 0, and since when they are there."""
        self._hidden: set[Series] = set()
        self._opened: set[Labels] = set()
        """Label sets of runs whose zeros are shown."""
        self._exemplars: dict[Series, Exemplar] = {}
        self._names = LabelNames(caps or Caps(), stored)
        self._in_flight = 0
        if START.series() not in self._values:
            self._show(START.series(), now_ns / 1e9)
        for series in stored:
            labels = dict(series[1])
            if RELEASE in labels and not self._names.is_shown(labels):
                self._hidden.add(series)

    @property
    def start_ns(self) -> int:
        """Since when the totals count, over all restarts."""
        return int(self._values[START.series()] * 1e9)

    def plan(self, pairs: Pairs, *, now_ns: int) -> Plan:
        """Says what a settlement adds, and whether it may be written now.

        Args:
            pairs: of each run as it was counted (None: new) and as it is judged now (None: withdrawn).
            now_ns: Unix time.

        Returns:
            The plan. Where it is ready, the settlement is written with its `runs`, `totals` and `forgotten`, plans
            written in the order in which they were made, and then applied or abandoned.
        """
        with self._lock:
            labelled = [(before, self._labelled(before, after, now_ns)) for before, after in pairs]
            # Beside plans that may add to them, what they have counted is not known yet.
            displaced = () if self._in_flight else self._names.surplus()
            added: dict[Series, float] = {}
            exemplars: dict[Series, Exemplar] = {}
            for before, after in labelled:
                for series, value in counting.changes(before, after).items():
                    placed = self._names.placed(series, displaced)
                    added[placed] = added.get(placed, 0.0) + value
                    if after is not None and after.verdict.trace_ids and series[0] in _WITH_EXEMPLARS:
                        # Of a histogram's bucket, what was observed; of a counter, what was added.
                        shown = float(after.verdict.calls) if series[0].endswith("_bucket") else value
                        exemplars[placed] = Exemplar(after.verdict.trace_ids[0], shown, after.judged_ns)
                if after is not None:
                    self._open_zeros(after, now_ns)
            for series in added:
                if series[0] in _WAITING:
                    self._open_series(series, now_ns)
            if not self._all_seen(added, now_ns):
                return Plan(ready=False)
            forgotten = self._moved(displaced, added)
            first = self._unstored
            self._unstored = {}
            self._in_flight += 1
            # From now on, not only from `apply`: what the next plans add to these releases goes where they went.
            self._names.hide(displaced)
            for service, release in displaced:
                gone = {(SERVICE, service), (RELEASE, release)}
                self._opened = {labels for labels in self._opened if not gone <= set(labels)}
            totals = dict(first)
            for series, value in added.items():
                totals[series] = totals.get(series, 0.0) + value
            return Plan(
                ready=True,
                runs=tuple([after for _, after in labelled if after is not None]),
                totals={series: value for series, value in totals.items() if series not in forgotten},
                forgotten=tuple(forgotten),
                added=added,
                first=first,
                displaced=displaced,
                exemplars=exemplars,
            )

    def apply(self, plan: Plan) -> None:
        """Shows what a plan adds; call it once its settlement is on disk."""
        with self._lock:
            for series, value in plan.added.items():
                self._values[series] = self._values.get(series, 0.0) + value
                if _GONE in series[1]:
                    self._hidden.add(series)
            for service, release in plan.displaced:
                self._hidden.add(RELEASE_SEEN.series({SERVICE: service, RELEASE: release}))
            for series in plan.forgotten:
                self._values.pop(series, None)
                self._fresh.pop(series, None)
                self._exemplars.pop(series, None)
                self._hidden.discard(series)
                self._names.forget(series)
            self._exemplars.update(plan.exemplars)
            self._in_flight -= 1

    def abandon(self, plan: Plan) -> None:
        """Takes a plan back whose settlement was not written."""
        with self._lock:
            self._unstored = {**plan.first, **self._unstored}
            self._names.show_again(plan.displaced)
            self._in_flight -= 1

    def snapshot(self, *, now_ns: int) -> Snapshot:
        """All that is shown, as it is now."""
        with self._lock:
            values = {series: value for series, value in self._values.items() if series not in self._hidden}
            return Snapshot(values=values, exemplars=dict(self._exemplars), time_ns=now_ns, start_ns=self.start_ns)

    def seen(self, snapshot: Snapshot) -> None:
        """Somebody was given a snapshot: the zeros in it need not be waited for any more."""
        with self._lock:
            self._seen_ns = max(snapshot.time_ns, self._seen_ns or 0)
            for series in [one for one in self._fresh if one in snapshot.values]:
                del self._fresh[series]

    def net(self) -> dict[Series, float]:
        """`counting.net` of the totals, hidden ones too."""
        with self._lock:
            return counting.net(self._values)

    def recount(self, runs: Iterable[JudgedRun]) -> dict[Series, float]:
        """`counting.recount` of runs as they are counted here: with names past a cap and old releases as one."""
        with self._lock:
            found: dict[Series, float] = {}
            for series, value in counting.recount(runs).items():
                placed = self._names.placed(series)
                found[placed] = found.get(placed, 0.0) + value
            return counting.net(found)

    def _labelled(self, before: JudgedRun | None, after: JudgedRun | None, now_ns: int) -> JudgedRun | None:
        if after is None:
            return None
        backfill = after.backfill if before is None else before.backfill
        # What has the same names stays where it was counted, also where its release has become an old one.
        if before is not None and counting.run_labels(before.verdict) == counting.run_labels(after.verdict):
            return msgspec.structs.replace(after, labels=before.labels, backfill=backfill)
        labels = self._names.labels_of(dict(counting.run_labels(after.verdict)), backfill=backfill, now_ns=now_ns)
        for series, value in self._names.opened().items():
            self._show(series, value)
        return msgspec.structs.replace(after, labels=labels, backfill=backfill)

    def _show(self, series: Series, value: float) -> None:
        self._values[series] = self._unstored[series] = value

    def _open_zeros(self, run: JudgedRun, now_ns: int) -> None:
        """With the first run of a label set, shows at 0 what its runs may count in."""
        if run.backfill or run.labels in self._opened or not self._names.is_shown(dict(run.labels)):
            return
        for series in counting.zeros(run.labels):
            self._open_series(series, now_ns)
        self._opened.add(run.labels)

    def _open_series(self, series: Series, now_ns: int) -> None:
        if series not in self._values:
            self._show(series, 0.0)
            self._fresh[series] = now_ns

    def _all_seen(self, added: Mapping[Series, float], now_ns: int) -> bool:
        """Whether all that a plan adds to has been seen at 0, or nobody is there to see it."""
        last = self._began_ns + self._wait_ns if self._seen_ns is None else self._seen_ns + SCRAPER_GONE_NS
        if now_ns >= last:
            return True
        # What was opened later than now was so before the clock was set back.
        return not any(0 <= now_ns - self._fresh[one] < self._wait_ns for one in added if one in self._fresh)

    def _moved(self, displaced: Sequence[Release], added: dict[Series, float]) -> set[Series]:
        """Adds to `added` what goes out of sight; returns the series that go."""
        gone: set[Series] = set()
        if not displaced:
            return gone
        for series, value in self._values.items():
            labels = dict(series[1])
            if series[0] == RELEASE_SEEN.sample or (labels.get(SERVICE), labels.get(RELEASE)) not in displaced:
                continue
            gone.add(series)
            if value:
                labels[RELEASE] = GONE
                moved = series[0], tuple(sorted(labels.items()))
                added[moved] = added.get(moved, 0.0) + value
        gone.update(self._names.too_old({service for service, _ in displaced}))
        return gone
