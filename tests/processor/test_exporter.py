"""The exporter that removes content: real SDK, real captures, and the bytes that would be sent."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, SpanContext, Status, StatusCode

from otel_loopguard import dialects
from otel_loopguard.content import Cleaner
from otel_loopguard.dialects import content_keys
from otel_loopguard.digest import Key, Keyring, NameKind, checked_name
from otel_loopguard.errors import KeyConfigError
from otel_loopguard.model import Role, Span, SpanEvent
from otel_loopguard.policy import ContentRule
from otel_loopguard.processor import exporter as exporter_module
from otel_loopguard.processor.exporter import LoopGuardSpanExporter
from otel_loopguard.processor.received import attributes_of, received
from tests.dialects import captures
from tests.dialects.encode import ENCODERS
from tests.dialects.encode_instrumentation import ENCODERS as INSTRUMENTATION_ENCODERS
from tests.processor.canaries import CANARY, exported, in_content, in_names, otlp

KEY = Key(key_id="test", secret=bytes(range(32)))
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "lookup"}
AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "helper"}
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}


def cleaned(
    spans: Sequence[ReadableSpan], content: ContentRule = ContentRule.DROP_ALL, **options: Any
) -> tuple[ReadableSpan, ...]:
    """What the exporter makes of one batch."""
    memory = InMemorySpanExporter()
    ours = LoopGuardSpanExporter(memory, content=content, keys=KEY, **options)
    assert ours.export(spans) is SpanExportResult.SUCCESS
    assert {} == ours.failures
    return memory.get_finished_spans()


def held(span: ReadableSpan) -> dict[str, Any]:
    """A span's attributes as a plain dict."""
    return dict(span.attributes or {})


def readable(attributes: dict[str, Any], **fields: Any) -> Span:
    """One record to be played, of the trace that the tests share."""
    base = {"trace_id": "1" * 32, "span_id": "2" * 16, "name": "work", "start_ns": 1, "end_ns": 2}
    return Span(**{**base, "attributes": attributes, **fields})


def failing(attributes: dict[str, Any], **fields: Any) -> Span:
    """One that failed, with the error's text everywhere the SDK puts it."""
    told = {"exception.type": "ValueError", "exception.message": CANARY, "exception.stacktrace": f"File {CANARY}"}
    fields = {"status_code": 2, "status_message": f"ValueError: {CANARY}", **fields}
    return readable(attributes, events=(SpanEvent("exception", told, 2),), **fields)


# --- captures -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("processor", [SimpleSpanProcessor, BatchSpanProcessor])
@pytest.mark.parametrize("name", captures.names())
def test_no_content_of_a_capture_leaves(name: str, processor: Callable[[SpanExporter], SpanProcessor]) -> None:
    """With drop_all none of a run's prompts, arguments, results, answers and errors is in the bytes sent."""
    spans = [in_content(span) for span in captures.spans(name)]
    got = exported(spans, lambda inner: processor(LoopGuardSpanExporter(inner, keys=KEY)))
    assert len([span for span in spans if span.end_ns]) == len(got)
    assert CANARY.encode() not in otlp(got)


def test_what_the_captures_hold_would_be_found() -> None:
    """Most captures do hold content, and the search finds it where nothing is removed."""
    found = [
        name for name in captures.names() if CANARY.encode() in otlp(exported(map(in_content, captures.spans(name))))
    ]
    assert len(found) > len(captures.names()) * 0.8


@pytest.mark.parametrize("name", captures.names())
def test_names_that_are_prompts_leave_digested(name: str) -> None:
    """Tools and agents with a prompt for a name: it is in no span's name and in no attribute."""
    spans = cleaned(exported(map(in_names, captures.spans(name))))
    assert [] == [span.name for span in spans if CANARY in span.name]
    keys = {key for span in spans for key, value in held(span).items() if CANARY in str(value)}
    assert set() == keys


@pytest.mark.parametrize("name", captures.names())
def test_only_content_goes(name: str) -> None:
    """Places, times, kinds, codes, scopes, events and links stay; attributes that stay have their values."""
    before = exported(captures.spans(name))
    after = cleaned(before)
    for old, new in zip(before, after, strict=True):
        assert _frame(old) == _frame(new)
        kept = {key: value for key, value in held(new).items() if "_n:" not in str(value)}
        assert kept.items() <= held(old).items()
        assert [(one.name, one.timestamp) for one in old.events] == [(one.name, one.timestamp) for one in new.events]
        assert [link.context for link in old.links] == [link.context for link in new.links]


