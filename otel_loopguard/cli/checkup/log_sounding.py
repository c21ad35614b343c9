"""Sends the canary through an application's own log record processors, and tells what each exporter would have sent.

Invariants: as for spans (`sounding`): no exporter's own `export` is called once this began, and that is never undone;
what may send by itself is left out, and said to be; the application's provider is not changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from opentelemetry import _logs
from opentelemetry.sdk._logs import LoggerProvider, LogRecordProcessor, ReadableLogRecord
from opentelemetry.sdk._logs._internal import SynchronousMultiLogRecordProcessor
from opentelemetry.sdk._logs.export import (
    BatchLogRecordProcessor,
    LogRecordExporter,
    LogRecordExportResult,
    SimpleLogRecordProcessor,
)
from opentelemetry.sdk.resources import Resource

from otel_loopguard.cli import checkup
from otel_loopguard.cli.checkup import Check, Diagnosis
from otel_loopguard.cli.checkup.canary import HERE, Canary
from otel_loopguard.cli.checkup.pipeline import held_by, name_of
from otel_loopguard.cli.checkup.shapes import every_key
from otel_loopguard.cli.checkup.sounding import FLUSH_MS, MAX_PLACES, QUIET, strictest
from otel_loopguard.policy import ContentRule
from otel_loopguard.processor.boundary import Boundary
from otel_loopguard.processor.install_logs import sdk_logger_provider
from otel_loopguard.processor.logs import LoopGuardLogRecordExporter, LoopGuardLogRecordProcessor
from otel_loopguard.words import counted, safe

_MARK: Final = "otel_loopguard.canary"
_TOOL: Final = "loopguard_doctor.tool"
_ADD: Final = (
    "add LoopGuardLogRecordProcessor before the processors that export, or put LoopGuardLogRecordExporter around this "
    "exporter"
)
_MESSAGES: Final = '[{"role": "user", "parts": [{"type": "text", "content": "CANARY"}]}]'
_RECORDS: Final[Sequence[tuple[str, str, Mapping[str, Any], Any]]] = (
    (
        "opentelemetry.util.genai.handler",
        "gen_ai.client.inference.operation.details",
        {"gen_ai.input.messages": _MESSAGES, "gen_ai.output.messages": _MESSAGES, "gen_ai.system_instructions": HERE},
        None,
    ),
    ("agent_framework", "gen_ai.user.message", {"gen_ai.system": "openai"}, {"content": HERE}),
    ("gcp.vertex.agent", "gen_ai.choice", {"gen_ai.system": "gemini"}, {"content": {"parts": [{"text": HERE}]}}),
    ("strands.telemetry.tracer", "gen_ai.tool.message", {"gen_ai.tool.name": HERE, _TOOL: True}, {"content": HERE}),
    ("opentelemetry.instrumentation.genai.langchain", "gen_ai.tool.message", {**every_key(), _TOOL: True}, HERE),
)
"""Scope, event name, attributes and body of records that GenAI instrumentations emit."""


class _Recorder:
    """Stands in the place of an exporter's `export` and looks for the canary in what comes."""

    def __init__(
        self, exporter: LogRecordExporter, outer: LogRecordExporter, canary: Canary, boundary: Boundary
    ) -> None:
        self.exporter, self.outer = exporter, outer
        self.places: set[tuple[str, bool]] = set()
        """Where, and whether it was a tool's."""
        self.records = 0
        self._canary, self._boundary = canary, boundary

    def put(self) -> bool:
        try:
            self.exporter.export = self.export  # type: ignore[method-assign] # the point
        except (AttributeError, TypeError):
            return False
        return True

    def export(self, batch: Sequence[ReadableLogRecord], *_: object, **__: object) -> LogRecordExportResult:
        for record in batch:
            self._boundary.run("looking at what is exported", self._look, record, otherwise=None)
        return LogRecordExportResult.SUCCESS

    def _look(self, record: ReadableLogRecord) -> None:
        if record.resource.attributes.get(_MARK) != self._canary.token:
            return
        self.records += 1
        attributes = record.log_record.attributes or {}
        tool = _TOOL in attributes
        if self._canary.holds(record.log_record.body):
            self.places.add((f"the body of {safe(record.log_record.event_name or 'a record')}", tool))
        self.places |= {(f"attribute {key}", tool) for key in self._canary.keys_of(attributes)}


def sound_logs(given: object, boundary: Boundary, everything: bool) -> Iterator[Diagnosis]:  # noqa: FBT001 - one caller
    """Sends the canary through a logger provider's processors, and says what would have left.

    Args:
        given: the application's logger provider, or what wraps it.
        boundary: keeps what other people's processors raise.
        everything: take part also those processors that may send by themselves.
    """
    provider = sdk_logger_provider(given)
    if provider is None:
        yield checkup.skipped(Check.LOGS, "no logger provider of the SDK is set, so no log record leaves through one")
        return
    held = provider._multi_log_record_processor  # noqa: SLF001 - nothing public tells
    top: Sequence[LogRecordProcessor] = getattr(held, "_log_record_processors", ())
    canary = Canary()
    recorders, left_out = _lend(top, canary, boundary, everything=everything)
    if left_out:
        names = ", ".join(sorted({name_of(one) for one in left_out}))
        yield checkup.note(
            Check.LOGS,
            f"{names} was left out: it may send by itself what it is given",
            "--all-processors lets it take part, if you know that it sends nothing but through exporters",
        )
    yield from _order(top)
    if not recorders:
        yield checkup.skipped(Check.LOGS, "the logger provider has no exporter that could be watched")
        return
    _play(provider, [one for one in top if not any(one is out for out in left_out)], canary, boundary)
    rule = _rule(top)
    for recorder in recorders:
        yield from _told(recorder, strictest(rule, _rule([recorder.outer])))


