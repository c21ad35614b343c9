"""Reads logfire's spans of openai-agents, and keeps logfire's pending spans out of every other dialect.

A pending span is exported when the real one starts, with the same attributes under an id of its own: whoever took it
for a span would count each call twice. So this dialect must be asked first.
Invariants: a foreign span costs one lookup and one comparison.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from otel_loopguard import attributes as attr
from otel_loopguard.dialects import evidence, payload, responses
from otel_loopguard.dialects.reading import NOT_CAPTURED, Content, Reading
from otel_loopguard.dialects.responses import Response
from otel_loopguard.model import NotACall, Outcome, Role, Span, Value

NAME: Final = "logfire"

CONTENT_KEYS: Final[frozenset[str]] = frozenset(
    {
        attr.LOGFIRE_INPUT,
        attr.LOGFIRE_OUTPUT,
        attr.LOGFIRE_ERROR,
        attr.LOGFIRE_EVENTS,
        attr.LOGFIRE_MESSAGE,
        attr.LOGFIRE_RAW_INPUT,
        attr.LOGFIRE_RESPONSE,
        attr.LOGFIRE_MCP,
        attr.LOGFIRE_REQUEST,
        attr.LOGFIRE_ANSWER,
    }
)
"""Attribute names that hold content, on spans of this dialect's scope only: they are everyday words."""

_SCOPE: Final = "logfire.openai_agents"
_PENDING: Final = "pending_span"
_NULL: Final = frozenset({"null", ""})
_DEFAULT_WORKFLOW: Final = "Agent workflow"

_ROLES: Final = (
    ("Function: ", Role.TOOL),
    ("Turn {turn}", Role.TURN),
    ("Agent run: ", Role.AGENT),
    ("OpenAI Agents trace", Role.WORKFLOW),
    ("Task: ", Role.WORKFLOW),
    ("Handoff: ", Role.HANDOFF),
    ("Responses API", Role.CHAT),
    ("Chat completion with ", Role.CHAT),
)
"""Roles by the head of the message template."""


def read(span: Span) -> Reading | None:
    """Reads one span.

    Returns:
        None where the span is not logfire's of openai-agents; OTHER for pending spans of any scope.
    """
    attributes = span.attributes
    if attributes.get(attr.LOGFIRE_SPAN_TYPE) == _PENDING:
        return Reading(role=Role.OTHER, dialect=NAME)
    if span.scope != _SCOPE:
        return None
    template = attributes.get(attr.LOGFIRE_TEMPLATE)
    template = template if isinstance(template, str) else span.name
    role = next((role for head, role in _ROLES if template.startswith(head)), Role.OTHER)
    if role is Role.TOOL:
        return _tool(span)
    if role is Role.CHAT:
        return _chat(span)
    if role is Role.HANDOFF:
        agent = payload.name_or_none(attributes.get(attr.LOGFIRE_FROM_AGENT))
        outcome = evidence.outcome(span)
        return Reading(role=role, dialect=NAME, not_a_call=NotACall.HANDOFF, outcome=outcome, agent=agent)
    return Reading(role=role, dialect=NAME) if role is Role.OTHER else _holder(span, role)


def _holder(span: Span, role: Role) -> Reading:
    attributes = span.attributes
    outcome, error_type, error_text = _ending(span)
    name = attributes.get(attr.LOGFIRE_AGENT if role is Role.TURN else attr.LOGFIRE_NAME)
    turn = attributes.get(attr.LOGFIRE_TURN) if role is Role.TURN else None
    return Reading(
        role=role,
        dialect=NAME,
        outcome=outcome,
        error_type=error_type,
        error_text=error_text,
        agent=None if name == _DEFAULT_WORKFLOW else payload.name_or_none(name),
        turn=str(turn) if isinstance(turn, int) and not isinstance(turn, bool) else None,
        conversation=payload.text_or_none(attributes.get(attr.LOGFIRE_GROUP)),
        termination=None if role is Role.TURN else evidence.termination(error_type, error_text),
    )


def _tool(span: Span) -> Reading:
    attributes = span.attributes
    outcome, error_type, error_text = _ending(span)
    arguments = _arguments(attributes.get(attr.LOGFIRE_INPUT))
    result = payload.result(attributes.get(attr.LOGFIRE_OUTPUT))
    if arguments is NOT_CAPTURED and result.unknown is None and result.value is None:
        result = NOT_CAPTURED  # content is off: both are null
    return Reading(
        role=Role.TOOL,
        dialect=NAME,
        tool=payload.text_or_none(attributes.get(attr.LOGFIRE_NAME)),
        arguments=payload.or_missing(arguments, span),
        result=payload.or_missing(result, span),
        outcome=outcome,
        error_type=error_type,
        error_text=error_text,
    )


def _arguments(value: Value) -> Content:
    """Reads the model's own text; null stands there before it is known, and where content is off."""
    if isinstance(value, str) and value.strip() in _NULL:
        return NOT_CAPTURED
    return payload.arguments(value)


def _ending(span: Span) -> tuple[Outcome, str | None, str | None]:
    error = span.attributes.get(attr.LOGFIRE_ERROR)
    outcome = evidence.outcome(span)
    if error is not None and not (isinstance(error, str) and error.strip() in _NULL):
        outcome = Outcome.ERROR
    if outcome is not Outcome.ERROR:
        return outcome, None, None
    error_type, error_text = evidence.failure(span)
    fields = payload.as_dict(error)
    data = fields.get("data")
    told = data.get("error") if isinstance(data, Mapping) else None  # the message around it names the tool
    text = payload.text_or_none(told) or payload.text_or_none(fields.get("message"))
    return outcome, error_type, text or error_text


# --- model responses ----------------------------------------------------------------------------------------


def _chat(span: Span) -> Reading:
    attributes = span.attributes
    outcome, error_type, error_text = _ending(span)
    response = _response(attributes)
    chat = responses.chat(
        response, finished=responses.finish(attributes.get(attr.FINISH_REASONS)), attributes=attributes
    )
    return Reading(
        role=Role.CHAT,
        dialect=NAME,
        outcome=outcome,
        error_type=error_type,
        error_text=error_text,
        chat=chat,
        final_answer=responses.answered(chat, response) if outcome is Outcome.OK else None,
    )


def _response(attributes: Mapping[str, Value]) -> Response | None:
    """Reads the response's items, of which a call has two ids: `id` names the item, `call_id` the call."""
    items = payload.as_dict(attributes.get(attr.LOGFIRE_RESPONSE)).get("output")
    if isinstance(items, (list, tuple)):
        return responses.response([_item(item) for item in items[: responses.MAX_MESSAGES]])
    last = payload.as_list(attributes.get(attr.LOGFIRE_EVENTS))[-1:]
    choice = last[0] if last and isinstance(last[0], Mapping) else {}
    return responses.response([choice]) if choice.get("event.name") in _ANSWERS else None


_ANSWERS: Final = frozenset({"gen_ai.choice", "gen_ai.assistant.message"})


def _item(item: Value) -> Value:
    if isinstance(item, Mapping) and item.get("type") == "function_call":
        return {"type": "function_call", "id": item.get("call_id")}
    return item
