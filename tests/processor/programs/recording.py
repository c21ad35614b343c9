"""What the programs share: a provider whose spans go to a file, one line each, from however many processes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from otel_loopguard.processor.span_processor import LoopGuardSpanProcessor

CANARY: Final = "kNrY7x"
AGENT: Final = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "helper"}
TOOL: Final = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "lookup",
    "gen_ai.tool.call.arguments": '{"a": 1}',
    "gen_ai.tool.call.result": CANARY,
}


class FileExporter(SpanExporter):
    """Writes a line a span in one system call, so that lines of several processes never mix, and takes no lock."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Writes them."""
        for span in spans:
            attributes = dict(span.attributes or {})
            texts = [
                span.name,
                span.status.description,
                attributes,
                *(dict(event.attributes or {}) for event in span.events),
            ]
            line = {"pid": os.getpid(), "attributes": attributes, "text": str(texts)}
            line |= {"trace": span.context.trace_id, "span": span.context.span_id, "name": span.name}
            os.write(self._file, json.dumps(line).encode() + b"\n")
        return SpanExportResult.SUCCESS


def provider() -> TracerProvider:
    """Makes the provider of a process: ours, then the file that the program was told."""
    made = TracerProvider()
    made.add_span_processor(LoopGuardSpanProcessor())
    made.add_span_processor(SimpleSpanProcessor(FileExporter(sys.argv[1])))
    return made


def call(tracer: trace.Tracer, parent: trace.Span | None = None) -> None:
    """Makes one tool call."""
    start_call(tracer, parent).end()


def start_call(tracer: trace.Tracer, parent: trace.Span | None = None) -> trace.Span:
    """Starts one tool call."""
    return tracer.start_span("execute_tool lookup", below(parent), attributes=TOOL)


def below(parent: trace.Span | None) -> Context:
    """Returns the context of a span's children, or of roots."""
    return Context() if parent is None else trace.set_span_in_context(parent, Context())


def run(tracer: trace.Tracer, calls: int) -> None:
    """An agent that makes so many calls."""
    agent = tracer.start_span("invoke_agent helper", below(None), attributes=AGENT)
    for _ in range(calls):
        call(tracer, agent)
    agent.end()
