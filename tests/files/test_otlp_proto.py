"""OTLP in protobuf: the same spans as from JSON, bare and framed, whole and damaged."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import msgspec
import pytest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Status, TracesData
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from otel_loopguard.errors import MissingExtraError
from otel_loopguard.files import Format, Reason
from otel_loopguard.model import Span, SpanEvent
from tests.files.convert import to_protobuf
from tests.files.otlp_samples import SPAN_ID, TRACE_ID, read, read_spans, reasons

_PARENT = "00f067aa0ba902b7"


def _message(**changes: Any) -> TracesData:
    fields: dict[str, Any] = {
        "trace_id": bytes.fromhex(TRACE_ID),
        "span_id": bytes.fromhex(SPAN_ID),
        "name": "t",
        "start_time_unix_nano": 1000,
        "end_time_unix_nano": 2000,
        **changes,
    }
    return TracesData(resource_spans=[ResourceSpans(scope_spans=[ScopeSpans(spans=[SpanMessage(**fields)])])])


def _framed(*messages: TracesData) -> bytes:
    packed = [message.SerializeToString() for message in messages]
    return b"".join(len(piece).to_bytes(4, "big") + piece for piece in packed)


_SPAN = _message().resource_spans[0].scope_spans[0].spans[0]
_GOOD = _message().SerializeToString()


def test_reads_every_field_of_a_span() -> None:
    """Each field of a protobuf span reaches the record's field of that meaning."""
    message = _message(
        parent_span_id=bytes.fromhex(_PARENT),
        trace_state="ot=th:8",
        kind=SpanMessage.SPAN_KIND_CLIENT,
        status=Status(code=Status.STATUS_CODE_ERROR, message="no"),
        attributes=[KeyValue(key="k", value=AnyValue(string_value="v"))],
        events=[SpanMessage.Event(time_unix_nano=1500, name="e", attributes=[KeyValue(key="x")])],
        links=[SpanMessage.Link(trace_id=bytes.fromhex(TRACE_ID), span_id=bytes.fromhex(_PARENT))],
        dropped_attributes_count=3,
        dropped_events_count=4,
    )
    message.resource_spans[0].resource.attributes.append(KeyValue(key="r", value=AnyValue(int_value=1)))
    message.resource_spans[0].scope_spans[0].scope.name = "lib"
    expected = Span(
        trace_id=TRACE_ID,
        span_id=SPAN_ID,
        parent_id=_PARENT,
        name="t",
        kind=3,
        scope="lib",
        start_ns=1000,
        end_ns=2000,
        status_code=2,
        status_message="no",
        attributes={"k": "v"},
        events=(SpanEvent("e", {"x": None}, 1500),),
        links=((TRACE_ID, _PARENT),),
        resource={"r": 1},
        trace_state="ot=th:8",
        dropped_attributes=3,
        dropped_events=4,
    )
    assert [expected] == read_spans(message.SerializeToString())


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (AnyValue(string_value="a"), "a"),
        (AnyValue(int_value=-7), -7),
        (AnyValue(bool_value=False), False),
        (AnyValue(double_value=1.5), 1.5),
        (AnyValue(bytes_value=b"\xff"), b"\xff"),
        (AnyValue(array_value=ArrayValue(values=[AnyValue(string_value="a"), AnyValue()])), ["a", None]),
        (AnyValue(kvlist_value=KeyValueList(values=[KeyValue(key="k", value=AnyValue(int_value=1))])), {"k": 1}),
        (AnyValue(array_value=ArrayValue()), []),
        (AnyValue(kvlist_value=KeyValueList()), {}),
        (AnyValue(), None),
    ],
)
def test_reads_every_kind_of_attribute_value(value: AnyValue, expected: Any) -> None:
    """Each kind of value becomes the Python value that stands for it, with its exact type."""
    (span,) = read_spans(_message(attributes=[KeyValue(key="k", value=value)]).SerializeToString())
    assert expected == span.attributes["k"]
    assert type(expected) is type(span.attributes["k"])


def test_bare_and_framed_streams_agree() -> None:
    """One message, several joined messages and several framed ones all give their spans in order."""
    other = _message(span_id=b"\x01" * 8)
    expected = [SPAN_ID, "01" * 8]
    assert expected == [span.span_id for span in read_spans(_GOOD + other.SerializeToString())]
    assert expected == [span.span_id for span in read_spans(_framed(_message(), other))]
    assert read_spans(_GOOD) == read_spans(_GOOD, Format.OTLP_PROTO)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"trace_id": b""}, Reason.NO_TRACE_ID),
        ({"trace_id": bytes(16)}, Reason.NO_TRACE_ID),
        ({"trace_id": b"\x01"}, Reason.BAD_TRACE_ID),
        ({"span_id": b""}, Reason.NO_SPAN_ID),
        ({"span_id": bytes(8)}, Reason.NO_SPAN_ID),
        ({"span_id": b"\x01" * 16}, Reason.BAD_SPAN_ID),
    ],
)
def test_bad_ids_cost_their_span_only(changes: dict[str, Any], reason: Reason) -> None:
    """A span without sound ids gives a reason, and the next message is read."""
    data = _message(**changes).SerializeToString() + _GOOD
    assert [(None, reason)] == reasons(data)
    assert read_spans(_GOOD) == read(data)[1:]


