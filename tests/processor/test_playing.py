"""Spans played through the SDK come back as they were: what the tests of the processor and the exporters rest on."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_loopguard import dialects
from otel_loopguard.model import Span
from otel_loopguard.processor.received import attributes_of, received
from tests.dialects import captures
from tests.processor.playing import by_resource, play


def through_the_sdk(spans: list[Span] | tuple[Span, ...], **options: Any) -> list[Span]:
    """What an exporter gets of `spans`, one provider a resource, as our records; in the order of their starts."""
    exporter = InMemorySpanExporter()
    for resource, group in by_resource(spans):
        provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        play(group, provider, **options)
    found = [received(span, attributes_of(span)) for span in exporter.get_finished_spans()]
    return sorted(found, key=lambda span: (span.start_ns, span.span_id))


def plain(value: Any) -> Any:
    """Lists for the SDK's tuples, dicts for its mappings."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def comparable(span: Span) -> dict[str, Any]:
    """All of a span that an SDK span can carry, as plain values."""
    return {
        **msgspec.structs.asdict(span),
        "attributes": plain(dict(span.attributes)),
        "events": [(event.name, plain(dict(event.attributes)), event.time_ns) for event in span.events],
        "links": list(span.links),
        "resource": plain(dict(span.resource)),
        "kind": span.kind or 1,
        "dropped_attributes": 0,
        "dropped_events": 0,
    }


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("name", captures.names())
def test_a_capture_comes_back(name: str, *, late: bool) -> None:
    """Ids, parents, times, kinds, attributes, events, links, status, scope and resource are those of the capture."""
    given = captures.spans(name)
    got = through_the_sdk(given, late=lambda _key: late, links_late=late)
    assert [comparable(span) for span in given if span.end_ns] == [comparable(span) for span in got]
    assert [dialects.read(span) for span in given if span.end_ns] == [dialects.read(span) for span in got]
