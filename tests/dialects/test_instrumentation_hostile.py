"""No span, whatever its attributes hold, makes a dialect of the instrumentation libraries raise or hang."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_loopguard import attributes as attr
from otel_loopguard import dialects
from otel_loopguard.dialects import langsmith, logfire, openinference, openllmetry
from otel_loopguard.dialects.reading import Reading
from otel_loopguard.model import ChatFacts, Role, Span, SpanEvent
from tests.dialects import captures
from tests.dialects.encode_instrumentation import ENCODERS

READERS = [openinference.read, openllmetry.read, logfire.read, langsmith.read, dialects.read]

# Keys that envelopes are known by: under each of them anything may stand.
ENVELOPE_KEYS = (
    *("args", "arguments", "blocks", "content", "data", "error", "event.name", "function", "generation_info"),
    *("generations", "id", "input", "input_str", "inputs", "is_error", "kwargs", "langgraph_checkpoint_ns"),
    *(
        "langgraph_step",
        "lc",
        "lc_agent_name",
        "message",
        "messages",
        "name",
        "output",
        "outputs",
        "parts",
        "raw_output",
    ),
    *("response", "response_metadata", "result", "role", "sanitize_inputs_outputs", "status", "structuredContent"),
    *("text", "thread_id", "tool_call_id", "tool_calls", "tool_id", "tool_name", "tool_output", "type"),
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.binary(max_size=8)
    | st.sampled_from(["tool", "ai", "error", "function_call", "text", "__REDACTED__", "{", '"', "Step 1"])
)
NESTED = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(ENVELOPE_KEYS), inner, max_size=4),
    max_leaves=12,
)
VALUES = (
    NESTED
    | NESTED.map(lambda value: json.dumps(value, default=repr))
    | NESTED.map(repr)
    | NESTED.map(lambda value: f"status='success' result={value!r} error=None")
)
NAMES = sorted(
    {value for name, value in vars(attr).items() if name.isupper() and isinstance(value, str)}
    | {
        f"{attr.OPENINFERENCE_OUTPUT_MESSAGES}.{end}"
        for end in ("0.message.tool_calls.0.tool_call.id", "0.message.content")
    }
    | {attr.TRACELOOP_PROPERTIES + end for end in ("langgraph_step", "thread_id", "langgraph_checkpoint_ns")}
    | {attr.LANGSMITH_METADATA + end for end in ("langgraph_step", "thread_id", "lc_agent_name")}
)
SCOPES = sorted({span.scope for span in (encode("t", {}, "r", "c") for encode in ENCODERS.values())} | {""})
SHAPES = [encode("lookup_order", {"a": 1}, {"b": 2}, "c") for encode in ENCODERS.values()]
SPAN_NAMES = (
    "lookup_order.tool",
    "turn",
    "Step x",
    "FunctionTool.task",
    "call_tool.task",
    "Agent.run",
    "crewai.workflow",
    "",
)
KINDS = {
    attr.OPENINFERENCE_KIND: ("TOOL", "LLM", "AGENT", "CHAIN"),
    attr.TRACELOOP_KIND: ("tool", "agent", "workflow", "task", "handoff"),
    attr.LANGSMITH_KIND: ("tool", "llm", "chain"),
    attr.LOGFIRE_TEMPLATE: ("Function: {name}", "Turn {turn}", "Agent run: {name!r}", "Responses API", "Handoff: "),
}


@st.composite
def spans(draw: st.DrawFn) -> Span:
    """Draw a span of a known shape or of none, with any of its attributes replaced by anything."""
    shape = draw(st.sampled_from(SHAPES))
    attributes = dict(shape.attributes) if draw(st.booleans()) else {}
    for key, kinds in KINDS.items():
        if draw(st.booleans()):
            attributes[key] = draw(st.sampled_from(kinds) | VALUES)
    attributes.update(draw(st.dictionaries(st.sampled_from([*NAMES, *attributes]), VALUES, max_size=6)))
    event = SpanEvent(
        "exception", draw(st.dictionaries(st.sampled_from(["exception.type", "exception.message"]), VALUES))
    )
    return msgspec.structs.replace(
        shape,
        name=draw(st.sampled_from(SPAN_NAMES) | st.just(shape.name)),
        scope=draw(st.sampled_from(SCOPES)),
        parent_id=draw(st.none() | st.just("1" * 16)),
        end_ns=draw(st.none() | st.just(5)),
        status_code=draw(st.integers(-1, 3)),
        status_message=draw(st.text(max_size=20)),
        attributes=attributes,
        events=draw(st.just(()) | st.just((event,))),
        dropped_attributes=draw(st.integers(0, 1)),
    )


def check(reading: Reading | None) -> None:
    """Assert that each field has its declared type: what comes after trusts it."""
    if reading is None:
        return
    texts = ("tool", "call_id", "error_type", "error_text", "effect", "agent", "turn", "conversation")
    for name in texts:
        assert isinstance(getattr(reading, name), str | None), name
    assert reading.final_answer in (None, True, False)
    assert isinstance(reading.role, Role)
    chat = reading.chat or ChatFacts()
    assert all(isinstance(call_id, str) for call_id in chat.requested or ())
    assert all(isinstance(count, int | None) for count in (chat.requested_calls, chat.input_tokens, chat.output_tokens))
    assert isinstance(chat.model, str | None)


@given(spans())
@settings(max_examples=400, deadline=None)
def test_any_span_is_read_or_not(span: Span) -> None:
    """Each dialect gives a reading of the right types, or None."""
    for read in READERS:
        check(read(span))


@pytest.mark.parametrize(
    "text",
    [
        "[" * 50_000,
        '{"kwargs":' * 20_000,
        '{"output": ' * 5_000 + "1" + "}" * 5_000,
        "status='success' result=" + "(" * 100_000,
        "<" * 300_000 + " at 0x7f",
        "ValueError('" + "x" * 300_000,
        "9" * 100_000,
        '"' + "\\" * 200_001,
        "Traceback (most recent call last)" * 5_000,
    ],
    ids=["deep", "deep-envelope", "deep-output", "deep-repr", "address", "class", "digits", "escapes", "tracebacks"],
)
def test_large_and_deep_text_is_bounded(text: str) -> None:
    """Text made to exhaust a parser is read or not, everywhere that content may stand."""
    keys = [*NAMES, *(key for shape in SHAPES for key in shape.attributes)]
    for shape in SHAPES:
        content = {key: text for key in keys if key not in KINDS and key != attr.LOGFIRE_SPAN_TYPE}
        attributes = {**content, **{key: value for key, value in shape.attributes.items() if key in KINDS}}
        events = (SpanEvent("exception", {"exception.message": text}),)
        check(dialects.read(msgspec.structs.replace(shape, attributes=attributes, events=events, status_code=2)))


@pytest.mark.parametrize("name", captures.names("+main"))
def test_captured_spans_survive_every_wrong_type(name: str) -> None:
    """Each attribute of each captured span is replaced by a value of each type an attribute can have."""
    wrong: list[Any] = [None, True, -1, 2.5, b"\xff", [], ["x", 1], {}, {"data": {"content": 1}}, "[", "null", '"x"']
    seen: set[tuple[str, frozenset[str]]] = set()
    for span in captures.spans(name):
        shape = (span.name, frozenset(span.attributes))
        if shape in seen or len(span.attributes) > 60:
            continue
        seen.add(shape)
        for key in span.attributes:
            for value in wrong:
                check(dialects.read(msgspec.structs.replace(span, attributes={**span.attributes, key: value})))
