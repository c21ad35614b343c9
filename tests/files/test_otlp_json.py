"""OTLP in JSON: what becomes of each field, and that damage costs one span and no more."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import pytest

from otel_loopguard.files import Reason
from otel_loopguard.model import Span, SpanEvent
from tests.files.otlp_samples import SPAN_ID, TRACE_ID, attribute, line, read, read_spans, reasons, request, span

_EXPECTED = Span(
    trace_id=TRACE_ID,
    span_id=SPAN_ID,
    name="execute_tool lookup_order",
    kind=1,
    scope="lib",
    start_ns=1000,
    end_ns=2000,
    attributes={"gen_ai.tool.name": "lookup_order"},
    resource={"service.name": "shop"},
)


def test_reads_every_field_of_a_span() -> None:
    """Each field of an OTLP span reaches the record's field of that meaning."""
    full = span(
        parentSpanId="00f067aa0ba902b7",
        traceState="ot=th:8",
        status={"code": 2, "message": "no"},
        events=[{"timeUnixNano": "1500", "name": "exception", "attributes": [attribute("t", stringValue="E")]}],
        links=[{"traceId": TRACE_ID, "spanId": "00f067aa0ba902b7"}],
        droppedAttributesCount=3,
        droppedEventsCount=4,
    )
    expected = Span(
        trace_id=TRACE_ID,
        span_id=SPAN_ID,
        parent_id="00f067aa0ba902b7",
        name="execute_tool lookup_order",
        kind=1,
        scope="lib",
        start_ns=1000,
        end_ns=2000,
        status_code=2,
        status_message="no",
        attributes={"gen_ai.tool.name": "lookup_order"},
        events=(SpanEvent("exception", {"t": "E"}, 1500),),
        links=((TRACE_ID, "00f067aa0ba902b7"),),
        resource={"service.name": "shop"},
        trace_state="ot=th:8",
        dropped_attributes=3,
        dropped_events=4,
    )
    assert [expected] == read_spans(line(request(full)))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"stringValue": "a"}, "a"),
        ({"stringValue": ""}, ""),
        ({"intValue": "7"}, 7),
        ({"intValue": 7}, 7),
        ({"intValue": 7.0}, 7),
        ({"intValue": "-9223372036854775808"}, -(2**63)),
        ({"boolValue": False}, False),
        ({"doubleValue": 1.5}, 1.5),
        ({"doubleValue": "1.5"}, 1.5),
        ({"doubleValue": "-Infinity"}, -math.inf),
        ({"bytesValue": base64.b64encode(b"\xff\x00\xfe").decode()}, b"\xff\x00\xfe"),
        ({"bytesValue": base64.urlsafe_b64encode(b"\xff\x00\xfe").decode()}, b"\xff\x00\xfe"),
        ({"arrayValue": {"values": [{"stringValue": "a"}, {}, {"intValue": "1"}]}}, ["a", None, 1]),
        ({"arrayValue": {}}, []),
        ({"kvlistValue": {"values": [{"key": "k", "value": {"kvlistValue": {"values": []}}}]}}, {"k": {}}),
        ({}, None),
        (None, None),
        ({"newerValue": 1}, None),
    ],
)
def test_reads_every_kind_of_attribute_value(value: Any, expected: Any) -> None:
    """Each kind of OTLP value becomes the Python value that stands for it, with its exact type."""
    (read_span,) = read_spans(line(request(span(attributes=[{"key": "k", "value": value}]))))
    assert expected == read_span.attributes["k"]
    assert type(expected) is type(read_span.attributes["k"])


def test_reads_nan() -> None:
    """NaN, which JSON cannot hold, arrives as text and becomes a float."""
    (read_span,) = read_spans(line(request(span(attributes=[attribute("k", doubleValue="NaN")]))))
    assert math.isnan(read_span.attributes["k"])


def test_last_of_two_equal_attribute_keys_wins() -> None:
    """OTLP leaves equal keys undefined; we take the last."""
    twice = [attribute("k", stringValue="a"), attribute("k", stringValue="b")]
    assert {"k": "b"} == read_spans(line(request(span(attributes=twice))))[0].attributes


