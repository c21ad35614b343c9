"""Spans that are known by their bytes: their facts are those that reading gives, and what is learned is bounded."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Status, TracesData
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from otel_loopguard import attributes as attr
from otel_loopguard import policy as policies
from otel_loopguard.digest import Keyring
from otel_loopguard.files import otlp_wire
from otel_loopguard.files.sources import DamagedError
from otel_loopguard.scorer.decode import Encoding, decode
from otel_loopguard.scorer.group_facts import decode_arrival
from otel_loopguard.scorer.intake import IntakeQueue
from otel_loopguard.scorer.shapes import Shapes, known
from tests.processor.setups import KEY
from tests.scorer.exported_runs import made_runs

MANY: Final = known.OFTEN + 2


def _intake(policy: str | None = None) -> IntakeQueue:
    store: Any = None
    loaded = policies.default() if policy is None else policies.load(policy)
    return IntakeQueue(store, loaded, Keyring(KEY), learn=lambda _: None, clock=lambda: 1)


def _hex(number: int) -> str:
    return f"{number * 0x9E3779B97F4A7C15:032x}"[-32:]


def _attributes(number: int) -> dict[str, Any]:
    """As the processor leaves them on a tool span."""
    return {
        attr.OPERATION: "execute_tool",
        attr.TOOL_NAME: "lookup_order",
        attr.TOOL_CALL_ID: f"call_{_hex(number)[:24]}",
        attr.CONVERSATION_ID: f"conversation-{number // 3:06d}",
        attr.CALL_DIGEST: _hex(number),
        attr.RESULT_DIGEST: _hex(number + 1),
        attr.RUN_ID: _hex(number // 5),
        attr.PRODUCER_ID: f"{_hex(number)[:12]}.1",
        attr.CALL_SEQUENCE: number % 100 + 1,
        attr.REPEAT_COUNT: 1,
        attr.OUTCOME: "ok",
        attr.SCHEMA: 1,
    }


def _value(value: Any) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, list):
        return AnyValue(array_value=ArrayValue(values=[_value(item) for item in value]))
    return AnyValue(double_value=value) if isinstance(value, float) else AnyValue(string_value=value)


def _span(number: int, attributes: Mapping[str, Any], **changes: Any) -> SpanMessage:
    fields: dict[str, Any] = {
        "trace_id": (number // 5 + 1).to_bytes(16, "big"),
        "span_id": (number + 1).to_bytes(8, "big"),
        "parent_span_id": b"\x01" * 8,
        "name": "execute_tool lookup_order",
        "kind": SpanMessage.SPAN_KIND_INTERNAL,
        "start_time_unix_nano": 2**60 + number,
        "end_time_unix_nano": 2**60 + number + 500,
        "attributes": [KeyValue(key=key, value=_value(value)) for key, value in attributes.items()],
        **changes,
    }
    return SpanMessage(**fields)


def _tool(changes: Mapping[str, Any], number: int) -> SpanMessage:
    return _span(number, {**_attributes(number), **changes})


def _request(spans: Sequence[SpanMessage], *, scope: str = "", service: str = "shop") -> bytes:
    group = ResourceSpans(scope_spans=[ScopeSpans(spans=spans)])
    group.scope_spans[0].scope.name = scope
    group.resource.attributes.append(KeyValue(key="service.name", value=AnyValue(string_value=service)))
    return TracesData(resource_spans=[group]).SerializeToString()


def _kept(intake: IntakeQueue, body: bytes, shapes: Shapes | None) -> tuple[list[Any], int]:
    """What is stored of a request, the facts of each trace in order of their ids, and how many were not read."""
    decoded = decode(body, Encoding.PROTOBUF, shapes)
    arrivals, rejected = intake.digest(decoded.spans, decoded.rows)
    assert not rejected
    kept = [
        (
            one.trace_id,
            one.spans,
            sorted(one.names),
            one.root_ended,
            sorted(decode_arrival(one.facts), key=lambda facts: (facts.span_id, facts.start_ns)),
        )
        for one in sorted(arrivals, key=lambda one: one.trace_id)
    ]
    return kept, len(decoded.rows)


def _learn(intake: IntakeQueue, make: Callable[[int], SpanMessage], many: int = MANY, **named: str) -> None:
    """Has the shape of some spans learned, where it is."""
    for number in range(many):
        decode(_request([make(number)], **named), Encoding.PROTOBUF, intake.shapes)


def _check(intake: IntakeQueue, spans: Sequence[SpanMessage], **named: str) -> int:
    """Sees to it that shapes make no difference; returns how many spans they knew."""
    body = _request(spans, **named)
    by_shape, count = _kept(intake, body, intake.shapes)
    by_reading, none = _kept(intake, body, None)
    assert by_reading == by_shape
    assert 0 == none
    return count


def test_a_span_of_a_shape_that_came_often_is_known() -> None:
    """After so many spans of one shape the next ones are not read, and what is stored of them is the same."""
    intake = _intake()
    _learn(intake, partial(_tool, {}), known.OFTEN - 1)
    assert 0 == intake.shapes.count
    _learn(intake, partial(_tool, {}), 1)
    assert 1 == intake.shapes.count
    spans = [_span(number, _attributes(number)) for number in range(100, 200)]
    assert len(spans) == _check(intake, spans)


def test_spans_that_the_processor_leaves_are_known() -> None:
    """Real spans of real runs, some that fail and some that repeat themselves: most of the later ones are known."""
    intake = _intake()
    runs = made_runs(120, random.Random(1))
    for run in runs[:60]:
        decode(encode_spans(run).SerializeToString(), Encoding.PROTOBUF, intake.shapes)
    spans = [span for run in runs[60:] for span in run]
    body = encode_spans(spans).SerializeToString()
    by_shape, count = _kept(intake, body, intake.shapes)
    assert _kept(intake, body, None)[0] == by_shape
    assert count > len(spans) / 2


_NAME_TEXT: Final = st.text("abcXYZ019_.:/-", min_size=1, max_size=40)
_ODD_TEXT: Final = st.one_of(
    _NAME_TEXT, st.text(max_size=20), st.sampled_from(["unknown", "None", "crew", "a@b.example"])
)
_ODD: Final[Mapping[str, st.SearchStrategy[Any]]] = {
    attr.CALL_DIGEST: st.one_of(st.text("0123456789abcdef", min_size=32, max_size=32), _ODD_TEXT),
    attr.RESULT_DIGEST: st.one_of(
        st.text("0123456789abcdef", min_size=30, max_size=32), st.integers(-(2**63), 2**63 - 1)
    ),
    attr.RUN_ID: _ODD_TEXT,
    attr.PRODUCER_ID: _ODD_TEXT,
    attr.TOOL_CALL_ID: _ODD_TEXT,
    attr.CALL_ID: _ODD_TEXT,
    attr.TURN_ID: _ODD_TEXT,
    attr.CONVERSATION_ID: _ODD_TEXT,
    attr.CALL_SEQUENCE: st.one_of(st.integers(-1, 20_000), st.booleans(), st.floats(allow_nan=False)),
    attr.CALL_STARTED: st.integers(0, 300),
    attr.REPEAT_COUNT: st.integers(0, 2**40),
    attr.NEAR_RESULT_ALIKE: st.integers(0, 200),
    attr.OUTCOME: st.sampled_from(["ok", "error", "denied", "none of ours"]),
    attr.PROGRESS: st.sampled_from(["first", "unchanged", "advanced"]),
    attr.ERROR_TYPE: st.sampled_from(["TimeoutError", "a secret", ""]),
    attr.SCHEMA: st.sampled_from([1, 2, True]),
    attr.TOOL_ARGUMENTS: st.just('{"order": 1}'),
    attr.FINDING: st.lists(_NAME_TEXT, max_size=3),
    "app.customer": st.text(max_size=8),
    "thread.id": st.integers(0, 2**40),
    "exception.message": st.just("a secret"),
}


@st.composite
def _variants(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Attributes of spans of some shapes, and of others that differ from these in some values."""
    kept = draw(st.sets(st.sampled_from(sorted(_ODD)), max_size=6))
    left_out = draw(st.sets(st.sampled_from(sorted(_attributes(0))), max_size=2))
    fixed = {key: draw(_ODD[key]) for key in kept}

    def made(number: int) -> dict[str, Any]:
        return {key: value for key, value in (_attributes(number) | fixed).items() if key not in left_out}

    taught = [made(number) for number in range(MANY)]
    asked = []
    for number in range(MANY, MANY + 12):
        changed = draw(st.sets(st.sampled_from(sorted(_ODD)), max_size=3))
        asked.append(made(number) | {key: draw(_ODD[key]) for key in changed})
    return taught, asked


