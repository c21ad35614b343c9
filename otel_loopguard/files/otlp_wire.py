"""OTLP trace messages in protobuf, taken apart span by span: nothing is decoded before it is asked for.

Invariants: a span that is no message costs itself only, an attribute value that is none is left out and counted as
dropped. Memory is bounded by the spans that come out and by the largest span that went in, whatever the bytes are:
a message of protobuf's own takes up to 75 times the bytes that it is made from.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Container, Iterator, Mapping
from typing import Any, Final, Protocol, TypeAlias

from google.protobuf.message import DecodeError
from msgspec.structs import replace

from otel_loopguard.files.otlp_messages import parse_resource, parse_scope, parse_span, parse_status, parse_value
from otel_loopguard.files.reasons import Reason
from otel_loopguard.files.sources import DamagedError
from otel_loopguard.files.spans import Item, Report, SpanError, parent_id, reporter, span_id, trace_id
from otel_loopguard.model import Span, SpanEvent, SpanKey, Value

Wanted: TypeAlias = Callable[[str, str, Collection[str]], bool]
"""Tells from a span's name, its scope and its attribute keys whether more of it is wanted than these and its place."""


class Recogniser(Protocol):
    """Takes spans of one scope of one resource without their being read whole."""

    @property
    def sizes(self) -> Container[int]:
        """How many bytes the spans have that it may know."""

    def known(self, message: bytes, start: int, end: int) -> bool:
        """Takes the span that these bytes of a message are, if it knows it."""

    def read(self, message: bytes, span: Span) -> None:
        """Is told of a span that was read, and of its bytes."""

    def plain(self, trace_id: str, span_id: str, parent_id: str | None, start_ns: int, end_ns: int | None) -> None:
        """Takes a span that is not wanted."""


Recognise: TypeAlias = Callable[[str, Mapping[str, Value]], Recogniser]
"""Gives what takes the spans of a scope of a resource."""

MAX_PARTS: Final = 65_536
"""Attributes, events and links of one span, and entries of one attribute value, at most; the SDK's limits are 128."""
MAX_PARTS_A_MESSAGE: Final = 1_000_000
"""The same of all spans of a message together; each takes some 100 bytes of memory."""
_SMALL_BYTES: Final = 2 * MAX_PARTS
"""Messages shorter than this cannot have more parts: each takes two bytes at least."""
_NESTED_BYTES: Final = 2**20
"""Lists and maps longer than this are left out: their messages would take 30 times as much."""
_LEAST_BYTES: Final = 10
"""A span with ids, alone in a scope and a resource, are three parts in 34 bytes."""
_FEW_PARTS: Final = 1000
"""So many parts may have no bytes to speak of."""
_MAX_KIND: Final = 5
_MAX_STATUS: Final = 2
_UNSET: Final = (0, "")
"""Code and message of a span without a status, which most are."""

# --- the wire -----------------------------------------------------------------------------------------

