"""Made-up spans of every dialect, in which every value that could be content holds the canary.

Invariants: written as the instrumentations of the captures write them, so that what is told of them is what would
happen to theirs; a second time with every key that any dialect knows as content.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from otel_loopguard import dialects
from otel_loopguard.cli.checkup.canary import HERE as _HERE

_JSON: Final = '{"question": "CANARY", "count": 3}'
_MESSAGES: Final = '[{"role": "user", "parts": [{"type": "text", "content": "CANARY"}]}]'


class Shape(NamedTuple):
    """One span as an instrumentation writes it."""

    dialect: str
    role: str
    """`tool`, `chat` or `agent`."""
    scope: str
    name: str
    attributes: Mapping[str, Any]
    late: Mapping[str, Any] = {}
    """Set just before the end."""
    events: Sequence[tuple[str, Mapping[str, Any]]] = ()
    crowded: bool = False
    """It has more on it than any instrumentation writes, so its arguments need not be readable."""


def shapes() -> Iterator[Sequence[Shape]]:
    """Gives the spans of one agent's run after the other: the agent's, then its model's and its tool's."""
    for dialect, run in _RUNS.items():
        yield [Shape(dialect, role, *rest) for role, rest in run]
        # The same spans with every key that any dialect knows as content.
        yield [
            Shape(dialect, role, scope, name, {**every_key(), **attributes}, late, events, crowded=True)
            for role, (scope, name, attributes, late, events) in run
        ]


def every_key() -> dict[str, str]:
    """Returns the canary under each key that holds content in some dialect."""
    return {f"{key}0.message.content" if key.endswith(".") else key: _HERE for key in sorted(dialects.content_keys())}


_Row = tuple[str, tuple[str, str, Mapping[str, Any], Mapping[str, Any], Sequence[tuple[str, Mapping[str, Any]]]]]


def _row(
    role: str,
    scope: str,
    name: str,
    attributes: Mapping[str, Any],
    late: Mapping[str, Any] | None = None,
    events: Sequence[tuple[str, Mapping[str, Any]]] = (),
) -> _Row:
    return role, (scope, name, attributes, late or {}, events)


def _conventional(
    scope: str, arguments: str = "gen_ai.tool.call.arguments", result: str = "gen_ai.tool.call.result"
) -> Sequence[_Row]:
    operation = "gen_ai.operation.name"
    return (
        _row(
            "agent",
            scope,
            "invoke_agent CANARY",
            {operation: "invoke_agent", "gen_ai.agent.name": _HERE, "gen_ai.input.messages": _MESSAGES},
            {"gen_ai.output.messages": _MESSAGES},
        ),
        _row(
            "chat",
            scope,
            "chat model",
            {operation: "chat", "gen_ai.request.model": "model", "gen_ai.system_instructions": _HERE},
            {"gen_ai.output.messages": _MESSAGES},
            [("gen_ai.choice", {"message": _HERE}), ("gen_ai.user.message", {"content": _HERE})],
        ),
        _row(
            "tool",
            scope,
            "execute_tool CANARY",
            {operation: "execute_tool", "gen_ai.tool.name": _HERE, "gen_ai.tool.call.id": _HERE, arguments: _JSON},
            {result: _JSON, "gen_ai.tool.description": _HERE},
        ),
    )


def _openinference(scope: str) -> Sequence[_Row]:
    kind = "openinference.span.kind"
    return (
        _row(
            "agent",
            scope,
            "CANARY",
            {kind: "AGENT", "input.value": _JSON, "agent.name": _HERE},
            {"output.value": _HERE},
        ),
        _row(
            "chat",
            scope,
            "response",
            {kind: "LLM", "llm.model_name": "model", "llm.input_messages.0.message.content": _HERE},
            {
                "llm.output_messages.0.message.content": _HERE,
                "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": _JSON,
            },
        ),
        _row(
            "tool",
            scope,
            "CANARY",
            {
                kind: "TOOL",
                "tool.name": _HERE,
                "input.value": _JSON,
                "tool.parameters": _JSON,
                "tool.description": _HERE,
            },
            {"output.value": _HERE},
        ),
    )


_STRANDS: Final = "strands.telemetry.tracer"
_LLMETRY: Final = "opentelemetry.instrumentation.langchain"
_RUNS: Final[Mapping[str, Sequence[_Row]]] = {
    "gen_ai": _conventional("opentelemetry.instrumentation.genai.langchain"),
    "openai_agents": _conventional("opentelemetry.instrumentation.openai_agents"),
    "google_adk": _conventional(
        "gcp.vertex.agent", "gcp.vertex.agent.tool_call_args", "gcp.vertex.agent.tool_response"
    ),
    "pydantic_ai": _conventional("pydantic-ai", "tool_arguments", "tool_response"),
    "strands": (
        *_conventional(_STRANDS)[:2],
        _row(
            "tool",
            _STRANDS,
            "execute_tool CANARY",
            {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": _HERE, "gen_ai.tool.status": "success"},
            {},
            [
                ("gen_ai.tool.message", {"role": "tool", "content": _JSON, "id": "1"}),
                ("gen_ai.choice", {"message": '[{"text": "CANARY"}]', "id": "1"}),
            ],
        ),
    ),
    "openinference": _openinference("openinference.instrumentation.openai_agents"),
    "openllmetry": (
        _row(
            "agent",
            _LLMETRY,
            "CANARY.agent",
            {"traceloop.span.kind": "agent", "gen_ai.agent.name": _HERE, "traceloop.entity.input": _JSON},
        ),
        _row(
            "chat",
            _LLMETRY,
            "ChatModel.chat",
            {"gen_ai.operation.name": "chat", "gen_ai.request.model": "model", "gen_ai.prompt.0.content": _HERE},
            {"gen_ai.completion.0.content": _HERE, "gen_ai.completion.0.tool_calls.0.arguments": _JSON},
        ),
        _row(
            "tool",
            _LLMETRY,
            "CANARY.tool",
            {"traceloop.span.kind": "tool", "traceloop.entity.name": _HERE, "traceloop.entity.input": _JSON},
            {"traceloop.entity.output": _HERE},
        ),
    ),
    "langsmith": (
        _row(
            "agent",
            "langsmith",
            "CANARY",
            {"langsmith.span.kind": "chain", "langsmith.trace.name": _HERE, "gen_ai.prompt": _JSON},
        ),
        _row(
            "chat",
            "langsmith",
            "model",
            {"langsmith.span.kind": "llm", "gen_ai.prompt": _JSON, "gen_ai.completion": _JSON},
        ),
        _row(
            "tool",
            "langsmith",
            "CANARY",
            {"langsmith.span.kind": "tool", "langsmith.trace.name": _HERE, "gen_ai.prompt": _JSON},
            {"gen_ai.completion": _JSON},
        ),
    ),
    "logfire": (
        _row(
            "agent",
            "logfire.openai_agents",
            "Agent run: {name!r}",
            {
                "logfire.span_type": "span",
                "logfire.msg_template": "Agent run: {name!r}",
                "name": _HERE,
                "logfire.msg": _HERE,
            },
        ),
        _row(
            "chat",
            "logfire.openai_agents",
            "Responses API with {gen_ai.request.model!r}",
            {
                "logfire.span_type": "span",
                "logfire.msg_template": "Responses API with {gen_ai.request.model!r}",
                "gen_ai.request.model": "model",
                "events": _MESSAGES,
            },
            {"response": _JSON},
        ),
        _row(
            "tool",
            "logfire.openai_agents",
            "Function: {name}",
            {"logfire.span_type": "span", "logfire.msg_template": "Function: {name}", "name": _HERE, "input": _JSON},
            {"output": _HERE, "error": _HERE},
        ),
    ),
    "haystack": (
        _row(
            "agent", "haystack", "haystack.agent.run", {"haystack.agent.input": _JSON}, {"haystack.agent.output": _JSON}
        ),
        _row("chat", "haystack", "haystack.agent.step.llm", {"haystack.agent.step.llm.input": _JSON}),
        _row(
            "tool",
            "haystack",
            "haystack.agent.step.tool",
            {"haystack.tool.name": _HERE, "haystack.agent.step.tool.input": _JSON},
            {"haystack.agent.step.tool.output": _JSON},
        ),
    ),
    "mcp": (
        _row(
            "tool",
            "mcp-python-sdk",
            "tools/call CANARY",
            {
                "mcp.method.name": "tools/call",
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": _HERE,
                "gen_ai.tool.call.arguments": _JSON,
                "jsonrpc.request.id": "1",
            },
            {"gen_ai.tool.call.result": _JSON},
        ),
    ),
    "vercel_legacy": (
        _row("agent", "ai", "ai.generateText", {"ai.operationId": "ai.generateText", "ai.prompt": _JSON}),
        _row(
            "chat",
            "ai",
            "ai.generateText.doGenerate",
            {"ai.operationId": "ai.generateText.doGenerate", "ai.prompt.messages": _MESSAGES},
            {"ai.response.text": _HERE, "ai.response.toolCalls": _JSON},
        ),
        _row(
            "tool",
            "ai",
            "ai.toolCall",
            {"ai.operationId": "ai.toolCall", "ai.toolCall.name": _HERE, "ai.toolCall.args": _JSON},
            {"ai.toolCall.result": _JSON},
        ),
    ),
}
"""For each dialect the spans of one run. Source: the captures that the dialects are tested with."""
