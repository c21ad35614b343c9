"""Shapes of the gen_ai conventions and of native dialects without a capture, as their sources write them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_loopguard import dialects
from otel_loopguard.dialects.reading import Reading
from otel_loopguard.model import (
    ChatFacts,
    ErrorCategory,
    Finish,
    Layer,
    NotACall,
    Outcome,
    Role,
    Span,
    SpanEvent,
    TerminationReason,
    Unknown,
)


def _read(name: str = "x", scope: str = "", **fields: Any) -> Reading:
    events = tuple(SpanEvent(kind, attributes) for kind, attributes in fields.pop("events", ()))
    made = Span(
        trace_id="1" * 32,
        span_id="2" * 16,
        name=name,
        scope=scope,
        start_ns=1,
        end_ns=fields.pop("end_ns", 2),
        attributes=fields.pop("attributes", {}),
        events=events,
        **fields,
    )
    reading = dialects.read(made)
    assert reading is not None
    return reading


TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "save"}

# --- how spans end ------------------------------------------------------------------------------------------


def test_an_open_span_has_no_outcome() -> None:
    """A tool span without an end says neither well nor badly."""
    assert Outcome.UNKNOWN is _read(attributes=TOOL, end_ns=None).outcome


def test_error_type_alone_is_a_failure() -> None:
    """The conventions set `error.type` only where the operation failed, whatever the status."""
    read = _read(attributes={**TOOL, "error.type": "ValueError"})
    assert (Outcome.ERROR, "ValueError") == (read.outcome, read.error_type)


def test_a_recorded_exception_alone_is_no_failure() -> None:
    """Applications record handled exceptions on the current span."""
    event = ("exception", {"exception.type": "KeyError", "exception.message": "x"})
    read = _read(attributes=TOOL, events=[event])
    assert (Outcome.OK, None, None) == (read.outcome, read.error_type, read.error_text)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("openai.agents.MaxTurnsExceeded", TerminationReason.TURN_LIMIT),
        ("TimeoutError", TerminationReason.DEADLINE),
        ("asyncio.exceptions.CancelledError", TerminationReason.CANCELLED),
        ("GeneratorExit", TerminationReason.CANCELLED),
        ("ValueError", None),
    ],
)
def test_termination_comes_from_explicit_types(kind: str, reason: TerminationReason | None) -> None:
    """An agent's exception class says why the run ended, or nothing does."""
    attributes = {"gen_ai.operation.name": "invoke_agent"}
    read = _read(attributes=attributes, status_code=2, events=[("exception", {"exception.type": kind})])
    assert (reason, False) == (read.termination, read.final_answer)


def test_pydantic_ai_says_that_a_tool_ended_the_run() -> None:
    """A tool that exceeded its retries is named in the agent's own words."""
    read = _read(
        scope="pydantic-ai",
        attributes={"gen_ai.operation.name": "invoke_agent"},
        status_code=2,
        status_message="UnexpectedModelBehavior: Tool 'cancel_order' exceeded max retries count of 1",
    )
    assert TerminationReason.TOOL_ERROR is read.termination


def test_pydantic_ai_says_that_arguments_were_invalid() -> None:
    """The cause of a retry is structured: the arguments did not validate."""
    attributes = {**TOOL, "pydantic_ai.tool.retry.cause": "validation_error"}
    assert ErrorCategory.VALIDATION is _read(scope="pydantic-ai", attributes=attributes, status_code=2).error_category


def test_pydantic_ai_output_tools_are_answers() -> None:
    """The tool that carries a structured answer is no tool call."""
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "final_result"}
    assert NotACall.FINAL_ANSWER is _read(scope="pydantic-ai", attributes=attributes).not_a_call


# --- older generations of the conventions --------------------------------------------------------------------


def test_older_names_of_a_model_response() -> None:
    """Spans without an operation are known by `gen_ai.system`, prompts and the older token names."""
    read = _read(
        attributes={
            "gen_ai.system": "openai",
            "gen_ai.request.model": "gpt-fake",
            "gen_ai.usage.prompt_tokens": 100,
            "gen_ai.usage.completion_tokens": 20,
            "gen_ai.completion": json.dumps([{"role": "assistant", "content": "It is done."}]),
        }
    )
    assert (Role.CHAT, True) == (read.role, read.final_answer)
    assert ChatFacts(requested=(), requested_calls=0, input_tokens=100, output_tokens=20, model="gpt-fake") == read.chat