_MORE: Final = 0x80
"""The bit that says that a varint goes on."""
_MAX_SHIFT: Final = 63
_ONE: Final = 1 << 3 | 2
"""Tag of field 1, length-delimited: the resource of a ResourceSpans, the scope of a ScopeSpans."""
_TWO: Final = 2 << 3 | 2
"""Tag of field 2, length-delimited: the ScopeSpans of a ResourceSpans, the spans of a ScopeSpans."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_TEXT: Final = _ONE
_BOOL: Final = 2 << 3 | _VARINT
_INT: Final = 3 << 3 | _VARINT
_DOUBLE: Final = 4 << 3 | _FIXED64
_LIST: Final = 5 << 3 | _BYTES
_MAP: Final = 6 << 3 | _BYTES
_UNSIGNED: Final = 2**64
_SIGNED: Final = 2**63
_TRACE_BYTES: Final = 16
_SPAN_BYTES: Final = 8
_NO_TRACE: Final = bytes(_TRACE_BYTES)
_NO_SPAN: Final = bytes(_SPAN_BYTES)
_DOUBLE_BYTES: Final = struct.Struct("<d")

_Place: TypeAlias = tuple[int, int]
"""Where a part of a message begins and where it ends."""


def items(
    message: bytes,
    report: Report,
    *,
    wanted: Wanted | None = None,
    most: int | None = None,
    recognise: Recognise | None = None,
) -> list[Item]:
    """Reads the spans of one trace message (TracesData or ExportTraceServiceRequest).

    Args:
        message: its bytes.
        report: makes reasons out of words.
        wanted: which spans to read whole; None: all. The others come with ids, name, scope, times and resource.
        most: how many spans, scopes and resources may be in it, together; None: as many as can be sound.
        recognise: what takes spans before they are read; None: nothing does.

    Returns:
        Spans in the order of the message but for those that were taken, and the reasons for what is missing at their
        places.

    Raises:
        DamagedError: NOT_PROTOBUF, nothing of it can be trusted; TOO_MANY, it has more parts than that, or than
            there is memory for.
    """
    reader = _Reader(report, wanted)
    for resource_bytes, scopes in _Frame(message, most).groups():
        resource, _ = reader.attributes(_parsed(parse_resource, resource_bytes).attributes)
        for scope_bytes, spans in scopes:
            name = _parsed(parse_scope, scope_bytes).name
            recogniser = None if recognise is None else recognise(name, resource)
            sizes = () if recogniser is None else recogniser.sizes
            for start, end in spans:
                if recogniser is None or end - start not in sizes or not recogniser.known(message, start, end):
                    reader.span(message[start:end], name, resource, recogniser)
    return reader.items


def one(message: bytes, scope: str, resource: Mapping[str, Value]) -> Span | None:
    """Reads one span; None where it cannot be used as it is."""
    reader = _Reader(reporter("", None), None)
    reader.span(message, scope, resource)
    (item, *more) = reader.items
    return item if isinstance(item, Span) and not more else None


def fields(message: bytes, place: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yields the fields of a message: the tag, and where the value begins and ends, its length left out.

    Raises:
        IndexError: the bytes end too early.
        DamagedError: they are no message.
    """
    while place < end:
        tag, start = _varint(message, place)
        place = _after(message, place)
        if tag & 7 == _BYTES:
            _, start = _varint(message, start)
        yield tag, start, place
    if place != end:
        raise DamagedError(Reason.NOT_PROTOBUF)


def is_request(message: bytes) -> bool:
    """Tells whether a message that `items` has read holds a ResourceSpans, or nothing at all."""
    return not message or bool(_Frame(message, None).groups())