def _frame(span: ReadableSpan) -> tuple[object, ...]:
    where = (span.context, span.parent, span.resource, span.instrumentation_scope)
    return (*where, span.kind, span.start_time, span.end_time, span.status.status_code)


@pytest.mark.parametrize("name", captures.names())
def test_the_given_spans_stay_as_they_are(name: str) -> None:
    """Another exporter that holds the same spans sends what it always did."""
    spans = exported(captures.spans(name))
    before = otlp(spans)
    cleaned(spans)
    assert before == otlp(spans)


@pytest.mark.parametrize("name", captures.names())
def test_drop_tool_takes_tool_spans_alone(name: str) -> None:
    """Tool spans lose their content; model calls are handed on as they are; others lose failure texts at most."""
    spans = exported(map(in_content, captures.spans(name)))
    for old, new in zip(spans, cleaned(spans, ContentRule.DROP_TOOL), strict=True):
        reading = dialects.read(received(old, attributes_of(old)))
        assert reading is not None
        if reading.role is Role.TOOL:
            assert CANARY.encode() not in otlp([new])
        elif reading.role is Role.CHAT:
            assert new is old
        else:
            texts = ("exception.message", "exception.stacktrace")
            assert {key: value for key, value in held(old).items() if key not in texts} == held(new)


def test_keep_hands_on_what_it_got() -> None:
    """With keep the inner exporter gets the same spans in the same sequence."""
    spans = exported(captures.spans(captures.names()[0]))

    class Holding(InMemorySpanExporter):
        got: Sequence[ReadableSpan] = ()

        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            self.got = spans
            return super().export(spans)

    inner = Holding()
    LoopGuardSpanExporter(inner, content=ContentRule.KEEP, keys=KEY).export(spans)
    assert inner.got is spans


# --- every dialect, every place -----------------------------------------------------------------------------

CARRIED: tuple[Any, ...] = (CANARY, json.dumps({"secret": CANARY}), "{'secret': '" + CANARY + "'}", [CANARY], 7)


@pytest.mark.parametrize("content", [ContentRule.DROP_ALL, ContentRule.DROP_TOOL])
@pytest.mark.parametrize("dialect", sorted({**ENCODERS, **INSTRUMENTATION_ENCODERS}))
def test_no_content_position_of_a_tool_span_leaves(dialect: str, content: ContentRule) -> None:
    """Canaries in a tool's name, arguments, results, errors, events, links, and under every key that holds content."""
    encode = {**ENCODERS, **INSTRUMENTATION_ENCODERS}[dialect]
    base = encode(f"ask {CANARY}", {"secret": CANARY, CANARY: "x"}, {"text": CANARY}, "call_1")
    told = {"exception.type": f"{CANARY} no class", "exception.message": CANARY, "exception.stacktrace": CANARY}
    spans = []
    for number, key in enumerate(sorted(content_keys())):
        name = key + "0.x" if key.endswith(".") else key
        for place, value in enumerate(CARRIED):
            added = msgspec.structs.replace(
                base,
                span_id=f"{number + 1:08x}{place:08x}",
                parent_id=None,
                status_code=2,
                status_message=CANARY,
                attributes={**base.attributes, name: value},
                events=(
                    *base.events,
                    SpanEvent("exception", {**told, name: value}, 2),
                    SpanEvent("x", {name: value}, 2),
                ),
            )
            role = dialects.read(added)
            if role is not None and role.role is Role.TOOL:
                spans.append(added)
    assert len(spans) > len(CARRIED)
    before = exported(spans)
    assert CANARY.encode() in otlp(before)
    assert CANARY.encode() not in otlp(cleaned(before, content))


def test_the_attributes_of_links_are_cleaned() -> None:
    """A link to another span can carry content, too."""
    memory, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    to = SpanContext(1, 2, is_remote=True)
    link = Link(to, {"gen_ai.tool.call.arguments": CANARY, "kind": "call"})
    provider.get_tracer("t").start_span("lookup", attributes=TOOL, links=[link]).end()
    (span,) = cleaned(memory.get_finished_spans())
    assert [(to, {"kind": "call"})] == [(one.context, dict(one.attributes or {})) for one in span.links]


def test_the_attributes_of_links_of_other_spans_are_cleaned() -> None:
    """Also where nothing else on the span could be content."""
    link = Link(SpanContext(1, 2, is_remote=True), {"input.value": CANARY})
    span = ReadableSpan("x", SpanContext(3, 4, is_remote=False), resource=Resource({}), links=[link])
    memory = InMemorySpanExporter()
    ours = LoopGuardSpanExporter(memory, keys=KEY)
    ours.export([span])
    ours.export([span])
    assert [[{}], [{}]] == [[dict(one.attributes or {}) for one in new.links] for new in memory.get_finished_spans()]


