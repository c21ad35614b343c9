"""Small OTLP requests for the tests: built as dicts, so that each test can damage exactly one thing."""

from __future__ import annotations

import io
import json
from typing import Any

from otel_loopguard import files
from otel_loopguard.files import Format
from otel_loopguard.model import BadInput, CallRecord, Span

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
SPAN_ID = "b7ad6b7169203331"


def span(**changes: Any) -> dict[str, Any]:
    """One span as OTLP/JSON writes it; a change to None leaves the field out."""
    fields: dict[str, Any] = {
        "traceId": TRACE_ID,
        "spanId": SPAN_ID,
        "name": "execute_tool lookup_order",
        "kind": 1,
        "startTimeUnixNano": "1000",
        "endTimeUnixNano": "2000",
        "attributes": [{"key": "gen_ai.tool.name", "value": {"stringValue": "lookup_order"}}],
        **changes,
    }
    return {name: value for name, value in fields.items() if value is not None}


def request(*spans: Any) -> dict[str, Any]:
    """A request that holds these spans under one resource and one scope."""
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "lib"}, "spans": list(spans)}]}]}


def attribute(key: str, **value: Any) -> dict[str, Any]:
    """One attribute, such as `attribute("n", intValue="1")`."""
    return {"key": key, "value": value}


def line(value: Any) -> bytes:
    """The value as one line of JSON."""
    return json.dumps(value).encode() + b"\n"


def read(data: bytes, fmt: Format = Format.AUTO) -> list[Span | CallRecord | BadInput]:
    """Everything that a file of these bytes gives."""
    return list(files.read(io.BytesIO(data), name="f", fmt=fmt))


def read_spans(data: bytes, fmt: Format = Format.AUTO) -> list[Span]:
    """The spans of a file that must hold nothing else."""
    items = read(data, fmt)
    assert [] == [item for item in items if not isinstance(item, Span)]
    return [item for item in items if isinstance(item, Span)]


def reasons(data: bytes, fmt: Format = Format.AUTO) -> list[tuple[int | None, str]]:
    """(line, reason) of everything that could not be read."""
    return [(item.line, item.reason) for item in read(data, fmt) if isinstance(item, BadInput)]
