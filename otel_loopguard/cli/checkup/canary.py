"""Made-up spans of every dialect whose every value that could be content holds a canary, and where it is found again.

Invariants: the canary is random text of our own and names nobody; what is told of a span is the place where the canary
stood, never what stood there. Values that look like names pass by design, so the canary does not look like one.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from opentelemetry.sdk.trace import ReadableSpan

from otel_loopguard import dialects
from otel_loopguard.cli.terminal import safe

_HERE: Final = "CANARY"
"""Stands for the canary in the shapes below."""
_JSON: Final = '{"question": "CANARY", "count": 3}'
_MESSAGES: Final = '[{"role": "user", "parts": [{"type": "text", "content": "CANARY"}]}]'
_MAX_DEPTH: Final = 20


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


class Place(NamedTuple):
    """Where a canary was found again."""

    dialect: str
    role: str
    where: str
    crowded: bool = False
    early: bool = False
    """On a span that had only started."""


class Canary:
    """One random text, and how to find it."""

    def __init__(self) -> None:
        self.token = f"canary{secrets.token_hex(8)}"
        self.text = f"{self.token} is made up"

    def fill(self, value: Any) -> Any:
        """Puts the canary where a shape says so."""
        if isinstance(value, str):
            return value.replace(_HERE, self.text)
        if isinstance(value, Mapping):
            return {key: self.fill(item) for key, item in value.items()}
        return [self.fill(item) for item in value] if isinstance(value, list | tuple) else value

    def holds(self, value: Any, depth: int = 0) -> bool:
        """Tells whether the canary stands somewhere in a value."""
        if isinstance(value, str):
            return self.token in value
        if isinstance(value, bytes):
            return self.token.encode() in value
        if depth >= _MAX_DEPTH:
            return False
        if isinstance(value, Mapping):
            return any(self.holds(key, depth + 1) or self.holds(item, depth + 1) for key, item in value.items())
        return isinstance(value, Sequence) and any(self.holds(item, depth + 1) for item in value)

    def found_in(self, span: ReadableSpan) -> Iterator[str]:
        """Gives each place of a span in which the canary stands, as words that hold none of it."""
        if self.holds(span.name):
            yield "the span's name"
        if self.holds(span.status.description):
            yield "the status description"
        for key in self.keys_of(span.attributes):
            yield f"attribute {key}"
        for event in span.events:
            name = "an event" if self.holds(event.name) else f"event {safe(event.name)}"
            if self.holds(event.name):
                yield "an event's name"
            for key in self.keys_of(event.attributes):
                yield f"{name}, attribute {key}"
        for link in span.links:
            for key in self.keys_of(link.attributes):
                yield f"a link's attribute {key}"
        scope = span.instrumentation_scope
        if scope is not None and (self.holds(scope.name) or self.holds(scope.attributes)):
            yield "the instrumentation scope"

    def keys_of(self, attributes: Mapping[str, Any] | None) -> Iterator[str]:
        """Gives the keys of attributes under which the canary stands."""
        for key, value in (attributes or {}).items():
            if self.holds(key):
                yield "(a key that holds it)"
            elif self.holds(value):
                yield safe(key)


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
