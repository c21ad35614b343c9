"""What an application is told: counters of its meter provider, log events, its callback, and one line at the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from opentelemetry._logs import SeverityNumber
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from otel_loopguard.processor.counting import MAX_TOOL_NAMES, OTHER_TOOLS
from otel_loopguard.processor.finding import FindingEvent
from otel_loopguard.processor.live import LiveRuns
from tests.processor.applications import AGENT, ARGUMENTS, FINDING, RESULT, TOOL, Application, held, stuck_run
from tests.processor.canaries import CANARY


class Metrics:
    """The application's meter provider, read when asked."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        self.provider = MeterProvider([self._reader], shutdown_on_exit=False)

    def read(self) -> dict[str, dict[frozenset[tuple[str, Any]], int]]:
        """The values of all counters, by name and labels."""
        found: dict[str, dict[frozenset[tuple[str, Any]], int]] = {}
        data: Any = self._reader.get_metrics_data()
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    assert metric.data.is_monotonic
                    points = found.setdefault(metric.name, {})
                    for point in metric.data.data_points:
                        points[frozenset(point.attributes.items())] = point.value
        return found


@pytest.fixture
def metrics() -> Iterator[Metrics]:
    """Closed afterwards."""
    made = Metrics()
    yield made
    made.provider.shutdown()


def labels(values: Mapping[str, Any]) -> frozenset[tuple[str, Any]]:
    """As the points have them."""
    return frozenset(values.items())


NONE = labels({})


def test_the_counters_of_a_stuck_run(metrics: Metrics) -> None:
    """Readable calls, the finding by kind, severity and tool, cleaned spans; zeros where nothing was."""
    application = Application(meter_provider=metrics.provider)
    stuck_run(application)
    labelled = {"loopguard.finding.kind": "error_repeat", "loopguard.finding.severity": "loop"}
    assert {
        "loopguard.tool_calls": {labels({"loopguard.call.readable": True}): 3},
        "loopguard.findings": {labels({**labelled, "gen_ai.tool.name": "lookup"}): 1},
        "loopguard.spans.cleaned": {NONE: 10},
        "loopguard.spans.late": {NONE: 0},
        "loopguard.runs.forgotten": {NONE: 0},
    } == metrics.read()


def test_calls_that_cannot_be_compared_are_counted_by_reason(metrics: Metrics) -> None:
    """The counter that says that a switch is off somewhere."""
    application = Application(meter_provider=metrics.provider)
    application.call()
    for _ in range(2):
        application.start("execute_tool lookup", TOOL).end()
    assert {
        labels({"loopguard.call.readable": True}): 1,
        labels({"loopguard.call.unknown": "not_captured"}): 2,
    } == metrics.read()["loopguard.tool_calls"]


def test_layers_of_one_call_are_one_call(metrics: Metrics) -> None:
    """A span within a tool's that shows the same call."""
    application = Application(meter_provider=metrics.provider)
    outer = application.start("execute_tool lookup", {**TOOL, ARGUMENTS: "{}"})
    application.call(outer)
    outer.end()
    assert {labels({"loopguard.call.readable": True}): 1} == metrics.read()["loopguard.tool_calls"]
    assert 1 == application.processor.counts.tool_calls


