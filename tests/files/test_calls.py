"""Call records: each field, and that a record which is not sound says which field is at fault."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from otel_loopguard.files import Format, Reason
from otel_loopguard.files.calls import OPTIONAL, REQUIRED
from otel_loopguard.model import CallRecord
from tests.files.otlp_samples import line, read, reasons, request, span

_RECORD = {"run_id": "r1", "sequence": 1, "tool": "lookup_order", "arguments": {"id": "A12"}, "result": "late"}


def _with(**changes: Any) -> bytes:
    return line({**_RECORD, **changes})


def test_reads_every_field() -> None:
    """Each field of a full record reaches the record's field of that name."""
    full = {
        **_RECORD,
        "turn": 3,
        "call_id": "c1",
        "error": "no",
        "ts": 1.5,
        "agent": "a",
        "user_turn": "u2",
        "session": "s",
        "task": "t",
        "attempt": 2,
        "tenant": "n",
        "key_id": "k",
        "effect": "read",
        "dispatched": False,
        "denied": True,
        "concurrent": True,
        "after_compaction": True,
    }
    expected = CallRecord(
        run_id="r1",
        sequence=1,
        tool="lookup_order",
        turn=3,
        call_id="c1",
        arguments={"id": "A12"},
        result="late",
        error="no",
        ts=1.5,
        agent="a",
        user_turn="u2",
        session="s",
        task="t",
        attempt=2,
        tenant="n",
        key_id="k",
        effect="read",
        dispatched=False,
        denied=True,
        concurrent=True,
        after_compaction=True,
    )
    assert [expected] == read(line(full))


def test_the_table_of_fields_is_the_record() -> None:
    """Every field of the record is read from somewhere, and nothing else is."""
    assert set(CallRecord.__struct_fields__) == {*REQUIRED, *OPTIONAL, "result"}


@pytest.mark.parametrize("arguments", [{}, [1], "text", None, 5, True])
def test_arguments_may_be_any_json(arguments: Any) -> None:
    """Arguments are handed on as they are; null is a value, not a missing field."""
    (record,) = read(_with(arguments=arguments))
    assert isinstance(record, CallRecord)
    assert arguments == record.arguments


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"result": "x"}, ("x", False)),
        ({"observation": "x"}, ("x", False)),
        ({"result": None}, (None, False)),
        ({}, (None, True)),
        ({"result": "x", "result_missing": True}, (None, True)),
        ({"result": "x", "result_missing": False}, ("x", False)),
    ],
)
def test_result_by_either_name_or_missing(fields: dict[str, Any], expected: tuple[Any, bool]) -> None:
    """`result` and `observation` are one field; a null result is a result, no such key is none."""
    bare = {name: value for name, value in _RECORD.items() if name != "result"}
    (record,) = read(line({**bare, **fields}))
    assert isinstance(record, CallRecord)
    assert expected == (record.result, record.result_missing)


def test_both_result_names_are_refused() -> None:
    """Two results leave open which one counts."""
    assert [(1, Reason.TWO_RESULTS)] == reasons(_with(observation="late"))


@pytest.mark.parametrize("field", REQUIRED)
def test_missing_required_field_is_named(field: str) -> None:
    """Each required field that is absent is named, and the next record is read."""
    cut = {name: value for name, value in _RECORD.items() if name != field}
    data = line(cut) + line(_RECORD)
    assert [(1, f"missing_field:{field}")] == reasons(data)
    assert 2 == len(read(data))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("run_id", ""),
        ("run_id", None),
        ("run_id", 5),
        ("run_id", "\ud800"),
        ("tool", ""),
        ("tool", ["x"]),
        ("sequence", "1"),
        ("sequence", 1.0),
        ("sequence", True),
        ("sequence", None),
        ("sequence", 2**63),
        ("turn", 1.5),
        ("turn", True),
        ("call_id", {}),
        ("call_id", "\udfff"),
        ("error", {"m": 1}),
        ("ts", "now"),
        ("ts", True),
        ("ts", math.nan),
        ("ts", math.inf),
        ("ts", 10**400),
        ("denied", 1),
        ("concurrent", "yes"),
        ("effect", 1),
        ("key_id", 1),
    ],
)
def test_wrong_type_is_named(field: str, value: Any) -> None:
    """A value of the wrong type names its field and never its content."""
    assert [(1, f"bad_field:{field}")] == reasons(_with(**{field: value}))


@pytest.mark.parametrize("field", sorted(OPTIONAL))
def test_null_is_absent_for_every_optional_field(field: str) -> None:
    """An optional field that is null is one that is not there."""
    assert read(_with()) == read(_with(**{field: None}))


def test_numbers_become_text_where_the_field_is_text() -> None:
    """Call ids, sessions, tasks and tenants are often numbers; they are names all the same."""
    (record,) = read(_with(call_id=7, session=8, task=9, tenant=10))
    assert isinstance(record, CallRecord)
    assert ("7", "8", "9", "10") == (record.call_id, record.session, record.task, record.tenant)


@pytest.mark.parametrize(
    "text",
    [
        b'{"run_id":"r","run_id":"r","sequence":1,"tool":"t","arguments":{}}\n',
        b'{"run_id":"r","sequence":1,"tool":"t","arguments":{"a":{"k":1,"k":1}}}\n',
    ],
)
def test_duplicate_keys_are_refused_anywhere(text: bytes) -> None:
    """A key that stands twice makes a record unreadable, in the record and inside its arguments."""
    assert [(1, Reason.DUPLICATE_KEY)] == reasons(text)


def test_numbers_stay_exact() -> None:
    """Integers beyond 64 bits keep every digit; NaN and infinity, as Python writes them, are read."""
    (record,) = read(b'{"run_id":"r","sequence":1,"tool":"t","arguments":[123456789012345678901234567891,-Infinity]}\n')
    assert isinstance(record, CallRecord)
    assert [123456789012345678901234567891, -math.inf] == record.arguments


def test_lone_surrogates_in_content_are_kept() -> None:
    """Half a surrogate pair in arguments is a value that the canonical form can tag."""
    (record,) = read(json.dumps({**_RECORD, "arguments": {"a": "\ud800"}}).encode() + b"\n")
    assert isinstance(record, CallRecord)
    assert {"a": "\ud800"} == record.arguments


def test_format_is_held_to() -> None:
    """With a named format, the other kind of JSON is an unknown shape or a record without its fields."""
    assert [(1, Reason.UNKNOWN_SHAPE)] == reasons(line(_RECORD), Format.OTLP_JSON)
    assert [(1, "missing_field:run_id")] == reasons(line(request(span())), Format.CALLS)


def test_kinds_may_be_mixed_under_auto() -> None:
    """Records and requests may stand in one stream, as when two files are joined."""
    kinds = [type(item).__name__ for item in read(line(_RECORD) + line(request(span())) + line(_RECORD))]
    assert ["CallRecord", "Span", "CallRecord"] == kinds


@pytest.mark.parametrize(
    ("ts", "sound"), [(9_223_372_036, True), (9_223_372_037, False), (1_700_000_000_000_000_000, False)]
)
def test_times_are_in_seconds(ts: int, sound: bool) -> None:  # noqa: FBT001 - a parameter
    """A time in milliseconds or nanoseconds is said, not taken for a year far away."""
    assert ([] if sound else [(1, "bad_field:ts")]) == reasons(_with(ts=ts))
