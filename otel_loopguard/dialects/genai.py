"""The OpenTelemetry gen_ai conventions, of every generation, as any framework or instrumentation may emit them.

Invariants: pure and total on any span. The native dialects (`strands`, `google_adk`, …) read their own names and use
the functions here for the rest, so that a name of the conventions is read in one way only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from otel_loopguard import attributes as attr
from otel_loopguard.dialects import evidence, payload, responses
from otel_loopguard.dialects.payload import name_or_none
from otel_loopguard.dialects.reading import NOT_CAPTURED, Content, Reading
from otel_loopguard.model import Finish, NotACall, Outcome, Role, Span, TerminationReason, Value

NAME: Final = "gen_ai"
CONTENT_KEYS: Final = frozenset(
    {
        attr.TOOL_ARGUMENTS,
        attr.TOOL_RESULT,
        attr.INPUT_MESSAGES,
        attr.OUTPUT_MESSAGES,
        attr.SYSTEM_INSTRUCTIONS,
        attr.TOOL_DEFINITIONS,
        attr.PROMPT,
        attr.COMPLETION,
        attr.ERROR_MESSAGE,
        attr.EXCEPTION_MESSAGE,
        attr.EXCEPTION_STACKTRACE,
        "gen_ai.prompt.",
        "gen_ai.completion.",
        "gen_ai.event.content",
        "gen_ai.tool.description",
        "gen_ai.agent.tools",
        "gen_ai.agent.description",
        "gen_ai.retrieval.query.text",
        "gen_ai.retrieval.documents",
        "gen_ai.evaluation.explanation",
    }
)

ROLES: Final[Mapping[str, Role]] = {
    "execute_tool": Role.TOOL,
    "invoke_agent": Role.AGENT,
    "invoke_workflow": Role.WORKFLOW,
    "invoke_swarm": Role.WORKFLOW,
    "invoke_graph": Role.WORKFLOW,
    "chat": Role.CHAT,
    "generate_content": Role.CHAT,
    "text_completion": Role.CHAT,
    "create_agent": Role.SETUP,
    "agent_step": Role.TURN,
    "execute_event_loop_cycle": Role.TURN,
    "agent_handoff": Role.HANDOFF,
    "handoff": Role.HANDOFF,
}
"""What a span is, by `gen_ai.operation.name`; any other operation is no part of a run's shape."""

_TOOL: Final = Role.TOOL
_RESPONSE_ID: Final = "resp_"
_TOOL_SPAN: Final = "execute_tool "
_MAX_STEPS: Final = frozenset({"max_steps", "max_turns", "max_iterations"})
_MESSAGE_EVENTS: Final = frozenset({attr.CHOICE_EVENT, attr.DETAILS_EVENT, "gen_ai.content.completion"})


def read(span: Span) -> Reading | None:
    """Reads a span of the gen_ai conventions; None where it carries none of their telling names."""
    role = role_of(span)
    if role is _TOOL:
        return tool(span, NAME)
    return None if role is None else read_as(span, role, NAME)


def role_of(span: Span) -> Role | None:
    """Tells what a span is by its operation; in generations without one, by the names that it carries."""
    attributes = span.attributes
    operation = attributes.get(attr.OPERATION)
    if isinstance(operation, str):
        return ROLES.get(operation, Role.OTHER)
    if isinstance(attributes.get(attr.TOOL_NAME), str):
        return Role.TOOL
    if any(name in attributes for name in (*attr.MODELS, *attr.SYSTEM, attr.PROMPT, attr.COMPLETION)):
        return Role.CHAT
    return None


def read_as(span: Span, role: Role, dialect: str) -> Reading:
    """Reads a span whose role is known, by the names of the conventions."""
    if role is _TOOL:
        return tool(span, dialect)
    if role is Role.CHAT:
        return chat(span, dialect)
    if role in (Role.AGENT, Role.WORKFLOW):
        return holder(span, role, dialect)
    if role is Role.HANDOFF:
        giver = payload.first(span.attributes, (attr.HANDOFF_FROM, attr.AGENT_NAME))
        return Reading(role=role, dialect=dialect, agent=name_or_none(giver), not_a_call=NotACall.HANDOFF)
    if role is Role.OTHER:
        return Reading(role=role, dialect=dialect)
    return Reading(
        role=role,
        dialect=dialect,
        outcome=ending(span)[0],
        agent=agent_of(span),
        conversation=conversation_of(span),
    )


