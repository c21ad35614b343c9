"""OTLP over HTTP, by the SDK's exporter and over raw sockets: every way out has the specification's answer."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import pytest
import zstandard
from aiohttp import web
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from otel_loopguard.errors import ServeError
from otel_loopguard.model import Span
from otel_loopguard.scorer import http_server
from otel_loopguard.scorer.access import Tokens
from otel_loopguard.scorer.answers import ANSWERS
from otel_loopguard.scorer.rate import Rate
from otel_loopguard.scorer.receiving import Room
from otel_loopguard.scorer.records import RETRYABLE, Refusal, RefusedError, Row
from tests.files.otlp_samples import request as json_request
from tests.files.otlp_samples import span as json_span
from tests.scorer.receivers import BAD_IDS, GOOD, LIMITS, MemoryIntake, message, partial, receiver, request, served

TOKEN = "a-token-of-some-length"  # noqa: S105 - of the tests' own
PROTOBUF = "application/x-protobuf"


class Answered:
    """A response: its status, its headers and its body."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def refusal(self) -> tuple[int, int, str]:
        """HTTP status, and code and message of the google.rpc.Status in the body."""
        said = Status.FromString(self.body)
        return self.status, said.code, said.message


def post(port: int, body: bytes = GOOD, *, path: str = "/v1/traces", **headers: str) -> Answered:
    """Sends one request; names of headers with underscores for dashes."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    named = {"Content-Type": PROTOBUF, **{name.replace("_", "-"): value for name, value in headers.items()}}
    try:
        connection.request("POST", path, body, named)
        return Answered(connection.getresponse())
    finally:
        connection.close()


def get(port: int, path: str, **headers: str) -> Answered:
    """Asks for one path."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", path, headers=headers)
        return Answered(connection.getresponse())
    finally:
        connection.close()


def expected(reason: Refusal) -> tuple[int, int, str]:
    """How a reason is said."""
    answer = ANSWERS[reason]
    return answer.http, answer.grpc, answer.text


@contextlib.contextmanager
def raw(port: int) -> Iterator[socket.socket]:
    """A bare connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        yield connection


def read_all(connection: socket.socket) -> bytes:
    """Everything until the server closes."""
    pieces = []
    while piece := connection.recv(65_536):
        pieces.append(piece)
    return b"".join(pieces)


def head(length: int | None, *more: str) -> bytes:
    """A request's first lines."""
    lines = ["POST /v1/traces HTTP/1.1", "Host: x", f"Content-Type: {PROTOBUF}", *more]
    if length is not None:
        lines.append(f"Content-Length: {length}")
    return "\r\n".join([*lines, "", ""]).encode()


# --- taken --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", list(Compression))
def test_the_sdk_exports(compression: Compression) -> None:
    """Spans of the SDK arrive through its own exporter, under each compression."""
    intake = MemoryIntake()
    with served(receiver(intake)) as port:
        exporter = OTLPSpanExporter(f"http://127.0.0.1:{port}/v1/traces", compression=compression)
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        with provider.get_tracer("t").start_as_current_span("execute_tool t", attributes={"gen_ai.tool.name": "t"}):
            pass
        provider.shutdown()
    assert [("execute_tool t", {"gen_ai.tool.name": "t"}, "t")] == [
        (span.name, span.attributes, span.scope) for span in intake.kept
    ]


@pytest.mark.parametrize(
    ("coding", "pack"),
    [
        ("gzip", gzip.compress),
        ("zstd", zstandard.ZstdCompressor().compress),
        ("identity", lambda body: body),
    ],
)
def test_packed_bodies_are_unpacked_once(coding: str, pack: Callable[[bytes], bytes]) -> None:
    """A packed body is taken, and aiohttp has not unpacked it before us."""
    intake = MemoryIntake()
    took = receiver(intake)
    with served(took) as port:
        answered = post(port, pack(GOOD), Content_Encoding=coding)
    assert (200, PROTOBUF, b"") == (answered.status, answered.headers["Content-Type"], answered.body)
    counted = took.counts.read()
    assert {("http", "taken"): 1} == counted.requests
    assert ({"http": 1}, {"http": len(pack(GOOD))}, {"http": len(GOOD)}) == (
        counted.spans,
        counted.sent_bytes,
        counted.unpacked_bytes,
    )


