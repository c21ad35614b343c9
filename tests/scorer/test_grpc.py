"""OTLP over gRPC, by the SDK's exporter and by bare channels: every way out has the specification's answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from otel_loopguard.errors import ServeError
from otel_loopguard.model import Span
from otel_loopguard.scorer import grpc_server
from otel_loopguard.scorer.access import Tokens
from otel_loopguard.scorer.answers import ANSWERS
from otel_loopguard.scorer.grpc_server import EXPORT, GrpcServer
from otel_loopguard.scorer.rate import Rate
from otel_loopguard.scorer.receiving import Receiver, Room
from otel_loopguard.scorer.records import RETRYABLE, Refusal, RefusedError, Row
from tests.scorer.receivers import BAD_IDS, GOOD, LIMITS, MemoryIntake, message, partial, receiver, request

TOKEN = "a-token-of-some-length"  # noqa: S105 - of the tests' own


@contextmanager
def serving(took: Receiver, **named: Any) -> Iterator[int]:
    """The server on a free port, stopped at the end."""
    server = GrpcServer(took, **named)
    try:
        yield server.start("127.0.0.1:0")
    finally:
        server.stop()


def _method(channel: grpc.Channel, path: str = EXPORT) -> Any:
    """A method that takes and gives bytes, which the types do not know."""
    return channel.unary_unary(path)


def export(
    port: int, body: bytes = GOOD, *, metadata: Sequence[tuple[str, str]] = (), path: str = EXPORT, **named: Any
) -> tuple[grpc.StatusCode, bytes, Status | None]:
    """Sends one request; gives the code, the response or the message, and the details."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        try:
            return grpc.StatusCode.OK, _method(channel, path)(body, timeout=20, metadata=metadata, **named), None
        except grpc.RpcError as error:
            found: Any = error.trailing_metadata() or ()
            details = dict(found).get("grpc-status-details-bin")
            said = Status.FromString(details) if isinstance(details, bytes) else None
            return error.code(), (error.details() or "").encode(), said


@pytest.mark.parametrize("compression", list(grpc.Compression))
def test_the_sdk_exports(compression: grpc.Compression) -> None:
    """Spans of the SDK arrive through its own exporter, under each compression."""
    intake = MemoryIntake()
    with serving(receiver(intake)) as port:
        exporter = OTLPSpanExporter(f"http://127.0.0.1:{port}", insecure=True, compression=compression)
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        with provider.get_tracer("t").start_as_current_span("execute_tool t", attributes={"gen_ai.tool.name": "t"}):
            pass
        provider.shutdown()
    assert [("execute_tool t", {"gen_ai.tool.name": "t"}, "t")] == [
        (span.name, span.attributes, span.scope) for span in intake.kept
    ]


def test_some_spans_rejected_is_partial_success() -> None:
    """All taken is an empty answer; rejected spans are told with reasons and counts."""
    intake = MemoryIntake()
    took = receiver(intake)
    with serving(took) as port:
        assert (grpc.StatusCode.OK, b"", None) == export(port)
        code, body, _ = export(port, BAD_IDS)
    count, text = partial(body)
    assert (grpc.StatusCode.OK, 3, 2) == (code, count, len(intake.kept))
    assert "no_trace_id 2" in text
    counted = took.counts.read()
    assert {("grpc", "taken"): 1, ("grpc", "partly_taken"): 1} == counted.requests
    assert ({"grpc": 2}, {"grpc": len(GOOD) + len(BAD_IDS)}) == (counted.spans, counted.sent_bytes)


def test_the_answer_waits_for_the_disk() -> None:
    """Nothing is answered while the spans are not on disk."""
    intake = MemoryIntake()
    intake.held = []
    with serving(receiver(intake)) as port, grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = _method(channel).future(GOOD, timeout=20)
        assert intake.came.wait(20)
        with pytest.raises(grpc.FutureTimeoutError):
            call.result(timeout=0.3)
        intake.release()
        assert b"" == call.result(timeout=20)


