"""OTLP over HTTP, health and readiness; the pages and metrics of other parts are served beside them.

Invariants: a body is bounded while it is read, in size and in time, and it is unpacked by us alone (aiohttp would do
so without a bound). What is not allowed in is refused before its body is asked for. With tokens every route but
health and readiness needs one. Requests that take long to decode do so beside the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ssl
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, TypeAlias

from aiohttp import hdrs, web

from otel_loopguard.errors import ServeError
from otel_loopguard.scorer.access import Tokens, is_local
from otel_loopguard.scorer.answers import ANSWERS, problem, taken, wait_s
from otel_loopguard.scorer.connections import IdleConnections
from otel_loopguard.scorer.counts import CUT_OFF, FAILED, Transport
from otel_loopguard.scorer.decode import Encoding
from otel_loopguard.scorer.quiet import quiet
from otel_loopguard.scorer.receiving import COMMIT_S, Accepted, Receiver
from otel_loopguard.scorer.records import Refusal, RefusedError

TRACES: Final = "/v1/traces"
HEALTH: Final = "/healthz"
READY: Final = "/readyz"
OPEN_PATHS: Final = frozenset({HEALTH, READY})
"""Answered without a token: they say nothing but a word or two."""
BODY_S: Final = 30.0
"""How long a body may take to arrive."""
IDLE_S: Final = 75.0
"""How long a connection is kept without a whole head of a request, at the beginning and between requests."""
STOP_BODY_S: Final = 2.0
"""The same for what is left of it once the server is told to stop, and how long answers may then take to be read."""
LINGER_S: Final = 1.0
"""How long the rest of a refused body is still read, so that its sender gets to read the answer."""
_INLINE_BYTES: Final = 64 * 1024
"""Bodies of so much, as they were sent, are decoded on the loop: a thread would take longer to come by."""
_INLINE_UNPACKED_BYTES: Final = 512 * 1024
"""The same, unpacked: a kilobyte can hold what takes seconds."""
_DECODERS: Final = 2
_READING: Final = (hdrs.METH_GET, hdrs.METH_HEAD)
"""A browser that may only read is asked for the token as a password."""
_WRONG_PATHS: Final = {
    "/v1/logs": "this is a scorer of traces: send logs elsewhere\n",
    "/v1/metrics": "this is a scorer of traces: send metrics elsewhere\n",
}
_TYPES: Final = {Encoding.PROTOBUF: "application/x-protobuf", Encoding.JSON: "application/json"}
_ENCODINGS: Final = {"application/x-protobuf": Encoding.PROTOBUF, "application/json": Encoding.JSON}
_Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


class HttpServer:
    """Serves OTLP/HTTP.

    Args:
        receiver: takes the requests.
        tokens: who may send.
        ready: whether the scorer is; asked at each request of `/readyz`.
        routes: what else to serve, such as `web.get("/metrics", handler)`.
        tls: from `access.ssl_context`; None for none.
        any_host: answer requests for whatever host name. False, for a server that only this machine reaches: no web
            site may have its own name point here, and read or send with its visitors' browsers.
        body_s: how long a body may take to arrive.
        idle_s: how long a connection may be without a request.

    Thread safety: used on the event loop alone.
    """

    def __init__(
        self,
        receiver: Receiver,
        *,
        tokens: Tokens | None = None,
        ready: Callable[[], bool] = lambda: True,
        routes: Iterable[web.AbstractRouteDef] = (),
        tls: ssl.SSLContext | None = None,
        any_host: bool = True,
        body_s: float = BODY_S,
        idle_s: float = IDLE_S,
    ) -> None:
        self._receiver = receiver
        self._tokens = tokens or Tokens()
        self._ready = ready
        self._tls, self._any_host = tls, any_host
        self._body_s = body_s
        self._idle_s = idle_s
        self._idle: Final = IdleConnections(idle_s)
        self._decoders = ThreadPoolExecutor(_DECODERS, thread_name_prefix="loopguard-decode")
        self.application: Final = web.Application(
            middlewares=[self._guard], client_max_size=receiver.limits.max_body_bytes
        )
        self.application.router.add_post(TRACES, self._traces, expect_handler=self._expect)
        self.application.add_routes([web.get(HEALTH, _healthy), web.get(READY, self._readiness), *routes])
        self.application.add_routes([web.route("*", path, _wrong_path) for path in _WRONG_PATHS])
        self._runner: web.AppRunner | None = None
        self._arriving: set[asyncio.Timeout] = set()
        """Of bodies that are being read."""

    async def start(self, host: str, port: int) -> int:
        """Begins to serve.

        Args:
            host: name or address to bind.
            port: 0 for any that is free.

        Returns:
            The port.

        Raises:
            ServeError: the address cannot be bound.
        """
        runner = web.AppRunner(
            self.application,
            access_log=None,
            auto_decompress=False,
            keepalive_timeout=self._idle_s,
            lingering_time=LINGER_S,
            logger=quiet(__name__),
            shutdown_timeout=COMMIT_S,
        )
        await runner.setup()
        site = web.TCPSite(runner, host, port, ssl_context=self._tls)
        try:
            await site.start()
        except OSError as error:
            await runner.cleanup()
            message = f"{host}:{port}: HTTP cannot be served there: {error.strerror or type(error).__name__}"
            raise ServeError(message) from None
        self._runner = runner
        if runner.server is not None:  # it is, after `setup`
            self._idle.start(runner.server)
        return int(runner.addresses[0][1])

    async def stop(self) -> None:
        """Ends: requests under way are answered first, new ones are refused, and those that do not arrive."""
        self._receiver.stop()
        loop = asyncio.get_running_loop()
        soon = loop.time() + STOP_BODY_S
        loop.call_at(soon, self._idle.cut_unread)
        for arriving in self._arriving:
            if not arriving.expired():
                arriving.reschedule(min(soon, arriving.when() or soon))
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        self._idle.stop()
        self._decoders.shutdown(wait=False)

    # --- traces -----------------------------------------------------------------------------------------

    async def _traces(self, request: web.Request) -> web.Response:
        encoding = _ENCODINGS.get(request.content_type)
        receiver = self._receiver
        result = FAILED
        try:
            if encoding is None:
                raise RefusedError(Refusal.UNKNOWN_TYPE)  # noqa: TRY301 - all refusals are answered in one place
            self._admit(request)
            accepted = await self._accept(request, encoding)
            if accepted.done is not None and not accepted.done.done():
                await _settled(accepted.done, COMMIT_S)
            rejected = receiver.finish(accepted, Transport.HTTP)
            result = ""  # counted
        except RefusedError as refused:
            result = refused.reason.value
            return _refusal(refused, encoding)
        except (ConnectionError, asyncio.CancelledError, web.RequestPayloadError):
            result = CUT_OFF
            raise
        finally:
            if result:
                receiver.counts.ended(Transport.HTTP, result)
        return web.Response(body=taken(rejected, encoding), content_type=_TYPES[encoding])

    async def _accept(self, request: web.Request, encoding: Encoding) -> Accepted:
        receiver = self._receiver
        held = 0
        coding = request.headers.get(hdrs.CONTENT_ENCODING, "")
        pieces: list[bytes] = []
        arriving = asyncio.timeout(self._body_s)
        try:
            try:
                async with arriving:
                    self._arriving.add(arriving)
                    async for piece in request.content.iter_any():
                        receiver.room.take(len(piece))
                        held += len(piece)
                        if held > receiver.limits.max_body_bytes:
                            raise RefusedError(Refusal.TOO_LARGE)
                        pieces.append(piece)
            except TimeoutError:
                raise RefusedError(Refusal.STOPPING if receiver.stopping else Refusal.TOO_SLOW) from None
            finally:
                self._arriving.discard(arriving)
            body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            pieces.clear()
            accept = functools.partial(receiver.accept, body, coding, encoding, Transport.HTTP)
            if held <= _INLINE_BYTES:
                try:
                    return accept(limit=_INLINE_UNPACKED_BYTES)
                except RefusedError as refused:
                    if refused.reason is not Refusal.TOO_LARGE_UNPACKED:
                        raise
            return await asyncio.get_running_loop().run_in_executor(self._decoders, accept)
        finally:
            receiver.room.give_back(held)

    def _admit(self, request: web.Request) -> None:
        """Refuses what need not be read."""
        if not self._tokens.allow(request.headers.get(hdrs.AUTHORIZATION)):
            raise RefusedError(Refusal.UNAUTHENTICATED)
        self._receiver.check()
        if (request.content_length or 0) > self._receiver.limits.max_body_bytes:
            raise RefusedError(Refusal.TOO_LARGE)

    async def _expect(self, request: web.Request) -> web.StreamResponse | None:
        """Answers `Expect: 100-continue`: with a refusal, where there will be one, so that no body is sent."""
        if request.headers.get(hdrs.EXPECT, "").lower() != "100-continue":
            return web.Response(status=417, text="Expect: only 100-continue is known\n")
        try:
            if request.content_type not in _ENCODINGS:
                raise RefusedError(Refusal.UNKNOWN_TYPE)  # noqa: TRY301 - all refusals are answered in one place
            self._admit(request)
        except RefusedError as refused:
            self._receiver.counts.ended(Transport.HTTP, refused.reason.value)
            response = _refusal(refused, _ENCODINGS.get(request.content_type))
            response.force_close()
            return response
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        # The writer counts the interim answer as the body of the final one.
        request.writer.output_size = 0
        return None

    # --- the others -------------------------------------------------------------------------------------

    async def _readiness(self, _request: web.Request) -> web.Response:
        if self._receiver.stopping:
            return web.Response(status=503, text="stopping\n")
        return web.Response(text="ready\n") if self._ready() else web.Response(status=503, text="not ready\n")

    @web.middleware
    async def _guard(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Lets nobody to any route without a token, whoever added it; traces have their own answer for that."""
        path, shown = request.path, request.headers.get(hdrs.AUTHORIZATION)
        if not (self._any_host or path in OPEN_PATHS or is_local(_host(request))):
            return web.Response(status=421, text="this host name is not served: use the address itself\n")
        if path in OPEN_PATHS or path == TRACES or self._tokens.allow(shown, browser=request.method in _READING):
            with self._idle.busy(request.protocol):
                return await handler(request)
        text = ANSWERS[Refusal.UNAUTHENTICATED].text
        answer = web.Response(status=401, text=f"{text}\n", headers={hdrs.WWW_AUTHENTICATE: "Bearer"})
        if request.method in _READING:
            answer.headers.add(hdrs.WWW_AUTHENTICATE, 'Basic realm="otel-loopguard"')
        return answer


