"""Cases of several scorers: behind the load-balanced tier each run is judged by one of them, and counts once."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import msgspec
import pytest

from otel_loopguard.model import Span
from tests.collector.collectors import CONFIGURATIONS, Collector, running, wait_until
from tests.collector.sending import post
from tests.processor.canaries import otlp
from tests.processor.setups import send
from tests.replaying import items_of
from tests.scorer.serving import Scorer
from tests.scorer.test_served_cases import RUNS, SAYS, expected_of, left, problems_of, requests_of

pytestmark = pytest.mark.collector

REPLICAS: Final = [name for name in ("G01", "G02") if any("replica" in one for one in expected_of(name)["delivery"])]


def bodies_of(name: str, folder: Path) -> list[bytes]:
    """A case's deliveries as they leave a process that has the processor: without content, which the tier drops."""
    deliveries = []
    for number, request in enumerate(requests_of(name)):
        path = folder / f"{number}.jsonl"
        path.write_bytes(msgspec.json.encode(request) + b"\n")
        deliveries.append([item for item in items_of(path) if isinstance(item, Span)])
    once = {(span.trace_id, span.span_id): span for spans in deliveries for span in spans}
    exported = {one.context.span_id: one for one in send(once.values()).behind}
    return [otlp([exported[int(span.span_id, 16)] for span in spans]) for spans in deliveries]


def test_both_cases_are_there() -> None:
    """A case that is renamed, or comes to no replica any more, is not left out in silence."""
    assert ["G01", "G02"] == REPLICAS


@pytest.mark.parametrize("name", REPLICAS)
def test_replicas_judge_a_run_once(name: str, tmp_path: Path) -> None:
    """Halves of one run, or one batch twice, into the tier: one scorer has all of it, and its metrics are right."""
    folders = [tmp_path / str(number) for number in range(2)]
    for folder in folders:
        folder.mkdir()
    with Scorer(folders[0]) as first, Scorer(folders[1]) as second:
        collector = Collector(CONFIGURATIONS / "load-balanced.yaml", tmp_path, f"[{first.grpc}, {second.grpc}]")
        with running(collector):
            for body in bodies_of(name, tmp_path):
                assert 200 == post(collector.endpoint, body)
                time.sleep(1)  # as deliveries come: the first may be judged by then
            wait_until(lambda: collector.metric("otelcol_exporter_queue_size") == 0, "all is passed on")
            for scorer in (first, second):
                scorer.settled()
        (holding,) = [scorer for scorer in (first, second) if left(scorer, RUNS)]
        wanted = {what: value for what, value in expected_of(name)["expected"]["metrics"].items() if what in SAYS}
        assert wanted == {what: SAYS[what](holding) for what in wanted}
        assert [] == problems_of(holding, name)