@pytest.mark.parametrize("reason", sorted(RETRYABLE))
def test_retryable_refusals_say_when(reason: Refusal) -> None:
    """Whatever is refused for now is UNAVAILABLE or RESOURCE_EXHAUSTED, with RetryInfo."""
    intake = MemoryIntake()
    took = receiver(intake)
    with serving(took) as port:
        intake.refuse = RefusedError(reason, retry_after_s=2.5)
        code, text, said = export(port)
        intake.refuse, intake.fail = None, RefusedError(reason)
        later, _, _ = export(port)
    assert said is not None
    wait = RetryInfo()
    assert said.details[0].Unpack(wait)
    assert (ANSWERS[reason].grpc, 3) == (said.code, wait.retry_delay.seconds)
    assert (ANSWERS[reason].text, code) == (text.decode(), later)
    assert code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)
    assert {("grpc", reason.value): 2} == took.counts.read().requests


def test_a_failed_write_is_never_success() -> None:
    """Any failure of the future is an answer to send again, and quotes nothing."""
    intake = MemoryIntake()
    intake.fail = ValueError("secret")
    with serving(receiver(intake)) as port:
        code, text, _ = export(port)
    assert (grpc.StatusCode.UNAVAILABLE, ANSWERS[Refusal.STORE_FAILED].text) == (code, text.decode())


