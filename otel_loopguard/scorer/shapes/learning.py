"""Learns the shape of a span that was read.

Invariants: the reader of facts decides, and nothing else: it is asked what each slot does, and one that does not go
into one field as it is becomes a constant. Nothing is learned of a span that holds content, and no value is kept of an
attribute whose namespace nothing is read from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from otel_loopguard import attributes as attr
from otel_loopguard import dialects
from otel_loopguard.content import KeyKind, kind_of_key
from otel_loopguard.facts import FactsReader
from otel_loopguard.files import otlp_wire
from otel_loopguard.files.sources import DamagedError
from otel_loopguard.model import Role, Span, SpanFacts
from otel_loopguard.scorer.shapes import slots
from otel_loopguard.scorer.shapes.shape import CALL, FIELDS, Origin, Shape, form_of
from otel_loopguard.scorer.shapes.slots import PLACES, TEXT, WHOLE, Slot, Unlike

_DIGESTS: Final = frozenset(
    {
        attr.CALL_DIGEST,
        attr.RESULT_DIGEST,
        attr.STATE_DIGEST,
        attr.IDEMPOTENCY_DIGEST,
        attr.BUSINESS_DIGEST,
        attr.ERROR_DIGEST,
    }
)
_NAMES: Final = frozenset({attr.RUN_ID, attr.PRODUCER_ID, attr.CALL_ID, attr.TURN_ID, attr.TOOL_CALL_ID})
_CONVERSATIONS: Final = frozenset({attr.CONVERSATION_ID, attr.SESSION_ID})
_COUNTS: Final = frozenset(
    {
        attr.CALL_SEQUENCE,
        attr.CALL_STARTED,
        attr.REPEAT_COUNT,
        attr.NEW_ITEMS,
        attr.RESULT_WORDS,
        attr.NEAR_REPEAT_COUNT,
        attr.NEAR_REPEAT_ALIKE,
        attr.NEAR_RESULT_COUNT,
    }
)
_HEADS: Final = frozenset(
    name.partition(".")[0]
    for value in vars(attr).values()
    for name in (value if isinstance(value, tuple) else (value,))
    if isinstance(name, str)
)
"""Of attribute names that anything is read from; what others hold makes no difference, and may be content."""
_MAY_BE_CONTENT: Final = frozenset({KeyKind.CONTENT, KeyKind.WORD})
_ATTRIBUTE: Final = 0x4A
_CHANGING: Final = frozenset({0x5A, 0x6A})
"""Tags of events and links: no two are alike."""
_PAIR: Final = [0x0A, 0x12]
"""Tags of a key and its value."""
_ALL_PLACES: Final = [field for field, _, _ in PLACES.values()]
_ROOT_PLACES: Final = [field for field in _ALL_PLACES if field != "parent_id"]
_decode: Final = msgspec.msgpack.Decoder().decode
_decode_span: Final = msgspec.msgpack.Decoder(SpanFacts).decode
_encode: Final = msgspec.msgpack.Encoder().encode


class Teacher:
    """Says what reading makes of spans.

    Args:
        reader: makes facts of them.
        conversation: its digest of a conversation's id.
    """

    def __init__(self, reader: FactsReader, conversation: Callable[[str], str]) -> None:
        self._reader, self._conversation = reader, conversation
        self._last: tuple[bytes, bytes] = (b"", b"")
        """The conversation that was digested last, and its digest: the spans of a trace come together."""

    def facts(self, span: Span) -> SpanFacts:
        """Returns the facts of a span.

        Raises:
            Unlike: it is no tool span of our processor's, or holds content.
        """
        reading = dialects.read(span)
        if reading is None or reading.role is not Role.TOOL:
            raise Unlike
        if reading.arguments.unknown is None or reading.result.unknown is None or reading.error_text:
            raise Unlike
        return self._reader.of_reading(span, reading)

    def conversation(self, text: bytes) -> bytes:
        """Returns the digest of a conversation's id."""
        last, digest = self._last
        if last != text:
            digest = self._conversation(text.decode()).encode()
            self._last = (text, digest)
        return digest


def learned(teacher: Teacher, message: bytes, span: Span, number: int) -> Shape | None:
    """Makes the shape of a span.

    Args:
        teacher: says what reading makes of it.
        message: its bytes.
        span: what they say.
        number: of the shape; no other has it.

    Returns:
        None where spans like it have to be read.

    Cost: some 2 ms.
    """
    try:
        return _Learning(teacher, message, span).shape(number)
    except Unlike:
        return None


