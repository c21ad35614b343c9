"""Reads OpenLLMetry tool spans: each framework's instrumentation has an envelope of its own.

LangChain: the callback's arguments, with the step in them, so that as they are no two calls are equal. llama-index:
a task span that names its tool in its output only. agno: the repr of its result object, and status OK on failures.
MCP: the client's side of a call. The SDK's decorators: `{"args": […], "kwargs": {…}}`.
Invariants: what differs between equal calls (step, run and call ids) never gets into a value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from otel_loopguard import attributes as attr
from otel_loopguard.dialects import envelopes, evidence, langchain, payload, pyrepr
from otel_loopguard.dialects.reading import NOT_CAPTURED, Content, Reading
from otel_loopguard.model import Layer, Outcome, Role, Span, Value

NAME: Final = "openllmetry"
LANGCHAIN: Final = "opentelemetry.instrumentation.langchain"
_AGNO: Final = "opentelemetry.instrumentation.agno"
_LLAMA_INDEX: Final = "opentelemetry.instrumentation.llamaindex"
_MCP: Final = frozenset({"opentelemetry.instrumentation.mcp", "opentelemetry.instrumentation.mcp.instrumentation"})
_OPENAI_AGENTS: Final = "opentelemetry.instrumentation.openai_agents"

_LLAMA_INDEX_TOOL: Final = re.compile(r"[A-Za-z]{0,80}Tool\.task\Z")
_LLAMA_INDEX_STEP: Final = "call_tool.task"
_ADDRESS: Final = re.compile(r"<[^<>]{1,200} at 0x[0-9a-f]{4,16}>")
_STATUS: Final = re.compile(r"status='(success|failure)'")


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool span's envelopes hold, taken out of them."""

    arguments: Content
    result: Content
    call_id: str | None = None
    failed: bool = False
    error_text: str | None = None
    tool: str | None = None


def read(span: Span) -> Reading:
    """Reads a tool span of any framework."""
    attributes = span.attributes
    call = _call(span)
    outcome = evidence.outcome(span)
    if call.failed or attributes.get(attr.TRACELOOP_TASK_STATUS) == "failure":
        outcome = Outcome.ERROR
    error_type = error_text = None
    if outcome is Outcome.ERROR:
        error_type, error_text = evidence.failure(span)
        error_text = error_text or call.error_text
    known = properties(span)
    return Reading(
        role=Role.TOOL,
        dialect=NAME,
        tool=_tool(span, call),
        arguments=payload.or_missing(call.arguments, span),
        result=payload.or_missing(call.result, span),
        call_id=payload.text_or_none(attributes.get(attr.TOOL_CALL_ID)) or call.call_id,
        layer=Layer.CLIENT if span.scope in _MCP else Layer.HOST,
        outcome=outcome,
        error_type=error_type,
        error_text=error_text,
        agent=payload.name_or_none(attributes.get(attr.AGENT_NAME) or known.get(langchain.AGENT)),
        turn=langchain.turn(known),
        conversation=conversation(span),
        tool_like_parent=span.name == _LLAMA_INDEX_STEP,
    )


def is_llama_index_tool(span: Span) -> bool:
    """Tells whether a task span of llama-index is a tool call, or the workflow's step around one."""
    if span.scope != _LLAMA_INDEX:
        return False
    if span.name == _LLAMA_INDEX_STEP:
        return attr.OPENINFERENCE_TOOL in span.attributes
    return _LLAMA_INDEX_TOOL.match(span.name) is not None


def properties(span: Span) -> Mapping[str, Value]:
    """Returns what LangGraph attached to a span: step, namespace, thread and agent, as far as they are there."""
    attributes = span.attributes
    return {
        name: attributes[key]
        for name in (langchain.STEP, langchain.NAMESPACE, langchain.THREAD, langchain.AGENT)
        if (key := attr.TRACELOOP_PROPERTIES + name) in attributes
    }


def conversation(span: Span) -> str | None:
    """Returns the conversation, thread or session id that a span carries."""
    keys = (
        attr.CONVERSATION_ID,
        attr.TRACELOOP_PROPERTIES + langchain.THREAD,
        f"{attr.TRACELOOP_PROPERTIES}session_id",
        attr.SESSION_ID,
    )
    return payload.text_or_none(payload.first(span.attributes, keys))


def _tool(span: Span, call: Call) -> str | None:
    attributes = span.attributes
    keys = [attr.TOOL_NAME, attr.OPENINFERENCE_TOOL]
    if span.scope != _LLAMA_INDEX:  # there it is the class of the tool
        keys.append(attr.TRACELOOP_ENTITY)
    named = payload.text_or_none(payload.first(attributes, keys)) or call.tool
    if named is not None or span.scope == _LLAMA_INDEX:
        return named
    return span.name.removeprefix("execute_tool ").removesuffix(".tool") or None


# --- envelopes ----------------------------------------------------------------------------------------------


