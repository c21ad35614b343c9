"""The metrics by OTLP/HTTP, from the same snapshot as the Prometheus endpoint.

Invariants: cumulative; names, labels and values are those of the endpoint. Totals of runs count from the start of the
first scorer on the data folder, those of the process from its own.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    Exemplar,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
)

from otel_loopguard.errors import LoopGuardError
from otel_loopguard.scorer import exposition, metrics, totals
from otel_loopguard.scorer.metrics import SEND_FAILURES, Shape, Source, Unit
from otel_loopguard.scorer.otlp_events import SCOPE, key_values
from otel_loopguard.scorer.outputs import SendFailure, SinkError, later
from otel_loopguard.scorer.posting import Poster, Signal
from otel_loopguard.scorer.records import Series, Totals

EVERY_S: Final = 30.0
"""How often metrics are sent."""
POINTS: Final = 4000
"""Data points in one message at most: some 100 to 200 bytes each, below the 4 MiB that many receivers take."""

Point: TypeAlias = NumberDataPoint | HistogramDataPoint

_LOG: Final = logging.getLogger(__name__)


class MetricsPush:
    """Sends all metrics every so often.

    Args:
        held: the totals; the zeros that were sent count as seen.
        health: values of the process itself.
        poster: to the receiver.
        resource: attributes of this scorer.
        clock: Unix time in nanoseconds.
        every_s: how often.
    """

    name: Final = "otlp_metrics"

    def __init__(
        self,
        held: totals.Accumulated,
        health: Callable[[], Totals],
        *,
        poster: Poster,
        resource: Mapping[str, str],
        clock: Callable[[], int],
        every_s: float = EVERY_S,
    ) -> None:
        self._held, self._health, self._poster = held, health, poster
        self._resource, self._clock, self._every_s = dict(resource), clock, every_s
        self._began_ns = clock()
        self._delay_s = 0.0
        self._failures: Counter[str] = Counter({reason.value: 0 for reason in SendFailure})

    def step(self) -> float:
        """Sends them once.

        Returns:
            Seconds until the next step. What was not sent is not made up for: the next sending has all of it.
        """
        snapshot = self._held.snapshot(now_ns=self._clock())
        try:
            for message in encode_metrics(snapshot, self._health(), self._resource, began_ns=self._began_ns):
                self._poster.post(Signal.METRICS, message)
        except LoopGuardError as error:
            reason = error.reason if isinstance(error, SinkError) else SendFailure.BAD_ANSWER
            self._failures[reason.value] += 1
            if not self._delay_s:
                _LOG.warning("metrics are not sent: %s", error)
            self._delay_s = later(self._delay_s)
            return self._delay_s
        self._held.seen(snapshot)
        self._delay_s = 0.0
        return self._every_s

    def health(self) -> dict[Series, float]:
        """Its own metrics, of source `health`."""
        return {
            SEND_FAILURES.series({"sink": self.name, "reason": reason}): count
            for reason, count in self._failures.items()
        }


def encode_metrics(
    snapshot: totals.Snapshot, health: Totals, resource: Mapping[str, str], *, began_ns: int
) -> Iterator[bytes]:
    """OTLP requests that together hold all metrics.

    Args:
        snapshot: of the totals.
        health: values of the process itself.
        resource: attributes of this scorer.
        began_ns: since when the process counts.

    Yields:
        Requests of at most `POINTS` data points.
    """
    for part in _parts(_points(snapshot, health, began_ns)):
        held = ResourceMetrics(scope_metrics=[ScopeMetrics(metrics=[_message(one, points) for one, points in part])])
        held.resource.attributes.extend(key_values(resource))
        held.scope_metrics[0].scope.name = SCOPE
        yield ExportMetricsServiceRequest(resource_metrics=[held]).SerializeToString()


def _points(snapshot: totals.Snapshot, health: Totals, began_ns: int) -> Iterator[tuple[metrics.Metric, list[Point]]]:
    for metric, held in exposition.families(snapshot, health):
        start_ns = began_ns if metric.source is Source.HEALTH else snapshot.start_ns
        if metric.shape is Shape.HISTOGRAM:
            yield metric, list(_histograms(metric, held, snapshot, start_ns))
            continue
        points: list[Point] = []
        for series, value in held:
            point = NumberDataPoint(
                attributes=key_values(dict(series[1])),
                start_time_unix_nano=start_ns if metric.shape is Shape.COUNTER else 0,
                time_unix_nano=snapshot.time_ns,
                exemplars=_exemplars([series], snapshot, metric),
            )
            if metric.unit is Unit.SECONDS:
                point.as_double = value
            else:
                point.as_int = round(value)
            points.append(point)
        yield metric, points


def _histograms(
    metric: metrics.Metric, held: list[tuple[Series, float]], snapshot: totals.Snapshot, start_ns: int
) -> Iterator[HistogramDataPoint]:
    for labels, buckets, total in exposition.histograms(metric, held):
        counts = [round(value) for _, value in buckets]
        yield HistogramDataPoint(
            attributes=key_values(dict(labels)),
            start_time_unix_nano=start_ns,
            time_unix_nano=snapshot.time_ns,
            count=sum(counts),
            sum=total,
            bucket_counts=counts,
            explicit_bounds=metric.buckets,
            exemplars=_exemplars([series for series, _ in buckets], snapshot, metric),
        )


def _exemplars(wanted: Iterable[Series], snapshot: totals.Snapshot, metric: metrics.Metric) -> list[Exemplar]:
    found = []
    for series in wanted:
        one = snapshot.exemplars.get(series)
        if one is not None:
            exemplar = Exemplar(trace_id=bytes.fromhex(one.trace_id), time_unix_nano=one.time_ns)
            if metric.unit is Unit.SECONDS:
                exemplar.as_double = one.value
            else:
                exemplar.as_int = round(one.value)
            found.append(exemplar)
    return found


def _message(metric: metrics.Metric, points: list[Point]) -> Metric:
    message = Metric(name=metric.otlp_name, description=metric.doc, unit=metric.unit.otlp)
    if metric.shape is Shape.HISTOGRAM:
        message.histogram.data_points.extend([one for one in points if isinstance(one, HistogramDataPoint)])
        message.histogram.aggregation_temporality = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
        return message
    numbers = [one for one in points if isinstance(one, NumberDataPoint)]
    if metric.shape is Shape.GAUGE:
        message.gauge.data_points.extend(numbers)
        return message
    message.sum.data_points.extend(numbers)
    message.sum.is_monotonic = True
    message.sum.aggregation_temporality = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    return message


def _parts(found: Iterable[tuple[metrics.Metric, list[Point]]]) -> Iterator[list[tuple[metrics.Metric, list[Point]]]]:
    """The same in portions of `POINTS`; a metric that does not fit goes on in the next."""
    part: list[tuple[metrics.Metric, list[Point]]] = []
    room = POINTS
    for metric, points in found:
        left = points
        while left:
            part.append((metric, left[:room]))
            left, room = left[room:], room - len(part[-1][1])
            if not room:
                yield part
                part, room = [], POINTS
    if part:
        yield part