class _Learning:
    def __init__(self, teacher: Teacher, message: bytes, span: Span) -> None:
        self._teacher, self._message, self._span = teacher, message, span
        self._facts = teacher.facts(span)
        self._fields = _flat(self._facts)
        self._unread: list[Slot] = []
        """Values that nothing is read from."""

    def shape(self, number: int) -> Shape:
        places, candidates = self._slots()
        found: list[tuple[str, Slot]] = list(places)
        for slot in candidates:
            field = self._goes_into(slot)
            if field is not None:
                found.append((field, slot))
        if len({field for field, _ in found}) < len(found):
            raise Unlike
        shape = Shape(
            number,
            self._pattern([*[slot for _, slot in found], *self._unread]),
            form_of(self._facts, dict(found)),
            _ordered(found, skipped=len(places)),
            parent=self._facts.parent_id is not None,
        )
        self._check(shape, [*[slot for _, slot in found], *self._unread])
        return shape

    def _slots(self) -> tuple[list[tuple[str, Slot]], list[Slot]]:
        """The slots of ids and times, each with its field, and those that attributes may have."""
        message = self._message
        places: list[tuple[str, Slot]] = []
        candidates: list[Slot] = []
        keys: set[bytes] = set()
        try:
            for tag, start, end in otlp_wire.fields(message, 0, len(message)):
                if tag in PLACES:
                    field, size, slot = PLACES[tag]
                    if end - start != size or candidates:
                        raise Unlike
                    places.append((field, slot(start, message[start:end])))
                elif tag in _CHANGING:
                    raise Unlike
                elif tag == _ATTRIBUTE:
                    candidates += self._of_attribute(start, end, keys)
        except (DamagedError, IndexError):
            raise Unlike from None
        found = [field for field, _ in places]
        if found not in (_ROOT_PLACES, _ALL_PLACES):
            raise Unlike
        return places, candidates

    def _of_attribute(self, start: int, end: int, keys: set[bytes]) -> Iterator[Slot]:
        message = self._message
        parts = list(otlp_wire.fields(message, start, end))
        if [tag for tag, _, _ in parts] != _PAIR:
            raise Unlike
        (_, key_start, key_end), (_, value_start, value_end) = parts
        key = message[key_start:key_end]
        if key in keys:
            raise Unlike
        keys.add(key)
        if kind_of_key(key.decode()) in _MAY_BE_CONTENT:
            raise Unlike
        inner = list(otlp_wire.fields(message, value_start, value_end))
        if len(inner) == 1:
            tag, first, after = inner[0]
            slot = self._of_value(key.decode(), tag, first, message[first:after])
            if slot is not None:
                yield slot

    def _of_value(self, key: str, tag: int, start: int, value: bytes) -> Slot | None:
        if key.partition(".")[0] not in _HEADS:
            self._unread.append(slots.text_slot(start, value) if tag == TEXT else slots.whole_slot(start, value, tag))
            return None
        if tag == WHOLE:
            return slots.count_slot(start, value) if key in _COUNTS else None
        if tag != TEXT:
            return None
        if key in _DIGESTS:
            return slots.digest_slot(start, value)
        if key in _NAMES:
            return slots.name_slot(start, value, own=key != attr.TOOL_CALL_ID)
        if key in _CONVERSATIONS:
            return slots.name_slot(start, value, own=False, turn=self._teacher.conversation)
        return None

    def _goes_into(self, slot: Slot) -> str | None:
        """The one field that holds what stands in the slot, as it is; None where it is not so."""
        fields = self._read({slot.start: slot})
        changed = [field for field, value in fields.items() if value != self._fields[field]]
        if len(changed) != 1 or fields[changed[0]] != _decode(slot.written(slot.other)):
            return None
        return changed[0]

    def _read(self, others: Mapping[int, Slot]) -> dict[str, Any]:
        """The facts of the span with other values in some slots."""
        message = self._altered(others)
        span = otlp_wire.one(message, self._span.scope, self._span.resource)
        if span is None:
            raise Unlike
        return _flat(self._teacher.facts(span))

    def _altered(self, others: Mapping[int, Slot]) -> bytes:
        altered = bytearray(self._message)
        for start, slot in others.items():
            altered[start : slot.end] = slot.other
        return bytes(altered)

    def _pattern(self, parts: Sequence[Slot]) -> re.Pattern[bytes]:
        pieces: list[bytes] = []
        place = 0
        for slot in sorted(parts, key=lambda one: one.start):
            pieces += [re.escape(self._message[place : slot.start]), slot.pattern]
            place = slot.end
        pieces.append(re.escape(self._message[place:]))
        return re.compile(b"".join(pieces), re.DOTALL)

    def _check(self, shape: Shape, parts: Sequence[Slot]) -> None:
        """Sees to it that the shape says of this span, and of one with all slots changed, what reading says."""
        origin = Origin(*(_encode(getattr(self._facts, name)) for name in Origin._fields))
        changed: tuple[dict[int, Slot], ...] = ({}, {slot.start: slot for slot in parts})
        for others in changed:
            message = self._altered(others)
            row = shape.row(message, 0, len(message), origin)
            if row is None or _flat(_decode_span(row.facts)) != self._read(others):
                raise Unlike


def _flat(facts: SpanFacts) -> dict[str, Any]:
    """Facts by field, as `shape.FIELDS` has them."""
    if facts.call is None:
        raise Unlike
    call = facts.call
    return {
        name: getattr(call, name.removeprefix(CALL)) if name.startswith(CALL) else getattr(facts, name)
        for name in FIELDS
    }


def _ordered(found: Sequence[tuple[str, Slot]], *, skipped: int) -> list[tuple[int, str, Slot]]:
    """Slots of attributes in the order of a row, each with its group."""
    groups = [(group, *one) for group, one in enumerate(sorted(found, key=lambda one: one[1].start))]
    return sorted(groups[skipped:], key=lambda one: FIELDS.index(one[1]))
