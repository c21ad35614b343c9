"""Streams and lines: what a damaged file costs, how kinds of files are told apart, and the bounds."""

from __future__ import annotations

import functools
import gzip
import io
import json

import pytest

from otel_loopguard import files
from otel_loopguard.errors import InputError
from otel_loopguard.files import Format, Reason, explain, is_skip
from otel_loopguard.files.sources import Stream, lines, rest
from otel_loopguard.model import CallRecord, Span
from tests.files.otlp_samples import line, read, read_spans, reasons, request, span

_GOOD = line(request(span()))
_RECORD = {"run_id": "r1", "sequence": 1, "tool": "t", "arguments": {}, "result": 1}


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"garbage\n", Reason.NOT_JSON),
        (b'{"resourceSpans":[\x00]}\n', Reason.NOT_JSON),
        (b"\x00\x00\x00\n", Reason.NOT_JSON),
        (b'{"run_id":"\xff"}\n', Reason.NOT_UTF8),
        (b"[" * 100_000 + b"]" * 100_000 + b"\n", Reason.TOO_DEEP),
        (b"5\n", Reason.NOT_AN_OBJECT),
        (b"[5]\n", Reason.NOT_AN_OBJECT),
        (b'{"a":1}\n', Reason.UNKNOWN_SHAPE),
        (b'{"a":' + b"9" * 5000 + b"}\n", Reason.NOT_JSON),
        (b'{"run_id":"r1"} {"run_id":"r1"}\n', Reason.NOT_JSON),
        (b'{"run_id":"r1",\n', Reason.NOT_JSON),
    ],
)
def test_bad_line_costs_itself_only(bad: bytes, reason: Reason) -> None:
    """A bad line is reported with its number, and the lines around it are read, also where it comes first."""
    assert [(2, reason)] == reasons(_GOOD + bad + _GOOD)
    assert 3 == len(read(_GOOD + bad + _GOOD))
    assert [(1, reason)] == reasons(bad + _GOOD)
    assert 2 == len(read(bad + _GOOD))


def test_truncated_last_line() -> None:
    """A last line without its end is cut off where it does not parse, and sound where it does."""
    assert [(2, Reason.TRUNCATED)] == reasons(_GOOD + _GOOD[:-20])
    assert [] == reasons(_GOOD + _GOOD.rstrip())


def test_blank_lines_marks_and_line_ends() -> None:
    """Blank lines, a byte order mark and CRLF change nothing but the numbers of lines."""
    data = b"\xef\xbb\xbf" + _GOOD.replace(b"\n", b"\r\n") + b"\r\n \n" + _GOOD + b"x\n"
    assert [(5, Reason.NOT_JSON)] == reasons(data)
    assert 3 == len(read(data))


def test_nothing_gives_nothing() -> None:
    """An empty file and a file of blank lines hold nothing and are no error."""
    assert [] == read(b"") + read(b"\n\n \n") + read(b"\xef\xbb\xbf")


@pytest.mark.parametrize("size", [99, 100, 101])
def test_long_line_is_passed_over(size: int) -> None:
    """A line of more than the limit gives a reason, whatever follows it, and the next line is read."""
    found = list(lines(Stream(io.BytesIO(b"x" * size + b"\nnext\n"), name="f"), limit=100))
    assert [(1, Reason.TOO_LONG if size > 100 else b"x" * size + b"\n"), (2, b"next\n")] == found


