"""OTLP in JSON: one ExportTraceServiceRequest a line, as the collector's file exporter writes it.

Invariants: the common shape is decoded by typed structs in one pass; whatever does not fit them goes through
`otlp_loose`, slower and span by span. Attributes are decoded at once:
measured on real captures, decoding them late would save a quarter of one `json.loads`. Of equal attribute keys
the last one wins. An attribute whose value is malformed is left out and counted as dropped.
"""

from __future__ import annotations

import binascii
import math
from base64 import b64decode
from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec.structs import replace

from otel_loopguard.files.reasons import MAX_DEPTH, Reason
from otel_loopguard.files.spans import (
    Item,
    Report,
    SpanError,
    count,
    parent_id,
    span_id,
    trace_id,
    whole_number,
)
from otel_loopguard.model import Span, SpanEvent, SpanKey, Value

_MAX_SIGNED: Final = 2**63 - 1
_DOUBLES: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_KINDS: Final = {"INTERNAL": 1, "SERVER": 2, "CLIENT": 3, "PRODUCER": 4, "CONSUMER": 5}
_DIGITS: Final = frozenset("012345")
_STATUSES: Final = {"OK": 1, "ERROR": 2}


class AnyValue(msgspec.Struct, gc=False, rename="camel"):
    """An attribute value; the first field that is set is it."""

    string_value: str | None = None
    int_value: int | float | str | None = None
    bool_value: bool | None = None
    double_value: float | str | None = None
    array_value: ArrayValue | None = None
    kvlist_value: KeyValues | None = None
    bytes_value: str | None = None


class ArrayValue(msgspec.Struct, gc=False, rename="camel"):
    """A list of values."""

    values: list[AnyValue | None] | None = None


class KeyValue(msgspec.Struct, gc=False, rename="camel"):
    """One attribute."""

    key: str = ""
    value: AnyValue | None = None


class KeyValues(msgspec.Struct, gc=False, rename="camel"):
    """A map of values."""

    values: list[KeyValue] | None = None


class EventFields(msgspec.Struct, gc=False, rename="camel"):
    """One event of a span."""

    time_unix_nano: int | float | str | None = None
    name: str | None = None
    attributes: list[KeyValue] | None = None


class LinkFields(msgspec.Struct, gc=False, rename="camel"):
    """A link of a span."""

    trace_id: str | None = None
    span_id: str | None = None


class StatusFields(msgspec.Struct, gc=False, rename="camel"):
    """A span's status."""

    code: int | str | None = None
    message: str | None = None


class SpanFields(msgspec.Struct, gc=False, rename="camel"):
    """One span as OTLP/JSON names its parts."""

    trace_id: str | None = None
    span_id: str | None = None
    trace_state: str | None = None
    parent_span_id: str | None = None
    name: str | None = None
    kind: int | str | None = None
    start_time_unix_nano: int | float | str | None = None
    end_time_unix_nano: int | float | str | None = None
    attributes: list[KeyValue] | None = None
    dropped_attributes_count: int | str | None = None
    events: list[EventFields] | None = None
    dropped_events_count: int | str | None = None
    links: list[LinkFields] | None = None
    status: StatusFields | None = None
    snake_id: msgspec.Raw | None = msgspec.field(default=None, name="trace_id")


class _Scope(msgspec.Struct, gc=False, rename="camel"):
    name: str | None = None


class _Resource(msgspec.Struct, gc=False, rename="camel"):
    attributes: list[KeyValue] | None = None


class _ScopeSpans(msgspec.Struct, gc=False, rename="camel"):
    scope: _Scope | None = None
    spans: list[SpanFields] | None = None


class _ResourceSpans(msgspec.Struct, gc=False, rename="camel"):
    resource: _Resource | None = None
    scope_spans: list[_ScopeSpans] | None = None
    snake_spans: msgspec.Raw | None = msgspec.field(default=None, name="scope_spans")


class _Request(msgspec.Struct, gc=False, rename="camel"):
    resource_spans: list[_ResourceSpans] | None = None
    snake_spans: msgspec.Raw | None = msgspec.field(default=None, name="resource_spans")
    resource_logs: msgspec.Raw | None = None
    resource_metrics: msgspec.Raw | None = None


_REQUEST: Final = msgspec.json.Decoder(_Request)


def fast(line: bytes, report: Report) -> list[Item] | None:
    """The spans of one request in the common shape, or None where the line needs `otlp_loose`."""
    try:
        request = _REQUEST.decode(line)
    except (ValueError, RecursionError):  # of msgspec's own, or, from its lowest version, about text that is not UTF-8
        return None
    if not request.resource_spans or request.snake_spans or request.resource_logs or request.resource_metrics:
        return None
    items: list[Item] = []
    lists = 1
    for group in request.resource_spans:
        if group.snake_spans:
            return None
        lists += 1
        resource, _ = attributes(group.resource.attributes if group.resource else None)
        for scoped in group.scope_spans or ():
            lists += 1
            scope = (scoped.scope.name or "") if scoped.scope else ""
            for span in scoped.spans or ():
                if span.snake_id:
                    return None
                items.extend(item(span, scope, resource, report))
    # Of a key that stands twice the decoder keeps the last: more lists named than seen are for the careful reader.
    # Inside text a quote is escaped, so that none of these can be part of it.
    named = line.count(b'"resourceSpans"') + line.count(b'"scopeSpans"') + line.count(b'"spans"')
    return items if named <= lists else None