def test_a_prompt_that_is_a_span_name_is_digested() -> None:
    """Whether or not an attribute has it, too; as the same name is shown everywhere in its trace."""
    prompt = f"ask {CANARY} about this"
    digested = checked_name(prompt, Keyring(KEY).for_trace("1" * 32), kind=NameKind.TOOL)
    named = {**TOOL, "gen_ai.tool.name": prompt}
    without = {"gen_ai.operation.name": "execute_tool"}
    given = [
        readable(named, name=f"execute_tool {prompt}"),
        readable(without, name=f"execute_tool {prompt}"),
        readable(named, name=f"{prompt}.tool"),
        readable({**named, "gen_ai.tool.name": "ask about"}, name=f"tool ask about {CANARY}"),
        readable(TOOL, name=f"{CANARY}\n"),
        readable(TOOL, name=f"{CANARY} " * 40),
        readable(TOOL, name="execute_tool (merged)"),
        readable(TOOL, name="execute_tool lookup"),
    ]
    names = [span.name for span in cleaned(exported(given))]
    assert [f"execute_tool {digested}", f"execute_tool {digested}", f"{digested}.tool"] == names[:3]
    assert ["execute_tool (merged)", "execute_tool lookup"] == names[-2:]
    assert [] == [name for name in names if CANARY in name]


# --- spans of the application's own -------------------------------------------------------------------------


def test_a_trace_without_an_agent_passes_untouched() -> None:
    """Failure texts and everyday words of the application's own spans stay, and the spans are not even copied."""
    spans = exported([failing({"message": CANARY, "input": CANARY, "tools": f"a {CANARY}"}, name=f"at {CANARY}")])
    assert [True] == [new is old for new, old in zip(cleaned(spans), spans, strict=True)]


def test_content_keys_of_a_span_that_no_dialect_knows_go() -> None:
    """A key that only GenAI instrumentations write holds content wherever it stands."""
    spans = exported([readable({"input.value": CANARY, "http.route": "/x"})])
    assert [{"http.route": "/x"}] == [held(span) for span in cleaned(spans)]


def test_messages_on_a_span_that_no_dialect_knows_go() -> None:
    """Clients of models may write their messages as events on whatever span is the current one."""
    events = (SpanEvent("gen_ai.user.message", {"content": CANARY}, 2), SpanEvent("mail", {"content": CANARY}, 2))
    (span,) = cleaned(exported([readable({}, events=events)]))
    assert [{}, {"content": CANARY}] == [dict(event.attributes or {}) for event in span.events]


def raised_through(tracer: trace.Tracer) -> None:
    """An application's own spans above and below a tool that raises."""
    with (
        suppress(ValueError),
        tracer.start_as_current_span("request"),
        tracer.start_as_current_span("invoke_agent helper", attributes=AGENT),
        tracer.start_as_current_span("execute_tool lookup", attributes=TOOL),
        tracer.start_as_current_span("read row"),
    ):
        raise ValueError(CANARY)


@pytest.mark.parametrize("content", [ContentRule.DROP_ALL, ContentRule.DROP_TOOL])
def test_an_error_that_runs_up_through_other_spans_leaves_no_text(content: ContentRule) -> None:
    """The SDK records it on each span that it passes; only its class is left on any."""
    memory, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(LoopGuardSpanExporter(memory, content=content, keys=KEY)))
    raised_through(provider.get_tracer("app"))
    provider.force_flush()
    spans = memory.get_finished_spans()
    provider.shutdown()
    assert CANARY.encode() not in otlp(spans)
    assert [["ValueError"]] * 4 == [
        [(event.attributes or {})["exception.type"] for event in span.events] for span in spans
    ]
    assert [(StatusCode.ERROR, None)] * 4 == [(span.status.status_code, span.status.description) for span in spans]


def test_a_trace_stays_an_agents_in_later_batches() -> None:
    """Spans above a tool end after it: what is learned of a trace holds for the batches that follow."""
    tool = readable(TOOL, span_id="3" * 16, parent_id="2" * 16)
    memory = InMemorySpanExporter()
    ours = LoopGuardSpanExporter(memory, keys=KEY)
    ours.export(exported([tool]))
    ours.export(exported([readable({}, status_code=2, status_message=CANARY), failing({}, name="request")]))
    assert CANARY.encode() not in otlp(memory.get_finished_spans())


