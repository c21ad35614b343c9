"""Values of every kind and size on tool spans: a digest, or the reason why there is none, and never a failure.

What the SDK lets a span hold differs from version to version; what is held decides, not what was set.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_loopguard import attributes as attr
from otel_loopguard.model import Unknown
from otel_loopguard.processor.finding import FindingEvent
from tests.processor.canaries import CANARY, otlp
from tests.processor.setups import ours

_NONE: Final[Mapping[str, Any]] = {}
TOOL: Final = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "lookup"}
ARGUMENTS: Final = "gen_ai.tool.call.arguments"
RESULT: Final = "gen_ai.tool.call.result"
LIMIT: Final = 40


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """The SDK warns of values that it refuses."""
    with caplog.at_level(logging.CRITICAL):
        yield


def called(
    first: Mapping[str, Any], then: Mapping[str, Any] = _NONE, *, limits: SpanLimits | None = None
) -> dict[str, Any]:
    """What is exported of one tool call's attributes.

    Args:
        first: attributes set before those that name the tool.
        then: attributes set after them.
        limits: of the provider.
    """
    return calls([{**first, **TOOL, **then}], limits=limits)[0][0]


def calls(
    spans: list[dict[str, Any]], *, limits: SpanLimits | None = None
) -> tuple[list[dict[str, Any]], list[FindingEvent]]:
    """What is exported of several calls of one run, and the findings."""
    memory, events = InMemorySpanExporter(), list[FindingEvent]()
    provider = TracerProvider(shutdown_on_exit=False, span_limits=limits or SpanLimits())
    processor = ours(on_finding=events.append)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("t")
    with tracer.start_as_current_span("request"):
        for attributes in spans:
            span = tracer.start_span("execute_tool lookup")
            for key, value in attributes.items():
                span.set_attribute(key, value)
            span.end()
    assert ({}, 0) == (processor.counts.failures, processor.counts.late_spans)
    tools = [span for span in memory.get_finished_spans() if span.name != "request"]
    assert CANARY.encode() not in otlp(tools)
    return [dict(span.attributes or {}) for span in tools], events


def kept_by_the_sdk(value: Any) -> bool:
    """Whether the installed SDK takes a value for an attribute at all."""
    span = TracerProvider(shutdown_on_exit=False).get_tracer("t").start_span("s")
    span.set_attribute("k", value)
    return "k" in (getattr(span, "attributes", None) or {})


def equal_text(value: Any) -> str:
    """The call digest of arguments given as JSON text."""
    return str(called({ARGUMENTS: json.dumps(value)})[attr.CALL_DIGEST])


STRUCTURED: Final = {
    "mapping": {"order": CANARY, "n": [1, 2.5, True, None]},
    "nested": {"a": {"b": {"c": [CANARY]}}},
    "empty mapping": {},
    "texts": ["a", CANARY],
    "mappings": [{"a": 1}, {"b": CANARY}],
    "mixed": [1, CANARY, {"a": 2}],
    "integer": 5,
    "large integer": 10**15 + 1,
    "fraction": 0.1,
    "truth": True,
}


@pytest.mark.parametrize("name", STRUCTURED)
def test_a_structured_value_is_the_same_call_as_its_json(name: str) -> None:
    """A value that the SDK keeps as it is has the digest of the JSON text; one that it refuses was not captured."""
    value = STRUCTURED[name]
    left = called({ARGUMENTS: value})
    assert ARGUMENTS not in left
    if kept_by_the_sdk(value):
        assert equal_text(value) == left[attr.CALL_DIGEST]
    else:
        assert (None, Unknown.NOT_CAPTURED) == (left.get(attr.CALL_DIGEST), left[attr.CALL_UNKNOWN])


def test_bytes_are_the_text_that_they_hold() -> None:
    """JSON as bytes is the same call as JSON as text, in every version of the SDK."""
    text = json.dumps({"order": CANARY})
    assert called({ARGUMENTS: text})[attr.CALL_DIGEST] == called({ARGUMENTS: text.encode()})[attr.CALL_DIGEST]


DEEP: Final = f'{{"{CANARY}": {"[" * 1000}{"]" * 1000}}}'
WITHOUT: Final = {
    "absent": (None, Unknown.NOT_CAPTURED),
    "empty text": ("", Unknown.NOT_CAPTURED),
    "an object": (object(), Unknown.NOT_CAPTURED),
    "1,000 levels": (DEEP, Unknown.UNPARSABLE),
    "levels without an end": (CANARY.join(["["] * 100_000), Unknown.UNPARSABLE),
    "a key twice": (f'{{"a": 1, "a": "{CANARY}"}}', Unknown.UNPARSABLE),
    "a word": (CANARY, Unknown.UNPARSABLE),
    "2 MiB of text": (CANARY * 350_000, Unknown.UNPARSABLE),
    "half of JSON": (f'{{"order": "{CANARY}', Unknown.TRUNCATED),
    "an ellipsis": (f'{{"order": "{CANARY}...', Unknown.TRUNCATED),
}


@pytest.mark.parametrize("name", WITHOUT)
def test_what_cannot_be_compared_gives_its_reason(name: str) -> None:
    """No digest, one reason, and the value does not leave."""
    value, reason = WITHOUT[name]
    left = called({ARGUMENTS: value})
    assert (None, reason) == (left.get(attr.CALL_DIGEST), left[attr.CALL_UNKNOWN])


@pytest.mark.parametrize("size", [1 << 20, (1 << 20) + 4096])
def test_a_megabyte_of_arguments_has_a_digest_of_its_whole(size: int) -> None:
    """Two calls that differ in their last character are two calls."""
    one, other = (json.dumps({"text": CANARY + "x" * size + last}) for last in "ab")
    found = [called({ARGUMENTS: text})[attr.CALL_DIGEST] for text in (one, other, one)]
    assert found[0] == found[2] != found[1]


def test_lone_surrogates_have_a_digest_and_leave_the_span_exportable() -> None:
    """UTF-8 has none: with one in its arguments the span could not be exported, but arguments do not leave."""
    escaped, plain = f'{{"a": "\\ud800{CANARY}"}}', f'{{"a": "\ud800{CANARY}"}}'
    assert called({ARGUMENTS: escaped})[attr.CALL_DIGEST] == called({ARGUMENTS: plain})[attr.CALL_DIGEST]


# --- limits of the SDK ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("reach", [{"max_span_attribute_length": LIMIT}, {"max_attribute_length": LIMIT}])
@pytest.mark.parametrize("key", [ARGUMENTS, RESULT])
def test_a_cut_value_gives_no_digest_of_its_beginning(key: str, reach: dict[str, int]) -> None:
    """Values that differ behind the cut look equal there, so they are not compared: JSON, text, and text in values."""
    unknown = attr.CALL_UNKNOWN if key == ARGUMENTS else attr.RESULT_UNKNOWN
    long = "row " * 20
    values = [json.dumps({"rows": long}), json.dumps(long), long, f"[INFO] {long}", "7" * 60, [long]]
    for value in values:
        left = called({key: value}, limits=SpanLimits(**reach))
        assert Unknown.TRUNCATED == left.get(unknown)


@pytest.mark.parametrize("length", [LIMIT - 1, LIMIT, LIMIT + 1])
def test_json_that_just_fits_is_whole(length: int) -> None:
    """A container that ends is no cut one, even where it is as long as the limit."""
    text = json.dumps({"a": "x" * (length - len('{"a": ""}'))})
    left = called({ARGUMENTS: text, RESULT: text}, limits=SpanLimits(max_span_attribute_length=LIMIT))
    reason = None if length <= LIMIT else Unknown.TRUNCATED
    assert (reason, reason) == (left.get(attr.CALL_UNKNOWN), left.get(attr.RESULT_UNKNOWN))


@pytest.mark.parametrize(("length", "found"), [(LIMIT, []), (None, [])])
def test_results_that_differ_behind_a_cut_are_no_loop(length: int | None, found: list[str]) -> None:
    """A page that moves on is none where all of it is seen, and must not become one where only its head is."""
    spans = [{**TOOL, ARGUMENTS: "{}", RESULT: f"{'the same head ' * 5}{number}"} for number in range(6)]
    _, events = calls(spans, limits=SpanLimits(max_span_attribute_length=length))
    assert found == [event.kind for event in events]


def test_equal_results_are_a_loop_where_they_can_be_seen() -> None:
    """The same with one result: the last test would see a loop."""
    spans = [{**TOOL, ARGUMENTS: "{}", RESULT: f"{'the same head ' * 5}7"} for _ in range(6)]
    assert ["exact_repeat"] == [event.kind for event in calls(spans, limits=SpanLimits())[1]]


@pytest.mark.parametrize(("room", "reason"), [(3, None), (2, Unknown.DROPPED)])
def test_evicted_arguments_are_dropped_not_absent(room: int, reason: Unknown | None) -> None:
    """The SDK drops the attributes that came first, and counts them."""
    left = called({ARGUMENTS: f'{{"a": "{CANARY}"}}'}, limits=SpanLimits(max_span_attributes=room))
    assert reason == left.get(attr.CALL_UNKNOWN)
    assert (reason is None) == (attr.CALL_DIGEST in left)


@pytest.mark.parametrize("room", [1, 0])
def test_a_span_that_lost_its_tool_is_no_call(room: int) -> None:
    """Where the SDK dropped what says that it is a tool's, nothing is said of it."""
    left = called(_NONE, {ARGUMENTS: f'{{"a": "{CANARY}"}}'}, limits=SpanLimits(max_span_attributes=room))
    assert {} == left


