"""Reads OpenLLMetry (Traceloop) spans, whichever framework's instrumentation wrote them.

Its model responses follow the gen_ai names; those of openai-agents have no mark of OpenLLMetry's but their name, since
their scope is another instrumentation's, too. Tool spans are read in `openllmetry_tools`.
Invariants: a foreign span costs two lookups.
"""

from __future__ import annotations

from typing import Final

from otel_loopguard import attributes as attr
from otel_loopguard.dialects import evidence, langchain, payload, responses
from otel_loopguard.dialects import openllmetry_tools as tools
from otel_loopguard.dialects.openllmetry_tools import NAME
from otel_loopguard.dialects.reading import Reading
from otel_loopguard.model import NotACall, Outcome, Role, Span, TerminationReason, Value

__all__ = ["CONTENT_KEYS", "NAME", "RESPONSE_SPAN", "SCOPES", "read"]

CONTENT_KEYS: Final[frozenset[str]] = frozenset(
    {
        attr.TRACELOOP_INPUT,
        attr.TRACELOOP_OUTPUT,
        "crewai.agent.tools",
        "crewai.task.tools",
        attr.TRACELOOP_TASK_INPUT,
        attr.TRACELOOP_TASK_OUTPUT,
        attr.TRACELOOP_MCP_RESPONSE,
        attr.TRACELOOP_TOOL_ARGUMENTS,
        attr.TOOL_ARGUMENTS,
        attr.TOOL_RESULT,
        attr.INPUT_MESSAGES,
        attr.OUTPUT_MESSAGES,
        f"{attr.PROMPT}.",
        f"{attr.COMPLETION}.",
        "crewai.crew.agents",
        "crewai.crew.tasks",
        "crewai.crew.tasks_output",
        "crewai.crew.inputs",
        "crewai.task.description",
        "crewai.task.expected_output",
        "crewai.agent.goal",
        "crewai.agent.backstory",
        attr.TRACELOOP_CREWAI_RESULT,
        "llm.request.functions.",
        "mcp.request.argument",
        "traceloop.prompt.template",
        "traceloop.prompt.template_variables",
    }
)
"""Attribute names that hold content; a name that ends in a dot is the head of names."""

RESPONSE_SPAN: Final = "openai.response"
SCOPES: Final = frozenset(
    f"opentelemetry.instrumentation.{name}"
    for name in ("agno", "crewai", "crewai.instrumentation", "langchain", "llamaindex", "mcp", "mcp.instrumentation")
)
"""Scopes whose spans are OpenLLMetry's even without its span kind."""

_KINDS: Final = {"agent": Role.AGENT, "workflow": Role.WORKFLOW, "handoff": Role.HANDOFF, "tool": Role.TOOL}
_OPERATIONS: Final = {
    "chat": Role.CHAT,
    "text_completion": Role.CHAT,
    "generate_content": Role.CHAT,
    "invoke_agent": Role.AGENT,
    "create_agent": Role.SETUP,
    "execute_tool": Role.TOOL,
}
PLACEHOLDERS: Final = frozenset({"Agent Workflow", "crew"})
"""Names that the instrumentations read here give where they know none."""


def read(span: Span) -> Reading | None:
    """Reads one span.

    Returns:
        None where the span has neither OpenLLMetry's kind nor a scope or name of its own; OTHER for its noise.
    """
    kind = span.attributes.get(attr.TRACELOOP_KIND)
    if kind is None and span.scope not in SCOPES and span.name != RESPONSE_SPAN:
        return None
    role = _role(span, kind)
    if role is Role.TOOL:
        return tools.read(span)
    if role is Role.CHAT:
        return _chat(span)
    if role in (Role.AGENT, Role.WORKFLOW):
        return _holder(span, role)
    if role is Role.HANDOFF:
        return _handoff(span)
    return Reading(role=role, dialect=NAME, agent=_agent(span, role) if role is Role.SETUP else None)


