"""The pages about applications say what the code does: names, numbers and scopes are held against it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_loopguard import LoopGuardSpanProcessor, attributes, policy
from otel_loopguard.cli.demo import WIDTH_CHARS, lines
from otel_loopguard.cli.terminal import Painter
from otel_loopguard.content import KeyKind, kind_of_key
from otel_loopguard.demo.watch import KEY, watch
from otel_loopguard.digest import MAX_PINNED_TRACES, Digester, Key, Keyring, Scope
from otel_loopguard.model import Basis, Kind, Severity
from otel_loopguard.processor.counting import MAX_TOOL_NAMES, OTHER_TOOLS, Counts
from otel_loopguard.processor.finding import FindingEvent
from otel_loopguard.processor.live import IDLE_NS, MAX_RUNS, MAX_TRACES
from otel_loopguard.processor.nodes import MAX_NODES

DOCS: Final = Path(__file__).resolve().parent.parent / "docs"
PAGE: Final = (DOCS / "in-application.md").read_text(encoding="utf-8")
THREATS: Final = (DOCS / "threat-model.md").read_text(encoding="utf-8")


def _section(text: str, title: str) -> str:
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def _cells(text: str, column: int) -> list[str]:
    """The cells of one column of the tables in a text, heads left out."""
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return [row[column].strip() for row in rows if not row[0].startswith(" ---")][1:]


def _named(cells: list[str]) -> list[str]:
    return [name for cell in cells for name in re.findall(r"`([a-z_.]+)`", cell)]


def _spans(guard: LoopGuardSpanProcessor, result: str = "late") -> list[dict[str, object]]:
    """Three equal calls in one trace; returns the attributes that an exporter gets of them."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    provider.add_span_processor(guard)
    tracer = provider.get_tracer("test")
    held = {
        "gen_ai.tool.name": "issue refund",
        "gen_ai.tool.call.arguments": '{"order_id": "A-1042", "request_key": "k"}',
        "gen_ai.tool.call.result": result,
        "session.id": "session-1",
    }
    with tracer.start_as_current_span("run"):
        for _ in range(3):
            tracer.start_span("execute_tool", attributes=held).end()
    return [dict(span.attributes or {}) for span in exporter.get_finished_spans()[:3]]


# --- in-application.md ------------------------------------------------------------------------------------


def test_counters_are_those_that_exist() -> None:
    """The table of counters names exactly the instruments that are made and the fields of `counts`."""
    reader = InMemoryMetricReader()
    meters = MeterProvider(metric_readers=[reader], shutdown_on_exit=False)
    guard = LoopGuardSpanProcessor(keys=KEY, meter_provider=meters, on_finding=_raise)
    _spans(guard)
    data = reader.get_metrics_data()
    assert data is not None
    made = [metric.name for one in data.resource_metrics for scope in one.scope_metrics for metric in scope.metrics]
    table = _section(PAGE, "Counters")
    assert sorted(made) == sorted(_named(_cells(table, 0)))
    assert sorted(Counts.__struct_fields__) == sorted(_named(_cells(table, 1)))
    meters.shutdown()


def _raise(_: FindingEvent) -> None:
    raise ValueError


def test_finding_attributes_are_those_that_are_sent() -> None:
    """The table of the log event names exactly its attributes, and every severity and basis."""
    event = FindingEvent(
        kind=Kind.EXACT_REPEAT,
        severity=Severity.LOOP,
        basis=Basis.DIGEST,
        tool="t",
        agent="a",
        count=3,
        call=3,
        trace_id="0" * 32,
        span_id="0" * 16,
        call_id="c",
        policy="p@1",
    )
    table = _section(PAGE, "Findings")
    assert sorted(event.attributes()) == sorted(_named(_cells(table, 0)))
    said = _named(_cells(table, 1))
    assert {*(one.value for one in Severity), *(one.value for one in Basis)} == set(said)


