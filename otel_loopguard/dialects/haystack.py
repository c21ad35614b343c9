"""Haystack's own spans, as opentelemetry-haystack hands them on.

Invariants: pure and total on any span. Known by the span's name; a step span holds one model response and its tools;
a failed tool says so in its own attribute and leaves the span's status unset.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from otel_loopguard import attributes as attr
from otel_loopguard.dialects import genai, payload, responses
from otel_loopguard.dialects.reading import Content, Reading
from otel_loopguard.model import Outcome, Role, Span, Value

NAME: Final = "haystack"
CONTENT_KEYS: Final = frozenset(
    {
        attr.HAYSTACK_ARGUMENTS,
        attr.HAYSTACK_RESULT,
        attr.HAYSTACK_LLM_INPUT,
        attr.HAYSTACK_LLM_OUTPUT,
        "haystack.agent.input",
        "haystack.agent.output",
        "haystack.agent.step.input",
        "haystack.agent.step.output",
        "haystack.agent.state_schema",
        "haystack.component.input",
        "haystack.component.output",
        "haystack.pipeline.input_data",
        "haystack.pipeline.output_data",
        "haystack.tool.description",
        attr.EXCEPTION_MESSAGE,
        attr.EXCEPTION_STACKTRACE,
    }
)

ROLES: Final[Mapping[str, Role]] = {
    "haystack.agent.step.tool": Role.TOOL,
    "haystack.agent.step.llm": Role.CHAT,
    "haystack.agent.step": Role.TURN,
    "haystack.agent.run": Role.AGENT,
    "haystack.pipeline.run": Role.WORKFLOW,
    "haystack.async_pipeline.run": Role.WORKFLOW,
    "haystack.component.run": Role.OTHER,
}


def read(span: Span) -> Reading | None:
    """Reads a span by its name; None for any other.

    A tool span without a tool's name is an older release's one span for all tools of a step: no tool call.
    """
    role = ROLES.get(span.name)
    if role is None:
        return None
    if role is Role.TOOL:
        return _tool(span) if attr.HAYSTACK_TOOL in span.attributes else Reading(role=Role.OTHER, dialect=NAME)
    if role is Role.CHAT:
        return _chat(span)
    if role is Role.TURN:
        step = span.attributes.get(attr.HAYSTACK_STEP)
        turn = str(step) if isinstance(step, int | str) and not isinstance(step, bool) and step != "" else None
        return Reading(role=role, dialect=NAME, outcome=genai.ending(span)[0], turn=turn)
    if role is Role.OTHER:
        return Reading(role=role, dialect=NAME)
    return genai.holder(span, role, NAME)


def _tool(span: Span) -> Reading:
    attributes = span.attributes
    outcome, error_type, error_text = genai.ending(span, failed=attributes.get(attr.HAYSTACK_ERROR) is True)
    result, told, call_id = _result(payload.result(attributes.get(attr.HAYSTACK_RESULT)))
    return Reading(
        role=Role.TOOL,
        dialect=NAME,
        tool=payload.name_or_none(attributes.get(attr.HAYSTACK_TOOL)),
        arguments=payload.or_missing(payload.arguments(attributes.get(attr.HAYSTACK_ARGUMENTS)), span),
        result=payload.or_missing(result, span),
        call_id=call_id,
        outcome=Outcome.ERROR if told else outcome,
        error_type=error_type,
        error_text=error_text,
    )


def _result(result: Content) -> tuple[Content, bool, str | None]:
    """Takes a ToolCallResult's envelope off: (what the tool gave, whether it is marked as an error, the call's id)."""
    value = result.value
    if isinstance(value, Mapping) and isinstance(value.get("tool_call_result"), Mapping):
        value = value["tool_call_result"]
    if isinstance(value, Mapping) and {"result", "origin", "error"} <= set(value):
        origin = value["origin"]
        call_id = payload.name_or_none(origin.get("id")) if isinstance(origin, Mapping) else None
        return payload.blocks(payload.value_of(value["result"])), value["error"] is True, call_id
    return payload.blocks(result), False, None


def _chat(span: Span) -> Reading:
    outcome, error_type, error_text = genai.ending(span)
    output = payload.as_dict(span.attributes.get(attr.HAYSTACK_LLM_OUTPUT))
    replies: Value = output.get("replies")
    response = responses.response(replies) if isinstance(replies, list) else None
    facts = responses.chat(response, finished=None, attributes=span.attributes)
    return Reading(
        role=Role.CHAT,
        dialect=NAME,
        outcome=outcome,
        error_type=error_type,
        error_text=error_text,
        chat=facts,
        final_answer=None if outcome is Outcome.ERROR else responses.answered(facts, response),
    )
