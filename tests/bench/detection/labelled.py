"""The labelled runs, and how predictions on them are scored.

Invariants: runs labelled `borderline` count nowhere. `loop` alone counts as flagged; `suspect` is counted apart.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

RUNS: Final = Path(__file__).parents[2] / "fixtures" / "runs"
CALLS: Final = RUNS / "calls.jsonl"

Row: TypeAlias = dict[str, Any]


class Label(NamedTuple):
    """What the readers of one run agreed on; `onset` is the later of their two calls, None for no loop."""

    source: str
    loop: bool
    onset: int | None


class Prediction(NamedTuple):
    """What a detector says of one run: the call (from 1) at which it first said loop, None for never."""

    first: int | None
    suspect: bool = False


class Score(NamedTuple):
    """Predictions against labels. Delays are calls after the onset, negative where earlier; None without any hit."""

    precision: float
    recall: float
    f1: float
    hits: int
    missed: tuple[str, ...]
    false_alarms: tuple[str, ...]
    healthy: int
    delay_median: int | None
    delay_p90: int | None
    suspects_on_healthy: int

    @property
    def false_alarm_ratio(self) -> float:
        """False alarms among the runs without a loop, 0..1."""
        return len(self.false_alarms) / self.healthy if self.healthy else 0.0

    @property
    def suspect_ratio(self) -> float:
        """Suspects among the runs without a loop, 0..1."""
        return self.suspects_on_healthy / self.healthy if self.healthy else 0.0


@cache
def labels() -> Mapping[str, Label]:
    """The runs on which both readers agreed, by run id."""
    rows = [json.loads(line) for line in (RUNS / "labels.jsonl").read_text(encoding="utf-8").splitlines()]
    return {
        row["run_id"]: Label(row["source"], row["verdict"] == "loop", max(row["onset"]) if row.get("onset") else None)
        for row in rows
        if row["verdict"] != "borderline"
    }


@cache
def runs() -> Mapping[str, Sequence[Row]]:
    """The call records of every run, in order, by run id."""
    found: dict[str, list[Row]] = {}
    for line in CALLS.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        found.setdefault(row["run_id"], []).append(row)
    return {run_id: sorted(rows, key=lambda row: row["sequence"]) for run_id, rows in found.items()}


def predict(detect: Callable[[Sequence[Row]], int | None]) -> dict[str, Prediction]:
    """What a function from a run's records to the first flagged call says of every run."""
    return {run_id: Prediction(detect(rows)) for run_id, rows in runs().items()}


def score(predictions: Mapping[str, Prediction], *, among: Iterable[str] | None = None) -> Score:
    """Scores predictions on the labelled runs, or on those `among` some run ids."""
    known = labels() if among is None else {run_id: labels()[run_id] for run_id in among}
    hits, missed, false_alarms, delays, suspects = 0, [], [], [], 0
    for run_id, label in known.items():
        first, suspect = predictions[run_id]
        if label.loop and first is not None:
            hits += 1
            if label.onset is not None:
                delays.append(first - label.onset)
        elif label.loop:
            missed.append(run_id)
        elif first is not None:
            false_alarms.append(run_id)
        else:
            suspects += suspect
    flagged, loops = hits + len(false_alarms), hits + len(missed)
    return Score(
        precision=hits / flagged if flagged else 0.0,
        recall=hits / loops if loops else 0.0,
        f1=2 * hits / (flagged + loops) if flagged + loops else 0.0,
        hits=hits,
        missed=tuple(missed),
        false_alarms=tuple(false_alarms),
        healthy=len(known) - loops,
        delay_median=_quantile(delays, 0.5),
        delay_p90=_quantile(delays, 0.9),
        suspects_on_healthy=suspects,
    )


def _quantile(values: Sequence[int], ratio: float) -> int | None:
    return sorted(values)[min(len(values) - 1, int(ratio * len(values)))] if values else None
