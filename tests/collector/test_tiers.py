"""What the configurations do apart from passing spans on: dropping, sharing out, waiting apart, showing a token."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from otel_loopguard.model import Span
from tests.captures.summary import CAPTURES, SPANS
from tests.collector.collectors import CONFIGURATIONS, Collector, running, wait_until
from tests.collector.sending import Application, arrived, judged, keys, post, wait_for
from tests.collector.sinks import GrpcSink, HttpSink, listening, spans_in
from tests.processor.canaries import otlp
from tests.processor.setups import send
from tests.replaying import items_of

pytestmark = pytest.mark.collector

CLIENT = 3


def _spans(name: str) -> list[Span]:
    return [item for item in items_of(SPANS / f"{name}.jsonl") if isinstance(item, Span)]


def _database_span(above: Span, number: int, **changes: object) -> Span:
    fields: dict[str, object] = {
        "trace_id": above.trace_id,
        "span_id": f"{number:016x}",
        "parent_id": above.span_id,
        "name": "SELECT orders",
        "kind": CLIENT,
        "scope": "db",
        "start_ns": above.start_ns,
        "end_ns": above.start_ns,
        "attributes": {"db.system.name": "postgresql", "db.query.text": "SELECT 1"},
        "resource": above.resource,
    }
    return msgspec.convert(fields | changes, Span)


def test_database_spans_are_dropped_and_change_no_verdict(tmp_path: Path) -> None:
    """A client span of a database below each span of every capture: none arrives, and each run is judged the same."""
    sink = HttpSink()
    collector = Collector(CONFIGURATIONS / "gateway.yaml", tmp_path, sink.send_to)
    sent: list[Span] = []
    with listening(sink), running(collector):
        for place, name in enumerate(CAPTURES):
            spans = _spans(name)
            below = [_database_span(span, 1 + place * 10_000 + number) for number, span in enumerate(spans)]
            body = otlp(send(spans + below).behind)
            assert 200 == post(collector.endpoint, body)
            sent += spans_in([body])
        databases = [span for span in sent if span.scope == "db"]
        assert len(databases) == len(sent) / 2
        wait_for([span for span in sent if span.scope != "db"], [sink])
    received = arrived([sink])
    assert keys(received).isdisjoint(keys(databases))
    assert judged(sent) == judged(received)


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": 1},
        {"attributes": {"url.full": "http://127.0.0.1/"}},
        {"attributes": {"db.system": "chroma", "gen_ai.operation.name": "execute_tool"}},
        {"attributes": {"db.system": "chroma", "openinference.span.kind": "RETRIEVER"}},
        {"attributes": {"db.system": "chroma", "loopguard.run.calls": 3}},
    ],
    ids=["internal", "http", "tool", "retriever", "local root"],
)
def test_other_spans_are_kept(changes: dict[str, object], tmp_path: Path) -> None:
    """What a run may be read from, or what may stand between two of its spans, arrives."""
    sink = HttpSink()
    collector = Collector(CONFIGURATIONS / "agent.yaml", tmp_path, sink.send_to)
    (above, *_) = _spans(CAPTURES[0])
    span = _database_span(above, 1, **changes)
    with listening(sink), running(collector):
        assert 200 == post(collector.endpoint, otlp(send([span]).before))
        wait_for([span], [sink])
    assert keys([span]) == keys(arrived([sink]))


def test_a_trace_goes_to_one_gateway(tmp_path: Path) -> None:
    """Two receivers: each trace arrives at one of them, both get some, and nothing arrives twice."""
    sinks = [GrpcSink(), GrpcSink()]
    collector = Collector(CONFIGURATIONS / "load-balanced.yaml", tmp_path, f"[{sinks[0].send_to}, {sinks[1].send_to}]")
    with listening(*sinks), running(collector):
        app = Application(collector.endpoint, tmp_path, CAPTURES)
        app.finish()
        wait_for(app.sent(), sinks)
    parts = [{span.trace_id for span in arrived([sink])} for sink in sinks]
    assert set() == parts[0] & parts[1]
    assert all(parts)
    assert len(app.sent()) == len(arrived(sinks))


def test_one_scorer_away_does_not_hold_up_the_other(tmp_path: Path) -> None:
    """Two tiers, a gateway a scorer: with one scorer away the other gets its spans, once; later both have all."""
    sinks = [HttpSink(), HttpSink()]
    folders = [tmp_path / name for name in ("first", "second", "front")]
    for folder in folders:
        folder.mkdir()
    gateways = [
        Collector(CONFIGURATIONS / "gateway.yaml", folder, sink.send_to)
        for folder, sink in zip(folders, sinks, strict=False)
    ]
    front = Collector(CONFIGURATIONS / "load-balanced.yaml", folders[2], f"[{gateways[0].grpc}, {gateways[1].grpc}]")
    with ExitStack() as stack:
        stack.enter_context(listening(sinks[1]))
        for collector in (*gateways, front):
            stack.enter_context(running(collector))
        app = Application(front.endpoint, tmp_path, CAPTURES)
        app.finish()
        sent = app.sent()
        # The first tier's queue is empty: all of it lies with the gateways or behind them.
        wait_until(lambda: front.metric("otelcol_exporter_queue_size") == 0, "the first tier has passed all on")
        wait_until(lambda: gateways[1].metric("otelcol_exporter_queue_size") == 0, "one gateway has passed all on")
        assert gateways[0].metric("otelcol_exporter_queue_size") > 0
        there = keys(arrived([sinks[1]]))
        waiting = {span.trace_id for span in sent} - {trace for trace, _ in there}
        assert there == {key for key in keys(sent) if key[0] not in waiting}
        assert waiting
        assert [] == sinks[0].received
        stack.enter_context(listening(sinks[0]))
        wait_for(sent, sinks)
    assert len(sent) == len(arrived(sinks))
    assert judged(sent) == judged(arrived(sinks))


def test_a_refusing_scorer_is_asked_again(tmp_path: Path) -> None:
    """A scorer that says 503 for a while gets every span later."""
    sink = HttpSink()
    sink.status = 503
    collector = Collector(CONFIGURATIONS / "gateway.yaml", tmp_path, sink.send_to)
    with listening(sink), running(collector):
        app = Application(collector.endpoint, tmp_path, CAPTURES[:8])
        app.finish()
        wait_until(lambda: bool(sink.authorization), "the scorer is asked")
        sink.status = 200
        wait_for(app.sent(), [sink])
    assert keys(app.sent()) == keys(arrived([sink]))


def test_what_is_refused_for_good_is_counted(tmp_path: Path) -> None:
    """A wrong token costs what was sent with it, as the README says; the metric that it names tells."""
    sink = HttpSink()
    sink.status = 401
    collector = Collector(CONFIGURATIONS / "gateway.yaml", tmp_path, sink.send_to)
    body = otlp(send(_spans(CAPTURES[0])).behind)
    with listening(sink), running(collector):
        assert 200 == post(collector.endpoint, body)
        wait_until(lambda: "Dropping data" in collector.logged(), "the collector gives up")
        assert len(spans_in([body])) == collector.metric("otelcol_exporter_send_failed_spans")


def test_the_token_is_shown(tmp_path: Path) -> None:
    """The token of the environment goes with each request, and is in no log."""
    sink = HttpSink()
    collector = Collector(CONFIGURATIONS / "agent.yaml", tmp_path, sink.send_to)
    collector.environment["LOOPGUARD_SEND_TOKEN"] = "fixture-token"  # noqa: S105 - no secret
    with listening(sink), running(collector):
        assert 200 == post(collector.endpoint, otlp(send(_spans(CAPTURES[0])).behind))
        wait_until(lambda: bool(sink.received), "the request arrives")
    assert {"Bearer fixture-token"} == sink.authorization
    assert "fixture-token" not in collector.logged()


def test_a_full_queue_is_said(tmp_path: Path) -> None:
    """What has no room in the queue is refused with an answer that asks to come again, and is not kept."""
    sink = HttpSink()
    collector = Collector(CONFIGURATIONS / "agent.yaml", tmp_path, sink.send_to)
    collector.environment["LOOPGUARD_QUEUE_BYTES"] = "60000"
    body = otlp(send(_spans(CAPTURES[0])).behind)
    with running(collector):
        answers = [post(collector.endpoint, body) for _ in range(100)]
        assert {200, 503} == set(answers)
        with listening(sink):
            taken = answers.count(200) * len(spans_in([body]))
            wait_until(lambda: len(arrived([sink])) >= taken, "what was taken arrives")
    assert taken == len(arrived([sink]))
