"""The whole way: spans of an application with the processor, judged as a scorer judges them, on the page of tools."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_loopguard import policy as policies
from otel_loopguard.model import Span
from otel_loopguard.policy import Policy
from otel_loopguard.processor.received import attributes_of, received
from otel_loopguard.processor.span_processor import LoopGuardSpanProcessor
from otel_loopguard.scorer.pages.addresses import read_query
from otel_loopguard.scorer.pages.sums import tools_page
from tests.processor.setups import KEY
from tests.scorer.exported_runs import AGENT
from tests.scorer.pages.memory_source import NOW_NS, MemorySource

DOCUMENT: Final = {
    "version": 1,
    "policy": "shop",
    "policy_version": 1,
    "tools": {
        "get_export": {"effect": "read", "progress": [{"path": "fetched_at", "rule": "changes"}]},
        "get_state": {"polling": {"state": "sttate"}},
        "get_order": {"effect": "read"},
        "get_percent": {"polling": {"state": "percent", "terminal": [8]}},
    },
}
RESULTS: Final[dict[str, Callable[[int], Any]]] = {
    "get_export": lambda n: {"fetched_at": f"t{n}", "state": "busy"},
    "get_state": lambda _: {"state": "busy"},
    "get_order": lambda n: {"request_id": f"r{n}", "state": "late"},
    "get_percent": lambda n: {"percent": n},
    "scroll_down": lambda n: f"page {n}",
}


def _one_run(policy: Policy) -> list[Span]:
    """Nine equal calls of each tool, as they leave the process."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(LoopGuardSpanProcessor(policy=policy, keys=KEY, meter_provider=NoOpMeterProvider()))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("shop")
    with tracer.start_as_current_span("invoke_agent helper", attributes=AGENT):
        for tool, result in RESULTS.items():
            for number in range(9):
                attributes = {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": tool,
                    "gen_ai.tool.call.arguments": "{}",
                    "gen_ai.tool.call.result": json.dumps(result(number)),
                }
                tracer.start_span(f"execute_tool {tool}", attributes=attributes).end()
    return [received(span, attributes_of(span)) for span in exporter.get_finished_spans()]


def test_advice_on_what_left_an_application() -> None:
    """Two runs without any content show the clock, the mistyped state and the read that is never equal; no more."""
    policy = policies.load(json.dumps(DOCUMENT), source="made for the test")
    source = MemorySource(policy)
    for _ in range(2):
        source.add(_one_run(policy))
    page = tools_page(source.kept.values(), read_query({}, NOW_NS), policy, more=False)
    assert [
        ("signal_always_moves", "get_export", {"moved": 16, "unchanged": 0, "runs": 2, "longest": 8}),
        ("signal_never_found", "get_state", {"looked": 16, "found": 0}),
        ("results_never_equal", "get_order", {"repeats": 16, "equal": 0}),
    ] == [(one.lint.value, one.tool, one.evidence) for one in page.lint]
    assert () == page.unused
