"""Unpacking: the same bytes come out, within their bound, or a reason."""

from __future__ import annotations

import gzip
import random
import tracemalloc
import zlib
from collections.abc import Callable, Iterator, Mapping

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from isal import isal_zlib

from otel_loopguard.scorer import unpacking
from otel_loopguard.scorer.records import Refusal, RefusedError
from otel_loopguard.scorer.unpacking import unpack

LIMIT = 100_000


def _zstd_stream(body: bytes) -> bytes:
    """As a sender writes it that does not know the size before, with a checksum."""
    packer = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    return packer.compress(body) + packer.flush()


PACKERS: Mapping[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": zstandard.ZstdCompressor().compress,
    "ZSTD ": _zstd_stream,
}


@pytest.fixture(scope="module", params=["isal", "zlib"], autouse=True)
def _inflater(request: pytest.FixtureRequest) -> Iterator[None]:
    """Everything holds with either library."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "zlib":
            patch.setattr(unpacking, "INFLATER", zlib)
        else:
            assert isal_zlib is unpacking.INFLATER
        yield


def _reason(body: bytes, coding: str, limit: int = LIMIT) -> Refusal | None:
    try:
        unpack(body, coding, limit=limit)
    except RefusedError as refused:
        return refused.reason
    return None


@pytest.mark.parametrize("coding", PACKERS)
@given(body=st.binary(max_size=3000))
def test_unpacks_what_was_packed(coding: str, body: bytes) -> None:
    """Whatever was packed comes out again; two packed parts one after the other give both."""
    packed = PACKERS[coding](body)
    assert body == unpack(packed, coding, limit=LIMIT)
    assert body + body == unpack(packed + packed, coding, limit=LIMIT)


@pytest.mark.parametrize("coding", ["", "identity", "Identity"])
def test_bytes_that_are_not_packed_stay(coding: str) -> None:
    """No coding, and the one that changes nothing, give the body itself, within the bound."""
    assert b"body" == unpack(b"body", coding, limit=4)
    assert Refusal.TOO_LARGE_UNPACKED == _reason(b"body", coding, limit=3)


@pytest.mark.parametrize("coding", PACKERS)
def test_the_limit_is_exact(coding: str) -> None:
    """A body of exactly the limit comes out, one more byte is too many, also in several parts."""
    body = random.Random(1).randbytes(LIMIT)
    packed = PACKERS[coding](body)
    assert body == unpack(packed, coding, limit=LIMIT)
    assert Refusal.TOO_LARGE_UNPACKED == _reason(packed, coding, limit=LIMIT - 1)
    assert Refusal.TOO_LARGE_UNPACKED == _reason(packed + packed, coding, limit=2 * LIMIT - 1)


@pytest.mark.parametrize("coding", PACKERS)
def test_what_is_cut_off_is_refused(coding: str) -> None:
    """A body cut anywhere is damaged: never a shorter body, which would lose spans silently."""
    packed = PACKERS[coding](random.Random(2).randbytes(500))
    assert [] == [cut for cut in range(len(packed)) if _reason(packed[:cut], coding) is not Refusal.BAD_COMPRESSION]


@pytest.mark.parametrize("coding", PACKERS)
def test_what_follows_is_refused(coding: str) -> None:
    """Bytes after the end that are no packed part are damage."""
    packed = PACKERS[coding](b"body")
    assert Refusal.BAD_COMPRESSION == _reason(packed + b"more", coding)
    assert Refusal.BAD_COMPRESSION == _reason(b"no packed body", coding)
    assert Refusal.BAD_COMPRESSION == _reason(packed * 2000, coding)


def test_zstd_frames_to_be_skipped_are_skipped() -> None:
    """A frame of a user's own stands between two others and changes nothing."""
    packed = PACKERS["zstd"](b"body")
    skipped = (0x184D2A5F).to_bytes(4, "little") + (3).to_bytes(4, "little") + b"any"
    assert b"bodybody" == unpack(packed + skipped + packed, "zstd", limit=LIMIT)


@pytest.mark.parametrize("coding", ["br", "gzip, gzip", "lz4", "snappy", "x"])
def test_unknown_codings_are_refused(coding: str) -> None:
    """What we cannot unpack is said, and not taken for a body."""
    assert Refusal.UNKNOWN_COMPRESSION == _reason(b"body", coding)


@pytest.mark.parametrize("coding", PACKERS)
def test_bombs_are_refused_before_memory_grows(coding: str) -> None:
    """A few kilobytes that unpack to 200 MB cost no more than the limit and a piece."""
    packed = PACKERS[coding](bytes(200_000_000))
    tracemalloc.start()
    try:
        assert Refusal.TOO_LARGE_UNPACKED == _reason(packed, coding, limit=2_000_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8_000_000


def test_zstd_windows_are_bounded() -> None:
    """A frame that asks for a gigabyte of window is refused, whatever its size."""
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=30, enable_ldm=True)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    packed = packer.compress(b"x" * 1000) + packer.flush()
    assert Refusal.BAD_COMPRESSION == _reason(packed, "zstd")
