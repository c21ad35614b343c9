"""What the processor counts, and how the application's meter provider and log pipeline learn of it.

Invariants: counting costs the hot path an addition; instruments read the sums when metrics are collected. Labels are
enumerations and checked tool names, of which a bounded number are shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec
from opentelemetry import _logs, trace
from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation, get_meter_provider
from opentelemetry.trace import SpanContext

from otel_loopguard.processor.finding import EVENT_NAME, FindingEvent

SCOPE: Final = "otel_loopguard"
MAX_TOOL_NAMES: Final = 200
"""Distinct tool names that are labels of a metric; calls of others are counted under `OTHER_TOOLS`."""
OTHER_TOOLS: Final = "_other"
READABLE: Final = ""
"""Stands for no reason: the call has a digest."""


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """What one processor has seen and done so far."""

    tool_calls: int = 0
    """Tool calls that ended, layers of one call once."""
    unreadable: Mapping[str, int] = {}
    """Of them, those without a call digest, by reason (`loopguard.call.unknown`)."""
    findings: Mapping[str, int] = {}
    """By kind."""
    cleaned_spans: int = 0
    """Spans from which content was removed."""
    late_spans: int = 0
    """Spans that came to `on_end` with content and without `_on_ending`: something wraps the processor."""
    forgotten_runs: int = 0
    forgotten_spans: int = 0
    failures: Mapping[str, int] = {}
    """Steps of ours that raised, by step."""


class Tallies:
    """The sums behind `Counts`. Thread safety: the caller holds one lock for all changes."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.scopes: Counter[str] = Counter()
        """Unreadable calls by instrumentation scope."""
        self.findings: Counter[tuple[str, str, str]] = Counter()
        self.cleaned = self.late = 0
        self._tools: set[str] = set()

    def note_scope(self, scope: str) -> None:
        """Counts an unreadable call of an instrumentation."""
        if scope in self.scopes or len(self.scopes) < MAX_TOOL_NAMES:
            self.scopes[scope] += 1

    def found(self, event: FindingEvent) -> None:
        """Counts a finding."""
        tool = event.tool
        if tool not in self._tools:
            if len(self._tools) >= MAX_TOOL_NAMES:
                tool = OTHER_TOOLS
            else:
                self._tools.add(tool)
        self.findings[(event.kind.value, event.severity.value, tool)] += 1


def instruments(provider: MeterProvider | None, counts: Callable[[], Counts], tallies: Callable[[], Tallies]) -> None:
    """Makes the instruments that show the counts.

    Args:
        provider: the application's; None for the global one, also where that is set later.
        counts: gives what is shown of the whole.
        tallies: gives the sums by label.
    """
    meter = (provider or get_meter_provider()).get_meter(SCOPE)

    def calls(_: CallbackOptions) -> Iterable[Observation]:
        sums = tallies().calls.copy()
        return [
            Observation(number, {"loopguard.call.unknown": reason} if reason else {"loopguard.call.readable": True})
            for reason, number in sums.items()
        ]

    def findings(_: CallbackOptions) -> Iterable[Observation]:
        return [
            Observation(
                number,
                {"loopguard.finding.kind": kind, "loopguard.finding.severity": severity, "gen_ai.tool.name": tool},
            )
            for (kind, severity, tool), number in tallies().findings.copy().items()
        ]

    def failures(_: CallbackOptions) -> Iterable[Observation]:
        return [Observation(number, {"loopguard.step": step}) for step, number in counts().failures.items()]

    def whole(field: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        return lambda _: [Observation(getattr(counts(), field))]

    made = meter.create_observable_counter
    made("loopguard.tool_calls", [calls], "{call}", "Tool calls that ended, by whether they could be compared.")
    made("loopguard.findings", [findings], "{finding}", "Findings, by kind, severity and tool.")
    made("loopguard.failures", [failures], "{failure}", "Steps of the processor that failed; content was removed.")
    made("loopguard.spans.cleaned", [whole("cleaned_spans")], "{span}", "Spans from which content was removed.")
    made("loopguard.spans.late", [whole("late_spans")], "{span}", "Spans that were cleaned only at their end.")
    made("loopguard.runs.forgotten", [whole("forgotten_runs")], "{run}", "Runs forgotten for want of room.")


def emit(provider: _logs.LoggerProvider | None, event: FindingEvent, context: SpanContext, time_ns: int) -> None:
    """Emits a finding as the log event `loopguard.finding`, in the trace of its tool span."""
    logger = (provider or _logs.get_logger_provider()).get_logger(SCOPE)
    logger.emit(
        _logs.LogRecord(
            timestamp=time_ns,
            severity_number=_logs.SeverityNumber.WARN,
            event_name=EVENT_NAME,
            attributes=event.attributes(),
            context=trace.set_span_in_context(trace.NonRecordingSpan(context)),
        )
    )
