"""Builds the tool span that each instrumentation library writes for one call, as the captures show it.

Shapes without a capture of their own (dspy, autogen, Strands and google-adk under OpenInference, llama-index under
OpenLLMetry, the Traceloop SDK's decorators) follow the source of the instrumentation, read in November 2026.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from otel_loopguard.model import Span, Value

Encoder: TypeAlias = Callable[[str, dict[str, Value], Value, str], Span]
"""(tool, arguments, result, call id) -> the span of that call."""

SCHEMA: Final = json.dumps(
    {
        "properties": {"order_id": {"title": "Order Id", "type": "string"}},
        "required": ["order_id"],
        "title": "lookup_order_args",
        "type": "object",
    }
)
"""What stands in `tool.parameters` of the frameworks that put the tool's schema there."""


def span(name: str, scope: str, attributes: Mapping[str, Value], *, status: int = 1, kind: int = 1) -> Span:
    """Returns an ended span of no trace in particular."""
    return Span(
        trace_id="0" * 31 + "1",
        span_id="0" * 15 + "2",
        parent_id="0" * 15 + "3",
        name=name,
        kind=kind,
        scope=scope,
        start_ns=1_000_000_000,
        end_ns=2_000_000_000,
        status_code=status,
        attributes=attributes,
    )


def text_of(result: Value) -> str:
    """Returns a result as most instrumentations write it: text as it is, all else as JSON."""
    return result if isinstance(result, str) else json.dumps(result)


def tool_message(result: Value, call_id: str) -> dict[str, Value]:
    """Returns the fields of a LangChain ToolMessage."""
    return {"content": text_of(result), "type": "tool", "tool_call_id": call_id, "status": "success"}


# --- OpenInference ------------------------------------------------------------------------------------------


def _openinference(framework: str, name: str, attributes: Mapping[str, Value], *, scope: str | None = None) -> Span:
    named = {"openinference.span.kind": "TOOL", **attributes}
    return span(name, scope or f"openinference.instrumentation.{framework}", named)


def _in_and_out(tool: str, given: Value, given_back: Value) -> dict[str, Value]:
    return {
        "tool.name": tool,
        "input.value": json.dumps(given),
        "input.mime_type": "application/json",
        "output.value": given_back,
    }


def openinference_openai_agents(tool: str, arguments: dict[str, Value], result: Value, _call_id: str) -> Span:
    """`tool.parameters` is the schema; no call id."""
    attributes = {**_in_and_out(tool, arguments, text_of(result)), "tool.parameters": SCHEMA}
    return _openinference("openai_agents", tool, attributes)


def openinference_langchain(tool: str, arguments: dict[str, Value], result: Value, call_id: str) -> Span:
    """The result is a ToolMessage; the only argument of a tool, if it is text, stands bare and without a type."""
    message = {"type": "tool", "data": {**tool_message(result, call_id), "name": tool, "id": None, "artifact": None}}
    attributes = _in_and_out(tool, arguments, json.dumps(message))
    values = list(arguments.values())
    if len(values) == 1 and isinstance(values[0], str):
        attributes["input.value"] = values[0]
        del attributes["input.mime_type"]
    metadata = {"lc_agent_name": "OrderAgent", "thread_id": "conv-123", "langgraph_step": 2}
    attributes |= {"output.mime_type": "application/json", "session.id": "conv-123", "metadata": json.dumps(metadata)}
    return _openinference("langchain", tool, attributes)


def openinference_crewai(tool: str, arguments: dict[str, Value], result: Value, _call_id: str) -> Span:
    """The span is named `X.run`; `tool.parameters` is the schema."""
    attributes = {**_in_and_out(tool, arguments, text_of(result)), "tool.parameters": SCHEMA}
    return _openinference("crewai", f"{tool}.run", attributes)


def openinference_smolagents(tool: str, arguments: dict[str, Value], result: Value, _call_id: str) -> Span:
    """The span is named after the tool's class; arguments under `kwargs`."""
    given = {"args": [], "sanitize_inputs_outputs": True, "kwargs": arguments}
    schema = '{"order_id": {"type": "string", "description": "the order\'s id"}}'
    attributes = {**_in_and_out(tool, given, text_of(result)), "tool.parameters": schema}
    return _openinference("smolagents", "SimpleTool", attributes)


def _tool_output(tool: str, arguments: dict[str, Value], result: Value) -> dict[str, Value]:
    return {
        "blocks": [{"text": str(result)}],
        "tool_name": tool,
        "raw_input": {"args": [], "kwargs": arguments},
        "raw_output": result,
        "is_error": False,
    }


def openinference_llama_index(tool: str, arguments: dict[str, Value], result: Value, _call_id: str) -> Span:
    """The result is a ToolOutput: the repr in its blocks, the value in `raw_output`."""
    output = json.dumps(_tool_output(tool, arguments, result))
    attributes = {**_in_and_out(tool, {"kwargs": arguments}, output), "tool.parameters": SCHEMA}
    return _openinference("llama_index", "FunctionTool.acall", attributes)