def item(
    span: SpanFields,
    scope: str,
    resource: dict[str, Value],
    report: Report,
    *,
    malformed: int = 0,
) -> list[Item]:
    """One decoded span as our own record, then the reasons for what had to be left out of it.

    `malformed` counts attributes that were left out before.
    """
    try:
        key = trace_id(span.trace_id), span_id(span.span_id)
        start, end = whole_number(span.start_time_unix_nano), whole_number(span.end_time_unix_nano)
        events = tuple(map(_event, span.events)) if span.events else ()
    except SpanError as error:
        return [report(error.reason)]
    parent, bad_parent = parent_id(span.parent_span_id) if span.parent_span_id else (None, None)
    links = _links(span.links) if span.links else ()
    values, left_out = attributes(span.attributes)
    status = span.status
    found = Span(
        trace_id=key[0],
        span_id=key[1],
        parent_id=parent,
        name=span.name or "",
        kind=_number(span.kind, _KINDS, "SPAN_KIND_"),
        scope=scope,
        start_ns=start,
        end_ns=end or None,
        status_code=_number(status.code, _STATUSES, "STATUS_CODE_") if status else 0,
        status_message=(status.message or "") if status else "",
        attributes=values,
        events=events,
        links=links,
        resource=resource,
    )
    state, events_left_out = span.trace_state or "", count(span.dropped_events_count)
    left_out += malformed + count(span.dropped_attributes_count)
    if state or left_out or events_left_out:  # past 15 names a call of CPython's takes 0.5 us longer
        found = replace(found, trace_state=state, dropped_attributes=left_out, dropped_events=events_left_out)
    read: list[Item] = [found]
    if bad_parent:
        read.append(report(bad_parent))
    if span.links and len(links) < len(span.links):
        read.append(report(Reason.BAD_LINK_ID))
    return read


def _event(event: EventFields) -> SpanEvent:
    values, _ = attributes(event.attributes)
    return SpanEvent(event.name or "", values, whole_number(event.time_unix_nano))


def _links(links: Iterable[LinkFields]) -> tuple[SpanKey, ...]:
    found = []
    for link in links:
        try:
            found.append((trace_id(link.trace_id), span_id(link.span_id)))
        except SpanError:
            continue
    return tuple(found)


def _number(value: float | str | None, names: dict[str, int], prefix: str) -> int:
    """An enumeration's number, given as such or, as protobuf's JSON mapping allows, by name; 0 where unknown."""
    if type(value) is int:
        return value if 0 <= value <= len(names) else 0
    if isinstance(value, str):
        return _number(int(value), names, prefix) if value in _DIGITS else names.get(value.removeprefix(prefix), 0)
    return 0


def attributes(pairs: Iterable[KeyValue] | None) -> tuple[dict[str, Value], int]:
    """Attributes as a plain dict, and how many had to be left out because their value was malformed."""
    found: dict[str, Value] = {}
    malformed = 0
    for pair in pairs or ():
        value = pair.value
        if value is None:
            found[pair.key] = None
        elif (text := value.string_value) is not None:
            found[pair.key] = text
        else:
            try:
                found[pair.key] = _value(value, MAX_DEPTH)
            except ValueError:
                malformed += 1
    return found, malformed


def _value(value: AnyValue | None, depth: int) -> Value:
    """An attribute value other than plain text; raises ValueError where it is malformed or too deep."""
    if value is None:
        return None
    if value.string_value is not None:
        return value.string_value
    if value.int_value is not None:
        return _integer(value.int_value)
    if value.bool_value is not None:
        return value.bool_value
    if value.double_value is not None:
        return _double(value.double_value)
    if value.bytes_value is not None:
        return _bytes(value.bytes_value)
    if depth == 0:
        raise ValueError
    return _nested(value, depth - 1)


def _nested(value: AnyValue, depth: int) -> Value:
    if value.array_value is not None:
        return [_value(entry, depth) for entry in value.array_value.values or ()]
    if value.kvlist_value is not None:
        return {pair.key: _value(pair.value, depth) for pair in value.kvlist_value.values or ()}
    return None


def _integer(value: float | str) -> int:
    if value == "" or (isinstance(value, float) and not value.is_integer()):
        raise ValueError
    try:
        number = whole_number(value)
    except SpanError:
        raise ValueError from None
    if number > _MAX_SIGNED:
        raise ValueError
    return number


def _double(value: float | str) -> float:
    if not isinstance(value, str):
        return value
    return _DOUBLES[value] if value in _DOUBLES else float(value)


def _bytes(text: str) -> bytes:
    """Base64 of either alphabet, padding optional, as protobuf's JSON mapping allows."""
    plain = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except binascii.Error:
        raise ValueError from None
