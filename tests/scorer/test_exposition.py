"""The endpoint's text, read back with Prometheus' own Python parser in both formats."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.metrics_core import Metric as MetricFamily
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse_plain
from prometheus_client.samples import Sample

from otel_loopguard.model import RunOutcome
from otel_loopguard.scorer import metrics
from otel_loopguard.scorer.exposition import TextFormat, negotiated, render
from otel_loopguard.scorer.metrics import METRICS, Shape
from otel_loopguard.scorer.records import Series
from otel_loopguard.scorer.totals import Accumulated, Snapshot
from tests.scorer.judged import NOW_NS, TRACE, finding, judged

PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
PARSERS: dict[TextFormat, Callable[[str], Iterable[MetricFamily]]] = {
    TextFormat.PLAIN: parse_plain,
    TextFormat.OPEN_METRICS: parse_open,
}
HEALTH = {
    metrics.WAITING_BYTES.series(): 1.5e9,
    metrics.SENT.series({"sink": "file"}): 12.0,
    metrics.BUILD.series({"version": "0.1.0"}): 1.0,
}
BOTH = pytest.mark.parametrize("form", TextFormat)


def some_runs(service: str = "shop") -> Snapshot:
    """Totals of two runs."""
    totals = Accumulated({}, now_ns=NOW_NS, wait_ns=0)
    found = [
        judged("a", service=service, outcome=RunOutcome.LOOP, tools={"t": 7}, findings=(finding(),), wasted_ms=10.0),
        judged("b", service=service, tools={"t": 900}, ended_ns=NOW_NS - 10**9),
    ]
    totals.apply(totals.plan([(None, run) for run in found], now_ns=NOW_NS))
    return totals.snapshot(now_ns=NOW_NS)


def samples(form: TextFormat, snapshot: Snapshot, health: dict[Series, float] | None = None) -> list[Sample]:
    """What the format's parser reads of the text."""
    text = render(snapshot, HEALTH if health is None else health, form).decode()
    return [sample for family in PARSERS[form](text) for sample in family.samples]


@BOTH
def test_every_value_is_read_back(form: TextFormat) -> None:
    """Each series of the totals and of the process is there once, with its labels and its value."""
    snapshot = some_runs()
    found = {(one.name, tuple(sorted(one.labels.items()))): one.value for one in samples(form, snapshot)}
    assert len(found) == len(samples(form, snapshot))
    plain = {series: value for series, value in {**snapshot.values, **HEALTH}.items() if "_bucket" not in series[0]}
    assert plain == {series: found[series] for series in plain}


@BOTH
def test_histograms_count_upwards_over_all_their_buckets(form: TextFormat) -> None:
    """Every bucket is there, each with all below it; the last one is the count."""
    found = [one for one in samples(form, some_runs()) if one.labels.get("outcome") == "loop"]
    buckets = [(one.labels["le"], one.value) for one in found if one.name == "loopguard_run_tool_calls_bucket"]
    bounds = ["0.0", "1.0", "2.0", "5.0", "10.0", "20.0", "50.0", "100.0", "200.0", "500.0", "+Inf"]
    assert list(zip(bounds, [0, 0, 0, 0, *[1] * 7], strict=True)) == buckets
    assert [1.0] == [one.value for one in found if one.name == "loopguard_run_tool_calls_count"]
    assert [7.0] == [one.value for one in found if one.name == "loopguard_run_tool_calls_sum"]


@BOTH
def test_types_and_help_are_those_of_the_table(form: TextFormat) -> None:
    """Each family has its type, its help and, in OpenMetrics, its unit."""
    named = {metric.name: metric for metric in METRICS}
    text = render(some_runs(), HEALTH, form).decode()
    for family in PARSERS[form](text):
        metric = named[family.name]
        assert (metric.shape.value, metric.doc) == (family.type, family.documentation)
        assert (metric.unit.value if form is TextFormat.OPEN_METRICS else "") == family.unit


