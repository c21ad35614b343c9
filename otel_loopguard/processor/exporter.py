"""Hands spans on to another exporter without their content, so that a shared backend gets less than a private one.

Invariants: public SDK API only. The given spans are never changed, as other exporters hold them: what differs is
handed on in a new span. Content is only removed, never digested. A failure of ours costs a span its attributes, never
lets content through, and never reaches the pipeline; the inner exporter's own errors are its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from operator import is_
from typing import Final, TypeAlias

import msgspec
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import Link, Status

from otel_loopguard import attributes as attr
from otel_loopguard import dialects
from otel_loopguard.content import Cleaner, without_error_text
from otel_loopguard.dialects import Reading
from otel_loopguard.digest import Key, Keyring, NameKind, looks_like_name
from otel_loopguard.model import Role, Value
from otel_loopguard.policy import ContentRule
from otel_loopguard.processor.boundary import Boundary
from otel_loopguard.processor.cleaning import GENAI
from otel_loopguard.processor.naming import as_keyring, names_of, odd_names, shown_span_name
from otel_loopguard.processor.received import NO_TRACE, attributes_of, received, with_lost_kind

MAX_TRACES: Final = 8192
"""Traces remembered as an agent's, at most; the oldest half goes first."""

_LOGGER: Final = logging.getLogger(__name__)
_Change: TypeAlias = Callable[[Mapping[str, Value], str], Mapping[str, Value] | None]
"""Gives what stays of attributes, those of an event with its name; None where all of them do."""

_NOTHING: Final[Mapping[str, Value]] = {}
_PREFIX: Final = attr.SCHEMA.partition(".")[0] + "."


class CleanedSpan(ReadableSpan):
    """A span with less on it than the one it was made from; all that is not given is as it was there."""

    def __init__(
        self,
        span: ReadableSpan,
        *,
        name: str,
        attributes: Mapping[str, Value],
        events: Sequence[Event],
        links: Sequence[Link],
        status: Status,
    ) -> None:
        super().__init__(
            name=name,
            context=span.context,
            parent=span.parent,
            resource=span.resource,
            attributes=attributes,
            events=events,
            links=links,
            kind=span.kind,
            status=status,
            start_time=span.start_time,
            end_time=span.end_time,
            instrumentation_scope=span.instrumentation_scope,
        )
        self._dropped = (span.dropped_attributes, span.dropped_events, span.dropped_links)

    @property
    def dropped_attributes(self) -> int:
        """How many attributes the SDK's limits cost the span; what we removed is not among them."""
        return self._dropped[0]

    @property
    def dropped_events(self) -> int:
        """How many events the SDK's limits cost it."""
        return self._dropped[1]

    @property
    def dropped_links(self) -> int:
        """How many links the SDK's limits cost it."""
        return self._dropped[2]


class _CleanedEvent(Event):
    def __init__(self, event: Event, attributes: Mapping[str, Value]) -> None:
        super().__init__(event.name, attributes, event.timestamp)
        self._dropped = event.dropped_attributes

    @property
    def dropped_attributes(self) -> int:
        return self._dropped


class _CleanedLink(Link):
    def __init__(self, link: Link, attributes: Mapping[str, Value]) -> None:
        super().__init__(link.context, attributes)
        self._dropped = link.dropped_attributes

    @property
    def dropped_attributes(self) -> int:
        return self._dropped


class _Look(msgspec.Struct, frozen=True):
    """One span of a batch, looked at."""

    attributes: Mapping[str, Value]
    trace_id: str
    reading: Reading | None = None
    plain: bool = True
    """Whether no attribute is content or a name."""


