"""Reads what many dialects say alike: how a span ended, how a run ended, what a model response asked for.

Invariants: pure and never raising; `None` wherever the span does not say. A termination reason comes from an
explicit type or message of the framework, never from what the calls look like.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from otel_loopguard import attributes as attr
from otel_loopguard.dialects import payload
from otel_loopguard.model import ChatFacts, Finish, Outcome, Span, SpanEvent, TerminationReason, Value

STATUS_ERROR: Final = 2
MAX_MESSAGES: Final = 512
"""Most messages, parts and call ids of one model response that are read; no capture has over a dozen."""

_NO_TYPE: Final = frozenset({"", "_OTHER", "Exception", "Error", "<not specified>"})
_PLACEHOLDERS: Final = frozenset({"", "unknown", "OpenAI Agent", "<not specified>", "None", "null"})

# --- how a span ended -------------------------------------------------------------------------------------


class Ending(msgspec.Struct, frozen=True):
    """How one span ended: the outcome, the failure's type, and its message (content)."""

    outcome: Outcome
    error_type: str | None = None
    error_text: str | None = None


_ENDED_WELL: Final = Ending(Outcome.OK)
_OPEN: Final = Ending(Outcome.UNKNOWN)


def ending(span: Span, *, failed: bool = False) -> Ending:
    """Reads how a span ended: ERROR for status 2, an `error.type`, or where the dialect knows that it `failed`.

    A span that ended without any of these is OK, an open one UNKNOWN. An exception event alone is no failure:
    applications record handled exceptions on the current span.
    """
    error_type = span.attributes.get(attr.ERROR_TYPE)
    if span.status_code != STATUS_ERROR and not failed and not (isinstance(error_type, str) and error_type):
        return _ENDED_WELL if span.end_ns is not None else _OPEN
    exception = exception_of(span.events)
    if not isinstance(error_type, str) or error_type in _NO_TYPE:
        told = exception.get(attr.EXCEPTION_TYPE)
        if isinstance(told, str) and told not in _NO_TYPE:
            error_type = told
    text = payload.text_or_none(exception.get(attr.EXCEPTION_MESSAGE)) or payload.text_or_none(span.status_message)
    known_type = error_type if isinstance(error_type, str) and error_type not in _NO_TYPE else None
    return Ending(Outcome.ERROR, known_type, text)


def exception_of(events: Sequence[SpanEvent]) -> Mapping[str, Value]:
    """Returns the attributes of the last exception event; empty where there is none."""
    for event in reversed(events):
        if event.name == attr.EXCEPTION_EVENT:
            return event.attributes
    return {}


def name_or_none(value: Value) -> str | None:
    """Returns a name, or None for what frameworks write where they have none (`OpenAI Agent`, `unknown`)."""
    return value if isinstance(value, str) and value not in _PLACEHOLDERS else None


