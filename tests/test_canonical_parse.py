"""Reading JSON text: strict, exact, bounded, and the same whether the fast or the plain parser did it."""

from __future__ import annotations

import json
import math
import random
import sys
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from otel_loopguard import canonical
from otel_loopguard.canonical import CanonicalError, Opaque, encode, encode_slow, parse_json, parse_with_form
from otel_loopguard.model import Unknown
from tests.lg1_values import any_text, floats, ints, nested

LOOSE_JSON = nested(st.none() | st.booleans() | ints | floats | any_text, any_text)
"""What Python's json module writes: strict JSON, NaN, infinities, lone surrogates."""


class DuplicateError(Exception):
    """The plain reading of a text found a key twice."""


def plain_reading(text: str) -> Any:
    """Read with Python's own parser, which shares no short cut with `parse_json`."""

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in pairs}) != len(pairs):
            raise DuplicateError
        return dict(pairs)

    def fraction(spelled: str) -> float:
        if math.isinf(float(spelled)):
            raise ValueError
        return float(spelled)

    return json.loads(text, object_pairs_hook=members, parse_float=fraction)


def unparsable(text: str | bytes) -> bool:
    """Whether the text is refused with the reason `unparsable`."""
    try:
        parse_json(text)
    except CanonicalError as error:
        return error.reason is Unknown.UNPARSABLE
    return False


@given(value=LOOSE_JSON, ascii_only=st.booleans(), indent=st.sampled_from([None, 1]))
@example(value={"when": "12:30:00", "url": "http://a:b@c:1/", "quote": '": "'}, ascii_only=True, indent=None)
def test_what_python_writes_is_read_back(*, value: Any, ascii_only: bool, indent: int | None) -> None:
    """Every text that `json.dumps` writes is read as the value with the same form."""
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert encode(plain_reading(text)) == encode(parse_json(text))


@given(value=LOOSE_JSON, ascii_only=st.booleans(), indent=st.sampled_from([None, 1]))
@example(value={"price": 12.0}, ascii_only=True, indent=None)
@example(value={"price": 12.25}, ascii_only=True, indent=None)
@example(value=[1e-7, -0.0], ascii_only=True, indent=None)
@example(value={"\uffff": 1, "\U0001f600": 2}, ascii_only=False, indent=None)
@example(value="\U0001f600", ascii_only=False, indent=None)
@example(value={"n": 10**700}, ascii_only=True, indent=None)
def test_form_that_comes_to_light_is_the_form(*, value: Any, ascii_only: bool, indent: int | None) -> None:
    """Where reading gives a canonical form with the value, it is the one that the plain encoder gives."""
    read, form = parse_with_form(json.dumps(value, ensure_ascii=ascii_only, indent=indent))
    assert form is None or encode_slow(read) == form


def test_form_of_usual_arguments_comes_to_light() -> None:
    """Texts, numbers, lists and objects need no second look."""
    read = parse_with_form('{"b": [1, 2.5, "x", null], "a": {"c": true}}')
    assert ({"b": [1, 2.5, "x", None], "a": {"c": True}}, b'{"a":{"c":true},"b":[1,2.5,"x",null]}') == read


# Pieces whose every joining is nearly JSON, with the keys and the colons that could hide a duplicate.
PIECES = st.sampled_from(
    [
        *("{", "}", "[", "]", ",", ":", " ", "\n", '"a"', '"a":', '"a" :', '"\\u0061":', '":"', '"\\u003a"', '"\\""'),
        *('"a":1', '"b":{"a":1}', '"a":{"a":1,"a":2}', '{"a":1}', '{"a":":","a":2}', '{"a":"\\u003a","a":2}', "null"),
        *("NaN", "-Infinity", "1", "-0", "1.0", "1e5", "01", "1.", "1e999", "\ufeff", "\ud800", '"\\ud800"', '"\\x"'),
        *("9" * 20, "9" * 700, '"', "\\", "tru", "true", "\x00", "'a'"),
    ]
)


@given(st.lists(PIECES, max_size=12).map("".join))
@example('{"a":1,"a":":"}')
@example('{"a":{"b":1},"b":"::","a":{}}')
@example('{"x":"\\u003a","a":1,"a":1}')
@example('{"x":"\\u003A","a":1,"a":1}')
@example('{"a":"{","a":":"}')
def test_reading_equals_the_plain_reading(text: str) -> None:
    """Any text is read as Python's parser reads it, or refused where that refuses it or finds a key twice."""
    try:
        expected = plain_reading(text)
    except (ValueError, DuplicateError):
        assert unparsable(text.removeprefix("\ufeff")) or text.startswith("\ufeff")
        return
    assert encode(expected) == encode(parse_json(text))


