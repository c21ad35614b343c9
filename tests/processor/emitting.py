"""Emits captured log records again through the SDK, under their own scopes, times, trace and span ids."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from opentelemetry import trace
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

LOGS = Path(__file__).parents[1] / "fixtures" / "logs"
CAPTURES = sorted(path.stem for path in LOGS.glob("*.jsonl"))


def captured(name: str, change: Callable[[str], str] = str) -> list[tuple[str, dict[str, Any]]]:
    """One capture's log records: the scope's name, and what `LogRecord` takes.

    Args:
        name: of a file in the fixtures.
        change: applied to every text of bodies and attribute values.
    """
    return list(_records(name, change))


def emit(records: list[tuple[str, dict[str, Any]]], provider: LoggerProvider) -> None:
    """Emits records through one provider."""
    for scope, fields in records:
        provider.get_logger(scope).emit(LogRecord(**fields))


def _records(name: str, change: Callable[[str], str]) -> Iterator[tuple[str, dict[str, Any]]]:
    for line in (LOGS / f"{name}.jsonl").read_text().splitlines():
        for resource in json.loads(line)["resourceLogs"]:
            for group in resource["scopeLogs"]:
                for record in group["logRecords"]:
                    yield group["scope"]["name"], _fields(record, change)


def _fields(record: dict[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    return {
        "timestamp": int(record.get("timeUnixNano", 0)) or None,
        "observed_timestamp": int(record["observedTimeUnixNano"]),
        "context": _context(record),
        "severity_number": SeverityNumber(record.get("severityNumber", 0)),
        "severity_text": record.get("severityText"),
        "body": _value(record.get("body", {}), change),
        "attributes": {pair["key"]: _value(pair["value"], change) for pair in record.get("attributes", ())},
        "event_name": record.get("eventName"),
    }


def _context(record: dict[str, Any]) -> Context:
    ids = (int(record["traceId"], 16), int(record["spanId"], 16))
    span = NonRecordingSpan(SpanContext(*ids, is_remote=False, trace_flags=TraceFlags(record.get("flags", 0))))
    return trace.set_span_in_context(span, Context())


def _value(value: dict[str, Any], change: Callable[[str], str]) -> Any:
    for kind, held in value.items():
        match kind:
            case "stringValue":
                return change(held)
            case "intValue":
                return int(held)
            case "bytesValue":
                return base64.b64decode(held)
            case "arrayValue":
                return [_value(one, change) for one in held.get("values", ())]
            case "kvlistValue":
                return {pair["key"]: _value(pair["value"], change) for pair in held.get("values", ())}
            case _:
                return held
    return None
