"""OTLP in protobuf: trace messages one after the other, bare or with a four-byte big-endian length before each.

Invariants: a bare stream is read one ResourceSpans at a time, so memory is bounded by the largest of them and
concatenated messages are one stream. After damage a bare stream cannot be found again and ends with a reason;
a framed one goes on with the next frame.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from otel_loopguard.errors import MissingExtraError
from otel_loopguard.files.reasons import MAX_LINE_BYTES, Reason
from otel_loopguard.files.sources import FRAME_BYTES, RESOURCE_SPANS_TAG, Stream, is_framed
from otel_loopguard.files.spans import Item, Report, SpanError, parent_id, reporter, span_id, trace_id
from otel_loopguard.model import Span, SpanEvent, SpanKey, Value

_MAX_VARINT_BYTES: Final = 5
_MORE: Final = 0x80
"""The bit that says that a varint goes on."""
_MAX_KIND: Final = 5
_MAX_STATUS: Final = 2


def read(stream: Stream, *, name: str) -> Iterator[Item]:
    """The spans of a stream of protobuf trace messages.

    Raises:
        MissingExtraError: `opentelemetry-proto` is not installed.
        InputError: the device failed.
    """
    message_type, decode_error = _protobuf()
    pieces = _frames(stream) if is_framed(stream.peek(FRAME_BYTES + 1)) else _groups(stream)
    for number, piece in enumerate(pieces, start=1):
        report = reporter(f"{name}, message {number}", None)
        if isinstance(piece, Reason):
            yield report(piece)
            continue
        try:
            message = message_type.FromString(piece)
        except decode_error:
            yield report(Reason.NOT_PROTOBUF)
            continue
        yield from _items(message, report)


def _protobuf() -> tuple[Any, type[Exception]]:
    """The message type of a trace file and the error that protobuf raises on bytes that are no message."""
    try:
        from google.protobuf.message import DecodeError  # noqa: PLC0415 - an optional part
        from opentelemetry.proto.trace.v1.trace_pb2 import TracesData  # noqa: PLC0415 - an optional part
    except ImportError as error:
        message = 'reading protobuf needs opentelemetry-proto: pip install "otel-loopguard[cli]"'
        raise MissingExtraError(message) from error
    return TracesData, DecodeError


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


def _items(message: Any, report: Report) -> Iterator[Item]:
    for group in message.resource_spans:
        resource = _attributes(group.resource.attributes)
        for scoped in group.scope_spans:
            scope = scoped.scope.name
            for span in scoped.spans:
                yield from _item(span, scope, resource, report)


def _item(span: Any, scope: str, resource: dict[str, Value], report: Report) -> Iterator[Item]:
    try:
        key = trace_id(span.trace_id.hex()), span_id(span.span_id.hex())
    except SpanError as error:
        yield report(error.reason)
        return
    parent, bad_parent = parent_id(span.parent_span_id.hex())
    links = tuple(_links(span.links))
    yield Span(
        trace_id=key[0],
        span_id=key[1],
        parent_id=parent,
        name=span.name,
        kind=span.kind if 0 <= span.kind <= _MAX_KIND else 0,
        scope=scope,
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano or None,
        status_code=span.status.code if 0 <= span.status.code <= _MAX_STATUS else 0,
        status_message=span.status.message,
        attributes=_attributes(span.attributes),
        events=tuple(
            SpanEvent(event.name, _attributes(event.attributes), event.time_unix_nano) for event in span.events
        ),
        links=links,
        resource=resource,
        trace_state=span.trace_state,
        dropped_attributes=span.dropped_attributes_count,
        dropped_events=span.dropped_events_count,
    )
    if bad_parent:
        yield report(bad_parent)
    if len(links) < len(span.links):
        yield report(Reason.BAD_LINK_ID)


def _links(links: Any) -> Iterator[SpanKey]:
    for link in links:
        try:
            yield trace_id(link.trace_id.hex()), span_id(link.span_id.hex())
        except SpanError:
            continue


def _attributes(pairs: Any) -> dict[str, Value]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: Any) -> Value:
    """An attribute value. Its depth needs no bound of ours: protobuf refuses messages nested 100 deep."""
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    inner = getattr(value, kind)
    if kind == "array_value":
        return [_value(entry) for entry in inner.values]
    if kind == "kvlist_value":
        return {pair.key: _value(pair.value) for pair in inner.values}
    return inner
