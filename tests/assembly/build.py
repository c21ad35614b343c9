"""Small builders of span facts for the assembly tests; times are in milliseconds from zero."""

from __future__ import annotations

from typing import Any

from otel_loopguard.model import CallFacts, ChatFacts, Finish, Layer, NotACall, Outcome, Role, SpanFacts, SpanKey

TRACE = "0" * 31 + "1"
OTHER_TRACE = "0" * 31 + "2"
MS = 1_000_000


def digest(text: str) -> str:
    """A stand-in for a keyed digest: readable, and as long as one."""
    return text.encode().hex().ljust(32, "0")[:32]


def span(name: str, start: int, end: int | None, *, parent: str | None = None, **fields: Any) -> SpanFacts:
    """Facts of one span named by a short text; `fields` override everything."""
    defaults: dict[str, Any] = {
        "trace_id": TRACE,
        "span_id": span_id(name),
        "parent_id": None if parent is None else span_id(parent),
        "start_ns": start * MS,
        "end_ns": None if end is None else end * MS,
    }
    return SpanFacts(**(defaults | fields))


def tool(  # noqa: PLR0913 - each test sets what it is about
    name: str,
    start: int,
    end: int | None,
    *,
    parent: str | None = None,
    tool_name: str = "lookup",
    args: str | None = "a",
    result: str | None = "r",
    call_id: str | None = None,
    outcome: Outcome = Outcome.OK,
    layer: Layer = Layer.HOST,
    call: dict[str, Any] | None = None,
    **fields: Any,
) -> SpanFacts:
    """Facts of a tool span."""
    facts = {
        "tool": tool_name,
        "call_id": call_id,
        "call_digest": None if args is None else digest(tool_name + args),
        "result_digest": None if result is None else digest(result),
        "outcome": outcome,
        "key_id": "k1",
    } | (call or {})
    return span(name, start, end, parent=parent, role=Role.TOOL, layer=layer, call=CallFacts(**facts), **fields)


def agent(
    name: str, start: int, end: int, *, parent: str | None = None, agent_name: str | None = "A", **fields: Any
) -> SpanFacts:
    """Facts of an agent span."""
    return span(name, start, end, parent=parent, role=Role.AGENT, agent=agent_name, **fields)


def chat(
    name: str,
    start: int,
    end: int,
    *,
    parent: str | None = None,
    requested: tuple[str, ...] | None = None,
    requested_calls: int | None = None,
    finish: Finish | None = None,
    tokens: int = 0,
    **fields: Any,
) -> SpanFacts:
    """Facts of a model response."""
    facts = ChatFacts(requested=requested, requested_calls=requested_calls, finish=finish, input_tokens=tokens)
    return span(name, start, end, parent=parent, role=Role.CHAT, chat=facts, **fields)


def not_a_call(name: str, start: int, end: int, why: NotACall, *, parent: str | None = None) -> SpanFacts:
    """Facts of a span that is typed as a tool but is no call."""
    return span(name, start, end, parent=parent, role=Role.TOOL, not_a_call=why)


def span_id(name: str) -> str:
    """The span id that a short name stands for."""
    return name.encode().hex().ljust(16, "0")[:16]


def key(name: str, trace_id: str = TRACE) -> SpanKey:
    """The key of the span with a short name."""
    return (trace_id, span_id(name))