_UNREAD: Final = frozenset({Refusal.TOO_LARGE, Refusal.TOO_SLOW, Refusal.UNAUTHENTICATED, Refusal.STOPPING})
"""Refusals after which the connection ends: the rest of the body is worth nothing to either side."""


def _host(request: web.Request) -> str:
    """Whose page a browser shows that asks; senders of traces may name this machine as they like, and are none."""
    if request.path != TRACES:
        return request.host
    origin = request.headers.get(hdrs.ORIGIN)
    return "localhost" if origin is None else origin.rpartition("/")[2]


async def _healthy(_request: web.Request) -> web.Response:
    return web.Response(text="healthy\n")


async def _wrong_path(request: web.Request) -> web.Response:
    return web.Response(status=404, text=_WRONG_PATHS[request.path])


def _refusal(refused: RefusedError, encoding: Encoding | None) -> web.Response:
    headers: dict[str, str] = {}
    seconds = wait_s(refused)
    if seconds is not None:
        headers[hdrs.RETRY_AFTER] = str(seconds)
    if refused.reason is Refusal.UNAUTHENTICATED:
        headers[hdrs.WWW_AUTHENTICATE] = "Bearer"
    said = encoding or Encoding.JSON
    response = web.Response(
        status=ANSWERS[refused.reason].http, body=problem(refused, said), content_type=_TYPES[said], headers=headers
    )
    if refused.reason in _UNREAD:
        response.force_close()
    return response


async def _settled(done: Future[Any], timeout_s: float) -> None:
    """Waits until a future of another thread is done, or for so long.

    asyncio's own bridge would cancel the future with the request; whoever writes to the disk could not settle it then.
    """
    loop = asyncio.get_running_loop()
    settled = asyncio.Event()

    def wake(_done: Future[Any]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settled.set)

    done.add_done_callback(wake)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(settled.wait(), timeout_s)
