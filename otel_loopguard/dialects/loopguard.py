"""The spans that this package itself emits: one for each guard decision other than `allow`, one for a run's end.

Invariants: they hold no content, and what does not have the contract's shape is left out.
"""

from __future__ import annotations

import re
from typing import Final

from otel_loopguard import attributes as attr
from otel_loopguard.dialects.own import OwnAttributes, read_own
from otel_loopguard.dialects.reading import Reading
from otel_loopguard.model import Action, DecisionFacts, Role, Span, TerminationReason, Value

NAME: Final = "loopguard"
CONTENT_KEYS: Final[frozenset[str]] = frozenset()

_NAME: Final = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")
"""What names our processor lets pass, `_n:` and a digest included."""


def read(span: Span) -> Reading | None:
    """Reads a decision span or a run-end span, known by its name; None for any other span.

    A decision whose action is not one of ours, or which says `allow`, comes back without `decision`.
    """
    if span.name == attr.DECISION_SPAN:
        own = read_own(span.attributes)
        return Reading(
            role=Role.DECISION,
            dialect=NAME,
            tool=_name(span.attributes.get(attr.TOOL_NAME)),
            call_id=_name(span.attributes.get(attr.TOOL_CALL_ID)),
            agent=own.agent_id,
            turn=own.turn_id,
            decision=_decision(span, own),
        )
    if span.name == attr.RUN_END_SPAN:
        own = read_own(span.attributes)
        answered = own.terminal_response
        if answered is None and own.termination is TerminationReason.FINAL_ANSWER:
            answered = True
        return Reading(role=Role.RUN_END, dialect=NAME, termination=own.termination, final_answer=answered)
    return None


def _decision(span: Span, own: OwnAttributes) -> DecisionFacts | None:
    if own.action is None or own.action is Action.ALLOW:
        return None
    return DecisionFacts(
        call_id=_name(span.attributes.get(attr.TOOL_CALL_ID)),
        action=own.action,
        enforced=own.enforced is True,
        reason=own.reason,
        tool=_name(span.attributes.get(attr.TOOL_NAME)),
        call_digest=own.call_digest,
    )


def _name(value: Value) -> str | None:
    return value if isinstance(value, str) and _NAME.fullmatch(value) else None
