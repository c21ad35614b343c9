"""Any span, whatever its attributes hold, gives a reading or None."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from otel_loopguard import attributes as attr
from otel_loopguard import dialects
from otel_loopguard.dialects import genai, haystack, own
from otel_loopguard.dialects.reading import Reading
from otel_loopguard.model import Span, SpanEvent


def _known_keys() -> list[str]:
    keys: set[str] = set()
    for name, value in vars(attr).items():
        if name.isupper():
            keys.update([value] if isinstance(value, str) else value)
    return sorted(keys)


KEYS = _known_keys()
SCOPES = [*dialects.BY_SCOPE, "logfire.openai_agents", "langsmith", "agent_framework", "gen_ai", ""]
NAMES = [
    *haystack.ROLES,
    *dialects.BY_NAME,
    "execute_tool x",
    "execute_tool (merged)",
    "running tool",
    "tools/call x",
    "x",
]
OPERATIONS = [*genai.ROLES, "unknown", "embeddings", "ai.toolCall", "ai.generateText", "ai.generateText.doGenerate"]
KINDS = ["TOOL", "AGENT", "CHAIN", "LLM", "tool", "agent", "workflow", "task", "llm", "chain", "pending_span"]
TEXTS = st.sampled_from(
    [
        *OPERATIONS,
        *KINDS,
        '{"a": 1}',
        '{"kwargs": {"a": [1]}}',
        '{"output": {"content": 5, "tool_call_id": {}, "type": "tool"}}',
        '{"id": 1, "name": 2, "response": [3]}',
        '[{"role": "assistant", "parts": [{"type": "tool_call", "id": 5}, 7], "finish_reason": [1]}]',
        '[{"message": [1], "finish_reason": {}}]',
        '{"tool_call_result": {"result": null, "origin": 3, "error": 4}}',
        "{'a': (1, 2)}",
        "status='failure' result={'a'",
        "ResponseFunctionToolCall(call_id='x')",
        "tools/call",
        "[" * 100,
        '{"a": "cut',
        "\ud800",
        "",
    ]
)
VALUES = st.recursive(
    TEXTS
    | st.text(max_size=8)
    | st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.binary(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["content", "parts", "type", "id", "a", "messages", "role"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)
ATTRIBUTES = st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=4), VALUES, max_size=10)
EVENTS = st.lists(
    st.builds(
        SpanEvent,
        st.sampled_from([attr.CHOICE_EVENT, attr.TOOL_MESSAGE_EVENT, attr.DETAILS_EVENT, attr.EXCEPTION_EVENT, "x"]),
        st.dictionaries(
            st.sampled_from(["message", "content", "finish_reason", "id", attr.EXCEPTION_TYPE, attr.EXCEPTION_MESSAGE])
            | st.sampled_from([attr.INPUT_MESSAGES, attr.OUTPUT_MESSAGES]),
            VALUES,
            max_size=4,
        ),
    ),
    max_size=3,
)
SPANS = st.builds(
    Span,
    trace_id=st.just("1" * 32),
    span_id=st.just("2" * 16),
    parent_id=st.none() | st.just("3" * 16),
    name=st.sampled_from(NAMES) | st.text(max_size=12),
    kind=st.integers(0, 6),
    scope=st.sampled_from(SCOPES) | st.text(max_size=6),
    end_ns=st.none() | st.just(1),
    status_code=st.integers(0, 3),
    status_message=st.text(max_size=12) | TEXTS,
    attributes=ATTRIBUTES,
    events=EVENTS,
    dropped_attributes=st.integers(0, 2),
)


@given(SPANS)
def test_any_span_is_read(span: Span) -> None:
    """No attribute of any type under any known key, on any span, makes a dialect raise."""
    reading = dialects.read(span)
    assert reading is None or isinstance(reading, Reading)
    own.read_own(span.attributes)


@given(SPANS)
def test_every_dialect_stands_alone(span: Span) -> None:
    """Each dialect reads spans that are not its own without harm: the registry's order is no safety net."""
    for dialect in {
        *dialects.BY_NAME.values(),
        *dialects.BY_SCOPE.values(),
        *dict(dialects.BY_KEY).values(),
        genai.read,
    }:
        reading = dialect(span)
        assert reading is None or isinstance(reading, Reading)


@given(SPANS)
def test_names_are_text(span: Span) -> None:
    """What a reading hands on as a name or an id is text or None, whatever the span held there."""
    reading = dialects.read(span)
    if reading is None:
        return
    names: list[Any] = [reading.tool, reading.call_id, reading.agent, reading.turn, reading.conversation]
    names += [reading.error_type, reading.error_text, *(reading.chat.requested or () if reading.chat else ())]
    assert {True} == {name is None or isinstance(name, str) for name in names}
    counts = [] if reading.chat is None else [reading.chat.input_tokens, reading.chat.output_tokens]
    assert all(count is None or (type(count) is int and count >= 0) for count in counts)
