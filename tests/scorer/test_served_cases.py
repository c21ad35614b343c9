"""What cases expect of metrics, of alerts and of a clock, through the running service: real requests, real `/metrics`.

The cases' times are moved to now: the last delivery comes as it is sent. Each comes as its file says, again with the
scorer killed between deliveries, and again with every span several times over, shuffled over requests.
"""

from __future__ import annotations

import copy
import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from otel_loopguard import policy as policies
from otel_loopguard.model import Verdict
from otel_loopguard.scorer.counting import net
from tests.cases.test_cases import CASES, NAMES, problems_with
from tests.detectors.variants import placed, spans_of
from tests.scorer.serving import Scorer, wait_for

_ZERO_S: Final = 1_790_000_000
"""The cases' time 0."""
_MOST_COPIES: Final = 7
_A_REQUEST: Final = 3
RUNS: Final = "loopguard_runs_total"


def expected_of(name: str) -> dict[str, Any]:
    """All that a case's file says."""
    found: dict[str, Any] = json.loads((CASES / name / "expected.json").read_text(encoding="utf-8"))
    return found


WITH_METRICS: Final = [name for name in NAMES if "metrics" in expected_of(name)["expected"]]
DELIVERED: Final = [name for name in WITH_METRICS if (CASES / name / "deliveries.otlp.jsonl").exists()]


def requests_of(name: str) -> list[dict[str, Any]]:
    """A case's requests in OTLP JSON, one a delivery, as if the last were due now."""
    path = CASES / name / "deliveries.otlp.jsonl"
    if path.exists():
        requests = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        seconds = max(delivery["t"] for delivery in expected_of(name)["delivery"])
    else:
        rows = [json.loads(line) for line in (CASES / name / "calls.jsonl").read_text(encoding="utf-8").splitlines()]
        requests, seconds = [_as_otlp(rows, name)], 1
    moved_ns = time.time_ns() - (_ZERO_S + seconds) * 10**9
    for _, span in _spans(requests):
        for field in ("startTimeUnixNano", "endTimeUnixNano"):
            if field in span:
                span[field] = str(int(span[field]) + moved_ns)
    return requests


def _as_otlp(rows: Sequence[dict[str, Any]], name: str) -> dict[str, Any]:
    """Call records as the spans of an agent that made those calls."""
    spans = []
    for span in spans_of(placed(rows, run_id=name), policies.load_file(CASES / name / "policy.yaml")):
        pairs = [{"key": key, "value": {"stringValue": value}} for key, value in span.attributes.items()]
        fields = {"traceId": span.trace_id, "spanId": span.span_id, "name": span.name, "attributes": pairs}
        times = {"startTimeUnixNano": span.start_ns, "endTimeUnixNano": span.end_ns or 0}
        spans.append({**fields, **times, **({"parentSpanId": span.parent_id} if span.parent_id else {})})
    service = {"key": "service.name", "value": {"stringValue": "agent"}}
    return {"resourceSpans": [{"resource": {"attributes": [service]}, "scopeSpans": [{"spans": spans}]}]}


