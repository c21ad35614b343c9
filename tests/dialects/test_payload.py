"""Decoding of payloads: each encoding, each reason, and input that is made to hurt."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_loopguard.canonical import MAX_TEXT_BYTES, Opaque
from otel_loopguard.dialects import payload
from otel_loopguard.dialects.reading import Content
from otel_loopguard.model import Span, Unknown

ARGUMENTS = {"order_id": "A12", "include_items": True}


@pytest.mark.parametrize(
    "carried",
    [
        '{"order_id":"A12","include_items":true}',
        '{"include_items": true, "order_id": "A12"}',
        "{'order_id': 'A12', 'include_items': True}",
        json.dumps(json.dumps(ARGUMENTS)),
        json.dumps(json.dumps(json.dumps(ARGUMENTS))),
        b'{"order_id":"A12","include_items":true}',
        ARGUMENTS,
        "  " + json.dumps(ARGUMENTS) + "\n",
    ],
)
def test_arguments_in_every_encoding(carried: Any) -> None:
    """JSON text, key order, repr, JSON in JSON, bytes and structured values are one value."""
    assert Content(ARGUMENTS) == payload.arguments(carried)


@pytest.mark.parametrize("levels", [4, 9])
def test_text_in_text_is_decoded_to_its_end(levels: int) -> None:
    """However often text was encoded, one value comes out: encoding doubles the escapes, so the end is near."""
    carried: Any = {"a": 1}
    for _ in range(levels):
        carried = json.dumps(carried)
    assert Content({"a": 1}) == payload.result(carried)


@pytest.mark.parametrize(
    ("carried", "reason"),
    [
        (None, Unknown.NOT_CAPTURED),
        ("", Unknown.NOT_CAPTURED),
        ("J7", Unknown.UNPARSABLE),
        ('{"a": 1, "a": 2}', Unknown.UNPARSABLE),
        ('{"a": 1} and more', Unknown.UNPARSABLE),
        ("__REDACTED__", Unknown.REDACTED),
        ("[REDACTED]", Unknown.REDACTED),
        ("<redacted>", Unknown.REDACTED),
        ("****", Unknown.REDACTED),
        ("[Scrubbed due to 'password']", Unknown.REDACTED),
        ('{"order_id": "[REDACTED]"}', Unknown.REDACTED),
        ('{"q": {"deep": ["[Scrubbed due to \'auth\']"]}}', Unknown.REDACTED),
        ('{"q": "token __REDACTED__ in text"}', Unknown.REDACTED),
        ({"q": "__REDACTED__"}, Unknown.REDACTED),
        ('{"doc":"report","body":"xxxxxxxxxxxxxxxxxxxxxxxx', Unknown.TRUNCATED),
        ('{"doc":"report","bo', Unknown.TRUNCATED),
        ('{"doc":', Unknown.TRUNCATED),
        ('{"n": 12, "flag": tr', Unknown.TRUNCATED),
        ('{"n": [1, 2, 3', Unknown.TRUNCATED),
        ('{"text": "ends in an escape \\', Unknown.TRUNCATED),
        ("{'doc': 'report', 'body': 'xxxx", Unknown.TRUNCATED),
        ("{", Unknown.TRUNCATED),
        ("order A12 and all the ite…", Unknown.TRUNCATED),
        ("order A12 [truncated 900 chars]", Unknown.TRUNCATED),
        ('{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}', Unknown.SCHEMA_NOT_ARGUMENTS),
        ('{"properties":{"a":{"title":"A"}},"required":["a"],"title":"x"}', Unknown.SCHEMA_NOT_ARGUMENTS),
        ('{"order_id":{"type":"string","description":"the id"}}', Unknown.SCHEMA_NOT_ARGUMENTS),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, Unknown.SCHEMA_NOT_ARGUMENTS),
    ],
)
def test_arguments_that_are_not_known(carried: Any, reason: Unknown) -> None:
    """Every way in which arguments can be missing has its reason and no value."""
    assert Content(unknown=reason) == payload.arguments(carried)


@pytest.mark.parametrize("text", ['{"doc":"report","body":"' + "x" * 40 + end for end in ('one"}', 'two"}', 'three"}')])
def test_three_different_calls_cut_at_one_place_are_no_repeat(text: str) -> None:
    """Arguments cut at the SDK's limit share their prefix: a digest of it would make different calls equal."""
    assert Unknown.TRUNCATED is payload.arguments(text[:48]).unknown


