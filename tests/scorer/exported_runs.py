"""Runs of an agent as they leave a process that has the processor, made now."""

from __future__ import annotations

import json
import random
from typing import Final

from opentelemetry import trace
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_loopguard.processor.span_processor import LoopGuardSpanProcessor
from tests.processor.setups import KEY


def made_runs(count: int, rng: random.Random) -> list[list[ReadableSpan]]:
    """So many runs of an agent as they leave a process: some of them stuck, some with a tool that fails."""
    runs = []
    for number in range(count):
        exporter = InMemorySpanExporter()
        provider = TracerProvider(
            resource=Resource({"service.name": f"shop-{number % 3}", "service.version": str(number % 4)}),
            shutdown_on_exit=False,
        )
        provider.add_span_processor(LoopGuardSpanProcessor(keys=KEY, meter_provider=NoOpMeterProvider()))
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        tracer = provider.get_tracer("shop")
        with tracer.start_as_current_span("invoke_agent helper", attributes=AGENT):
            for call in range(rng.randint(1, 6)):
                stuck = number % 2 == 0
                span = tracer.start_span("execute_tool lookup", attributes=tool(0 if stuck else call))
                if number % 5 == 0:
                    span.set_status(trace.StatusCode.ERROR)
                span.end()
        runs.append(list(exporter.get_finished_spans()))
    return runs


AGENT: Final = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "helper"}


def tool(order: int) -> dict[str, str]:
    """Attributes of one call."""
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "lookup",
        "gen_ai.tool.call.arguments": json.dumps({"order": order}),
        "gen_ai.tool.call.result": json.dumps({"state": "open", "order": order}),
    }
