"""What collectors send to in these tests: OTLP receivers that keep what they are sent and can be out of order.

Invariants: a request counts as received once it was answered with success, and never otherwise.
"""

from __future__ import annotations

import gzip
import io
import threading
from concurrent import futures
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Final, Protocol

import grpc
import zstandard

from otel_loopguard import files
from otel_loopguard.files import Format
from otel_loopguard.model import Span
from tests.collector.collectors import free_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

_METHOD: Final = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
_UNPACKED: Final[dict[str, Callable[[bytes], bytes]]] = {
    "": bytes,
    "gzip": gzip.decompress,
    "zstd": lambda body: zstandard.ZstdDecompressor().stream_reader(io.BytesIO(body)).read(),
}


class Sink(Protocol):
    """A receiver that can be down."""

    send_to: str
    """What a collector's configuration takes."""
    received: list[bytes]
    """Bodies, unpacked, in order of arrival."""

    def up(self) -> None:
        """Listen."""

    def down(self) -> None:
        """Refuse connections from now on."""


def spans_in(bodies: list[bytes]) -> list[Span]:
    """The spans of some request bodies; one that cannot be read fails the test."""
    items = list(files.read(io.BytesIO(b"".join(bodies)), name="received", fmt=Format.OTLP_PROTO))
    assert [] == [item for item in items if not isinstance(item, Span)]
    return [item for item in items if isinstance(item, Span)]


class HttpSink:
    """Takes OTLP/HTTP."""

    def __init__(self) -> None:
        (self.port,) = free_ports(1)
        self.send_to = f"http://127.0.0.1:{self.port}"
        self.received: list[bytes] = []
        self.authorization: set[str | None] = set()
        self.status = 200
        """What requests are answered with; none but those answered 200 are kept."""
        self._server: _HttpServer | None = None

    def up(self) -> None:
        """Listen."""
        self._server = _HttpServer(self)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def down(self) -> None:
        """Refuse connections from now on."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, sink: HttpSink) -> None:
        self.sink = sink
        super().__init__(("127.0.0.1", sink.port), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _HttpServer
    # One request a connection: when the sink goes down, no open connection goes on.
    protocol_version = "HTTP/1.0"

    def do_POST(self) -> None:  # the name that the base class calls
        """Keep one body."""
        sink = self.server.sink
        body = self.rfile.read(int(self.headers["Content-Length"]))
        sink.authorization.add(self.headers["Authorization"])
        status = sink.status
        if status == 200:
            sink.received.append(_UNPACKED[self.headers.get("Content-Encoding", "")](body))
        self.send_response(status)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *_: object) -> None:  # noqa: A002  # the base class's name
        """Say nothing."""


class GrpcSink:
    """Takes OTLP/gRPC."""

    def __init__(self) -> None:
        (port,) = free_ports(1)
        self.send_to = f"127.0.0.1:{port}"
        self.received: list[bytes] = []
        self._server: grpc.Server | None = None

    def up(self) -> None:
        """Listen."""
        handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(self._export)
        service, _, method = _METHOD[1:].partition("/")
        self._server = grpc.server(futures.ThreadPoolExecutor(4))
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
        self._server.add_insecure_port(self.send_to)
        self._server.start()

    def down(self) -> None:
        """Refuse connections from now on."""
        if self._server is not None:
            self._server.stop(0).wait()
            self._server = None

    def _export(self, body: bytes, _context: grpc.ServicerContext) -> bytes:
        self.received.append(body)
        return b""


@contextmanager
def listening(*sinks: Sink) -> Generator[None]:
    """Sinks that are up until the block ends."""
    with ExitStack() as stack:
        for sink in sinks:
            sink.up()
            stack.callback(sink.down)
        yield
