"""Metrics by OTLP: the same names, labels and values as the endpoint shows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric

from otel_loopguard.model import RunOutcome
from otel_loopguard.scorer import metrics, otlp_metrics
from otel_loopguard.scorer.metrics import METRICS, Shape
from otel_loopguard.scorer.otlp_metrics import EVERY_S, MetricsPush
from otel_loopguard.scorer.posting import Poster
from otel_loopguard.scorer.records import Series
from otel_loopguard.scorer.totals import Accumulated
from tests.scorer.judged import NOW_NS, SECOND, TRACE, finding, judged
from tests.scorer.receiving import Answer, Receiver, receiving, values

RESOURCE = {"service.name": "otel-loopguard", "service.instance.id": "one"}
HEALTH = {metrics.SENT.series({"sink": "file"}): 12.0, metrics.JUDGING_LAG.series(): 1.5}
LATER_NS = NOW_NS + 10 * SECOND


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A running receiver."""
    with receiving() as found:
        yield found


def push_to(receiver: Receiver, held: Accumulated) -> MetricsPush:
    """A push by a process that began 10 seconds after the totals."""
    return MetricsPush(
        held,
        lambda: HEALTH,
        poster=Poster(receiver.endpoint, timeout_s=5),
        resource=RESOURCE,
        clock=lambda: LATER_NS,
    )


def counted() -> Accumulated:
    """Totals of one run."""
    totals = Accumulated({}, now_ns=NOW_NS, wait_ns=0)
    run = judged(outcome=RunOutcome.LOOP, tools={"t": 7}, findings=(finding(),), wasted_ms=12.5)
    totals.apply(totals.plan([(None, run)], now_ns=NOW_NS))
    return totals


def read_back(received: list[Metric]) -> dict[Series, float]:
    """Counters and gauges as the totals have them."""
    named = {metric.otlp_name: metric for metric in METRICS}
    found: dict[Series, float] = {}
    for one in received:
        points = one.sum.data_points or one.gauge.data_points
        for point in points:
            value = getattr(point, str(point.WhichOneof("value")))
            found[named[one.name].series(values(point.attributes))] = value
    return found


def test_every_value_arrives(receiver: Receiver) -> None:
    """Counters, gauges and their labels are those of the snapshot, and of the process."""
    held = counted()
    assert EVERY_S == push_to(receiver, held).step()
    shown = {**held.snapshot(now_ns=NOW_NS).values, **HEALTH}
    assert {one: value for one, value in shown.items() if not one[0].endswith(("_bucket", "_sum"))} == read_back(
        receiver.metrics
    )
    assert RESOURCE == values(receiver.metric_requests[0].resource_metrics[0].resource.attributes)


def test_kinds_units_and_times_are_those_of_the_table(receiver: Receiver) -> None:
    """Counters are cumulative and only rise; runs count since the totals began, the process since it did."""
    push_to(receiver, counted()).step()
    named = {metric.otlp_name: metric for metric in METRICS}
    for one in receiver.metrics:
        metric = named[one.name]
        assert (metric.unit.otlp, metric.doc) == (one.unit, one.description)
        kind = {Shape.COUNTER: "sum", Shape.GAUGE: "gauge", Shape.HISTOGRAM: "histogram"}[metric.shape]
        assert kind == one.WhichOneof("data")
        if kind == "gauge":
            continue
        held = one.sum if kind == "sum" else one.histogram
        assert AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE == held.aggregation_temporality
        assert kind == "histogram" or one.sum.is_monotonic
        start_ns = LATER_NS if metric.source is metrics.Source.HEALTH else NOW_NS
        assert {(start_ns, LATER_NS)} == {(p.start_time_unix_nano, p.time_unix_nano) for p in held.data_points}


def test_histograms_and_exemplars_arrive(receiver: Receiver) -> None:
    """Buckets hold what lies between their bounds, with the trace that was counted last."""
    push_to(receiver, counted()).step()
    (one,) = [metric for metric in receiver.metrics if metric.name == "loopguard.run_tool_calls"]
    (point,) = one.histogram.data_points
    assert ([0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0], 1, 7.0) == (list(point.bucket_counts), point.count, point.sum)
    assert metrics.RUN_CALLS.buckets == tuple(point.explicit_bounds)
    (exemplar,) = point.exemplars
    assert (bytes.fromhex(TRACE), 7) == (exemplar.trace_id, exemplar.as_int)


def test_what_was_sent_counts_as_seen(receiver: Receiver) -> None:
    """A first verdict waits for the zeros to be sent, and not for a sending that failed."""
    held = Accumulated({}, now_ns=LATER_NS)
    push = push_to(receiver, held)
    assert not held.plan([(None, judged())], now_ns=LATER_NS).ready
    receiver.answers = [Answer(503)]
    assert 1.0 == push.step()
    assert not held.plan([(None, judged())], now_ns=LATER_NS).ready
    assert EVERY_S == push.step()
    assert held.plan([(None, judged())], now_ns=LATER_NS).ready


def test_failures_are_counted_and_the_next_sending_has_all(receiver: Receiver) -> None:
    """Whatever the answer, it is tried again soon."""
    receiver.answers = [Answer(500), Answer(400), Answer(breaks=True)]
    push = push_to(receiver, counted())
    assert [1.0, 2.0, 4.0, EVERY_S] == [push.step() for _ in range(4)]
    assert {"bad_answer": 2, "unreachable": 1} == {
        dict(labels)["reason"]: value for (_, labels), value in push.health().items() if value
    }
    assert (
        1
        == read_back(receiver.metrics)[
            metrics.RUNS.series({"service_name": "shop", "release": "1.0", "sampled": "false", "outcome": "loop"})
        ]
    )


def test_many_points_go_in_several_messages(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """No message is larger than it may be, and no point is lost or sent twice."""
    monkeypatch.setattr(otlp_metrics, "POINTS", 10)
    held = counted()
    push_to(receiver, held).step()
    sizes = [
        sum(
            len(one.sum.data_points) + len(one.gauge.data_points) + len(one.histogram.data_points)
            for scope in request.resource_metrics[0].scope_metrics
            for one in scope.metrics
        )
        for request in receiver.metric_requests
    ]
    assert {10} == set(sizes[:-1])
    shown = {**held.snapshot(now_ns=NOW_NS).values, **HEALTH}
    histograms = 1
    assert sum(sizes) == histograms + len([one for one in shown if not one[0].endswith(("_bucket", "_sum"))])