@pytest.mark.parametrize(
    "value",
    [
        {"intValue": "x"},
        {"intValue": ""},
        {"intValue": 1.5},
        {"intValue": True},
        {"intValue": 2**63},
        {"intValue": str(-(2**63) - 1)},
        {"intValue": 1e300},
        {"doubleValue": "x"},
        {"bytesValue": "a"},
        {"stringValue": 5},
        {"arrayValue": {"values": 5}},
        "plain",
    ],
)
def test_malformed_attribute_counts_as_dropped(value: Any) -> None:
    """A value that does not fit its kind is left out and counted, and the span and its other attributes stay."""
    (read_span,) = read_spans(
        line(request(span(attributes=[{"key": "k", "value": value}, attribute("n", intValue=1)])))
    )
    assert ({"n": 1}, 1) == (read_span.attributes, read_span.dropped_attributes)


@pytest.mark.parametrize("levels", [128, 129])
def test_nesting_is_bounded(levels: int) -> None:
    """A value nested 128 lists deep is read; one level more is dropped and counted."""
    value: dict[str, Any] = {"stringValue": "x"}
    for _ in range(levels):
        value = {"arrayValue": {"values": [value]}}
    (read_span,) = read_spans(line(request(span(attributes=[{"key": "k", "value": value}]))))
    assert (levels > 128) == (read_span.dropped_attributes == 1) == ("k" not in read_span.attributes)


def test_requests_nested_past_all_reason() -> None:
    """A request that is nested too deep costs its line only, whichever reader meets it."""
    deep = '{"arrayValue":{"values":[' * 5000 + "{}" + "]}}" * 5000
    text = json.dumps(request(span(attributes=[{"key": "k", "value": "DEEP"}]))).replace('"DEEP"', deep)
    items = read(text.encode() + b"\n" + line(request(span())))
    assert [_EXPECTED] == items[-1:]
    assert [(1, Reason.TOO_DEEP)] == reasons(text.encode() + b"\n")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"traceId": None}, Reason.NO_TRACE_ID),
        ({"traceId": ""}, Reason.NO_TRACE_ID),
        ({"traceId": "0" * 32}, Reason.NO_TRACE_ID),
        ({"traceId": TRACE_ID[:-1]}, Reason.BAD_TRACE_ID),
        ({"traceId": TRACE_ID + "0"}, Reason.BAD_TRACE_ID),
        ({"traceId": TRACE_ID[:-1] + "g"}, Reason.BAD_TRACE_ID),
        ({"traceId": base64.b64encode(bytes(range(16))).decode()}, Reason.BASE64_ID),
        ({"traceId": 5}, Reason.BAD_SPAN),
        ({"spanId": None}, Reason.NO_SPAN_ID),
        ({"spanId": "0" * 16}, Reason.NO_SPAN_ID),
        ({"spanId": SPAN_ID[:-1]}, Reason.BAD_SPAN_ID),
        ({"spanId": base64.b64encode(bytes(range(8))).decode()}, Reason.BASE64_ID),
        ({"startTimeUnixNano": "soon"}, Reason.BAD_TIME),
        ({"endTimeUnixNano": "9" * 21}, Reason.BAD_TIME),
        ({"endTimeUnixNano": str(2**64)}, Reason.BAD_TIME),
        ({"startTimeUnixNano": -(2**63) - 1}, Reason.BAD_TIME),
        ({"startTimeUnixNano": 1e300}, Reason.BAD_TIME),
        ({"name": ["x"]}, Reason.BAD_SPAN),
        ({"events": 5}, Reason.BAD_SPAN),
    ],
)
def test_bad_span_costs_itself_only(changes: dict[str, Any], reason: Reason) -> None:
    """A span that cannot be used gives its reason and line, and its neighbours are read as ever."""
    before, after = span(spanId="1" * 16), span(spanId="2" * 16)
    items = read(b"\n" + line(request(before, span(**changes), after)))
    assert ["1" * 16, "2" * 16] == [item.span_id for item in items if isinstance(item, Span)]
    assert [(2, reason)] == reasons(b"\n" + line(request(before, span(**changes), after)))


def test_lone_surrogates_where_no_text_belongs() -> None:
    """Half a surrogate pair in place of an attribute or a list costs that part, and raises nothing."""
    (read_span,) = read_spans(line(request(span(attributes=["\ud800"]))))
    assert 1 == read_span.dropped_attributes
    assert [(1, Reason.BAD_SPAN)] == reasons(line(request(span(events="\ud800"))))