@settings(max_examples=150, deadline=None)
@given(_variants(), st.sampled_from(["", "shop", "strands.telemetry.tracer"]))
def test_shapes_make_no_difference(variants: tuple[list[dict[str, Any]], list[dict[str, Any]]], scope: str) -> None:
    """Whatever was learned, what is stored of whatever comes then is what reading it gives."""
    taught, asked = variants
    intake = _intake()
    _learn(intake, lambda number: _span(number, taught[number]), scope=scope)
    _check(intake, [_span(number, attributes) for number, attributes in enumerate(taught)], scope=scope)
    _check(intake, [_span(number, attributes) for number, attributes in enumerate(asked)], scope=scope)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_bytes_that_are_changed_make_no_difference(data: st.DataObject) -> None:
    """A byte of a span of a known shape is another one: it is read, or its facts are those that reading gives."""
    intake = _LEARNED
    message = bytearray(_span(50, _attributes(50)).SerializeToString())
    for _ in range(data.draw(st.integers(1, 3))):
        message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
    scoped = _field(2, _field(2, bytes(message)))
    body = _field(1, scoped)
    by_shape = decode(body, Encoding.PROTOBUF, intake.shapes)
    by_reading = decode(body, Encoding.PROTOBUF)
    assert (by_reading.count, by_reading.rejected, by_reading.mended) == (
        by_shape.count,
        by_shape.rejected,
        by_shape.mended,
    )
    assert _kept(intake, body, None)[0] == _kept(intake, body, intake.shapes)[0]


