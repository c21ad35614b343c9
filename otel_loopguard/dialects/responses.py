"""Reads what a model response asked for, from messages of every known shape.

Invariants: pure and never raising; None wherever the span does not say. Call ids are names, not content; texts and
arguments of messages are looked at and never handed on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from otel_loopguard import attributes as attr
from otel_loopguard.dialects import evidence, payload
from otel_loopguard.model import ChatFacts, Finish, Value

MAX_MESSAGES: Final = 512
"""Most messages, parts and call ids of one response that are read; no capture has over a dozen."""

_CALL_KEYS: Final = ("toolUse", "tool_call", "function_call", "functionCall")
"""Keys that hold a call within a part: Strands and Bedrock, Haystack, Gemini."""


def finish(reasons: Value) -> Finish | None:
    """Reads finish reasons, one or a list, also as JSON text; with several, asking for tools outweighs all."""
    if isinstance(reasons, str) and reasons[:1] == "[":
        reasons = payload.parsed(reasons)
    if isinstance(reasons, (list, tuple)):
        reasons = [reason for reason in reasons[:MAX_MESSAGES] if isinstance(reason, str)]
    return evidence.finish(reasons)


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
    if not isinstance(value, (list, tuple)) or not value:
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
        input_tokens=evidence.count(payload.first(attributes, attr.INPUT_TOKENS)),
        output_tokens=evidence.count(payload.first(attributes, attr.OUTPUT_TOKENS)),
        model=payload.name_or_none(payload.first(attributes, attr.MODELS)),
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
        elif (wrapped := payload.first(part, _CALL_KEYS)) is not None:
            self.call(wrapped)
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
    return value[:MAX_MESSAGES] if isinstance(value, (list, tuple)) else ()