def test_json_is_answered_in_json() -> None:
    """The answer has the request's encoding, whatever charset it names."""
    intake = MemoryIntake()
    with served(receiver(intake)) as port:
        body = json.dumps(json_request(json_span())).encode()
        answered = post(port, body, Content_Type="application/json; charset=utf-8")
        rejected = post(port, json.dumps(json_request(json_span(traceId=""))).encode(), Content_Type="application/json")
        refused = post(port, b"{", Content_Type="application/json")
    assert (200, {}) == (answered.status, json.loads(answered.body))
    assert "application/json" in answered.headers["Content-Type"]
    assert {
        "partialSuccess": {
            "rejectedSpans": "1",
            "errorMessage": "1 span rejected: no_trace_id 1 (a span without a trace id)",
        }
    } == json.loads(rejected.body)
    assert (400, {"code": 3, "message": ANSWERS[Refusal.MALFORMED].text}) == (refused.status, json.loads(refused.body))
    assert 1 == len(intake.kept)


def test_some_spans_rejected_is_partial_success() -> None:
    """What cannot be used is told with reasons and counts, and what can is kept."""
    intake = MemoryIntake()
    took = receiver(intake)
    with served(took) as port:
        answered = post(port, BAD_IDS)
    count, text = partial(answered.body)
    assert (200, 3, 1) == (answered.status, count, len(intake.kept))
    assert "3 spans rejected: bad_span_id 1 (" in text
    assert "; no_trace_id 2 (" in text
    counted = took.counts.read()
    assert ({("http", "partly_taken"): 1}, {"no_trace_id": 2, "bad_span_id": 1}) == (
        counted.requests,
        counted.rejected,
    )


def test_spans_that_the_intake_leaves_out_are_told() -> None:
    """What is not kept after decoding is rejected as well, beside what could not be decoded."""
    intake = MemoryIntake()
    intake.left_out = {"no_trace_id": 1}
    took = receiver(intake)
    with served(took) as port:
        answered = post(port, request(message(), message(2), message(3, trace_id=b"")))
    count, text = partial(answered.body)
    assert (200, 2, True) == (answered.status, count, "no_trace_id 2" in text)
    assert ({"no_trace_id": 2}, {"http": 1}) == (took.counts.read().rejected, took.counts.read().spans)


def test_the_answer_waits_for_the_disk() -> None:
    """Nothing is answered while the spans are not on disk."""
    intake = MemoryIntake()
    intake.held = []
    with served(receiver(intake)) as port, raw(port) as connection:
        connection.sendall(head(len(GOOD), "Connection: close") + GOOD)
        assert intake.came.wait(20)
        connection.settimeout(0.3)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        connection.settimeout(20)
        intake.release()
        assert read_all(connection).startswith(b"HTTP/1.1 200 OK\r\n")


def test_large_bodies_are_decoded_beside_the_loop() -> None:
    """A body past the bound of the loop is taken as well, and health is answered meanwhile."""
    intake = MemoryIntake()
    body = request(*[message(number + 1) for number in range(1500)])
    with served(receiver(intake)) as port:
        answered = post(port, body)
        assert 200 == get(port, "/healthz").status
    assert 64 * 1024 < len(body) < LIMITS.max_body_bytes
    assert (200, 1500) == (answered.status, len(intake.kept))


def test_a_small_body_that_unpacks_to_much_is_decoded_beside_the_loop() -> None:
    """A kilobyte of zeros can hold seconds of work, during which nobody else would be answered."""
    names: list[str] = []

    class Noting(MemoryIntake):
        def submit(self, spans: Sequence[Span], rows: Sequence[Row] = ()) -> Future[Mapping[str, int]]:
            names.append(threading.current_thread().name)
            return super().submit(spans, rows)

    large, small = request(*[message()] * 6000), request(message())
    with served(receiver(Noting())) as port:
        for body in (large, small):
            assert 200 == post(port, gzip.compress(body), Content_Encoding="gzip").status
    assert len(gzip.compress(large)) < 64 * 1024 < 512 * 1024 < len(large) < LIMITS.max_unpacked_bytes
    assert [True, False] == [name.startswith("loopguard-decode") for name in names]


