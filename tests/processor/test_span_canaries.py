"""What leaves on spans: no content with `drop_all`, and nothing else is touched, however the provider is set up.

Canaries stand in content in every form that a value can have, and what is searched is what exporters send: OTLP bytes
and the SDK's JSON.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, SpanContext, Status, StatusCode

from otel_loopguard import attributes as attr
from otel_loopguard import dialects
from otel_loopguard.content import KeyKind, kind_of_key
from otel_loopguard.dialects import content_keys
from otel_loopguard.model import Role, Span, SpanEvent
from otel_loopguard.policy import ContentRule
from tests.dialects import captures
from tests.dialects.encode import ENCODERS
from tests.dialects.encode_instrumentation import ENCODERS as INSTRUMENTATION_ENCODERS
from tests.processor.canaries import CANARY, exported, in_content, in_names, otlp
from tests.processor.playing import Late
from tests.processor.setups import WAYS, at_end, at_start, ours, read_back, send

PREFIX: Final = "loopguard."
TEXTS: Final = ("exception.message", "exception.stacktrace")
DIALECTS: Final = {**ENCODERS, **INSTRUMENTATION_ENCODERS}
SETUPS: Final[list[tuple[str, Late]]] = [
    ("simple", at_start),
    ("batch", at_end),
    ("simple concurrent", at_end),
    ("batch concurrent", at_start),
]
NUMBER: Final = 7_301_946_528_113
_ESCAPED: Final = "".join(f"\\u{ord(letter):04x}" for letter in CANARY)
_ENCODED: Final = base64.b64encode(CANARY.encode()).decode()


def _varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


TRACES: Final = {
    "text": CANARY.encode(),
    "small letters": CANARY.lower().encode(),
    "escapes": _ESCAPED.encode(),
    "escapes in JSON": _ESCAPED.encode().replace(b"\\", b"\\\\"),
    "base64": _ENCODED.encode(),
    "hex": CANARY.encode().hex().encode(),
    "digits": str(NUMBER).encode(),
    "integer": _varint(NUMBER),
    "double": struct.pack("<d", NUMBER),
}
"""What a canary looks like in bytes that are sent."""

FORMS: Final[Mapping[str, Any]] = {
    "text": f"my {CANARY} is secret",
    "in a word": f"abc{CANARY}def",
    "small letters": CANARY.lower(),
    "JSON": json.dumps({"secret": CANARY, CANARY: [1, {"deep": CANARY}]}),
    "JSON with escapes": f'{{"secret": "{_ESCAPED}"}}',
    "JSON in JSON": json.dumps(json.dumps({"secret": CANARY})),
    "Python repr": repr({"secret": CANARY, CANARY: None}),
    "broken JSON": f'{{"secret": "{CANARY}',
    "base64": _ENCODED,
    "hex": CANARY.encode().hex(),
    "digits in JSON": json.dumps({"pin": NUMBER}),
    "integer": NUMBER,
    "double": float(NUMBER),
    "list": [CANARY, CANARY],
    "list of integers": [NUMBER],
    "mapping": {"secret": CANARY, CANARY: [CANARY]},
    "list of mappings": [{"secret": CANARY}],
    "bytes": CANARY.encode(),
}
"""Values that hold a canary. Some of them only newer versions of the SDK take; older ones drop them."""


def leaks(spans: Sequence[ReadableSpan]) -> list[str]:
    """The forms of the canary that are in what is sent of some spans."""
    return canaries(otlp(spans) + "".join(span.to_json() for span in spans).encode())


def canaries(sent: bytes) -> list[str]:
    """The forms of the canary that are in some bytes."""
    return [name for name, form in TRACES.items() if form in sent]


def held(span: ReadableSpan) -> dict[str, Any]:
    """A span's attributes as a plain dict."""
    return dict(span.attributes or {})


def without_ours(span: Span) -> Span:
    """A span without what we put on it."""
    kept = {key: value for key, value in span.attributes.items() if not key.startswith(PREFIX)}
    return msgspec.structs.replace(span, attributes=kept)


def without_failure(span: Span) -> Span:
    """A span without the texts of failures."""
    events = tuple(
        SpanEvent(one.name, {key: held for key, held in one.attributes.items() if key not in TEXTS}, one.time_ns)
        for one in span.events
    )
    return msgspec.structs.replace(span, events=events, status_message="")


