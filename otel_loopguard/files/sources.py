"""Byte streams and their lines: buffering, gzip, bounds on length.

Invariants: memory is bounded by `MAX_LINE_BYTES`, whatever the input; damaged compression ends a stream with a
reason, a failing device with `InputError`.
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Final, Protocol, cast

from otel_loopguard.errors import InputError
from otel_loopguard.files.reasons import MAX_LINE_BYTES, Reason

_GZIP_MAGIC: Final = b"\x1f\x8b"
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_UTF16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")
_BUFFER_BYTES: Final = 256 * 1024
_SNIFF_BYTES: Final = 4096
_BINARY: Final = re.compile(rb"[\x00-\x08\x0b\x0e-\x1f]")
FRAME_BYTES: Final = 4
"""Length prefix of a framed stream, as the collector's file exporter writes it for `format: proto`."""
RESOURCE_SPANS_TAG: Final = 0x0A
"""First byte of a trace message: field 1, length-delimited."""


class Readable(Protocol):
    """Anything that gives bytes: an open file, a pipe, a `BytesIO`."""

    def read(self, size: int = -1, /) -> bytes:
        """Return up to `size` bytes; empty at the end."""
        ...


class DamagedError(Exception):
    """The stream ends here, for a reason that belongs to the input; private to `files`."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.value)
        self.reason = reason


class _Raw(io.RawIOBase):
    """Gives a `Readable` the face of a raw stream, so that the standard buffer can stand on it."""

    def __init__(self, source: Readable) -> None:
        super().__init__()
        self._source = source
        self._started = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        piece = self._source.read(len(buffer))
        if not self._started:
            self._started = True
            while len(piece) < _SNIFF_BYTES and (more := self._source.read(_SNIFF_BYTES - len(piece))):
                piece += more  # a pipe may give its first bytes one by one; the kind of file shows only in several
        buffer[: len(piece)] = piece
        return len(piece)


class Stream:
    """One source, buffered and unpacked.

    Every read raises `DamagedError` where the compression is damaged and `InputError` where the device fails.
    """

    def __init__(self, source: Readable, *, name: str) -> None:
        self._name = name
        self._inner: io.BufferedReader = io.BufferedReader(_Raw(source), _BUFFER_BYTES)
        if self.peek(4).startswith(_GZIP_MAGIC):
            unpacked = gzip.GzipFile(fileobj=cast("IO[bytes]", self._inner), mode="rb")
            self._inner = io.BufferedReader(_Raw(unpacked), _BUFFER_BYTES)

    def peek(self, size: int) -> bytes:
        """The next bytes without taking them: at least one unless at the end, at most `size`."""
        return self._take(self._inner.peek, size)[:size]

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end."""
        return self._take(self._inner.read, size)

    def line(self, limit: int) -> bytes:
        """Up to the next line end and including it, `limit` bytes at most; empty at the end."""
        return self._take(self._inner.readline, limit)

    def _take(self, method: Callable[[int], bytes], size: int) -> bytes:
        try:
            return method(size)
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise DamagedError(Reason.CORRUPT_COMPRESSION) from None
        except OSError as error:
            message = f"{self._name}: cannot be read: {error.strerror or type(error).__name__}"
            raise InputError(message) from error


def lines(stream: Stream, *, limit: int = MAX_LINE_BYTES) -> Iterator[tuple[int, bytes | Reason]]:
    """The stream's lines with their numbers from 1, blank ones left out, a byte order mark removed.

    A line longer than `limit` bytes comes as `Reason.TOO_LONG` and is passed over to its end.
    """
    number = 0
    while line := stream.line(limit + 1):
        number += 1
        if len(line) > limit and not line.endswith(b"\n"):
            _pass_over(stream)
            yield number, Reason.TOO_LONG
            continue
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line.isspace() and line:
            yield number, line


def _pass_over(stream: Stream) -> None:
    """Read on to the end of the current line and keep nothing."""
    while piece := stream.line(_BUFFER_BYTES):
        if piece.endswith(b"\n"):
            return


def rest(stream: Stream, first: bytes, *, limit: int = MAX_LINE_BYTES) -> bytes | Reason:
    """`first` and everything after it, or `Reason.TOO_LONG` where that is more than `limit` bytes."""
    whole = first + stream.read(max(0, limit - len(first)) + 1)
    return whole if len(whole) <= limit else Reason.TOO_LONG


def unreadable(head: bytes) -> Reason | None:
    """Why a stream that begins with `head` cannot be read at all, or None."""
    if head.startswith(_ZSTD_MAGIC):
        return Reason.ZSTD
    return Reason.UTF16 if head.startswith(_UTF16_MARKS) else None


def is_protobuf(stream: Stream) -> bool:
    """True where the stream begins like a protobuf trace message, bare or with a four-byte length before it.

    A bare message begins with 0x0A, which is also a line end: text is told apart by what protobuf always has
    within its first bytes, a control character that text does not have.
    """
    head = stream.peek(_SNIFF_BYTES)
    if is_framed(head):
        return True
    if not head.startswith(b"\n"):
        return False
    return _BINARY.search(head) is not None and not head.lstrip().startswith((b'{"', b"[{"))


def is_framed(head: bytes) -> bool:
    """True where `head` is a four-byte big-endian length and the first byte of a trace message."""
    if len(head) <= FRAME_BYTES or head[FRAME_BYTES] != RESOURCE_SPANS_TAG:
        return False
    return 0 < int.from_bytes(head[:FRAME_BYTES], "big") <= MAX_LINE_BYTES
