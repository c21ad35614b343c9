"""OTLP in protobuf: trace messages one after the other, bare or with a four-byte big-endian length before each.

Invariants: a bare stream is read one ResourceSpans at a time, so memory is bounded by the largest of them and
concatenated messages are one stream. After damage a bare stream cannot be found again and ends with a reason;
a framed one goes on with the next frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from otel_loopguard.errors import MissingExtraError
from otel_loopguard.files.reasons import MAX_LINE_BYTES, Reason
from otel_loopguard.files.sources import FRAME_BYTES, RESOURCE_SPANS_TAG, DamagedError, Stream, is_framed
from otel_loopguard.files.spans import Item, Report, reporter

_MAX_VARINT_BYTES: Final = 5
_MORE: Final = 0x80
"""The bit that says that a varint goes on."""


def read(stream: Stream, *, name: str) -> Iterator[Item]:
    """The spans of a stream of protobuf trace messages.

    Raises:
        MissingExtraError: `opentelemetry-proto` is not installed.
        InputError: the device failed.
    """
    items = _items()
    pieces = _frames(stream) if is_framed(stream.peek(FRAME_BYTES + 1)) else _groups(stream)
    for number, piece in enumerate(pieces, start=1):
        report = reporter(f"{name}, message {number}", None)
        if isinstance(piece, Reason):
            yield report(piece)
            continue
        try:
            yield from items(piece, report)
        except DamagedError as damaged:
            yield report(damaged.reason)


def _items() -> Callable[[bytes, Report], list[Item]]:
    """What reads the spans of one message."""
    try:
        from otel_loopguard.files.otlp_wire import items  # noqa: PLC0415 - protobuf is an optional part
    except ImportError as error:
        message = 'reading protobuf needs opentelemetry-proto: pip install "otel-loopguard[cli]"'
        raise MissingExtraError(message) from error
    return items


def _frames(stream: Stream) -> Iterator[bytes | Reason]:
    """The messages of a framed stream."""
    while prefix := stream.read(FRAME_BYTES):
        length = int.from_bytes(prefix, "big")
        if len(prefix) < FRAME_BYTES:
            yield Reason.TRUNCATED
            return
        if length > MAX_LINE_BYTES:
            yield Reason.TOO_LONG
            return
        piece = stream.read(length)
        if len(piece) < length:
            yield Reason.TRUNCATED
            return
        yield piece


def _groups(stream: Stream) -> Iterator[bytes | Reason]:
    """The ResourceSpans of a bare stream, each as a message of its own."""
    while tag := stream.read(1):
        if tag[0] != RESOURCE_SPANS_TAG:
            yield Reason.NOT_PROTOBUF
            return
        length, prefix = _varint(stream)
        if length is None:
            yield Reason.TRUNCATED if len(prefix) < _MAX_VARINT_BYTES else Reason.NOT_PROTOBUF
            return
        if length > MAX_LINE_BYTES:
            yield Reason.TOO_LONG
            return
        body = stream.read(length)
        if len(body) < length:
            yield Reason.TRUNCATED
            return
        yield tag + prefix + body


def _varint(stream: Stream) -> tuple[int | None, bytes]:
    """A length as protobuf writes it, and its bytes; None where it is cut off or too long to be one."""
    taken = b""
    while len(taken) < _MAX_VARINT_BYTES and (byte := stream.read(1)):
        taken += byte
        if byte[0] < _MORE:
            return sum((part & ~_MORE) << 7 * place for place, part in enumerate(taken)), taken
    return None, taken