def pairs(raw: Iterable[Span], left: Iterable[Span]) -> Iterator[tuple[Span, Span]]:
    """Spans as they were and as they left, by their ids."""
    known = {(span.trace_id, span.span_id): span for span in raw}
    return ((known[span.trace_id, span.span_id], span) for span in left)


# --- captures -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", captures.names())
def test_no_content_of_a_capture_leaves(name: str) -> None:
    """None of a run's prompts, arguments, results, answers and errors, at an exporter before us or behind."""
    spans = [in_content(span) for span in captures.spans(name)]
    ended = len([span for span in spans if span.end_ns])
    for way, late in SETUPS:
        sent = send(spans, WAYS[way], late=late)
        assert (ended, ended) == (len(sent.before), len(sent.behind))
        assert ([], []) == (leaks(sent.before), leaks(sent.behind))


@pytest.mark.parametrize("name", captures.names())
def test_names_that_are_prompts_leave_digested(name: str) -> None:
    """Tools and agents with a prompt for a name: it is in no exported byte."""
    spans = list(map(in_names, captures.spans(name)))
    for way, late in SETUPS[:2]:
        sent = send(spans, WAYS[way], late=late)
        assert ([], []) == (leaks(sent.before), leaks(sent.behind))


@pytest.mark.parametrize("name", captures.names())
def test_only_content_goes_and_digests_arrive(name: str) -> None:
    """What stays is what it was, in its order; every tool call says what it was, or why that is not known."""
    raw = exported(captures.spans(name))
    for before, after in zip(raw, send(captures.spans(name)).behind, strict=True):
        assert frame(before) == frame(after)
        old, new = held(before), {key: value for key, value in held(after).items() if not key.startswith(PREFIX)}
        assert [key for key in old if key in new] == list(new)
        assert {key: value for key, value in new.items() if not digested(value)}.items() <= old.items()
    for told, left in pairs(read_back(raw), read_back(send(captures.spans(name)).behind)):
        reading = dialects.read(told)
        if reading is not None and reading.role is Role.TOOL and reading.not_a_call is None:
            assert 1 == sum(key in left.attributes for key in (attr.CALL_DIGEST, attr.CALL_UNKNOWN))


def digested(value: Any) -> bool:
    """Whether a digest stands in place of a name, or of one in a list."""
    return "_n:" in str(value)


def frame(span: ReadableSpan) -> tuple[object, ...]:
    """What no rule touches."""
    events = [(one.name, one.timestamp, one.dropped_attributes) for one in span.events]
    links = [(one.context, one.dropped_attributes) for one in span.links]
    dropped = (span.dropped_attributes, span.dropped_events, span.dropped_links)
    times = (span.start_time, span.end_time)
    scope = span.instrumentation_scope
    return (span.context, span.parent, span.kind, span.status.status_code, times, scope, events, links, dropped)


@pytest.mark.parametrize("name", captures.names())
def test_drop_tool_takes_tool_spans_alone(name: str) -> None:
    """Tool spans hold no content; others are what they were, but for our attributes, and texts of failures.

    A tool's failure runs up through the spans above it; model calls keep their own.
    """
    spans = [in_content(span) for span in captures.spans(name)]
    raw = read_back(exported(spans))
    sent = send(spans, content=ContentRule.DROP_TOOL)
    for before, after in pairs(raw, read_back(sent.before)):
        reading = dialects.read(before)
        if reading is not None and reading.role is Role.TOOL:
            assert CANARY not in str(after)
        elif reading is not None and reading.role is Role.CHAT:
            assert before == without_ours(after)
        else:
            assert without_failure(before) == without_failure(without_ours(after))


@pytest.mark.parametrize("name", captures.names())
def test_keep_takes_nothing(name: str) -> None:
    """Every span is what it was, but for our attributes, which stand behind its own."""
    spans = captures.spans(name)
    raw, left = exported(spans), send(spans, content=ContentRule.KEEP).before
    assert read_back(raw) == [without_ours(span) for span in read_back(left)]
    for before, after in zip(raw, left, strict=True):
        assert list(held(before)) == list(held(after))[: len(held(before))]


# --- every position of every dialect ------------------------------------------------------------------------


def failing(span: Span, value: Any, **fields: Any) -> Span:
    """A span that failed with a canary in the error's text, its traceback and the status."""
    told = {"exception.type": "ValueError", "exception.message": str(value), "exception.stacktrace": f"File {value!r}"}
    event = SpanEvent("exception", told, 1)
    status = {"status_code": 2, "status_message": f"ValueError: {value}"}
    return msgspec.structs.replace(span, events=(*span.events, event), **{**status, **fields})


