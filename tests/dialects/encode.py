"""Builds tool spans as the gen_ai conventions and the native dialects write them, after the captures.

`ENCODERS` maps a dialect's shape to a function that makes the span of one call; no real span is needed to try
arguments and results that no capture holds.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from otel_loopguard.model import Span, SpanEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def compact(value: Any) -> str:
    """JSON text as most exporters write it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def spaced(value: Any) -> str:
    """JSON text as Python writes it by default, keys in another order."""
    return json.dumps(value, sort_keys=True)


def text(value: Any) -> str:
    """Text stays as it is, all else becomes JSON: what most instrumentations do with results."""
    return value if isinstance(value, str) else compact(value)


def span(name: str, scope: str, attributes: Mapping[str, Any], events: tuple[SpanEvent, ...] = ()) -> Span:
    """One ended span of kind INTERNAL."""
    return Span(
        trace_id="1" * 32,
        span_id="2" * 16,
        name=name,
        kind=1,
        scope=scope,
        start_ns=1,
        end_ns=2,
        attributes=dict(attributes),
        events=events,
    )


def _operation(tool: str, call_id: str) -> dict[str, Any]:
    return {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool, "gen_ai.tool.call.id": call_id}


def _gen_ai(tool: str, arguments: dict[str, Any], result: Any, call_id: str) -> Span:
    content = {"gen_ai.tool.call.arguments": compact(arguments), "gen_ai.tool.call.result": text(result)}
    scope = "opentelemetry.instrumentation.genai.langchain"
    return span(f"execute_tool {tool}", scope, _operation(tool, call_id) | content)


def _agent_framework(tool: str, arguments: dict[str, Any], result: Any, call_id: str) -> Span:
    content = {"gen_ai.tool.call.arguments": spaced(arguments), "gen_ai.tool.call.result": text(result)}
    return span(f"execute_tool {tool}", "agent_framework", _operation(tool, call_id) | content)


def _vercel(tool: str, arguments: dict[str, Any], result: Any, call_id: str) -> Span:
    content = {"gen_ai.tool.call.arguments": compact(arguments), "gen_ai.tool.call.result": compact(result)}
    return span(f"execute_tool {tool}", "gen_ai", _operation(tool, call_id) | content)


def _structured(tool: str, arguments: dict[str, Any], result: Any, call_id: str) -> Span:
    # No capture does this yet; the conventions allow it (OTLP kvlist), but a null value is no value there.
    known = compact(None) if result is None else result
    content = {"gen_ai.tool.call.arguments": arguments, "gen_ai.tool.call.result": known}
    return span(f"execute_tool {tool}", "custom", _operation(tool, call_id) | content)


def _bytes(tool: str, arguments: dict[str, Any], result: Any, call_id: str) -> Span:
    content = {
        "gen_ai.tool.call.arguments": compact(arguments).encode(),
        "gen_ai.tool.call.result": compact(result).encode(),
    }
    return span(f"execute_tool {tool}", "custom", _operation(tool, call_id) | content)


def _python_repr(tool: str, arguments: dict[str, Any], result: Any, call_id: str) -> Span:
    # Home-made instrumentations write str(arguments); a scalar result by repr cannot be told from text.
    shown = repr(result) if isinstance(result, dict | list) else text(result)
    content = {"gen_ai.tool.call.arguments": repr(arguments), "gen_ai.tool.call.result": shown}
    return span(f"execute_tool {tool}", "custom", _operation(tool, call_id) | content)


def _json_in_json(tool: str, arguments: dict[str, Any], result: Any, call_id: str) -> Span:
    content = {
        "gen_ai.tool.call.arguments": compact(compact(arguments)),
        "gen_ai.tool.call.result": compact(compact(result)),
    }
    return span(f"execute_tool {tool}", "custom", _operation(tool, call_id) | content)


def _openai_agents(tool: str, arguments: dict[str, Any], result: Any, _call_id: str) -> Span:
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.agent.name": "OpenAI Agent",
        "gen_ai.tool.name": tool,
        "gen_ai.tool.call.arguments": json.dumps(arguments),
        "gen_ai.tool.call.result": text(result),
    }
    return span(f"execute_tool {tool}", "opentelemetry.instrumentation.openai_agents", attributes)


def _pydantic_v2(tool: str, arguments: dict[str, Any], result: Any, call_id: str) -> Span:
    content = {"tool_arguments": compact(arguments), "tool_response": text(result)}
    return span("running tool", "pydantic-ai", _operation(tool, call_id) | content)


def _pydantic_v5(tool: str, arguments: dict[str, Any], result: Any, call_id: str) -> Span:
    content = {"gen_ai.tool.call.arguments": compact(arguments), "gen_ai.tool.call.result": text(result)}
    return span(f"execute_tool {tool}", "pydantic-ai", _operation(tool, call_id) | content)


