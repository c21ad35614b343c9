"""The parts of a span's bytes that differ from span to span, and how each is written as MessagePack.

Invariants: what a slot's pattern matches passes every check that reading makes of it, and stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec

from otel_loopguard import dialects

_encode: Final = msgspec.msgpack.Encoder().encode

_TRACE, _SPAN, _PARENT, _START, _END = 0x0A, 0x12, 0x22, 0x39, 0x41
"""Tags of a span's fields (opentelemetry-proto, trace.proto)."""
TEXT, WHOLE = 0x0A, 0x18
"""Tags of an attribute's value (common.proto)."""
STR_32: Final = b"\xd9\x20"
"""MessagePack: a text of 32 characters."""
STR_16: Final = b"\xb0"
UINT_64: Final = b"\xcf"
_PRINTED: Final = re.compile(rb"[ -~]*")
_HEX_32: Final = re.compile(rb"[0-9a-f]{32}")
_NAME: Final = re.compile(rb"[A-Za-z0-9_.:/-]{1,128}")
_PLACEHOLDER_SIZES: Final = {len(name) for name in dialects.PLACEHOLDERS if _NAME.fullmatch(name.encode())}
"""Lengths at which what the conventions call a name may stand for none."""
_OTHER_DIGITS: Final = bytes.maketrans(b"0123456789abcdef", b"123456789abcdef0")
_OTHER_LETTERS: Final = bytes(ord("a") if byte != ord("a") else ord("b") for byte in range(256))


class Unlike(Exception):  # noqa: N818 - no error: most spans have no shape
    """No shape can be made of this span."""


class Slot(NamedTuple):
    """A part of a span's bytes that differs from span to span."""

    start: int
    end: int
    pattern: bytes
    other: bytes
    """Another value that the pattern matches."""
    header: bytes = b""
    """What MessagePack writes before the value."""
    turn: Callable[[bytes], bytes] | None = None
    """What MessagePack writes of the value; None: its bytes as they are."""

    def written(self, value: bytes) -> bytes:
        """Returns all that MessagePack writes of a value."""
        return self.header + (value if self.turn is None else self.turn(value))


def digest_slot(start: int, value: bytes) -> Slot | None:
    """A digest; None where it is none. So too the next two."""
    if not _HEX_32.fullmatch(value):
        return None
    return Slot(start, start + len(value), b"([0-9a-f]{32})", value.translate(_OTHER_DIGITS), STR_32)


def name_slot(start: int, value: bytes, *, own: bool, turn: Callable[[bytes], bytes] | None = None) -> Slot | None:
    """A name that passes as it is.

    Args:
        start: where it stands.
        value: what stands there.
        own: it is of our processor, to which no name stands for none.
        turn: gives the 32 characters that are written in its place.
    """
    size = len(value)
    if not _NAME.fullmatch(value) or (not own and size in _PLACEHOLDER_SIZES):
        return None
    header = STR_32 if turn is not None else _encode("x" * size)[:-size]
    return Slot(start, start + size, b"([A-Za-z0-9_.:/-]{%d})" % size, value.translate(_OTHER_LETTERS), header, turn)


def count_slot(start: int, value: bytes) -> Slot | None:
    """A whole number in one byte, which MessagePack writes alike, or in two."""
    if len(value) == 1 and value != b"\0":
        return Slot(start, start + 1, rb"([\x01-\x7f])", b"\x02" if value != b"\x02" else b"\x03", b"")
    if len(value) == 2:  # noqa: PLR2004 - two bytes
        other = b"\x81\x02" if value != b"\x81\x02" else b"\x82\x03"
        return Slot(start, start + 2, rb"([\x80-\xff][\x01-\x7f])", other, b"", _whole)
    return None


def text_slot(start: int, value: bytes) -> Slot:
    """Any text of this length that is surely one."""
    if not _PRINTED.fullmatch(value):
        raise Unlike
    return Slot(start, start + len(value), b"[ -~]{%d}" % len(value), value.translate(_OTHER_LETTERS))


def whole_slot(start: int, value: bytes, tag: int) -> Slot:
    """Any whole number of so many bytes."""
    if tag != WHOLE:
        raise Unlike
    more = len(value) - 1
    return Slot(start, start + len(value), rb"[\x80-\xff]{%d}[\x00-\x7f]" % more, value[:-1] + bytes([value[-1] ^ 1]))


def _whole(value: bytes) -> bytes:
    return _encode(value[0] & 0x7F | value[1] << 7)


def _id_slot(start: int, value: bytes, header: bytes) -> Slot:
    """An id, which is written in hex."""
    size = len(value)
    other = bytes([value[0] ^ 1, *value[1:-1], value[-1] ^ 2])
    return Slot(start, start + size, b"(?!\\x00{%d})(.{%d})" % (size, size), other, header)


def _time_slot(start: int, value: bytes, *, zero: bool) -> Slot:
    """A time, which is written from its other end."""
    pattern = b"(.{8})" if zero else rb"(?!\x00{8})(.{8})"
    return Slot(start, start + len(value), pattern, bytes([value[0] ^ 1, *value[1:]]), UINT_64)


PLACES: Final[Mapping[int, tuple[str, int, Callable[[int, bytes], Slot]]]] = {
    _TRACE: ("trace_id", 16, lambda start, value: _id_slot(start, value, STR_32)),
    _SPAN: ("span_id", 8, lambda start, value: _id_slot(start, value, STR_16)),
    _PARENT: ("parent_id", 8, lambda start, value: _id_slot(start, value, STR_16)),
    _START: ("start_ns", 8, lambda start, value: _time_slot(start, value, zero=True)),
    _END: ("end_ns", 8, lambda start, value: _time_slot(start, value, zero=False)),
}
"""Field, bytes and slot of what every span has, by tag, in the order on the wire; `parent_id` alone may be missing."""
