"""Takes content off ended spans of the SDK: what `content` says has to go, from each place that a span has for it.

Invariants: a span only loses by it. What is taken off depends on the span, on what stands above and below it, and on
the rule, never on the order in which spans end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from otel_loopguard.content import Checked, Cleaner, without_error_text
from otel_loopguard.dialects import Reading
from otel_loopguard.model import Role, Value
from otel_loopguard.policy import ContentRule
from otel_loopguard.processor import sdk
from otel_loopguard.processor.naming import odd_names, shown_span_name

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

    from otel_loopguard.processor.nodes import Node

GENAI: Final = "gen_ai."
"""What the names of events begin with that hold messages, on whatever span."""


def clean_known(
    span: ReadableSpan, node: Node, cleaner: Cleaner, reading: Reading, checked: Checked, *, bare: bool
) -> bool:
    """Cleans a span that a dialect knows; returns whether there was content on it.

    Args:
        span: ended; changed.
        node: its place among the others.
        cleaner: has the rule.
        reading: the span as its dialect reads it.
        checked: shows names in its trace.
        bare: the span is known to have no events and no links.
    """
    if cleaner.keeps(reading.role):
        tells = cleaner.rule is ContentRule.DROP_TOOL and node.inside_tool and reading.role is not Role.CHAT
        return tells and drop_error_text(span)
    attributes = sdk.mapping_of(span)
    odd = odd_names(reading)
    changed = clean(span, cleaner, checked, known=True, odd=odd, bare=bare)
    if span.status.description is not None:
        sdk.drop_status_text(span)
        changed = True
    if odd or not reading.tool or span.name != f"execute_tool {reading.tool}":
        name = shown_span_name(span.name, attributes, reading, checked)
        if name != span.name:
            sdk.put_name(span, name)
            changed = True
    return changed


def clean_unknown(span: ReadableSpan, node: Node, cleaner: Cleaner, checked: Checked) -> bool:
    """Takes off a span that no dialect knows what is content wherever it stands, or may be a tool's error."""
    changed = False
    if cleaner.rule is ContentRule.DROP_ALL:
        changed = clean(span, cleaner, checked, known=False, bare=not sdk.has_text(span))
    if sdk.has_text(span) and may_tell_an_error(node, cleaner.rule):
        changed |= drop_error_text(span)
    return changed


def clean_again(span: ReadableSpan, node: Node, cleaner: Cleaner, checked: Checked) -> bool:
    """Takes off a span what another processor put on it after it was cleaned, of what it kept."""
    held = node.held()
    role = None if held is None else held.role
    if cleaner.keeps(role):
        return False
    known = role is not None
    changed = clean(span, cleaner, checked, known=known)
    if known or may_tell_an_error(node, cleaner.rule):
        changed |= drop_error_text(span)
    return changed


def clean(
    span: ReadableSpan, cleaner: Cleaner, checked: Checked, *, known: bool, odd: Sequence[str] = (), bare: bool = False
) -> bool:
    """Takes content off a span's attributes, events and links; arguments as for `Cleaner.without_content`."""
    kept = cleaner.without_content(sdk.mapping_of(span), checked, known=known, odd=odd)
    if kept is not None:
        sdk.put_attributes(span, kept)
    if bare:
        return kept is not None

    def change(held: Mapping[str, Value], event: str) -> Mapping[str, Value] | None:
        return cleaner.without_content(held, checked, known=known or event.startswith(GENAI), odd=odd)

    events = sdk.changed_events(span, change)
    if events is not None:
        sdk.put_events(span, events)
    links = sdk.changed_links(span, change)
    if links is not None:
        sdk.put_links(span, links)
    return kept is not None or events is not None or links is not None


def drop_error_text(span: ReadableSpan) -> bool:
    """Takes the text of errors off a span; returns whether there was some."""
    kept = without_error_text(sdk.mapping_of(span))
    if kept is not None:
        sdk.put_attributes(span, kept)
    events = sdk.changed_events(span, lambda held, _: without_error_text(held))
    if events is not None:
        sdk.put_events(span, events)
    changed = kept is not None or events is not None or span.status.description is not None
    sdk.drop_status_text(span)
    return changed


def may_tell_an_error(node: Node, rule: ContentRule) -> bool:
    """Tells whether a span that no dialect knows may have got the text of a tool's error.

    Such are spans above or below one that a dialect knows, and those below a span that held such a one before.
    """
    if rule is ContentRule.DROP_ALL:
        return node.inside or any(one.inside or one.is_known() for one in node.above())
    if rule is ContentRule.DROP_TOOL:
        return node.inside_tool or any(one.inside_tool or one.is_known(Role.TOOL) for one in node.above())
    return False