def test_chunked_bodies_and_kept_connections() -> None:
    """Several requests over one connection, of known and of unknown length, are each answered."""
    intake = MemoryIntake()
    chunked = b"".join(f"{len(piece):x}\r\n".encode() + piece + b"\r\n" for piece in (GOOD[:10], GOOD[10:], b""))
    with served(receiver(intake)) as port, raw(port) as connection:
        connection.sendall(head(None, "Transfer-Encoding: chunked") + chunked + head(len(GOOD)) + GOOD)
        connection.sendall(head(len(GOOD), "Connection: close") + GOOD)
        answers = read_all(connection)
    assert (3, 3) == (answers.count(b"HTTP/1.1 200 OK"), len(intake.kept))


def test_expect_continue_is_answered() -> None:
    """A sender that asks first is told to go on, or is refused before it sends."""
    intake = MemoryIntake()
    took = receiver(intake)
    with served(took) as port:
        with raw(port) as connection:
            connection.sendall(head(len(GOOD), "Expect: 100-continue", "Connection: close"))
            assert b"HTTP/1.1 100 Continue\r\n\r\n" == connection.recv(100)
            connection.sendall(GOOD)
            assert read_all(connection).startswith(b"HTTP/1.1 200 OK\r\n")
        with raw(port) as connection:
            connection.sendall(head(10**12, "Expect: 100-continue"))
            assert read_all(connection).startswith(b"HTTP/1.1 413 ")
        with raw(port) as connection:
            connection.sendall(head(5, "Expect: the-worst", "Connection: close"))
            assert read_all(connection).startswith(b"HTTP/1.1 417 ")
    assert {("http", "taken"): 1, ("http", "too_large"): 1} == took.counts.read().requests


# --- refused ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", sorted(RETRYABLE))
def test_retryable_refusals_say_when(reason: Refusal) -> None:
    """Whatever the intake refuses for now is a 429 or 503 with Retry-After, whether at once or at the disk."""
    intake = MemoryIntake()
    took = receiver(intake)
    with served(took) as port:
        intake.refuse = RefusedError(reason, retry_after_s=2.5)
        at_once = post(port)
        intake.refuse, intake.fail = None, RefusedError(reason, retry_after_s=1000)
        later = post(port)
    assert [expected(reason)] * 2 == [at_once.refusal, later.refusal]
    assert at_once.status in (429, 503)
    assert ["3", "60"] == [at_once.headers["Retry-After"], later.headers["Retry-After"]]
    assert {("http", reason.value): 2} == took.counts.read().requests
    assert [] == intake.kept


@pytest.mark.parametrize("fail", [ValueError("secret"), None])
def test_a_failed_write_is_never_success(fail: ValueError | None) -> None:
    """Any failure of the future, and a future that was given up, is an answer to send again."""
    intake = MemoryIntake()
    with served(receiver(intake)) as port:
        if fail is not None:
            intake.fail = fail
            answered = post(port)
        else:
            intake.held = []
            with raw(port) as connection:
                connection.sendall(head(len(GOOD), "Connection: close") + GOOD)
                assert intake.came.wait(20)
                intake.held[0][1].cancel()
                assert read_all(connection).startswith(b"HTTP/1.1 503 ")
            return
    assert expected(Refusal.STORE_FAILED) == answered.refusal
    assert b"secret" not in answered.body