def in_every_content_key(span: Span, value: Any) -> Span:
    """A span with a value under each key of content that it may have, on itself and on an event."""
    keys = [f"{key}x" if key.endswith(".") else key for key in sorted(content_keys())]
    content = dict.fromkeys(keys, value)
    told = {key: held for key, held in span.attributes.items() if key not in content_keys()}
    events = (*span.events, SpanEvent("gen_ai.content.prompt", content, 1))
    return msgspec.structs.replace(span, attributes={**content, **told}, events=events)


def numbered(spans: Iterable[Span]) -> list[Span]:
    """Spans, each in a trace of its own."""
    return [
        msgspec.structs.replace(span, trace_id=f"{number:032x}", span_id=f"{number:016x}", parent_id=None)
        for number, span in enumerate(spans, start=1)
    ]


def tool_spans(dialect: str) -> list[Span]:
    """Tool spans of one dialect with canaries in arguments, results and errors, then under every key of content."""
    spans = []
    for value in FORMS.values():
        with suppress(TypeError):  # bytes, where a dialect writes JSON
            spans.append(DIALECTS[dialect]("lookup", {"secret": value, CANARY: "x"}, value, "call_1"))
        spans.append(in_every_content_key(DIALECTS[dialect]("lookup", {CANARY: CANARY}, CANARY, "call_1"), value))
    return numbered(failing(span, CANARY) for span in spans)


@pytest.mark.parametrize("content", [ContentRule.DROP_ALL, ContentRule.DROP_TOOL])
@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_no_content_of_a_tool_span_leaves(dialect: str, content: ContentRule) -> None:
    """Arguments, results, error text, traceback, status, attributes and events, in every form of a value."""
    spans = tool_spans(dialect)
    for way, late in SETUPS:
        sent = send(spans, WAYS[way], late=late, content=content)
        assert ([], []) == (leaks(sent.before), leaks(sent.behind))
        assert [({}, 0)] == [(one.failures, one.late_spans) for one in sent.counts]
        assert [True] * len(spans) == [attr.SCHEMA in held(span) for span in sent.before]


def test_what_is_searched_for_would_be_found() -> None:
    """With `keep` every form of the canary leaves, so each of them can be found."""
    spans = numbered(in_every_content_key(DIALECTS["gen_ai"]("lookup", {}, "", "c"), value) for value in FORMS.values())
    sent = send(spans, content=ContentRule.KEEP).before
    assert [name for name in TRACES if name != "escapes in JSON"] == canaries(otlp(sent))
    text = [span for span, form in zip(sent, FORMS, strict=True) if form == "JSON with escapes"]
    assert ["escapes", "escapes in JSON"] == leaks(text)


OTHERS: Final[Mapping[str, tuple[str, str, dict[str, Any]]]] = {
    "gen_ai chat": ("chat m", "custom", {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}),
    "gen_ai agent": ("invoke_agent a", "custom", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}),
    "gen_ai workflow": ("invoke_workflow w", "custom", {"gen_ai.operation.name": "invoke_workflow"}),
    "gen_ai embeddings": ("embeddings m", "custom", {"gen_ai.operation.name": "embeddings"}),
    "OpenInference LLM": ("ChatOpenAI", "openinference.instrumentation.langchain", {"openinference.span.kind": "LLM"}),
    "OpenInference agent": ("a", "openinference.instrumentation.agno", {"openinference.span.kind": "AGENT"}),
    "OpenInference chain": ("c", "openinference.instrumentation.langchain", {"openinference.span.kind": "CHAIN"}),
    "OpenInference guardrail": ("g", "openinference.instrumentation.x", {"openinference.span.kind": "GUARDRAIL"}),
    "OpenLLMetry workflow": (
        "w.workflow",
        "opentelemetry.instrumentation.langchain",
        {"traceloop.span.kind": "workflow"},
    ),
    "OpenLLMetry task": ("t.task", "opentelemetry.instrumentation.langchain", {"traceloop.span.kind": "task"}),
    "LangSmith chain": ("c", "langsmith", {"langsmith.span.kind": "chain"}),
    "LangSmith LLM": ("l", "langsmith", {"langsmith.span.kind": "llm"}),
    "Vercel model": (
        "ai.generateText",
        "ai",
        {"ai.operationId": "ai.generateText", "operation.name": "ai.generateText"},
    ),
    "MCP request": ("tools/call lookup", "mcp", {"mcp.method.name": "tools/call", "gen_ai.tool.name": "lookup"}),
    "logfire": ("agent run", "logfire.openai_agents", {"logfire.span_type": "span", "logfire.msg_template": "run"}),
    "Haystack": ("haystack.component.run", "haystack", {"haystack.component.name": "llm"}),
    "ADK": ("call_llm", "gcp.vertex.agent", {"gen_ai.system": "gcp.vertex.agent"}),
}
"""Spans of agents, models and the like, by dialect: name, scope, and the attributes that they are known by."""