def openinference_dspy(tool: str, arguments: dict[str, Value], result: Value, _call_id: str) -> Span:
    """The tool is named in the span's name only; the result is always JSON."""
    attributes = _in_and_out(tool, {"kwargs": arguments}, json.dumps(result))
    del attributes["tool.name"]
    return _openinference("dspy", f"{tool}.__call__", attributes)


def openinference_agno(tool: str, arguments: dict[str, Value], result: Value, _call_id: str) -> Span:
    """The result is the repr; `tool.parameters` is the arguments."""
    attributes = {**_in_and_out(tool, arguments, str(result)), "tool.parameters": json.dumps(arguments)}
    return _openinference("agno", tool, attributes)


def openinference_autogen(tool: str, arguments: dict[str, Value], result: Value, _call_id: str) -> Span:
    """The span is named `agent.X` and holds autogen's own span of the same call."""
    attributes = {**_in_and_out(tool, arguments, str(result)), "tool.parameters": json.dumps(arguments)}
    return _openinference("autogen_agentchat", f"order_agent.{tool}", attributes)


def openinference_claude(tool: str, arguments: dict[str, Value], result: Value, call_id: str) -> Span:
    """The result is a list of content blocks."""
    output = json.dumps([{"type": "text", "text": text_of(result)}])
    attributes = {**_in_and_out(tool, arguments, output), "tool.parameters": json.dumps(arguments), "tool.id": call_id}
    return _openinference("claude_agent_sdk", tool, attributes)


def openinference_pydantic_ai(tool: str, arguments: dict[str, Value], result: Value, call_id: str) -> Span:
    """A native span, completed by a span processor: both sets of names."""
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.tool.call.id": call_id,
        "gen_ai.tool.call.arguments": json.dumps(arguments),
        "gen_ai.tool.call.result": text_of(result),
        "gen_ai.conversation.id": "conv-123",
        **_in_and_out(tool, arguments, text_of(result)),
        "tool_call.id": call_id,
        "tool.parameters": json.dumps(arguments),
    }
    return _openinference("pydantic_ai", f"execute_tool {tool}", attributes, scope="pydantic-ai")


def openinference_strands(tool: str, arguments: dict[str, Value], result: Value, call_id: str) -> Span:
    """A native span whose events a span processor made attributes of; Strands gives its model `str(result)`."""
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.tool.call.id": call_id,
        "gen_ai.tool.status": "success",
        "tool.call_id": call_id,
        **_in_and_out(tool, arguments, str(result)),
        "tool.parameters": json.dumps(arguments),
    }
    if "text" in arguments:
        attributes["input.value"] = arguments["text"]
        attributes["input.mime_type"] = "text/plain"
    return _openinference("strands", f"execute_tool {tool}", attributes, scope="strands.telemetry.tracer")


def openinference_google_adk(tool: str, arguments: dict[str, Value], result: Value, call_id: str) -> Span:
    """The result is `{"id", "name", "response"}`, where all but dicts stand under `result`."""
    response = result if isinstance(result, dict) else {"result": result}
    output = json.dumps({"id": call_id, "name": tool, "response": response})
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        **_in_and_out(tool, arguments, output),
        "tool.parameters": json.dumps(arguments),
        "tool.id": call_id,
    }
    return _openinference("google_adk", f"execute_tool {tool}", attributes)


def openinference_agent_framework(tool: str, arguments: dict[str, Value], result: Value, call_id: str) -> Span:
    """A native span, completed by a span processor: both sets of names."""
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.tool.call.id": call_id,
        "gen_ai.tool.call.arguments": json.dumps(arguments),
        "gen_ai.tool.call.result": text_of(result),
        **_in_and_out(tool, arguments, text_of(result)),
        "tool.call_id": call_id,
        "tool.parameters": json.dumps(arguments),
    }
    return _openinference("agent_framework", f"execute_tool {tool}", attributes, scope="agent_framework")


# --- OpenLLMetry --------------------------------------------------------------------------------------------


def _openllmetry(framework: str, name: str, attributes: Mapping[str, Value], *, kind: int = 1) -> Span:
    named = {"traceloop.span.kind": "tool", **attributes}
    return span(name, f"opentelemetry.instrumentation.{framework}", named, kind=kind)


def openllmetry_openai_agents(tool: str, arguments: dict[str, Value], result: Value, _call_id: str) -> Span:
    """The gen_ai names; no call id."""
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.tool.call.arguments": json.dumps(arguments),
        "gen_ai.tool.call.result": text_of(result),
    }
    return _openllmetry("openai_agents", f"{tool}.tool", attributes)


def openllmetry_langchain(tool: str, arguments: dict[str, Value], result: Value, call_id: str) -> Span:
    """The callback's arguments as they are: step, tags and call id beside the tool's own."""
    given = {
        "input_str": str(arguments),
        "tags": ["seq:step:1"],
        "metadata": {"langgraph_step": 2, "thread_id": "conv-123", "checkpoint_ns": f"tools:{call_id}"},
        "inputs": arguments,
        "kwargs": {"color": "green", "name": None, "tool_call_id": call_id},
    }
    message = {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain", "schema", "messages", "ToolMessage"],
        "kwargs": {**tool_message(result, call_id), "name": tool},
    }
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.tool.call.arguments": json.dumps(given),
        "gen_ai.tool.call.result": json.dumps({"output": message, "kwargs": {"tags": ["seq:step:1"], "name": tool}}),
        "traceloop.association.properties.langgraph_step": "2",
        "traceloop.association.properties.thread_id": "conv-123",
    }
    return _openllmetry("langchain", f"execute_tool {tool}", attributes)


