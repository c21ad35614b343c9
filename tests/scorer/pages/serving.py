"""The pages on a real server: for one coroutine, or in a thread of its own for as long as a test needs it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Self, TypeAlias

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from otel_loopguard.scorer.pages.routes import add_routes
from otel_loopguard.scorer.pages.source import Source
from tests.scorer.pages.memory_source import NOW_NS

Client: TypeAlias = TestClient[web.Request, web.Application]


def application(source: Source, *, any_host: bool = False) -> web.Application:
    """An application with the pages alone."""
    app = web.Application()
    add_routes(app, source, clock=lambda: NOW_NS + 60_000_000_000, any_host=any_host)
    return app


def serve(source: Source, use: Callable[[Client], Awaitable[Any]], *, any_host: bool = False) -> Any:
    """Runs one coroutine against the pages, and returns what it returned."""

    async def served() -> Any:
        async with TestClient(TestServer(application(source, any_host=any_host))) as client:
            return await use(client)

    return asyncio.run(served())


class Server:
    """The pages on a port of the loopback, in a thread; starts anew on the same port.

    Args:
        source: what they show.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """Without a slash at its end."""
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        self._thread.start()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def start(self) -> None:
        """Serves."""
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(30)

    def stop(self) -> None:
        """Closes the port and every connection."""
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(30)

    async def _start(self) -> None:
        self._runner = web.AppRunner(application(self._source), shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def _stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
