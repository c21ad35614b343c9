"""What a run's spans and calls say about the evidence in them.

Invariant: a flag never decides anything here; the verdict reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from otel_loopguard.assembly.grouping import Versions, span_key
from otel_loopguard.model import Flag, Outcome, SpanFacts, ToolCall, Unknown

_CALL_FLAGS: Final = {
    Unknown.NOT_CAPTURED: Flag.NO_ARGUMENTS,
    Unknown.NOT_CONFIGURED: Flag.NO_ARGUMENTS,
    Unknown.EXCLUDED: Flag.NO_ARGUMENTS,
    Unknown.REDACTED: Flag.REDACTED_ARGUMENTS,
    Unknown.TRUNCATED: Flag.TRUNCATED_ARGUMENTS,
    Unknown.DROPPED: Flag.DROPPED_ATTRIBUTES,
    Unknown.UNPARSABLE: Flag.UNPARSABLE_ARGUMENTS,
    Unknown.SCHEMA_NOT_ARGUMENTS: Flag.SCHEMA_NOT_ARGUMENTS,
}
_NEEDS_RESULT: Final = (Outcome.OK, Outcome.UNKNOWN)


def span_flags(spans: Sequence[SpanFacts], versions: Versions) -> set[Flag]:
    """Returns what a run's spans say about how they were received."""
    flags: set[Flag] = set()
    for span in spans:
        if span.end_ns is None:
            flags.add(Flag.OPEN_SPANS)
        if span.sampled:
            flags.add(Flag.SAMPLED)
        if span.bad_attributes:
            flags.add(Flag.BAD_ATTRIBUTES)
    if versions.revised or versions.conflicting:
        for span in spans:
            key = span_key(span)
            if key in versions.revised:
                flags.add(Flag.SPAN_REVISED)
            if key in versions.conflicting:
                flags.add(Flag.CONFLICTING_COPIES)
    return flags


def call_flags(calls: Sequence[ToolCall]) -> set[Flag]:
    """Returns what the calls of a run say about the evidence in them."""
    flags: set[Flag] = set()
    keys: set[str | None] = set()
    policies: set[str | None] = set()
    for call in calls:
        facts = call.facts
        keys.add(facts.key_id)
        policies.add(facts.policy)
        if facts.call_unknown is not None:
            flags.add(_CALL_FLAGS[facts.call_unknown])
        if facts.result_unknown is not None and facts.outcome in _NEEDS_RESULT:
            flags.add(Flag.NO_RESULTS)
    if len(keys - {None}) > 1:
        flags.add(Flag.KEY_CHANGED)
    if len(policies - {None}) > 1:
        flags.add(Flag.POLICY_MISMATCH)
    return flags
