"""Decoding: protobuf and JSON of the same spans give the same, and nothing that a body holds goes beyond its bounds."""

from __future__ import annotations

import base64
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Status, TracesData
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from otel_loopguard import dialects, policy
from otel_loopguard.attributes import RUN_CALLS
from otel_loopguard.digest import Key, Keyring
from otel_loopguard.facts import FactsReader
from otel_loopguard.files import Reason, otlp_wire
from otel_loopguard.files.sources import DamagedError
from otel_loopguard.files.spans import reporter
from otel_loopguard.model import Span, SpanEvent, Value
from otel_loopguard.scorer.decode import MAX_OBJECTS, MAX_PARTS, Decoded, Encoding, decode
from otel_loopguard.scorer.records import Refusal, RefusedError
from tests.files.convert import to_protobuf
from tests.files.otlp_samples import read_spans
from tests.scorer.receivers import BAD_IDS, GOOD, message, request

_CAPTURES = sorted((Path(__file__).parents[1] / "fixtures/spans").glob("*.jsonl"))
_IDS = frozenset({"traceId", "spanId", "parentSpanId"})

# --- made-up spans ------------------------------------------------------------------------------------

_TEXTS = st.one_of(st.text(max_size=20), st.text("ab", min_size=120, max_size=135), st.just("x" * 20_000))
_PLAIN_VALUES = st.one_of(
    st.builds(lambda text: AnyValue(string_value=text), _TEXTS),
    st.builds(lambda number: AnyValue(int_value=number), st.integers(-(2**63), 2**63 - 1)),
    st.builds(lambda number: AnyValue(int_value=number), st.integers(-300, 300)),
    st.builds(lambda truth: AnyValue(bool_value=truth), st.booleans()),
    st.builds(lambda number: AnyValue(double_value=number), st.floats(allow_nan=False)),
    st.builds(lambda raw: AnyValue(bytes_value=raw), st.binary(max_size=5)),
    st.just(AnyValue()),
)
_VALUES = st.recursive(
    _PLAIN_VALUES,
    lambda inner: st.one_of(
        st.builds(lambda values: AnyValue(array_value=ArrayValue(values=values)), st.lists(inner, max_size=3)),
        st.builds(
            lambda pairs: AnyValue(
                kvlist_value=KeyValueList(values=[KeyValue(key=key, value=value) for key, value in pairs.items()])
            ),
            st.dictionaries(st.text(max_size=3), inner, max_size=3),
        ),
    ),
    max_leaves=5,
)
# A key that tells of a dialect stands on each: the attributes of others are left out.
_ATTRIBUTES = st.dictionaries(st.text(max_size=8), _VALUES, max_size=4).map(
    lambda found: [
        KeyValue(key="gen_ai.operation.name", value=AnyValue(string_value="execute_tool")),
        *(KeyValue(key=key, value=value) for key, value in found.items()),
    ]
)
_TIMES = st.one_of(st.just(0), st.integers(0, 2**64 - 1))
_SPANS = st.builds(
    SpanMessage,
    trace_id=st.binary(min_size=16, max_size=16),
    span_id=st.binary(min_size=8, max_size=8),
    parent_span_id=st.one_of(st.just(b""), st.binary(min_size=8, max_size=8)),
    name=_TEXTS,
    kind=st.integers(0, 5),
    start_time_unix_nano=_TIMES,
    end_time_unix_nano=_TIMES,
    attributes=_ATTRIBUTES,
    status=st.builds(Status, code=st.integers(0, 2), message=_TEXTS),
    trace_state=st.sampled_from(["", "ot=th:8"]),
    events=st.lists(
        st.builds(SpanMessage.Event, name=_TEXTS, time_unix_nano=_TIMES, attributes=_ATTRIBUTES), max_size=2
    ),
    links=st.lists(
        st.builds(
            SpanMessage.Link, trace_id=st.binary(min_size=16, max_size=16), span_id=st.binary(min_size=8, max_size=8)
        ),
        max_size=2,
    ),
    dropped_attributes_count=st.sampled_from([0, 3]),
    dropped_events_count=st.sampled_from([0, 4]),
)
_REQUESTS = st.builds(
    TracesData,
    resource_spans=st.lists(
        st.builds(
            lambda attributes, scopes: ResourceSpans(resource=Resource(attributes=attributes), scope_spans=scopes),
            _ATTRIBUTES,
            st.lists(st.builds(lambda spans: ScopeSpans(spans=spans), st.lists(_SPANS, max_size=2)), max_size=2),
        ),
        min_size=1,
        max_size=2,
    ),
)


