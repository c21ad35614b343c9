"""Ways in which an application sets up its provider, and what exporters get of spans that are played through them.

In each way one exporter was registered before our processor and one behind it, so whatever depends on the order shows
as a difference between the two.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from opentelemetry.sdk.trace import (
    ConcurrentMultiSpanProcessor,
    ReadableSpan,
    SpanProcessor,
    SynchronousMultiSpanProcessor,
    TracerProvider,
)
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_loopguard import files
from otel_loopguard.digest import Key, Keyring, Scope
from otel_loopguard.model import Span
from otel_loopguard.processor.counting import Counts
from otel_loopguard.processor.finding import FindingEvent
from otel_loopguard.processor.span_processor import LoopGuardSpanProcessor
from tests.processor.canaries import otlp
from tests.processor.playing import Late, by_resource, play

KEY: Final = Key(key_id="test", secret=bytes(range(32)))


class Way(NamedTuple):
    """How exporters are fed and how processors are called."""

    exporting: Callable[[InMemorySpanExporter], SpanProcessor]
    calling: Callable[[], SynchronousMultiSpanProcessor | ConcurrentMultiSpanProcessor]


WAYS: Final = {
    "simple": Way(SimpleSpanProcessor, SynchronousMultiSpanProcessor),
    "batch": Way(BatchSpanProcessor, SynchronousMultiSpanProcessor),
    "simple concurrent": Way(SimpleSpanProcessor, ConcurrentMultiSpanProcessor),
    "batch concurrent": Way(BatchSpanProcessor, ConcurrentMultiSpanProcessor),
}
SIMPLE: Final = WAYS["simple"]


class Sent(msgspec.Struct):
    """What came of some spans: at both exporters, in the order they got them, and in the process."""

    before: list[ReadableSpan]
    behind: list[ReadableSpan]
    events: list[FindingEvent]
    counts: list[Counts]
    """One a processor, so one a resource."""


def at_start(_key: str) -> bool:
    """All attributes are set when a span starts."""
    return False


def at_end(_key: str) -> bool:
    """All attributes are set when a span ends."""
    return True


def ours(scope: Scope = Scope.ENVIRONMENT, **options: Any) -> LoopGuardSpanProcessor:
    """A processor with the tests' key."""
    return LoopGuardSpanProcessor(keys=Keyring(KEY, scope=scope), **options)


def send(
    spans: Iterable[Span],
    way: Way = SIMPLE,
    *,
    late: Late = at_start,
    processors: Callable[[Callable[[FindingEvent], None]], Sequence[SpanProcessor]] | None = None,
    **options: Any,
) -> Sent:
    """Plays spans through providers with our processor between two exporters, one provider a resource.

    Args:
        spans: with their own ids, times, scopes and resources.
        way: how exporters and processors are set up.
        late: which attributes are set just before a span ends.
        processors: makes what stands between the exporters, given what takes findings; None for ours alone.
        options: of our processor.
    """
    sent = Sent([], [], [], [])
    for resource, group in by_resource(spans):
        before, behind = InMemorySpanExporter(), InMemorySpanExporter()
        provider = TracerProvider(resource=resource, shutdown_on_exit=False, active_span_processor=way.calling())
        made = (
            [ours(on_finding=sent.events.append, **options)] if processors is None else processors(sent.events.append)
        )
        provider.add_span_processor(way.exporting(before))
        for processor in made:
            provider.add_span_processor(processor)
        provider.add_span_processor(way.exporting(behind))
        play(group, provider, late=late)
        provider.force_flush()
        sent.before += before.get_finished_spans()
        sent.behind += behind.get_finished_spans()
        sent.counts += [one.counts for one in made if isinstance(one, LoopGuardSpanProcessor)]
        provider.shutdown()
    return sent


def read_back(spans: Sequence[ReadableSpan]) -> list[Span]:
    """What a receiver reads in the bytes that an OTLP exporter sends of these spans."""
    items = list(files.read(io.BytesIO(otlp(spans)), name="sent.binpb")) if spans else []
    bad = [item for item in items if not isinstance(item, Span)]
    assert [] == bad
    return [item for item in items if isinstance(item, Span)]
