"""What a dialect hands on: the content and the plain facts that it found on one span.

Invariants: a `Reading` still holds content and lives only until `facts` has digested it. A dialect is a pure
function of one span: no policy, no key, no state, no I/O. What it cannot read it calls unknown, with the
reason; it never guesses. A dialect does not raise on any span.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from otel_loopguard.model import (
    ChatFacts,
    DecisionFacts,
    ErrorCategory,
    Layer,
    NotACall,
    Outcome,
    Role,
    Span,
    TerminationReason,
    Unknown,
    Value,
)


class Content(msgspec.Struct, frozen=True, gc=False, eq=False):
    """Arguments or a result as read: a value, or the reason why there is none.

    `value` is the unwrapped, parsed value (dict, list, str, number, bool, None, `canonical.Opaque` for text
    over the size bound). It means something only where `unknown` is None.
    """

    value: Value = None
    unknown: Unknown | None = None
    form: bytes | None = None
    """The canonical form of `value`, where it came to light as the text was read; None to make it."""

    def __eq__(self, other: object) -> bool:
        """Compare what they stand for; whether the form is known already makes no difference."""
        if not isinstance(other, Content):
            return NotImplemented
        return self.unknown == other.unknown and bool(self.value == other.value)

    def __hash__(self) -> int:
        """Hash what is compared."""
        return hash((self.value, self.unknown))


NOT_CAPTURED = Content(unknown=Unknown.NOT_CAPTURED)


class Reading(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One span as its dialect reads it. Names and ids are still as received; `facts` checks and digests them."""

    role: Role
    dialect: str
    tool: str | None = None
    """Tool name as the application knows it (`lookup_order`), without span-name decoration."""
    arguments: Content = NOT_CAPTURED
    result: Content = NOT_CAPTURED
    call_id: str | None = None
    layer: Layer = Layer.HOST
    not_a_call: NotACall | None = None
    outcome: Outcome = Outcome.UNKNOWN
    """OK or ERROR only where the span says so; a span that ended without any error sign is OK."""
    error_type: str | None = None
    """Exception class, status code or the instrumentation's own error type; never a message."""
    error_text: str | None = None
    """The error's message: content. `facts` reads its category from it and drops it."""
    error_category: ErrorCategory | None = None
    denied: bool = False
    effect: str | None = None
    """`read` or `write` where the span carries MCP tool annotations or our attribute."""
    agent: str | None = None
    """On agent and workflow spans their own name; on others the calling agent, if said. Placeholders are None."""
    turn: str | None = None
    """The framework's own id of the turn, step or cycle that this span belongs to, if on the span itself."""
    conversation: str | None = None
    chat: ChatFacts | None = None
    decision: DecisionFacts | None = None
    termination: TerminationReason | None = None
    """From explicit evidence on this span (agent, workflow, chat or run-end spans)."""
    final_answer: bool | None = None
    tool_like_parent: bool = False
    """True where this tool span is known to wrap another tool span for the same call."""


Dialect: TypeAlias = Callable[[Span], "Reading | None"]
"""Reads a span, or returns None where the span is not in this dialect or tells nothing about a run."""
