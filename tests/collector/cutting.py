"""A TCP proxy that cuts connections in the middle of what they carry."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Final

_CHUNK: Final = 1024
ANSWER: Final = -1
"""In the place of a number of bytes: cut when the answer comes, which the client then never sees."""


class CuttingProxy:
    """Passes bytes on, and cuts the first connections after some bytes of what the client sent.

    Args:
        port: of the loopback, where it passes on to.
        cuts: after how many bytes each of the first connections is cut; those after them are not.
    """

    def __init__(self, port: int, cuts: list[int]) -> None:
        self._port = port
        self._left = list(cuts)
        self.made = 0
        """How many connections were cut."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Listen no longer."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._pass, args=(client,), daemon=True).start()

    def _pass(self, client: socket.socket) -> None:
        limit = self._left.pop(0) if self._left else None
        with client, contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port)) as server:
            back = threading.Thread(target=self._answer, args=(server, client, limit == ANSWER), daemon=True)
            back.start()
            passed = 0
            while chunk := client.recv(_CHUNK):
                if limit is not None and limit != ANSWER and passed + len(chunk) > limit:
                    server.sendall(chunk[: limit - passed])
                    self._cut(server, client)
                    return
                server.sendall(chunk)
                passed += len(chunk)
            with contextlib.suppress(OSError):
                server.shutdown(socket.SHUT_WR)
            back.join()

    def _answer(self, server: socket.socket, client: socket.socket, cut: bool) -> None:  # noqa: FBT001 - a thread's
        with contextlib.suppress(OSError):
            while chunk := server.recv(_CHUNK):
                if cut:
                    self._cut(server, client)
                    return
                client.sendall(chunk)
            client.shutdown(socket.SHUT_WR)

    def _cut(self, *connections: socket.socket) -> None:
        self.made += 1
        for one in connections:
            _reset(one)


def _reset(connection: socket.socket) -> None:
    # Without lingering, closing sends a reset: the other end sees a broken connection, not an end.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
