"""The one place that changes an ended span of the SDK, which has no public way to do it.

Invariants: a container that exporters may be reading is never changed, only replaced in one step; counts of what the
SDK dropped stay; nothing here decides what is removed. Measured on SDK 1.40 to 1.45: a span is frozen before
`_on_ending`, no setter removes anything, and what is put here reaches every processor and exporter, whichever was
registered first, as the ended span that they get shares these containers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util import BoundedList
from opentelemetry.trace import Link, Status

from otel_loopguard.model import Value

# ruff: noqa: SLF001 - the point of this module


_NONE: Final[Mapping[str, Value]] = {}
_BOUNDED_LIST: Final[Any] = BoundedList
"""Its length is a call in Python, its deque's is not."""


def mapping_of(span: ReadableSpan) -> Mapping[str, Value]:
    """Returns a span's attributes as the SDK keeps them: not a copy, and not to be changed."""
    held = span._attributes
    return held._dict if type(held) is BoundedAttributes else held or _NONE


def length_limit(span: ReadableSpan) -> int | None:
    """Returns how many characters the SDK leaves of a text in a span's attributes; None for all of them."""
    held = span._attributes
    limit = held.max_value_len if isinstance(held, BoundedAttributes) else None
    return limit if isinstance(limit, int) else None


def is_plain(span: ReadableSpan, plain: set[str], names: frozenset[str], scopes: frozenset[str]) -> bool:
    """Tells of a span that it says nothing and holds nothing: by its keys, its name, its scope, and as it has no text.

    Args:
        span: of any instrumentation.
        plain: keys that say nothing.
        names: span names that say something.
        scopes: instrumentation scopes that do.

    Cost: what every span of an application pays, so it looks at the SDK's fields themselves.
    """
    held, scope = span._attributes, span._instrumentation_scope
    events: Any = span._events
    links: Any = span._links
    return (
        type(held) is BoundedAttributes
        and plain.issuperset(held._dict)
        and not (events._dq if type(events) is _BOUNDED_LIST else events)
        and not (links._dq if type(links) is _BOUNDED_LIST else links)
        and span._status.description is None
        and span._name not in names
        and (scope is None or scope.name not in scopes)
    )


def is_bare(span: ReadableSpan) -> bool:
    """Tells of a span that it has no events and no links, and never lost one."""
    events: Any = span._events
    links: Any = span._links
    if type(events) is type(links) is _BOUNDED_LIST:
        return not (events._dq or links._dq or events.dropped)
    return not (events or links) and not getattr(events, "dropped", 0)


def put_attributes(span: ReadableSpan, attributes: dict[str, Value]) -> None:
    """Puts attributes in place of a span's; the count of dropped ones stays."""
    held = span._attributes
    if isinstance(held, BoundedAttributes):
        held._dict = attributes
    else:
        span._attributes = attributes


def put_events(span: ReadableSpan, events: Sequence[Event]) -> None:
    """Puts events in place of a span's; the count of dropped ones stays."""
    held = span._events
    if isinstance(held, BoundedList):
        _refill(held, events)
    else:
        span._events = tuple(events)


def put_links(span: ReadableSpan, links: Sequence[Link]) -> None:
    """Puts links in place of a span's; the count of dropped ones stays."""
    held = span._links
    if isinstance(held, BoundedList):
        _refill(held, links)
    else:
        span._links = tuple(links)


def _refill(held: Any, items: Sequence[object]) -> None:
    held._dq = deque(items, held._dq.maxlen)


def put_name(span: ReadableSpan, name: str) -> None:
    """Puts a name in place of a span's."""
    span._name = name


def drop_status_text(span: ReadableSpan) -> None:
    """Leaves of a span's status the code alone."""
    if span.status.description is not None:
        span._status = Status(span.status.status_code)


def same_event(event: Event, attributes: Mapping[str, Value]) -> Event:
    """Returns an event with other attributes; the count of dropped ones stays."""
    return Event(event.name, _like(event._attributes, attributes), event.timestamp)


def same_link(link: Link, attributes: Mapping[str, Value]) -> Link:
    """Returns a link with other attributes; the count of dropped ones stays."""
    return Link(link.context, _like(link.attributes, attributes))


def _like(held: object, attributes: Mapping[str, Value]) -> Mapping[str, Value]:
    if not isinstance(held, BoundedAttributes):
        return attributes
    made = BoundedAttributes(held.maxlen, None, True, held.max_value_len)  # noqa: FBT003 - its own signature
    made._dict = dict(attributes)
    made.dropped = held.dropped
    return made


Left: TypeAlias = tuple[object, object, object]
"""What holds a span's content: told apart by which objects they are."""


def left_on(span: ReadableSpan) -> Left:
    """Returns what is on a span, to tell later whether anything else was put there."""
    return (mapping_of(span), span._events, span._status)


def is_left_on(span: ReadableSpan, left: object) -> bool:
    """Tells whether there is still on a span what `left_on` returned."""
    return type(left) is tuple and left[0] is mapping_of(span) and left[1] is span._events and left[2] is span._status


def is_as_ended(span: ReadableSpan) -> bool:
    """Tells whether a span still has what the SDK made for its attributes and events; others put their own there."""
    return type(span._attributes) is BoundedAttributes and type(span._events) is _BOUNDED_LIST


def has_text(span: ReadableSpan) -> bool:
    """Tells whether a span carries events, links that say something, or a text beside its status code."""
    if span._events or span._status.description is not None:
        return True
    return bool(span._links) and any(link.attributes for link in span._links)


def changed_events(
    span: ReadableSpan, change: Callable[[Mapping[str, Value], str], Mapping[str, Value] | None]
) -> Sequence[Event] | None:
    """Returns a span's events with changed attributes; None where `change` returns None for all of them.

    `change` is given an event's attributes and its name.
    """
    events, changed = [], False
    for event in span._events:
        attributes = None if not event.attributes else change(event.attributes, event.name)
        events.append(event if attributes is None else same_event(event, attributes))
        changed = changed or attributes is not None
    return events if changed else None


def changed_links(
    span: ReadableSpan, change: Callable[[Mapping[str, Value], str], Mapping[str, Value] | None]
) -> Sequence[Link] | None:
    """Returns a span's links with changed attributes; None where `change` returns None for all of them.

    `change` is given a link's attributes and an empty name.
    """
    links, changed = [], False
    for link in span._links:
        attributes = None if not link.attributes else change(link.attributes, "")
        links.append(link if attributes is None else same_link(link, attributes))
        changed = changed or attributes is not None
    return links if changed else None