def test_choice_events() -> None:
    """In the generation of events, a choice carries the message, its tool calls and its finish reason."""
    call = {"id": "call_1", "type": "function", "function": {"name": "save", "arguments": "{}"}}
    message = json.dumps({"role": "assistant", "content": None, "tool_calls": [call]})
    choice = ("gen_ai.choice", {"index": 0, "finish_reason": "tool_calls", "message": message})
    read = _read(attributes={"gen_ai.operation.name": "chat"}, events=[choice])
    assert (("call_1",), 1, Finish.TOOL_CALLS) == (
        read.chat and read.chat.requested,
        read.chat and read.chat.requested_calls,
        read.chat and read.chat.finish,
    )
    assert read.final_answer is False


def test_completion_events() -> None:
    """The oldest generation put the completion into an event of its own."""
    event = ("gen_ai.content.completion", {"gen_ai.completion": "It is done."})
    assert _read(attributes={"gen_ai.operation.name": "chat"}, events=[event]).final_answer is True


def test_tool_name_from_the_span_name() -> None:
    """A tool span without the name's attribute is named by the span, as the conventions build it."""
    assert "save" == _read("execute_tool save", attributes={"gen_ai.operation.name": "execute_tool"}).tool


def test_foreign_spans_are_left_alone() -> None:
    """Spans of other libraries are no dialect's."""
    http = Span(
        trace_id="1",
        span_id="2",
        name="GET /orders",
        attributes={"http.request.method": "GET", "url.full": "http://x/", "error.type": "500"},
    )
    assert dialects.read(http) is None


def test_schema_copied_into_arguments() -> None:
    """A tool's schema where its arguments should stand makes no digest: all calls of the tool would look equal."""
    schema = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
    read = _read(attributes={**TOOL, "gen_ai.tool.call.arguments": json.dumps(schema)})
    assert Unknown.SCHEMA_NOT_ARGUMENTS is read.arguments.unknown


def test_redaction_of_strands() -> None:
    """Strands' own redaction leaves a mark in place of content."""
    events = [("gen_ai.tool.message", {"content": "[REDACTED]"}), ("gen_ai.choice", {"message": "[REDACTED]"})]
    read = _read(scope="strands.telemetry.tracer", attributes=TOOL, events=events)
    assert (Unknown.REDACTED, Unknown.REDACTED) == (read.arguments.unknown, read.result.unknown)


def test_dropped_attributes_are_the_reason() -> None:
    """Arguments that a span lost to its attribute limit are dropped, not never captured."""
    assert Unknown.DROPPED is _read(attributes=TOOL, dropped_attributes=31).arguments.unknown


# --- google-adk -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("response", "value"),
    [
        ({"result": "done"}, "done"),
        ({"result": None}, None),
        ({"result": [1, 2]}, [1, 2]),
        ({"result": {"a": 1}}, {"result": {"a": 1}}),
        ({"result": 1, "more": 2}, {"result": 1, "more": 2}),
        ({"id": "adk-1", "name": "save", "response": {"a": 1}}, {"a": 1}),
        ({"id": "adk-2", "name": "save", "response": {"result": "done"}}, "done"),
    ],
)
def test_adk_envelopes(response: dict[str, Any], value: Any) -> None:
    """ADK's wrapping of what is no dict is taken off, and so is the id that differs at each call."""
    attributes = {**TOOL, "gen_ai.tool.call.result": json.dumps(response)}
    read = _read(scope="gcp.vertex.agent", attributes=attributes)
    assert (None, value) == (read.result.unknown, read.result.value)


def test_adk_schema_1_without_content() -> None:
    """`{}` is what schema 1 writes with its content off: not arguments that are equal at every call."""
    content = {"gcp.vertex.agent.tool_call_args": "{}", "gcp.vertex.agent.tool_response": "{}"}
    read = _read(scope="gcp.vertex.agent", attributes={**TOOL, **content})
    assert (Unknown.NOT_CAPTURED, Unknown.NOT_CAPTURED) == (read.arguments.unknown, read.result.unknown)