# --- tool calls -------------------------------------------------------------------------------------------


def tool(
    span: Span,
    dialect: str,
    *,
    arguments: Content | None = None,
    result: Content | None = None,
    failed: bool = False,
    not_a_call: NotACall | None = None,
) -> Reading:
    """Reads a tool span.

    Args:
        span: the span.
        dialect: the name to read it under.
        arguments: what the dialect read itself; None to read the conventions' names.
        result: likewise.
        failed: the dialect knows of a failure that neither the status nor `error.type` shows.
        not_a_call: why this span is no tool call, if the dialect knows it.
    """
    # What is not there is not asked for: most spans have neither an agent nor a conversation.
    attributes = span.attributes
    outcome, error_type, error_text = ending(span, failed=failed)
    if arguments is None:
        value = attributes.get(attr.TOOL_ARGUMENTS)
        arguments = arguments_of(span) if value is None else payload.arguments(value)
    if result is None:
        result = result_of(span)
    if span.dropped_attributes:
        arguments, result = payload.or_missing(arguments, span), payload.or_missing(result, span)
    return Reading(
        role=_TOOL,
        dialect=dialect,
        tool=tool_name(span),
        arguments=arguments,
        result=result,
        call_id=name_or_none(attributes.get(attr.TOOL_CALL_ID)),
        not_a_call=not_a_call,
        outcome=outcome,
        error_type=error_type,
        error_text=error_text,
        agent=agent_of(span) if attr.AGENT_NAME in attributes else None,
        conversation=conversation_of(span)
        if attr.CONVERSATION_ID in attributes or attr.SESSION_ID in attributes
        else None,
    )


def tool_name(span: Span) -> str | None:
    """Returns the tool's name, from its attribute or the span's name as the conventions build it."""
    name = name_or_none(span.attributes.get(attr.TOOL_NAME))
    if name is None and span.name.startswith(_TOOL_SPAN):
        return name_or_none(span.name[len(_TOOL_SPAN) :])
    return name


def arguments_of(span: Span) -> Content:
    """Reads a tool call's arguments: the attribute, else a span event that carries them."""
    value = span.attributes.get(attr.TOOL_ARGUMENTS)
    if value is not None:
        return payload.arguments(value)
    for event in span.events:
        if event.name == attr.TOOL_MESSAGE_EVENT:
            return payload.arguments(event.attributes.get("content"))
    part = _event_part(span, attr.INPUT_MESSAGES, "tool_call")
    return payload.arguments(part.get("arguments")) if part is not None else NOT_CAPTURED


def result_of(span: Span) -> Content:
    """Reads a tool call's result, content blocks unwrapped: the attribute, else a span event that carries it."""
    value = span.attributes.get(attr.TOOL_RESULT)
    if value is not None:
        read = payload.result(value)
        return payload.blocks(read) if isinstance(read.value, list | tuple) else read
    for event in span.events:
        if event.name == attr.CHOICE_EVENT:
            return payload.blocks(payload.result(event.attributes.get("message")))
    part = _event_part(span, attr.OUTPUT_MESSAGES, "tool_call_response")
    if part is None:
        return NOT_CAPTURED
    return payload.blocks(payload.result(payload.first(part, ("response", "result"))))


def _event_part(span: Span, key: str, kind: str) -> Mapping[str, Value] | None:
    for event in span.events:
        if event.name == attr.DETAILS_EVENT and key in event.attributes:
            for message in payload.as_list(event.attributes[key]):
                parts = message.get("parts") if isinstance(message, Mapping) else None
                for part in parts if isinstance(parts, (list, tuple)) else ():
                    if isinstance(part, Mapping) and part.get("type") == kind:
                        return part
    return None


# --- model responses, agents, workflows --------------------------------------------------------------------


def chat(
    span: Span, dialect: str, *, response: responses.Response | None = None, distrust_stop: bool = False
) -> Reading:
    """Reads a chat span.

    Args:
        span: the span.
        dialect: the name to read it under.
        response: what the dialect read of the response itself; None to read the conventions' names.
        distrust_stop: the framework's finish reason is `stop` also where the model asked for tools, so that it
            says nothing without the messages.
    """
    outcome, error_type, error_text = ending(span)
    response = response or response_of(span)
    finished = responses.finish(span.attributes.get(attr.FINISH_REASONS))
    if distrust_stop and finished is Finish.STOP and response is None:
        finished = None
    facts = responses.chat(response, finished=finished, attributes=span.attributes)
    conversation = conversation_of(span)
    if conversation is not None and conversation.startswith(_RESPONSE_ID):
        conversation = None  # agent-framework gives the id of the response before: another one on each span
    return Reading(
        role=Role.CHAT,
        dialect=dialect,
        outcome=outcome,
        error_type=error_type,
        error_text=error_text,
        agent=agent_of(span),
        conversation=conversation,
        chat=facts,
        final_answer=None if outcome is Outcome.ERROR else responses.answered(facts, response),
    )


