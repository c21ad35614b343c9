"""An application that goes on for long: prints counts, and the memory it took. Arguments: what it does, times, rule."""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider

from otel_loopguard.policy import ContentRule
from otel_loopguard.processor.span_processor import LoopGuardSpanProcessor

AGENT: Final = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "helper"}
CHAT: Final = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
TOOL: Final = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "lookup"}
ARGUMENTS: Final = "gen_ai.tool.call.arguments"
RESULT: Final = "gen_ai.tool.call.result"


PROCESSOR: Final = LoopGuardSpanProcessor(content=ContentRule(sys.argv[3]))
PROVIDER: Final = TracerProvider(shutdown_on_exit=False)
PROVIDER.add_span_processor(PROCESSOR)
TRACER: Final = PROVIDER.get_tracer("lasting")


def start(name: str, attributes: Mapping[str, str], parent: trace.Span | None = None) -> trace.Span:
    """Starts a span."""
    context = Context() if parent is None else trace.set_span_in_context(parent, Context())
    return TRACER.start_span(name, context, attributes=attributes)


def call(number: int, parent: trace.Span | None = None) -> trace.Span:
    """Makes a call unlike any other."""
    content = {ARGUMENTS: f'{{"number": {number}}}', RESULT: f"the answer to question number {number} is a long one"}
    span = start("execute_tool lookup", {**TOOL, **content}, parent)
    span.end()
    return span


def runs(number: int) -> None:
    """Agents that make a call each."""
    for one in range(number):
        agent = start("invoke_agent helper", AGENT)
        call(one, agent)
        agent.end()


def open_runs(number: int) -> None:
    """The same, but that nobody ends the agents' spans."""
    for one in range(number):
        call(one, start("invoke_agent helper", AGENT))


def calls(number: int) -> None:
    """One agent, and tools of so many names."""
    agent = start("invoke_agent helper", AGENT)
    for one in range(number):
        call(one, agent)
        content = {ARGUMENTS: "{}", "gen_ai.tool.name": f"tool_{one}"}
        start("execute_tool", {**TOOL, **content}, agent).end()
    agent.end()


def agents(number: int) -> None:
    """One root, and so many agents and conversations below it, all of them open."""
    root = start("GET /", {})
    held = []
    for one in range(number):
        content = {"gen_ai.agent.name": f"helper {one}", "gen_ai.conversation.id": f"talk {one}"}
        held.append(start("invoke_agent", {**AGENT, **content}, root))
        call(one, held[-1])
    for agent in held:
        agent.end()
    root.end()


def open_spans(number: int) -> None:
    """Spans with a page of content each, which are started and let go."""
    for one in range(number):
        start("chat m", {**CHAT, "gen_ai.input.messages": f"{one}" + "x" * 4_000})


def pages(number: int) -> None:
    """Spans of a model with a page of content each."""
    for one in range(number):
        start("chat m", {**CHAT, "gen_ai.input.messages": f"{one}" + "x" * 20_000}).end()


def plain(number: int) -> None:
    """Spans of no agent, each the parent of the next, with a failing one now and then."""
    last = None
    for one in range(number):
        last = start("GET", {"http.route": f"/{one}"}, last)
        if one % 10 == 0:
            last.add_event("exception", {"exception.message": "text"})
        last.end()


def names(number: int) -> None:
    """Attribute keys, scopes, tools and errors that are never the same."""
    for one in range(number):
        tracer = PROVIDER.get_tracer("lasting")
        attributes = {**TOOL, "gen_ai.tool.name": f"tool {one}", f"key.{one}": "x", "error.type": f"E{one}"}
        tracer.start_span("execute_tool", Context(), attributes=attributes).end()


WORK: Final[Mapping[str, Callable[[int], None]]] = {
    "runs": runs,
    "open runs": open_runs,
    "calls": calls,
    "agents": agents,
    "open spans": open_spans,
    "pages": pages,
    "plain": plain,
    "names": names,
}


def main() -> None:
    """Warms up, then measures."""
    runs(10)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    WORK[sys.argv[1]](int(sys.argv[2]))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
    print(json.dumps({"grown_mib": grown, **msgspec.to_builtins(PROCESSOR.counts)}))  # noqa: T201 - its answer


if __name__ == "__main__":
    main()
