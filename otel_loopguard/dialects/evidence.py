"""Reads how a span ended (outcome, error, limit, finish reason), alike for the dialects that say it in common words.

Invariants: pure and total on any span. An error's text is content and leaves this module only for
`Reading.error_text`. Only explicit evidence counts: a name or a phrase that says which limit was hit.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from otel_loopguard.dialects import pyrepr
from otel_loopguard.model import Finish, Outcome, Span, TerminationReason, Value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OK_STATUS: Final = 1
ERROR_STATUS: Final = 2
EXCEPTION: Final = "exception"

_ERROR: Final = Outcome.ERROR
_OK: Final = Outcome.OK
_UNKNOWN: Final = Outcome.UNKNOWN
_HEAD: Final = 512
"""Characters of an error's text that are searched for a limit's phrase or an error class."""
_PLACEHOLDER_TYPES: Final = frozenset({"_OTHER", "Exception", "error"})
"""Error types that say no more than that there was an error."""
_TRACEBACK: Final = "Traceback (most recent call last)"
_SDK_ERROR: Final = re.compile(r"[^{}]{0,200}(\{'(?:message|tool_name)': .{1,4096}\})\Z", re.DOTALL)
"""How openai-agents' instrumentations write an SDK error into the status: text, then the repr of its data."""
_CALLED: Final = re.compile(r"([A-Za-z_][\w.]{0,126})\((['\"])(.{0,4096})\2,?\)\Z", re.DOTALL)
_PREFIXED: Final = re.compile(r"((?:[a-z_]\w{0,60}\.){0,8}[A-Z]\w{0,60}(?:Error|Exception|Exceeded|Timeout)): ")

_TYPES: Final[Mapping[str, TerminationReason]] = {
    "GraphRecursionError": TerminationReason.TURN_LIMIT,
    "LlmCallsLimitExceededError": TerminationReason.TURN_LIMIT,
    "MaxTurnsExceeded": TerminationReason.TURN_LIMIT,
    "ModelCallLimitExceededError": TerminationReason.TURN_LIMIT,
    "ToolCallLimitExceededError": TerminationReason.TURN_LIMIT,
    "UsageLimitExceeded": TerminationReason.TURN_LIMIT,
    "AgentMaxStepsError": TerminationReason.TURN_LIMIT,
    "DeadlineExceeded": TerminationReason.DEADLINE,
    "TimeoutError": TerminationReason.DEADLINE,
    "WorkflowTimeoutError": TerminationReason.DEADLINE,
    "CancelledError": TerminationReason.CANCELLED,
    "GeneratorExit": TerminationReason.CANCELLED,
    "KeyboardInterrupt": TerminationReason.CANCELLED,
    "WorkflowCancelledByUser": TerminationReason.CANCELLED,
    "AgentToolExecutionError": TerminationReason.TOOL_ERROR,
    "ToolException": TerminationReason.TOOL_ERROR,
    "ToolExecutionError": TerminationReason.TOOL_ERROR,
}
"""Error classes, by their last name, that say by themselves why a run ended."""

_PHRASES: Final[Sequence[tuple[str, TerminationReason]]] = (
    ("max turns exceeded", TerminationReason.TURN_LIMIT),  # openai-agents
    ("reached maximum number of turns", TerminationReason.TURN_LIMIT),  # claude-agent-sdk
    ("recursion limit of", TerminationReason.TURN_LIMIT),  # langgraph
    ("max iterations of", TerminationReason.TURN_LIMIT),  # llama-index
    ("model call limits exceeded:", TerminationReason.TURN_LIMIT),  # langchain's middleware
    ("tool call limit reached:", TerminationReason.TURN_LIMIT),  # langchain's middleware
    ("turn limit reached", TerminationReason.TURN_LIMIT),  # what applications raise from a hook (strands)
    ("exceeded max retries count of", TerminationReason.TOOL_ERROR),  # pydantic-ai, of one tool
)
"""What the frameworks write where the class says nothing; searched for at the start of a lower-cased text."""

