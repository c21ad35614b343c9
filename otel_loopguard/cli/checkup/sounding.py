"""Sends the canary through an application's own processors, and tells what each exporter would have sent.

Invariants: no exporter's own `export` is called once this began, for a canary or for anything else, and that is never
undone: this process ends afterwards. A processor of which it cannot be told that it sends nothing by itself is left
out, and said to be. The application's provider is not changed: its processors are lent to a provider of our own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import (
    ConcurrentMultiSpanProcessor,
    ReadableSpan,
    SynchronousMultiSpanProcessor,
    TracerProvider,
)
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Status, StatusCode

from otel_loopguard import attributes as attr
from otel_loopguard.cli import checkup
from otel_loopguard.cli.checkup import Check, Diagnosis
from otel_loopguard.cli.checkup.canary import Canary, Place
from otel_loopguard.cli.checkup.pipeline import Part, inner_exporter, name_of, parts_of
from otel_loopguard.cli.checkup.shapes import Shape, shapes
from otel_loopguard.policy import ContentRule
from otel_loopguard.processor.boundary import Boundary
from otel_loopguard.words import counted

FLUSH_MS: Final = 5_000
MAX_PLACES: Final = 12
"""Places that are named for one exporter; the rest are counted. Source: one line that can still be read."""
MAX_SPANS: Final = 3
"""Spans that are named for one place."""
QUIET: Final = ("opentelemetry.sdk.", "otel_loopguard.", "openinference.", "logfire.")
"""Packages whose processors send nothing but through exporters."""
_MARK: Final = "otel_loopguard.canary"
_STRICT: Final = (ContentRule.DROP_ALL, ContentRule.DROP_TOOL, ContentRule.KEEP)
_INSTALL: Final = "otel_loopguard.install(), or LoopGuardSpanExporter around this exporter"
_TAKE_OUT: Final = "take out what exports spans at their start (Logfire's pending spans): nothing can clean them"
_REPORT: Final = (
    f"see `{Check.PROCESSORS}` above; put LoopGuardSpanExporter around this exporter; if the processor is in place, "
    "report it"
)
_DIALECT, _ROLE, _COUNTED = "loopguard_doctor.dialect", "loopguard_doctor.role", "loopguard_doctor.counted"


class Recorder:
    """Stands in the place of an exporter's `export` and looks for the canary in what comes."""

    def __init__(self, exporter: SpanExporter, canary: Canary, boundary: Boundary) -> None:
        self.exporter = exporter
        self.places: set[Place] = set()
        self.spans = self.tools = self.digested = 0
        self._canary, self._boundary = canary, boundary

    def put(self) -> bool:
        """Takes the exporter's place; tells whether that was possible."""
        try:
            self.exporter.export = self.export  # type: ignore[method-assign] # the point
        except (AttributeError, TypeError):
            return False
        return True

    def export(self, spans: Sequence[ReadableSpan], *_: object, **__: object) -> SpanExportResult:
        """Looks at spans, and sends none."""
        for span in spans:
            self._boundary.run("looking at what is exported", self._look, span, otherwise=None)
        return SpanExportResult.SUCCESS

    def _look(self, span: ReadableSpan) -> None:
        if span.resource.attributes.get(_MARK) != self._canary.token:
            return
        attributes = span.attributes or {}
        role, dialect = str(attributes.get(_ROLE, "")), str(attributes.get(_DIALECT, ""))
        self.spans += 1
        early = span.end_time is None or attributes.get("logfire.span_type") == "pending_span"
        if _COUNTED in attributes and role == "tool" and not early:
            self.tools += 1
            self.digested += attr.CALL_DIGEST in attributes
        crowded = _COUNTED not in attributes
        for where in self._canary.found_in(span):
            self.places.add(Place(dialect, role, where, crowded=crowded, early=early))


