"""The Vercel AI SDK's older spans (`ai.*`), still written by its legacy telemetry.

Invariants: pure and total on any span. `ai.generateText` and its kin hold a run, their `.doGenerate` and `.doStream`
one model response each, `ai.toolCall` one tool call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from otel_loopguard import attributes as attr
from otel_loopguard.dialects import evidence, genai, payload, responses
from otel_loopguard.dialects.reading import Reading
from otel_loopguard.model import ChatFacts, Finish, Outcome, Role, Span, Value

NAME: Final = "vercel_legacy"
SCOPE: Final = "ai"
CONTENT_KEYS: Final = genai.CONTENT_KEYS | {
    *attr.VERCEL_ARGUMENTS,
    *attr.VERCEL_RESULT,
    attr.VERCEL_TEXT,
    attr.VERCEL_CALLS,
    "ai.prompt",
    "ai.prompt.",
    "ai.response.object",
    "ai.response.reasoning",
    "ai.response.files",
    "ai.schema",
    "ai.value",
    "ai.values",
}

_HOLDERS: Final = frozenset({"ai.generateText", "ai.streamText", "ai.generateObject", "ai.streamObject"})
_STEPS: Final = (".doGenerate", ".doStream")


def read(span: Span) -> Reading | None:
    """Reads a span by `ai.operationId`, else by its name; None for any other."""
    operation = span.attributes.get(attr.VERCEL_OPERATION)
    if not isinstance(operation, str):
        operation = span.name.partition(" ")[0]
        if not operation.startswith("ai."):
            return None
    if operation == "ai.toolCall":
        return _tool(span)
    if operation in _HOLDERS:
        return _holder(span)
    return _chat(span) if operation.endswith(_STEPS) else Reading(role=Role.OTHER, dialect=NAME)


def _tool(span: Span) -> Reading:
    attributes = span.attributes
    outcome, error_type, error_text = genai.ending(span)
    result = payload.blocks(payload.result(payload.first(attributes, attr.VERCEL_RESULT)))
    return Reading(
        role=Role.TOOL,
        dialect=NAME,
        tool=payload.name_or_none(attributes.get(attr.VERCEL_TOOL)),
        arguments=payload.or_missing(payload.arguments(payload.first(attributes, attr.VERCEL_ARGUMENTS)), span),
        result=payload.or_missing(result, span),
        call_id=payload.name_or_none(attributes.get(attr.VERCEL_CALL_ID)),
        outcome=outcome,
        error_type=error_type,
        error_text=error_text,
        agent=_agent(span),
        conversation=_conversation(span),
    )


def _holder(span: Span) -> Reading:
    facts, text = _facts(span)
    answered = None if text is None and facts.finish is None else facts.finish is not Finish.TOOL_CALLS
    reading = genai.holder(span, Role.AGENT, NAME, answered=answered)
    return msgspec.structs.replace(reading, agent=_agent(span), conversation=_conversation(span))


def _chat(span: Span) -> Reading:
    outcome, error_type, error_text = genai.ending(span)
    facts, text = _facts(span)
    shown = None if text is None else responses.Response(text=bool(text))
    return Reading(
        role=Role.CHAT,
        dialect=NAME,
        outcome=outcome,
        error_type=error_type,
        error_text=error_text,
        agent=_agent(span),
        conversation=_conversation(span),
        chat=facts,
        final_answer=None if outcome is Outcome.ERROR else responses.answered(facts, shown),
    )


def _facts(span: Span) -> tuple[ChatFacts, str | None]:
    attributes = span.attributes
    finished = responses.finish(payload.first(attributes, (attr.VERCEL_FINISH, attr.FINISH_REASONS)))
    listed: Value = attributes.get(attr.VERCEL_CALLS)
    text = attributes.get(attr.VERCEL_TEXT)
    calls = payload.as_list(listed)[: responses.MAX_MESSAGES]
    ids = [call.get("toolCallId") for call in calls if isinstance(call, Mapping)]
    named = tuple(call_id for call_id in ids if isinstance(call_id, str) and call_id)
    # The SDK leaves the list out where nothing was asked for, and the text where there is none.
    said = bool(ids) or finished in (Finish.STOP, Finish.LENGTH) or (isinstance(text, str) and not ids)
    facts = ChatFacts(
        requested=named if said and len(named) == len(ids) else None,
        requested_calls=len(ids) if said else None,
        finish=Finish.TOOL_CALLS if ids else finished,
        input_tokens=evidence.count(payload.first(attributes, attr.VERCEL_INPUT_TOKENS)),
        output_tokens=evidence.count(payload.first(attributes, attr.VERCEL_OUTPUT_TOKENS)),
        model=payload.name_or_none(payload.first(attributes, attr.VERCEL_MODELS)),
    )
    return facts, text if isinstance(text, str) else None


def _agent(span: Span) -> str | None:
    return payload.name_or_none(span.attributes.get(attr.VERCEL_FUNCTION))


def _conversation(span: Span) -> str | None:
    return payload.name_or_none(payload.first(span.attributes, attr.VERCEL_SESSION))