def _json(data: TracesData) -> bytes:
    """By protobuf's own JSON mapping, with ids in hex as OTLP has them."""

    def hexed(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                name: base64.b64decode(entry).hex() if name in _IDS and isinstance(entry, str) else hexed(entry)
                for name, entry in value.items()
            }
        return [hexed(entry) for entry in value] if isinstance(value, list) else value

    return json.dumps(hexed(MessageToDict(data))).encode()


@given(data=_REQUESTS)
def test_both_encodings_give_the_same(data: TracesData) -> None:
    """The same request in protobuf and in JSON gives equal spans and equal reasons."""
    assert decode(_json(data), Encoding.JSON) == decode(data.SerializeToString(), Encoding.PROTOBUF)


@pytest.mark.parametrize("capture", _CAPTURES, ids=lambda path: path.stem)
def test_captures_are_read_as_files_are(capture: Path) -> None:
    """A real capture gives what `replay` reads from its file, in both encodings, and reads as the same in a dialect."""
    for line in capture.read_bytes().splitlines():
        expected = [_known(span) for span in read_spans(line)]
        assert expected == [_known(span) for span in decode(line, Encoding.JSON).spans]
        found = decode(to_protobuf(line), Encoding.PROTOBUF).spans
        assert expected == [_known(span) for span in found]
        assert [dialects.read(span) for span in read_spans(line)] == [dialects.read(span) for span in found]


def _known(span: Span) -> Span:
    """The span, or only its place and times where no dialect knows it: more is not read from protobuf."""
    if dialects.read(span) is not None:
        return span
    return Span(
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_id=span.parent_id,
        name=span.name,
        scope=span.scope,
        start_ns=span.start_ns,
        end_ns=span.end_ns,
        resource=span.resource,
    )


@pytest.mark.parametrize("capture", _CAPTURES, ids=lambda path: path.stem)
def test_what_is_not_read_is_no_fact(capture: Path) -> None:
    """The facts of a capture are the same from both encodings, though of some spans only a part is read."""
    reader = FactsReader(policy.default(), Keyring(Key("k", bytes(32))).for_trace)
    for line in capture.read_bytes().splitlines():
        expected = [reader.of_span(span) for span in read_spans(line)]
        assert expected == [reader.of_span(span) for span in decode(to_protobuf(line), Encoding.PROTOBUF).spans]


# --- one span's fields --------------------------------------------------------------------------------


def _raw_attribute(value: bytes) -> tuple[Value, int]:
    """What an attribute of these value bytes is read as (`absent` for not at all), and how many were dropped."""
    pair = _field(9, _field(1, b"k") + _field(2, value))
    span = message().SerializeToString() + pair
    (read,) = decode(_field(1, _field(2, _field(2, span))), Encoding.PROTOBUF).spans
    return read.attributes.get("k", "absent"), read.dropped_attributes