def _field(number: int, value: bytes) -> bytes:
    length, size = b"", len(value)
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + value


def _learned() -> IntakeQueue:
    intake = _intake()
    _learn(intake, partial(_tool, {}))
    assert 1 == intake.shapes.count
    return intake


_LEARNED: Final = _learned()


@pytest.mark.parametrize(
    "changes",
    [
        {"trace_id": bytes(16)},
        {"span_id": bytes(8)},
        {"parent_span_id": bytes(8)},
        {"end_time_unix_nano": 0},
        {"start_time_unix_nano": 0},
        {"start_time_unix_nano": 2**64 - 1},
        {"parent_span_id": b""},
        {"status": Status(code=Status.STATUS_CODE_ERROR, message="a secret")},
        {"trace_state": "ot=th:8"},
        {"links": [SpanMessage.Link(trace_id=b"\x07" * 16, span_id=b"\x07" * 8)]},
        {"events": [SpanMessage.Event(name="exception")]},
        {"dropped_attributes_count": 3},
        {"name": "execute_tool another_one"},
    ],
)
def test_a_span_that_is_of_no_shape_is_read(changes: Mapping[str, Any]) -> None:
    """Whatever else a span says than those of its shape, it says."""
    body = _request([_span(7, _attributes(7), **changes)])
    by_shape, by_reading = (decode(body, Encoding.PROTOBUF, shapes) for shapes in (_LEARNED.shapes, None))
    assert (by_reading.count, by_reading.rejected, by_reading.mended) == (
        by_shape.count,
        by_shape.rejected,
        by_shape.mended,
    )
    assert _kept(_LEARNED, body, None)[0] == _kept(_LEARNED, body, _LEARNED.shapes)[0]


def test_a_resource_says_what_it_says() -> None:
    """A shape that was learned of one service serves the spans of another, under its own name."""
    for service in ("shop", "another", "100%b", "a secret"):
        spans = [_span(number, _attributes(number)) for number in range(4)]
        assert len(spans) == _check(_LEARNED, spans, service=service)