@pytest.mark.parametrize("kind", sorted(OTHERS))
def test_no_content_of_other_spans_of_agents_leaves(kind: str) -> None:
    """Messages, prompts, answers and errors on spans of models, agents and what stands around them."""
    name, scope, attributes = OTHERS[kind]
    base = Span(
        trace_id="1" * 32, span_id="1" * 16, name=name, scope=scope, start_ns=1, end_ns=2, attributes=attributes
    )
    assert dialects.read(base) is not None
    spans = numbered(failing(in_every_content_key(base, value), value) for value in FORMS.values())
    for way, late in SETUPS:
        sent = send(spans, WAYS[way], late=late)
        assert ([], []) == (leaks(sent.before), leaks(sent.behind))


def test_the_attributes_of_links_are_cleaned() -> None:
    """A link keeps what it points to, and loses content."""
    for content, expected in ((ContentRule.DROP_ALL, []), (ContentRule.KEEP, ["text"])):
        memory = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(memory))
        provider.add_span_processor(ours(content=content))
        to = SpanContext(1, 2, is_remote=True)
        link = Link(to, {"gen_ai.tool.call.arguments": CANARY, "input.value": CANARY, "kind": "retry"})
        told = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "lookup"}
        provider.get_tracer("t").start_span("execute_tool lookup", attributes=told, links=[link]).end()
        (span,) = memory.get_finished_spans()
        assert expected == leaks([span])
        assert [(to, "retry")] == [(one.context, (one.attributes or {})["kind"]) for one in span.links]


NAMES: Final = (
    f"ask {CANARY} please",
    f"{CANARY}\u2028",
    f"\x1b[31m{CANARY}",
    f"{CANARY}@example.org",
    f"{CANARY} " * 40,
)


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_a_prompt_for_a_name_leaves_digested(dialect: str) -> None:
    """A tool or a call that is called as none is: neither a span's name nor an attribute or event shows it."""
    mints = dialect == "google-adk schema 1"  # ids of events, of its own; the encoder makes them of the call's
    spans = numbered(DIALECTS[dialect](name, {}, "", "call_1" if mints else name) for name in NAMES)
    assert ([], []) == (leaks(send(spans).before), leaks(send(spans, late=at_end).behind))


@given(st.text(min_size=1, max_size=30), st.text(max_size=30), st.sampled_from(sorted(DIALECTS)))
def test_no_text_around_the_canary_lets_it_through(before: str, behind: str, dialect: str) -> None:
    """Whatever stands around it, and wherever in the call it stands: arguments, their names, result, error."""
    text = f"{before}{CANARY}{behind}".encode(errors="replace").decode()
    spans = numbered([failing(DIALECTS[dialect]("lookup", {text: text, "n": [text]}, text, "call_1"), text)])
    assert [] == leaks(send(spans).before)


# --- the application's own spans ----------------------------------------------------------------------------


def query() -> None:
    """Fails as a database client does."""
    message = f"no row for {CANARY}"
    raise ValueError(message)


def application(provider: TracerProvider) -> None:
    """A request whose tool fails: the error runs up to the root; a query fails below the tool; a report is made."""
    tracer = provider.get_tracer("application")
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "lookup"}
    with suppress(ValueError), tracer.start_as_current_span("POST /ask", attributes={"http.request.method": "POST"}):
        try:
            with (
                tracer.start_as_current_span("invoke_agent a", attributes={"gen_ai.operation.name": "invoke_agent"}),
                tracer.start_as_current_span("my middleware"),
                tracer.start_as_current_span("execute_tool lookup", attributes=tool),
                tracer.start_as_current_span("SELECT", attributes={"db.system.name": "sqlite"}),
            ):
                query()
        except ValueError as error:
            with tracer.start_as_current_span("report error") as report:
                report.record_exception(error)
                report.set_status(StatusCode.ERROR, str(error))
            raise