def test_adk_transfers_are_handoffs() -> None:
    """`transfer_to_agent` is a tool by type only."""
    attributes = {**TOOL, "gen_ai.tool.name": "transfer_to_agent", "gen_ai.agent.name": "a"}
    read = _read(scope="gcp.vertex.agent", attributes=attributes)
    assert (Role.HANDOFF, NotACall.HANDOFF, "a") == (read.role, read.not_a_call, read.agent)


# --- haystack ---------------------------------------------------------------------------------------------------


def test_haystack_tool_errors() -> None:
    """A failed tool says so in its attribute; the status stays unset."""
    read = _read("haystack.agent.step.tool", attributes={"haystack.tool.name": "save", "haystack.tool.error": True})
    assert (Role.TOOL, "save", Outcome.ERROR) == (read.role, read.tool, read.outcome)
    assert (Unknown.NOT_CAPTURED, Unknown.NOT_CAPTURED) == (read.arguments.unknown, read.result.unknown)


def test_haystack_steps_and_responses() -> None:
    """A step is a turn with its number; the model's span names the calls that it asked for."""
    step = _read("haystack.agent.step", attributes={"haystack.agent.step": 3})
    assert (Role.TURN, "3") == (step.role, step.turn)
    call = {"tool_call": {"tool_name": "save", "arguments": {"a": 1}, "id": "call_1"}}
    replies = {"replies": [{"role": "assistant", "content": [call], "meta": {}}]}
    chat = _read("haystack.agent.step.llm", attributes={"haystack.agent.step.llm.output": json.dumps(replies)})
    assert (Role.CHAT, ("call_1",), False) == (chat.role, chat.chat and chat.chat.requested, chat.final_answer)
    assert Role.AGENT is _read("haystack.agent.run").role
    assert Role.WORKFLOW is _read("haystack.pipeline.run").role
    assert Role.OTHER is _read("haystack.component.run").role


def test_haystack_span_of_all_tools_is_no_call() -> None:
    """Older releases write one span for all tools of a step, without a tool's name."""
    assert Role.OTHER is _read("haystack.agent.step.tool", attributes={"haystack.agent.step.tool.input": "{}"}).role


# --- Vercel's older spans ------------------------------------------------------------------------------------------


def _vercel(name: str, **attributes: Any) -> Reading:
    named = {"ai." + key.replace("__", "."): value for key, value in attributes.items()}
    return _read(name, "ai", attributes={"ai.operationId": name, **named})


def test_vercel_legacy_responses() -> None:
    """A model span gives calls, finish, tokens and model; the holder an answer, its function id as its name."""
    calls = json.dumps([{"toolCallType": "function", "toolCallId": "c1", "toolName": "save", "args": "{}"}])
    asked = _vercel(
        "ai.generateText.doGenerate",
        response__toolCalls=calls,
        response__finishReason="tool-calls",
        usage__promptTokens=100,
        usage__completionTokens=20,
        model__id="gpt-fake",
    )
    expected = ChatFacts(
        requested=("c1",),
        requested_calls=1,
        finish=Finish.TOOL_CALLS,
        input_tokens=100,
        output_tokens=20,
        model="gpt-fake",
    )
    assert expected == asked.chat
    assert asked.final_answer is False
    answer = {"response__text": "done", "response__finishReason": "stop"}
    assert _vercel("ai.streamText.doStream", **answer).final_answer is True
    held = _vercel("ai.generateText", telemetry__functionId="order-agent", **answer)
    assert (Role.AGENT, "order-agent", True) == (held.role, held.agent, held.final_answer)
    assert _vercel("ai.generateText", response__finishReason="tool-calls").final_answer is False
    assert Role.OTHER is _vercel("ai.embed").role