def test_long_input_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the front door too: a long line costs itself, a long document the rest of its file."""
    monkeypatch.setattr(files, "lines", functools.partial(lines, limit=1000))
    monkeypatch.setattr(files, "rest", functools.partial(rest, limit=1000))
    assert [(1, Reason.TOO_LONG)] == reasons(b"x" * 1001 + b"\n" + _GOOD)
    assert 2 == len(read(b"x" * 1001 + b"\n" + _GOOD))
    document = json.dumps(request(*[span()] * 9), indent=1).encode()
    assert [(1, Reason.TOO_LONG)] == reasons(document)


def test_documents_that_are_no_text() -> None:
    """A document with bytes that are not UTF-8 gives one reason."""
    assert [(1, Reason.NOT_UTF8)] == reasons(b'{\n"a": "\xff"}\n')


def test_long_last_line() -> None:
    """A line over the limit at the end of the file, and one over several buffers, end well."""
    assert [(1, Reason.TOO_LONG)] == list(lines(Stream(io.BytesIO(b"x" * 2_000_000), name="f"), limit=100))


@pytest.mark.parametrize("indent", [1, 4])
def test_pretty_printed_documents(indent: int) -> None:
    """One document over many lines, several such, and a list of records are read like lines."""
    document = json.dumps(request(span()), indent=indent).encode()
    assert read_spans(_GOOD) == read_spans(document)
    assert read_spans(_GOOD + _GOOD) == read_spans(document + b"\n" + document + b"\n")
    assert read(line(_RECORD) * 2) == read(json.dumps([_RECORD, _RECORD], indent=indent).encode())
    assert read(line(_RECORD) * 2) == read(json.dumps([_RECORD, _RECORD]).encode())
    by_hand = b"[" + json.dumps(_RECORD).encode() + b",\n" + json.dumps(_RECORD).encode() + b"]\n"
    assert read(line(_RECORD) * 2) == read(by_hand)


def test_damage_in_a_document_names_the_line_where_its_value_begins() -> None:
    """Of two documents in one file the second is cut: the first is read and the second reported."""
    document = json.dumps(request(span()), indent=1).encode() + b"\n"
    items = read(document + document[:-10])
    assert [Span] == [type(item) for item in items if not hasattr(item, "reason")]
    assert [(document.count(b"\n") + 1, Reason.NOT_JSON)] == reasons(document + document[:-10])


def test_gzip_is_unpacked() -> None:
    """Packed files read as unpacked ones, also of several members."""
    assert read(_GOOD * 2) == read(gzip.compress(_GOOD) + gzip.compress(_GOOD))


@pytest.mark.parametrize("cut", [5, 40, -4])
def test_damaged_gzip_gives_a_reason(cut: int) -> None:
    """A cut or flipped gzip file gives what came before the damage, then a reason, and never an error."""
    packed = gzip.compress(b"".join(line({**_RECORD, "sequence": i, "call_id": f"{i * 7919}"}) for i in range(500)))
    flipped = bytearray(packed)
    flipped[cut] ^= 0xFF
    assert Reason.CORRUPT_COMPRESSION in [reason for _, reason in reasons(packed[:cut])]
    assert Reason.CORRUPT_COMPRESSION in [reason for _, reason in reasons(bytes(flipped))] or cut == 5


@pytest.mark.parametrize(
    ("head", "reason"),
    [(b"\x28\xb5\x2f\xfd", Reason.ZSTD), (b"\xff\xfe{\x00", Reason.UTF16), (b"\xfe\xff\x00{", Reason.UTF16)],
)
def test_what_is_not_read_at_all_says_so_once(head: bytes, reason: Reason) -> None:
    """Zstandard and UTF-16 files give one reason that says what to do, not one a line."""
    assert [(None, reason)] == reasons(head + b"\n\n\n")


class _Dribble:
    """A source that gives one byte at a time, as a slow pipe may."""

    def __init__(self, data: bytes) -> None:
        self._left = io.BytesIO(data)

    def read(self, size: int = -1, /) -> bytes:
        return self._left.read(min(size, 1))


@pytest.mark.parametrize("data", [_GOOD, gzip.compress(_GOOD)])
def test_slow_pipes_read_the_same(data: bytes) -> None:
    """What kind of file it is does not hang on how many bytes the first read gave."""
    assert read(data) == list(files.read(_Dribble(data), name="f"))


class _Broken:
    """A source that fails after its first bytes."""

    def __init__(self, first: bytes) -> None:
        self._first = first

    def read(self, size: int = -1, /) -> bytes:
        if not self._first:
            raise OSError(5, "Input/output error")
        piece, self._first = self._first[:size], self._first[size:]
        return piece


@pytest.mark.parametrize("first", [b"", _GOOD * 3000, gzip.compress(_GOOD)[:-3]])
def test_failing_device_is_our_error(first: bytes) -> None:
    """A device that fails raises InputError, which names the source; it is not taken for the end."""
    with pytest.raises(InputError, match=r"^f: cannot be read: Input/output error$"):
        list(files.read(_Broken(first), name="f"))


def test_text_that_begins_with_a_line_end_is_no_protobuf() -> None:
    """0x0A begins both a protobuf message and a file with an empty first line."""
    assert [CallRecord] == [type(item) for item in read(b"\n{\n" + json.dumps(_RECORD)[1:].encode())]
    assert read(_GOOD) == read(b"\n\n" + _GOOD)
    assert [(2, Reason.NOT_JSON)] == reasons(b"\nhello\n" + _GOOD)
    assert [(2, Reason.NOT_JSON)] == reasons(b'\n{"\x00"}\n' + _GOOD)


def test_every_reason_is_explained() -> None:
    """Each reason has a phrase for people, and none of them is the bare word."""
    assert [] == [reason for reason in Reason if explain(reason) == reason.value]
    assert "a call record without the field `tool`" == explain(Reason.MISSING_FIELD.of("tool"))
    assert [Reason.SKIPPED_LOGS, Reason.SKIPPED_METRICS] == [reason for reason in Reason if is_skip(reason)]


def test_format_protobuf_on_text_says_so() -> None:
    """A text file read as protobuf gives one reason."""
    assert [(None, Reason.NOT_PROTOBUF)] == reasons(_GOOD, Format.OTLP_PROTO)
