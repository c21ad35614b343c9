"""Looks at the processors and exporters that an application gave its tracer provider.

Invariants: only looks; nothing is called and nothing changed. What an object holds is read from its own attributes, as
the SDK has no public way to list processors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter

from otel_loopguard.cli import checkup
from otel_loopguard.cli.checkup import Check, Diagnosis
from otel_loopguard.processor.exporter import LoopGuardSpanExporter
from otel_loopguard.processor.span_processor import LoopGuardSpanProcessor
from otel_loopguard.words import counted, safe

MAX_DEPTH: Final = 12
"""Processors inside processors that are looked through."""
SHORT_CHARS: Final = 4096
"""Attribute values cut below this length lose arguments that tools really get. Source: a page of text."""
FEW_ATTRIBUTES: Final = 64
"""Fewer attributes a span than this push out the oldest, which are the tool's name and arguments."""
_INSTALL: Final = (
    "call otel_loopguard.install() after the provider is set, or provider.add_span_processor(LoopGuardSpanProcessor())"
)


class Part(NamedTuple):
    """One processor of a provider, wherever it lies."""

    processor: SpanProcessor
    around: tuple[SpanProcessor, ...]
    """What it lies in, outermost first, without the provider's own list."""
    top: SpanProcessor
    """The one of the provider's own list that it is, or lies in."""
    exporters: tuple[SpanExporter, ...]

    @property
    def ours(self) -> bool:
        """Whether it is the processor that this is all about."""
        return isinstance(self.processor, LoopGuardSpanProcessor)

    @property
    def hidden(self) -> bool:
        """Whether something around it keeps the SDK's call before a span's end from it."""
        return any(type(one)._on_ending is SpanProcessor._on_ending for one in self.around)  # noqa: SLF001


def parts_of(provider: TracerProvider) -> tuple[Part, ...]:
    """Returns every processor of a provider, in the order in which they are called."""
    top = getattr(provider._active_span_processor, "_span_processors", ())  # noqa: SLF001 - nothing public tells
    return tuple(part for one in top for part in _parts(one, (), one, set()))


def _parts(one: SpanProcessor, around: tuple[SpanProcessor, ...], top: SpanProcessor, seen: set[int]) -> Iterator[Part]:
    if id(one) in seen or len(around) >= MAX_DEPTH:
        return
    seen.add(id(one))
    exporters = tuple(held_by(one, SpanExporter))
    named = getattr(one, "span_exporter", None)
    if isinstance(named, SpanExporter) and not any(named is held for held in exporters):
        exporters = (named, *exporters)
    yield Part(one, around, top, exporters)
    if not isinstance(one, BatchSpanProcessor | SimpleSpanProcessor | LoopGuardSpanProcessor):
        for held in held_by(one, SpanProcessor):
            yield from _parts(held, (*around, one), top, seen)


def held_by(one: object, kind: Any) -> Iterator[Any]:
    """Gives what an object holds of a kind, in its own attributes or in a list there."""
    for value in list(getattr(one, "__dict__", {}).values()):
        if isinstance(value, kind):
            yield value
        elif isinstance(value, list | tuple):
            yield from (item for item in value if isinstance(item, kind))


def inner_exporter(exporter: SpanExporter) -> SpanExporter:
    """Returns what an exporter of ours hands on to; any other exporter is returned as it is."""
    for _ in range(MAX_DEPTH):
        if not isinstance(exporter, LoopGuardSpanExporter):
            break
        exporter = next(held_by(exporter, SpanExporter), exporter)
    return exporter


def name_of(one: object) -> str:
    """Returns the class of an object as a reader knows it: the SDK's own by its name alone."""
    kind = type(one)
    own = kind.__module__.startswith("opentelemetry.sdk.")
    return safe(kind.__qualname__ if own else f"{kind.__module__}.{kind.__qualname__}", limit=120)


