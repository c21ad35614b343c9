"""Span processors that stand around ours, or beside it, and do not do what the SDK does."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.context import Context
from opentelemetry.sdk.trace import Event, ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import Status, StatusCode

from otel_loopguard.policy import ContentRule
from otel_loopguard.processor.span_processor import LoopGuardSpanProcessor
from tests.processor.applications import (
    AGENT,
    ARGUMENTS,
    CALLS,
    CHAT,
    DIGEST,
    MESSAGES,
    RESULT,
    SEQUENCE,
    TOOL,
    Application,
    ByName,
    end_badly,
    held,
    sequences,
    stuck_run,
)
from tests.processor.canaries import CANARY


class Plain(SpanProcessor):
    """Hands on what the public interface has: a start and an end, as many vendors' wrappers do."""

    def __init__(self, inner: SpanProcessor) -> None:
        self.inner = inner

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Hands it on."""
        self.inner.on_start(span, parent_context)

    def on_end(self, span: ReadableSpan) -> None:
        """Hands it on."""
        self.inner.on_end(span)


class EndsOnly(Plain):
    """Hands on ended spans alone."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Keeps it."""


class Whole(Plain):
    """Hands on what the SDK calls."""

    def _on_ending(self, span: Span) -> None:
        self.inner._on_ending(span)  # noqa: SLF001 - as the SDK does


class Twice(Whole):
    """Calls the hook by both of its names."""

    def _on_ending(self, span: Span) -> None:
        super()._on_ending(span)
        self.inner.on_ending(span)  # type: ignore[attr-defined] # the specification's name


class SpecifiedName(Plain):
    """Calls the hook by the specification's name only."""

    def _on_ending(self, span: Span) -> None:
        self.inner.on_ending(span)  # type: ignore[attr-defined] # as above


class Copying(Plain):
    """Hands on copies of what ended, containers and all."""

    def on_end(self, span: ReadableSpan) -> None:
        """Hands a copy on."""
        copied = ReadableSpan(
            name=span.name,
            context=span.context,
            parent=span.parent,
            resource=span.resource,
            attributes=dict(span.attributes or {}),
            events=span.events,
            links=span.links,
            kind=span.kind,
            status=span.status,
            start_time=span.start_time,
            end_time=span.end_time,
            instrumentation_scope=span.instrumentation_scope,
        )
        self.inner.on_end(copied)


class Group(Whole):
    """Hands on to several, in their order."""

    def __init__(self, *inner: SpanProcessor) -> None:
        super().__init__(inner[0])
        self.all = inner

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Hands it on."""
        for one in self.all:
            one.on_start(span, parent_context)

    def _on_ending(self, span: Span) -> None:
        for one in self.all:
            one._on_ending(span)  # noqa: SLF001 - as above

    def on_end(self, span: ReadableSpan) -> None:
        """Hands it on."""
        for one in self.all:
            one.on_end(span)


class ToolsOnly(Whole):
    """Hands on spans whose names say that they are tools'."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Hands some on."""
        if span.name.startswith("execute_tool"):
            super().on_start(span, parent_context)

    def _on_ending(self, span: Span) -> None:
        if span.name.startswith("execute_tool"):
            super()._on_ending(span)

    def on_end(self, span: ReadableSpan) -> None:
        """Hands some on."""
        if span.name.startswith("execute_tool"):
            super().on_end(span)


def after(application: Application) -> str:
    """All that the exporter registered after ours got."""
    return "".join(span.to_json() for span in application.spans)


WARNING = "content was still on a span in on_end"