@pytest.mark.parametrize(
    "arguments",
    [
        {"type": "object", "name": "x"},
        {"properties": {"colour": "red"}, "type": "car"},
        {"filter": {"type": "string"}},
        {"description": "x", "type": "string"},
    ],
)
def test_arguments_that_only_look_like_a_schema(arguments: dict[str, Any]) -> None:
    """A call may well have arguments named type or properties."""
    assert Content(arguments) == payload.arguments(json.dumps(arguments))


@pytest.mark.parametrize(
    ("carried", "value"),
    [
        ("task 1 finished", "task 1 finished"),
        ('"task 1 finished"', "task 1 finished"),
        ("", ""),
        ("null", None),
        ("true", True),
        ("12", 12),
        ('"12"', 12),
        ("007", "007"),
        ("[INFO] started", "[INFO] started"),
        ("{x} is empty", "{x} is empty"),
        ("An error occurred while running the tool...", "An error occurred while running the tool..."),
        ("[link](http://example.org) (see", "[link](http://example.org) (see"),
        ("(1) first (2) second", "(1) first (2) second"),
        ("(filtered by date)", "(filtered by date)"),
        ("the rows were filtered and masked", "the rows were filtered and masked"),
        ('{"a": 1, "a": 2}', '{"a": 1, "a": 2}'),
        ("{'a': (1, None), 'b': {2: b'x'}}", {"a": [1, None], "b": {"2": b"x"}}),
        ("Order(id='A12')", "Order(id='A12')"),
        (b"\xff\x00", b"\xff\x00"),
        ([], []),
        (0, 0),
        (False, False),
    ],
)
def test_results(carried: Any, value: Any) -> None:
    """Text that is JSON or a container's repr is its value; other text is itself."""
    read = payload.result(carried)
    assert (None, type(value), value) == (read.unknown, type(read.value), read.value)


@pytest.mark.parametrize(
    ("carried", "reason"),
    [
        (None, Unknown.NOT_CAPTURED),
        ("__REDACTED__", Unknown.REDACTED),
        ('{"name": "[REDACTED]", "id": 4}', Unknown.REDACTED),
        ('{"rows": [{"id": 1}, {"i', Unknown.TRUNCATED),
        ('"a long text that JSON wrote and a limit cu', Unknown.TRUNCATED),
    ],
)
def test_results_that_are_not_known(carried: Any, reason: Unknown) -> None:
    """A result has the same reasons."""
    assert Content(unknown=reason) == payload.result(carried)


def test_words_of_python_only_where_the_dialect_writes_repr() -> None:
    """`None` is a word unless the dialect is known to write str(result)."""
    assert "None" == payload.result("None").value
    assert (None, None) == (
        payload.result("None", from_repr=True).value,
        payload.result("None", from_repr=True).unknown,
    )
    assert payload.result("True", from_repr=True).value is True


def test_bare_values_only_where_the_dialect_writes_them() -> None:
    """The lone argument of a one-argument tool is a value there, and unparsable elsewhere."""
    assert Content("J7") == payload.arguments("J7", bare=True)
    assert Unknown.REDACTED is payload.arguments("__REDACTED__", bare=True).unknown
    assert Unknown.TRUNCATED is payload.arguments('{"a": "x', bare=True).unknown


def test_call_records_carry_null_as_a_value() -> None:
    """A record's null arguments are none, its null result is null; a span's are absent."""
    assert Content(None) == payload.content(None)
    assert Content(None) == payload.content(None, arguments=True)
    assert Content({"a": 1}) == payload.content('{"a": 1}', arguments=True)
    assert Unknown.NOT_CAPTURED is payload.arguments(None).unknown