def _strands(tool: str, arguments: dict[str, Any], result: Any, call_id: str) -> Span:
    events = (
        SpanEvent("gen_ai.tool.message", {"role": "tool", "content": json.dumps(arguments), "id": call_id}),
        SpanEvent("gen_ai.choice", {"message": json.dumps([{"text": text(result)}]), "id": call_id}),
    )
    attributes = _operation(tool, call_id) | {"gen_ai.tool.status": "success"}
    return span(f"execute_tool {tool}", "strands.telemetry.tracer", attributes, events)


def _strands_json_block(tool: str, arguments: dict[str, Any], result: Any, call_id: str) -> Span:
    content = {
        "gen_ai.tool.call.arguments": json.dumps(arguments),
        "gen_ai.tool.call.result": json.dumps([{"json": result}]),
    }
    return span(f"execute_tool {tool}", "strands.telemetry.tracer", _operation(tool, call_id) | content)


def _strands_details(tool: str, arguments: dict[str, Any], result: Any, call_id: str) -> Span:
    asked = {"type": "tool_call", "name": tool, "id": call_id, "arguments": arguments}
    given = {"type": "tool_call_response", "id": call_id, "response": [{"text": text(result)}]}
    name = "gen_ai.client.inference.operation.details"
    events = (
        SpanEvent(name, {"gen_ai.input.messages": json.dumps([{"role": "tool", "parts": [asked]}])}),
        SpanEvent(name, {"gen_ai.output.messages": json.dumps([{"role": "tool", "parts": [given]}])}),
    )
    return span(f"execute_tool {tool}", "strands.telemetry.tracer", _operation(tool, call_id), events)


def _adk(tool: str, arguments: dict[str, Any], result: Any, call_id: str) -> Span:
    wrapped = result if isinstance(result, dict) else {"result": result}
    content = {"gen_ai.tool.call.arguments": spaced(arguments), "gen_ai.tool.call.result": spaced(wrapped)}
    return span(f"execute_tool {tool}", "gcp.vertex.agent", _operation(tool, call_id) | content)


def _adk_schema1(tool: str, arguments: dict[str, Any], result: Any, call_id: str) -> Span:
    wrapped = result if isinstance(result, dict) else {"result": result}
    content = {
        "gcp.vertex.agent.tool_call_args": spaced(arguments),
        "gcp.vertex.agent.tool_response": spaced(wrapped),
        "gcp.vertex.agent.llm_request": "{}",
        "gcp.vertex.agent.llm_response": "{}",
        "gcp.vertex.agent.event_id": call_id + "-event",
    }
    return span(f"execute_tool {tool}", "gcp.vertex.agent", _operation(tool, call_id) | content)


def _haystack(tool: str, arguments: dict[str, Any], result: Any, _call_id: str) -> Span:
    attributes = {
        "haystack.tool.name": tool,
        "haystack.agent.step.tool.input": json.dumps(arguments),
        "haystack.agent.step.tool.output": text(result),
    }
    return span("haystack.agent.step.tool", "haystack", attributes)


def _haystack_message(tool: str, arguments: dict[str, Any], result: Any, call_id: str) -> Span:
    origin = {"tool_name": tool, "arguments": arguments, "id": call_id}
    output = {"tool_call_result": {"result": text(result), "origin": origin, "error": False}}
    attributes = {
        "haystack.tool.name": tool,
        "haystack.agent.step.tool.input": json.dumps(arguments),
        "haystack.agent.step.tool.output": json.dumps(output),
    }
    return span("haystack.agent.step.tool", "haystack", attributes)


def _vercel_legacy(tool: str, arguments: dict[str, Any], result: Any, call_id: str) -> Span:
    attributes = {
        "operation.name": "ai.toolCall",
        "ai.operationId": "ai.toolCall",
        "ai.toolCall.name": tool,
        "ai.toolCall.id": call_id,
        "ai.toolCall.args": compact(arguments),
        "ai.toolCall.result": compact(result),
    }
    return span("ai.toolCall", "ai", attributes)


ENCODERS: dict[str, Callable[[str, dict[str, Any], Any, str], Span]] = {
    "gen_ai": _gen_ai,
    "gen_ai as structured values": _structured,
    "gen_ai as bytes": _bytes,
    "gen_ai as Python repr": _python_repr,
    "gen_ai as JSON in JSON": _json_in_json,
    "agent-framework": _agent_framework,
    "Vercel gen_ai": _vercel,
    "Vercel legacy": _vercel_legacy,
    "openai-agents v2": _openai_agents,
    "pydantic-ai v2": _pydantic_v2,
    "pydantic-ai v5": _pydantic_v5,
    "Strands events": _strands,
    "Strands json block": _strands_json_block,
    "Strands details event": _strands_details,
    "google-adk": _adk,
    "google-adk schema 1": _adk_schema1,
    "Haystack": _haystack,
    "Haystack message": _haystack_message,
}
WITHOUT_CALL_ID = frozenset({"openai-agents v2", "Haystack"})
"""Shapes that carry no call id."""