@pytest.mark.parametrize("not_a_span", [None, 5, "x", []])
def test_something_else_among_spans(not_a_span: Any) -> None:
    """What is no object among the spans gives a reason, and the span beside it is read."""
    items = read(line(request(not_a_span, span())))
    assert [Reason.BAD_SPAN] == [item.reason for item in items if not isinstance(item, Span | None)]  # type: ignore[union-attr]
    assert [_EXPECTED] == [item for item in items if isinstance(item, Span)]


def test_upper_case_ids_are_lowered() -> None:
    """Ids in upper case are the same ids."""
    upper = span(traceId=TRACE_ID.upper(), spanId=SPAN_ID.upper(), parentSpanId="00F067AA0BA902B7")
    (read_span,) = read_spans(line(request(upper)))
    assert (TRACE_ID, SPAN_ID, "00f067aa0ba902b7") == (read_span.trace_id, read_span.span_id, read_span.parent_id)


@pytest.mark.parametrize("parent", [None, "", "0" * 16])
def test_root_span_has_no_parent(parent: str | None) -> None:
    """Absent, empty and zero parent ids all mean a root."""
    assert read_spans(line(request(span(parentSpanId=parent))))[0].parent_id is None


def test_bad_parent_and_link_keep_the_span() -> None:
    """A parent or link that cannot be one is reported and left out, and the span is kept."""
    items = read(line(request(span(parentSpanId="xyz", links=[{"traceId": "1"}]))))
    assert [_EXPECTED] == items[:1]
    assert [(1, Reason.BAD_PARENT_ID), (1, Reason.BAD_LINK_ID)] == reasons(
        line(request(span(parentSpanId="xyz", links=[{"traceId": "1"}])))
    )


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ("1000", "2000", (1000, 2000)),
        (1000, 2000, (1000, 2000)),
        (1.0e3, 2.0e3, (1000, 2000)),
        ("1000", None, (1000, None)),
        ("1000", "0", (1000, None)),
        ("2000", "1000", (2000, 1000)),
        ("-5", "18446744073709551615", (-5, 2**64 - 1)),
        (None, None, (0, None)),
    ],
)
def test_times_are_kept_as_they_are(start: Any, end: Any, expected: tuple[int, int | None]) -> None:
    """Numbers or text, negative, huge or reversed: a time is handed on; no end or end 0 means an open span."""
    (read_span,) = read_spans(line(request(span(startTimeUnixNano=start, endTimeUnixNano=end))))
    assert expected == (read_span.start_ns, read_span.end_ns)


@pytest.mark.parametrize(
    ("kind", "code", "expected"),
    [
        (3, 2, (3, 2)),
        ("SPAN_KIND_CLIENT", "STATUS_CODE_ERROR", (3, 2)),
        ("3", "2", (3, 2)),
        (99, 99, (0, 0)),
        ("SPAN_KIND_NEW", "STATUS_CODE_NEW", (0, 0)),
    ],
)
def test_enumerations_by_number_or_name(kind: Any, code: Any, expected: tuple[int, int]) -> None:
    """Kinds and status codes come as numbers or, after protobuf's JSON mapping, as names."""
    (read_span,) = read_spans(line(request(span(kind=kind, status={"code": code}))))
    assert expected == (read_span.kind, read_span.status_code)


def test_snake_case_names_are_read() -> None:
    """Protobuf's JSON mapping may keep the field names of the schema; attribute keys stay as they are."""
    snake = {
        "resource_spans": [
            {
                "resource": {"attributes": [{"key": "service.name", "value": {"string_value": "shop"}}]},
                "scope_spans": [
                    {
                        "scope": {"name": "lib"},
                        "spans": [
                            {
                                "trace_id": TRACE_ID,
                                "span_id": SPAN_ID,
                                "name": "execute_tool lookup_order",
                                "kind": "SPAN_KIND_INTERNAL",
                                "start_time_unix_nano": "1000",
                                "end_time_unix_nano": "2000",
                                "attributes": [{"key": "trace_id", "value": {"string_value": "lookup_order"}}],
                            }
                        ],
                    }
                ],
            }
        ]
    }
    (read_span,) = read_spans(line(snake))
    assert {"trace_id": "lookup_order"} == read_span.attributes
    assert ("shop", 1, 2000, 1) == (
        read_span.resource["service.name"],
        read_span.kind,
        read_span.end_ns,
        read_span.kind,
    )


