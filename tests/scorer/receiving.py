"""A receiver of OTLP/HTTP for the tests: a real server that reads the protobuf and answers as it is told."""

from __future__ import annotations

import gzip
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric


class Answer:
    """What to answer one request with; `breaks`: nothing, the connection is closed."""

    def __init__(self, status: int = 200, *, body: bytes = b"", retry_after: str = "", breaks: bool = False) -> None:
        self.status, self.body, self.retry_after, self.breaks = status, body, retry_after, breaks


class Receiver:
    """What came, and what to answer: the next of `answers`, and then always `usual`."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.usual = Answer()
        self.refused_ids: set[str] = set()
        """Requests with an event of one of these runs are refused for good."""
        self.endpoint = ""
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.logs: list[LogRecord] = []
        """Of the requests that were taken."""
        self.log_requests: list[ExportLogsServiceRequest] = []
        self.metrics: list[Metric] = []
        self.metric_requests: list[ExportMetricsServiceRequest] = []

    def take(self, path: str, body: bytes) -> Answer:
        """Reads one request and keeps it, unless the answer is a refusal."""
        answer = self.answers.pop(0) if self.answers else self.usual
        self.paths.append(path)
        if path.endswith("/v1/logs"):
            request = ExportLogsServiceRequest.FromString(body)
            found = [one for held in request.resource_logs for scope in held.scope_logs for one in scope.log_records]
            if self.refused_ids & {str(values(one.attributes)["loopguard.run.id"]) for one in found}:
                return Answer(400)
            if answer.status == 200:
                self.log_requests.append(request)
                self.logs += found
        elif path.endswith("/v1/metrics"):
            request_ = ExportMetricsServiceRequest.FromString(body)
            if answer.status == 200:
                self.metric_requests.append(request_)
                self.metrics += [
                    one for held in request_.resource_metrics for scope in held.scope_metrics for one in scope.metrics
                ]
        else:
            return Answer(404)
        return answer


def values(attributes: Any) -> dict[str, Any]:
    """Attributes as Python has them."""

    def value_of(one: KeyValue) -> Any:
        return getattr(one.value, str(one.value.WhichOneof("value")))

    return {one.key: value_of(one) for one in attributes}


@contextmanager
def receiving(tls: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """A server on a free port of this machine; with TLS where a context is given."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = gzip.decompress(self.rfile.read(int(self.headers["Content-Length"])))
            receiver.headers.append(dict(self.headers))
            answer = receiver.take(self.path, body)
            if answer.breaks:
                self.close_connection = True
                return
            self.send_response(answer.status)
            if answer.retry_after:
                self.send_header("Retry-After", answer.retry_after)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the standard library's
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    receiver.endpoint = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}"
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