def test_the_stated_limit() -> None:
    """A failing span of the application's own that is exported before anything of its trace's agent keeps its text."""
    memory = InMemorySpanExporter()
    ours = LoopGuardSpanExporter(memory, keys=KEY)
    ours.export(exported([failing({}, span_id="4" * 16, parent_id="3" * 16)]))
    ours.export(exported([readable(TOOL, span_id="3" * 16)]))
    assert CANARY.encode() in otlp(memory.get_finished_spans())


def test_which_traces_are_agents_is_forgotten_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered is bounded: the oldest half goes first."""
    monkeypatch.setattr(exporter_module, "MAX_TRACES", 4)
    memory = InMemorySpanExporter()
    ours = LoopGuardSpanExporter(memory, keys=KEY)
    for number in range(1, 6):
        ours.export(exported([readable(TOOL, trace_id=f"{number:032x}")]))
    memory.clear()
    for number in range(1, 6):
        ours.export(exported([failing({}, trace_id=f"{number:032x}")]))
    texts = [span.status.description is not None for span in memory.get_finished_spans()]
    assert [True, True, False, False, False] == texts


def test_drop_tool_keeps_failures_of_model_calls() -> None:
    """A model's own error says nothing of a tool; texts on agent spans go only where the trace has a tool span."""
    chat = failing(CHAT, span_id="5" * 16, parent_id="2" * 16)
    agent = failing(AGENT, name="invoke_agent helper")
    tool = readable(TOOL, span_id="3" * 16, parent_id="2" * 16)
    told = [bool(span.status.description) for span in cleaned(exported([agent, chat]), ContentRule.DROP_TOOL)]
    assert [True, True] == told
    spans = cleaned(exported([agent, chat, tool]), ContentRule.DROP_TOOL)
    assert {"invoke_agent helper": False, "work": True} == {
        span.name: span.status.description is not None for span in spans if span.status.status_code is StatusCode.ERROR
    }


# --- counts, keys, failures ---------------------------------------------------------------------------------


