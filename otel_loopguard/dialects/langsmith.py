"""Reads the spans that LangSmith's SDK writes of LangChain and LangGraph runs when it exports OpenTelemetry.

A background thread makes them up to a second after the run, with explicit times; an agent that failed may have status
OK beside its exception event.
Invariants: a foreign span costs one lookup.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from otel_loopguard import attributes as attr
from otel_loopguard.dialects import evidence, langchain, payload, responses
from otel_loopguard.dialects.reading import NOT_CAPTURED, Content, Reading
from otel_loopguard.dialects.responses import Response
from otel_loopguard.model import ChatFacts, Outcome, Role, Span, TerminationReason, Value

NAME: Final = "langsmith"

CONTENT_KEYS: Final[frozenset[str]] = frozenset({attr.PROMPT, attr.COMPLETION, attr.LANGSMITH_SERIALIZED})
"""Attribute names that hold content; a name that ends in a dot is the head of names."""


def read(span: Span) -> Reading | None:
    """Reads one span; None where it has no LangSmith kind, OTHER where its kind says nothing of a run."""
    kind = span.attributes.get(attr.LANGSMITH_KIND)
    if kind is None:
        return None
    if kind == "tool":
        return _tool(span)
    if kind == "llm":
        return _chat(span)
    role = _chain_role(span) if kind == "chain" else Role.OTHER
    return Reading(role=role, dialect=NAME) if role is Role.OTHER else _holder(span, role)


def _chain_role(span: Span) -> Role:
    """A chain that bears its agent's name is the agent's run; its nodes bear their own."""
    if span.name and span.name == _metadata(span, langchain.AGENT):
        return Role.AGENT
    return Role.WORKFLOW if span.parent_id is None else Role.OTHER


def _holder(span: Span, role: Role) -> Reading:
    outcome, error_type, error_text = _ending(span)
    answer: bool | None = None
    termination: TerminationReason | None = None
    if outcome is Outcome.ERROR:
        termination = evidence.termination(error_type, error_text)
    elif outcome is Outcome.OK:
        answer, termination = langchain.answer(payload.parsed(span.attributes.get(attr.COMPLETION)))
    return Reading(
        role=role,
        dialect=NAME,
        outcome=outcome,
        error_type=error_type,
        error_text=error_text,
        agent=_agent(span),
        conversation=_conversation(span),
        termination=termination,
        final_answer=answer,
    )


def _tool(span: Span) -> Reading:
    attributes = span.attributes
    result, message_id, failed = _result(attributes.get(attr.COMPLETION))
    outcome, error_type, error_text = _ending(span)
    if failed:
        outcome = Outcome.ERROR
        error_text = error_text or (result.value if isinstance(result.value, str) else None)
    names = {name: _metadata(span, name) for name in (langchain.STEP, langchain.NAMESPACE)}
    return Reading(
        role=Role.TOOL,
        dialect=NAME,
        tool=payload.text_or_none(payload.first(attributes, (attr.TOOL_NAME, attr.LANGSMITH_NAME))) or span.name,
        arguments=payload.or_missing(_arguments(attributes.get(attr.PROMPT)), span),
        result=payload.or_missing(result, span),
        call_id=payload.text_or_none(attributes.get(attr.TOOL_CALL_ID)) or message_id,
        outcome=outcome,
        error_type=error_type,
        error_text=error_text,
        agent=_agent(span),
        turn=langchain.turn(names),
        conversation=_conversation(span),
    )


def _arguments(value: Value) -> Content:
    """Reads a tool run's inputs; tools called with text have `{"input": text}`, which may be a dict's repr."""
    content = payload.arguments(value)
    inputs = content.value
    if content.unknown is None and isinstance(inputs, Mapping) and inputs.keys() == {"input"}:
        inner = payload.parsed(inputs["input"]) if isinstance(inputs["input"], str) else None
        return payload.known(inner) if isinstance(inner, Mapping) else content
    return content


def _result(value: Value) -> tuple[Content, str | None, bool]:
    """Reads a tool run's outputs, `{"output": a ToolMessage or anything else}`; `{}` where there were none."""
    result, call_id, status = langchain.tool_message(value, default="output")
    none = result.unknown is None and status is None and result.value == {}
    return NOT_CAPTURED if none else result, call_id, status is True


def _ending(span: Span) -> tuple[Outcome, str | None, str | None]:
    outcome = evidence.outcome(span)
    if evidence.has_exception(span):
        outcome = Outcome.ERROR
    error_type, error_text = evidence.failure(span) if outcome is Outcome.ERROR else (None, None)
    return outcome, error_type, error_text


def _metadata(span: Span, name: str) -> Value:
    return span.attributes.get(attr.LANGSMITH_METADATA + name)


def _agent(span: Span) -> str | None:
    return payload.name_or_none(_metadata(span, langchain.AGENT))


def _conversation(span: Span) -> str | None:
    keys = (attr.LANGSMITH_METADATA + langchain.THREAD, f"{attr.LANGSMITH_METADATA}session_id")
    return payload.text_or_none(payload.first(span.attributes, keys))


# --- model responses ----------------------------------------------------------------------------------------


def _chat(span: Span) -> Reading:
    attributes = span.attributes
    outcome, error_type, error_text = _ending(span)
    generation = _generation(attributes.get(attr.COMPLETION))
    response = _response(generation)
    about = generation.get("generation_info")
    reasons = about.get("finish_reason") if isinstance(about, Mapping) else None
    chat: ChatFacts = responses.chat(response, finished=responses.finish(reasons), attributes=attributes)
    return Reading(
        role=Role.CHAT,
        dialect=NAME,
        outcome=outcome,
        error_type=error_type,
        error_text=error_text,
        agent=_agent(span),
        conversation=_conversation(span),
        chat=chat,
        final_answer=responses.answered(chat, response) if outcome is Outcome.OK else None,
    )


def _generation(value: Value) -> Mapping[str, Value]:
    """Returns the first generation of `{"generations": [[{…}]]}`; empty where there is none."""
    found = payload.as_dict(value).get("generations")
    for _ in range(2):
        found = found[0] if isinstance(found, (list, tuple)) and found else found
    return found if isinstance(found, Mapping) else {}


def _response(generation: Mapping[str, Value]) -> Response | None:
    message = generation.get("message")
    fields = message.get("kwargs", message) if isinstance(message, Mapping) else None
    return responses.response([fields]) if isinstance(fields, Mapping) else None
