"""Reads OpenInference tool spans: each framework's instrumentation puts arguments and results differently.

`tool.parameters` is the call's arguments in some frameworks and the tool's JSON schema in others, and with
OPENINFERENCE_ENABLE_GENAI_SEMCONV `gen_ai.tool.call.arguments` is a copy of it. `input.value` is the arguments in
all of them (Strands' processor alone may keep only a part there).
Invariants: a schema is never taken for arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from otel_loopguard import attributes as attr
from otel_loopguard.dialects import envelopes, evidence, langchain, payload
from otel_loopguard.dialects.reading import NOT_CAPTURED, Content, Reading
from otel_loopguard.model import NotACall, Outcome, Role, Span, Unknown, Value, Word

NAME: Final = "openinference"


class Framework(Word):
    """The frameworks whose OpenInference spans differ from the rest in some way."""

    ADK = "google_adk"
    AGENT_FRAMEWORK = "agent_framework"
    AGNO = "agno"
    AUTOGEN = "autogen_agentchat"
    CLAUDE = "claude_agent_sdk"
    CREWAI = "crewai"
    DSPY = "dspy"
    HAYSTACK = "haystack"
    LANGCHAIN = "langchain"
    LLAMA_INDEX = "llama_index"
    OPENAI_AGENTS = "openai_agents"
    PYDANTIC_AI = "pydantic_ai"
    SMOLAGENTS = "smolagents"
    STRANDS = "strands"
    ANY = "any"


_SCOPES: Final[Mapping[str, Framework]] = {
    **{f"openinference.instrumentation.{framework}": framework for framework in Framework},
    "openinference.instrumentation.autogen": Framework.AUTOGEN,
    # Span processors leave the framework's own scope.
    "agent_framework": Framework.AGENT_FRAMEWORK,
    "gcp.vertex.agent": Framework.ADK,
    "pydantic-ai": Framework.PYDANTIC_AI,
    "strands.telemetry.tracer": Framework.STRANDS,
}

_PARAMETERS_ARE_A_SCHEMA: Final = frozenset(
    {Framework.OPENAI_AGENTS, Framework.CREWAI, Framework.SMOLAGENTS, Framework.LLAMA_INDEX}
)
_IN_KWARGS: Final = frozenset({Framework.SMOLAGENTS, Framework.LLAMA_INDEX, Framework.DSPY})
_AS_REPR: Final = frozenset({Framework.AGNO, Framework.AUTOGEN, Framework.STRANDS})
"""Frameworks that write `str(result)`."""
_CALL_SUFFIXES: Final = (".__call__", ".acall", ".run", ".call")


def framework(scope: str) -> Framework:
    """Returns the framework by a span's instrumentation scope; ANY where it is not one that differs."""
    return _SCOPES.get(scope, Framework.ANY)


def metadata(span: Span, framework: Framework) -> Mapping[str, Value]:
    """Returns LangChain's metadata of a span (step, thread, agent); empty for other frameworks."""
    if framework is not Framework.LANGCHAIN:
        return {}
    return payload.as_dict(span.attributes.get(attr.OPENINFERENCE_METADATA))


def conversation(span: Span, metadata: Mapping[str, Value]) -> str | None:
    """Returns the conversation or session id that a span carries."""
    found = payload.first(span.attributes, (attr.SESSION_ID, attr.CONVERSATION_ID))
    return payload.text_or_none(metadata.get(langchain.THREAD) if found is None else found)


def read(span: Span, framework: Framework) -> Reading:
    """Reads a span of kind TOOL: a call, a handoff, or a final answer given by a tool."""
    attributes = span.attributes
    tool = _tool(span, framework)
    if tool is None:
        # A handoff of openai-agents: input and output are the names of the two agents.
        return Reading(
            role=Role.HANDOFF,
            dialect=NAME,
            not_a_call=NotACall.HANDOFF,
            outcome=evidence.outcome(span),
            agent=_agent_name(attributes.get(attr.OPENINFERENCE_INPUT)),
        )
    about = metadata(span, framework)
    result, call_id, failed = _result(span, framework)
    outcome = _outcome(span, framework, failed=failed)
    error_type = error_text = None
    if outcome is Outcome.ERROR:
        error_type, error_text = evidence.failure(span)
        if error_text is None and isinstance(result.value, str):
            error_text = result.value
    not_a_call = _not_a_call(span, framework, tool)
    return Reading(
        role=Role.TOOL,
        dialect=NAME,
        tool=tool,
        arguments=_arguments(span, framework),
        result=result,
        call_id=call_id,
        not_a_call=not_a_call,
        outcome=outcome,
        error_type=error_type,
        error_text=error_text,
        agent=_agent_name(
            payload.first(attributes, (attr.OPENINFERENCE_AGENT, attr.AGENT_NAME)) or about.get(langchain.AGENT)
        ),
        turn=langchain.turn(about) or payload.text_or_none(attributes.get(attr.STRANDS_CYCLE)),
        conversation=conversation(span, about),
        final_answer=True if not_a_call is NotACall.FINAL_ANSWER and outcome is Outcome.OK else None,
        tool_like_parent=framework is Framework.AUTOGEN,
    )


# --- what is called -----------------------------------------------------------------------------------------