def _role(span: Span, kind: Value) -> Role:
    if isinstance(kind, str) and kind in _KINDS:
        return _KINDS[kind]
    attributes = span.attributes
    if kind is not None:
        if tools.is_llama_index_tool(span):
            return Role.TOOL
        is_response = attr.OUTPUT_MESSAGES in attributes or attr.FINISH_REASONS in attributes
        return Role.CHAT if is_response else Role.OTHER
    if span.name == "crewai.workflow":
        return Role.WORKFLOW
    operation = attributes.get(attr.OPERATION)
    return _OPERATIONS.get(operation, Role.OTHER) if isinstance(operation, str) else Role.OTHER


# --- agents and workflows -----------------------------------------------------------------------------------


def _holder(span: Span, role: Role) -> Reading:
    outcome = evidence.outcome(span)
    error_type = error_text = None
    answer: bool | None = None
    termination: TerminationReason | None = None
    if outcome is Outcome.ERROR:
        error_type, error_text = evidence.failure(span)
        termination = evidence.termination(error_type, error_text)
    elif outcome is Outcome.OK:
        answer, termination = _answer(span)
    return Reading(
        role=role,
        dialect=NAME,
        outcome=outcome,
        error_type=error_type,
        error_text=error_text,
        agent=_agent(span, role),
        conversation=tools.conversation(span),
        termination=termination,
        final_answer=answer,
    )


def _agent(span: Span, role: Role) -> str | None:
    attributes = span.attributes
    candidates = [attributes.get(attr.AGENT_NAME), tools.properties(span).get(langchain.AGENT)]
    if role in (Role.AGENT, Role.SETUP):
        candidates += [attributes.get(attr.TRACELOOP_CREWAI_ROLE), attributes.get(attr.TRACELOOP_ENTITY)]
    elif role is Role.WORKFLOW:
        candidates.append(attributes.get(attr.TRACELOOP_WORKFLOW))
    names = (payload.name_or_none(name) for name in candidates)
    return next((name for name in names if name is not None and name not in PLACEHOLDERS), None)


def _answer(span: Span) -> tuple[bool | None, TerminationReason | None]:
    attributes = span.attributes
    response = responses.response(attributes.get(attr.OUTPUT_MESSAGES), last_only=True)
    if response is not None:
        return response.text and not response.calls, None
    value = payload.first(attributes, (attr.TRACELOOP_OUTPUT, attr.TRACELOOP_CREWAI_RESULT))
    if value is None:
        return None, None
    output = payload.parsed(value)
    if span.scope == tools.LANGCHAIN:
        return langchain.answer(output)
    hidden = payload.result(value).unknown is not None
    return (None if hidden or not output else True), None


def _handoff(span: Span) -> Reading:
    return Reading(
        role=Role.HANDOFF,
        dialect=NAME,
        not_a_call=NotACall.HANDOFF,
        outcome=evidence.outcome(span),
        agent=payload.name_or_none(payload.first(span.attributes, (attr.HANDOFF_FROM, attr.AGENT_NAME))),
    )


# --- model responses ----------------------------------------------------------------------------------------


def _chat(span: Span) -> Reading:
    attributes = span.attributes
    outcome = evidence.outcome(span)
    error_type, error_text = evidence.failure(span) if outcome is Outcome.ERROR else (None, None)
    response = responses.response(attributes.get(attr.OUTPUT_MESSAGES))
    chat = responses.chat(
        response, finished=responses.finish(attributes.get(attr.FINISH_REASONS)), attributes=attributes
    )
    return Reading(
        role=Role.CHAT,
        dialect=NAME,
        outcome=outcome,
        error_type=error_type,
        error_text=error_text,
        agent=_agent(span, Role.CHAT),
        conversation=tools.conversation(span),
        chat=chat,
        final_answer=responses.answered(chat, response) if outcome is Outcome.OK else None,
    )
