"""The spans that started in this process not long ago, and which stands above which.

Invariants: bounded whatever the application does: spans that were not used lately are forgotten, and counted. No span
is kept alive: one that is never ended is gone when the application lets it go. No lock: every step is one operation of
a dictionary, so that a start in one thread never waits for an end in another, and a fork leaves nothing held. Most
spans are no agent's: of them only a number is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from itertools import count
from typing import Final, TypeAlias
from weakref import ref

from opentelemetry.sdk.trace import ReadableSpan, Span

from otel_loopguard import dialects
from otel_loopguard.content import Checked
from otel_loopguard.detectors.recent import Recent
from otel_loopguard.dialects.own import read_own
from otel_loopguard.dialects.reading import Reading
from otel_loopguard.digest import MAX_NAME, NameKind
from otel_loopguard.model import Role, SpanFacts
from otel_loopguard.processor.received import received
from otel_loopguard.processor.sdk import is_as_ended, is_left_on, mapping_of

MAX_NODES: Final = 65_536
"""Spans remembered, the half used last for certain; some 200 bytes each."""

# A span context is a tuple (trace id, span id, is remote, …), whose properties are calls in Python.
MAX_LAYERS: Final = 8
"""Spans within a tool's that show the same call, of which what they say is kept."""

MAX_DEPTH: Final = 128
"""Ancestors looked at of one span."""


class Held:
    """What a span says of itself to those below it, as far as its attributes have come."""

    __slots__ = ("agent", "conversation", "is_lost", "role", "run_id", "scope", "tool")

    def __init__(self, reading: Reading | None, scope: str, run_id: str | None) -> None:
        self.scope, self.run_id = scope, run_id
        self.is_lost = False
        """Whether what said of what kind it is may have been dropped."""
        self.role: Role | None = None
        self.tool = self.agent = self.conversation = None
        if reading is not None:
            self.role, self.tool = reading.role, reading.tool
            self.agent, self.conversation = reading.agent, short(reading.conversation)

    @classmethod
    def of(cls, span: ReadableSpan) -> Held:
        """Reads what a span says by now."""
        attributes = dict(mapping_of(span))  # another thread may be setting some, and dialects walk over them
        # Without its events, which say nothing of that, and which the SDK has a lock before: a thread may hold it that
        # writes to the span, is interrupted by the end of another, or is not there any more after a fork.
        told = received(span, attributes, bare=True)
        reading = dialects.read(told)
        held = cls(reading, told.scope, read_own(attributes).run_id)
        held.is_lost = reading is None and told.dropped_attributes > 0
        return held


class Node:
    """One span that matters: a tool's, an agent's, a model's, or one above them.

    `started` numbers starts in this process. `inside` is True from when a span that a dialect knows ended below it, and
    where one may stand above or below it that was not seen; `cleaned` is what was put on it in place of its attributes;
    `layers`: what spans of the same call said that ended within it; `depth`: at least how many nodes stand above it.
    """

    __slots__ = (
        "_attributes",
        "_held",
        "_span",
        "cleaned",
        "depth",
        "ended_ns",
        "inside",
        "inside_tool",
        "layers",
        "parent",
        "started",
        "trace_id",
    )

    def __init__(self, span: Span | None, parent: Node | None, trace_id: int, started: int) -> None:
        self._span = _no_span if span is None else ref(span)
        self.parent = parent
        self.trace_id = trace_id
        self.started = started
        self.inside = self.inside_tool = False
        self.cleaned: object = None
        self.ended_ns: int | None = None
        self.layers: tuple[SpanFacts, ...] = ()
        self._held: Held | None = None
        self._attributes = -1
        self.depth = 0
        if parent is not None:
            self.depth = parent.depth + 1
            if self.depth > 2 * MAX_DEPTH:
                self._cut()

    @property
    def span(self) -> Span | None:
        """The span, until it ended or nobody held it any more."""
        return self._span()

    def held(self) -> Held | None:
        """Returns what the span says of itself; read again as long as it is open and was given more attributes."""
        span = self._span()
        if span is not None:
            attributes = len(mapping_of(span))
            if attributes != self._attributes:
                self._attributes = attributes
                self._held = Held.of(span)
        return self._held

    def settle(self, reading: Reading, scope: str, checked: Checked) -> None:
        """The span is ending, and this is what it says in the end; of its names, what may be shown."""
        held = self._held
        self._held = settled = Held(reading, scope, None if held is None else held.run_id)
        if settled.tool:
            settled.tool = checked(settled.tool, NameKind.TOOL)
        if settled.agent:
            settled.agent = checked(settled.agent, NameKind.AGENT)
        self._span = _no_span

    def hold(self, *layers: SpanFacts) -> None:
        """Spans of the same call ended within this one; only open spans keep what they say."""
        if self.span is not None:
            self.layers = (*self.layers, *layers)[:MAX_LAYERS]

    def end(self, cleaned: object, ended_ns: int | None) -> None:
        """The span ended, and `cleaned` is what was put on it: what it was known to say stays, the span does not."""
        self.cleaned, self.ended_ns, self._span, self.layers = cleaned, ended_ns, _no_span, ()

    def is_known(self, role: Role | None = None) -> bool:
        """Tells whether a dialect knows the span, as far as it has come; and as of this role, if one is given."""
        held = self.held()
        return held is not None and (held.is_lost or (held.role is not None and role in (None, held.role)))

    def above(self) -> Iterator[Node]:
        """Yields the ancestors that are known, nearest first."""
        node = self.parent
        for _ in range(MAX_DEPTH):
            if node is None:
                return
            yield node
            node = node.parent

    def mark(self, *, tool: bool) -> None:
        """A span that a dialect knows, maybe a tool's, ended here: all above it hold one."""
        parent = self.parent
        if parent is None or parent.inside_tool:
            return  # most: one before it did it all
        for node in self.above():
            if node.inside_tool or (node.inside and not tool):
                return
            node.inside, node.inside_tool = True, tool

    def distrust(self) -> None:
        """Something near it was not seen: take it for a span above a tool's."""
        self.inside = self.inside_tool = True

    def _cut(self) -> None:
        """Lets go of what is too far up to be looked at: each span may be the next one's parent, for ever."""
        node = self
        for depth in range(MAX_DEPTH, 0, -1):
            node.depth = depth
            if node.parent is None:
                return
            node = node.parent
        node.depth, node.parent = 0, None