def test_bad_parent_and_link_keep_the_span() -> None:
    """A parent or link that cannot be one is reported and left out, and the span is kept."""
    data = _message(parent_span_id=b"\x01", links=[SpanMessage.Link()]).SerializeToString()
    assert read_spans(_GOOD) == read(data)[:1]
    assert [(None, Reason.BAD_PARENT_ID), (None, Reason.BAD_LINK_ID)] == reasons(data)


def test_open_span_has_no_end() -> None:
    """End time 0 means that the span is open."""
    assert read_spans(_message(end_time_unix_nano=0).SerializeToString())[0].end_ns is None


@pytest.mark.parametrize("cut", [1, 2, 30, -1])
def test_truncated_streams_say_so(cut: int) -> None:
    """A bare and a framed stream that end within a message give the messages before, then a reason."""
    bare, framed = _GOOD + _GOOD[:cut], _framed(_message()) + _framed(_message())[:cut]
    assert [(None, Reason.TRUNCATED)] == reasons(bare)
    assert [(None, Reason.TRUNCATED)] == reasons(framed)
    assert read_spans(_GOOD) == read(bare)[:1] == read(framed)[:1]


def test_framed_stream_goes_on_after_damage() -> None:
    """A frame that is no message costs itself only."""
    damaged = (5).to_bytes(4, "big") + b"\x0a\xff\xff\xff\xff"
    data = _framed(_message()) + damaged + _framed(_message())
    assert [(None, Reason.NOT_PROTOBUF)] == reasons(data)
    assert 3 == len(read(data))


def test_bare_stream_ends_at_damage() -> None:
    """After bytes that begin no ResourceSpans a bare stream cannot be found again."""
    assert [(None, Reason.NOT_PROTOBUF)] == reasons(_GOOD + b"\xff" + _GOOD)
    assert [(None, Reason.NOT_PROTOBUF)] == reasons(_GOOD + b"\x0a\xff\xff\xff\xff\xff" + _GOOD)


def test_sizes_are_bounded() -> None:
    """A length over the limit is believed by nobody: it gives a reason, and nothing is allocated for it."""
    assert [(None, Reason.TOO_LONG)] == reasons(_GOOD + b"\x0a\xff\xff\xff\xff\x07")
    assert [(None, Reason.TOO_LONG)] == reasons(_framed(_message()) + b"\x7f\xff\xff\xff")


def test_nesting_is_bounded_by_protobuf() -> None:
    """A value nested a thousand lists deep is left out and counted, and all else of its span is kept."""
    value = AnyValue(string_value="x").SerializeToString()
    for _ in range(1000):
        value = _field(5, _field(1, value))
    deep = _field(1, _field(2, _field(2, _SPAN.SerializeToString() + _field(9, _field(1, b"k") + _field(2, value)))))
    expected = [msgspec.structs.replace(span, dropped_attributes=1) for span in read_spans(_GOOD)]
    assert expected == read_spans(deep)


def _field(number: int, body: bytes) -> bytes:
    """A length-delimited field as protobuf writes it."""
    length, size = b"", len(body)
    while size > 0x7F:
        length, size = length + bytes([size & 0x7F | 0x80]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + body


def test_place_names_the_message() -> None:
    """There are no lines; the reason's source says which message it was."""
    (_, bad) = read(_GOOD + _message(trace_id=b"").SerializeToString())
    assert "f, message 2" == getattr(bad, "source", None)


def test_missing_part_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without opentelemetry-proto the error says what to install."""
    real = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name == "otel_loopguard.files.otlp_wire":
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"otel-loopguard\[cli\]"):
        read(_GOOD)


def test_captures_read_the_same_either_way() -> None:
    """A real capture gives equal spans from JSON and, converted by protobuf itself, from protobuf."""
    examples = Path(__file__).parents[2] / "otel_loopguard" / "examples"
    captures = sorted(examples.glob("*.jsonl"))
    assert captures
    for capture in captures:
        text = capture.read_bytes()
        assert read_spans(text) == read_spans(b"".join(to_protobuf(line) for line in text.splitlines()))
