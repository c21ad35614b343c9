"""One shape: what spans have in common that differ in their slots only.

Invariants: pure; a row is MessagePack of `SpanFacts`, with every field in its place.
"""

from __future__ import annotations

import re
from binascii import hexlify
from collections.abc import Mapping, Sequence
from operator import itemgetter
from struct import Struct
from typing import Final, NamedTuple

import msgspec

from otel_loopguard.model import CallFacts, SpanFacts
from otel_loopguard.scorer.records import Row
from otel_loopguard.scorer.shapes.slots import STR_16, STR_32, UINT_64, Slot

CALL: Final = "call."
"""Before the names of the fields of `CallFacts`."""
FIELDS: Final = tuple(
    name
    for field in SpanFacts.__struct_fields__
    for name in ([f"{CALL}{inner}" for inner in CallFacts.__struct_fields__] if field == "call" else [field])
)
"""The fields of the facts of a call, in the order of a row."""
_JOINING: Final = frozenset({"run_id", "conversation", f"{CALL}business_digest"})
"""What may join a trace to others (`groups.joining_names`)."""
_FIRST_OF_CALL: Final = f"{CALL}{CallFacts.__struct_fields__[0]}"
_NIL: Final = b"\xc0"
_encode: Final = msgspec.msgpack.Encoder().encode
_big_endian: Final = Struct(">Q").pack


class Origin(NamedTuple):
    """What the resource says in every span's facts, as MessagePack."""

    service: bytes
    release: bytes
    host: bytes


class Shape:
    """What spans of one shape have in common.

    Args:
        number: of the shape; no other has it.
        pattern: its groups are the slots, ids and times first.
        form: of the facts, with gaps (`form_of`).
        slots: group from 0, field, and slot of what is in the form after the resource, in its order.
        parent: whether its spans have one.
    """

    __slots__ = ("_form", "_joins", "_match", "_number", "_order", "_parent", "_turns", "pattern")

    def __init__(
        self,
        number: int,
        pattern: re.Pattern[bytes],
        form: bytes,
        slots: Sequence[tuple[int, str, Slot]],
        *,
        parent: bool,
    ) -> None:
        self._number = number
        self.pattern: Final = pattern
        self._match = pattern.fullmatch
        self._form = form
        self._parent = parent
        # A getter of two at least gives a tuple; the first group is there for that alone.
        self._order = itemgetter(0, 0, *[group for group, _, _ in slots])
        self._turns = [(place, slot.turn) for place, (_, _, slot) in enumerate(slots, 2) if slot.turn is not None]
        self._joins = itemgetter(0, 0, *[group for group, field, _ in slots if field in _JOINING])

    def fits(self, message: bytes) -> bool:
        """Tells whether a span is of this shape."""
        return self._match(message) is not None

    def row(self, message: bytes, start: int, end: int, origin: Origin) -> Row | None:
        """Returns the facts of a span of this shape; None for any other."""
        found = self._match(message, start, end)
        if found is None:
            return None
        groups = found.groups()
        values = self._order(groups)[2:]
        if self._turns:
            turned = list(values)
            for place, turn in self._turns:
                turned[place - 2] = turn(turned[place - 2])
            values = tuple(turned)
        trace = hexlify(groups[0])
        if self._parent:
            _, own, parent, began, ended = groups[:5]
            facts = self._form % (trace, hexlify(own), hexlify(parent), began[::-1], ended[::-1], *origin, *values)
        else:
            _, own, began, ended = groups[:4]
            facts = self._form % (trace, hexlify(own), began[::-1], ended[::-1], *origin, *values)
        return Row(trace.decode(), facts, not self._parent, (self._number, self._joins(groups)[2:]))


def form_of(facts: SpanFacts, slots: Mapping[str, Slot]) -> bytes:
    """Returns a format of some facts: with a gap for each slot, and for what the resource says.

    Args:
        facts: of a call.
        slots: by the field that they go into.
    """
    said = {name: _literal(_encode(_field(facts, name))) for name in FIELDS}
    said.update(dict.fromkeys(Origin._fields, b"%b"))
    # What is turned and has no header of its own comes whole.
    said.update({name: _literal(slot.header) + b"%b" for name, slot in slots.items()})
    pieces = [_head(len(SpanFacts.__struct_fields__))]
    for name in FIELDS:
        if name == _FIRST_OF_CALL:
            pieces.append(_head(len(CallFacts.__struct_fields__)))
        pieces.append(said[name])
    return b"".join(pieces)


def _field(facts: SpanFacts, name: str) -> object:
    return getattr(facts.call, name.removeprefix(CALL)) if name.startswith(CALL) else getattr(facts, name)


def _literal(written: bytes) -> bytes:
    """Bytes as a format has them."""
    return written.replace(b"%", b"%%")


def _head(count: int) -> bytes:
    """The head of a MessagePack array of 16 entries or more."""
    return b"\xdc" + count.to_bytes(2, "big")


def plain_row(trace_id: str, span_id: str, parent_id: str | None, start_ns: int, end_ns: int | None) -> Row:
    """Returns the facts of a span that no dialect knows."""
    parent = _NIL if parent_id is None else STR_16 + parent_id.encode()
    ended = _NIL if end_ns is None else UINT_64 + _big_endian(end_ns)
    facts = _PLAIN % (trace_id.encode(), span_id.encode(), parent, _big_endian(start_ns), ended)
    return Row(trace_id, facts, parent_id is None and end_ns is not None, None)


def _plain_form() -> bytes:
    """The facts of a span that no dialect knows, with gaps for its ids, its parent, and its times."""
    facts = SpanFacts(trace_id="", span_id="")
    gaps = {"trace_id": STR_32 + b"%b", "span_id": STR_16 + b"%b", "parent_id": b"%b", "start_ns": UINT_64 + b"%b"}
    gaps["end_ns"] = b"%b"
    names = SpanFacts.__struct_fields__
    return _head(len(names)) + b"".join([gaps.get(name) or _encode(getattr(facts, name)) for name in names])


_PLAIN: Final = _plain_form()