def test_nan_is_one_value() -> None:
    """A NaN token in arguments gives a value, equal for equal text."""
    read = payload.arguments('{"v": NaN}')
    assert read.unknown is None
    assert math.isnan(read.value["v"])


def test_dropped_is_told_from_never_there() -> None:
    """A span that lost attributes cannot say that an absent one was never there."""
    lost = Span(trace_id="1", span_id="2", dropped_attributes=31)
    assert Unknown.DROPPED is payload.or_missing(payload.arguments(None), lost).unknown
    assert Unknown.NOT_CAPTURED is payload.or_missing(payload.arguments(None), Span(trace_id="1", span_id="2")).unknown
    assert Unknown.REDACTED is payload.or_missing(payload.REDACTED, lost).unknown


@pytest.mark.parametrize(
    ("carried", "value"),
    [
        ('[{"text": "{\\"a\\": 1}"}]', {"a": 1}),
        ('[{"type": "text", "text": "hi"}]', "hi"),
        ('[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]', "a\nb"),
        ('[{"json": {"a": 1}}]', {"a": 1}),
        ('[{"json": "12"}]', 12),
        ('[{"json": null}]', None),
        ('[{"toolResult": {"toolUseId": "c1", "status": "success", "content": [{"text": "x"}]}}]', "x"),
        ('[{"type": "image", "data": "…"}]', [{"type": "image", "data": "…"}]),
        ('[{"text": "a", "score": 1}]', [{"text": "a", "score": 1}]),
        ("[]", []),
        ('{"text": "a"}', {"text": "a"}),
    ],
)
def test_content_blocks(carried: str, value: Any) -> None:
    """Blocks of text are their text; a tool's own list of dicts is left alone."""
    assert Content(value) == payload.blocks(payload.result(carried))


def test_tool_messages() -> None:
    """A ToolMessage gives its content, its id apart, and whether it is an error."""
    message = {"content": '{"a": 1}', "tool_call_id": "call_1", "status": "error", "type": "tool"}
    constructor = {"lc": 1, "type": "constructor", "id": ["langchain", "ToolMessage"], "kwargs": message}
    for envelope in (message, {"output": message}, {"output": constructor, "kwargs": {}}, constructor):
        assert (Content({"a": 1}), "call_1", True) == payload.tool_message(Content(envelope))
    assert (Content({"content": 1}), None, None) == payload.tool_message(Content({"content": 1}))


def test_mcp_results() -> None:
    """Structured content first, then blocks; the error mark is read; a tool's own `result` key is left alone."""
    blocks = [{"type": "text", "text": "locked"}]
    assert (Content("locked"), True) == payload.mcp_result(Content({"content": blocks, "isError": True}))
    assert (Content("locked"), True) == payload.mcp_result(Content({"result": blocks, "is_error": True}))
    both = {"content": blocks, "structuredContent": {"a": 1}}
    assert (Content({"a": 1}), False) == payload.mcp_result(Content(both))
    assert (Content({"result": 5}), False) == payload.mcp_result(Content({"result": 5}))


def test_unwrapping() -> None:
    """The named envelope is taken off and decoded again; where it is absent, the content stays."""
    assert Content({"a": 1}) == payload.unwrap_arguments(Content({"kwargs": '{"a": 1}'}), "inputs", "kwargs")
    assert Content({"a": 1}) == payload.unwrap_arguments(Content({"a": 1}), "kwargs")
    assert Content(None) == payload.unwrap(Content({"output": None}), "output")
    assert payload.REDACTED == payload.unwrap_arguments(payload.REDACTED, "kwargs")