def _call(span: Span) -> Call:
    attributes = span.attributes
    scope = span.scope
    given = payload.first(attributes, (attr.TOOL_ARGUMENTS, attr.TRACELOOP_INPUT))
    given_back = payload.first(attributes, (attr.TOOL_RESULT, attr.TRACELOOP_OUTPUT))
    if scope == LANGCHAIN:
        return _langchain(given, given_back)
    if scope == _AGNO:
        return _agno(given, given_back)
    if scope in _MCP:
        return _mcp(span, given, given_back)
    if scope == _LLAMA_INDEX:
        return _llama_index(attributes, given, given_back)
    arguments = payload.arguments(given)
    if scope != _OPENAI_AGENTS and attr.TOOL_ARGUMENTS not in attributes:
        arguments = _decorated(arguments)
    return Call(arguments=arguments, result=payload.result(given_back))


def _decorated(content: Content) -> Content:
    """Reads what the SDK's decorators record of a function's call; other dicts are left as they are."""
    value = content.value
    whole = content.unknown is None and isinstance(value, Mapping) and value.keys() == {"args", "kwargs"}
    return envelopes.kwargs(content) if whole else content


def _langchain(given: Value, given_back: Value) -> Call:
    envelope = payload.parsed(given)
    call_id: str | None = None
    if isinstance(envelope, Mapping) and "input_str" in envelope:
        context = envelope.get("kwargs")
        call_id = payload.text_or_none(context.get("tool_call_id")) if isinstance(context, Mapping) else None
        inputs = envelope.get("inputs")
        arguments = payload.known(inputs) if inputs is not None else payload.arguments(envelope["input_str"], bare=True)
    else:
        arguments = payload.arguments(given)
    result, message_id, status = langchain.tool_message(given_back, default="output")
    return Call(arguments=arguments, result=result, call_id=message_id or call_id, failed=status is True)


def _agno(given: Value, given_back: Value) -> Call:
    arguments = payload.arguments(given)
    text = given_back if isinstance(given_back, str) else ""
    status = _STATUS.match(text)
    if status is None:
        return Call(arguments=arguments, result=payload.result(given_back))
    found = pyrepr.fields(text)
    if status[1] == "failure":
        error = found.get("error")
        error_text = error if isinstance(error, str) else None
        # What the model is shown of a failed call is the error's text.
        result = payload.result(error_text) if error_text is not None else NOT_CAPTURED
        return Call(arguments=arguments, result=result, failed=True, error_text=error_text)
    if "result" in found:
        value = found["result"]
        return Call(arguments=arguments, result=Content() if value is None else payload.result(value))
    return Call(arguments=arguments, result=_unreadable(text[status.end() :]))


def _unreadable(rest: str) -> Content:
    """Reads a result that is no plain value's repr: its text, unless that was cut or changes with each call."""
    end = rest.rfind(" error=")
    start = rest.find("result=")
    if end < 0 or start < 0 or start > end:
        return payload.TRUNCATED
    text = rest[start + len("result=") : end]
    return payload.UNPARSABLE if _ADDRESS.search(text) else payload.known(text)


def _mcp(span: Span, given: Value, given_back: Value) -> Call:
    arguments = payload.arguments(given)
    value = arguments.value
    if arguments.unknown is None and isinstance(value, Mapping) and value.keys() <= {"tool_name", "arguments"}:
        inner = value.get("arguments")
        arguments = Content({}) if inner is None else payload.arguments(inner)
    result = payload.result(given_back)
    value = result.value
    failed = False
    if result.unknown is None and isinstance(value, Mapping) and value.keys() <= {"result", "is_error"}:
        failed = value.get("is_error") is True
        result = payload.blocks(payload.unwrap(result, "result"))
    text = result.value if isinstance(result.value, str) else None
    request = span.attributes.get(attr.TRACELOOP_MCP_REQUEST_ID)
    call_id = str(request) if isinstance(request, int) else payload.text_or_none(request)
    return Call(arguments=arguments, result=result, call_id=call_id, failed=failed, error_text=text if failed else None)


def _llama_index(attributes: Mapping[str, Value], given: Value, given_back: Value) -> Call:
    plain = attributes.get(attr.TRACELOOP_TOOL_ARGUMENTS)
    arguments = payload.arguments(plain) if plain is not None else envelopes.kwargs(payload.arguments(given))
    output = payload.result(given_back)
    call_id: str | None = None
    if output.unknown is None and isinstance(output.value, Mapping) and "tool_output" in output.value:
        call_id = payload.text_or_none(output.value.get("tool_id"))
        output = payload.unwrap(output, "tool_output")
    shown = payload.as_dict(given_back)
    named = payload.as_dict(shown.get("tool_output", shown)).get("tool_name")
    result, failed = envelopes.tool_output(output)
    text = result.value if failed and isinstance(result.value, str) else None
    return Call(
        arguments=arguments,
        result=result,
        call_id=call_id,
        failed=failed,
        error_text=text,
        tool=payload.text_or_none(named),
    )