def test_per_cent_signs_stay() -> None:
    """What is the same in all spans of a shape may hold what a format takes for its own."""
    intake = _intake()
    odd = {attr.AGENT_NAME: "100%b of %d", attr.CONTRACT: "0123abcd"}
    _learn(intake, partial(_tool, odd))
    assert 5 == _check(intake, [_tool(odd, number) for number in range(5)])


def test_what_holds_content_is_not_learned() -> None:
    """Neither arguments, nor a result, nor the text of a failure is kept in a pattern."""
    for key in (attr.TOOL_RESULT, attr.TOOL_ARGUMENTS, "gen_ai.tool.description"):
        intake = _intake()
        _learn(intake, partial(_tool, {key: "a secret"}), 100)
        assert 0 == intake.shapes.count
    intake = _intake()
    twice = _field(9, _field(1, b"gen_ai.tool.description") + _field(2, _field(1, b"a secret") * 2))
    for number in range(100):
        message = _span(number, _attributes(number)).SerializeToString() + twice
        decode(_field(1, _field(2, _field(2, message))), Encoding.PROTOBUF, intake.shapes)
    assert 0 == intake.shapes.count
    intake = _intake()
    failed = Status(code=Status.STATUS_CODE_ERROR, message="a secret")
    _learn(intake, lambda number: _span(number, _attributes(number), status=failed), 100)
    assert 0 == intake.shapes.count


def test_no_value_is_kept_that_nothing_is_read_from() -> None:
    """What an application attaches may be content: a shape knows how long it is, and not what."""
    intake = _intake()
    attached = {"app.customer": "a secret", "thread.id": 70_000}
    _learn(intake, partial(_tool, attached))
    (shapes,) = intake.shapes.of("").values()
    (shape,) = shapes
    assert b"secret" not in shape.pattern.pattern
    others = {"app.customer": "b others", "thread.id": 99_999}
    assert 1 == _check(intake, [_span(1, _attributes(1) | others)])
    assert 0 == _check(intake, [_span(1, _attributes(1) | {"app.customer": "b \x00thers"})])


def test_spans_that_are_not_of_our_processor_are_not_learned() -> None:
    """A tool span without digests holds its content, and a chat of ours is told too little of by its bytes."""
    intake = _intake()
    plain = {attr.OPERATION: "execute_tool", attr.TOOL_NAME: "t"}
    _learn(intake, lambda number: _span(number, plain), 100)
    chat = {attr.OPERATION: "chat", attr.SCHEMA: 1, attr.REQUESTED_CALLS: 1}
    _learn(intake, lambda number: _span(number, chat), 100)
    assert 0 == intake.shapes.count


_GLOBAL_WRITE: Final = json.dumps(
    {
        "version": 1,
        "policy": "shop",
        "policy_version": 1,
        "tools": {"lookup_order": {"effect": "write", "business_key": ["order"], "business_scope": "global"}},
    }
)


def test_a_write_whose_key_holds_everywhere_joins() -> None:
    """What joins traces is found out of rows too, where a slot of them joins."""
    intake = _intake(_GLOBAL_WRITE)
    write = {attr.BUSINESS_DIGEST: _hex(1), attr.TOOL_EFFECT: "write"}
    _learn(intake, partial(_tool, write))
    spans = [_span(number, _attributes(number) | write | {attr.BUSINESS_DIGEST: _hex(number)}) for number in range(20)]
    assert len(spans) == _check(intake, spans)
    (trace_id, _, names, _, _), *_ = _kept(intake, _request(spans), intake.shapes)[0]
    assert trace_id
    assert 5 == sum(name.startswith("w:") for name in names)


