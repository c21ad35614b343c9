"""Paths mean what JMESPath means, and rewriting touches nothing else."""

from __future__ import annotations

import sys
from typing import Any

import jmespath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_loopguard.errors import MissingExtraError
from otel_loopguard.policy.paths import (
    DROP,
    Expression,
    Path,
    PathError,
    compile_path,
    compile_readable,
    compile_target,
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "a"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["a", "b", "c d"]), inner, max_size=3),
    max_leaves=12,
)
STEPS = st.lists(st.sampled_from([".a", ".b", '."c d"', "[0]", "[-1]", "[1]", "[*]", "[]"]), min_size=1, max_size=6)


def _text(steps: list[str]) -> str:
    return "".join(steps).removeprefix(".")


@given(VALUES, STEPS)
def test_reading_equals_jmespath(value: Any, steps: list[str]) -> None:
    """The common part agrees with the library on every value."""
    text = _text(steps)
    path = compile_path(text)
    assert jmespath.search(text, value) == path.read(value)


@given(VALUES, STEPS)
def test_what_was_dropped_is_gone_and_the_rest_stays(value: Any, steps: list[str]) -> None:
    """After dropping, nothing can be read there; putting back the same changes nothing at all."""
    text = _text([*steps, ".a"])
    path = compile_target(text)
    dropped = path.rewrite(value, lambda _: DROP)
    assert _is_nothing(path.read(dropped))
    assert _is_nothing(path.read(value)) or path.rewrite(value, lambda _: DROP) != value
    assert value is path.rewrite(value, lambda old: old)
    visited: list[Any] = []

    def visit(old: Any) -> Any:
        visited.append(old)
        return old

    path.rewrite(value, visit)
    if all(old is None for old in visited):
        # Only keys whose value is null, which JMESPath cannot read, may have gone.
        assert _without_nulls(value) == _without_nulls(dropped)


@pytest.mark.parametrize("text", ["a[*].b", "a[].b", "a[]", "a[*]", "a[][]", "a[*][]", "a[].b[].c", "a[0].b", "a[-1].b", "a[-2]", "a[-3]", "a[1]", "a[2]", "a[].b.c", "a.b.c", "a[*].b[0]", "b"])  # fmt: skip  # noqa: E501
@pytest.mark.parametrize(
    "value",
    [
        {"a": [{"b": 1}, {"b": 2}]},
        {"a": [{"b": 1}, [{"b": 2}, {"b": 3}], 4]},
        {"a": [[{"b": 1}, [{"b": 2}]], [[{"b": 3}]]]},
        {"a": [{"b": [{"c": 1}, {"c": None}]}, {"b": [[{"c": 2}], {"c": 3}]}]},
        {"a": {"b": {"c": None}}},
        {"a": "text", "b": None},
        {"a": []},
        [{"a": 1}],
        None,
    ],
    ids=repr,
)
def test_reading_examples_equal_jmespath(value: Any, text: str) -> None:
    """Indices to and past both ends, elements and flattening, one level and two: as the library reads them."""
    assert jmespath.search(text, value) == compile_path(text).read(value)


def test_tuples_are_read_and_rewritten_as_lists() -> None:
    """A value that was no JSON text may hold tuples, which JSON writes as lists."""
    value = {"a": ({"b": 1}, ({"b": 2}, 3))}
    assert [[1], [1, 2], 1] == [compile_path(text).read(value) for text in ("a[*].b", "a[].b", "a[0].b")]
    assert {"a": [{}, ({"b": 2}, 3)]} == compile_target("a[0].b").rewrite(value, lambda _: DROP)
    assert {"a": [{}, ({"b": 2}, 3)]} == compile_target("a[*].b").rewrite(value, lambda _: DROP)
    assert {"a": [{}, [{}, 3]]} == compile_target("a[].b").rewrite(value, lambda _: DROP)


def _is_nothing(found: Any) -> bool:
    return found is None or (isinstance(found, list) and all(_is_nothing(item) for item in found))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("a", {"a": 1, "b": 2}, {"b": 2}),
        ("a.b", {"a": {"b": 1}, "b": 2}, {"a": {}, "b": 2}),
        ("a[*].b", {"a": [{"b": 1}, {"c": 2}, 3]}, {"a": [{}, {"c": 2}, 3]}),
        ("a[].b", {"a": [[{"b": 1}], {"b": 2}]}, {"a": [[{}], {}]}),
        ("a[].b", {"a": [[[{"b": 1}]]]}, {"a": [[[{"b": 1}]]]}),
        ("a[*].b[].c", {"a": [{"b": [{"c": 1}, [{"c": 2}]]}]}, {"a": [{"b": [{}, [{"c": 2}]]}]}),
        ("a[-1].b", {"a": [{"b": 1}, {"b": 2}]}, {"a": [{"b": 1}, {}]}),
        ("a[-2].b", {"a": [{"b": 1}, {"b": 2}]}, {"a": [{}, {"b": 2}]}),
        ("a[-3].b", {"a": [{"b": 1}, {"b": 2}]}, {"a": [{"b": 1}, {"b": 2}]}),
        ("a[2].b", {"a": [{"b": 1}, {"b": 2}]}, {"a": [{"b": 1}, {"b": 2}]}),
        ("a[0].b", {"a": "text"}, {"a": "text"}),
        ("a[*].b", {"a": [[{"b": 1}], {"b": 2}]}, {"a": [[{"b": 1}], {}]}),
        ("a[][].b", {"a": [{"b": 1}, [{"b": 2}], [[{"b": 3}]]]}, {"a": [{}, [{}], [[{}]]]}),
        ("a[*][].b", {"a": [{"b": 1}, [{"b": 2}], [[{"b": 3}]]]}, {"a": [{}, [{}], [[{"b": 3}]]]}),
        ("a[*][0][].b", {"a": [[[{"b": 1}], [{"b": 2}]]]}, {"a": [[[{}], [{"b": 2}]]]}),
        ("a[*][0][].b", {"a": [[[[{"b": 1}]]]]}, {"a": [[[[{"b": 1}]]]]}),
        ("a[].b[].c", {"a": [{"b": {"c": 1}}, {"b": [{"c": 2}]}]}, {"a": [{"b": {}}, {"b": [{}]}]}),
        ("a", [{"a": 1}], [{"a": 1}]),
        ("a.b", {"a": "b"}, {"a": "b"}),
    ],
)
def test_dropping(text: str, value: Any, expected: Any) -> None:
    """Examples of what goes and what stays."""
    assert expected == compile_target(text).rewrite(value, lambda _: DROP)