def _field(number: int, body: bytes) -> bytes:
    """A length-delimited field as protobuf writes it."""
    length, size = b"", len(body)
    while size > 0x7F:
        length, size = length + bytes([size & 0x7F | 0x80]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + body


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"", (None, 0)),
        (b"\x0a\x00", ("", 0)),
        (b"\x0a\x01x", ("x", 0)),
        (b"\x0a\x81\x00x", ("x", 0)),  # a length longer than it need be
        (b"\x0a\x01x\x18\x05", (5, 0)),  # the last of several counts
        (b"\x18\x05\x0a\x01x", ("x", 0)),
        (b"\x18\x96\x01", (150, 0)),
        (b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", (-1, 0)),
        (b"\x10\x01", (True, 0)),
        (b"\x10\x00", (False, 0)),
        (b"\x21" + bytes(8), (0.0, 0)),
        (b"\x3a\x02\xff\xfe", (b"\xff\xfe", 0)),
        (b"\x0a\x01\xff", ("absent", 1)),  # not UTF-8
        (b"\x0a\x02x", ("absent", 1)),  # cut off
        (b"\x0a", ("absent", 1)),
        (b"\x0a\x80", ("absent", 1)),
        (b"\x18\x80", ("absent", 1)),
        (b"\x21\x00", ("absent", 1)),
        (b"\xff\xff", ("absent", 1)),
        (b"\x0a\xff\xff\xff\xff\x0fx", ("absent", 1)),
        (b"\x18" + b"\xff" * 30, ("absent", 1)),
    ],
)
def test_values_are_read_as_protobuf_reads_them(value: bytes, expected: tuple[Value, int]) -> None:
    """Each kind of value, and each kind of damage to one, costs at most that attribute."""
    assert expected == _raw_attribute(value)


def test_a_bad_span_costs_itself_only() -> None:
    """Spans without sound ids, and one that is no message, are rejected by reason; their neighbours are kept."""
    decoded = decode(BAD_IDS, Encoding.PROTOBUF)
    assert ["0" * 15 + "1"] == [span.span_id for span in decoded.spans]
    assert {"no_trace_id": 2, "bad_span_id": 1} == decoded.rejected
    broken = _field(1, _field(2, _field(2, b"\x0a\xff") + _field(2, message().SerializeToString())))
    decoded = decode(broken, Encoding.PROTOBUF)
    assert ({"bad_span": 1}, 1) == (decoded.rejected, len(decoded.spans))


def test_a_bad_part_of_a_span_is_mended() -> None:
    """A parent or a link that is none is left out and counted apart: the span was not rejected."""
    span = message(parent_span_id=b"\x01", links=[SpanMessage.Link()])
    decoded = decode(request(span), Encoding.PROTOBUF)
    assert ({}, {"bad_parent_id": 1, "bad_link_id": 1}, 1) == (decoded.rejected, decoded.mended, len(decoded.spans))


def test_times_are_kept_as_they_are() -> None:
    """Times before 1970, as JSON can write them, are read as they are, and past 64 bits are a reason."""
    span = {"traceId": "1" * 32, "spanId": "1" * 16, "startTimeUnixNano": "-5", "endTimeUnixNano": "-1"}
    late = {**span, "endTimeUnixNano": "99999999999999999999"}
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span, late]}]}]}).encode()
    decoded = decode(body, Encoding.JSON)
    assert [(-5, -1)] == [(span.start_ns, span.end_ns) for span in decoded.spans]
    assert {"bad_time": 1} == decoded.rejected


def test_attributes_that_nothing_reads_are_left_out() -> None:
    """A span of no dialect comes without attributes, but for one that says how many calls a run made."""
    pairs = [KeyValue(key="http.method", value=AnyValue(string_value="GET"))]
    closing = [KeyValue(key=RUN_CALLS, value=AnyValue(int_value=3))]
    decoded = decode(
        request(message(name="a", attributes=pairs), message(name="b", attributes=closing)), Encoding.PROTOBUF
    )
    assert [{}, {RUN_CALLS: 3}] == [span.attributes for span in decoded.spans]


def test_events_and_resources_are_read() -> None:
    """Events come with their attributes and times, and the spans of a resource share its attributes."""
    event = SpanMessage.Event(name="e", time_unix_nano=7, attributes=[KeyValue(key="k")])
    group = ResourceSpans(
        resource=Resource(attributes=[KeyValue(key="service.name", value=AnyValue(string_value="s"))]),
        scope_spans=[ScopeSpans(spans=[message(events=[event]), message(2)])],
    )
    first, second = decode(TracesData(resource_spans=[group]).SerializeToString(), Encoding.PROTOBUF).spans
    assert (SpanEvent("e", {"k": None}, 7),) == first.events
    assert {"service.name": "s"} == first.resource
    assert first.resource is second.resource


# --- bodies that are no requests ----------------------------------------------------------------------