class LoopGuardSpanExporter(SpanExporter):
    """Removes content from spans on their way to one exporter.

    Failure texts (exception messages, stack traces, status descriptions) run up through spans that no dialect knows.
    They leave every span of a trace from the batch on in which the trace is first seen to be an agent's. So a span
    that was exported before any of its trace's agent, model and tool spans ended keeps its failure text: with a batch
    processor that is rare, with a simple processor it holds for spans below a tool's. `LoopGuardSpanProcessor` sees
    spans start and has no such limit.

    Args:
        inner: gets the cleaned spans.
        content: what to remove. `drop_all`: content of every dialect's spans. `drop_tool`: that of tool spans only,
            and failure texts in traces with a tool span, but those of model calls. `keep`: nothing; spans are handed
            on as they are.
        keys: digests names that do not look like names; None for the key that the environment names.

    Raises:
        KeyConfigError: the environment names a key that cannot be used.

    Thread safety: as the inner exporter's.
    """

    def __init__(
        self,
        inner: SpanExporter,
        *,
        content: ContentRule = ContentRule.DROP_ALL,
        keys: Keyring | Key | None = None,
    ) -> None:
        self._inner = inner
        self._cleaner = Cleaner(content)
        self._keyring = as_keyring(keys)
        self._boundary = Boundary(_LOGGER)
        self._traces = _Traces()

    @property
    def failures(self) -> Mapping[str, int]:
        """How often each step of ours failed."""
        return self._boundary.failures

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Hands the spans on without their content; returns what the inner exporter says."""
        if self._cleaner.rule is ContentRule.KEEP:
            return self._inner.export(spans)
        return self._inner.export(self._boundary.run("clean batch", self._batch, spans, otherwise=()))

    def shutdown(self) -> None:
        """Shuts the inner exporter down."""
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Has the inner exporter send what it holds."""
        return self._inner.force_flush(timeout_millis)

    def _batch(self, spans: Sequence[ReadableSpan]) -> tuple[ReadableSpan, ...]:
        run = self._boundary.run
        looks = []
        for span in spans:
            look = run("read span", self._look, span, otherwise=None)
            if look is None:
                run("read span", self._distrust, span, otherwise=None)
            looks.append(look)
        cleaned = []
        for span, look in zip(spans, looks, strict=True):
            shown = None if look is None else run("clean span", self._clean, span, look, otherwise=None)
            if shown is None:
                ours = run("empty span", _ours, span, otherwise=_NOTHING)
                shown = run("empty span", _emptied, span, ours, otherwise=None)
            if shown is not None:
                cleaned.append(shown)
        return tuple(cleaned)

    def _look(self, span: ReadableSpan) -> _Look:
        """Reads a span; a whole batch is read before any of it is cleaned, as parents and children come mixed."""
        attributes = attributes_of(span)
        context, scope = span.context, span.instrumentation_scope
        trace_id = f"{context.trace_id:032x}" if context else NO_TRACE
        if (
            not span.dropped_attributes
            and self._cleaner.plain.issuperset(attributes)
            and span.name not in dialects.BY_NAME
            and (scope is None or scope.name not in dialects.BY_SCOPE)
        ):
            return _Look(attributes, trace_id)
        told = received(span, attributes)
        reading = with_lost_kind(dialects.read(told), told, self._cleaner.rule, None)
        if reading is not None and (self._cleaner.rule is ContentRule.DROP_ALL or reading.role is Role.TOOL):
            self._traces.add(trace_id)
        return _Look(attributes, trace_id, reading, plain=False)

    def _distrust(self, span: ReadableSpan) -> None:
        """Takes the trace of a span that could not be read for an agent's."""
        self._traces.add(f"{span.context.trace_id:032x}")

    def _clean(self, span: ReadableSpan, look: _Look) -> ReadableSpan:
        """Returns the span itself where nothing has to go."""
        if look.plain and span.status.description is None and not span.events and not span.links:
            return span
        reading, known = look.reading, look.reading is not None
        role = None if reading is None else reading.role
        removes = not self._cleaner.keeps(role)
        silences = look.trace_id in self._traces and (
            self._cleaner.rule is ContentRule.DROP_ALL or role is not Role.CHAT
        )
        if not removes and not silences:
            return span
        checked = names_of(self._keyring, look.trace_id)
        odd = () if reading is None else odd_names(reading)

        def change(attributes: Mapping[str, Value], event: str) -> Mapping[str, Value] | None:
            told = known or event.startswith(GENAI)
            kept = self._cleaner.without_content(attributes, checked, known=told, odd=odd) if removes else None
            silent = without_error_text(attributes if kept is None else kept) if silences else None
            return kept if silent is None else silent

        name = shown_span_name(span.name, look.attributes, reading, checked) if removes and reading else span.name
        silent = silences and span.status.description is not None
        return _changed(
            span, look.attributes, change, name=name, status=Status(span.status.status_code) if silent else span.status
        )


class _Traces:
    """Trace ids that came last; bounded, without a lock."""

    def __init__(self) -> None:
        self._young: set[str] = set()
        self._old: set[str] = set()

    def add(self, trace_id: str) -> None:
        full = self._young
        if len(full) >= MAX_TRACES // 2:
            fresh: set[str] = set()
            if self._young is full:  # else another thread has made room meanwhile, and what it began must stay
                self._old, self._young = full, fresh
        self._young.add(trace_id)

    def __contains__(self, trace_id: str) -> bool:
        return trace_id in self._young or trace_id in self._old


def _changed(
    span: ReadableSpan, attributes: Mapping[str, Value], change: _Change, *, name: str, status: Status
) -> ReadableSpan:
    kept = change(attributes, "")
    events, links = span.events, span.links
    shown_events = [_event(event, change) for event in events]
    shown_links = [_link(link, change) for link in links]
    if kept is None and name == span.name and status is span.status:
        same = all(map(is_, events, shown_events)) and all(map(is_, links, shown_links))
        if same:
            return span
    return CleanedSpan(
        span,
        name=name,
        attributes=attributes if kept is None else kept,
        events=shown_events,
        links=shown_links,
        status=status,
    )


def _event(event: Event, change: _Change) -> Event:
    attributes = change(event.attributes, event.name) if event.attributes else None
    return event if attributes is None else _CleanedEvent(event, attributes)


def _link(link: Link, change: _Change) -> Link:
    attributes = change(link.attributes, "") if link.attributes else None
    return link if attributes is None else _CleanedLink(link, attributes)


def _ours(span: ReadableSpan) -> dict[str, Value]:
    """What we wrote on a span, as far as its shape is ours."""
    return {key: value for key, value in (span.attributes or {}).items() if key.startswith(_PREFIX) and _plain(value)}


def _plain(value: Value) -> bool:
    return isinstance(value, bool | int) or looks_like_name(str(value), kind=NameKind.OTHER)


def _emptied(span: ReadableSpan, ours: Mapping[str, Value]) -> ReadableSpan:
    """A span of which its place, its times and what is ours are left."""
    return CleanedSpan(
        span,
        name=span.name if looks_like_name(span.name, kind=NameKind.OTHER) else "span",
        attributes=ours,
        events=(),
        links=[Link(link.context) for link in span.links],
        status=Status(span.status.status_code),
    )