def test_vercel_legacy_tool_errors() -> None:
    """A tool that throws has status 2 and an exception event."""
    read = _read(
        "ai.toolCall",
        "ai",
        attributes={"ai.toolCall.name": "save", "ai.toolCall.id": "c1", "ai.toolCall.args": '{"a":1}'},
        status_code=2,
        events=[("exception", {"exception.type": "RangeError", "exception.message": "no"})],
    )
    assert ("save", "c1", Outcome.ERROR, "RangeError", "no") == (
        read.tool,
        read.call_id,
        read.outcome,
        read.error_type,
        read.error_text,
    )
    assert ({"a": 1}, Unknown.NOT_CAPTURED) == (read.arguments.value, read.result.unknown)


# --- mcp ------------------------------------------------------------------------------------------------------------


def test_mcp_by_the_conventions() -> None:
    """The conventions allow arguments and results on MCP spans: both are read, the result's envelope taken off."""
    result = {"content": [{"type": "text", "text": "locked"}], "isError": True}
    read = _read(
        "tools/call save",
        kind=3,
        attributes={
            **TOOL,
            "mcp.method.name": "tools/call",
            "jsonrpc.request.id": 7,
            "gen_ai.tool.call.arguments": '{"a": 1}',
            "gen_ai.tool.call.result": json.dumps(result),
        },
    )
    assert (Layer.CLIENT, "7", {"a": 1}, "locked", Outcome.ERROR) == (
        read.layer,
        read.call_id,
        read.arguments.value,
        read.result.value,
        read.outcome,
    )


@pytest.mark.parametrize("method", ["initialize", "tools/list", "notifications/initialized", "prompts/get"])
def test_mcp_methods_that_are_no_call(method: str) -> None:
    """The protocol's other methods are part of no run."""
    assert Role.OTHER is _read(method, kind=2, attributes={"mcp.method.name": method}).role


# --- our own spans ----------------------------------------------------------------------------------------------------


def test_decision_spans() -> None:
    """A decision gives its action, the call it is about, and whether it was enforced."""
    read = _read(
        "loopguard.decision",
        attributes={
            "gen_ai.tool.name": "save",
            "gen_ai.tool.call.id": "c1",
            "loopguard.action": "deny",
            "loopguard.enforced": True,
            "loopguard.reason": "exact_repeat",
            "loopguard.call.digest": "0123456789abcdef" * 2,
        },
    )
    decision = read.decision
    assert decision is not None
    assert (Role.DECISION, "deny", True, "exact_repeat", "save", "c1") == (
        read.role,
        decision.action,
        decision.enforced,
        decision.reason,
        decision.tool,
        decision.call_id,
    )
    assert "0123456789abcdef" * 2 == decision.call_digest


@pytest.mark.parametrize("action", ["allow", "explode", None, 5])
def test_decisions_of_no_known_action(action: Any) -> None:
    """What is no decision of ours is left out."""
    assert _read("loopguard.decision", attributes={"loopguard.action": action}).decision is None


def test_names_in_decisions_are_checked() -> None:
    """What comes as a tool's name in a decision must have a name's shape: it is handed on as it is."""
    attributes = {"loopguard.action": "deny", "gen_ai.tool.name": "a secret <text>", "gen_ai.tool.call.id": "c\n1"}
    decision = _read("loopguard.decision", attributes=attributes).decision
    assert decision is not None
    assert (None, None) == (decision.tool, decision.call_id)


def test_run_end_spans() -> None:
    """A run's end gives the reason and whether there was a response."""
    attributes = {"loopguard.termination_reason": "loop_guard", "loopguard.terminal_response": False}
    read = _read("loopguard.run_end", attributes=attributes)
    assert (Role.RUN_END, TerminationReason.LOOP_GUARD, False) == (read.role, read.termination, read.final_answer)
    answered = _read("loopguard.run_end", attributes={"loopguard.termination_reason": "final_answer"})
    assert answered.final_answer is True


# --- what the registry says of content ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "key",
    [
        "gen_ai.tool.call.arguments",
        "gen_ai.output.messages",
        "tool_response",
        "gcp.vertex.agent.llm_request",
        "haystack.agent.step.tool.input",
        "ai.toolCall.args",
        "input.value",
        "traceloop.entity.output",
        "exception.message",
    ],
)
def test_content_keys_of_every_dialect_are_known(key: str) -> None:
    """The keys that hold content, by which they will be removed, come from all dialects."""
    assert key in dialects.content_keys()