def short(text: str | None) -> str | None:
    """Returns what tells a text from others and is bounded: names and ids may be of any length, and many are kept."""
    if text is None or len(text) <= MAX_NAME:
        return text
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _no_span() -> None:
    """Stands for the reference to a span that ended."""


_SEEN: Final = object()
_Entry: TypeAlias = "Node | tuple[ref[Span], int] | int"
"""A node; a span that is open and of which nothing was asked yet, with its number; or, of one that ended without
anything being asked, the span id of its parent (0: none)."""


class Nodes:
    """All of them."""

    __slots__ = ("_numbers", "_recent")

    def __init__(self) -> None:
        self._recent: Recent[int, _Entry] = Recent(MAX_NODES)
        self._numbers = count(1)

    @property
    def forgotten(self) -> int:
        """Spans that were forgotten for want of room."""
        return self._recent.evicted

    def start(self, span: Span) -> None:
        """Takes note of a span that starts."""
        self._recent.add(span.context[1], (ref(span), next(self._numbers)))

    def pass_over(self, span: ReadableSpan) -> bool:
        """A span that tells nothing ends; returns False where something has been asked of it, or its start not seen."""
        context, parent = span.context, span.parent
        latest = self._recent.latest
        span_id = 0 if context is None else context[1]
        if type(latest.get(span_id)) is not tuple:
            return False
        latest[span_id] = 0 if parent is None or parent[2] else parent[1]
        return True

    def is_done(self, span: ReadableSpan) -> bool:
        """Tells whether `pass_over` dealt with a span, or it was cleaned, and nothing was put on it since."""
        context = span.context
        entry = None if context is None else self._recent.latest.get(context[1])
        if type(entry) is Node:
            if not is_left_on(span, entry.cleaned):
                return False
            entry.cleaned = _SEEN  # what was left on it, which may be content, is not held any longer
            return True
        return type(entry) is int and is_as_ended(span)

    def of(self, span: ReadableSpan) -> Node:
        """Returns the node of a span that is ending; a new one where its start was not seen, or is forgotten."""
        context, parent = span.context, span.parent
        trace_id, span_id = (0, 0) if context is None else (context[0], context[1])
        node = self._find(span_id, trace_id)
        if node is None:
            above = None if parent is None or parent[2] else self._find(parent[1], trace_id)
            node = Node(None, above, trace_id, next(self._numbers))
            node.distrust()
            self._recent.add(span_id, node)
        return node

    def _find(self, span_id: int, trace_id: int, depth: int = 0) -> Node | None:
        """Returns the node of a span that started here and was not forgotten; makes those above it, too."""
        recent = self._recent
        entry = recent.latest.get(span_id)
        if entry is None:
            entry = recent.promote(span_id)
        if isinstance(entry, Node):
            return entry if entry.trace_id == trace_id else None
        if entry is None or depth > MAX_DEPTH:
            return None
        if isinstance(entry, int):
            node = Node(None, self._find(entry, trace_id, depth + 1) if entry else None, trace_id, 0)
        else:
            span, started = entry[0](), entry[1]
            if span is None or span.context[0] != trace_id:
                return None
            parent, above = span.parent, None
            is_local = parent is not None and not parent[2]
            if parent is not None and is_local:
                above = self._find(parent[1], trace_id, depth + 1)
            node = Node(span if span.end_time is None else None, above, trace_id, started)
            if is_local and above is None:
                node.distrust()
        recent.latest[span_id] = node
        return node
