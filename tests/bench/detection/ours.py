"""What we say of the labelled runs: with default settings, and with settings chosen without one source.

`leave_one_out` shows tuning: for each source the settings are chosen on the others, by F1, then by fewest false
alarms, then by closeness to the defaults, and judged on the one left out.
"""

from __future__ import annotations

import importlib
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, NamedTuple

from otel_loopguard import policy
from otel_loopguard.assembly import assemble
from otel_loopguard.facts import FactsReader
from otel_loopguard.files.calls import record
from otel_loopguard.model import Run, RunOutcome, Verdict
from otel_loopguard.policy import Policy
from otel_loopguard.verdict import judge
from tests.bench.detection.labelled import CALLS, Prediction, Score, labels, runs, score
from tests.replaying import DIGESTER, replay_files, replay_items

ROUNDS: Final = 5
"""Rounds over all runs for the time a call; the fastest counts."""

ALLOWED_REPEATS: Final = (2, 1, 3)
"""Values of the policy's `defaults.allowed_repeats` that are tried, the default first; so too below."""
CONSTANTS: Final[Mapping[str, Sequence[int]]] = {
    "otel_loopguard.detectors.same_result:SAME_ANSWERS": (4, 3),
    "otel_loopguard.detectors.near_repeat:ANSWERED_ALIKE": (4, 3),
    "otel_loopguard.detectors.near_repeat:ARGUMENTS_PER_CENT": (50, 65),
    "otel_loopguard.detectors.near_result:ALIKE_TEXTS": (4, 3),
    "otel_loopguard.detectors.error_cascade:SAME_TEXT": (5, 4),
}
"""Constants that no policy sets, as `module:NAME`, with the values that are tried.

They are the code's, not the owner's, so only this bench replaces them, and only while it judges (`replaced`).
"""

Point = tuple[tuple[str, Any], ...]
"""One choice of every setting: (name, value) each."""

SETTINGS: Final[Mapping[str, Sequence[int]]] = {"allowed_repeats": ALLOWED_REPEATS, **CONSTANTS}
DEFAULTS: Final[Point] = tuple((name, values[0]) for name, values in SETTINGS.items())


class Held(NamedTuple):
    """One source judged with settings chosen on the others."""

    source: str
    chosen: Point
    score: Score


def replayed() -> dict[str, Prediction]:
    """What replay says of every run with default settings."""
    return {report.verdict.run_id: _prediction(report.verdict) for report in replay_files([CALLS], policy.default())}


def us_per_call() -> float:
    """Microseconds of CPU time a call, from the record to the verdict, with default settings."""
    records = [record(row) for rows in runs().values() for row in rows]
    taken = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        replay_items(records, policy.default())
        taken.append(time.process_time() - begun)
    return min(taken) / len(records) * 1e6


@cache
def leave_one_out() -> tuple[dict[str, Prediction], tuple[Held, ...]]:
    """Judges each source with settings chosen on the others.

    Returns:
        The predictions so made for every run, and one entry a source, by name.
    """
    of_point = {point: _predictions(point) for point in _grid()}
    sources = sorted({label.source for label in labels().values()})
    pooled: dict[str, Prediction] = {}
    held = []
    for source in sources:
        own = [run_id for run_id, label in labels().items() if label.source == source]
        others = [run_id for run_id, label in labels().items() if label.source != source]
        chosen = min(of_point, key=lambda point: _rank(score(of_point[point], among=others)))
        pooled.update((run_id, of_point[chosen][run_id]) for run_id in own)
        held.append(Held(source, chosen, score(of_point[chosen], among=own)))
    return pooled, tuple(held)


def _rank(made: Score) -> tuple[float, int]:
    # `min` keeps the first of equals, and the grid starts with the defaults.
    return (-round(made.f1, 9), len(made.false_alarms))


def _grid() -> Iterator[Point]:
    """Every point, the defaults first, then by how many settings differ from them."""
    points: list[Point] = [
        tuple(zip(SETTINGS, values, strict=True)) for values in itertools.product(*SETTINGS.values())
    ]
    yield from sorted(points, key=lambda point: sum(one != other for one, other in zip(point, DEFAULTS, strict=True)))


def _predictions(point: Point) -> dict[str, Prediction]:
    chosen = dict(point)
    rules = _policy(chosen.pop("allowed_repeats"))
    with replaced(chosen):
        return {run.run_id: _prediction(judge(run, rules)[0]) for run in _assembled()}


def _policy(allowed_repeats: int) -> Policy:
    return policy.load(
        f"version: 1\npolicy: bench\npolicy_version: '1'\ndefaults: {{allowed_repeats: {allowed_repeats}}}\n"
    )


@contextmanager
def replaced(constants: Mapping[str, Any]) -> Iterator[None]:
    """Gives module constants other values for a while; one that does not exist is an error."""
    before = {}
    try:
        for name, value in constants.items():
            module, _, constant = name.partition(":")
            place = importlib.import_module(module)
            before[place, constant] = getattr(place, constant)
            setattr(place, constant, value)
        yield
    finally:
        for (place, constant), value in before.items():
            setattr(place, constant, value)


@cache
def _assembled() -> Sequence[Run]:
    """The runs as the default policy's facts make them; no setting that is tried changes the facts."""
    rules = policy.default()
    reader = FactsReader(rules, lambda _: DIGESTER)
    return [run for rows in runs().values() for run in assemble([reader.of_record(record(row)) for row in rows], rules)]


def _prediction(verdict: Verdict) -> Prediction:
    flagged = verdict.outcome is RunOutcome.LOOP
    return Prediction(verdict.first_loop_call if flagged else None, verdict.outcome is RunOutcome.SUSPECT)
