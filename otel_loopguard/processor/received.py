"""Makes the record that dialects read of an SDK span.

Invariants: public SDK API only, and the span is not changed. Nothing is copied that need not be: attributes, the
events' and the resource's are handed on as they are, so a resource keeps its identity from span to span.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from otel_loopguard import attributes as attr
from otel_loopguard.content import KeyKind, kind_of_key
from otel_loopguard.dialects import Reading
from otel_loopguard.model import Role, Span, SpanEvent, SpanKey, Value
from otel_loopguard.policy import ContentRule

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import Event, ReadableSpan

NO_TRACE: Final = "0" * 32
_NO_SPAN: Final = "0" * 16
_NEVER_CUT: Final = (bool, int, float)
_CONTENT: Final = (KeyKind.CONTENT, KeyKind.WORD)
_FLOODS: Final = ("llm.input_messages.", "llm.output_messages.", f"{attr.PROMPT}.", f"{attr.COMPLETION}.")
_KIND_CHARS: Final = len("execute_tool")
UNREADABLE: Final = Reading(role=Role.TOOL, dialect="")
"""Stands for a span that cannot be read: it may be a tool's, so all of it goes that might be content."""
_WHOLE: Final = frozenset({"{}", "[]", '""'})
"""First and last character of JSON that is whole."""
_CUT: Final = '{"'
"""JSON that is cut for certain."""


def attributes_of(span: ReadableSpan) -> Mapping[str, Value]:
    """Returns a span's attributes as a plain dict of the caller's own.

    Cost: one copy made in C. What the SDK gives out is a view of a mapping whose every look-up is a call in Python,
    and dialects look up a dozen keys that are not there.
    """
    attributes: Mapping[str, Value] = span.attributes or {}
    try:
        return attributes.copy()  # type: ignore[attr-defined,no-any-return] # the view has it, its type does not say so
    except AttributeError:
        return dict(attributes)


def received(span: ReadableSpan, attributes: Mapping[str, Value], *, bare: bool = False) -> Span:
    """Makes our record of a span, started or ended.

    Args:
        span: as the SDK hands it to processors and exporters.
        attributes: the span's, as `attributes_of` gives them; handed on as they are.
        bare: the span is known to have no events, no links and no dropped ones, which are then not asked for.

    Returns:
        The record. Its ids are zeros where the span has no context, which only a span made by hand can lack.
    """
    context, parent, scope = span.context, span.parent, span.instrumentation_scope
    status = span.status
    events, links = ((), ()) if bare else (span.events, span.links)
    return Span(
        trace_id=f"{context[0]:032x}" if context else NO_TRACE,
        span_id=f"{context[1]:016x}" if context else _NO_SPAN,
        parent_id=f"{parent[1]:016x}" if parent else None,
        name=span.name,
        kind=span.kind._value_ + 1,
        scope=scope.name if scope else "",
        start_ns=span.start_time or 0,
        end_ns=span.end_time,
        status_code=status.status_code._value_,
        status_message=status.description or "",
        attributes=attributes,
        events=_events(events) if events else (),
        links=_links(span) if links else (),
        resource=span.resource.attributes,
        trace_state=context.trace_state.to_header() if context and context.trace_state else "",
        dropped_attributes=span.dropped_attributes,
        dropped_events=0 if bare else span.dropped_events,
    )


def with_lost_kind(reading: Reading | None, told: Span, rule: ContentRule, limit: int | None) -> Reading | None:
    """Returns how a span is to be read, of which the SDK's limits may have cost what says that it is an agent's.

    What tells is set first, and dropped first. What is not known any more may be a tool's; but where messages are left
    that are written in many attributes, they were what took its place, and it is a model's or an agent's.

    Args:
        reading: as its dialect reads it; None where none knows it.
        told: the span.
        rule: what is removed.
        limit: the most characters that the SDK leaves of a text; None for all of them, or where nobody knows.
    """
    if rule is ContentRule.KEEP:
        return reading
    if reading is None:
        if not told.dropped_attributes:
            return None
        if rule is ContentRule.DROP_TOOL and any(key.startswith(_FLOODS) for key in told.attributes):
            return None
        return UNREADABLE
    is_cut = reading.role is Role.OTHER and limit is not None and limit < _KIND_CHARS
    return UNREADABLE if is_cut else reading


def with_cuts_marked(attributes: Mapping[str, Value], limit: int) -> Mapping[str, Value]:
    """Makes of what a length limit cut a text that no dialect takes for whole.

    The SDK cuts without a mark. JSON that was cut shows it; other text does not, and results that differ behind the
    cut would look equal. A text that is exactly as long as the limit counts as cut, but for a whole container.

    Args:
        attributes: a span's; not changed.
        limit: the most characters that the SDK leaves of a text.
    """
    cut = [
        key
        for key, value in attributes.items()
        if value.__class__ not in _NEVER_CUT and _is_cut(value, limit) and kind_of_key(key) in _CONTENT
    ]
    return {**attributes, **dict.fromkeys(cut, _CUT)} if cut else attributes


def _is_cut(value: Value, limit: int) -> bool:
    if isinstance(value, str):
        return len(value) == limit and value[:1] + value[-1:] not in _WHOLE
    if isinstance(value, Mapping):
        return any(_is_cut(inner, limit) for inner in value.values())
    return isinstance(value, (list, tuple)) and any(_is_cut(inner, limit) for inner in value)


def _events(events: Sequence[Event]) -> tuple[SpanEvent, ...]:
    return tuple(SpanEvent(event.name, event.attributes or {}, event.timestamp) for event in events)


def _links(span: ReadableSpan) -> tuple[SpanKey, ...]:
    return tuple((f"{link.context.trace_id:032x}", f"{link.context.span_id:016x}") for link in span.links)