def test_a_disk_that_hangs_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sender is not let wait for ever."""
    monkeypatch.setattr(grpc_server, "COMMIT_S", 0.2)
    intake = MemoryIntake()
    intake.held = []
    with serving(receiver(intake)) as port:
        code, text, _ = export(port)
        intake.release()
    assert (grpc.StatusCode.UNAVAILABLE, ANSWERS[Refusal.STORE_FAILED].text) == (code, text.decode())


def test_malformed_is_not_to_be_repeated() -> None:
    """A message that is no request is INVALID_ARGUMENT, without RetryInfo."""
    took = receiver(MemoryIntake())
    with serving(took) as port:
        code, text, said = export(port, b"\xff")
    assert said is not None
    assert (grpc.StatusCode.INVALID_ARGUMENT, ANSWERS[Refusal.MALFORMED].text, 0) == (
        code,
        text.decode(),
        len(said.details),
    )
    assert {("grpc", "malformed"): 1} == took.counts.read().requests


@pytest.mark.parametrize("compression", list(grpc.Compression))
def test_large_messages_are_refused(compression: grpc.Compression) -> None:
    """A message past the bound, as sent or unpacked, is RESOURCE_EXHAUSTED, and never reaches the decoder."""
    took = receiver(MemoryIntake())
    with serving(took) as port:
        code, _, said = export(port, bytes(LIMITS.max_unpacked_bytes + 1), compression=compression)
    assert (grpc.StatusCode.RESOURCE_EXHAUSTED, None) == (code, said)
    assert {} == took.counts.read().sent_bytes


def test_all_messages_together_are_bounded() -> None:
    """What would not fit beside the messages in work is asked to come later; room is given back."""
    took = receiver(MemoryIntake(), room=Room(len(GOOD)))
    with serving(took) as port:
        codes = [export(port, body)[0] for body in (GOOD, request(message(), message(2)), GOOD)]
    assert [grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.OK] == codes


def test_tokens_are_asked_for() -> None:
    """Without the token, or with another, a call is UNAUTHENTICATED before its message is read."""
    took = receiver(MemoryIntake())
    with serving(took, tokens=Tokens([TOKEN])) as port:
        codes = [
            export(port, metadata=metadata)[0]
            for metadata in ([], [("authorization", f"Bearer {TOKEN}x")], [("authorization", f"Bearer {TOKEN}")])
        ]
        large = export(port, bytes(LIMITS.max_unpacked_bytes + 1))[0]
    assert [grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.OK] == codes
    assert grpc.StatusCode.UNAUTHENTICATED == large
    assert {("grpc", "unauthenticated"): 3, ("grpc", "taken"): 1} == took.counts.read().requests


def test_the_rate_is_held() -> None:
    """Above the rate a call is refused before its message is read."""
    took = receiver(MemoryIntake(), rate=Rate(1, clock=lambda: 0.0))
    with serving(took) as port:
        assert [grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED] == [export(port)[0] for _ in range(2)]


@pytest.mark.parametrize(
    "path",
    [
        "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
        "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
        "/x/y",
    ],
)
def test_other_services_are_unimplemented(path: str) -> None:
    """There is one method."""
    with serving(receiver(MemoryIntake())) as port:
        assert grpc.StatusCode.UNIMPLEMENTED == export(port, path=path)[0]


def test_stopping_answers_what_is_under_way() -> None:
    """A call that waits for the disk while the server stops is answered when it is on disk; a new one is refused."""
    intake = MemoryIntake()
    intake.held = []
    took = receiver(intake)
    with serving(took) as port:
        channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        call = _method(channel).future(GOOD, timeout=20)
        assert intake.came.wait(20)
        took.stop()
        code, text, _ = export(port)
        assert (grpc.StatusCode.UNAVAILABLE, ANSWERS[Refusal.STOPPING].text) == (code, text.decode())
        releasing = threading.Timer(0.3, intake.release)
        releasing.start()
    assert b"" == call.result(timeout=20)
    channel.close()
    releasing.join(20)


def test_stopping_does_not_wait_for_what_does_not_arrive() -> None:
    """A call whose message does not come is given up long before the time that those in work have."""
    server = GrpcServer(receiver(MemoryIntake()))
    port = server.start("127.0.0.1:0")
    never = threading.Event()

    def messages() -> Iterator[bytes]:
        never.wait()
        yield GOOD

    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        method: grpc.StreamUnaryMultiCallable[bytes, bytes] = channel.stream_unary(EXPORT, None, None)
        call = method.future(messages())
        assert b"" == _method(channel)(GOOD, timeout=20)  # on the same connection, behind it
        stopping = threading.Thread(target=server.stop, args=(3600,), daemon=True)
        stopping.start()
        stopping.join(60)
        assert not stopping.is_alive()
        assert call.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
        never.set()


def test_a_port_in_use_is_a_clear_error() -> None:
    """A second server on a port is refused, and does not share it."""
    with serving(receiver(MemoryIntake())) as port:
        other = GrpcServer(receiver(MemoryIntake()))
        with pytest.raises(ServeError, match=f"127.0.0.1:{port}: gRPC cannot be served there"):
            other.start(f"127.0.0.1:{port}")
        other.stop()
        assert grpc.StatusCode.OK == export(port)[0]


def test_calls_that_are_given_up_free_their_threads() -> None:
    """Senders that cancel leave the server able to serve more calls than it has threads."""
    intake = MemoryIntake()
    intake.held = []
    with serving(receiver(intake)) as port, grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        calls = [_method(channel).future(GOOD, timeout=20) for _ in range(grpc_server.THREADS * 2)]
        assert intake.came.wait(20)
        for call in calls:
            call.cancel()
        intake.release()
        assert b"" == _method(channel)(GOOD, timeout=20)


def test_faults_of_ours_log_no_content(caplog: pytest.LogCaptureFixture) -> None:
    """A fault is UNKNOWN and counted, and the log does not quote what a request held."""

    class Faulty(MemoryIntake):
        def submit(self, spans: Sequence[Span], rows: Sequence[Row] = ()) -> Future[Mapping[str, int]]:
            raise KeyError(spans[0].name, len(rows))

    took = receiver(Faulty())
    with serving(took) as port:
        assert grpc.StatusCode.UNKNOWN == export(port, request(message(name="a secret name")))[0]
    assert {("grpc", "failed"): 1} == took.counts.read().requests
    assert "a request failed: KeyError" in caplog.text
    assert "secret" not in caplog.text
