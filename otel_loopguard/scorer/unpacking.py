"""Unpacks request bodies: gzip, zstd, deflate.

Invariants: no more than the limit and one piece is ever made, whatever the packed bytes claim; what is cut off or
followed by anything else is refused.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final

import zstandard

from otel_loopguard.scorer.records import Refusal, RefusedError

INFLATER: Final[Any] = importlib.import_module("isal.isal_zlib") if importlib.util.find_spec("isal") else zlib
"""isal where there is a build of it for this machine: zlib takes three times as long, longer than all else together."""
_PIECE_BYTES: Final = 2**20
_MAX_WINDOW_BYTES: Final = 2**25
"""What a zstd frame may ask to be kept for it; encoders' fastest levels ask for 8 MiB at most."""
_GZIP: Final = 16 + zlib.MAX_WBITS
_MAX_MEMBERS: Final = 100
"""Packed streams one after another; what is left is copied for each."""
_MAX_BLOCKS: Final = 65_536
"""Blocks of zstd frames; full ones have 128 KiB."""

_SKIPPABLE: Final = range(0x184D2A50, 0x184D2A60)
_BLOCK_HEADER_BYTES: Final = 3
_RLE: Final = 1
_CHECKSUM_BYTES: Final = 4


def unpack(body: bytes, coding: str, *, limit: int) -> bytes:
    """Returns a request's body as it was before it was packed.

    Args:
        body: as it was sent.
        coding: the value of `Content-Encoding`; empty for none.
        limit: size of the result at most, in bytes.

    Raises:
        RefusedError: UNKNOWN_COMPRESSION, BAD_COMPRESSION or TOO_LARGE_UNPACKED.

    Cost: at most `limit` and 1 MiB of memory, and up to 32 MiB while a zstd frame with so large a window is read.
    """
    name = coding.strip().lower()
    if name in ("", "identity"):
        if len(body) > limit:
            raise RefusedError(Refusal.TOO_LARGE_UNPACKED)
        return body
    unpacker = _UNPACKERS.get(name)
    if unpacker is None:
        raise RefusedError(Refusal.UNKNOWN_COMPRESSION)
    return unpacker(body, limit)


def _inflate(body: bytes, limit: int, wbits: int) -> bytes:
    """All streams of zlib's kind that stand one after another, as gzip allows."""
    pieces: list[bytes] = []
    left, rest = limit, body
    for _ in range(_MAX_MEMBERS):
        stream = INFLATER.decompressobj(wbits)
        try:
            # One more byte than may be: that it comes tells of too many.
            piece = stream.decompress(rest, left + 1)
        except INFLATER.error:
            raise RefusedError(Refusal.BAD_COMPRESSION) from None
        if len(piece) > left:
            raise RefusedError(Refusal.TOO_LARGE_UNPACKED)
        if not stream.eof:
            raise RefusedError(Refusal.BAD_COMPRESSION)
        pieces.append(piece)
        left, rest = left - len(piece), stream.unused_data
        if not rest:
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
    raise RefusedError(Refusal.BAD_COMPRESSION)


def _gunzip(body: bytes, limit: int) -> bytes:
    return _inflate(body, limit, _GZIP)


def _deflate(body: bytes, limit: int) -> bytes:
    return _inflate(body, limit, zlib.MAX_WBITS)


def _unzstd(body: bytes, limit: int) -> bytes:
    if not _is_whole(body):  # the reader takes a frame that is cut off for a shorter one
        raise RefusedError(Refusal.BAD_COMPRESSION)
    pieces: list[bytes] = []
    left = limit
    reader = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES).stream_reader(
        io.BytesIO(body), read_across_frames=True
    )
    try:
        while piece := reader.read(min(_PIECE_BYTES, left + 1)):
            left -= len(piece)
            if left < 0:
                raise RefusedError(Refusal.TOO_LARGE_UNPACKED)
            pieces.append(piece)
    except zstandard.ZstdError:
        raise RefusedError(Refusal.BAD_COMPRESSION) from None
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _is_whole(body: bytes) -> bool:
    """Tells whether a body is zstd frames to its last byte (RFC 8878, 3.1)."""
    place = blocks = 0
    for _ in range(_MAX_MEMBERS):
        if place == len(body):
            return place > 0
        if int.from_bytes(body[place : place + 4], "little") in _SKIPPABLE:
            place += 8 + int.from_bytes(body[place + 4 : place + 8], "little")
            continue
        head = body[place : place + 18]  # the longest there is
        try:
            place += zstandard.frame_header_size(head)
            checked = zstandard.get_frame_parameters(head).has_checksum
        except zstandard.ZstdError:
            return False
        last = False
        while not last:
            header = int.from_bytes(body[place : place + _BLOCK_HEADER_BYTES], "little")
            last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
            place += _BLOCK_HEADER_BYTES + (1 if kind == _RLE else size)
            blocks += 1
            if place > len(body) or blocks > _MAX_BLOCKS:
                return False
        place += _CHECKSUM_BYTES if checked else 0
    return False


_UNPACKERS: Final[Mapping[str, Callable[[bytes, int], bytes]]] = {
    "gzip": _gunzip,
    "x-gzip": _gunzip,
    "deflate": _deflate,
    "zstd": _unzstd,
}