def _refusal(body: bytes, encoding: Encoding) -> Refusal | None:
    try:
        decode(body, encoding)
    except RefusedError as refused:
        return refused.reason
    return None


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        (Encoding.PROTOBUF, b""),
        (Encoding.PROTOBUF, b"\x0a\x00"),
        (Encoding.JSON, b"{}"),
        (Encoding.JSON, b'{"resourceSpans": []}'),
        (Encoding.JSON, b'{"resourceSpans": null}'),
    ],
)
def test_empty_requests_are_sound(encoding: Encoding, body: bytes) -> None:
    """A request without spans is one all the same: there is nothing to lose."""
    assert Decoded(spans=()) == decode(body, encoding)


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        (Encoding.PROTOBUF, b"\xff"),
        (Encoding.PROTOBUF, b"{}"),
        (Encoding.PROTOBUF, b"\x0a\xff\xff\xff\xff\x0f"),
        (Encoding.PROTOBUF, b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        (Encoding.PROTOBUF, b"\x10\x05"),
        (Encoding.PROTOBUF, b"\x00\x00"),
        (Encoding.PROTOBUF, b"\x0b\x0c"),
        (Encoding.PROTOBUF, GOOD[:-1]),
        (Encoding.PROTOBUF, GOOD + b"\x0a"),
        (Encoding.PROTOBUF, GOOD + b"\x0a\x05\x12\x09"),
        (Encoding.JSON, b""),
        (Encoding.JSON, b"null"),
        (Encoding.JSON, b"[]"),
        (Encoding.JSON, b"{"),
        (Encoding.JSON, b'{"x": 1}'),
        (Encoding.JSON, b'{"resourceSpans": [], "resourceSpans": []}'),
        (Encoding.JSON, b'{"resourceLogs": [{"scopeLogs": []}]}'),
        (Encoding.JSON, b'{"resourceMetrics": [1]}'),
        (Encoding.JSON, b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "\xff"}]}]}]}'),
        (Encoding.JSON, b"[" * 100_000),
        (Encoding.JSON, b'{"resourceSpans":' * 100_000),
        (Encoding.JSON, b'{"resource_spans": [' + b"[" * 100_000 + b"]" * 100_000 + b"]}"),
        (Encoding.JSON, GOOD),
    ],
)
def test_what_is_no_request_is_refused(encoding: Encoding, body: bytes) -> None:
    """A body that is damaged or something else is refused as a whole, and not half read."""
    assert Refusal.MALFORMED == _refusal(body, encoding)


def test_deep_json_values_cost_their_attribute() -> None:
    """A value nested past the bound is left out and counted as dropped."""
    value = '{"stringValue":"x"}'
    for _ in range(200):
        value = f'{{"arrayValue":{{"values":[{value}]}}}}'
    span = f'{{"traceId":"{"1" * 32}","spanId":"{"1" * 16}","attributes":[{{"key":"k","value":{value}}}]}}'
    (read,) = decode(f'{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{span}]}}]}}]}}'.encode(), Encoding.JSON).spans
    assert ({}, 1) == (read.attributes, read.dropped_attributes)


def test_deep_protobuf_values_cost_their_attribute() -> None:
    """The same in protobuf."""
    value = b"\x0a\x01x"
    for _ in range(1000):
        value = _field(5, _field(1, value))
    assert ("absent", 1) == _raw_attribute(value)


# --- bounds -------------------------------------------------------------------------------------------

_EMPTY_SPANS = _field(1, _field(2, b"\x12\x00" * 5_000_000))
_EMPTY_EVENTS = _field(1, _field(2, _field(2, message().SerializeToString() + b"\x5a\x00" * 5_000_000)))
_EMPTY_VALUES = _field(
    1,
    _field(
        2,
        _field(2, message().SerializeToString() + _field(9, _field(2, _field(5, b"\x0a\x00" * 5_000_000)))),
    ),
)


