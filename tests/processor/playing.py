"""Plays received spans again as real SDK spans, under their own ids and times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from otel_loopguard.model import Span, SpanKey

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

Late = Callable[[str], bool]
"""Tells of an attribute's key that it is set just before its span ends, not at its start."""

_END, _START, _SAME_TIME = 0, 1, 2
_KINDS: Final = (SpanKind.INTERNAL, *SpanKind)
"""By OTLP number; 0, not said, is read as what SDKs write where nothing is said."""


class GivenIds(IdGenerator):
    """Gives out the ids that were asked for in this thread or task; random ones where none were."""

    def __init__(self) -> None:
        self.next: ContextVar[SpanKey | None] = ContextVar("next", default=None)
        self._random = RandomIdGenerator()

    def generate_span_id(self) -> int:
        """The span id asked for."""
        asked = self.next.get()
        return self._random.generate_span_id() if asked is None else int(asked[1], 16)

    def generate_trace_id(self) -> int:
        """The trace id asked for."""
        asked = self.next.get()
        return self._random.generate_trace_id() if asked is None else int(asked[0], 16)


def play(
    spans: Sequence[Span], provider: TracerProvider, *, late: Late = lambda _key: False, links_late: bool = False
) -> None:
    """Starts and ends SDK spans as `spans` say, in the order of their times.

    A span without an end is started and left open. Parents, even of other providers, are those of the given spans,
    or remote ones. What an SDK has no way to set is left out: dropped counts, the trace state of a root.

    Args:
        spans: in any order; their resource is the provider's matter (`by_resource`).
        provider: its id generator is replaced; a tracer got from it before is not used.
        late: which attributes are set just before the end, in the given order, not at the start.
        links_late: whether links are added after the start.
    """
    ids = _given_ids(provider)
    begun: dict[SpanKey, trace.Span] = {}
    open_spans: dict[int, trace.Span] = {}
    for at, what, _, number in sorted(_moments(spans)):
        span = spans[number]
        if what == _START:
            token = ids.next.set((span.trace_id, span.span_id))
            opened = provider.get_tracer(span.scope or "unnamed").start_span(
                span.name,
                context=_above(span, begun),
                kind=_KINDS[span.kind],
                attributes={key: value for key, value in span.attributes.items() if not late(key)},
                links=() if links_late else [Link(_remote(link)) for link in span.links],
                start_time=at,
            )
            ids.next.reset(token)
            begun[span.trace_id, span.span_id] = open_spans[number] = opened
            if links_late:
                for link in span.links:
                    opened.add_link(_remote(link))
        else:
            _end(open_spans.pop(number), span, late)


def by_resource(spans: Iterable[Span]) -> list[tuple[Resource, list[Span]]]:
    """Parts spans by the resource they came from: one provider each.

    Returns:
        In the order in which the resources first come.
    """
    found: list[tuple[Mapping[str, object], list[Span]]] = []
    for span in spans:
        group = next((group for resource, group in found if resource == span.resource), None)
        if group is None:
            found.append((span.resource, [span]))
        else:
            group.append(span)
    return [(Resource(dict(group[0].resource)), group) for _, group in found]


def _given_ids(provider: TracerProvider) -> GivenIds:
    generator: IdGenerator = provider.id_generator
    if not isinstance(generator, GivenIds):
        generator = provider.id_generator = GivenIds()  # type: ignore[assignment] # inferred from its default
    return generator


def _moments(spans: Sequence[Span]) -> Iterable[tuple[int, int, int, int]]:
    """(time, end or start, order among equals, number): at one time ends come first, parents start before children."""
    depths = _depths(spans)
    for number, span in enumerate(spans):
        yield (span.start_ns, _START, depths[number], number)
        if span.end_ns is not None:
            end = max(span.end_ns, span.start_ns)
            yield (end, _SAME_TIME if end == span.start_ns else _END, -depths[number], number)


def _depths(spans: Sequence[Span]) -> list[int]:
    parents = {(span.trace_id, span.span_id): span.parent_id for span in spans}
    depths = []
    for span in spans:
        depth, above = 0, span.parent_id
        while above is not None and depth <= len(parents):
            depth, above = depth + 1, parents.get((span.trace_id, above))
        depths.append(depth)
    return depths


def _above(span: Span, begun: Mapping[SpanKey, trace.Span]) -> Context:
    if span.parent_id is None:
        return Context()
    parent = begun.get((span.trace_id, span.parent_id))
    if parent is None:
        parent = NonRecordingSpan(_remote((span.trace_id, span.parent_id), span.trace_state))
    return trace.set_span_in_context(parent, Context())


def _remote(key: SpanKey, trace_state: str = "") -> SpanContext:
    return SpanContext(
        int(key[0], 16),
        int(key[1], 16),
        is_remote=True,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
        trace_state=trace.TraceState.from_header([trace_state] if trace_state else []),
    )


def _end(opened: trace.Span, span: Span, late: Late) -> None:
    for key, value in span.attributes.items():
        if late(key):
            opened.set_attribute(key, value)
    for event in span.events:
        opened.add_event(event.name, dict(event.attributes), event.time_ns or None)
    if span.status_code:
        code = StatusCode(span.status_code)
        opened.set_status(Status(code, span.status_message if code is StatusCode.ERROR else None))
    opened.end(span.end_ns)
