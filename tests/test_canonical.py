"""Canonical form `lg1`: equal values, equal bytes; different values, different bytes; RFC 8785 wherever it reaches."""

from __future__ import annotations

import base64
import inspect
import json
import random
import struct
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from pathlib import Path, PurePosixPath, PureWindowsPath
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from otel_loopguard import canonical
from otel_loopguard.canonical import CanonicalError, Opaque, at_top, encode, encode_slow
from otel_loopguard.model import Unknown
from tests.lg1_values import (
    ODD_CHARACTERS,
    Bag,
    Colour,
    Count,
    Level,
    Name,
    Order,
    Point,
    Ratio,
    Shape,
    Shouted,
    all_values,
    any_text,
    clean_text,
    finite_floats,
    floats,
    ints,
    json_values,
    nested,
    read_form,
)

VECTORS = json.loads((Path(__file__).parent / "vectors/lg1.json").read_text(encoding="utf-8"))


def form_or_reason(encoder: Callable[[Any], bytes], value: Any) -> bytes | Unknown:
    """The form, or why there is none."""
    try:
        return encoder(value)
    except CanonicalError as error:
        return error.reason


# --- the two encoders ------------------------------------------------------------------------------------


@given(all_values)
@example({"\U0001f600": 1, "\ufb33": 2})
@example({"a": [{"\U0001f600": 1, "\ue000": 2}]})
@example({"b": 1.0, "a": [2.0**53, 1e21, 1e-7, -0.0, {"c": float("nan")}]})
@example({1: "a", "1": "b"})
@example([{Shouted.QUIET: 1}])
@example([True, 1, 1.0, "1", None])
@example([(1, 2), [1, 2]])
def test_fast_encoder_equals_slow_encoder(value: Any) -> None:
    """The fast encoder never shows: the same bytes or the same refusal as the plain one."""
    assert form_or_reason(encode_slow, value) == form_or_reason(encode, value)


@pytest.mark.parametrize("character", [*map(chr, range(0x100)), *ODD_CHARACTERS])
def test_fast_encoder_escapes_as_the_slow_one(character: str) -> None:
    """Each control and odd character is escaped alike, as value and as key."""
    for value in (character, {character: character, "a": [character]}):
        assert encode_slow(value) == encode(value)


@given(floats)
def test_fast_encoder_writes_floats_as_the_slow_one(value: float) -> None:
    """A float is written alike alone, in a list, and in a dict."""
    assert encode_slow(value) == encode(value)
    for inside in (
        [value],
        [value, 1],
        {"v": value},
        [0.5, value, value, 20.0],
        (1.0, value),
        [[value], {"v": [value]}],
    ):
        assert encode_slow(inside) == encode(inside)