def test_what_is_learned_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Senders cannot fill the memory with shapes, nor make the scorer learn without end."""
    monkeypatch.setattr(known, "MAX_SHAPES", 3)
    monkeypatch.setattr(known, "MAX_ALIKE", 2)
    monkeypatch.setattr(known, "MAX_COUNTED", 4)
    monkeypatch.setattr(known, "MAX_DOUBLED", 0)
    intake = _intake()
    for tool in ("aa", "bb", "cc", "dd"):
        _learn(intake, partial(_tool, {attr.TOOL_NAME: tool}), 60)
    assert 2 == intake.shapes.count
    for size in range(1, 9):
        _learn(intake, partial(_tool, {attr.TOOL_NAME: "x" * size}))
        assert 0 < intake.shapes.count <= 3
    assert 5 == _check(intake, [_span(n, _attributes(n) | {attr.TOOL_NAME: "x" * 8}) for n in range(5)])


def test_to_learn_pays_only_where_shapes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time as many were learned as are kept, twice as many spans have to be read before another one is."""
    monkeypatch.setattr(known, "MAX_SHAPES", 2)
    intake = _intake()
    counts = []
    for size in range(1, 7):
        for _ in range(4):
            _learn(intake, partial(_tool, {attr.TOOL_NAME: "x" * size}), known.OFTEN)
            counts.append(intake.shapes.count)
    assert [1, 1, 1, 1, 2, 2, 2, 2, 2, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 2] == counts
    monkeypatch.setattr(known, "MAX_DOUBLED", 1)
    _learn(intake, partial(_tool, {attr.TOOL_NAME: "x" * 7}), 2 * known.OFTEN)
    assert 1 == intake.shapes.count


def test_a_long_name_of_a_scope_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing bounds what a sender calls a scope."""
    monkeypatch.setattr(known, "MAX_SCOPE_CHARS", 7)
    intake = _intake()
    _learn(intake, partial(_tool, {}), 100, scope="a scope!")
    assert 0 == intake.shapes.count
    _learn(intake, partial(_tool, {}), 100, scope="a scope")
    assert 1 == intake.shapes.count


def test_a_long_span_is_not_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    """To learn costs by the byte."""
    monkeypatch.setattr(known, "MAX_SPAN_BYTES", len(_span(1, _attributes(1)).SerializeToString()) - 1)
    intake = _intake()
    _learn(intake, partial(_tool, {}), 100)
    assert 0 == intake.shapes.count


def test_a_shape_is_of_one_scope() -> None:
    """The dialect is told by the scope: the same bytes in another are read."""
    spans = [_span(number, _attributes(number)) for number in range(3)]
    assert 0 == _check(_learned(), spans, scope="strands.telemetry.tracer")


def test_a_root_that_is_known_has_ended() -> None:
    """A tool span may be all there is of a trace: nobody waits for its root then."""
    intake = _intake()
    roots = [_span(number, _attributes(number), parent_span_id=b"") for number in range(MANY + 5)]
    for root in roots[:MANY]:
        decode(_request([root]), Encoding.PROTOBUF, intake.shapes)
    assert 5 == _check(intake, roots[MANY:])
    assert all(ended for _, _, _, ended, _ in _kept(intake, _request(roots[MANY:]), intake.shapes)[0])


def test_plain_spans_are_known() -> None:
    """Spans that no dialect knows, with a parent and without, ended and open, are what reading makes of them."""
    intake = _intake()
    for changes in ({}, {"parent_span_id": b""}, {"end_time_unix_nano": 0}, {"parent_span_id": b"\x01"}):
        body = _request([_span(1, {"http.request.method": "GET"}, name="GET", **changes)])
        by_shape = decode(body, Encoding.PROTOBUF, intake.shapes)
        assert (0, 1) == (len(by_shape.spans), len(by_shape.rows))
        assert by_shape.mended == decode(body, Encoding.PROTOBUF).mended
        assert _kept(intake, body, None)[0] == _kept(intake, body, intake.shapes)[0]


def test_fields_end_where_they_say() -> None:
    """What walks a message stops at bytes that are none."""
    assert [(0x0A, 2, 4), (0x18, 5, 6)] == list(otlp_wire.fields(b"\x0a\x02ab\x18\x01", 0, 6))
    with pytest.raises((IndexError, DamagedError)):
        list(otlp_wire.fields(b"\x0a\x05ab", 0, 4))
