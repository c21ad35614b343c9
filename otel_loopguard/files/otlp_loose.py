"""OTLP in JSON that does not fit the typed structs of `otlp_json`: read span by span from plain JSON.

Invariants: lenient where protobuf's JSON mapping is (snake_case names, numbers as text, enumeration names, null
for absent); where it is not, a reason for the one span concerned, and its neighbours are kept. Never raises.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from otel_loopguard.files.otlp_json import KeyValue, SpanFields, attributes, item
from otel_loopguard.files.reasons import Reason
from otel_loopguard.files.spans import Item, Report
from otel_loopguard.model import Value

_SKIPPED: Final = {"resourceLogs": Reason.SKIPPED_LOGS, "resourceMetrics": Reason.SKIPPED_METRICS}
_SNAKE: Final = {
    "resource_spans": "resourceSpans",
    "resource_logs": "resourceLogs",
    "resource_metrics": "resourceMetrics",
    "scope_spans": "scopeSpans",
    "trace_id": "traceId",
    "span_id": "spanId",
    "trace_state": "traceState",
    "parent_span_id": "parentSpanId",
    "start_time_unix_nano": "startTimeUnixNano",
    "end_time_unix_nano": "endTimeUnixNano",
    "time_unix_nano": "timeUnixNano",
    "dropped_attributes_count": "droppedAttributesCount",
    "dropped_events_count": "droppedEventsCount",
    "string_value": "stringValue",
    "int_value": "intValue",
    "bool_value": "boolValue",
    "double_value": "doubleValue",
    "array_value": "arrayValue",
    "kvlist_value": "kvlistValue",
    "bytes_value": "bytesValue",
}
_HOLDERS: Final = frozenset({"resourceSpans", "scopeSpans"})
"""Spelt both ways in one object, they hold the spans of both."""
_SIGNALS: Final = frozenset(
    {"resourceSpans", "resource_spans", "resourceLogs", "resource_logs", "resourceMetrics", "resource_metrics"}
)


def is_request(value: Any) -> bool:
    """True where a JSON value means to be an OTLP request of some signal."""
    return isinstance(value, dict) and not _SIGNALS.isdisjoint(value)


def read(value: dict[str, Any], report: Report) -> list[Item]:
    """The spans of one request that was parsed as plain JSON."""
    try:
        request = _camel_names(value)
        items: list[Item] = [report(reason) for signal, reason in _SKIPPED.items() if request.get(signal)]
        for group in _objects(request.get("resourceSpans"), items, report):
            _read_group(group, items, report)
    except RecursionError:
        return [report(Reason.TOO_DEEP)]
    return items


def _camel_names(value: Any) -> Any:
    """The same JSON with OTLP's snake_case names in camelCase. Attribute keys are values here, so stay as they are."""
    if isinstance(value, dict):
        found: dict[str, Any] = {}
        for name, entry in value.items():
            camel = _SNAKE[name] if name in _SNAKE else name  # noqa: SIM401 - the type of `name` is not known
            inner = _camel_names(entry)
            found[camel] = _listed(found[camel]) + _listed(inner) if camel in found and camel in _HOLDERS else inner
        return found
    if isinstance(value, list):
        return [_camel_names(entry) for entry in value]
    return value


def _read_group(group: dict[str, Any], items: list[Item], report: Report) -> None:
    resource = group.get("resource")
    pairs, _ = _pairs(resource.get("attributes") if isinstance(resource, dict) else None)
    shared, _ = attributes(pairs)
    for scoped in _objects(group.get("scopeSpans"), items, report):
        scope = scoped.get("scope")
        name = scope.get("name") if isinstance(scope, dict) else None
        for span in _objects(scoped.get("spans"), items, report):
            items.extend(_read_span(span, name if isinstance(name, str) else "", shared, report))


def _objects(value: Any, items: list[Item], report: Report) -> list[dict[str, Any]]:
    """The objects of a list; everything else that stands there adds a reason to `items`."""
    entries = _listed(value)
    found = [entry for entry in entries if isinstance(entry, dict)]
    items.extend(report(Reason.BAD_SPAN) for _ in range(len(entries) - len(found)))
    return found


def _listed(value: Any) -> list[Any]:
    """What should be a list, as one."""
    return value if isinstance(value, list) else [] if value is None else [value]


def _read_span(span: dict[str, Any], scope: str, resource: dict[str, Value], report: Report) -> list[Item]:
    pairs, malformed = _pairs(span.pop("attributes", None))
    try:
        fields = msgspec.convert(span, SpanFields, strict=False)
    except ValueError:  # of msgspec, or of text with half a surrogate pair where no text belongs
        return [report(Reason.BAD_SPAN)]
    fields.attributes = pairs
    return item(fields, scope, resource, report, malformed=malformed)


def _pairs(value: Any) -> tuple[list[KeyValue], int]:
    """The attributes that have the right shape, and how many have not."""
    if value is None:
        return [], 0
    if not isinstance(value, list):
        return [], 1
    found = []
    for pair in value:
        try:
            found.append(msgspec.convert(pair, KeyValue))
        except ValueError:
            continue
    return found, len(value) - len(found)