def holder(span: Span, role: Role, dialect: str, *, answered: bool | None = None) -> Reading:
    """Reads an agent or workflow span.

    Args:
        span: the span.
        role: AGENT or WORKFLOW.
        dialect: the name to read it under.
        answered: whether the dialect saw an answer to the user; None to read the conventions' names.
    """
    outcome, error_type, error_text = ending(span)
    reasons = span.attributes.get(attr.FINISH_REASONS)
    termination = evidence.termination(error_type, error_text) if outcome is Outcome.ERROR else _limit(reasons)
    if outcome is Outcome.ERROR or termination is not None:
        answered = False
    elif answered is None:
        answered = _answered(span, responses.finish(reasons))
    name = span.attributes.get(attr.WORKFLOW_NAME) if role is Role.WORKFLOW else None
    return Reading(
        role=role,
        dialect=dialect,
        outcome=outcome,
        error_type=error_type,
        error_text=error_text,
        agent=name_or_none(name) or agent_of(span),
        conversation=conversation_of(span),
        termination=termination,
        final_answer=answered,
    )


def _answered(span: Span, finished: Finish | None) -> bool | None:
    if finished is Finish.STOP:
        return True
    if finished is Finish.TOOL_CALLS:
        return False
    response = response_of(span, last_only=True)
    if response is None:
        return None
    return response.text and not response.calls


def _limit(reasons: Value) -> TerminationReason | None:
    """Returns TURN_LIMIT where an agent gives a limit as its finish reason (smolagents)."""
    if isinstance(reasons, (list, tuple)) and any(isinstance(one, str) and one in _MAX_STEPS for one in reasons):
        return TerminationReason.TURN_LIMIT
    return None


def response_of(span: Span, *, last_only: bool = False) -> responses.Response | None:
    """Reads the response that a chat or agent span shows, from the newest name that carries one."""
    value = span.attributes.get(attr.OUTPUT_MESSAGES)
    if value is None:
        value = list(_event_messages(span)) or span.attributes.get(attr.COMPLETION)
    return None if value is None else responses.response(value, last_only=last_only)


def _event_messages(span: Span) -> Iterator[Value]:
    for event in span.events:
        if event.name not in _MESSAGE_EVENTS:
            continue
        attributes = event.attributes
        if event.name == attr.DETAILS_EVENT:
            yield from payload.as_list(attributes.get(attr.OUTPUT_MESSAGES))
            continue
        message = payload.parsed(payload.first(attributes, ("message", attr.COMPLETION, "content")))
        finished = attributes.get(attr.CHOICE_FINISH)
        if isinstance(message, Mapping):
            yield {"message": message, "finish_reason": finished}
        else:
            yield {"role": "assistant", "content": message, "finish_reason": finished}


# --- what all roles share -----------------------------------------------------------------------------------


def ending(span: Span, *, failed: bool = False) -> tuple[Outcome, str | None, str | None]:
    """Reads how a span ended: (outcome, error type, error text).

    ERROR for status 2, for an `error.type`, or where the dialect knows that it `failed`. An exception event alone
    is no failure: applications record handled exceptions on the current span.
    """
    told = span.attributes.get(attr.ERROR_TYPE)
    if failed or span.status_code == evidence.ERROR_STATUS or (isinstance(told, str) and told):
        return (Outcome.ERROR, *evidence.failure(span))
    return evidence.outcome(span), None, None


def agent_of(span: Span) -> str | None:
    """Returns the agent's name: its own on agent spans, the caller's on others."""
    return name_or_none(span.attributes.get(attr.AGENT_NAME))


def conversation_of(span: Span) -> str | None:
    """Returns the conversation's id, by the conventions' name or the older `session.id`."""
    attributes = span.attributes
    value = attributes.get(attr.CONVERSATION_ID)
    return name_or_none(attributes.get(attr.SESSION_ID) if value is None else value)