@pytest.mark.parametrize(
    ("encoding", "body", "expected"),
    [
        (Encoding.PROTOBUF, _EMPTY_SPANS, Refusal.TOO_LARGE_UNPACKED),
        (Encoding.PROTOBUF, b"\x0a\x00" * 5_000_000, Refusal.TOO_LARGE_UNPACKED),
        (Encoding.PROTOBUF, _field(1, b"\x12\x00" * 5_000_000), Refusal.TOO_LARGE_UNPACKED),
        (Encoding.PROTOBUF, _EMPTY_EVENTS, None),
        (Encoding.PROTOBUF, _EMPTY_VALUES, None),
        (
            Encoding.JSON,
            b'{"resourceSpans":[{"scopeSpans":[{"spans":[' + b"{}," * 5_000_000 + b"{}]}]}]}",
            Refusal.TOO_LARGE_UNPACKED,
        ),
        (Encoding.JSON, b'{"resource_spans":[' + b'"",' * 5_000_000 + b'""]}', Refusal.TOO_LARGE_UNPACKED),
    ],
    ids=["spans", "resources", "scopes", "events", "values", "json-spans", "loose-json"],
)
def test_millions_of_empty_parts_take_no_memory(encoding: Encoding, body: bytes, expected: Refusal | None) -> None:
    """Two bytes can ask for a hundred: parts are counted before they are made."""
    tracemalloc.start()
    try:
        assert expected == _refusal(body, encoding)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * len(body)


@pytest.mark.parametrize("within", [False, True], ids=["request", "resource"])
def test_unknown_fields_are_passed_over_unless_they_are_many(*, within: bool) -> None:
    """A newer schema has some; a body of nothing else, which packs into a thousandth, is not walked to its end."""

    def with_fields(number: int) -> bytes:
        unknown = b"\x7a\x00" * number
        parts = TracesData(resource_spans=[ResourceSpans.FromString(unknown)]).SerializeToString()
        return request(message()) + (parts if within else unknown)

    assert 1 == len(decode(with_fields(900), Encoding.PROTOBUF).spans)
    assert Refusal.TOO_LARGE_UNPACKED is _refusal(with_fields(5000), Encoding.PROTOBUF)


def test_a_span_of_too_many_parts_is_rejected() -> None:
    """It is rejected with a reason of its own, and its neighbour is kept; below the bound it is read."""
    most = otlp_wire.MAX_PARTS
    many = [KeyValue(key=f"key-{number}", value=AnyValue(int_value=1)) for number in range(most + 1)]
    decoded = decode(request(message(attributes=many), message(2)), Encoding.PROTOBUF)
    assert ({"too_many": 1}, 1) == (decoded.rejected, len(decoded.spans))
    (span,) = decode(request(message(attributes=[*message().attributes, *many[: most - 10]])), Encoding.PROTOBUF).spans
    assert most - 8 == len(span.attributes)


def test_a_nested_value_may_be_large_but_not_huge() -> None:
    """A list of a hundred thousand bytes is read; one past a MiB is left out and counted as dropped."""
    entries = [AnyValue(string_value="x" * 100) for _ in range(1000)]
    large = AnyValue(array_value=ArrayValue(values=entries)).SerializeToString()
    assert (["x" * 100] * 1000, 0) == _raw_attribute(large)
    huge = AnyValue(array_value=ArrayValue(values=entries * 12)).SerializeToString()
    assert ("absent", 1) == _raw_attribute(huge)


def test_requests_of_very_many_spans_are_refused() -> None:
    """More parts than a request may have are asked for in smaller requests, whatever the encoding."""
    span = message().SerializeToString()
    body = _field(1, _field(2, _field(2, span) * MAX_PARTS))
    assert Refusal.TOO_LARGE_UNPACKED == _refusal(body, Encoding.PROTOBUF)
    objects = b'{"resourceSpans":[' + b"{}," * MAX_OBJECTS + b"{}]}"
    assert Refusal.TOO_LARGE_UNPACKED == _refusal(objects, Encoding.JSON)


def test_reading_files_has_bounds_of_its_own() -> None:
    """Without a bound of the caller's, parts are bounded by what sound ones would take."""
    report = reporter("f", None)
    bad = otlp_wire.items(_field(1, _field(2, b"\x12\x00" * 500)), report)
    assert [Reason.NO_TRACE_ID.value] * 500 == [getattr(item, "reason", None) for item in bad]
    with pytest.raises(DamagedError):
        otlp_wire.items(_EMPTY_SPANS, report)