@pytest.mark.parametrize("wrapper", [Whole, SpecifiedName, Twice])
def test_a_wrapper_that_hands_all_on_changes_nothing(wrapper: type[Plain], caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is late, nothing is counted twice, both exporters get clean spans."""
    application = Application(wrap=wrapper)
    stuck_run(application)
    assert CANARY not in application.text()
    counts = application.processor.counts
    assert (3, {"error_repeat": 1}, 0, {}) == (counts.tool_calls, counts.findings, counts.late_spans, counts.failures)
    assert [[1, 2, 3]] == list(sequences(application.spans).values())
    assert "" == caplog.text


@pytest.mark.parametrize("wrapper", [Plain, EndsOnly])
def test_a_wrapper_that_hides_the_hook_is_worked_around(wrapper: type[Plain], caplog: pytest.LogCaptureFixture) -> None:
    """Digests, numbers and findings come all the same; content is gone for who comes later; counted, and said once."""
    application = Application(wrap=wrapper)
    stuck_run(application)
    stuck_run(application)
    assert CANARY not in after(application)
    counts = application.processor.counts
    assert 20 == counts.late_spans
    assert (6, {"error_repeat": 2}, {}) == (counts.tool_calls, counts.findings, counts.failures)
    assert [[1, 2, 3]] * 2 == list(sequences(application.spans).values())
    assert [3, 3] == [held(span)[CALLS] for span in application.spans if CALLS in held(span)]
    assert [WARNING] == [record.getMessage()[: len(WARNING)] for record in caplog.records]
    assert "otel_loopguard.install(provider)" in caplog.text


def test_an_exporter_that_sends_at_once_and_stands_before_a_wrapper_sees_content(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What cannot be helped is not hidden: this is what the warning and the count are about."""
    seen: list[str] = []

    class AtOnce(SimpleSpanProcessor):
        def on_end(self, span: ReadableSpan) -> None:
            seen.append(span.to_json())

    provider = TracerProvider(shutdown_on_exit=False)
    application = Application()
    provider.add_span_processor(AtOnce(InMemorySpanExporter()))
    provider.add_span_processor(Plain(application.processor))
    application.tracer = provider.get_tracer("wrapped")
    application.call(result=CANARY)
    assert [True] == [CANARY in one for one in seen]
    assert 1 == application.processor.counts.late_spans
    assert WARNING in caplog.text


def test_spans_without_content_are_not_late(caplog: pytest.LogCaptureFixture) -> None:
    """A wrapped processor in an application that has no agents says nothing."""
    application = Application(wrap=Plain)
    parent = application.start("GET /", {"http.request.method": "GET"})
    application.start("SELECT", {"db.system.name": "x"}, parent).end()
    parent.end()
    assert (0, 0) == (application.processor.counts.late_spans, application.processor.counts.cleaned_spans)
    assert "" == caplog.text


def test_a_root_of_the_application_closes_behind_a_wrapper() -> None:
    """The span that closes the local trace says how many calls there were, though no dialect knows it."""
    application = Application(wrap=Plain)
    parent = application.start("GET /", {"http.request.method": "GET"})
    application.call(parent)
    application.call(parent)
    parent.end()
    assert 2 == held(application.spans[-1])[CALLS]


def test_error_text_below_and_above_a_tool_goes_behind_a_wrapper() -> None:
    """Spans that no dialect knows are told from where they stand, there too."""
    application = Application(wrap=Plain)
    root = application.start("GET /", {})
    tool = application.start("execute_tool lookup", TOOL, root)
    inner = application.start("SELECT", {}, tool)
    for span in (inner, tool, root):
        end_badly(span)
    assert CANARY not in after(application)


def test_a_copy_is_cleaned_for_who_gets_the_copy() -> None:
    """Behind a wrapper that copies, ours cleans the copy, which is what the others there get; and it is counted."""
    memory = InMemorySpanExporter()
    application = Application(wrap=lambda ours: Copying(Group(ours, SimpleSpanProcessor(memory))))
    stuck_run(application)
    spans = memory.get_finished_spans()
    assert CANARY not in "".join(span.to_json() for span in spans)
    assert [1, 2, 3] == [held(span)[SEQUENCE] for span in spans if SEQUENCE in held(span)]
    assert 10 == application.processor.counts.late_spans


def test_a_group_with_an_exporter_before_ours_is_clean() -> None:
    """Whoever hands the hook on makes the order of a group meaningless, as it is in the SDK."""
    memory = InMemorySpanExporter()
    application = Application(wrap=lambda ours: Group(SimpleSpanProcessor(memory), ours))
    stuck_run(application)
    assert CANARY not in "".join(span.to_json() for span in memory.get_finished_spans())
    assert 0 == application.processor.counts.late_spans


def test_a_filter_leaves_what_it_hands_on() -> None:
    """Ours sees tool spans alone: they are clean, numbered and compared; others are as the application made them."""
    application = Application(wrap=ToolsOnly)
    agent = application.start("invoke_agent helper", {**AGENT, MESSAGES: CANARY})
    for _ in range(3):
        application.call(agent, result=CANARY)
    agent.end()
    *tools, last = application.spans
    assert [False] * 3 == [CANARY in span.to_json() for span in tools]
    assert [1, 2, 3] == [held(span)[SEQUENCE] for span in tools]
    assert {"exact_repeat": 1} == application.processor.counts.findings
    assert CANARY in last.to_json()


def test_content_that_another_processor_puts_back_goes_again(caplog: pytest.LogCaptureFixture) -> None:
    """A processor that kept what it saw at the start, and writes it on the ended span, is counted as late."""

    class PutsBack(SpanProcessor):
        def on_end(self, span: ReadableSpan) -> None:
            span._attributes = {**(span.attributes or {}), RESULT: CANARY}  # noqa: SLF001

    application = Application(wrap=lambda ours: Group(PutsBack(), ours))
    application.call()
    assert CANARY not in after(application)
    assert 1 == application.processor.counts.late_spans
    assert WARNING in caplog.text


def _new_attributes(span: Any) -> None:
    span._attributes = {**(span.attributes or {}), "input.value": CANARY}  # noqa: SLF001


def _new_events(span: Any) -> None:
    span._events = (*span.events, Event("gen_ai.choice", {"message": CANARY}))  # noqa: SLF001


def _new_status(span: Any) -> None:
    span._status = Status(StatusCode.ERROR, CANARY)  # noqa: SLF001


@pytest.mark.parametrize(
    ("name", "put"),
    [
        ("plain", _new_attributes),
        ("plain", _new_events),
        ("tool", _new_attributes),
        ("tool", _new_events),
        ("tool", _new_status),
    ],
)
def test_whatever_another_processor_puts_on_an_ended_span_goes(name: str, put: Callable[[Any], None]) -> None:
    """Attributes, events and status, on a tool's span and on one that said nothing before."""

    class Puts(SpanProcessor):
        def on_end(self, span: ReadableSpan) -> None:
            put(span)

    application = Application(wrap=lambda ours: Group(Puts(), ours))
    for _ in range(2):  # a key is known to say nothing once it was met
        if name == "tool":
            application.call()
        else:
            application.start("GET", {"http.route": "/"}).end()
    assert (False, 2) == (CANARY in after(application), application.processor.counts.late_spans)


@pytest.mark.parametrize("sampled", [True, False])
def test_the_same_processor_added_twice_counts_once(*, sampled: bool) -> None:
    """Two set-ups that each add it, of one provider."""
    application = Application(provider=None if sampled else {"sampler": ByName({"": Decision.RECORD_ONLY})})
    application.provider.add_span_processor(application.processor)
    agent = application.start("invoke_agent helper", AGENT)
    for _ in range(2):
        application.start("chat m", CHAT, agent).end()
        application.call(agent)
    agent.end()
    counts = application.processor.counts
    assert (2, {}, 0, {}) == (counts.tool_calls, counts.findings, counts.late_spans, counts.failures)
    assert ([[1, 2]] if sampled else []) == list(sequences(application.spans).values())


def test_two_processors_in_one_provider_agree() -> None:
    """The second finds the first's attributes and leaves them: one number, one digest, no content."""
    application = Application()
    second = LoopGuardSpanProcessor(keys=application.processor.keyring, meter_provider=None)
    memory = InMemorySpanExporter()
    application.provider.add_span_processor(second)
    application.provider.add_span_processor(SimpleSpanProcessor(memory))
    stuck_run(application)
    assert CANARY not in application.text()
    assert [[1, 2, 3]] == list(sequences(memory.get_finished_spans()).values())
    assert [held(span) for span in application.spans] == [held(span) for span in memory.get_finished_spans()]
    assert [3] == [held(span)[CALLS] for span in application.spans if CALLS in held(span)]
    assert (0, {}) == (second.counts.late_spans, second.counts.failures)


@pytest.mark.parametrize("wrapper", [Whole, Plain, EndsOnly])
def test_no_ended_span_is_kept_alive(wrapper: type[Plain]) -> None:
    """Whatever stands around ours: once its exporters let go of a span, it is gone."""
    application = Application(wrap=wrapper)
    agent = application.start("invoke_agent helper", AGENT)
    spans: list[Any] = [application.start("GET", {}, agent), application.start("execute_tool x", TOOL, agent), agent]
    for span in spans:
        span.end()
    watched = [weakref.ref(span) for span in spans]
    application.before.clear()
    application.after.clear()
    del span, spans, agent
    gc.collect()
    assert [None] * 3 == [one() for one in watched]
    assert 1 == application.processor.counts.tool_calls


def test_drop_tool_behind_a_wrapper_keeps_what_it_promises() -> None:
    """Tool spans are clean for who comes later; chat and agent spans keep theirs."""
    application = Application(wrap=Plain, content=ContentRule.DROP_TOOL)
    agent = application.start("invoke_agent helper", {**AGENT, MESSAGES: "kept"})
    application.start("execute_tool lookup", {**TOOL, ARGUMENTS: "{}", RESULT: CANARY}, agent).end()
    agent.end()
    assert CANARY not in after(application)
    assert "kept" == held(application.spans[1])[MESSAGES]
    assert DIGEST in held(application.spans[0])
