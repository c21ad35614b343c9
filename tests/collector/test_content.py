"""Spans that never saw our processor: no content leaves the collector, lies in its queue or shows in its log."""

from __future__ import annotations

from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_loopguard.model import RunOutcome, Span
from tests.captures.summary import CAPTURES, SPANS
from tests.collector import raw
from tests.collector.collectors import CONFIGURATIONS, VARIANTS, Collector, running, wait_until
from tests.collector.sending import arrived, judged, post, wait_for
from tests.collector.sinks import GrpcSink, HttpSink, Sink, listening, spans_in
from tests.processor.canaries import CANARY, exported, otlp
from tests.replaying import items_of

pytestmark = pytest.mark.collector

FAILING = """
processors:
  transform/no_text:
    trace_statements:
      - set(span.attributes["parsed"], ParseJSON(span.attributes["metadata"])) where span.attributes["metadata"] != nil
      - set(span.status.message, "")
"""
"""A step of the removal that fails on a span whose `metadata` is no JSON."""


def setup(variant: str, folder: Path, *, overlays: tuple[Path, ...] = ()) -> tuple[Collector, list[Sink]]:
    """A collector, and what it sends to."""
    sinks: list[Sink] = [GrpcSink()] if variant == "load-balanced" else [HttpSink()]
    send_to = f"[{sinks[0].send_to}]" if variant == "load-balanced" else sinks[0].send_to
    return Collector(CONFIGURATIONS / f"{variant}.yaml", folder, send_to, overlays=overlays), sinks


def assert_clean(collector: Collector, sinks: list[Sink]) -> None:
    """Fails where the canary is behind the collector, in its queue or in its log."""
    canary = CANARY.encode()
    assert [] == [number for sink in sinks for number, body in enumerate(sink.received) if canary in body]
    assert canary not in collector.stored()
    assert CANARY not in collector.logged()


@pytest.mark.parametrize("variant", VARIANTS)
def test_no_content_key_gets_through(variant: str, tmp_path: Path) -> None:
    """Each key of each dialect with each kind of value, on spans, events, scopes, resources; and status messages."""
    collector, sinks = setup(variant, tmp_path)
    requests = [raw.request_of(value) for value in raw.values()]
    with running(collector):
        for request in requests:
            assert 200 == post(collector.endpoint, request.SerializeToString())
        # The receiver is down: all of it lies in the queue.
        assert b"lookup_order" in collector.stored()
        assert_clean(collector, sinks)
        with listening(*sinks):
            wanted = sum(len(group.scope_spans[0].spans) for request in requests for group in request.resource_spans)
            wait_until(lambda: len(arrived(sinks)) == wanted, "every span arrives")
    assert_clean(collector, sinks)
    kept = {key for span in arrived(sinks) for key in span.attributes}
    assert {"gen_ai.operation.name", "gen_ai.tool.name", "gen_ai.tool.call.id"} == kept


def test_no_content_of_a_capture_gets_through(tmp_path: Path) -> None:
    """Every captured run with canaries in its content, wherever its instrumentation put it."""
    collector, sinks = setup("gateway", tmp_path)
    with listening(*sinks), running(collector):
        sent = b""
        for name in CAPTURES:
            body = raw.captured([item for item in items_of(SPANS / f"{name}.jsonl") if isinstance(item, Span)])
            assert 200 == post(collector.endpoint, body)
            sent += body
        assert CANARY.encode() in sent
        wait_for(spans_in([sent]), sinks)
    assert_clean(collector, sinks)


def test_a_run_without_its_content_is_unscorable(tmp_path: Path) -> None:
    """A loop that came around the processor is neither clean nor a loop behind the collector: it cannot be judged."""
    collector, sinks = setup("gateway", tmp_path)
    name = "langchain-1.5.0-langgraph-1.2.24+langsmith-0.15.1+stuck"
    spans = [item for item in items_of(SPANS / f"{name}.jsonl") if isinstance(item, Span)]
    with listening(*sinks), running(collector):
        assert 200 == post(collector.endpoint, otlp(exported(spans)))
        wait_for(spans, sinks)
    assert {RunOutcome.LOOP} == {report.verdict.outcome for report in judged(spans).values()}
    assert {RunOutcome.UNSCORABLE} == {report.verdict.outcome for report in judged(arrived(sinks)).values()}


def _request(metadata: str, content: str) -> bytes:
    request = ExportTraceServiceRequest()
    span = (
        request.resource_spans.add()
        .scope_spans.add()
        .spans.add(
            trace_id=b"t" * 16, span_id=b"s" * 8, name="execute_tool", start_time_unix_nano=1, end_time_unix_nano=2
        )
    )
    for key, value in (("metadata", metadata), ("gen_ai.tool.call.result", content)):
        span.attributes.add(key=key).value.string_value = value
    return request.SerializeToString()


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_cannot_be_cleaned_is_refused(variant: str, tmp_path: Path) -> None:
    """A step that fails on a request: its sender is told, nothing of it is kept or sent, and others still pass."""
    overlay = tmp_path / "failing.yaml"
    overlay.write_text(FAILING, encoding="utf-8")
    collector, sinks = setup(variant, tmp_path, overlays=(overlay,))
    with listening(*sinks), running(collector):
        assert post(collector.endpoint, _request("no JSON", CANARY)) >= 500
        assert 200 == post(collector.endpoint, _request("{}", CANARY))
        wait_until(lambda: len(arrived(sinks)) == 1, "the other arrives")
    assert [{"metadata": "{}"}] == [dict(span.attributes) for span in arrived(sinks)]
    assert_clean(collector, sinks)


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_cannot_be_read_is_refused(variant: str, tmp_path: Path) -> None:
    """A request that breaks off in the middle of content: its sender is told, and nothing of it is kept or sent."""
    collector, sinks = setup(variant, tmp_path)
    whole = _request("{}", CANARY)
    with listening(*sinks), running(collector):
        assert 400 == post(collector.endpoint, whole[: whole.index(CANARY.encode()) + len(CANARY) - 1])
        assert 200 == post(collector.endpoint, _request("{}", ""))
        wait_until(lambda: len(arrived(sinks)) == 1, "the other arrives")
    assert_clean(collector, sinks)
