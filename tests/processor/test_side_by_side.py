"""Other processors on the provider beside ours: another of ours, wrappers, and those that rewrite spans.

OpenInference's two span processors are tried for real where they are installed (`-m beside`): they need no framework.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
import pytest
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace import Span as SdkSpan

from otel_loopguard import attributes as attr
from otel_loopguard import policy as policies
from otel_loopguard.digest import Scope
from otel_loopguard.model import Span
from otel_loopguard.policy import ContentRule
from otel_loopguard.processor.finding import FindingEvent
from otel_loopguard.processor.span_processor import LoopGuardSpanProcessor
from tests.dialects import captures
from tests.processor.canaries import CANARY, in_content
from tests.processor.setups import SIMPLE, WAYS, Sent, Way, ours, read_back, send
from tests.processor.test_parity import as_they_came, judged, live, raw, verdicts
from tests.processor.test_span_canaries import leaks

MAIN: Final = captures.names("main")
Told = Callable[[FindingEvent], None]


def of_any_producer(spans: Sequence[ReadableSpan]) -> list[Span]:
    """What is read of exported spans, with producers in place of their random names."""
    names: dict[Any, int] = {}
    found = []
    for span in read_back(spans):
        told = dict(span.attributes)
        if attr.PRODUCER_ID in told:
            told[attr.PRODUCER_ID] = names.setdefault(told[attr.PRODUCER_ID], len(names))
        found.append(msgspec.structs.replace(span, attributes=told))
    return found


# --- two of ours --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", captures.names())
def test_a_second_one_changes_nothing(name: str) -> None:
    """What leaves is what leaves with one, and each finding is told once."""
    one = send(captures.spans(name))
    two = send(captures.spans(name), processors=lambda told: [ours(on_finding=told), ours(on_finding=told)])
    assert of_any_producer(one.behind) == of_any_producer(two.behind)
    assert live(one.events) == live(two.events)
    assert [({}, 0)] * len(two.counts) == [(one.failures, one.late_spans) for one in two.counts]


@pytest.mark.parametrize("rules", [(ContentRule.KEEP, ContentRule.DROP_ALL), (ContentRule.DROP_ALL, ContentRule.KEEP)])
def test_of_two_rules_the_stricter_holds(rules: tuple[ContentRule, ContentRule]) -> None:
    """In either order no content leaves, and the digests are those of the content."""
    for name in MAIN:
        spans = [in_content(span) for span in captures.spans(name)]
        both = send(spans, processors=lambda told: [ours(content=rule, on_finding=told) for rule in rules])
        assert ([], []) == (leaks(both.before), leaks(both.behind))
        policy = policies.default()
        ended = [span for span in spans if span.end_ns]
        assert verdicts(raw(ended, policy, Scope.ENVIRONMENT)) == verdicts(judged(read_back(both.behind), policy))


# --- wrappers -----------------------------------------------------------------------------------------------


class Hiding(SpanProcessor):
    """Hands on starts and ends alone, as wrappers of vendors do."""

    def __init__(self, inner: LoopGuardSpanProcessor) -> None:
        self.inner = inner

    def on_start(self, span: SdkSpan, parent_context: Context | None = None) -> None:
        """Hands a start on."""
        self.inner.on_start(span, parent_context)

    def on_end(self, span: ReadableSpan) -> None:
        """Hands an end on."""
        self.inner.on_end(span)


@pytest.mark.parametrize("name", captures.names())
def test_behind_a_wrapper_that_hides_the_ending_later_exporters_get_the_same(name: str) -> None:
    """No content and the same verdict at exporters behind; the spans are counted as late."""
    inner: list[LoopGuardSpanProcessor] = []

    def wrapped(told: Told) -> Sequence[SpanProcessor]:
        inner.append(ours(on_finding=told))
        return [Hiding(inner[-1])]

    spans = [in_content(span) for span in captures.spans(name) if span.end_ns]
    sent = send(spans, processors=wrapped)
    policy = policies.default()
    assert [] == leaks(sent.behind)
    assert verdicts(raw(spans, policy, Scope.ENVIRONMENT)) == verdicts(judged(read_back(sent.behind), policy))
    assert [{}] * len(inner) == [one.counts.failures for one in inner]
    if leaks(sent.before):
        assert sum(one.counts.late_spans for one in inner) > 0


# --- processors that rewrite spans --------------------------------------------------------------------------


class Rewriting(SpanProcessor):
    """Keeps what it saw at the start, and puts it on the span at its end, in place of the SDK's own attributes."""

    def __init__(self) -> None:
        self.seen: dict[int, Any] = {}

    def on_start(self, span: SdkSpan, parent_context: Context | None = None) -> None:  # noqa: ARG002 - the SDK's
        """Notes the attributes."""
        self.seen[span.get_span_context().span_id] = dict(span.attributes or {})

    def on_end(self, span: ReadableSpan) -> None:
        """Adds them under other keys of content, as converters do."""
        context = span.get_span_context()
        held = self.seen[0 if context is None else context.span_id]
        told = {"input.value": str(held), "output.value": str(held), "openinference.span.kind": "CHAIN"}
        span._attributes = {**(span.attributes or {}), **told}  # noqa: SLF001 - as OpenInference's processors do