def test_our_attributes_are_not_under_the_limit() -> None:
    """What we write comes after the SDK's limit was applied, so a full span loses nothing to us."""
    limits = SpanLimits(max_span_attributes=3, max_span_attribute_length=12)
    left = called({"a": "0123456789abcdef"}, limits=limits)
    assert ("0123456789ab", 1) == (left["a"], left[attr.SCHEMA])


# --- whatever it is ------------------------------------------------------------------------------------------

_SCALARS: Final = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
_VALUES: Final = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=4),
    max_leaves=8,
)


@given(_VALUES, _VALUES, st.none() | st.integers(0, 20))
def test_no_value_makes_a_step_fail(arguments: Any, result: Any, limit: int | None) -> None:
    """Any argument and any result, under any limit: one digest or one reason, and neither value leaves."""
    memory = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False, span_limits=SpanLimits(max_span_attribute_length=limit))
    processor = ours()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    provider.add_span_processor(processor)
    span = provider.get_tracer("t").start_span("call")
    for key, value in {"openinference.span.kind": "TOOL", ARGUMENTS: arguments, RESULT: result}.items():
        span.set_attribute(key, value)
    span.end()
    (left,) = [dict(one.attributes or {}) for one in memory.get_finished_spans()]
    assert {} == processor.counts.failures
    assert set() == {ARGUMENTS, RESULT} & set(left)
    if left["openinference.span.kind"] == "TOOL":
        assert 1 == sum(key in left for key in (attr.CALL_DIGEST, attr.CALL_UNKNOWN))
        assert 1 == sum(key in left for key in (attr.RESULT_DIGEST, attr.RESULT_UNKNOWN))
