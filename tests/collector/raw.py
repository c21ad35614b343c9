"""Export requests with a canary wherever spans can hold content, as a process without our part would send them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from otel_loopguard import attributes as attr
from otel_loopguard.dialects import content_keys
from otel_loopguard.model import Span, SpanEvent
from tests.processor.canaries import CANARY, exported, in_content, otlp

UNKNOWN_KEYS: Final = ("app.prompt", "http.request.body", "url.full", "db.query.text", "llm.prompts", "exception")
"""Keys of no dialect, or heads of such keys, that may hold content all the same."""
_TOLD: Final = {attr.OPERATION: "execute_tool", attr.TOOL_NAME: "lookup_order", attr.TOOL_CALL_ID: "call_1"}


def values() -> Iterator[AnyValue]:
    """A canary in each kind of value."""
    text = AnyValue(string_value=CANARY)
    yield text
    yield AnyValue(string_value=json.dumps({"order": {"id": CANARY}}))
    yield AnyValue(bytes_value=CANARY.encode())
    yield AnyValue(array_value=ArrayValue(values=[text, AnyValue(int_value=1)]))
    yield AnyValue(kvlist_value=KeyValueList(values=[KeyValue(key=CANARY, value=text)]))


def keys() -> list[str]:
    """Every key that holds content in some dialect, one for each head of such keys, and some of no dialect."""
    return [f"{key}0.message.content" if key.endswith(".") else key for key in sorted(content_keys())] + [*UNKNOWN_KEYS]


def request_of(value: AnyValue) -> ExportTraceServiceRequest:
    """One span a key, with the value on the span, on an event of it, on its scope and its resource, and its status."""
    request = ExportTraceServiceRequest()
    for number, key in enumerate(keys(), start=1):
        pair = KeyValue(key=key, value=value)
        group = request.resource_spans.add()
        group.resource.attributes.extend([_text("service.name", "shop"), pair])
        scoped = group.scope_spans.add()
        scoped.scope.name = "app"
        scoped.scope.attributes.append(pair)
        span = scoped.spans.add(
            trace_id=number.to_bytes(16, "big"),
            span_id=number.to_bytes(8, "big"),
            name="execute_tool lookup_order",
            kind=ProtoSpan.SPAN_KIND_INTERNAL,
            start_time_unix_nano=1,
            end_time_unix_nano=2,
            status=Status(code=Status.STATUS_CODE_ERROR, message=f"no order {CANARY}"),
            attributes=[*(_text(*told) for told in _TOLD.items()), pair],
        )
        for name in ("exception", attr.CHOICE_EVENT, attr.TOOL_MESSAGE_EVENT, attr.DETAILS_EVENT):
            span.events.add(name=name, time_unix_nano=1, attributes=[pair])
    return request


def captured(spans: Sequence[Span]) -> bytes:
    """A captured run with a canary before each piece of content, under whatever key the instrumentation put it."""
    return otlp(exported([_with_own_names(span, in_content(span)) for span in spans]))


def _with_own_names(span: Span, poisoned: Span) -> Span:
    # Names of spans and events are the first line's part: README, Content.
    events = tuple(
        SpanEvent(own.name, event.attributes, event.time_ns)
        for own, event in zip(span.events, poisoned.events, strict=True)
    )
    return msgspec.structs.replace(poisoned, name=span.name, events=events)


def _text(key: str, value: Any) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=value))