@pytest.mark.parametrize("way", ["simple", "batch"])
def test_content_that_another_adds_at_the_end_is_removed_behind_it(way: str) -> None:
    """Registered before ours: what it kept from the start and adds in `on_end` does not leave behind ours."""
    for name in MAIN:
        spans = [in_content(span) for span in captures.spans(name)]
        sent = send(spans, WAYS[way], processors=lambda told: [Rewriting(), ours(on_finding=told)])
        assert [] == leaks(sent.behind)
        assert [{}] * len(sent.counts) == [one.failures for one in sent.counts]


def test_content_that_another_adds_behind_ours_stays() -> None:
    """The stated limit: nothing of ours runs after it."""
    spans = [in_content(span) for span in captures.spans(MAIN[1])]
    sent = send(spans, processors=lambda told: [ours(on_finding=told), Rewriting()])
    assert CANARY in str([dict(span.attributes or {}) for span in sent.behind])


# --- OpenInference's ----------------------------------------------------------------------------------------


def openinference(module: str, name: str) -> SpanProcessor:
    """One of its processors; fails where it is not installed."""
    made: SpanProcessor = getattr(importlib.import_module(f"openinference.instrumentation.{module}"), name)()
    return made


CONVERTERS: Final = {
    "pydantic_ai": ("OpenInferenceSpanProcessor", captures.names("pydantic-ai", "+native")),
    "strands_agents": ("StrandsAgentsToOpenInferenceProcessor", captures.names("strands-agents", "+native")),
}
CONVERTED: Final = [(module, name) for module, (_, names) in CONVERTERS.items() for name in names]


@pytest.mark.beside
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("way", sorted(WAYS))
@pytest.mark.parametrize(("module", "name"), CONVERTED)
def test_beside_openinference(module: str, name: str, way: str, *, first: bool) -> None:
    """Registered before ours or behind: converted spans hold no content, and tell what the raw ones did."""
    setup: Way = WAYS[way]

    def both(told: Told) -> Sequence[SpanProcessor]:
        theirs, mine = openinference(module, CONVERTERS[module][0]), ours(on_finding=told)
        return [theirs, mine] if first else [mine, theirs]

    spans = [span for span in captures.spans(name) if span.end_ns]
    policy = policies.default()
    reference = raw(spans, policy, Scope.ENVIRONMENT)
    sent: Sent = send(spans, setup, processors=both)
    for exported in (sent.before, sent.behind):
        assert verdicts(reference) == verdicts(judged(read_back(exported), policy))
    assert sorted(one for report in reference for one in as_they_came(report, policy)) == live(sent.events)
    assert [({}, 0)] == [(one.failures, one.late_spans) for one in sent.counts]
    if setup is SIMPLE:
        assert all("openinference.span.kind" in (span.attributes or {}) for span in sent.behind)
    canaries = send([in_content(span) for span in spans], setup, processors=both)
    assert ([], []) == (leaks(canaries.before), leaks(canaries.behind))