def test_dropped_counts_stay() -> None:
    """What the SDK's limits cost a span, its events and its links is still told; what we removed is not counted."""
    limits = SpanLimits(max_span_attributes=3, max_events=1, max_links=1, max_event_attributes=1, max_link_attributes=1)
    memory, provider = InMemorySpanExporter(), TracerProvider(span_limits=limits, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    to = SpanContext(1, 2, is_remote=True)
    links = [Link(to, {"a": 1, "input.value": CANARY}) for _ in range(2)]
    span = provider.get_tracer("t").start_span("lookup", attributes={"a": 1, "b": 2, **TOOL}, links=links)
    span.set_attribute("gen_ai.tool.call.result", CANARY)
    for _ in range(3):
        span.add_event("exception", {"a": 1, "exception.message": CANARY})
    span.end()
    (old,) = memory.get_finished_spans()
    (new,) = cleaned([old])
    counts = [
        (one.dropped_attributes, one.dropped_events, one.dropped_links, one.events[0].dropped_attributes)
        for one in (old, new)
    ]
    assert [(2, 2, 1, 1), (2, 2, 1, 1)] == counts
    assert [1, 1] == [one.links[0].dropped_attributes for one in (old, new)]
    assert {**TOOL} == held(new)
    assert CANARY.encode() not in otlp([new])


def test_the_key_may_be_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that cannot be used is said when the exporter is made, not later."""
    monkeypatch.setenv("OTEL_LOOPGUARD_KEY", "short")
    with pytest.raises(KeyConfigError):
        LoopGuardSpanExporter(InMemorySpanExporter())


@pytest.mark.parametrize("given", [KEY, Keyring(KEY), None])
def test_the_key_comes_from_where_it_was_given(given: Key | Keyring | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key, a keyring or the environment: one key, one digest of a name in one trace."""
    monkeypatch.setenv("OTEL_LOOPGUARD_KEY", bytes(range(32)).hex())
    memory = InMemorySpanExporter()
    LoopGuardSpanExporter(memory, keys=given).export(exported([readable({**TOOL, "gen_ai.tool.name": "a b"})]))
    digested = checked_name("a b", Keyring(KEY).for_trace("1" * 32), kind=NameKind.TOOL)
    assert [digested] == [held(span)["gen_ai.tool.name"] for span in memory.get_finished_spans()]


class Broken(dict[str, Any]):
    """Attributes that cannot be read."""

    def __iter__(self) -> Iterator[str]:
        raise ValueError(CANARY)

    def copy(self) -> dict[str, Any]:
        """Fails as iteration does."""
        raise ValueError(CANARY)

    items = copy  # type: ignore[assignment]


def _with_link(span: ReadableSpan, link: Link) -> ReadableSpan:
    return ReadableSpan(
        span.name,
        span.context,
        resource=span.resource,
        attributes=span.attributes,
        events=span.events,
        links=[link],
        status=span.status,
        start_time=span.start_time,
        end_time=span.end_time,
    )


@pytest.mark.parametrize("step", ["read", "clean", "nothing can be read"])
def test_a_failure_of_ours_costs_the_attributes_and_lets_nothing_through(
    step: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The span goes on with its place, times and what is ours; it is counted each time and said once."""

    def fail(*_arguments: object, **_options: object) -> None:
        raise ValueError(CANARY)

    ours = {"loopguard.call.sequence": 1, "loopguard.call.digest": "0" * 32, "loopguard.outcome": f"not {CANARY}"}
    given = failing({**TOOL, "gen_ai.tool.call.result": CANARY, **ours}, name=f"ask {CANARY}")
    link = Link(SpanContext(1, 2, is_remote=True), {"input.value": CANARY})
    spans = [_with_link(span, link) for span in exported([given] * 2)]
    expected = {"loopguard.call.sequence": 1, "loopguard.call.digest": "0" * 32}
    counted = {"read span": 2}
    if step == "read":
        monkeypatch.setattr(dialects, "read", fail)
    elif step == "clean":
        monkeypatch.setattr(Cleaner, "without_content", fail)
        counted = {"clean span": 2}
    else:
        span = spans[0]
        spans = [ReadableSpan(span.name, span.context, None, span.resource, Broken(a=CANARY), links=[link])] * 2
        expected, counted = {}, {"read span": 2, "empty span": 2}
    memory = InMemorySpanExporter()
    exporter = LoopGuardSpanExporter(memory, keys=KEY)
    with caplog.at_level(logging.DEBUG):
        assert exporter.export(spans) is SpanExportResult.SUCCESS
    got = memory.get_finished_spans()
    assert [("span", spans[0].context, spans[0].start_time)] * 2 == [(s.name, s.context, s.start_time) for s in got]
    assert [expected] * 2 == [held(span) for span in got]
    assert CANARY.encode() not in otlp(got)
    assert counted == exporter.failures
    assert CANARY not in caplog.text
    assert len(exporter.failures) == len(caplog.records)


def test_other_spans_of_a_trace_that_could_not_be_read_lose_failure_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A span that could not be read may have been a tool's."""
    spans = exported([readable(TOOL, name="unreadable"), failing({}, span_id="4" * 16)])
    read = dialects.read

    def fail_once(span: Span) -> dialects.Reading | None:
        if span.name == "unreadable":
            raise ValueError
        return read(span)

    monkeypatch.setattr(dialects, "read", fail_once)
    memory = InMemorySpanExporter()
    LoopGuardSpanExporter(memory, keys=KEY).export(spans)
    assert CANARY.encode() not in otlp(memory.get_finished_spans())


def test_the_inner_exporter_is_asked_to_flush_and_shut_down() -> None:
    """What it answers and raises is its own."""
    calls: list[object] = []

    class Inner(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            raise ConnectionError(len(spans))

        def shutdown(self) -> None:
            calls.append("shutdown")

        def force_flush(self, timeout_millis: int = 30_000) -> bool:
            calls.append(timeout_millis)
            return False

    ours = LoopGuardSpanExporter(Inner(), keys=KEY)
    with pytest.raises(ConnectionError, match="1"):
        ours.export(exported([readable({})]))
    assert ours.force_flush(7) is False
    ours.shutdown()
    assert [7, "shutdown"] == calls


def test_a_span_made_by_hand_without_a_context_passes() -> None:
    """The SDK's own class allows it; nothing of ours fails on it."""
    span = ReadableSpan("x", resource=Resource({}), attributes={"input.value": CANARY}, status=Status(StatusCode.OK))
    assert [{}] == [held(one) for one in cleaned([span])]


@pytest.mark.parametrize("content", [ContentRule.DROP_ALL, ContentRule.DROP_TOOL])
def test_a_span_that_lost_its_kind_is_taken_for_a_tools(content: ContentRule) -> None:
    """The SDK drops first what was set first; what is left may be a tool's, its error included."""
    memory = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False, span_limits=SpanLimits(max_span_attributes=1))
    provider.add_span_processor(SimpleSpanProcessor(memory))
    told = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "x", "gen_ai.tool.call.result": CANARY}
    span = provider.get_tracer("t").start_span("execute_tool x", attributes=told)
    span.record_exception(ValueError(CANARY))
    span.set_status(StatusCode.ERROR, CANARY)
    span.end()
    (shown,) = cleaned(memory.get_finished_spans(), content)
    assert (False, 2) == (CANARY in shown.to_json(), shown.dropped_attributes)