class _Frame:
    """The parts of a trace message around its spans.

    All of it is walked before any span is read, so that damage anywhere in it is found first.
    """

    def __init__(self, message: bytes, most: int | None) -> None:
        self._message = message
        self._left = max(_FEW_PARTS, len(message) // _LEAST_BYTES)
        """Parts that there may still be."""
        if most is not None:
            self._left = min(self._left, most)

    def groups(self) -> list[tuple[bytes, list[tuple[bytes, list[_Place]]]]]:
        """Each resource with its scopes, each scope with the places of its spans."""
        groups, _ = self._split(0, len(self._message))
        found = []
        for group in groups:
            resource, scopes = self._split(*group)
            scoped = []
            for place in scopes:
                scope, spans = self._split(*place)
                scoped.append((self._joined(scope), spans))
            found.append((self._joined(resource), scoped))
        return found

    def _split(self, place: int, end: int) -> tuple[list[_Place], list[_Place]]:
        """Where the fields 1 and 2 of a message stand; all its other fields are passed over, and count all the same."""
        message, left = self._message, self._left
        ones: list[_Place] = []
        twos: list[_Place] = []
        try:
            while place < end:
                tag, length = message[place], message[place + 1]
                if tag in (_ONE, _TWO):
                    place += 2
                    if length & _MORE:
                        length, place = _varint(message, place - 1)
                    start, place = place, place + length
                    (twos if tag == _TWO else ones).append((start, place))
                else:
                    place = _after(message, place)
                left -= 1
                if left < 0:
                    raise DamagedError(Reason.TOO_MANY)
        except IndexError:
            raise DamagedError(Reason.NOT_PROTOBUF) from None
        if place != end:
            raise DamagedError(Reason.NOT_PROTOBUF)
        self._left = left
        return ones, twos

    def _joined(self, places: list[_Place]) -> bytes:
        """A field's message; of one that stands several times the parts are merged, as protobuf does."""
        return b"".join([self._message[start:end] for start, end in places])


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """A number as protobuf writes it, and the place after it; raises IndexError where it does not end."""
    number = shift = 0
    while (byte := message[place]) & _MORE:
        number |= (byte & ~_MORE) << shift
        shift += 7
        place += 1
        if shift > _MAX_SHIFT:
            raise IndexError
    return number | byte << shift, place + 1


def _after(message: bytes, place: int) -> int:
    """The place after the field that begins here; raises IndexError at the end of the bytes."""
    tag, place = _varint(message, place)
    kind = tag & 7
    if kind == _VARINT:
        return _varint(message, place)[1]
    if kind == _BYTES:
        length, place = _varint(message, place)
        return place + length
    if kind in (_FIXED64, _FIXED32) and tag >> 3:
        return place + (8 if kind == _FIXED64 else 4)
    raise DamagedError(Reason.NOT_PROTOBUF)


def _too_many(message: bytes) -> bool:
    """Tells whether a message has more fields than anyone needs, before room is made for them."""
    place = count = 0
    try:
        while place < len(message) and count <= MAX_PARTS:
            place, count = _after(message, place), count + 1
    except (IndexError, DamagedError):
        return False  # protobuf will say so
    return count > MAX_PARTS


def _parsed(parse: Callable[[bytes], Any], message: bytes) -> Any:
    """A resource or a scope; whoever holds the spans of one that is damaged cannot be known."""
    if len(message) >= _SMALL_BYTES and _too_many(message):
        raise DamagedError(Reason.TOO_MANY)
    try:
        return parse(message)
    except DecodeError:
        raise DamagedError(Reason.NOT_PROTOBUF) from None


# --- the spans ----------------------------------------------------------------------------------------


class _Reader:
    """Reads the spans of one message one after the other."""

    def __init__(self, report: Report, wanted: Wanted | None) -> None:
        self.items: list[Item] = []
        self._report = report
        self._wanted = wanted
        self._left = MAX_PARTS_A_MESSAGE

    def _spend(self, parts: int) -> None:
        self._left -= parts
        if self._left < 0:
            raise DamagedError(Reason.TOO_MANY)

    def span(
        self, message: bytes, scope: str, resource: Mapping[str, Value], recogniser: Recogniser | None = None
    ) -> None:
        """Adds one span, or the reason for none, and what had to be left out of it."""
        if len(message) >= _SMALL_BYTES and _too_many(message):
            self.items.append(self._report(Reason.TOO_MANY))
            return
        try:
            span = parse_span(message)
            trace, own = span.trace_id, span.span_id
            # Sound ids, the usual case, made quick.
            key = (
                trace.hex() if len(trace) == _TRACE_BYTES and trace != _NO_TRACE else trace_id(trace.hex()),
                own.hex() if len(own) == _SPAN_BYTES and own != _NO_SPAN else span_id(own.hex()),
            )
        except DecodeError:
            self.items.append(self._report(Reason.BAD_SPAN))
            return
        except SpanError as error:
            self.items.append(self._report(error.reason))
            return
        parent_bytes = span.parent_span_id
        is_sound = len(parent_bytes) == _SPAN_BYTES and parent_bytes != _NO_SPAN
        parent, bad_parent = (parent_bytes.hex(), None) if is_sound else parent_id(parent_bytes.hex())
        name, pairs = span.name, span.attributes
        start, end = span.start_time_unix_nano, span.end_time_unix_nano or None
        if self._wanted is not None and not self._wanted(name, scope, pairs):
            if recogniser is not None:
                recogniser.plain(*key, parent, start, end)
            else:
                self.items.append(
                    Span(
                        trace_id=key[0],
                        span_id=key[1],
                        parent_id=parent,
                        name=name,
                        scope=scope,
                        start_ns=start,
                        end_ns=end,
                        resource=resource,
                    )
                )
            if bad_parent:
                self.items.append(self._report(bad_parent))
            return
        kind = span.kind
        attributes, left_out = self.attributes(pairs)
        status, events, links = span.status, span.events, span.links
        code, text = _status(status) if status else _UNSET
        found_events = self._events(events) if events else ()
        found_links = self._links(links) if links else ()
        found = Span(
            trace_id=key[0],
            span_id=key[1],
            parent_id=parent,
            name=name,
            kind=kind if 0 <= kind <= _MAX_KIND else 0,
            scope=scope,
            start_ns=start,
            end_ns=end,
            status_code=code,
            status_message=text,
            attributes=attributes,
            events=found_events,
            links=found_links,
            resource=resource,
        )
        left_out += span.dropped_attributes_count
        state, events_left_out = span.trace_state, span.dropped_events_count
        if state or left_out or events_left_out:  # past 15 names a call of CPython's takes 0.5 us longer
            found = replace(found, trace_state=state, dropped_attributes=left_out, dropped_events=events_left_out)
        self.items.append(found)
        if recogniser is not None:
            recogniser.read(message, found)
        if bad_parent:
            self.items.append(self._report(bad_parent))
        if links and len(found_links) < len(links):
            self.items.append(self._report(Reason.BAD_LINK_ID))

    def _events(self, events: Any) -> tuple[SpanEvent, ...]:
        self._spend(len(events))
        return tuple(
            [SpanEvent(event.name, self.attributes(event.attributes)[0], event.time_unix_nano) for event in events]
        )

    def _links(self, links: Any) -> tuple[SpanKey, ...]:
        self._spend(len(links))
        found = []
        for link in links:
            try:
                found.append((trace_id(link.trace_id.hex()), span_id(link.span_id.hex())))
            except SpanError:
                continue
        return tuple(found)

    def attributes(self, pairs: Any) -> tuple[dict[str, Value], int]:
        """Attributes as a plain dict, and how many had to be left out because their value was malformed."""
        found: dict[str, Value] = {}
        count = len(pairs)
        self._spend(count)
        for key in pairs:
            raw = pairs[key]
            try:
                # Text, the usual case, made quick: its tag, its length in one or two bytes, and nothing else.
                if raw[0] == _TEXT:
                    length, rest = raw[1], len(raw) - 2
                    if length == rest:
                        found[key] = raw[2:].decode()
                        continue
                    if length & _MORE and raw[2] < _MORE and length & ~_MORE | raw[2] << 7 == rest - 1:
                        found[key] = raw[3:].decode()
                        continue
                found[key] = self._value(raw)
            except IndexError:
                if not raw:
                    found[key] = None
            except (UnicodeDecodeError, DecodeError):
                continue
        return found, count - len(found)

    def _value(self, raw: bytes) -> Value:
        """An attribute value from the bytes of its message.

        Raises DecodeError where they are none, IndexError where they end too early.
        """
        tag = raw[0]
        if tag == _INT:
            if len(raw) == 3 and raw[1] & _MORE and raw[2] < _MORE:  # noqa: PLR2004 - 128 to 16,383, made quick
                return raw[1] & ~_MORE | raw[2] << 7
            number, place = _varint(raw, 1)
            if place == len(raw) and number < _UNSIGNED:
                return number if number < _SIGNED else number - _UNSIGNED
        elif tag == _BOOL and len(raw) == 2:  # noqa: PLR2004 - a tag and one byte
            return raw[1] != 0
        elif tag == _DOUBLE and len(raw) == 1 + _DOUBLE_BYTES.size:
            return _DOUBLE_BYTES.unpack_from(raw, 1)[0]
        elif tag in (_LIST, _MAP) and len(raw) > _NESTED_BYTES:
            raise DecodeError
        return self._plain(parse_value(raw))

    def _plain(self, value: Any) -> Value:
        """The value of a message. Its depth needs no bound of ours: protobuf refuses messages nested 100 deep."""
        kind = value.WhichOneof("value")
        if kind is None:
            return None
        inner = getattr(value, kind)
        if kind in ("array_value", "kvlist_value"):
            self._spend(len(inner.values))
        if kind == "array_value":
            return [self._plain(entry) for entry in inner.values]
        if kind == "kvlist_value":
            return {pair.key: self._plain(pair.value) for pair in inner.values}
        return inner


def _status(raw: bytes) -> tuple[int, str]:
    """A span's status from the bytes of its message."""
    try:
        status = parse_status(raw)
    except DecodeError:
        return _UNSET
    code = status.code
    return code if 0 <= code <= _MAX_STATUS else 0, status.message