def sound(provider: TracerProvider, boundary: Boundary, everything: bool) -> Iterator[Diagnosis]:  # noqa: FBT001 - one caller
    """Sends the canary, and says what would have left.

    Args:
        provider: the application's.
        boundary: keeps what other people's processors raise.
        everything: take part also those processors that may send by themselves.
    """
    canary = Canary()
    parts = parts_of(provider)
    recorders, left_out = _lend(parts, canary, boundary, everything=everything)
    if left_out:
        names = ", ".join(sorted({name_of(one) for one in left_out}))
        yield checkup.note(
            Check.CANARY,
            f"{names} was left out: it may send by itself what it is given",
            "--all-processors lets it take part, if you know that it sends nothing but through exporters",
        )
    if not recorders:
        yield checkup.skipped(Check.CANARY, "no exporter is there that could be watched", "add one, and run this again")
        return
    multi = _multi(provider)
    for one in {id(part.top): part.top for part in parts}.values():  # some cannot be hashed
        if not any(one is out for out in left_out):
            multi.add_span_processor(one)
    ours = TracerProvider(
        sampler=ALWAYS_ON,
        resource=Resource({_MARK: canary.token}),
        shutdown_on_exit=False,
        active_span_processor=multi,
        span_limits=provider._span_limits,  # noqa: SLF001 - nothing public tells
    )
    for run in shapes():
        boundary.run("canary", _play, ours, canary, run, otherwise=None)
    # One by one: at the first that does not answer, which is the SDK's own default, a list of processors stops.
    if any(boundary.run("flush", part.processor.force_flush, FLUSH_MS, otherwise=False) is False for part in parts):
        yield checkup.note(Check.CANARY, f"not everything was handed to exporters within {FLUSH_MS / 1000:.0f} s")
    rule = _rule(part.processor for part in parts if part.ours)
    for recorder, outer in recorders:
        yield from _told(recorder, strictest(rule, _rule([outer])), digests=rule is not None)


def _lend(
    parts: Sequence[Part], canary: Canary, boundary: Boundary, *, everything: bool
) -> tuple[list[tuple[Recorder, SpanExporter]], list[object]]:
    """Puts a recorder in the place of every exporter; also returns the processors that must not take part."""
    recorders: dict[int, tuple[Recorder, SpanExporter]] = {}
    left_out: dict[int, object] = {}
    for part in parts:
        for exporter in part.exporters:
            inner = inner_exporter(exporter)
            if id(inner) in recorders:
                continue
            recorder = Recorder(inner, canary, boundary)
            if recorder.put():
                recorders[id(inner)] = (recorder, exporter)
            else:
                left_out[id(part.top)] = part.top
        known = isinstance(part.processor, BatchSpanProcessor | SimpleSpanProcessor) and part.exporters
        if not known and not everything and not f"{type(part.processor).__module__}.".startswith(QUIET):
            left_out[id(part.top)] = part.top
    out = {id(exporter) for part in parts if id(part.top) in left_out for exporter in part.exporters}
    watched = [(recorder, outer) for recorder, outer in recorders.values() if id(outer) not in out]
    return watched, list(left_out.values())


def _multi(provider: TracerProvider) -> Any:
    held = provider._active_span_processor  # noqa: SLF001 - nothing public tells
    concurrent = isinstance(held, ConcurrentMultiSpanProcessor)
    make: Any = ConcurrentMultiSpanProcessor if concurrent else SynchronousMultiSpanProcessor
    return make()


def _play(provider: TracerProvider, canary: Canary, run: Sequence[Shape]) -> None:
    """Starts and ends the spans of one run, the first around the others."""
    above = trace.set_span_in_context(trace.INVALID_SPAN)
    spans: list[tuple[trace.Span, Shape]] = []
    for shape in run:
        span = provider.get_tracer(shape.scope).start_span(
            canary.fill(shape.name),
            context=above,
            attributes={
                _DIALECT: shape.dialect,
                _ROLE: shape.role,
                **({} if shape.crowded else {_COUNTED: True}),
                **canary.fill(shape.attributes),
            },
        )
        if not spans:
            above = trace.set_span_in_context(span)
        spans.append((span, shape))
    for span, shape in reversed(spans):
        for key, value in shape.late.items():
            span.set_attribute(key, canary.fill(value))
        for name, attributes in shape.events:
            span.add_event(name, canary.fill(attributes))
        span.record_exception(ValueError(canary.text))
        span.set_status(Status(StatusCode.ERROR, canary.text))
        span.end()