@pytest.mark.parametrize(
    "value",
    [
        *("text", "ä€😀", "", 7, -(2**2048) + 1, 2**2048 - 1, True, None, 0.5, 1.0, 1e300, -0.0),
        *([], {}, [[]], [{}], {"a": [1, "b", None, True, {"c": (1, 2)}]}, [[[1]], {"k": [[]]}]),
        *({"v": 1.0}, [0.5, 2.0, 1e-7, 1e21], {"ä": "😀", "\uffff": [1]}, [2**2048 - 1]),
        *({"rows": [{"id": number, "name": f"n{number}", "price": number / 4} for number in range(300)]},),
        *(["x" * 20] * 5_000, {"text": "x" * 1_000_000}),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_plain_values_do_not_need_the_slow_encoder(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What arguments and results are made of takes the fast way to the same form; that is its whole purpose."""
    form = encode_slow(value)

    def refuse(_: Any) -> bytes:
        pytest.fail("the slow encoder was asked")

    monkeypatch.setattr("otel_loopguard.canonical._encode.encode_slow", refuse)
    assert form == encode(value)


# --- RFC 8785 --------------------------------------------------------------------------------------------


@given(
    nested(st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | finite_floats | clean_text, clean_text)
)
@example({"€": 0, "\r": 1, "\ufb33": 2, "1": 3, "\U0001f600": 4, "\x80": 5, "ö": 6})
@example({"numbers": [333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001]})
def test_form_equals_rfc_8785(value: Any) -> None:
    """Whatever RFC 8785 can write, `lg1` writes the same way."""
    assert rfc8785.dumps(value) == encode(value)


@pytest.mark.parametrize(("bits", "text"), [(row["ieee754"], row["form"]) for row in VECTORS["rfc8785_numbers"]])
def test_numbers_of_rfc_8785_appendix_b(bits: str, text: str) -> None:
    """The RFC's own number samples come out as it prints them."""
    (value,) = struct.unpack(">d", bytes.fromhex(bits))
    assert text.encode() == encode(value)
    assert b"[" + text.encode() + b"]" == encode([value])


# --- numbers by value ------------------------------------------------------------------------------------


@given(st.integers(-(2**53) + 1, 2**53 - 1))
def test_whole_float_equals_its_integer_below_2_53(number: int) -> None:
    """1 and 1.0 are one number, alone and inside."""
    assert encode(number) == encode(float(number))
    assert encode({"level": number}) == encode({"level": float(number)})


def test_minus_zero_is_zero() -> None:
    """-0.0, 0.0 and 0 have one form."""
    assert {b"0"} == {encode(value) for value in (0, 0.0, -0.0)}


@given(ints)
def test_integers_are_exact(number: int) -> None:
    """An integer of any size is its digits, so neighbours above 2^53 stay apart."""
    assert str(number).encode() == encode(number)
    assert encode([number]) != encode([number + 1])


def test_large_float_is_what_javascript_prints() -> None:
    """From 2^53 a float is its shortest digits, the same as any JSON writer's, and no longer its exact integer."""
    assert b"1152921504606847000" == encode(2.0**60) == encode(1152921504606847000)
    assert b"1152921504606846976" == encode(2**60)
    assert b"1e+21" == encode(1e21)
    assert b"1000000000000000000000" == encode(10**21)


@pytest.mark.parametrize("limit", [640, 4300, 0])
@pytest.mark.parametrize("digits", [639, 640, 641, 4299, 4300, 4301])
def test_bound_on_digits_is_the_same_whatever_the_process_set(limit: int, digits: int) -> None:
    """4300 digits have a form, 4301 have none, under each setting of the interpreter's own limit."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(limit)
    try:
        outcomes = [
            form_or_reason(encoder, value)
            for encoder in (encode, encode_slow)
            for value in ([10**digits - 1], {"a": 1 - 10**digits})
        ]
    finally:
        sys.set_int_max_str_digits(before)
    if digits > canonical.MAX_INT_DIGITS:
        expected: list[Any] = [Unknown.UNPARSABLE] * 4
    else:
        nines = b"9" * digits
        expected = [b"[" + nines + b"]", b'{"a":-' + nines + b"}"] * 2
    assert expected == outcomes


def test_bool_is_no_number() -> None:
    """True and 1, False and 0 stay distinct."""
    assert [b"true", b"1", b"false", b"0"] == [encode(value) for value in (True, 1, False, 0)]
    assert encode([True]) != encode([1])


# --- what two values may share ---------------------------------------------------------------------------


@given(json_values)
def test_form_reads_back_as_the_value(value: Any) -> None:
    """Nothing is lost: the form of a JSON value, read by another reader, is that value, so no two share a form."""
    assert_same(value, read_form(encode(value)))


def assert_same(value: Any, back: Any) -> None:
    """Equal with bool and number apart, integers exactly, floats as their shortest digits."""
    if isinstance(value, dict):
        assert isinstance(back, dict)
        assert set(value) == set(back)
        for key, item in value.items():
            assert_same(item, back[key])
    elif isinstance(value, list):
        assert isinstance(back, list)
        assert len(value) == len(back)
        for item, item_back in zip(value, back, strict=True):
            assert_same(item, item_back)
    elif isinstance(value, float):
        assert not isinstance(back, bool)
        assert value == float(back)
    else:
        assert type(value) is type(back)
        assert value == back


@given(all_values)
def test_every_form_can_be_read_in_one_way_only(value: Any) -> None:
    """A form ends where it ends: tagged forms inside lists and objects never run into their neighbours."""
    form = form_or_reason(encode, value)
    if isinstance(form, bytes):
        read_form(form)


@given(json_values)
def test_no_json_value_has_a_tag(value: Any) -> None:
    """The byte that begins a tag is in no form of a JSON value."""
    assert b"\xff" not in encode(value)


def test_tagged_form_is_not_utf_8() -> None:
    """No JSON text, whose bytes are UTF-8, can spell a tagged form."""
    for value in (float("nan"), float("inf"), "\ud800", b"", Opaque.of(""), {1: 2}, Decimal(1), {1}, Shape.ROUND):
        with pytest.raises(UnicodeDecodeError):
            encode(value).decode("utf-8")


LOOKALIKES: list[Any] = [
    *(None, True, 1, 1.5, "", "1", "null", "true", "nan", "1.5", "\ud800", "d800", "\udc00\ud800", "\ufffd", "?"),
    *(b"", b"1", b"\xff", "/w==", "ff", float("nan"), float("inf"), float("-inf"), [], {}, [[]], [{}], [None], [""]),
    *({"": None}, {"a": 1}, {1: "a"}, {"1": "a"}, {None: 1}, {"null": 1}, {True: 1}, [["a", 1]], [1, "a"], ["a", 1]),
    *(Opaque.of(""), Opaque.of("a"), set(), {1}, Decimal("1.5"), Decimal(1), Shape.ROUND, [1, [2]], [[1], 2], [1, 2]),
    *({"a": {"b": 1}}, {"a": None}, {"a": {}}, {"a": []}, {"a": ""}, ["a,b"], ["a", "b"], ['a","b'], Order(1), 2**53),
    *(-1, 2**53 + 1, 2**64, 2**64 + 1, 0.1, 0.1 + 2**-56, "a", "A", "a ", "ä", "a\u0308", "\U0001f600", "😀😀"),
]


def test_lookalikes_stay_apart() -> None:
    """Values that some encoder or other makes equal have different forms."""
    forms = [encode(value) for value in LOOKALIKES]
    assert len(LOOKALIKES) == len(set(forms))


@given(st.dictionaries(any_text, nested(ints | any_text, any_text), max_size=8), st.randoms(use_true_random=False))
def test_order_of_keys_does_not_count(value: dict[str, Any], chance: random.Random) -> None:
    """However a dict was filled, at any depth, it has one form."""
    assert form_or_reason(encode, value) == form_or_reason(encode, reordered(value, chance))


def reordered(value: Any, chance: random.Random) -> Any:
    """The same value with each dict filled in another order."""
    if isinstance(value, dict):
        keys = list(value)
        chance.shuffle(keys)
        return {key: reordered(value[key], chance) for key in keys}
    return [reordered(item, chance) for item in value] if isinstance(value, list) else value


def test_order_of_items_counts() -> None:
    """A list is its items in order."""
    assert encode([1, 2]) != encode([2, 1])


@pytest.mark.parametrize("size", [1, 10, 1_000, 200_000])
def test_every_character_of_a_long_text_counts(size: int) -> None:
    """Nothing is cut: texts that differ in the last character only have different forms."""
    assert encode({"text": "x" * size + "a"}) != encode({"text": "x" * size + "b"})


def test_every_key_counts() -> None:
    """No key is dropped, be it named like an id, null, empty, or nested."""
    value = {"id": "1", "call_id": "2", "request_id": None, "": 0, "ts": {"at": 1.5, "zone": []}}
    forms = {encode(value), *(encode({k: v for k, v in value.items() if k != key}) for key in value)}
    assert len(value) + 1 == len(forms)
    assert encode(value) != encode({**value, "ts": {"at": 1.5}})


# --- Python's own types ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Colour.RED, "red"),
        (Shouted.QUIET, "quiet"),
        (Level.HIGH, 3),
        (Name("n"), "n"),
        (Count(5), 5),
        (Ratio(2.5), 2.5),
        (Ratio(2.0), 2),
        ((1, "a"), [1, "a"]),
        (Point(1, [2]), [1, [2]]),
        (OrderedDict(b=1, a=2), {"a": 2, "b": 1}),
        (defaultdict(int, z=1), {"z": 1}),
        (Bag(real=1), {"real": 1}),
        (MappingProxyType({"m": None}), {"m": None}),
        ({Colour.RED: 1, Name("n"): 2}, {"red": 1, "n": 2}),
        ({Shouted.QUIET: 1}, {"quiet": 1}),
        ("\ud83d\ude00", "\U0001f600"),
    ],
)
def test_subclass_is_what_it_holds(value: Any, plain: Any) -> None:
    """Subclasses of text, numbers, lists and dicts have the form of their content, whatever they show."""
    assert encode(plain) == encode(value)
    assert encode([plain]) == encode([value])
    assert encode({"k": plain}) == encode({"k": value})


@pytest.mark.parametrize("row", VECTORS["tagged"], ids=lambda row: row["name"])
def test_tagged_vectors(row: dict[str, str]) -> None:
    """Each tagged form is the published one."""
    form = bytes.fromhex(row["form_hex"])
    assert form == encode(TAGGED[row["name"]])
    assert form == encode_slow(TAGGED[row["name"]])


TAGGED: dict[str, Any] = {
    "nan": float("nan"),
    "infinity": float("inf"),
    "minus_infinity": float("-inf"),
    "nan_in_object": {"v": float("nan"), "a": 1},
    "lone_surrogate": "a\ud800",
    "lone_surrogate_key": {"\udc00": 1, "a": 2},
    "bytes": b"\x00\xffab",
    "opaque": Opaque.of("x"),
    "number_keys": {1: "one", "a": None},
    "set": {3, 1, 2},
    "decimal": Decimal("1.50"),
    "enum": Shape.ROUND,
    "record": Order(7, "n"),
}


@pytest.mark.parametrize("name", list(TAGGED))
def test_tagged_form_inside(name: str) -> None:
    """A tagged value keeps its form inside lists and objects, where another encoder would write something else."""
    form = encode_slow(TAGGED[name])
    assert b"[" + form + b"]" == encode([TAGGED[name]])
    assert b'{"k":[1,' + form + b"]}" == encode({"k": [1, TAGGED[name]]})


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (PurePosixPath("a//b/"), b'\xffpath"a/b"'),
        (PureWindowsPath("a\\b"), b'\xffpath"a/b"'),
        (datetime(2026, 11, 1, 2, 3, tzinfo=UTC), b'\xffdatetime"2026-11-01T02:03:00+00:00"'),
        (date(2026, 11, 1), b'\xffdate"2026-11-01"'),
        (time(1, 2, 3, 4), b'\xfftime"01:02:03.000004"'),
        (timedelta(days=-1, seconds=5, microseconds=7), b'\xfftimedelta"-1d5s7us"'),
        (UUID(int=7), b'\xffuuid"00000000-0000-0000-0000-000000000007"'),
        (Decimal("1.50"), b'\xffdecimal"1.50"'),
        (b"\x00a", b'\xffbytes"0061"'),
        (bytearray(b"\x00a"), b'\xffbytes"0061"'),
        (memoryview(b"\x00a"), b'\xffbytes"0061"'),
        ({"b", "a"}, b'\xffset["a","b"]'),
        (frozenset({2, 1}), b"\xffset[1,2]"),
        ({2: "b", 1: "a"}, b'\xffmap[[1,"a"],[2,"b"]]'),
    ],
    ids=lambda part: type(part).__name__,
)
def test_form_of_the_standard_library_s_types(value: Any, form: bytes) -> None:
    """Each type has a tag and a spelling of its own, alone and inside, from either encoder."""
    for encoder in (encode, encode_slow):
        assert [form, b"[" + form + b"]", b'{"k":' + form + b"}"] == [
            encoder(value),
            encoder([value]),
            encoder({"k": value}),
        ]


def test_every_tagged_vector_has_a_value() -> None:
    """The vectors and the values here name the same cases."""
    assert sorted(TAGGED) == sorted(row["name"] for row in VECTORS["tagged"])


class Unsupported:
    """A type that has no canonical form, with a secret in its repr."""

    def __repr__(self) -> str:
        """Show what must not be shown."""
        return "SECRET"


def test_unsupported_type_has_a_reason_and_shows_nothing() -> None:
    """An object of an unknown type gives `unparsable`, never a repr, whose address would differ each time."""
    values: list[Any] = [
        *(Unsupported(), [Unsupported()], {"k": Unsupported()}, {Unsupported(): 1}, Unsupported, 1j, iter([])),
        *(Order, [Order], {"k": Order}),
        *({"\ud800": object()}, {"SECRET": "\ud800", "k": object()}),
    ]
    for value in values:
        with pytest.raises(CanonicalError) as caught:
            encode(value)
        assert Unknown.UNPARSABLE is caught.value.reason
        assert "SECRET" not in str(caught.value)
        assert [None, None] == [caught.value.__cause__, caught.value.__context__]


def test_long_text_with_half_a_surrogate_pair_is_hashed_too() -> None:
    """Such text has no UTF-8; it is equal to itself and to nothing else all the same."""
    assert Opaque.of("\ud800") == Opaque.of("\ud800") == Opaque.of(b"\xed\xa0\x80")
    assert Opaque.of("\ud800") != Opaque.of("\ud801")


def test_dict_whose_keys_become_one_has_no_form() -> None:
    """Two keys that are one in canonical form give a reason, not the one or the other."""
    for value in ({"\ud83d\ude00": 1, "\U0001f600": 2}, {float("nan"): 1, float("nan"): 2}):
        assert Unknown.UNPARSABLE is form_or_reason(encode, value)
        assert Unknown.UNPARSABLE is form_or_reason(encode_slow, value)


def test_broken_value_gives_a_reason() -> None:
    """A value that misbehaves while it is read gives `unparsable`, not its own error."""
    view = memoryview(bytearray(b"ab"))
    view.release()
    assert Unknown.UNPARSABLE is form_or_reason(encode, {"k": view})


class BrokenZone(tzinfo):
    """A time zone whose offset cannot be told."""

    def __init__(self, error: type[Exception]) -> None:
        self.error = error

    def utcoffset(self, _when: datetime | None) -> timedelta | None:
        """Fail."""
        raise self.error

    dst = utcoffset

    def tzname(self, _when: datetime | None) -> str | None:
        """Say nothing."""
        return None


@pytest.mark.parametrize("error", [RuntimeError, RecursionError, ValueError, TypeError, AttributeError])
def test_error_of_a_value_gives_a_reason(error: type[Exception]) -> None:
    """Code of the value's own that runs while it is spelled may fail; the call goes on without a digest."""
    value = datetime(2026, 11, 1, tzinfo=BrokenZone(error))
    for inside in (value, [value], {"k": value}):
        assert Unknown.UNPARSABLE is form_or_reason(encode, inside)
        assert Unknown.UNPARSABLE is form_or_reason(encode_slow, inside)


# --- bounds ----------------------------------------------------------------------------------------------


def deep(levels: int, *, kind: type) -> Any:
    """A value of so many containers inside one another."""
    value: Any = kind()
    for _ in range(levels - 1):
        value = {"k": value} if kind is dict else [value]
    return value


@pytest.mark.parametrize("encoder", [encode, encode_slow])
@pytest.mark.parametrize("kind", [list, dict])
def test_depth_is_bounded(encoder: Any, kind: type) -> None:
    """`MAX_DEPTH` levels have a form; one more has none."""
    encoder(deep(canonical.MAX_DEPTH, kind=kind))
    assert Unknown.UNPARSABLE is form_or_reason(encoder, deep(canonical.MAX_DEPTH + 1, kind=kind))
    assert Unknown.UNPARSABLE is form_or_reason(encoder, deep(100_000, kind=kind))


def cycles() -> Iterator[Any]:
    """Values that hold themselves."""
    loop_list: list[Any] = []
    loop_list.append(loop_list)
    yield loop_list
    loop_dict: dict[str, Any] = {"k": [1.0]}
    loop_dict["self"] = (loop_dict,)
    yield loop_dict
    bag = Bag()
    bag["self"] = bag
    yield bag


@pytest.mark.parametrize("encoder", [encode, encode_slow])
def test_cycle_has_no_form(encoder: Any) -> None:
    """A value that holds itself gives a reason."""
    for value in cycles():
        assert Unknown.UNPARSABLE is form_or_reason(encoder, value)


@pytest.mark.parametrize("encoder", [encode, encode_slow])
def test_shared_lists_cannot_blow_up(encoder: Any) -> None:
    """Lists that share lists, worth 2^60 values, give a reason before memory or time is used up."""
    value: Any = [0]
    for _ in range(60):
        value = [value, value]
    assert Unknown.UNPARSABLE is form_or_reason(encoder, value)


def test_shared_text_cannot_blow_up() -> None:
    """A long text held many times over passes the bound on forms without being written out."""
    text = "x" * 1_000_000
    assert Unknown.UNPARSABLE is form_or_reason(encode, [[text] * 1_000] * 100)
    assert Unknown.UNPARSABLE is form_or_reason(encode, {str(number): text for number in range(2_000)})


@pytest.mark.parametrize("encoder", [encode, encode_slow])
def test_number_of_values_is_bounded(encoder: Any) -> None:
    """`MAX_VALUES` values have a form; one more has none."""
    row = [0] * 1_023
    most = [row] * 1_023 + [[0] * 1_022]
    assert canonical.MAX_VALUES == 1 + len(most) + sum(map(len, most))
    assert isinstance(form_or_reason(encoder, most), bytes)
    assert Unknown.UNPARSABLE is form_or_reason(encoder, [row] * 1_024)


def test_length_of_a_form_is_bounded() -> None:
    """A form of `MAX_FORM_BYTES` exists; one byte more does not, from either encoder."""
    text = "x" * (canonical.MAX_FORM_BYTES - 2)
    assert canonical.MAX_FORM_BYTES == len(encode(text))
    for encoder in (encode, encode_slow):
        assert Unknown.UNPARSABLE is form_or_reason(encoder, text + "x")
    assert canonical.MAX_FORM_BYTES == len(encode([text[2:]]))
    for encoder in (encode, encode_slow):
        assert Unknown.UNPARSABLE is form_or_reason(encoder, [text[1:]])


@pytest.mark.parametrize("headroom", [40, 80, 120])
@pytest.mark.parametrize("encoder", [encode, encode_slow])
def test_little_stack_left_is_no_error_of_python(encoder: Any, headroom: int) -> None:
    """Near the recursion limit of the calling program there is a form or a reason, never a RecursionError."""
    frame, depth = inspect.currentframe(), 0
    while frame:
        frame, depth = frame.f_back, depth + 1
    value: Any = deep(60, kind=dict)
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(depth + headroom)
    try:
        outcome = form_or_reason(encoder, value)
    finally:
        sys.setrecursionlimit(before)
    assert outcome in (Unknown.UNPARSABLE, encode(value))


# --- at top ----------------------------------------------------------------------------------------------


def test_null_absent_and_empty_object_are_one_at_top() -> None:
    """Arguments of null and `{}` are the same as none."""
    none: list[Any] = [None, {}, OrderedDict()]
    assert [None, None, None] == [at_top(value) for value in none]


@pytest.mark.parametrize("value", [[], "", 0, False, {"a": None}, {"a": {}}, [{}], set()])
def test_other_values_stay_as_they_are_at_top(value: Any) -> None:
    """Nothing else is taken for null, nor is null inside."""
    assert value is at_top(value)
    assert encode(None) != encode(at_top(value))


# --- published vectors -----------------------------------------------------------------------------------


@pytest.mark.parametrize("row", VECTORS["json"], ids=lambda row: row["name"])
def test_json_vectors(row: dict[str, str]) -> None:
    """Each JSON text has the published form, or none."""
    text = base64.b64decode(row["text_base64"])
    expected = row.get("unknown") or bytes.fromhex(row["form_hex"])
    assert expected == form_or_reason(lambda raw: encode(canonical.parse_json(raw)), text)
    assert expected == form_or_reason(lambda raw: encode_slow(canonical.parse_json(raw)), text)