def _tool(span: Span, framework: Framework) -> str | None:
    """Returns the tool's name; None for a handoff of openai-agents, which is typed as a tool and names none."""
    name = payload.text_or_none(payload.first(span.attributes, (attr.OPENINFERENCE_TOOL, attr.TOOL_NAME)))
    if name is not None:
        return name
    if framework is Framework.OPENAI_AGENTS and (not span.dropped_attributes or span.name.startswith("handoff")):
        return None
    for suffix in _CALL_SUFFIXES:
        if span.name.endswith(suffix):
            return span.name.removesuffix(suffix)
    return span.name.removeprefix("execute_tool ")


def _not_a_call(span: Span, framework: Framework, tool: str | None) -> NotACall | None:
    if framework is Framework.SMOLAGENTS and (span.name == "FinalAnswerTool" or tool == "final_answer"):
        return NotACall.FINAL_ANSWER
    if framework is Framework.DSPY and tool == "finish":  # ReAct's own tool, without arguments or effect
        return NotACall.FINAL_ANSWER
    if framework is Framework.ADK and (tool == "(merged tools)" or span.name == "execute_tool (merged)"):
        return NotACall.MERGED
    return None


def _agent_name(value: Value) -> str | None:
    name = payload.name_or_none(value)
    return None if name is None or payload.arguments(name).unknown is Unknown.REDACTED else name


# --- arguments ----------------------------------------------------------------------------------------------


def _arguments(span: Span, framework: Framework) -> Content:
    attributes = span.attributes
    found = NOT_CAPTURED
    for key in _argument_keys(framework):
        value = attributes.get(key)
        if value is None:
            continue
        content = _decoded_arguments(span, framework, key, value)
        if content.unknown is None:
            return content
        if found is NOT_CAPTURED:
            found = content
    if found is NOT_CAPTURED and framework in _PARAMETERS_ARE_A_SCHEMA and attr.TOOL_ARGUMENTS in attributes:
        return payload.SCHEMA
    return payload.or_missing(found, span)


def _argument_keys(framework: Framework) -> tuple[str, ...]:
    if framework in _PARAMETERS_ARE_A_SCHEMA:
        return (attr.OPENINFERENCE_INPUT,)
    if framework is Framework.STRANDS:  # of `{"text": …}` its processor keeps only the text in input.value
        return (attr.OPENINFERENCE_PARAMETERS, attr.TOOL_ARGUMENTS, attr.OPENINFERENCE_INPUT)
    return (attr.OPENINFERENCE_INPUT, attr.OPENINFERENCE_PARAMETERS, attr.TOOL_ARGUMENTS)


def _decoded_arguments(span: Span, framework: Framework, key: str, value: Value) -> Content:
    if framework is Framework.LANGCHAIN and key == attr.OPENINFERENCE_INPUT:
        return _of_langchain(value, typed=attr.OPENINFERENCE_INPUT_TYPE in span.attributes)
    content = payload.arguments(value)
    return envelopes.kwargs(content) if framework in _IN_KWARGS else content


def _of_langchain(value: Value, *, typed: bool) -> Content:
    """Reads a tool's input: JSON with its type given, or the bare text of the only argument of a tool.

    Bare text stays as it is, whatever it looks like: the arguments "1" and "1.0" of a tool are not equal.
    """
    if typed or not isinstance(value, str):
        return payload.arguments(value)
    read = payload.arguments(value, bare=True)
    return read if read.unknown in (Unknown.REDACTED, Unknown.TRUNCATED) else Content(value)


# --- results ------------------------------------------------------------------------------------------------


def _result(span: Span, framework: Framework) -> tuple[Content, str | None, bool]:
    """Returns the result, the call id (in LangChain it is in the result only), and whether the result says error."""
    attributes = span.attributes
    call_id = payload.text_or_none(payload.first(attributes, (*attr.OPENINFERENCE_CALL_IDS, attr.TOOL_CALL_ID)))
    value = payload.first(attributes, (attr.OPENINFERENCE_OUTPUT, attr.TOOL_RESULT))
    if framework is Framework.LANGCHAIN:
        content, message_id, status = langchain.tool_message(value)
        return payload.or_missing(content, span), call_id or message_id, status is True
    content = payload.result(value, from_repr=framework in _AS_REPR)
    failed = False
    if framework is Framework.LLAMA_INDEX:
        content, failed = envelopes.tool_output(content)
    elif framework is Framework.ADK:
        content = _adk_response(content)
    elif framework in (Framework.CLAUDE, Framework.STRANDS):
        content = payload.blocks(content)
    return payload.or_missing(content, span), call_id, failed


def _adk_response(content: Content) -> Content:
    """Takes the response out of `{"id", "name", "response"}`; ADK wraps all but dicts in `{"result": …}`."""
    value = content.value
    if content.unknown is None and isinstance(value, Mapping) and value.keys() <= {"id", "name", "response"}:
        content = payload.unwrap(content, "response")
    value = content.value
    alone = content.unknown is None and isinstance(value, Mapping) and value.keys() == {"result"}
    return payload.unwrap(content, "result") if alone else content


# --- outcome ------------------------------------------------------------------------------------------------


def _outcome(span: Span, framework: Framework, *, failed: bool) -> Outcome:
    status = payload.first(span.attributes, (attr.OPENINFERENCE_TOOL_STATUS, attr.STRANDS_STATUS))
    if failed or status == "error":
        return Outcome.ERROR
    if framework is Framework.AUTOGEN and span.status_code == evidence.OK_STATUS:
        return Outcome.UNKNOWN  # set before the result is looked at; the span nested in it knows
    return evidence.outcome(span)
