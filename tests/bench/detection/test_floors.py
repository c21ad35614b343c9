"""What detection must reach on the labelled runs, and that the published table says what was measured."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

import pytest

from tests.bench.detection import ours, table
from tests.bench.detection.labelled import Prediction, Score, labels, predict, runs, score
from tests.bench.detection.rules import RULES


@cache
def by_default() -> Score:
    """With default settings."""
    return score(ours.replayed())


@cache
def left_out() -> Score:
    """With settings chosen on the other sources."""
    return score(ours.leave_one_out()[0])


FLOORS: Final[dict[str, Callable[[], bool]]] = {
    "f1": lambda: by_default().f1 >= 0.95,
    "false alarms": lambda: len(by_default().false_alarms) <= 1,
    "median delay": lambda: (by_default().delay_median or 0) <= 0,
    "90th percentile of delays": lambda: (by_default().delay_p90 or 0) <= 2,
    "suspects among healthy runs": lambda: by_default().suspect_ratio <= 0.10,
    "f1, leaving one source out": lambda: left_out().f1 >= 0.90,
}


@pytest.mark.parametrize("name", FLOORS)
def test_floor(name: str) -> None:
    """Detection on the labelled runs is at least as good as this."""
    assert FLOORS[name](), f"default: {by_default()}; leaving one source out: {left_out()}"


def test_better_than_every_simple_rule() -> None:
    """The defaults are better than what anyone could write in ten lines."""
    assert [] == [name for name, rule in RULES.items() if score(predict(rule)).f1 >= by_default().f1]


# --- the scoring itself -----------------------------------------------------------------------------------


def test_all_runs_are_there() -> None:
    """125 runs of eleven sources, 12 of them borderline and so not scored; 1,257 calls."""
    assert (125, 1_257) == (len(runs()), sum(len(rows) for rows in runs().values()))
    assert (113, 11) == (len(labels()), len({label.source for label in labels().values()}))
    assert set(labels()) <= set(runs())


def test_scoring_of_what_is_known() -> None:
    """Whoever flags every loop at its onset is perfect; whoever flags nothing, or everything, is not."""
    perfect = score({run_id: Prediction(label.onset if label.loop else None) for run_id, label in labels().items()})
    assert (1.0, 1.0, 1.0, 0, 0) == (
        perfect.precision,
        perfect.recall,
        perfect.f1,
        perfect.delay_median,
        perfect.delay_p90,
    )
    silent = score(dict.fromkeys(labels(), Prediction(None, suspect=True)))
    assert (0.0, 0.0, 70, None) == (silent.f1, silent.recall, silent.suspects_on_healthy, silent.delay_median)
    loud = score(dict.fromkeys(labels(), Prediction(1)))
    assert (1.0, 43, 70) == (loud.recall, loud.hits, len(loud.false_alarms))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("window of 8, call and result or result three times", (0.83, 0.88, 0.85)),
        ("consecutive call with unchanged result, third", (1.0, 0.51, 0.68)),
        ("OpenHands' rules", (1.0, 0.42, 0.59)),
        ("gemini-cli's rule", (0.92, 0.28, 0.43)),
    ],
)
def test_simple_rules_score_as_published(name: str, expected: tuple[float, float, float]) -> None:
    """The rules score here as they did where this set was made: scoring and rules are the same."""
    made = score(predict(RULES[name]))
    assert expected == (round(made.precision, 2), round(made.recall, 2), round(made.f1, 2))


def test_replaced_constants_come_back() -> None:
    """The bench leaves no other value behind, and knows no constant that is not there."""
    name = "tests.bench.detection.ours:ROUNDS"
    before = ours.ROUNDS
    with ours.replaced({name: 99}):
        assert 99 == vars(ours)["ROUNDS"]
    assert before == vars(ours)["ROUNDS"]
    with pytest.raises(AttributeError), ours.replaced({"tests.bench.detection.ours:NO_SUCH": 1}):
        pass


def test_defaults_come_first_in_the_grid() -> None:
    """The first point of the grid is the default settings: judging with it is what replay says."""
    point = next(iter(ours._grid()))  # noqa: SLF001  # the order is what is tested
    assert ours.replayed() == ours._predictions(point)  # noqa: SLF001


def test_the_page_says_what_is_measured() -> None:
    """The published tables are what the bench makes, but for times."""
    text = table.DOCUMENT.read_text(encoding="utf-8")
    assert table.without_times(table.write(text, table.blocks(timed=False))) == table.without_times(text)