HURTS = {
    "deep brackets": "[" * 200_000,
    "deep dicts": '{"a":' * 100_000,
    "deep reprs": "{'a': (" * 60_000,
    "quotes": '"' * 400_000,
    "backslashes": '"' + "\\" * 400_001,
    "signs": "[" + "-" * 200_000 + "1]",
    "digits": "[" + "9" * 200_000 + "]",
    "cut numbers": "[" + "1," * 200_000,
    "parentheses": "(" * 200_000,
    "spaces": "{" + " " * 400_000,
    "repr strings": "[" + "'a'," * 60_000 + "]",
    "spaces behind an ellipsis": "..." + " " * 200_000 + "x",
    "ellipses": "... [truncated" * 30_000,
    "over a megabyte": "[" * 2_000_000,
}


@pytest.mark.parametrize("kind", HURTS)
def test_text_made_to_hurt(kind: str) -> None:
    """Text of any size and depth gives a value or a reason."""
    for read in (
        payload.arguments(HURTS[kind]),
        payload.result(HURTS[kind]),
        payload.result(HURTS[kind], from_repr=True),
    ):
        assert isinstance(read, Content)
    if kind == "over a megabyte":
        assert isinstance(payload.result(HURTS[kind]).value, Opaque)


def test_values_made_to_hurt() -> None:
    """A value that holds itself, or is deeper or wider than JSON text could be, is no value."""
    cycle: list[Any] = []
    cycle.append(cycle)
    bush: list[Any] = []
    bush.extend([bush] * 50)
    deep: Any = "x"
    for _ in range(5000):
        deep = [deep]
    for value in (cycle, bush, deep, {"a": cycle}):
        assert Unknown.UNPARSABLE is payload.arguments(value).unknown
        assert Unknown.UNPARSABLE is payload.result(value).unknown


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(ANYTHING)
def test_any_value_is_read(value: Any) -> None:
    """Whatever an attribute holds, decoding and unwrapping give content and do not raise."""
    for read in (
        payload.arguments(value),
        payload.result(value),
        payload.content(value),
        payload.arguments(value, bare=True),
    ):
        assert isinstance(payload.blocks(read), Content)
        assert isinstance(payload.tool_message(read)[0], Content)
        assert isinstance(payload.mcp_result(read)[0], Content)
        assert isinstance(payload.unwrap(read, "a", "b"), Content)
    payload.as_dict(value)
    payload.as_list(value)


@given(
    st.dictionaries(st.text(max_size=6), ANYTHING.filter(lambda value: not isinstance(value, bytes)), min_size=1),
    st.data(),
)
def test_no_prefix_of_json_is_a_value(value: dict[str, Any], data: st.DataObject) -> None:
    """Arguments cut anywhere within are never taken for a value: the reason is truncation."""
    try:
        text = json.dumps(value)
    except TypeError:
        return
    cut = text[: data.draw(st.integers(1, len(text) - 1))]
    assert Unknown.TRUNCATED is payload.arguments(cut).unknown


@pytest.mark.parametrize(
    "text", ['{"error": "", "response": "[{\\"id', '{"doc": "report', "[1, 2...", "see below (cont"]
)
def test_text_of_a_call_record_is_never_taken_for_cut(text: str) -> None:
    """No attribute limit stands between a tool and a record: a tool that cuts its own output gave just that."""
    assert Content(text) == payload.content(text)
    assert Content(text) == payload.content(text, arguments=True)


def test_redaction_in_a_call_record_is_still_seen() -> None:
    """An application that redacts its records makes different calls look equal."""
    assert payload.REDACTED == payload.content("[REDACTED]")
    assert payload.REDACTED == payload.content({"id": "[REDACTED]"}, arguments=True)


@pytest.mark.parametrize("start", ["(", "[", "{", "('a', ", "[INFO] started "])
def test_text_over_the_bound_is_not_read_token_by_token(start: str) -> None:
    """A few kilobytes of gzip may hold tens of megabytes of brackets."""
    text = start + "(" * MAX_TEXT_BYTES
    assert Content(Opaque.of(text)) == payload.result(text)
    assert Content(Opaque.of(text)) == payload.arguments(text)