def test_bounds_are_the_constants() -> None:
    """The numbers of the table of bounds are those of the code, in its order."""
    minutes = IDLE_NS // 60_000_000_000
    cells = " ".join(_cells(_section(PAGE, "Bounds"), 1))
    said = [int(number) for number in re.findall(r"\d+", cells)]
    assert [MAX_NODES, MAX_RUNS, minutes, MAX_TRACES, MAX_PINNED_TRACES, MAX_TOOL_NAMES] == said
    assert f"`{OTHER_TOOLS}`" in cells


def test_the_demo_prints_what_the_page_shows() -> None:
    """The page's excerpt stands in the demo's output, line for line."""
    (shown,) = re.findall(r"^```console\n\$ otel-loopguard demo\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert str(shown) in "\n".join(lines(watch(), Painter(colour=False), width=WIDTH_CHARS))


def test_ids_stay() -> None:
    """What the page says stays as it was does."""
    limits = _section(PAGE, "Limits")
    (ids,) = re.findall(r"\*\*Ids\*\* stay: (.+?)\.(?: |\n)", limits)
    names = _named([ids])
    assert [KeyKind.PLAIN] * 3 == [kind_of_key(name) for name in names]
    assert "session-1" == _spans(LoopGuardSpanProcessor(keys=KEY))[0]["session.id"]


# --- threat-model.md --------------------------------------------------------------------------------------

_POLICY: Final = """{"version": 1, "policy": "p", "policy_version": "1", "tools": {"issue refund": {
    "effect": "write", "business_key": ["order_id"], "idempotency_key": "request_key"}}}"""


def test_scopes_are_as_the_table_says() -> None:
    """Equal calls of two traces share names, what is written beyond a run, or every digest under the wider scope."""

    def shared(scope: Scope, rules: str) -> set[str]:
        guard = LoopGuardSpanProcessor(policy=policy.load(rules), keys=Keyring(KEY, scope=scope))
        one, other = _spans(guard, "Error: late")[0], _spans(guard, "Error: late")[0]
        digests = [name for name in one if name.endswith(".digest")]
        return {name for name in [*digests, "gen_ai.tool.name"] if one[name] == other[name]}

    found = {scope: shared(scope, _POLICY) for scope in Scope}
    beyond = _POLICY.replace('"effect"', '"business_scope": "global", "effect"')
    named = {"loopguard." + name for name in re.findall(r"[`.]([a-z]+\.digest)`", _section(THREATS, "What is made"))}
    assert {"gen_ai.tool.name"} == found[Scope.TRACE]
    assert {attributes.BUSINESS_DIGEST, "gen_ai.tool.name"} == shared(Scope.TRACE, beyond)
    assert named - {attributes.STATE_DIGEST} | {"gen_ai.tool.name"} == found[Scope.ENVIRONMENT]


def test_guesses_need_the_key() -> None:
    """Who has the key finds an order number of a few digits by trying; with any other key nobody does."""
    trace_id = "ab" * 16
    seen = Digester(KEY, scope_value=trace_id).call("lookup_order", {"order_id": "0427"})

    def guessed(key: Key) -> list[str]:
        tried = Digester(key, scope_value=trace_id)
        orders = [f"{number:04}" for number in range(1000)]
        return [order for order in orders if tried.call("lookup_order", {"order_id": order}) == seen]

    assert ["0427"] == guessed(KEY)
    assert [] == guessed(Key(key_id=KEY.key_id, secret=bytes(range(1, 33))))


@pytest.mark.parametrize("text", [PAGE, THREATS], ids=["in-application", "threat-model"])
def test_attributes_that_are_named_exist(text: str) -> None:
    """Every name of ours on the pages is the contract's, or stands in a table that a test above holds."""
    known = {value for value in vars(attributes).values() if isinstance(value, str)}
    known |= {name for title in ("Counters", "Findings") for name in _named(_cells(_section(PAGE, title), 0))}
    named = set(re.findall(r"`(loopguard\.[a-z_.]+)`", text)) - {"loopguard.call.readable"}
    assert named
    assert set() == named - known