@given(
    value=st.dictionaries(any_text, LOOSE_JSON, min_size=1, max_size=6),
    chance=st.randoms(use_true_random=False),
    escape=st.booleans(),
)
def test_duplicate_key_is_found(*, value: dict[str, Any], chance: random.Random, escape: bool) -> None:
    """A key written twice, at any depth, spelled alike or not, makes the text unparsable."""
    key = chance.choice(sorted(value, key=ascii))
    again = "".join(f"\\u{ord(c):04x}" for c in key) if escape and key.isascii() else json.dumps(key)[1:-1]
    inner = json.dumps(value)[:-1] + f', "{again}": ":"' + "}"
    assert unparsable(inner)
    assert unparsable(f'{{"deep": [0, {{"er": {inner}}}], "x": "a:b"}}')


def test_key_may_recur_in_another_object() -> None:
    """Equal keys of different objects are no duplicates."""
    assert {"a": {"a": [{"a": 1}, {"a": 2}]}} == parse_json('{"a": {"a": [{"a": 1}, {"a": 2}]}}')


@given(ints)
def test_integer_in_text_is_exact(number: int) -> None:
    """An integer of any size is read exactly."""
    back = parse_json(f'{{"n": {number}}}')["n"]
    assert number == back
    assert type(back) is int


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_fraction_in_text_is_the_nearest_float(number: float) -> None:
    """A fraction is read as Python reads it, to the last bit."""
    back = parse_json(f"[{number!r}, {number:.25e}]")
    assert [number, number] == back