def openllmetry_agno(tool: str, arguments: dict[str, Value], result: Value, _call_id: str) -> Span:
    """The result is the repr of agno's result object; the span is of kind CLIENT."""
    output = f"status='success' result={result!r} error=None updated_session_state=None images=None videos=None"
    attributes = {
        "gen_ai.tool.name": tool,
        "traceloop.entity.name": tool,
        "traceloop.entity.input": json.dumps(arguments),
        "traceloop.entity.output": output,
    }
    return _openllmetry("agno", f"{tool}.tool", attributes, kind=3)


def openllmetry_mcp(tool: str, arguments: dict[str, Value], result: Value, _call_id: str) -> Span:
    """The client's side of a call, with an envelope around arguments and result."""
    attributes = {
        "traceloop.entity.name": tool,
        "traceloop.entity.input": json.dumps({"tool_name": tool, "arguments": arguments}),
        "traceloop.entity.output": json.dumps({"result": text_of(result)}),
    }
    return _openllmetry("mcp.instrumentation", f"{tool}.tool", attributes)


def openllmetry_llama_index(tool: str, arguments: dict[str, Value], result: Value, _call_id: str) -> Span:
    """A task span; the tool is named in its output only."""
    attributes = {
        "traceloop.span.kind": "task",
        "traceloop.entity.name": "FunctionTool.task",
        "traceloop.entity.input": json.dumps({"kwargs": arguments}),
        "traceloop.entity.output": json.dumps(_tool_output(tool, arguments, result)),
    }
    return _openllmetry("llamaindex", "FunctionTool.task", attributes)


def openllmetry_decorator(tool: str, arguments: dict[str, Value], result: Value, _call_id: str) -> Span:
    """A function under the Traceloop SDK's `@tool`."""
    attributes = {
        "traceloop.span.kind": "tool",
        "traceloop.entity.name": tool,
        "traceloop.entity.input": json.dumps({"args": [], "kwargs": arguments}),
        "traceloop.entity.output": json.dumps(result),
    }
    return span(f"{tool}.tool", "traceloop.tracer", attributes)


# --- logfire, LangSmith -------------------------------------------------------------------------------------


def logfire_openai_agents(tool: str, arguments: dict[str, Value], result: Value, _call_id: str) -> Span:
    """The span's name is its message template."""
    attributes = {
        "logfire.msg_template": "Function: {name}",
        "logfire.span_type": "span",
        "name": tool,
        "input": json.dumps(arguments),
        "output": text_of(result),
        "mcp_data": "null",
    }
    return span("Function: {name}", "logfire.openai_agents", attributes, status=0)


def langsmith_langchain(tool: str, arguments: dict[str, Value], result: Value, call_id: str) -> Span:
    """Inputs as the prompt, outputs as the completion."""
    attributes = {
        "langsmith.span.kind": "tool",
        "langsmith.trace.name": tool,
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.tool.call.id": call_id,
        "gen_ai.prompt": json.dumps(arguments),
        "gen_ai.completion": json.dumps({"output": {**tool_message(result, call_id), "name": tool}}),
        "langsmith.metadata.langgraph_step": 2,
        "langsmith.metadata.thread_id": "conv-123",
    }
    return span(tool, "langsmith", attributes)


ENCODERS: Final[Mapping[str, Encoder]] = {
    "openinference.openai_agents": openinference_openai_agents,
    "openinference.langchain": openinference_langchain,
    "openinference.crewai": openinference_crewai,
    "openinference.smolagents": openinference_smolagents,
    "openinference.llama_index": openinference_llama_index,
    "openinference.dspy": openinference_dspy,
    "openinference.agno": openinference_agno,
    "openinference.autogen": openinference_autogen,
    "openinference.claude": openinference_claude,
    "openinference.pydantic_ai": openinference_pydantic_ai,
    "openinference.strands": openinference_strands,
    "openinference.google_adk": openinference_google_adk,
    "openinference.agent_framework": openinference_agent_framework,
    "openllmetry.openai_agents": openllmetry_openai_agents,
    "openllmetry.langchain": openllmetry_langchain,
    "openllmetry.agno": openllmetry_agno,
    "openllmetry.mcp": openllmetry_mcp,
    "openllmetry.llama_index": openllmetry_llama_index,
    "openllmetry.decorator": openllmetry_decorator,
    "logfire.openai_agents": logfire_openai_agents,
    "langsmith.langchain": langsmith_langchain,
}
"""Every shape, by `<library>.<framework>`."""

BARE_VALUE: Final = frozenset({"openinference.langchain"})
"""Shapes that write a lone text argument bare: the argument's name is not on the span."""