def int_or_none(value: Value) -> int | None:
    """Returns a count of 0 or more, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


# --- how a run ended --------------------------------------------------------------------------------------

_BY_TYPE: Final = {
    # openai-agents, claude-agent-sdk; langgraph; pydantic-ai; google-adk; langchain's middleware; Haystack
    "MaxTurnsExceeded": TerminationReason.TURN_LIMIT,
    "GraphRecursionError": TerminationReason.TURN_LIMIT,
    "UsageLimitExceeded": TerminationReason.TURN_LIMIT,
    "LlmCallsLimitExceededError": TerminationReason.TURN_LIMIT,
    "ModelCallLimitExceededError": TerminationReason.TURN_LIMIT,
    "ToolCallLimitExceededError": TerminationReason.TURN_LIMIT,
    "AgentMaxStepsError": TerminationReason.TURN_LIMIT,
    "MaxTokensReachedException": TerminationReason.TURN_LIMIT,
    "max_steps": TerminationReason.TURN_LIMIT,
    "TimeoutError": TerminationReason.DEADLINE,
    "Timeout": TerminationReason.DEADLINE,
    "TimeoutException": TerminationReason.DEADLINE,
    "WorkflowTimeoutError": TerminationReason.DEADLINE,
    "DeadlineExceeded": TerminationReason.DEADLINE,
    "CancelledError": TerminationReason.CANCELLED,
    "GeneratorExit": TerminationReason.CANCELLED,
    "KeyboardInterrupt": TerminationReason.CANCELLED,
    "AbortError": TerminationReason.CANCELLED,
    "ToolException": TerminationReason.TOOL_ERROR,
    "ToolInvocationError": TerminationReason.TOOL_ERROR,
    "ToolExecutionError": TerminationReason.TOOL_ERROR,
    "AI_ToolExecutionError": TerminationReason.TOOL_ERROR,
    "AgentToolExecutionError": TerminationReason.TOOL_ERROR,
}
_BY_TEXT: Final = (
    (
        re.compile(
            r"\bmax(?:imum)?[ _](?:number of )?(?:agent |llm |model |tool )?(?:turns|iterations|steps|calls)\b"
            r"|\b(?:recursion|turn|step|iteration)[ _]limit\b|\b(?:request|tool_calls|total_tokens)_limit\b",
            re.IGNORECASE,
        ),
        TerminationReason.TURN_LIMIT,
    ),
    (re.compile(r"\btool '?[\w.-]{1,128}'? exceeded max retries", re.IGNORECASE), TerminationReason.TOOL_ERROR),
)
_READ_CHARS: Final = 400
"""How much of an error's message is searched: frameworks name the limit at its beginning."""


def termination(ended: Ending) -> TerminationReason | None:
    """Reads why a run ended from the failure of the span that held it; None where it says nothing explicit."""
    if ended.outcome is not Outcome.ERROR:
        return None
    if ended.error_type:
        reason = _BY_TYPE.get(ended.error_type.rpartition(".")[2])
        if reason is not None:
            return reason
    text = (ended.error_text or "")[:_READ_CHARS]
    for pattern, reason in _BY_TEXT:
        if pattern.search(text):
            return reason
    # "UsageLimitExceeded: The next …": some SDKs put the class before the message in the status only.
    return _BY_TYPE.get(text.partition(":")[0].rpartition(".")[2])


# --- what a model response asked for ------------------------------------------------------------------------

_FINISHES: Final = {
    "tool_calls": Finish.TOOL_CALLS,
    "tool_call": Finish.TOOL_CALLS,
    "tool_use": Finish.TOOL_CALLS,
    "function_call": Finish.TOOL_CALLS,
    "stop": Finish.STOP,
    "end_turn": Finish.STOP,
    "stop_sequence": Finish.STOP,
    "completed": Finish.STOP,
    "length": Finish.LENGTH,
    "max_tokens": Finish.LENGTH,
    "max_output_tokens": Finish.LENGTH,
}
_STRONGEST: Final = (Finish.TOOL_CALLS, Finish.LENGTH, Finish.STOP, Finish.OTHER)


def finish(reasons: Value) -> Finish | None:
    """Reads finish reasons (one, a list, or JSON text of a list); with several, asking for tools outweighs all."""
    value = payload.parsed(reasons)
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list | tuple):
        return None
    seen = {
        _FINISHES.get(reason.lower().replace("-", "_"), Finish.OTHER)
        for reason in value[:MAX_MESSAGES]
        if isinstance(reason, str) and reason
    }
    return next((one for one in _STRONGEST if one in seen), None)


class Response(msgspec.Struct, frozen=True):
    """What messages of a model say: the calls asked for, whether there is an answer text, and the finish."""

    requested: tuple[str, ...] | None = None
    calls: int | None = None
    text: bool = False
    finish: Finish | None = None


