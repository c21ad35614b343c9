"""openai-agents as its own OpenTelemetry instrumentation writes it (opentelemetry-instrumentation-openai-agents-v2).

Invariants: pure and total on any span. `unknown` spans hold one model response and its tools. Of a response's items
the span shows only one: where that is a call there may be others, and where it is a text there may be calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from otel_loopguard import attributes as attr
from otel_loopguard.dialects import genai, payload, responses
from otel_loopguard.dialects.reading import Reading
from otel_loopguard.model import Finish, Role, Span

NAME: Final = "openai_agents"
SCOPE: Final = "opentelemetry.instrumentation.openai_agents"
CONTENT_KEYS: Final = genai.CONTENT_KEYS

_CALL: Final = "ResponseFunctionToolCall("


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
    text = _text(span)
    if text is not None and text.startswith(_CALL):
        shown = responses.Response(finish=Finish.TOOL_CALLS)
    else:
        shown = responses.Response()
    return genai.chat(span, NAME, response=shown)


def _text(span: Span) -> str | None:
    """Returns the text of the last output message, if it shows one."""
    messages = payload.as_list(span.attributes.get(attr.OUTPUT_MESSAGES))
    last = messages[-1] if messages else None
    parts = last.get("parts") if isinstance(last, Mapping) else None
    for part in reversed(parts) if isinstance(parts, (list, tuple)) else ():
        text = part.get("content") if isinstance(part, Mapping) else None
        if isinstance(text, str) and text:
            return text
    return None
