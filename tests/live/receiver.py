"""An OTLP/HTTP receiver on the loopback that keeps the bytes it was sent.

Invariants: every body is kept as it came, by the path it was sent to; the answer is always an empty success.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator


class Receiver(ThreadingHTTPServer):
    """Keeps what it is sent in `received`: path to bodies, in order of arrival."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received: defaultdict[str, list[bytes]] = defaultdict(list)

    @property
    def endpoint(self) -> str:
        """What `OTEL_EXPORTER_OTLP_ENDPOINT` has to say."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    """Answers every export with success."""

    server: Receiver
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:  # the name that the base class calls
        """Keep one body."""
        self.server.received[self.path].append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Type", self.headers["Content-Type"])
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *_: object) -> None:  # noqa: A002  # the base class's name
        """Say nothing."""


@contextmanager
def receiving() -> Generator[Receiver]:
    """A receiver that runs until the block ends."""
    receiver = Receiver()
    thread = threading.Thread(target=receiver.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.shutdown()
        receiver.server_close()
        thread.join()