def _spans(requests: Sequence[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """All spans, each with the group that it stands in."""
    return [
        (group, span)
        for request in requests
        for group in request["resourceSpans"]
        for scoped in group["scopeSpans"]
        for span in scoped["spans"]
    ]


def copies_of(requests: Sequence[dict[str, Any]], rng: random.Random) -> list[dict[str, Any]]:
    """Every span one to some times over, shuffled over requests of a few."""
    spans = [one for one in _spans(requests) for _ in range(rng.randint(1, _MOST_COPIES))]
    rng.shuffle(spans)
    found = []
    for first in range(0, len(spans), _A_REQUEST):
        groups = [{**group, "scopeSpans": [{"spans": [span]}]} for group, span in spans[first : first + _A_REQUEST]]
        found.append({"resourceSpans": copy.deepcopy(groups)})
    return found


def post(scorer: Scorer, request: dict[str, Any]) -> None:
    """Sends one request, which is taken."""
    assert 200 == scorer.post(json.dumps(request).encode(), **{"Content-Type": "application/json"})


def left(scorer: Scorer, name: str, **labels: str) -> float:
    """What a counter of runs comes to, less what was taken back."""
    return sum(
        value
        for (found, its), value in net(scorer.metrics()).items()
        if found == name and labels.items() <= dict(its).items()
    )


def _only_marked_runs(scorer: Scorer) -> str:
    """How counts say that they are of a sample: all of them, or none of them, are marked."""
    marked = left(scorer, RUNS, sampled="true")
    return "suppressed_or_marked" if marked and marked == left(scorer, RUNS) else "plain"


SAYS: Final[Mapping[str, Callable[[Scorer], Any]]] = {
    "runs_scored": lambda scorer: left(scorer, RUNS),
    "calls_total": lambda scorer: left(scorer, "loopguard_tool_calls_total"),
    "duplicate_spans_total": lambda scorer: left(scorer, "loopguard_duplicate_spans_total"),
    "absolute_counts": _only_marked_runs,
}
"""What `/metrics` says to each expectation."""
BEFORE: Final = "loop_runs_total_exported_at_zero_before"
"""An expectation of what was shown earlier: see `test_the_first_loop_is_shown_at_zero_first`."""


def problems_of(scorer: Scorer, name: str) -> list[str]:
    """What the last verdicts say otherwise than a case expects; each run is judged by then."""
    verdicts = [msgspec.convert(line, Verdict) for line in scorer.verdicts().values()]
    assert verdicts
    return [problem for one in verdicts for problem in problems_with(one, expected_of(name)["expected"])]


def assert_as_expected(scorer: Scorer, name: str, *, duplicates: float | None = None) -> None:
    """Fails where verdicts or metrics are not as the case says; `duplicates`: how many copies there are instead."""
    scorer.settled()
    wanted = dict(expected_of(name)["expected"]["metrics"])
    if duplicates is not None and "duplicate_spans_total" in wanted:
        wanted["duplicate_spans_total"] = duplicates
    assert wanted == {what: SAYS[what](scorer) for what in wanted}
    assert [] == problems_of(scorer, name)


def served(name: str, folder: Path, **settings: str) -> Scorer:
    """A scorer under the policy of a case, not started."""
    return Scorer(folder, policy=str(CASES / name / "policy.yaml"), **settings)


def test_every_expectation_of_metrics_is_looked_at() -> None:
    """A case that expects something else of the metrics fails here until somebody asks the metrics for it."""
    wanted = {what for name in WITH_METRICS for what in expected_of(name)["expected"]["metrics"]}
    assert wanted == {*SAYS, BEFORE}


@pytest.mark.parametrize("name", DELIVERED)
def test_metrics_of_a_case(tmp_path: Path, name: str) -> None:
    """Delivered as the case says."""
    with served(name, tmp_path) as scorer:
        for request in requests_of(name):
            post(scorer, request)
        assert_as_expected(scorer, name)


@pytest.mark.parametrize("name", [name for name in DELIVERED if len(expected_of(name)["delivery"]) > 1])
def test_metrics_of_a_case_with_kills_between(tmp_path: Path, name: str) -> None:
    """Each delivery is judged, and the scorer killed, before the next: late spans revise, and count nothing twice."""
    with served(name, tmp_path) as scorer:
        for request in requests_of(name):
            post(scorer, request)
            scorer.settled()
            scorer.kill()
            scorer.start()
        assert_as_expected(scorer, name)


@pytest.mark.parametrize("name", DELIVERED)
def test_metrics_of_a_case_with_copies(tmp_path: Path, name: str) -> None:
    """Every span several times, shuffled: nothing changes but the number of copies, which is right, too."""
    requests = requests_of(name)
    copied = copies_of(requests, random.Random(name))
    distinct = {(span["traceId"], span["spanId"]) for _, span in _spans(requests)}
    with served(name, tmp_path) as scorer:
        for request in copied:
            post(scorer, request)
        duplicates = len(_spans(copied)) - len(distinct)
        assert_as_expected(scorer, name, duplicates=duplicates)
        assert duplicates == SAYS["duplicate_spans_total"](scorer)


@pytest.mark.parametrize("name", [name for name in WITH_METRICS if BEFORE in expected_of(name)["expected"]["metrics"]])
@pytest.mark.parametrize("copied", [False, True], ids=["once", "copies"])
def test_the_first_loop_is_shown_at_zero_first(tmp_path: Path, name: str, *, copied: bool) -> None:
    """Whoever scrapes a fresh process sees its loops at 0, and then at 1: an alert on the increase fires."""
    requests = requests_of(name)
    with served(name, tmp_path, zeros_s="60") as scorer:
        for request in copies_of(requests, random.Random(name)) if copied else requests:
            post(scorer, request)
        seen: list[float] = []

        def scraped() -> bool:
            for (sample, labels), value in scorer.metrics().items():
                if sample == RUNS and ("outcome", "loop") in labels and [value] != seen[-1:]:
                    seen.append(value)
            return 1.0 in seen

        wait_for(scraped, "the loop is counted")
        assert [0.0, 1.0] == seen
        scorer.settled()
        assert [] == problems_of(scorer, name)


def test_an_old_loop_is_not_counted_among_those_of_now(tmp_path: Path) -> None:
    """G05: what comes three hours late is judged, and counted where no alert looks."""
    with served("G05", tmp_path) as scorer:
        for request in requests_of("G05"):
            post(scorer, request)
        scorer.settled()
        assert (0, 1) == (left(scorer, RUNS), left(scorer, "loopguard_backfill_runs_total", outcome="loop"))
        assert [] == problems_of(scorer, "G05")
        assert [True] == [line["backfill"] for line in scorer.verdicts().values()]


def test_a_run_whose_root_never_comes_is_judged_when_it_is_idle(tmp_path: Path) -> None:
    """D12: the verdict says that nothing came any more, not that the run had ended."""
    with served("D12", tmp_path) as scorer:
        for request in requests_of("D12"):
            post(scorer, request)
        scorer.settled()
        assert [] == problems_of(scorer, "D12")
        assert ["idle"] == [line["close"] for line in scorer.verdicts().values()]