_FINISHES: Final[Mapping[str, Finish]] = {
    "stop": Finish.STOP,
    "end_turn": Finish.STOP,
    "completed": Finish.STOP,
    "stop_sequence": Finish.STOP,
    "tool_calls": Finish.TOOL_CALLS,
    "tool_call": Finish.TOOL_CALLS,
    "tool_use": Finish.TOOL_CALLS,
    "tool-calls": Finish.TOOL_CALLS,
    "function_call": Finish.TOOL_CALLS,
    "length": Finish.LENGTH,
    "max_tokens": Finish.LENGTH,
    "max_output_tokens": Finish.LENGTH,
}


def outcome(span: Span) -> Outcome:
    """Return how a span ended by its status alone: UNKNOWN while open, OK where nothing says error."""
    if span.status_code == ERROR_STATUS:
        return _ERROR
    return _UNKNOWN if span.end_ns is None else _OK


def failure(span: Span) -> tuple[str | None, str | None]:
    """Return a failed span's error type and text, from `error.type`, its last exception event and its status.

    Returns:
        (type, text), each None where nothing says it. A type that says nothing (`_OTHER`) is None; a class named
        in the text (`ValueError('…')`, `ValueError: …`) stands in for it. A traceback is no part of the text.
    """
    event_type, event_text = _exception(span)
    attribute = span.attributes.get("error.type")
    text = event_text or span.status_message or None
    named, text = _named(text)
    for candidate in (attribute, event_type):
        if isinstance(candidate, str) and candidate and candidate not in _PLACEHOLDER_TYPES:
            return candidate, text
    return named, text


def has_exception(span: Span) -> bool:
    """Tell whether the span recorded an exception."""
    return any(event.name == EXCEPTION for event in span.events)


def termination(error_type: str | None, error_text: str | None) -> TerminationReason | None:
    """Return why a run ended, if its error's class or words say so."""
    if error_type is not None:
        reason = _TYPES.get(error_type.rpartition(".")[2])
        if reason is not None:
            return reason
    return limit(error_text)


def limit(text: str | None) -> TerminationReason | None:
    """Return the limit that a text names in a framework's own words, if any."""
    if not text:
        return None
    head = text[:_HEAD].lower()
    return next((reason for phrase, reason in _PHRASES if phrase in head), None)


def finish(value: Value) -> Finish | None:
    """Return why a model response ended, from one finish reason or the list of them; None where none is given."""
    if isinstance(value, str) and value:
        return _FINISHES.get(value.lower(), Finish.OTHER)
    if isinstance(value, (list, tuple)):
        found = [reason for reason in map(finish, value) if reason is not None]
        if Finish.TOOL_CALLS in found:
            return Finish.TOOL_CALLS
        return found[-1] if found else None
    return None


def count(value: Value) -> int | None:
    """Return a token count: an int that is not negative, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _exception(span: Span) -> tuple[Value, str | None]:
    for event in reversed(span.events):
        if event.name == EXCEPTION:
            message = event.attributes.get("exception.message")
            return event.attributes.get("exception.type"), message if isinstance(message, str) and message else None
    return None, None


def _named(text: str | None) -> tuple[str | None, str | None]:
    """Take a traceback off an error's text, and its class out of it."""
    if text is None:
        return None, None
    cut = text.find(_TRACEBACK)
    text = _sdk_error(text[:cut].rstrip() if cut > 0 else text)
    called = _CALLED.match(text) if len(text) <= _HEAD * 8 else None
    if called is not None:
        return called[1], called[3]
    prefixed = _PREFIXED.match(text[:_HEAD])
    if prefixed is not None:
        return prefixed[1], text[prefixed.end() :]
    return None, text


def _sdk_error(text: str) -> str:
    """Take the tool's error out of an SDK error, so that the tool's name in it is not taken for a kind of error."""
    told = _SDK_ERROR.match(text)
    if told is None:
        return text
    try:
        fields = pyrepr.read(told[1])
    except pyrepr.NotAReprError:
        return text
    found = fields.get("data", fields) if isinstance(fields, dict) else None
    error = found.get("error") if isinstance(found, dict) else None
    return error if isinstance(error, str) and error else text
