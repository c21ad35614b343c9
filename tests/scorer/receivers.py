"""What the tests of the receivers share: an intake in memory, small requests, and a server on a free port."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from otel_loopguard.model import Span
from otel_loopguard.scorer.http_server import HttpServer
from otel_loopguard.scorer.receiving import Limits, Receiver
from otel_loopguard.scorer.records import RefusedError, Row

LIMITS = Limits(max_body_bytes=200_000, max_unpacked_bytes=1_000_000)


class MemoryIntake:
    """Keeps spans in memory, at once or when told, or refuses."""

    def __init__(self) -> None:
        self.kept: list[Span] = []
        self.refuse: RefusedError | None = None
        """Raised by `submit`."""
        self.fail: BaseException | None = None
        """What the future fails with."""
        self.held: list[tuple[Sequence[Span], Future[Mapping[str, int]]]] | None = None
        """With a list, what was submitted waits in it."""
        self.left_out: Mapping[str, int] = {}
        """What the future says was not kept."""
        self.came = threading.Event()

    def submit(self, spans: Sequence[Span], rows: Sequence[Row] = ()) -> Future[Mapping[str, int]]:
        """Keeps the spans; rows come from an intake's own shapes only."""
        assert not rows
        if self.refuse is not None:
            raise self.refuse
        done: Future[Mapping[str, int]] = Future()
        if self.held is not None:
            self.held.append((spans, done))
            self.came.set()
        elif self.fail is not None:
            done.set_exception(self.fail)
        else:
            self.kept.extend(spans)
            done.set_result(self.left_out)
        return done

    def release(self) -> None:
        """Keeps what waits."""
        held, self.held = self.held or [], None
        for spans, done in held:
            self.kept.extend(spans)
            done.set_result(self.left_out)


def message(number: int = 1, **changes: Any) -> SpanMessage:
    """One tool span."""
    fields: dict[str, Any] = {
        "trace_id": number.to_bytes(16, "big"),
        "span_id": number.to_bytes(8, "big"),
        "name": "execute_tool t",
        "start_time_unix_nano": 1000,
        "end_time_unix_nano": 2000,
        "attributes": [
            KeyValue(key="gen_ai.operation.name", value=AnyValue(string_value="execute_tool")),
            KeyValue(key="gen_ai.tool.name", value=AnyValue(string_value="t")),
        ],
        **changes,
    }
    return SpanMessage(**fields)


def request(*spans: SpanMessage) -> bytes:
    """A request with these spans."""
    groups = [ResourceSpans(scope_spans=[ScopeSpans(spans=spans)])]
    return ExportTraceServiceRequest(resource_spans=groups).SerializeToString()


GOOD = request(message())
BAD_IDS = request(message(), message(2, trace_id=b""), message(3, span_id=b"x"), message(4, trace_id=b""))
"""One span that can be used, and three that cannot."""


def partial(body: bytes) -> tuple[int, str]:
    """Rejected spans and why, of a response."""
    said = ExportTraceServiceResponse.FromString(body).partial_success
    return said.rejected_spans, said.error_message


def receiver(intake: MemoryIntake, **named: Any) -> Receiver:
    """A receiver with small limits."""
    return Receiver(intake, **{"limits": LIMITS, **named})


@contextmanager
def served(took: Receiver, **named: Any) -> Iterator[int]:
    """The HTTP server on a loop of its own; gives its port, and stops it at the end."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def start() -> tuple[HttpServer, int]:
        server = HttpServer(took, **named)
        return server, await server.start("127.0.0.1", 0)

    try:
        server, port = asyncio.run_coroutine_threadsafe(start(), loop).result(20)
        try:
            yield port
        finally:
            asyncio.run_coroutine_threadsafe(server.stop(), loop).result(40)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(20)
        loop.close()
