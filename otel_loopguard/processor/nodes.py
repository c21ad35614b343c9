"""The spans that started in this process not long ago, and which stands above which.

Invariants: bounded whatever the application does: spans that were not used lately are forgotten, and counted. A node
keeps its span only until that ends. No lock: every step is one operation of a dictionary, so that a start in one
thread never waits for an end in another, and a fork leaves nothing held.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Final

from opentelemetry.sdk.trace import ReadableSpan, Span
from opentelemetry.trace import SpanContext

from otel_loopguard import dialects
from otel_loopguard.detectors.recent import Recent
from otel_loopguard.dialects.own import read_own
from otel_loopguard.dialects.reading import Reading
from otel_loopguard.model import SpanFacts
from otel_loopguard.processor.received import received
from otel_loopguard.processor.sdk import mapping_of

MAX_NODES: Final = 65_536
"""Spans remembered, the half used last for certain; some 200 bytes each."""

MAX_LAYERS: Final = 8
"""Spans within a tool's that show the same call, of which what they say is kept."""

MAX_DEPTH: Final = 128
"""Ancestors looked at of one span."""


class Held:
    """What an open span says of itself to those below it, as far as its attributes have come."""

    __slots__ = ("agent", "conversation", "role", "run_id", "scope", "tool")

    def __init__(self, reading: Reading | None, scope: str, run_id: str | None) -> None:
        self.scope, self.run_id = scope, run_id
        self.role = None if reading is None else reading.role
        self.tool = None if reading is None else reading.tool
        self.agent = None if reading is None else reading.agent
        self.conversation = None if reading is None else reading.conversation

    @classmethod
    def of(cls, span: ReadableSpan) -> Held:
        """Reads what a span says by now."""
        attributes = mapping_of(span)
        told = received(span, attributes)
        return cls(dialects.read(told), told.scope, read_own(attributes).run_id)


class Node:
    """One span of this process.

    `started` numbers starts in this process. `span` is None once it ended. `inside` is True from when a span that a
    dialect knows ended below it, `done` from when it was cleaned. `layers` says what spans of the same tool call said
    that ended within it.
    """

    __slots__ = ("_attributes", "_held", "done", "inside", "layers", "parent", "span", "started", "trace_id")

    def __init__(self, span: Span | None, parent: Node | None, trace_id: int, started: int) -> None:
        self.span = span
        self.parent = parent
        self.trace_id = trace_id
        self.started = started
        self.inside = self.done = False
        self.layers: tuple[SpanFacts, ...] = ()
        self._held: Held | None = None
        self._attributes = -1

    def held(self) -> Held | None:
        """Returns what the span says of itself; read again as long as it is open and was given more attributes."""
        span = self.span
        if span is not None:
            attributes = len(mapping_of(span))
            if attributes != self._attributes:
                self._attributes = attributes
                self._held = Held.of(span)
        return self._held

    def settle(self, reading: Reading, scope: str) -> None:
        """The span is ending, and this is what it says in the end."""
        held = self._held
        self._held = Held(reading, scope, None if held is None else held.run_id)
        self.span = None

    def hold(self, *layers: SpanFacts) -> None:
        """Spans of the same call ended within this one; only open spans keep what they say."""
        if self.span is not None:
            self.layers = (*self.layers, *layers)[:MAX_LAYERS]

    def end(self) -> None:
        """The span ended: what it was known to say stays, the span does not."""
        self.span = None
        self.layers = ()

    def is_known(self) -> bool:
        """Tells whether a dialect knows the span, as far as it has come."""
        held = self.held()
        return held is not None and held.role is not None

    def above(self) -> Iterator[Node]:
        """Yields the ancestors that are known, nearest first."""
        node = self.parent
        for _ in range(MAX_DEPTH):
            if node is None:
                return
            yield node
            node = node.parent

    def mark(self) -> None:
        """A span that a dialect knows ended here: all above it hold one."""
        for node in self.above():
            if node.inside:
                return
            node.inside = True


class Nodes:
    """All of them."""

    __slots__ = ("_numbers", "_recent")

    def __init__(self) -> None:
        self._recent: Recent[int, Node] = Recent(MAX_NODES)
        self._numbers = count(1)

    @property
    def forgotten(self) -> int:
        """Spans that were forgotten for want of room."""
        return self._recent.evicted

    def start(self, span: Span) -> None:
        """Takes note of a span that starts."""
        context = span.get_span_context()
        parent = span.parent
        above = None
        if parent is not None and not parent.is_remote:
            above = self.find(parent)
        self._recent.add(context.span_id, Node(span, above, context.trace_id, next(self._numbers)))

    def find(self, context: SpanContext) -> Node | None:
        """Returns the node of a span, if it started here and was not forgotten."""
        span_id = context.span_id
        node = self._recent.latest.get(span_id) or self._recent.promote(span_id)
        return node if node is not None and node.trace_id == context.trace_id else None

    def of(self, span: ReadableSpan) -> Node:
        """Returns the node of a span that is ending; a new one where its start was not seen, or is forgotten."""
        context = span.get_span_context()
        node = None if context is None else self.find(context)
        if node is None:
            parent = span.parent
            above = None if parent is None else self.find(parent)
            node = Node(None, above, 0 if context is None else context.trace_id, next(self._numbers))
            if context is not None:
                self._recent.add(context.span_id, node)
        return node
