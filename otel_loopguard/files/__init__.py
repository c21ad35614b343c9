"""Reading files of spans and call records, as a stream and in bounded memory.

Invariants: whatever the bytes are, `read` gives spans, call records and reasons, in the order of the input; it
raises only where the source itself cannot be read or an optional part is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from otel_loopguard.files import calls, otlp_json, otlp_loose, otlp_proto
from otel_loopguard.files.reasons import Format, Reason, explain, is_skip
from otel_loopguard.files.sources import (
    DamagedError,
    Readable,
    Stream,
    is_protobuf,
    lines,
    rest,
    unreadable,
)
from otel_loopguard.files.spans import Report, reporter
from otel_loopguard.model import BadInput, CallRecord, Span

__all__ = ["Format", "Reason", "explain", "is_skip", "read"]


def read(source: Readable, *, name: str, fmt: Format = Format.AUTO) -> Iterator[Span | CallRecord | BadInput]:
    """Read one source: OTLP JSON, OTLP protobuf or call records, gzip-packed or not.

    JSON stands one value a line, or as one or more values over many lines. Under `AUTO` each JSON value may be
    of either kind; protobuf is recognised by its first bytes.

    Args:
        source: gives bytes by `read(size)`; not closed.
        name: what the source is called in `BadInput.source`, such as the file's name.
        fmt: what the source holds.

    Yields:
        Spans, call records and reasons, in the order of the input.

    Raises:
        InputError: the source cannot be read.
        MissingExtraError: the source is protobuf and `opentelemetry-proto` is not installed.

    Cost: one line, document or protobuf message in memory at a time.
    """
    report = reporter(name, None)
    try:
        stream = Stream(source, name=name)
        if reason := unreadable(stream.peek(4)):
            yield report(reason)
        elif fmt is Format.OTLP_PROTO or (fmt is Format.AUTO and is_protobuf(stream)):
            yield from otlp_proto.read(stream, name=name)
        else:
            yield from _read_text(stream, name, fmt)
    except DamagedError as damaged:
        yield report(damaged.reason)


def _read_text(stream: Stream, name: str, fmt: Format) -> Iterator[Span | CallRecord | BadInput]:
    first = True
    for number, line in lines(stream):
        report = reporter(name, number)
        if isinstance(line, Reason):
            yield report(line)
        elif first and _opens_document(line, stream):
            whole = rest(stream, line)
            yield from [report(whole)] if isinstance(whole, Reason) else _read_document(whole, number, name, fmt)
            return
        else:
            yield from _read_value(line, report, fmt)
        first = False


def _opens_document(line: bytes, stream: Stream) -> bool:
    """True for the first line of JSON that is spread over many lines, as against a damaged line of JSON lines."""
    text = line.strip()
    if not line.endswith(b"\n") or text.endswith((b"}", b"]")):
        return False
    if text.startswith(b"[") or text.endswith((b"{", b"[")):
        return True
    return text.endswith((b",", b":")) and not stream.peek(64).lstrip().startswith(b"{")


def _read_document(whole: bytes, number: int, name: str, fmt: Format) -> Iterator[Span | CallRecord | BadInput]:
    """The JSON values of a text in which line ends mean nothing; `number` is the line at which it begins."""
    try:
        text = whole.decode()
    except UnicodeDecodeError:
        yield BadInput(source=name, line=number, reason=Reason.NOT_UTF8.value)
        return
    place = 0
    while place < len(text):
        report = reporter(name, number)
        try:
            value, end = calls.parse_at(text, place)
        except calls.RecordError as error:
            yield report(error.reason)
            return
        yield from _read_parsed(value, report, fmt)
        number += text.count("\n", place, end)
        place = end


def _read_value(line: bytes, report: Report, fmt: Format) -> Iterator[Span | CallRecord | BadInput]:
    """What one line of JSON holds."""
    if fmt is not Format.CALLS:
        items = otlp_json.fast(line, report)
        if items is not None:
            yield from items
            return
    try:
        value = calls.parse(line.decode())
    except UnicodeDecodeError:
        yield report(Reason.NOT_UTF8)
    except calls.RecordError as error:
        cut = error.reason == Reason.NOT_JSON and not line.endswith(b"\n")
        yield report(Reason.TRUNCATED if cut else error.reason)
    else:
        yield from _read_parsed(value, report, fmt)


def _read_parsed(value: Any, report: Report, fmt: Format) -> Iterator[Span | CallRecord | BadInput]:
    """What one JSON value holds; a list holds what its entries hold."""
    for entry in value if isinstance(value, list) else (value,):
        if not isinstance(entry, dict):
            yield report(Reason.NOT_AN_OBJECT)
        elif fmt is not Format.CALLS and otlp_loose.is_request(entry):
            yield from otlp_loose.read(entry, report)
        elif fmt is not Format.OTLP_JSON and (fmt is Format.CALLS or calls.looks_like_record(entry)):
            try:
                yield calls.record(entry)
            except calls.RecordError as error:
                yield report(error.reason)
        else:
            yield report(Reason.UNKNOWN_SHAPE)