def test_failures_are_counted_by_step(metrics: Metrics, monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be done is visible where the owner looks."""

    def fail(*_: object) -> None:
        raise MemoryError(CANARY)

    application = Application(meter_provider=metrics.provider)
    monkeypatch.setattr(LiveRuns, "observe", fail)
    application.call()
    application.call()
    assert {labels({"loopguard.step": "detectors"}): 2} == metrics.read()["loopguard.failures"]


def test_names_of_tools_are_bounded_labels(metrics: Metrics) -> None:
    """Past so many, tools share one label; nothing is lost of the sum, and no odd name is shown."""
    application = Application(meter_provider=metrics.provider)
    for number in range(MAX_TOOL_NAMES + 50):
        agent = application.start("invoke_agent helper", AGENT)
        for _ in range(3):
            application.call(agent, **{"gen_ai.tool.name": f"tool_{number}" if number else f"{CANARY} of a user"})
        agent.end()
    found = metrics.read()["loopguard.findings"]
    tools = [dict(point)["gen_ai.tool.name"] for point in found]
    assert MAX_TOOL_NAMES + 1 == len(tools)
    assert [50] == [number for point, number in found.items() if dict(point)["gen_ai.tool.name"] == OTHER_TOOLS]
    assert MAX_TOOL_NAMES + 50 == sum(found.values())
    assert CANARY not in str(found)


def test_the_global_meter_provider_may_be_set_later() -> None:
    """Without a provider of its own the processor uses the API's global one, which hands on once it is set."""
    application = Application(meter_provider=None)
    stuck_run(application)
    assert {} == application.processor.counts.failures


# --- the log event and the callback ---------------------------------------------------------------------------


def test_a_finding_is_an_event_in_the_trace_of_its_call() -> None:
    """By name, severity and attributes, with the tool span's own ids and time; nothing of the call's content."""
    exporter = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    application = Application(logger_provider=provider)
    stuck_run(application)
    (found,) = exporter.get_finished_logs()
    (span,) = [one for one in application.spans if FINDING in held(one)]
    record = found.log_record
    assert ("loopguard.finding", SeverityNumber.WARN) == (record.event_name, record.severity_number)
    assert (span.context.trace_id, span.context.span_id) == (record.trace_id, record.span_id)
    assert span.end_time == record.timestamp
    assert {
        "loopguard.finding.kind": "error_repeat",
        "loopguard.finding.severity": "loop",
        "loopguard.finding.basis": "digest",
        "loopguard.finding.count": 3,
        "gen_ai.tool.name": "lookup",
        "loopguard.policy": "default@1",
    }.items() <= dict(record.attributes or {}).items()
    assert CANARY not in found.to_json()
    provider.shutdown()


def test_the_callback_gets_each_finding_once() -> None:
    """A record without content, on the thread that ended the span, with the span clean by then."""
    told: list[FindingEvent] = []
    application = Application(on_finding=told.append)
    stuck_run(application, calls=5)
    (event,) = told
    (span,) = [one for one in application.spans if FINDING in held(one)]
    assert f"{span.context.trace_id:032x}" == event.trace_id
    assert f"{span.context.span_id:016x}" == event.span_id
    assert ("lookup", 3, 3) == (event.tool, event.count, event.call)
    assert CANARY not in repr(event)


def test_a_callback_may_make_spans_of_its_own() -> None:
    """Whatever it does with the same tracer is outside our locks."""
    application = Application(on_finding=lambda _: stuck_once())

    def stuck_once() -> None:
        application.call(result="another")

    stuck_run(application)
    assert 4 == application.processor.counts.tool_calls
    assert {} == application.processor.counts.failures


# --- the last line ----------------------------------------------------------------------------------------------


def test_the_summary_says_how_many_calls_could_not_be_compared(caplog: pytest.LogCaptureFixture) -> None:
    """One line, at shutdown, once."""
    application = Application()
    application.call()
    for _ in range(2):
        application.start("execute_tool lookup", {**TOOL, RESULT: CANARY}).end()
    application.provider.shutdown()
    application.processor.shutdown()
    (line,) = caplog.messages
    assert line.startswith("3 tool calls, 2 without readable arguments (mostly not_captured): ")
    assert CANARY not in line


def test_there_is_no_summary_where_all_is_well(caplog: pytest.LogCaptureFixture) -> None:
    """Nor one of an application without tools."""
    for calls in (0, 3):
        application = Application()
        for _ in range(calls):
            application.call()
        application.provider.shutdown()
    assert [] == caplog.messages