def response(messages: Value, *, last_only: bool = False) -> Response | None:
    """Reads messages of any known shape: gen_ai parts, OpenAI `tool_calls`, content blocks of Strands or Anthropic.

    Args:
        messages: a list of messages, one message, a list of blocks, or JSON text of these.
        last_only: read only the last message (an agent span's, which lists the whole run).

    Returns:
        None where there is no message to read.
    """
    value = payload.parsed(messages)
    if isinstance(value, Mapping):
        value = [value]
    if isinstance(value, str):
        return Response(requested=(), calls=0, text=True) if value else None
    if not isinstance(value, list | tuple) or not value:
        return None
    found = _Found()
    for message in value[-1:] if last_only and _is_message(value[-1]) else value[:MAX_MESSAGES]:
        found.message(message)
    return found.response() if found.read else None


def chat(response: Response | None, *, finished: Finish | None, attributes: Mapping[str, Value]) -> ChatFacts:
    """Puts together what one chat span says; tokens and model by the gen_ai names of every generation."""
    requested = response.requested if response else None
    calls = response.calls if response else None
    ended = finished or (response.finish if response else None)
    if calls:
        ended = Finish.TOOL_CALLS
    return ChatFacts(
        requested=requested,
        requested_calls=calls,
        finish=ended,
        input_tokens=int_or_none(payload.first(attributes, attr.INPUT_TOKENS)),
        output_tokens=int_or_none(payload.first(attributes, attr.OUTPUT_TOKENS)),
        model=name_or_none(payload.first(attributes, attr.MODELS)),
    )


def answered(facts: ChatFacts, response: Response | None) -> bool | None:
    """Tells whether a response is an answer to the user: no calls asked for, and a stop or a text."""
    if facts.requested_calls or facts.finish is Finish.TOOL_CALLS:
        return False
    if facts.finish is Finish.STOP:
        return True
    return True if response is not None and response.text and facts.finish is None else None


def _is_message(value: Value) -> bool:
    return isinstance(value, Mapping) and "role" in value


class _Found:
    """Gathers what the parts of messages say."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.calls = 0
        self.text = False
        self.read = False
        self.finishes: list[Value] = []

    def message(self, message: Value) -> None:
        if not isinstance(message, Mapping):
            return
        if message.get("role") in ("tool", "user", "system"):
            self.read = True
            return
        self.finishes.append(message.get("finish_reason"))
        inner = message.get("message")
        if isinstance(inner, Mapping):
            message = inner
        if not any(key in message for key in ("parts", "content", "tool_calls", "role")):
            self.part(message)
            return
        self.read = True
        for call in _some(message.get("tool_calls")):
            self.call(call)
        for key in ("parts", "content"):
            parts = message.get(key)
            if isinstance(parts, str):
                self.text = self.text or bool(parts)
            for part in _some(parts):
                self.part(part)

    def part(self, part: Value) -> None:
        if not isinstance(part, Mapping):
            return
        self.read = True
        kind = part.get("type")
        if kind in ("tool_call", "tool_use", "function_call", "tool-call"):
            self.call(part)
        elif isinstance(part.get("toolUse"), Mapping):
            self.call(part["toolUse"])
        elif kind in ("text", "output_text") or (kind is None and "text" in part):
            text = part.get("content", part.get("text"))
            self.text = self.text or text != ""

    def call(self, call: Value) -> None:
        if not isinstance(call, Mapping):
            return
        self.calls += 1
        call_id = payload.first(call, ("id", "call_id", "toolUseId", "toolCallId", "tool_call_id"))
        if isinstance(call_id, str) and call_id and len(self.ids) < MAX_MESSAGES:
            self.ids.append(call_id)

    def response(self) -> Response:
        known = tuple(self.ids) if len(self.ids) == self.calls else None
        return Response(known, self.calls, self.text, finish(self.finishes))


def _some(value: Value) -> Iterable[Value]:
    return value[:MAX_MESSAGES] if isinstance(value, list | tuple) else ()
