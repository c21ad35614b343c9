"""What a run's spans and calls say about the evidence in them.

Invariant: a flag never decides anything here; the verdict reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from otel_loopguard.assembly.grouping import Versions
from otel_loopguard.model import Flag, Outcome, SpanKey, ToolCall, Unknown

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


def version_flags(keys: Iterable[SpanKey], versions: Versions) -> set[Flag]:
    """Returns what must be said of a run that holds these spans because of left-out versions."""
    flags: set[Flag] = set()
    for key in keys:
        if key in versions.revised:
            flags.add(Flag.SPAN_REVISED)
        if key in versions.conflicting:
            flags.add(Flag.CONFLICTING_COPIES)
    return flags


def call_flags(calls: Sequence[ToolCall]) -> set[Flag]:
    """Returns what the calls of a run say about the evidence in them."""
    flags: set[Flag] = set()
    for call in calls:
        facts = call.facts
        if facts.call_unknown is not None:
            flags.add(_CALL_FLAGS[facts.call_unknown])
        if facts.result_unknown is not None and facts.outcome in (Outcome.OK, Outcome.UNKNOWN):
            flags.add(Flag.NO_RESULTS)
    if len({call.facts.key_id for call in calls if call.facts.key_id is not None}) > 1:
        flags.add(Flag.KEY_CHANGED)
    if len({call.facts.policy for call in calls if call.facts.policy is not None}) > 1:
        flags.add(Flag.POLICY_MISMATCH)
    return flags