@pytest.mark.parametrize("text", ["", ".a", "a.", "a..b", "a b", "a[", "a[x]", "a.[0]", "*", "a.*", "@", "a'", '""', "a" * 301, "a[*]" * 40])  # fmt: skip  # noqa: E501
def test_what_is_no_common_path(text: str) -> None:
    """Anything else is refused, with what to write instead."""
    with pytest.raises(PathError, match="use names joined by dots"):
        compile_path(text)


def test_a_quoted_name() -> None:
    """Quotes, backslashes and slashes may be escaped in it, as in JSON."""
    assert ('a"b\\c/d', "e f") == compile_path(r'"a\"b\\c\/d"."e f"').steps


def test_the_longest_paths() -> None:
    """300 characters and as many steps as are allowed; the next is refused."""
    assert ("a" * 300,) == compile_path("a" * 300).steps
    assert 32 == len(compile_path("a" + ".a" * 31).steps)
    with pytest.raises(PathError):
        compile_path("a" + ".a" * 32)


@pytest.mark.parametrize("text", ["a[0]", "[*]", "a[]"])
def test_a_target_ends_in_a_name(text: str) -> None:
    """Removing an element would shift the others."""
    with pytest.raises(PathError, match="end in a name"):
        compile_target(text)


def test_full_expressions_read_within_bounds() -> None:
    """Beyond the common part the library reads; what it cannot apply yields nothing."""
    assert isinstance(compile_readable("a.b[0]"), Path)
    longest = compile_readable("max_by(items, &n).id")
    assert isinstance(longest, Expression)
    assert "y" == longest.read({"items": [{"n": 1, "id": "x"}, {"n": 2, "id": "y"}]})
    assert longest.read({"items": "text"}) is None
    assert longest.read(None) is None
    assert compile_readable("avg(a)").read({"a": []}) is None
    assert [1, 2] == compile_readable("a[0:2]").read({"a": [1, 2, 3]})
    assert [1] == compile_readable("[a]").read({"a": 1})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abs(n)", 2), ("avg(l)", 2), ("ceil(f)", 2), ("contains(l, `1`)", True), ("ends_with(t, 'c')", True),
        ("floor(f)", 1), ("keys(o)", ["k"]), ("length(l)", 2), ("max(l)", 3), ("max_by(a, &k).k", 2), ("min(l)", 1),
        ("min_by(a, &k).k", 1), ("not_null(x, n)", -2), ("sort(l)", [1, 3]), ("sort_by(a, &k)[0].k", 1),
        ("starts_with(t, 'a')", True), ("sum(l)", 4), ("to_number('7')", 7), ("type(t)", "string"), ("values(o)", [1]),
    ],
)  # fmt: skip
def test_every_function_that_is_allowed(text: str, expected: Any) -> None:
    """Functions whose result is no larger than what they are given."""
    value = {"n": -2, "f": 1.5, "l": [3, 1], "t": "abc", "o": {"k": 1}, "a": [{"k": 2}, {"k": 1}]}
    assert expected == compile_readable(text).read(value)


def test_the_largest_expressions() -> None:
    """As many characters, parts and lists as are allowed; the next is refused."""
    longest = "a || " + "b" * 295
    assert 1 == compile_readable(longest).read({"a": 1})
    with pytest.raises(PathError, match="characters"):
        compile_readable(longest + "b")
    # `!` is a part around its operand.
    assert compile_readable("!" * 47 + "a").read({}) is True
    with pytest.raises(PathError, match="too large"):
        compile_readable("!" * 48 + "a")
    with pytest.raises(PathError, match="too large"):
        compile_readable("[[a]]")


def test_an_expression_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """The common part needs no library; what needs it says what to install."""
    monkeypatch.setitem(sys.modules, "jmespath", None)
    assert isinstance(compile_readable("a.b[0]"), Path)
    with pytest.raises(MissingExtraError, match="otel-loopguard"):
        compile_readable("max_by(items, &n).id")


@pytest.mark.parametrize(
    "text",
    ["to_string(a)", "map(&a, b)", "join(',', a)", "nosuch(a)", "[a,b] | [@,@]", "{a: {b: c}}", "a || " * 40 + "a",
     "(" * 280, "a[?", "`{`", "a[99999999999999999999]" + "x" * 300],
)  # fmt: skip
def test_expressions_that_could_grow_are_refused(text: str) -> None:
    """Functions and forms that repeat their input, large and broken expressions."""
    with pytest.raises(PathError):
        compile_readable(text)