def _rule(holders: Any) -> ContentRule | None:
    """The strictest rule that our processors or exporters among these keep to; None where there is none of ours."""
    found: ContentRule | None = None
    for one in holders:
        cleaner = getattr(getattr(one, "_settings", one), "cleaner", None) or getattr(one, "_cleaner", None)
        rule = getattr(cleaner, "rule", None)
        if isinstance(rule, ContentRule):
            found = strictest(found, rule)
    return found


def strictest(one: ContentRule | None, other: ContentRule | None) -> ContentRule | None:
    """Returns the rule that removes more; None stands for no rule."""
    given = [rule for rule in (one, other) if rule is not None]
    return min(given, key=_STRICT.index) if given else None


def _told(recorder: Recorder, rule: ContentRule | None, *, digests: bool) -> Iterator[Diagnosis]:
    name = name_of(recorder.exporter)
    if not recorder.spans:
        yield checkup.note(Check.CANARY, f"{name} was handed none of the made-up spans")
        return
    early = {place for place in recorder.places if place.early and rule is not ContentRule.KEEP}
    leaks = {place for place in recorder.places - early if _forbidden(place, rule)}
    allowed = recorder.places - early - leaks
    if leaks:
        yield checkup.leak(
            Check.CANARY,
            f"{name} would get content: {_places(leaks)}",
            _INSTALL if rule is None else _REPORT,
        )
    if early:
        yield checkup.leak(
            Check.CANARY, f"{name} would get content of spans that have only started: {_places(early)}", _TAKE_OUT
        )
    if allowed:
        yield checkup.note(
            Check.CANARY,
            f"{name} would get content, as `content: {rule}` says: {_places(allowed)}",
            f"nothing, if that is meant; else `content: {ContentRule.DROP_ALL}`",
        )
    if not recorder.places:
        made = counted(recorder.spans, "made-up span")
        yield checkup.ok(Check.CANARY, f"{name} would get no content of {made}")
    if digests and not recorder.digested and recorder.tools:
        yield checkup.problem(
            Check.CANARY,
            f"{name} was handed {counted(recorder.tools, 'made-up tool call')}, none with a digest",
            f"look at `{Check.KEY}`, `{Check.POLICY}` and `{Check.PROCESSORS}` above",
        )
    elif digests:
        yield checkup.ok(
            Check.CANARY, f"{name} was handed digests for {recorder.digested} of {recorder.tools} made-up tool calls"
        )


def _forbidden(place: Place, rule: ContentRule | None) -> bool:
    if rule is ContentRule.KEEP:
        return False
    return rule is not ContentRule.DROP_TOOL or place.role == "tool"


def _places(places: AbstractSet[Place]) -> str:
    """Names the places, those first that hold what tools were given, and at which most instrumentations write."""
    natural = {place for place in places if not place.crowded} or places
    by_where: dict[str, set[str]] = {}
    for place in natural:
        by_where.setdefault(place.where, set()).add(f"{place.dialect} {place.role}")
    named = []
    tools = {place.where for place in natural if place.role == "tool"}
    order = sorted(by_where.items(), key=lambda one: (one[0] not in tools, -len(one[1]), one[0]))
    for where, spans in order[:MAX_PLACES]:
        shown = sorted(spans)[:MAX_SPANS]
        more = [f"{len(spans) - len(shown)} more"] if len(spans) > len(shown) else []
        named.append(f"{where} ({', '.join([*shown, *more])})")
    rest = len({place.where for place in places}) - len(named)
    return "; ".join(named) + (f" and {counted(rest, 'more place')}" if rest else "")
