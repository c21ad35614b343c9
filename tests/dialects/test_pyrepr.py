"""Python reprs of plain values are read as JSON would have carried them, and nothing else is read."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_loopguard.dialects import pyrepr

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(), inner, max_size=4)
    ),
    max_leaves=15,
)


def _listed(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_listed(item) for item in value]
    if isinstance(value, dict):
        return {key: _listed(item) for key, item in value.items()}
    return value


@given(PLAIN)
def test_repr_is_read_back(value: Any) -> None:
    """What repr wrote is read back, tuples as lists."""
    assert _listed(value) == pyrepr.read(repr(value))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{1: 'a', None: 'b', True: 'c', 1.5: 'd'}", {"1": "a", "null": "b", "true": "c", "1.5": "d"}),
        ("(1)", 1),
        ("(1,)", [1]),
        ("()", []),
        ("[1, 2,]", [1, 2]),
        ("{'a': inf, 'b': -inf}", {"a": float("inf"), "b": float("-inf")}),
        ("'\\x41\\u0042\\U00000043\\n\\''", "ABC\n'"),
    ],
)
def test_forms(text: str, value: Any) -> None:
    """Keys become the text that JSON gives them; brackets and escapes are Python's."""
    assert value == pyrepr.read(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{'a'}",
        "{1, 2}",
        "{'a': }",
        "{'a': 1,, 'b': 2}",
        "[1 2]",
        "[,]",
        "{'a' 1}",
        "{:}",
        "[1:2]",
        "{'a': 1: 2}",
        "[",
        "]",
        "[1)",
        "{'a': 1, 'a': 2}",
        "[1] x",
        "{'a'",
        "{'a': 1, 'b'}",
        "{'a', 'b': 1}",
        "set()",
        "Order(1)",
        "[datetime.date(2026, 1, 1)]",
        "<object at 0x7f>",
        "'\\N{BULLET}'",
        "'\\U00110000'",
        "b'\\u0100'",
        "1 + 1",
        "[--1]",
        "[007]",
        "[" * 65 + "]" * 65,
        "[" + "9" * 5000 + "]",
        "'" + "x" * 300_000 + "'",
    ],
)
def test_all_else_is_refused(text: str) -> None:
    """Sets, objects, duplicate keys, broken and oversized text are no plain value's repr."""
    with pytest.raises(pyrepr.NotAReprError):
        pyrepr.read(text)


def test_fields_of_an_object() -> None:
    """An object's fields are read up to the first that is not plain."""
    text = "status='success' result={'a': [1]} error=None source=<Tool> last='x'"
    assert {"status": "success", "result": {"a": [1]}, "error": None} == pyrepr.fields(text)
    assert {"a": 1, "b": "x"} == pyrepr.fields("a=1, b='x'")
    assert {} == pyrepr.fields("no fields here")


@given(st.text("[](){}'\"\\,: abcx01.-eTrueNone=", max_size=60))
def test_any_text_ends_well(text: str) -> None:
    """Whatever the text, there is a value or the one error."""
    pyrepr.fields(text)
    with contextlib.suppress(pyrepr.NotAReprError):
        pyrepr.read(text)