def test_exemplars_are_in_openmetrics_alone() -> None:
    """Counters and buckets bear the trace, its value and its time; the plain format has no place for it."""
    found = [one for one in samples(TextFormat.OPEN_METRICS, some_runs()) if one.exemplar is not None]
    assert {"loopguard_runs_total", "loopguard_findings_total", "loopguard_run_tool_calls_bucket"} <= {
        one.name for one in found
    }
    (bucket,) = [one.exemplar for one in found if one.labels.get("le") == "+Inf"]
    assert bucket is not None
    assert ({"trace_id": TRACE}, 900.0, NOW_NS / 1e9) == (bucket.labels, bucket.value, float(bucket.timestamp or 0))
    assert all(one.exemplar is None for one in samples(TextFormat.PLAIN, some_runs()))
    assert b" # {" not in render(some_runs(), HEALTH, TextFormat.PLAIN)


@BOTH
def test_only_metrics_of_the_table_are_shown(form: TextFormat) -> None:
    """Series of another version, and ones that stand on the wrong side, are left out."""
    stray = {("loopguard_of_old_total", ()): 1.0, metrics.COMMITS.series(): 2.0}
    snapshot = Snapshot(values=stray, exemplars={}, time_ns=NOW_NS, start_ns=NOW_NS)
    assert [] == samples(form, snapshot, {metrics.START.series(): 3.0})
    assert {TextFormat.PLAIN: b"\n", TextFormat.OPEN_METRICS: b"# EOF\n"}[form] == render(snapshot, {}, form)


@BOTH
@given(name=st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from('\\\n"{},= #'), min_size=1))
def test_any_text_survives_as_a_label(form: TextFormat, name: str) -> None:
    """Backslashes, quotes, line ends and what looks like the format itself come back as they were."""
    found = {one.labels.get("service_name") for one in samples(form, some_runs(name), {})}
    assert {None, name} == found


@BOTH
@given(value=st.floats())
def test_any_number_survives(form: TextFormat, value: float) -> None:
    """Every float comes back as it was."""
    (found,) = samples(
        form, Snapshot(values={}, exemplars={}, time_ns=0, start_ns=0), {metrics.WAITING_BYTES.series(): value}
    )
    assert repr(value + 0.0) == repr(found.value + 0.0)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, TextFormat.PLAIN),
        ("", TextFormat.PLAIN),
        ("*/*", TextFormat.PLAIN),
        ("text/html, */*;q=0.1", TextFormat.PLAIN),
        (PROMETHEUS_3, TextFormat.OPEN_METRICS),
        ("application/openmetrics-text", TextFormat.OPEN_METRICS),
        ("Application/OpenMetrics-Text; Version=1.0.0", TextFormat.OPEN_METRICS),
        ('application/openmetrics-text;version="1.0.0"', TextFormat.OPEN_METRICS),
        ("application/openmetrics-text;version=0.0.1", TextFormat.PLAIN),
        ("text/plain;version=0.0.4,application/openmetrics-text", TextFormat.OPEN_METRICS),
        ("text/plain;q=0.9,application/openmetrics-text;q=0.8", TextFormat.PLAIN),
        ("application/openmetrics-text;q=0", TextFormat.PLAIN),
        ("application/openmetrics-text;q=x", TextFormat.PLAIN),
        (";;,=;q", TextFormat.PLAIN),
    ],
)
def test_the_format_is_negotiated(accept: str | None, expected: TextFormat) -> None:
    """The best liked of the formats that we have; the plain one where none is named."""
    assert expected == negotiated(accept)


@given(st.text())
def test_any_accept_header_has_an_answer(accept: str) -> None:
    """No header stops the endpoint."""
    assert negotiated(accept) in TextFormat


def test_every_shape_is_shown() -> None:
    """The tests above saw counters, gauges and histograms."""
    form = TextFormat.OPEN_METRICS
    types = {family.type for family in PARSERS[form](render(some_runs(), HEALTH, form).decode())}
    assert {shape.value for shape in Shape} == types
