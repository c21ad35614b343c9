"""Google ADK's own spans, of its telemetry schemas 1 and 2.

Invariants: pure and total on any span. What a tool gives that is no dict, ADK wraps as `{"result": …}`: taken off, so
a tool's own dict of that one key reads as its value. Gemini's finish reason is `stop` also where it asks for tools.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from otel_loopguard import attributes as attr
from otel_loopguard.dialects import genai, payload, responses
from otel_loopguard.dialects.reading import NOT_CAPTURED, Content, Reading
from otel_loopguard.model import NotACall, Outcome, Role, Span, Value

NAME: Final = "google_adk"
SCOPE: Final = "gcp.vertex.agent"
SCOPES: Final = (SCOPE, "openinference.instrumentation.google_adk")
"""OpenInference puts its own tracer in the place of ADK's; the span of merged tools goes past its attributes."""
CONTENT_KEYS: Final = genai.CONTENT_KEYS | {
    attr.ADK_ARGUMENTS,
    attr.ADK_RESULT,
    attr.ADK_REQUEST,
    attr.ADK_RESPONSE,
    "gcp.vertex.agent.data",
}

_MERGED: Final = "(merged"
_HANDOFF_TOOL: Final = "transfer_to_agent"
_NO_CONTENT: Final = frozenset({"", "{}", "N/A", "<not serializable>", "<not specified>", "<elided>"})
"""What schema 1 writes where it has nothing, or with its content switched off. `{}` too: so a call without
arguments is unknown in schema 1 rather than calls with their arguments hidden equal."""
_LEGACY_ROLES: Final = {"call_llm": Role.CHAT, "agent_run": Role.AGENT, "invocation": Role.WORKFLOW}


def read(span: Span) -> Reading | None:
    """Reads a span of this scope; older releases name the model's span `call_llm` and give no operation."""
    operation = span.attributes.get(attr.OPERATION)
    if isinstance(operation, str):
        role = genai.ROLES.get(operation, Role.OTHER)
    else:
        known = _LEGACY_ROLES.get(span.name.partition(" ")[0])
        if known is None:
            return None
        role = known
    if role is Role.TOOL:
        return _tool(span)
    if role is Role.CHAT:
        return _chat(span)
    return genai.read_as(span, role, NAME)


def _chat(span: Span) -> Reading:
    """Reads a model's span; in schema 1 `call_llm` shows the response, around a `generate_content` that does not."""
    shown = payload.as_dict(_legacy(span.attributes.get(attr.ADK_RESPONSE))).get("content")
    response = responses.response([{**shown, "role": "assistant"}]) if isinstance(shown, Mapping) else None
    reading = genai.chat(span, NAME, response=response, distrust_stop=True)
    session = payload.name_or_none(span.attributes.get(attr.ADK_SESSION))
    if reading.conversation is None and session is not None:
        return msgspec.structs.replace(reading, conversation=session)
    return reading


def _tool(span: Span) -> Reading:
    attributes = span.attributes
    name = attributes.get(attr.TOOL_NAME)
    if isinstance(name, str) and name.startswith(_MERGED):
        return Reading(role=Role.TOOL, dialect=NAME, tool=name, not_a_call=NotACall.MERGED)
    arguments = genai.arguments_of(span)
    if arguments is NOT_CAPTURED:
        arguments = payload.arguments(_legacy(attributes.get(attr.ADK_ARGUMENTS)))
    result = genai.result_of(span)
    if result is NOT_CAPTURED:
        result = payload.result(_legacy(attributes.get(attr.ADK_RESULT)))
    result = response_of(result)
    if name == _HANDOFF_TOOL:
        return Reading(role=Role.HANDOFF, dialect=NAME, agent=genai.agent_of(span), not_a_call=NotACall.HANDOFF)
    reading = genai.tool(span, NAME, arguments=arguments, result=result)
    value = reading.result.value
    told = value.get("error") if isinstance(value, Mapping) else None
    if reading.outcome is Outcome.ERROR and isinstance(told, str) and told:
        return msgspec.structs.replace(reading, error_text=told)
    return reading


def response_of(result: Content) -> Content:
    """Takes ADK's envelopes off a tool's response: `{"id", "name", "response": …}` and `{"result": …}`.

    The id differs at each call and must not get into a digest.
    """
    value = result.value
    if result.unknown is not None or not isinstance(value, Mapping):
        return result
    if "response" in value and "name" in value and set(value) <= {"id", "name", "response"}:
        value = value["response"]
        if not isinstance(value, Mapping):
            return payload.value_of(value)
    if set(value) == {"result"} and not isinstance(value["result"], Mapping):
        return payload.blocks(payload.value_of(value["result"]))
    return Content(value)


def _legacy(value: Value) -> Value:
    return None if isinstance(value, str) and value in _NO_CONTENT else value
