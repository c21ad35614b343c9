"""Posts OTLP messages to a receiver over HTTP, and tells apart what may be repeated.

Invariants: what an answer does not clearly take is not taken. No header's value and no part of an address beyond its
path is in any message.
"""

from __future__ import annotations

import gzip
import http.client
import ssl
import urllib.parse
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from otel_loopguard.errors import LoopGuardError
from otel_loopguard.scorer.outputs import SendFailure, SinkError

TIMEOUT_S: Final = 10.0
"""As the exporters of the SDK have it by default."""
_MOST_ANSWER: Final = 2**20
_LONGEST_WAIT_S: Final = 600.0
_FOR_GOOD: Final = frozenset({400, 413, 422})
"""Answers about the message itself. Any other may be repaired at the receiver or in the settings."""
_BUSY: Final = frozenset({408, 429, 502, 503, 504})
_UNAUTHENTICATED: Final = frozenset({401, 403})


class Signal(StrEnum):
    """What is sent, as the path of OTLP/HTTP has it."""

    LOGS = "/v1/logs"
    METRICS = "/v1/metrics"
    TRACES = "/v1/traces"


class NeverTakenError(LoopGuardError):
    """The receiver will not take this message, however often it comes."""


class Poster:
    """Posts to one receiver, with a connection of its own each time.

    Args:
        endpoint: `http://` or `https://`, host, and optionally a port and the path before `/v1/`.
        headers: to send along, such as an `Authorization`.
        timeout_s: for the connection, and for each read and write.
        tls: how to check the receiver; None: as the system does.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        split = urllib.parse.urlsplit(endpoint)
        self._secure = split.scheme == "https"
        self._host, self._port = split.hostname or "", split.port
        self._path = split.path.rstrip("/")
        self._headers = {
            **(headers or {}),
            "Content-Type": "application/x-protobuf",
            "Content-Encoding": "gzip",
            "User-Agent": "otel-loopguard",
        }
        self._timeout_s, self._tls = timeout_s, tls

    def post(self, signal: Signal, message: bytes) -> bytes:
        """Posts one message.

        Returns:
            The body of the answer: an OTLP response, or nothing.

        Raises:
            SinkError: it has not arrived for certain, and may be repeated.
            NeverTakenError: the receiver refuses this very message.
        """
        where = f"{self._host}{f':{self._port}' if self._port else ''}{self._path}{signal}"
        try:
            status, retry_after, body = self._exchange(self._path + signal, message)
        except TimeoutError:
            raise SinkError(SendFailure.TIMED_OUT, f"{where} did not answer in {self._timeout_s:g} s") from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            # The class alone: the text of an exception may quote what was sent.
            raise SinkError(SendFailure.UNREACHABLE, f"{where} cannot be reached ({type(error).__name__})") from None
        if 200 <= status < 300:  # noqa: PLR2004 - the answers of success
            return body
        message_ = f"{where} answers {status}"
        if status in _FOR_GOOD:
            raise NeverTakenError(message_)
        reason = (
            SendFailure.BUSY
            if status in _BUSY
            else SendFailure.UNAUTHENTICATED
            if status in _UNAUTHENTICATED
            else SendFailure.BAD_ANSWER
        )
        raise SinkError(reason, message_, retry_after_s=_seconds(retry_after))

    def _exchange(self, path: str, message: bytes) -> tuple[int, str | None, bytes]:
        if self._secure:
            tls = self._tls or ssl.create_default_context()
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                self._host, self._port, timeout=self._timeout_s, context=tls
            )
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_s)
        try:
            connection.request("POST", path, gzip.compress(message, 1), self._headers)
            answer = connection.getresponse()
            return answer.status, answer.getheader("Retry-After"), answer.read(_MOST_ANSWER)
        finally:
            connection.close()


def read_headers(text: str) -> dict[str, str]:
    """Headers as `OTEL_EXPORTER_OTLP_HEADERS` holds them: `name=value,…`, values escaped as in addresses."""
    pairs = [item.partition("=") for item in text.split(",")]
    return {name.strip(): urllib.parse.unquote(value.strip()) for name, _, value in pairs if name.strip()}


def _seconds(retry_after: str | None) -> float:
    """The header's seconds; 0 for a date, which is rare, and for what cannot be read."""
    if retry_after is None or not retry_after.isdecimal():
        return 0.0
    return min(float(retry_after), _LONGEST_WAIT_S)
