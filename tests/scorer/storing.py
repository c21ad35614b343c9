"""Arrivals, runs and settlements as the tests of the store need them."""

from __future__ import annotations

from typing import Any, Final

from otel_loopguard.model import RunOutcome, Verdict
from otel_loopguard.scorer.records import Arrival, Close, JudgedRun, Series, Settlement
from otel_loopguard.scorer.store import Store

SERIES: Final[Series] = ("runs_total", (("outcome", "clean"),))


def arrival(trace: int, *, facts: bytes = b"facts", names: tuple[str, ...] = (), root_ended: bool = False) -> Arrival:
    """One arrival of three spans of the trace of this number."""
    return Arrival(
        trace_id=f"{trace:032x}", received_ns=trace % 1000, spans=3, names=names, root_ended=root_ended, facts=facts
    )


def judged(
    run_id: str,
    *,
    outcome: RunOutcome = RunOutcome.CLEAN,
    revision: int = 1,
    judged_ns: int = 1,
    service: str | None = None,
    release: str | None = None,
    started_ns: int | None = None,
) -> JudgedRun:
    """One run as it was judged at some time."""
    verdict = Verdict(
        run_id=run_id, outcome=outcome, revision=revision, service=service, release=release, started_ns=started_ns
    )
    return JudgedRun(run_id=run_id, verdict=verdict, close=Close.IDLE, judged_ns=judged_ns, backfill=False, spans=3)


def settled(store: Store, rows: tuple[int, ...], *run_ids: str, **more: Any) -> Settlement:
    """A settlement of rows in a new group, whose names are its runs' ids."""
    fields: dict[str, Any] = {
        "group": store.next_group(),
        "rows": rows,
        "names": tuple(f"r:{run_id}" for run_id in run_ids),
        "facts": b"of the group",
        "spans": 3 * len(rows),
        "runs": tuple(judged(run_id) for run_id in run_ids),
        "totals": {SERIES: len(run_ids)},
        "judged_ns": 1,
    }
    return Settlement(**(fields | more))
