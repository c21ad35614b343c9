"""OTLP over gRPC: TraceService/Export.

Invariants: a message comes as bytes and is decoded by the same code as HTTP's; who is not let in is answered before
the message is read; no more messages are in work than there are threads, the others wait on their connections.
gRPC unpacks messages itself, within the bound of an unpacked message, and refuses larger ones as not to be repeated.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, Final

import grpc

from otel_loopguard.errors import ServeError
from otel_loopguard.scorer.access import Tokens
from otel_loopguard.scorer.answers import ANSWERS, status, taken
from otel_loopguard.scorer.counts import FAILED, Transport
from otel_loopguard.scorer.decode import Encoding
from otel_loopguard.scorer.quiet import quiet
from otel_loopguard.scorer.receiving import COMMIT_S, Receiver
from otel_loopguard.scorer.records import Refusal, RefusedError

EXPORT: Final = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
THREADS: Final = 16
"""Requests in work at one time; each waits for the disk, and those that wait together are written together."""
STOP_MESSAGE_S: Final = 2.0
"""How long the rest of a message may take to arrive once the server is told to stop."""
_LOOK_S: Final = 0.05
_STREAMS: Final = 64
"""Requests that one connection may have open; its sender holds back the others."""
_DETAILS: Final = "grpc-status-details-bin"
_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}


class GrpcServer:
    """Serves OTLP/gRPC.

    Args:
        receiver: takes the requests.
        tokens: who may send.
        tls: from `access.grpc_credentials`; None for none.

    Thread safety: `start` and `stop` from one thread. gRPC's own threads do not survive a fork.
    """

    def __init__(
        self, receiver: Receiver, *, tokens: Tokens | None = None, tls: grpc.ServerCredentials | None = None
    ) -> None:
        self._receiver = receiver
        self._tls = tls
        self._service = _Service(receiver, tokens or Tokens())
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="loopguard-grpc")
        self._server = grpc.server(
            self._threads,
            handlers=[self._service],
            options=[
                ("grpc.max_receive_message_length", receiver.limits.max_unpacked_bytes),
                ("grpc.max_concurrent_streams", _STREAMS),
                ("grpc.so_reuseport", 0),  # else a second server on the port would silently get half of the requests
                ("grpc.keepalive_permit_without_calls", 1),
                ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
            ],
        )

    def start(self, address: str) -> int:
        """Begins to serve.

        Args:
            address: HOST:PORT; port 0 for any that is free.

        Returns:
            The port.

        Raises:
            ServeError: the address cannot be bound.
        """
        try:
            if self._tls is None:
                port = self._server.add_insecure_port(address)
            else:
                port = self._server.add_secure_port(address, self._tls)
        except RuntimeError:  # what gRPC makes of every failure to bind
            port = 0
        if port == 0:
            message = f"{address}: gRPC cannot be served there: in use, not an address of this machine, or not allowed"
            raise ServeError(message)
        quiet("grpc._server")  # logs the text of an error of ours
        self._server.start()
        return port

    def stop(self, grace_s: float = COMMIT_S) -> None:
        """Ends: requests under way are answered first, new ones are refused; returns when that is done.

        Args:
            grace_s: after so long requests under way are given up; their senders repeat them. Those that have not
                arrived whole are given up after `STOP_MESSAGE_S`.
        """
        self._receiver.stop()
        ended = self._server.stop(grace_s)
        ended.wait(min(grace_s, STOP_MESSAGE_S))
        while self._service.working and not ended.wait(_LOOK_S):
            pass
        self._server.stop(0).wait()
        self._threads.shutdown()


class _Service(grpc.GenericRpcHandler):
    """Finds the handler of a call. There is one method; gRPC answers UNIMPLEMENTED for the others."""

    def __init__(self, receiver: Receiver, tokens: Tokens) -> None:
        self._receiver = receiver
        self._tokens = tokens
        self._export: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(self._take)
        self._lock = threading.Lock()
        self.working = 0
        """Requests that have arrived and are not answered; may be read from any thread."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        if handler_call_details.method != EXPORT:
            return None
        shown = dict(handler_call_details.invocation_metadata or ()).get("authorization")
        try:
            if not self._tokens.allow(shown if isinstance(shown, str) else None):
                raise RefusedError(Refusal.UNAUTHENTICATED)  # noqa: TRY301 - all refusals are answered in one place
            self._receiver.check()
        except RefusedError as refused:
            # As a stream of messages none of them is read unless asked for.
            return grpc.stream_unary_rpc_method_handler(self._refusing(refused))
        return self._export

    def _refusing(self, refused: RefusedError) -> Callable[[Iterator[bytes], grpc.ServicerContext], bytes]:
        def refuse(_messages: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
            return self._refuse(refused, context)

        return refuse

    def _take(self, message: bytes, context: grpc.ServicerContext) -> bytes:
        with self._lock:
            self.working += 1
        try:
            return self._taken(message, context)
        finally:
            with self._lock:
                self.working -= 1

    def _taken(self, message: bytes, context: grpc.ServicerContext) -> bytes:
        receiver, size = self._receiver, len(message)
        result, held = FAILED, 0
        try:
            receiver.room.take(size)
            held = size
            accepted = receiver.accept(message, "", Encoding.PROTOBUF, Transport.GRPC)
            del message
            receiver.room.give_back(held)
            held = 0
            if accepted.done is not None:
                wait([accepted.done], timeout=COMMIT_S)
            rejected = receiver.finish(accepted, Transport.GRPC)
            result = ""  # counted
        except RefusedError as refused:
            result = ""
            return self._refuse(refused, context)
        finally:
            receiver.room.give_back(held)
            if result:
                receiver.counts.ended(Transport.GRPC, result)
        return taken(rejected, Encoding.PROTOBUF)

    def _refuse(self, refused: RefusedError, context: grpc.ServicerContext) -> bytes:
        self._receiver.counts.ended(Transport.GRPC, refused.reason.value)
        answer = ANSWERS[refused.reason]
        context.set_code(_CODES[answer.grpc])
        context.set_details(answer.text)
        context.set_trailing_metadata(((_DETAILS, status(refused)),))
        return b""