@pytest.mark.parametrize("content", [ContentRule.DROP_ALL, ContentRule.DROP_TOOL])
@pytest.mark.parametrize("way", sorted(WAYS))
def test_an_error_that_runs_up_leaves_no_text(way: str, content: ContentRule) -> None:
    """Above the tool, below it, and beside it once it ended; types, codes and the application's attributes stay."""
    before, behind = InMemorySpanExporter(), InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False, active_span_processor=WAYS[way].calling())
    provider.add_span_processor(WAYS[way].exporting(before))
    provider.add_span_processor(ours(content=content))
    provider.add_span_processor(WAYS[way].exporting(behind))
    application(provider)
    provider.force_flush()
    for memory in (before, behind):
        spans = {span.name: span for span in memory.get_finished_spans()}
        assert len(spans) == 6
        assert [] == leaks(list(spans.values()))
        for span in spans.values():
            assert span.status.status_code is StatusCode.ERROR
            assert ["ValueError"] == [(one.attributes or {})["exception.type"] for one in span.events]
        assert held(spans["SELECT"]) == {"db.system.name": "sqlite"}
        assert held(spans["POST /ask"]).items() >= {"http.request.method": "POST"}.items()
    provider.shutdown()


def unrelated() -> list[Span]:
    """Spans of a web server, a database and the like, with failures, texts, links, and words that we know as keys."""
    http = {
        "http.request.method": "GET",
        "url.full": f"https://shop.example/{CANARY}",
        "http.response.status_code": 500,
    }
    query = {"db.system.name": "postgresql", "db.query.text": f"SELECT '{CANARY}'", "db.operation.name": "SELECT"}
    own = {
        "order.id": CANARY,
        "content": "c",
        "input": "i",
        "output": "o",
        "message": "m",
        "tags": [CANARY],
        "on": True,
    }
    told = {"exception.type": "E", "exception.message": CANARY, "exception.stacktrace": f"File {CANARY}"}
    base = Span(trace_id="a" * 32, span_id="b" * 16, name=f"GET {CANARY}", kind=2, scope="http", start_ns=1, end_ns=9)
    failure = {"events": (SpanEvent("exception", told, 3), SpanEvent("log", {"message": CANARY}, 4)), "status_code": 2}
    changes: list[dict[str, Any]] = [
        {"attributes": http, **failure, "status_message": CANARY},
        {"attributes": query, "name": "SELECT", "span_id": "c" * 16, "parent_id": "b" * 16, "start_ns": 2, "end_ns": 5},
        {"attributes": own, "name": "work", "span_id": "d" * 16, "parent_id": "b" * 16, "start_ns": 3, "end_ns": 6},
        {
            "attributes": own,
            **failure,
            "span_id": "e" * 16,
            "start_ns": 3,
            "end_ns": 6,
            "links": (("1" * 32, "2" * 16),),
        },
    ]
    return [msgspec.structs.replace(base, **change) for change in changes]


@pytest.mark.parametrize("content", ContentRule)
def test_unrelated_spans_leave_byte_for_byte(content: ContentRule) -> None:
    """A trace without an agent is exported as it would have been, also while an agent's is under way."""
    agents = captures.spans(captures.names("langgraph", "openinference", "main")[0])
    spans = [msgspec.structs.replace(span, resource=agents[0].resource) for span in unrelated()]
    moved = [msgspec.structs.replace(span, start_ns=agents[0].start_ns + span.start_ns) for span in spans]
    mixed = [msgspec.structs.replace(span, end_ns=span.start_ns + 5) for span in moved]
    raw = exported(mixed)
    sent = send([*agents, *mixed], content=content)
    for memory in (sent.before, sent.behind):
        left = [span for span in memory if span.context.trace_id == int("a" * 32, 16)]
        assert otlp(raw) == otlp(left)
        assert [span.to_json() for span in raw] == [span.to_json() for span in left]