def _order(top: Sequence[LogRecordProcessor]) -> Iterator[Diagnosis]:
    place = next((at for at, one in enumerate(top) if isinstance(one, LoopGuardLogRecordProcessor)), 0)
    if place:
        names = ", ".join(name_of(one) for one in top[:place])
        yield checkup.problem(
            Check.LOGS,
            f"{names} gets log records before LoopGuardLogRecordProcessor, and may send them whole",
            "add LoopGuardLogRecordProcessor first",
        )


def _exporters(one: LogRecordProcessor) -> Iterator[LogRecordExporter]:
    yield from held_by(one, LogRecordExporter)
    if isinstance(one, BatchLogRecordProcessor):
        yield from held_by(one._batch_processor, LogRecordExporter)  # noqa: SLF001 - nothing public tells
    for inner in held_by(one, LogRecordProcessor):
        yield from _exporters(inner)


def _lend(
    top: Sequence[LogRecordProcessor], canary: Canary, boundary: Boundary, *, everything: bool
) -> tuple[list[_Recorder], list[LogRecordProcessor]]:
    recorders: list[_Recorder] = []
    left_out: list[LogRecordProcessor] = []
    for one in top:
        found = list(_exporters(one))
        watched = []
        for outer in found:
            inner = (
                next(held_by(outer, LogRecordExporter), outer)
                if isinstance(outer, LoopGuardLogRecordExporter)
                else outer
            )
            recorder = _Recorder(inner, outer, canary, boundary)
            watched += [recorder] if recorder.put() else []
        fed = isinstance(one, BatchLogRecordProcessor | SimpleLogRecordProcessor) and found
        known = fed or f"{type(one).__module__}.".startswith(QUIET) or everything
        if known and len(watched) == len(found):
            recorders += watched
        else:
            left_out.append(one)
    return recorders, left_out


def _play(
    provider: LoggerProvider, processors: Sequence[LogRecordProcessor], canary: Canary, boundary: Boundary
) -> None:
    make: Any = SynchronousMultiLogRecordProcessor
    multi = make()
    for one in processors:
        multi.add_log_record_processor(one)
    resource = provider.resource.merge(Resource({_MARK: canary.token}))
    ours = LoggerProvider(resource=resource, shutdown_on_exit=False, multi_log_record_processor=multi)
    for scope, event, attributes, body in _RECORDS:
        record = _logs.LogRecord(
            timestamp=1, event_name=event, attributes=canary.fill(attributes), body=canary.fill(body)
        )
        boundary.run("log canary", ours.get_logger(scope).emit, record, otherwise=None)
    for one in processors:
        boundary.run("flush", one.force_flush, FLUSH_MS, otherwise=None)


def _rule(holders: Sequence[object]) -> ContentRule | None:
    found: ContentRule | None = None
    for one in holders:
        if isinstance(one, LoopGuardLogRecordProcessor | LoopGuardLogRecordExporter):
            found = strictest(found, one._records._cleaner.rule)  # noqa: SLF001 - our own
    return found


def _told(recorder: _Recorder, rule: ContentRule | None) -> Iterator[Diagnosis]:
    name = name_of(recorder.exporter)
    if not recorder.records:
        yield checkup.note(Check.LOGS, f"{name} was handed none of the made-up log records")
        return
    leaks = {
        where
        for where, tool in recorder.places
        if rule is not ContentRule.KEEP and (tool or rule is not ContentRule.DROP_TOOL)
    }
    allowed = {where for where, _ in recorder.places} - leaks
    if leaks:
        yield checkup.leak(Check.LOGS, f"{name} would get content: {_shown(leaks)}", _ADD)
    if allowed:
        yield checkup.note(
            Check.LOGS,
            f"{name} would get content, as `content: {rule}` says: {_shown(allowed)}",
            f"nothing, if that is meant; else `content: {ContentRule.DROP_ALL}`",
        )
    if not recorder.places:
        yield checkup.ok(
            Check.LOGS, f"{name} would get no content of {counted(recorder.records, 'made-up log record')}"
        )


def _shown(places: set[str]) -> str:
    named = sorted(places, key=lambda where: (not where.startswith("the body"), where))
    more = f" and {counted(len(named) - MAX_PLACES, 'more place')}" if len(named) > MAX_PLACES else ""
    return f"{'; '.join(named[:MAX_PLACES])}{more}"
