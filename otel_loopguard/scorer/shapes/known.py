"""Which shapes are known, and the spans of one request that are of one of them.

Invariants: memory is bounded. A span that is of no known shape is left to be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock
from typing import Final

import msgspec

from otel_loopguard import attributes as attr
from otel_loopguard.facts import FactsReader
from otel_loopguard.model import Span, Value
from otel_loopguard.scorer.records import Row
from otel_loopguard.scorer.shapes.learning import Teacher, learned
from otel_loopguard.scorer.shapes.shape import Origin, Shape, plain_row

MAX_SHAPES: Final = 512
"""Shapes that are kept; past this all are forgotten. One takes some 10 KiB."""
MAX_ALIKE: Final = 8
"""Shapes of spans of one length in one scope."""
MAX_SPAN_BYTES: Final = 4096
MAX_COUNTED: Final = 4096
"""Lengths of which the spans that had to be read are counted; past this counting begins anew."""
MAX_SCOPE_CHARS: Final = 256
"""Scopes with longer names are read: the names of those that are counted stay in memory."""
OFTEN: Final = 8
"""Spans of one length that had to be read before the shape of one is learned; then twice as many, and so on."""
MAX_DOUBLED: Final = 7
"""How often `OFTEN` is doubled at most. To learn takes as long as to read a hundred spans, so that it pays only where
shapes last: it is doubled with every `MAX_SHAPES` that were learned, or could not be."""

_encode: Final = msgspec.msgpack.Encoder().encode
_NONE: Final[Mapping[int, tuple[Shape, ...]]] = {}


class Shapes:
    """The shapes of one scorer.

    Args:
        reader: makes facts of spans; under its policy and key alone the shapes hold.
        conversation: its digest of a conversation's id.

    Thread safety: any thread.
    """

    def __init__(self, reader: FactsReader, conversation: Callable[[str], str]) -> None:
        self._reader = reader
        self._teacher = Teacher(reader, conversation)
        self._known: dict[str, dict[int, tuple[Shape, ...]]] = {}
        """By scope, and by the length of their spans."""
        self._read: dict[tuple[str, int], int] = {}
        """How many spans of a scope and a length had to be read since a shape of them was learned."""
        self._count = self._number = self._tried = 0
        self._learning = Lock()

    @property
    def count(self) -> int:
        """How many shapes are known."""
        return self._count

    def request(self) -> Recognition:
        """Returns what gathers the spans of one request that are known."""
        return Recognition(self)

    def of(self, scope: str) -> Mapping[int, tuple[Shape, ...]]:
        """Returns the shapes of the spans of one scope, by their length."""
        return self._known.get(scope, _NONE)

    def origin(self, resource: Mapping[str, Value]) -> Origin:
        """Returns what a resource says in the facts of its spans."""
        service, release, host = self._reader.origin(resource)
        return Origin(_encode(service), _encode(release), _encode(host))

    def note(self, message: bytes, span: Span) -> None:
        """Takes note of a span of our processor's that had to be read; learns its shape where that happens often.

        Args:
            message: its bytes.
            span: what they say.
        """
        if len(span.scope) > MAX_SCOPE_CHARS or len(message) > MAX_SPAN_BYTES:
            return
        key = (span.scope, len(message))
        if len(self._read) >= MAX_COUNTED:
            self._read.clear()
        read = self._read[key] = self._read.get(key, 0) + 1
        if read < OFTEN << min(self._tried // MAX_SHAPES, MAX_DOUBLED) or read & (read - 1):
            return
        with self._learning:
            alike = self.of(span.scope).get(len(message), ())
            if len(alike) >= MAX_ALIKE or any(shape.fits(message) for shape in alike):
                return  # learned meanwhile
            self._tried += 1
            shape = learned(self._teacher, message, span, self._number)
            if shape is None:
                return
            if self._count >= MAX_SHAPES:
                self._known.clear()
                self._count, alike = 0, ()
            self._number += 1
            self._count += 1
            self._known.setdefault(span.scope, {})[len(message)] = (*alike, shape)
            self._read[key] = 0


class Recognition:
    """The spans of one request that are known.

    Args:
        shapes: that may be known.
    """

    def __init__(self, shapes: Shapes) -> None:
        self._shapes = shapes
        self.rows: Final[list[Row]] = []
        """Their facts."""

    def of(self, scope: str, resource: Mapping[str, Value]) -> Recogniser:
        """Returns what knows the spans of one scope of one resource (`otlp_wire.Recognise`)."""
        return Recogniser(self._shapes, self.rows, scope, resource)


class Recogniser:
    """Knows spans of one scope of one resource; see `otlp_wire.Recogniser`."""

    __slots__ = ("_origin", "_rows", "_shapes", "sizes")

    def __init__(self, shapes: Shapes, rows: list[Row], scope: str, resource: Mapping[str, Value]) -> None:
        self._shapes, self._rows = shapes, rows
        self._origin = shapes.origin(resource)
        self.sizes: Final = shapes.of(scope)
        """The shapes, by the length of their spans."""

    def known(self, message: bytes, start: int, end: int) -> bool:
        """Takes the span that stands there, where its shape is known."""
        for shape in self.sizes[end - start]:
            row = shape.row(message, start, end, self._origin)
            if row is not None:
                self._rows.append(row)
                return True
        return False

    def read(self, message: bytes, span: Span) -> None:
        """Takes note of a span that was not known."""
        if attr.SCHEMA in span.attributes:
            self._shapes.note(message, span)

    def plain(self, trace_id: str, span_id: str, parent_id: str | None, start_ns: int, end_ns: int | None) -> None:
        """Takes a span that no dialect knows."""
        self._rows.append(plain_row(trace_id, span_id, parent_id, start_ns, end_ns))