@pytest.mark.parametrize(
    ("outer", "inner"),
    [("resourceSpans", "scope_spans"), ("resource_spans", "scopeSpans")],
)
def test_mixed_names_lose_nothing(outer: str, inner: str) -> None:
    """A request that mixes both spellings is read whole."""
    assert [_EXPECTED.span_id] == [
        item.span_id for item in read_spans(line({outer: [{inner: [{"scope": {"name": "lib"}, "spans": [span()]}]}]}))
    ]


@pytest.mark.parametrize("names", [("resourceSpans", "resource_spans"), ("resource_spans", "resourceSpans")])
def test_both_spellings_in_one_object_lose_nothing(names: tuple[str, str]) -> None:
    """What stands under either name is read, in the order of the names; one of them may hold nothing."""
    first, second = request(span()), request(span(spanId="2" * 16))
    both = {name: one["resourceSpans"] for name, one in zip(names, (first, second), strict=True)}
    assert [SPAN_ID, "2" * 16] == [item.span_id for item in read_spans(line(both))]
    scoped = {"scopeSpans": [{"spans": [span()]}], "scope_spans": None}
    assert [SPAN_ID] == [item.span_id for item in read_spans(line({"resourceSpans": [scoped]}))]


def test_null_means_absent() -> None:
    """Null stands for an absent field everywhere, as in protobuf's JSON mapping."""
    bare = {"traceId": TRACE_ID, "spanId": SPAN_ID}
    nulls = {
        **bare,
        "parentSpanId": None,
        "name": None,
        "kind": None,
        "attributes": None,
        "events": None,
        "links": None,
        "status": None,
        "startTimeUnixNano": None,
    }
    assert read_spans(line(request(bare))) == read_spans(line(request(nulls)))


def test_unknown_fields_are_ignored() -> None:
    """Fields of a newer schema change nothing."""
    newer = request(span(newField={"a": [1]}))
    newer["resourceSpans"][0]["entity"] = 1
    assert [_EXPECTED] == read_spans(line(newer))


@pytest.mark.parametrize(
    ("other", "reason"),
    [("resourceLogs", Reason.SKIPPED_LOGS), ("resourceMetrics", Reason.SKIPPED_METRICS)],
)
def test_other_signals_are_skipped_and_counted(other: str, reason: Reason) -> None:
    """A line of logs or metrics is passed over with a reason, and the spans beside it are read."""
    both = {**request(span()), other: [{}]}
    items = read(line({other: [{}]}) + line(both))
    assert [_EXPECTED] == [item for item in items if isinstance(item, Span)]
    assert [(1, reason), (2, reason)] == reasons(line({other: [{}]}) + line(both))


def test_empty_requests_give_nothing() -> None:
    """A request without spans is no error."""
    empty = [{"resourceSpans": []}, {"resourceSpans": [{}]}, {"resourceSpans": [{"scopeSpans": [{}]}]}, request()]
    assert [] == read(b"".join(map(line, empty)))


def test_fast_and_careful_reading_agree() -> None:
    """A span that sends its line through careful reading does not change what its neighbour reads as."""
    rich = span(
        attributes=[
            attribute("i", intValue="3"),
            attribute("d", doubleValue=2),
            attribute("a", arrayValue={"values": [{"boolValue": True}]}),
        ],
        events=[{"name": "e"}],
        status={"code": 1},
    )
    assert read_spans(line(request(rich))) == read(line(request(rich, span(name=["x"]))))[:1]


@pytest.mark.parametrize("key", ["resourceSpans", "scopeSpans", "spans"])
def test_a_list_that_stands_twice_is_not_lost_without_a_word(key: str) -> None:
    """A decoder keeps the last of two equal keys: the spans of the first would be gone."""
    text = line(request(span())).decode()
    assert f'"{key}"' in text
    broken = text.replace(f'"{key}"', f'"{key}": [], "{key}"', 1)
    assert [(1, "duplicate_key")] == reasons(broken.encode())


def test_an_attribute_named_like_a_list_is_no_duplicate() -> None:
    """`spans` is a fine name and a fine value."""
    (found,) = read_spans(line(request(span(attributes=[attribute("spans", stringValue="spans")]))))
    assert {"spans": "spans"} == found.attributes