@pytest.mark.parametrize("token", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_are_none_have_one_form(token: str) -> None:
    """Case C16: arguments written as `{"v": NaN}` give the same form each time, and one unlike text of that name."""
    forms = {encode(parse_json(f'{{"v": {token}}}')) for _ in range(3)}
    assert 1 == len(forms)
    assert encode({"v": token}) not in forms
    assert encode({"v": None}) not in forms


def test_number_out_of_range_is_unparsable() -> None:
    """1e400 and 1e500 are different numbers that a float cannot hold: no value, rather than one infinity."""
    assert [True, True, False] == [unparsable(text) for text in ("1e400", "[-1e500]", "1e308")]


@pytest.mark.parametrize("text", ["", " ", "{", "nul", "{'a': 1}", '{"a": 1,}', "[1] 2", "\x00", "None", "free text"])
def test_bad_text_is_unparsable(text: str) -> None:
    """What is not JSON gives the reason, as text and as bytes."""
    assert unparsable(text)
    assert unparsable(text.encode())


@pytest.mark.parametrize("raw", [b'"\xff"', b'"\xed\xa0\x80"', b'"\xc0\x80"', '"a"'.encode("utf-16")])
def test_bytes_that_are_not_utf_8_are_unparsable(raw: bytes) -> None:
    """Bytes are UTF-8 or nothing: no other encoding is guessed."""
    assert unparsable(raw)


def test_lone_surrogates_are_tolerated() -> None:
    """A lone surrogate, escaped or raw in a Python string, is a value like another."""
    assert ["\ud800", "\ud800"] == [parse_json('"\\ud800"'), parse_json('"\ud800"')]
    assert "\U0001f600" == parse_json('"\\ud83d\\ude00"')


def test_one_byte_order_mark_is_passed_over() -> None:
    """A mark in front changes nothing; two are not JSON."""
    assert [{"a": 1}, {"a": 1}] == [parse_json('\ufeff{"a": 1}'), parse_json(b'\xef\xbb\xbf{"a": 1}')]
    assert unparsable("\ufeff\ufeff1")


def test_message_holds_no_content() -> None:
    """The error says why and nothing of the text."""
    for text in ('{"SECRET": 1, "SECRET": 2}', "SECRET", '"SECRET', '{"a": SECRET}', "[" * 70 + '"SECRET"'):
        with pytest.raises(CanonicalError) as caught:
            parse_json(text)
        assert "SECRET" not in str(caught.value)
        # The parser's own error holds the whole text.
        assert [None, None] == [caught.value.__cause__, caught.value.__context__]


# --- bounds ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"k":', "}"), (' [ "]" , ', "]")])
def test_depth_is_bounded(opening: str, closing: str) -> None:
    """`MAX_DEPTH` levels are read, one more is refused; brackets in text and side by side are not levels."""
    most = canonical.MAX_DEPTH
    assert not unparsable(opening * most + "0" + closing * most)
    assert unparsable(opening * (most + 1) + "0" + closing * (most + 1))
    # Many brackets, so that their number alone proves nothing.
    beside = "[" + "[{}]," * 100
    assert not unparsable(beside + opening * (most - 1) + "0" + closing * (most - 1) + "]")
    assert unparsable(beside + opening * most + "0" + closing * most + "]")
    assert not unparsable(json.dumps(["[{" * 500, '"[', "\\", {"[": [[[]]] * 500}]))


@pytest.mark.parametrize(
    "text",
    [
        "[" * 1_000_000,
        '{"a":' * 200_000,
        "]" * 1_000_000,
        "[]" * 500_000,
        '"' + '\\"' * 400_000,
        '["' * 400_000,
        '[[""' * 200_000,
        "\\" * 1_000_000,
        "[" + "9" * 1_000_000,
        "[" * 60 + "0," * 400_000,
        '"\\u' * 300_000,
    ],
)
def test_hostile_text_is_refused_in_one_pass(text: str) -> None:
    """Text made to use up stack or time is refused; a parser that is not linear would not come back here."""
    assert unparsable(text)
    assert unparsable(text.encode())


def test_huge_hostile_text_is_only_hashed() -> None:
    """100 MB of brackets are never looked at by a parser."""
    assert Opaque.of(b"[" * 100_000_000) == parse_json(b"[" * 100_000_000)


def test_text_above_the_size_bound_is_opaque() -> None:
    """At the bound text is parsed; one byte more and it stands for itself, whether it was JSON or not."""
    text = '"' + "x" * (canonical.MAX_TEXT_BYTES - 2) + '"'
    assert text[1:-1] == parse_json(text)
    longer = text[:-1] + 'x"'
    assert Opaque.of(longer) == parse_json(longer) == parse_json(longer.encode())
    assert isinstance(parse_json("not JSON" * 200_000), Opaque)


def test_size_is_counted_in_bytes() -> None:
    """Text of few characters and many bytes is over the bound as well, and equal to its bytes."""
    text = '"' + "ä" * (canonical.MAX_TEXT_BYTES // 2) + '"'
    assert isinstance(parse_json(text), Opaque)
    assert parse_json(text) == parse_json(text.encode())


def test_opaque_text_is_hashed_whole() -> None:
    """Long texts that differ in their last byte only are different values, and no prefix or length stands for them."""
    long = "x" * (canonical.MAX_TEXT_BYTES + 10)
    assert encode(parse_json(long + "a")) != encode(parse_json(long + "b"))
    assert encode(parse_json(long + "a")) == encode(parse_json(long + "a"))
    assert "xxxx" not in repr(parse_json(long))


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}',
        '{"a": {"b": [1, 2.5, null, "x:y"]}, "c": {}}',
        '[{"a": 1}, {"a": 1}]',
        '"text"',
        "7",
        "[]",
        '{"t": "a\\"b\\u0041"}',
    ],
)
def test_plain_text_does_not_need_the_slow_parser(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What tools are called with takes the fast way; that is its whole purpose."""

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("the slow parser was asked")

    monkeypatch.setattr("otel_loopguard.canonical._parse._parse_slowly", refuse)
    assert json.loads(text) == parse_json(text) == parse_json(text.encode())


@pytest.mark.parametrize("limit", [640, 4300, 0])
@pytest.mark.parametrize("sign", ["", "-"])
def test_bound_on_digits_beside_what_only_the_slow_parser_reads(sign: str, limit: int) -> None:
    """4300 digits are an integer, 4301 are refused, whatever the process set; a sign is no digit."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(limit)
    try:
        found = [parse_json(f"[Infinity, {sign}{'9' * digits}]")[1] for digits in (639, 640, 641, 4300)]
        with pytest.raises(CanonicalError):
            parse_json(f"[Infinity, {sign}{'9' * 4301}]")
    finally:
        sys.set_int_max_str_digits(before)
    whole = [10**digits - 1 for digits in (639, 640, 641, 4300)]
    assert [-number if sign else number for number in whole] == found
