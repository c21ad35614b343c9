"""Puts canaries into the content of spans, and turns what was exported into the bytes that would be sent.

A capture's content is known: what the scenario's prompts, arguments, results, answers and errors say. Canaries go
where that stands, under whatever key: so a key that no dialect names as content's is found out, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
import pytest
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_loopguard.model import Span, SpanEvent
from tests.processor.playing import by_resource, play

CANARY = "kNrY7x"
CONTENT = re.compile(
    r"\bA12\b|\bJ7\b|X-1|Y-9|shipped|percent|finished|is locked|What is in|Use the tools|limit of|exceeded|Traceback"
)
"""What the scenario's prompts, arguments, results, answers and errors say."""
NAMES = re.compile(r"lookup_order|get_export_status|slow_task|cancel_order|[Oo]rder_?[Aa]gent|RefundAgent|OtherAgent")
"""The scenario's tools and agents."""


def changed(span: Span, change: Callable[[str], str]) -> Span:
    """A span with every text on it changed, however deep it lies; keys of attributes stay."""
    return msgspec.structs.replace(
        span,
        name=change(span.name),
        status_message=change(span.status_message),
        attributes={key: _changed(value, change) for key, value in span.attributes.items()},
        events=tuple(
            SpanEvent(one.name, {key: _changed(value, change) for key, value in one.attributes.items()}, one.time_ns)
            for one in span.events
        ),
    )


def _changed(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): _changed(inner, change) for key, inner in value.items()}
    return [_changed(inner, change) for inner in value] if isinstance(value, list | tuple) else value


def in_content(span: Span) -> Span:
    """A span with a canary before each piece of content."""
    return changed(span, lambda text: CONTENT.sub(lambda found: CANARY + found[0], text))


def in_names(span: Span) -> Span:
    """A span whose tools and agents have a prompt with a canary for a name."""
    return changed(span, lambda text: NAMES.sub(lambda found: f"ask {CANARY} {found[0]}", text))


def exported(
    spans: Iterable[Span], processor: Callable[[SpanExporter], SpanProcessor] = SimpleSpanProcessor
) -> list[ReadableSpan]:
    """Plays spans through the SDK, one provider a resource, and returns what reaches an exporter in memory.

    Args:
        spans: with their own ids, times, scopes and resources.
        processor: makes the span processor before that exporter.
    """
    found: list[ReadableSpan] = []
    for resource, group in by_resource(spans):
        memory = InMemorySpanExporter()
        provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        provider.add_span_processor(processor(memory))
        play(group, provider)
        provider.force_flush()
        found += memory.get_finished_spans()
        provider.shutdown()
    return found


def otlp(spans: Sequence[ReadableSpan]) -> bytes:
    """The bytes that an OTLP exporter sends."""
    encoder = pytest.importorskip(
        "opentelemetry.exporter.otlp.proto.common.trace_encoder",
        reason="install opentelemetry-exporter-otlp-proto-common",
    )
    return bytes(encoder.encode_spans(spans).SerializeToString())


def otlp_logs(records: Sequence[Any]) -> bytes:
    """The bytes that an OTLP exporter sends of log records."""
    encoder = pytest.importorskip(
        "opentelemetry.exporter.otlp.proto.common._log_encoder",
        reason="install opentelemetry-exporter-otlp-proto-common",
    )
    return bytes(encoder.encode_logs(records).SerializeToString())