def test_spans_after_an_agents_lose_failure_texts_alone() -> None:
    """In a trace with an agent the application's own spans keep attributes, names, events, links and codes."""
    root = Span(trace_id="a" * 32, span_id="1" * 16, name="request", start_ns=0, end_ns=90)
    told = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}
    agent = msgspec.structs.replace(root, span_id="2" * 16, parent_id="1" * 16, attributes=told, start_ns=1, end_ns=2)
    after = [
        msgspec.structs.replace(span, start_ns=span.start_ns + 10, end_ns=30, parent_id=span.parent_id or "1" * 16)
        for span in unrelated()
    ]
    raw = read_back(exported([root, agent, *after]))
    for before, left in pairs(raw, read_back(send([root, agent, *after]).behind)):
        assert without_failure(before) == without_ours(left)


# --- counts of what the SDK dropped --------------------------------------------------------------------------


@pytest.mark.parametrize("content", ContentRule)
def test_dropped_counts_stay(content: ContentRule) -> None:
    """Of attributes, events and links, and of events' and links' attributes."""
    limits = SpanLimits(max_span_attributes=4, max_events=2, max_links=2, max_event_attributes=2, max_link_attributes=2)
    memory = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False, span_limits=limits)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    provider.add_span_processor(ours(content=content))
    many: dict[str, Any] = {"a": 1, "gen_ai.tool.call.result": CANARY, "gen_ai.tool.call.arguments": CANARY}
    links = [Link(SpanContext(1, number, is_remote=True), many) for number in (1, 2, 3)]
    span = provider.get_tracer("t").start_span("execute_tool lookup", links=links)
    for key in ("x", "y", "z", "gen_ai.operation.name", "gen_ai.tool.name", "input.value"):
        span.set_attribute(
            key, {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "lookup"}.get(key, CANARY)
        )
    for _ in range(5):
        span.add_event("gen_ai.choice", many)
    span.set_status(Status(StatusCode.ERROR, CANARY))
    span.end()
    (left,) = memory.get_finished_spans()
    assert (2, 3, 1) == (left.dropped_attributes, left.dropped_events, left.dropped_links)
    assert ([1, 1], [1, 1]) == (
        [event.dropped_attributes for event in left.events],
        [link.dropped_attributes for link in left.links],
    )
    if content is not ContentRule.KEEP:
        assert [False] == [CANARY in str(held(left).get("input.value"))]


def _sent(attributes: dict[str, Any], *events: SpanEvent, name: str = "execute_tool lookup") -> ReadableSpan:
    """What leaves of one span, at the exporter that was there first."""
    base = Span(trace_id="1" * 32, span_id="1" * 16, name=name, start_ns=1, end_ns=2, attributes=attributes)
    (span,) = send([msgspec.structs.replace(base, events=events)]).before
    return span


_TOOL: Final = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "lookup"}


@pytest.mark.parametrize("key", sorted(key for key in content_keys() if kind_of_key(key) is KeyKind.CONTENT))
def test_keys_above_and_below_a_content_key_hold_content(key: str) -> None:
    """One value may stand whole under one key, or in parts under keys of their own, whoever wrote it."""
    whole = key.removesuffix(".")
    assert [] == leaks([_sent({**_TOOL, whole: CANARY, f"{whole}.0.part": CANARY})])


def test_messages_on_a_span_of_the_application_go() -> None:
    """Clients of models may write them as events on whatever span is the current one; an event of its own stays."""
    span = _sent({}, SpanEvent("gen_ai.tool.message", {"content": CANARY}, 2), SpanEvent("mail", {"content": "x"}, 2))
    assert [{}, {"content": "x"}] == [dict(event.attributes or {}) for event in span.events]


@pytest.mark.parametrize("key", [attr.RUN_ID, attr.PRODUCER_ID, attr.STATE_DIGEST, attr.AGENT_ID, "loopguard.other"])
def test_what_only_looks_like_ours_goes(key: str) -> None:
    """An application may write into our namespace; what has not the shape of the contract is not let pass."""
    span = _sent({**_TOOL, "gen_ai.tool.call.arguments": "{}", key: f"{CANARY} with words"})
    assert ([], True) == (leaks([span]), attr.CALL_DIGEST in (span.attributes or {}))


@pytest.mark.parametrize("write", [str, json.dumps, lambda name: json.dumps(name, ensure_ascii=False)])
def test_an_odd_name_goes_from_wherever_it_is_repeated(write: Callable[[str], str]) -> None:
    """Also from JSON text, where it is written with escapes."""
    name = f'the "{CANARY}" \u00fc'
    span = _sent({**_TOOL, "gen_ai.tool.name": name, "framework.graph": f"[{write(name)}]"})
    assert [] == leaks([span])
