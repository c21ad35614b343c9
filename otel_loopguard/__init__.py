"""Finds out from OpenTelemetry spans that an AI agent is stuck repeating tool calls.

Nothing is imported here until it is asked for, so that a process pays only for the parts it uses. In an application
begin with `LoopGuardSpanProcessor` or `install`; beside one with `policy` (what the owner declares), `files` (reading
spans and call records) and `replay` (verdicts); `model` holds the vocabulary.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from otel_loopguard.processor.exporter import LoopGuardSpanExporter
    from otel_loopguard.processor.finding import FindingEvent
    from otel_loopguard.processor.install import install
    from otel_loopguard.processor.install_logs import install_logs
    from otel_loopguard.processor.logs import LoopGuardLogRecordExporter, LoopGuardLogRecordProcessor
    from otel_loopguard.processor.span_processor import LoopGuardSpanProcessor

__all__ = [
    "FindingEvent",
    "LoopGuardLogRecordExporter",
    "LoopGuardLogRecordProcessor",
    "LoopGuardSpanExporter",
    "LoopGuardSpanProcessor",
    "install",
    "install_logs",
]

_HOME: Final = {
    "FindingEvent": "finding",
    "LoopGuardLogRecordExporter": "logs",
    "LoopGuardLogRecordProcessor": "logs",
    "LoopGuardSpanExporter": "exporter",
    "LoopGuardSpanProcessor": "span_processor",
    "install": "install",
    "install_logs": "install_logs",
}
"""Module of `processor` that each public name stands in."""


def __getattr__(name: str) -> Any:
    module = _HOME.get(name)
    if module is None:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module(f"{__name__}.processor.{module}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