def test_a_disk_that_hangs_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sender is not let wait for ever, and what comes on disk later harms nobody."""
    monkeypatch.setattr(http_server, "COMMIT_S", 0.2)
    intake = MemoryIntake()
    intake.held = []
    with served(receiver(intake)) as port:
        answered = post(port)
        intake.release()
    assert expected(Refusal.STORE_FAILED) == answered.refusal
    assert 1 == len(intake.kept)


@pytest.mark.parametrize(
    ("body", "headers", "reason"),
    [
        (b"\xff", {}, Refusal.MALFORMED),
        (b"x", {"Content_Encoding": "gzip"}, Refusal.BAD_COMPRESSION),
        (gzip.compress(GOOD)[:-1], {"Content_Encoding": "gzip"}, Refusal.BAD_COMPRESSION),
        (GOOD, {"Content_Encoding": "br"}, Refusal.UNKNOWN_COMPRESSION),
        (gzip.compress(bytes(10_000_000)), {"Content_Encoding": "gzip"}, Refusal.TOO_LARGE_UNPACKED),
        (bytes(LIMITS.max_body_bytes + 1), {}, Refusal.TOO_LARGE),
    ],
)
def test_refusals_that_sending_again_does_not_mend(body: bytes, headers: Mapping[str, str], reason: Refusal) -> None:
    """Each has its status and a google.rpc.Status in protobuf, and no Retry-After."""
    intake = MemoryIntake()
    took = receiver(intake)
    with served(took) as port:
        answered = post(port, body, **headers)
    assert expected(reason) == answered.refusal
    assert (None, PROTOBUF) == (answered.headers["Retry-After"], answered.headers["Content-Type"])
    assert {("http", reason.value): 1} == took.counts.read().requests
    assert [] == intake.kept


@pytest.mark.parametrize("kind", ["text/plain", "application/octet-stream", "application/grpc", ""])
def test_unknown_types_are_refused(kind: str) -> None:
    """A body of another type is not guessed at: 415, said in JSON. No page of a browser can send what is taken."""
    with served(receiver(MemoryIntake())) as port:
        answered = post(port, GOOD, Content_Type=kind)
    assert (415, "application/json") == (answered.status, answered.headers["Content-Type"])
    assert ANSWERS[Refusal.UNKNOWN_TYPE].text == json.loads(answered.body)["message"]


def test_chunked_bodies_are_bounded_while_they_are_read() -> None:
    """A body without a length ends at the limit, however much more would come."""
    took = receiver(MemoryIntake())
    with served(took) as port, raw(port) as connection:
        connection.sendall(head(None, "Transfer-Encoding: chunked"))
        piece = b"10000\r\n" + bytes(0x10000) + b"\r\n"
        with contextlib.suppress(ConnectionError):
            for _ in range(20):
                connection.sendall(piece)
        assert connection.recv(20).startswith(b"HTTP/1.1 413 ")
    assert {("http", "too_large"): 1} == took.counts.read().requests


def test_damaged_chunks_are_no_success() -> None:
    """Chunks that are none end the connection without success."""
    intake = MemoryIntake()
    with served(receiver(intake)) as port, raw(port) as connection:
        connection.sendall(head(None, "Transfer-Encoding: chunked") + b"zz\r\nno chunk\r\n0\r\n\r\n")
        assert b" 200 " not in read_all(connection)
    assert [] == intake.kept


def test_all_bodies_together_are_bounded() -> None:
    """What would not fit beside the bodies that are being read is asked to come later; room is given back."""
    took = receiver(MemoryIntake(), room=Room(len(GOOD)))
    with served(took) as port:
        assert [200, 503, 200] == [post(port, body).status for body in (GOOD, GOOD + GOOD, GOOD)]
    assert {("http", "taken"): 2, ("http", "busy"): 1} == took.counts.read().requests


def test_slow_senders_are_told_to_come_again() -> None:
    """A body that does not arrive in time ends its connection, as nothing that was lost for good."""
    took = receiver(MemoryIntake())
    with served(took, body_s=0.3) as port, raw(port) as connection:
        connection.sendall(head(len(GOOD)) + GOOD[:-1])
        assert read_all(connection).startswith(b"HTTP/1.1 503 ")
    assert {("http", "too_slow"): 1} == took.counts.read().requests


@pytest.mark.parametrize("sent", [b"", b"POST /v1/traces HTTP/1.1\r\nHost: x\r\n"])
def test_connections_without_a_request_are_closed(sent: bytes) -> None:
    """A connection that sends nothing, or no whole head, ends after a while; one that waits for its answer does not."""
    intake = MemoryIntake()
    intake.held = []
    with served(receiver(intake), idle_s=0.4) as port, raw(port) as idle, raw(port) as waiting:
        waiting.sendall(head(len(GOOD), "Connection: close") + GOOD)
        idle.sendall(sent)
        with contextlib.suppress(ConnectionError):
            assert b"" == read_all(idle)
        intake.release()
        assert read_all(waiting).startswith(b"HTTP/1.1 200 OK\r\n")
        with raw(port) as kept:
            kept.sendall(head(len(GOOD)) + GOOD)
            assert read_all(kept).startswith(b"HTTP/1.1 200 OK\r\n")


def test_senders_that_go_away_are_counted() -> None:
    """A request that is cut off is neither taken nor refused."""
    intake = MemoryIntake()
    took = receiver(intake)
    with served(took) as port:
        with raw(port) as connection:
            connection.sendall(head(len(GOOD)) + GOOD[:-1])
            time.sleep(0.2)
        until = time.monotonic() + 20
        while not took.counts.read().requests and time.monotonic() < until:
            time.sleep(0.01)
    assert ({("http", "cut_off"): 1}, []) == (took.counts.read().requests, intake.kept)


def test_the_rate_is_held() -> None:
    """Above the rate a request is refused before it is read, with the time after which it fits."""
    now = [0.0]
    took = receiver(MemoryIntake(), rate=Rate(2, clock=lambda: now[0]))
    with served(took) as port:
        first, second, third = post(port), post(port, request(message(1), message(2), message(3))), post(port)
        now[0] = 1.0
        large, after = post(port, request(message(1), message(2), message(3))), post(port)
        now[0] = 3.0
        again = post(port)
    answers = (first, second, third, large, after, again)
    # The second is more than what is left, the large one is taken as the bucket is full, and made up for.
    assert [200, 429, 200, 200, 429, 200] == [answered.status for answered in answers]
    assert expected(Refusal.RATE) == second.refusal


# --- paths and access ---------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v1/logs", "/v1/metrics"])
def test_other_signals_are_not_taken(path: str) -> None:
    """Logs and metrics are a clear 404: nobody should think that they are kept."""
    with served(receiver(MemoryIntake())) as port:
        answered = post(port, path=path)
    assert (404, True) == (answered.status, b"this is a scorer of traces" in answered.body)


def test_other_methods_and_paths() -> None:
    """Traces are posted; there is nothing at other paths."""
    with served(receiver(MemoryIntake())) as port:
        assert [405, 404, 404] == [get(port, "/v1/traces").status, get(port, "/").status, post(port, path="/x").status]


def test_tokens_open_all_but_health() -> None:
    """With a token every route needs it, also those that others add; health and readiness do not."""

    async def page(_request: web.Request) -> web.Response:
        return web.Response(text="page")

    took = receiver(MemoryIntake())
    with served(took, tokens=Tokens([TOKEN]), routes=[web.get("/page", page)]) as port:
        right, wrong = f"Bearer {TOKEN}", f"Bearer {TOKEN}x"
        assert [401, 401, 200] == [get(port, "/page", Authorization=shown).status for shown in ("", wrong, right)]
        assert [200, 200] == [get(port, path).status for path in ("/healthz", "/readyz")]
        refused, let_in = post(port, Authorization=wrong), post(port, Authorization=right)
        with raw(port) as connection:
            connection.sendall(head(10**9, "Expect: 100-continue"))
            assert read_all(connection).startswith(b"HTTP/1.1 401 ")
    assert (expected(Refusal.UNAUTHENTICATED), "Bearer") == (refused.refusal, refused.headers["WWW-Authenticate"])
    assert 200 == let_in.status
    assert {("http", "unauthenticated"): 2, ("http", "taken"): 1} == took.counts.read().requests


@pytest.mark.parametrize(
    ("headers", "metrics", "traces"),
    [
        ({"Host": "localhost:4318"}, 200, 200),
        ({"Host": "evil.example"}, 421, 200),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, 421, 421),
        ({"Host": "evil.example", "Origin": "null"}, 421, 421),
        ({"Origin": "http://127.0.0.1:4318"}, 200, 200),
    ],
)
def test_a_foreign_host_name_is_not_served(headers: dict[str, str], metrics: int, traces: int) -> None:
    """Where this machine alone is served: senders may call it what they like, pages of other web sites may not."""

    async def page(_request: web.Request) -> web.Response:
        return web.Response(text="page")

    routes = [web.get("/metrics", page)]
    with served(receiver(MemoryIntake()), routes=routes, any_host=False) as port:
        found = get(port, "/metrics", **headers).status, post(port, GOOD, path="/v1/traces", **headers).status
        assert 200 == get(port, "/healthz", **headers).status
    assert (metrics, traces) == found
    with served(receiver(MemoryIntake()), routes=routes) as port:
        assert 200 == get(port, "/metrics", **headers).status


def test_readiness_follows_the_scorer() -> None:
    """Ready is said when the scorer is, and not any more when it stops; alive it is all along."""
    ready = [False]
    took = receiver(MemoryIntake())
    with served(took, ready=lambda: ready[0]) as port:
        statuses = [get(port, "/readyz").status]
        ready[0] = True
        statuses.append(get(port, "/readyz").status)
        took.stop()
        statuses.append(get(port, "/readyz").status)
        assert [503, 200, 503] == statuses
        assert 200 == get(port, "/healthz").status
        assert expected(Refusal.STOPPING) == post(port).refusal


def test_stopping_answers_what_is_under_way() -> None:
    """A request that waits for the disk while the server stops is answered when it is on disk."""
    intake = MemoryIntake()
    intake.held = []
    answers: Future[bytes] = Future()

    def send(port: int) -> None:
        with raw(port) as connection:
            connection.sendall(head(len(GOOD)) + GOOD)
            answers.set_result(read_all(connection))

    with served(receiver(intake)) as port:
        sender = threading.Thread(target=send, args=(port,))
        sender.start()
        assert intake.came.wait(20)
        releasing = threading.Timer(0.3, intake.release)
        releasing.start()
    sender.join(20)
    releasing.join(20)
    assert answers.result(20).startswith(b"HTTP/1.1 200 OK\r\n")


def test_stopping_does_not_wait_for_what_does_not_arrive() -> None:
    """Half of a body, and no more: its sender is told to come again, and the server ends."""
    answers: Future[bytes] = Future()
    begun = threading.Event()

    def send(port: int) -> None:
        with raw(port) as connection:
            connection.sendall(head(len(GOOD)) + GOOD[:10])
            begun.set()
            answers.set_result(read_all(connection))

    took = receiver(MemoryIntake())
    with served(took, body_s=3600) as port:
        sender = threading.Thread(target=send, args=(port,))
        sender.start()
        assert begun.wait(20)
        post(port)  # what was sent before it has come
    sender.join(20)
    assert answers.result(20).startswith(b"HTTP/1.1 503 ")
    assert 1 == took.counts.read().requests["http", "stopping"]


def test_stopping_does_not_wait_for_answers_that_nobody_reads() -> None:
    """A connection that asks again and again and reads nothing is cut off."""
    asking = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 1_000_000
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(1)
        with served(receiver(MemoryIntake())) as port:
            connection.connect(("127.0.0.1", port))
            with pytest.raises(TimeoutError):
                connection.sendall(asking)
        with pytest.raises(ConnectionError):
            connection.sendall(asking)


def test_a_port_in_use_is_a_clear_error() -> None:
    """Two servers on one port are refused, with the address."""
    with served(receiver(MemoryIntake())) as port:
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            taken_port = other.getsockname()[1]
            with pytest.raises(ServeError, match=f"127.0.0.1:{taken_port}: HTTP cannot be served there"):
                _start_at(taken_port)
        assert 200 == post(port).status


def _start_at(port: int) -> None:
    import asyncio  # noqa: PLC0415 - here only

    async def start() -> Any:
        return await http_server.HttpServer(receiver(MemoryIntake())).start("127.0.0.1", port)

    asyncio.run(start())


def test_faults_of_ours_log_no_content(caplog: pytest.LogCaptureFixture) -> None:
    """A fault is a 500 that is counted, and neither its answer nor the log quotes what a request held."""

    class Faulty(MemoryIntake):
        def submit(self, spans: Any, rows: Any = ()) -> Future[Mapping[str, int]]:
            raise KeyError(spans[0].name, len(rows))

    took = receiver(Faulty())
    with served(took) as port:
        answered = post(port, request(message(name="a secret name")))
    assert 500 == answered.status
    assert {("http", "failed"): 1} == took.counts.read().requests
    assert "a request failed: KeyError" in caplog.text
    assert "secret" not in caplog.text
    assert b"secret" not in answered.body
