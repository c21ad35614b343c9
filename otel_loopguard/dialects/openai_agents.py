"""openai-agents as its own OpenTelemetry instrumentation writes it (opentelemetry-instrumentation-openai-agents-v2).

Invariants: pure and total on any span. `unknown` spans hold one model response and its tools; texts of messages may
be the repr of an SDK object, and a response that shows a text may still have asked for tools.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from otel_loopguard import attributes as attr
from otel_loopguard.dialects import genai, payload, responses
from otel_loopguard.dialects.reading import Reading
from otel_loopguard.model import ChatFacts, Finish, Outcome, Role, Span

NAME: Final = "openai_agents"
SCOPE: Final = "opentelemetry.instrumentation.openai_agents"
CONTENT_KEYS: Final = genai.CONTENT_KEYS

_CALL: Final = "ResponseFunctionToolCall("
_CALL_ID: Final = re.compile(r"\bcall_id='([^'\\]{1,128})'")


def read(span: Span) -> Reading | None:
    """Reads a span of this scope; None for operations that the conventions do not have."""
    operation = span.attributes.get(attr.OPERATION)
    if not isinstance(operation, str):
        return None
    if operation == "unknown":
        return genai.read_as(span, Role.TURN, NAME)
    role = genai.ROLES.get(operation, Role.OTHER)
    if role is Role.AGENT and attr.AGENT_NAME not in span.attributes:
        return genai.holder(span, Role.WORKFLOW, NAME)  # the trace's root is typed as an agent without a name
    if role is Role.AGENT:
        text = _text(span)
        answered = None if text is None else not text.startswith(_CALL)
        return genai.holder(span, role, NAME, answered=answered)
    return _chat(span) if role is Role.CHAT else genai.read_as(span, role, NAME)


def _chat(span: Span) -> Reading:
    reading = genai.chat(span, NAME)
    text = _text(span)
    known = reading.chat or ChatFacts()
    if text is None or not text.startswith(_CALL):
        # The text of a response hides the calls that it asked for.
        unsaid = msgspec.structs.replace(known, requested=None, requested_calls=None, finish=None)
        return msgspec.structs.replace(reading, chat=unsaid, final_answer=None)
    ids = tuple(_CALL_ID.findall(text)[: responses.MAX_MESSAGES])
    asked = msgspec.structs.replace(
        known, requested=ids or None, requested_calls=len(ids) or None, finish=Finish.TOOL_CALLS
    )
    answered = None if reading.outcome is Outcome.ERROR else False
    return msgspec.structs.replace(reading, chat=asked, final_answer=answered)


def _text(span: Span) -> str | None:
    """Returns the text of the last output message, if it shows one."""
    messages = payload.as_list(span.attributes.get(attr.OUTPUT_MESSAGES))
    last = messages[-1] if messages else None
    parts = last.get("parts") if isinstance(last, Mapping) else None
    for part in reversed(parts) if isinstance(parts, list | tuple) else ():
        text = part.get("content") if isinstance(part, Mapping) else None
        if isinstance(text, str) and text:
            return text
    return None