def processors(parts: Sequence[Part]) -> Iterator[Diagnosis]:
    """Says whether the processor is there, once, and within the SDK's reach."""
    ours = [part for part in parts if part.ours]
    exporters = [exporter for part in parts for exporter in part.exporters]
    for part in ours:
        if part.hidden:
            around = ", ".join(name_of(one) for one in part.around)
            yield checkup.problem(
                Check.PROCESSORS,
                f"LoopGuardSpanProcessor lies in {around}, which does not tell it before a span's end: exporters that "
                "were added earlier may get content",
                "take it out there, and call otel_loopguard.install(), which adds it to the SDK's provider itself",
            )
    if len(ours) > 1:
        yield checkup.problem(
            Check.PROCESSORS,
            f"LoopGuardSpanProcessor is there {len(ours)} times: each call is digested and counted as often",
            "add it once; otel_loopguard.install() does not add a second one",
        )
    if not ours and exporters and all(isinstance(one, LoopGuardSpanExporter) for one in exporters):
        yield checkup.note(
            Check.PROCESSORS,
            "LoopGuardSpanProcessor is not there; LoopGuardSpanExporter removes content, and nothing is digested",
            f"to find loops, {_INSTALL}",
        )
    elif not ours:
        yield checkup.problem(
            Check.PROCESSORS,
            "LoopGuardSpanProcessor is not there: nothing is digested, and no content is removed",
            _INSTALL,
        )
    elif len(ours) == 1 and not ours[0].hidden:
        others = len({id(part.top) for part in parts}) - 1
        yield checkup.ok(
            Check.PROCESSORS,
            f"LoopGuardSpanProcessor is there, beside {counted(others, 'other processor')}; their order makes no "
            "difference",
        )


def exporters(parts: Sequence[Part]) -> Iterator[Diagnosis]:
    """Says which exporters there are, and how they are fed."""
    found = False
    for part in parts:
        for exporter in part.exporters:
            found = True
            inner = inner_exporter(exporter)
            what = name_of(inner) + ("" if inner is exporter else ", behind LoopGuardSpanExporter,")
            if isinstance(part.processor, SimpleSpanProcessor):
                yield checkup.note(
                    Check.EXPORTERS,
                    f"{what} is fed by {name_of(part.processor)}, which makes the application wait for each span",
                    "nothing, in a test; else use BatchSpanProcessor",
                )
            else:
                yield checkup.ok(Check.EXPORTERS, f"{what} is fed by {name_of(part.processor)}")
    if not found:
        yield checkup.note(Check.EXPORTERS, "there is none that can be seen: spans of this provider may go nowhere")


def limits(provider: TracerProvider) -> Iterator[Diagnosis]:
    """Says whether a limit cuts what digests are made of."""
    held = provider._span_limits  # noqa: SLF001 - nothing public tells
    lengths = [one for one in (held.max_span_attribute_length, held.max_attribute_length) if one is not None]
    wrong = False
    if lengths and min(lengths) < SHORT_CHARS:
        wrong = True
        yield checkup.problem(
            Check.LIMITS,
            f"attribute values are cut at {min(lengths)} characters, before the processor gets them: longer arguments "
            "have no digest (`truncated`)",
            f"raise OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT and OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT to {SHORT_CHARS} or "
            "more, or unset them, or the same in SpanLimits: the processor takes the content off in any case",
        )
    count = held.max_span_attributes
    if count is not None and count < FEW_ATTRIBUTES:
        wrong = True
        yield checkup.problem(
            Check.LIMITS,
            f"a span keeps {counted(count, 'attribute')}, the newest: arguments may be pushed out (`dropped`)",
            f"raise OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT to {FEW_ATTRIBUTES} or more, or unset it; so in SpanLimits",
        )
    if not wrong:
        length = f"{counted(min(lengths), 'character')} a value" if lengths else "values of any length"
        yield checkup.ok(Check.LIMITS, f"{length}, {'any number of' if count is None else count} attributes a span")
