"""Closes HTTP connections that send no request, or the head of one byte by byte: aiohttp would wait for ever.

Invariants: a connection with a request in work is never closed, but for one that reads no answers at the end; what is
remembered of connections that have ended is forgotten at the next look.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Iterator
from typing import Final

from aiohttp import web

_LOOKS: Final = 4
"""How often in the time allowed connections are looked at."""


class IdleConnections:
    """Watches the connections of one server, on its event loop.

    Args:
        idle_s: how long a connection may be without a request.
    """

    def __init__(self, idle_s: float) -> None:
        self._idle_s = idle_s
        self._since: dict[web.RequestHandler, float] = {}
        """Since when a connection has had no request; infinite while it has one."""
        self._watching: asyncio.Task[None] | None = None
        self._server: web.Server | None = None

    def start(self, server: web.Server) -> None:
        """Begins to watch."""
        self._server = server
        self._watching = asyncio.create_task(self._watch(server))

    def stop(self) -> None:
        """Ends watching."""
        if self._watching is not None:
            self._watching.cancel()

    def cut_unread(self) -> None:
        """Ends connections that do not read what they are answered: the end of the server would wait for them."""
        for connection in () if self._server is None else list(self._server.connections):
            transport = connection.transport
            if isinstance(transport, asyncio.WriteTransport) and transport.get_write_buffer_size():
                transport.abort()

    @contextlib.contextmanager
    def busy(self, connection: web.RequestHandler) -> Iterator[None]:
        """Around the work on a request of a connection."""
        self._since[connection] = math.inf
        try:
            yield
        finally:
            self._since[connection] = asyncio.get_running_loop().time()

    async def _watch(self, server: web.Server) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(self._idle_s / _LOOKS)
            now = clock()
            self._since = {connection: self._since.get(connection, now) for connection in server.connections}
            for connection, since in self._since.items():
                if now - since > self._idle_s:
                    connection.force_close()
