"""What the pages show of a running scorer: its store, its policy, and its own metrics.

Invariants: reads only; a run is found under the id that the judge gave it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from otel_loopguard.assembly import assemble
from otel_loopguard.model import Run, RunOutcome
from otel_loopguard.policy import Policy
from otel_loopguard.scorer import metrics
from otel_loopguard.scorer.filters import Filters, Place
from otel_loopguard.scorer.group_facts import GroupFacts, decode
from otel_loopguard.scorer.judging import PART_MARK, named_runs
from otel_loopguard.scorer.pages.remembering import Remembering
from otel_loopguard.scorer.pages.source import Health
from otel_loopguard.scorer.records import JudgedRun, Refusal, Totals
from otel_loopguard.scorer.store import Store

_REFUSALS: Final = frozenset(one.value for one in Refusal)


class StoreSource:
    """Answers the pages from the store.

    Args:
        store: open.
        policy: gives the policy of the moment.
        health: gives how the scorer does; see `health_of`.

    Thread safety: any thread.
    """

    def __init__(self, store: Store, policy: Callable[[], Policy], health: Callable[[], Health]) -> None:
        self._store = store
        self._policy = policy
        self._health = health
        self._slow = Remembering()

    @property
    def policy(self) -> Policy:
        """By which runs are judged now."""
        return self._policy()

    def runs(self, filters: Filters, *, before: Place | None, limit: int) -> Sequence[JudgedRun]:
        """Returns runs, newest first.

        Raises:
            StoreError: the database cannot be read; so do the next ones.
        """
        store = self._store
        return self._slow.get((filters, before, limit), lambda: store.runs(filters, before=before, limit=limit))

    def counts(self, filters: Filters) -> Mapping[RunOutcome, int]:
        """Returns how many there are by outcome."""
        whatever = msgspec.structs.replace(filters, outcome=None)
        return self._slow.get(whatever, lambda: self._store.outcomes(whatever))

    def run(self, run_id: str) -> JudgedRun | None:
        """Returns one run."""
        return self._store.run(run_id)

    def assembled(self, run_id: str) -> Run | None:
        """Returns its calls, assembled anew from what is kept of its group."""
        group = self._store.group_of(run_id)
        return None if group is None else find_run(decode(group.facts), run_id, self.policy)

    def health(self) -> Health:
        """Returns how the scorer does."""
        return self._health()


def find_run(kept: GroupFacts, run_id: str, policy: Policy) -> Run | None:
    """Finds one run of a judged group, under the id that the judge gave it.

    Returns:
        None where it is not among what is kept: of a run that was cut by a limit, only the last part is.
    """
    for own, run in named_runs(assemble(kept.spans, policy), kept.aliases).items():
        part = kept.sealed.get(own, 0) + 1
        if run_id == (own if part == 1 else f"{own}{PART_MARK}{part}"):
            return run
    return None


def health_of(
    series: Totals,
    *,
    started_ns: int,
    max_disk_bytes: int | None = None,
    free_bytes: int | None = None,
) -> Health:
    """Makes the page's numbers of the scorer's own metrics.

    Args:
        series: those of source `health`, and `loopguard_verdicts`, as they are exposed.
        started_ns: when the process began, in Unix time.
        max_disk_bytes: limit of the data folder.
        free_bytes: on its disk.
    """
    results = _by(series, metrics.REQUESTS, "result")
    return Health(
        started_ns=started_ns,
        requests=sum(results.values()),
        spans=_sum(series, metrics.RECEIVED_SPANS),
        refused={key: number for key, number in results.items() if key in _REFUSALS and number},
        rejected=_by(series, metrics.REJECTED_SPANS, "reason"),
        open_groups=_sum(series, metrics.OPEN_GROUPS),
        open_spans=_sum(series, metrics.OPEN_SPANS),
        waiting_bytes=_sum(series, metrics.WAITING_BYTES),
        lag_s=sum(value for (name, _), value in series.items() if name == metrics.JUDGING_LAG.sample),
        failed_commits=_sum(series, metrics.FAILED_COMMITS),
        failed_settlements=_sum(series, metrics.FAILED_SETTLEMENTS),
        verdicts=_sum(series, metrics.VERDICTS),
        disk_bytes=_sum(series, metrics.DATA_BYTES),
        max_disk_bytes=max_disk_bytes,
        free_bytes=free_bytes,
        evicted=_by(series, metrics.EVICTED_RUNS, "reason"),
        outbox=_by(series, metrics.BACKLOG, "sink"),
    )


def _sum(series: Totals, metric: metrics.Metric) -> int:
    return round(sum(value for (name, _), value in series.items() if name == metric.sample))


def _by(series: Totals, metric: metrics.Metric, label: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for (name, labels), value in series.items():
        if name == metric.sample:
            key = dict(labels)[label]
            found[key] = found.get(key, 0) + round(value)
    return dict(sorted(found.items()))
