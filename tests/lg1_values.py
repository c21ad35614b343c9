"""Values that try to tell two encoders apart, and a reader of `lg1` forms that shares no code with them."""

from __future__ import annotations

import json
import math
from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, NamedTuple, Self
from uuid import UUID

from hypothesis import strategies as st

from otel_loopguard.canonical import Opaque


class Colour(StrEnum):
    """Members that are text."""

    RED = "red"


class Level(IntEnum):
    """Members that are numbers."""

    HIGH = 3


class Shape(Enum):
    """Members that are neither."""

    ROUND = (1, "round")


class Shouted(str, Enum):  # noqa: UP042 - the older way, which people still use
    """Members whose text and value differ."""

    def __new__(cls, text: str) -> Self:
        """Make a member whose value is upper-case."""
        member = str.__new__(cls, text)
        member._value_ = text.upper()
        return member

    QUIET = "quiet"


class Name(str):
    """A subclass that shows other text than it holds."""

    __slots__ = ()

    def __str__(self) -> str:
        """Lie."""
        return "another"


class Count(int):
    """A subclass that shows another number than it holds."""

    def __repr__(self) -> str:
        """Lie."""
        return "99"


class Ratio(float):
    """A subclass that shows another number than it holds."""

    def __repr__(self) -> str:
        """Lie."""
        return "9.9"


class Bag(dict[Any, Any]):
    """A subclass that shows no members."""

    def items(self) -> Any:
        """Lie."""
        return {}.items()


class Point(NamedTuple):
    """A tuple with names."""

    x: int
    y: Any


@dataclass(frozen=True)
class Order:
    """A record."""

    number: int
    note: Any = None


EDGE_INTS = [
    sign * (2**power + step) for sign in (1, -1) for power in (0, 31, 53, 60, 63, 64, 100, 2048) for step in (-1, 0, 1)
]
EDGE_FLOATS = [
    *(0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324, 1e-7, 9.999999e-7, 1e-6, 1.5e-6, 1e-5, 1e-4, 1.5e-4),
    *(1e15, 1e15 + 0.5, 1e16, 2.0**53 - 1, 2.0**53, 2.0**53 + 2, 2.0**60, 1e20, 1e21, 1.5e21, 1e22, 1e23, 1e300),
]
# Weighted towards what sorts or escapes oddly: controls, quotes, DEL, line separators, surrogates, both sides of
# the gap where UTF-16 and code points order differently.
ODD_CHARACTERS = (
    '\x00\x1f\b\t\n\f\r"\\/\x7f\x80\u2028\u2029\ud800\udbff\udc00\udfff\ue000\ufb33\uffff\U0001f600\U0010ffff€aä1:'
)

ints = st.integers() | st.sampled_from(EDGE_INTS)
finite_floats = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(
    [value for value in EDGE_FLOATS if math.isfinite(value)]
)
floats = st.floats() | st.sampled_from(EDGE_FLOATS)
any_text = st.text(max_size=8) | st.text(alphabet=ODD_CHARACTERS, max_size=4)
clean_text = any_text.map(lambda text: text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "replace"))


def nested(atoms: st.SearchStrategy[Any], keys: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Lists and dicts of `atoms`."""
    return st.recursive(
        atoms, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(keys, inner, max_size=5), max_leaves=20
    )


json_values = nested(st.none() | st.booleans() | ints | finite_floats | clean_text, clean_text)
"""What strict JSON can say, integers of any size."""

odd_atoms = st.sampled_from(
    [
        *(Colour.RED, Level.HIGH, Shape.ROUND, Shouted.QUIET, Name("n"), Count(5), Ratio(2.5), b"", b"\xff\x00", b"ab"),
        *(bytearray(b"ab"), memoryview(b"ab"), Opaque.of("x"), Opaque.of("y"), Decimal("1.50"), Decimal("NaN")),
        *(date(2026, 11, 1), datetime(2026, 11, 1, tzinfo=UTC), time(1, 2), timedelta(days=-1, seconds=5)),
        *(
            UUID(int=7),
            PurePosixPath("/a/b"),
            Point(1, [2]),
            Order(1, {"k": 1.0}),
            frozenset({1, "a"}),
            {1, 2.5},
            set(),
        ),
        *(OrderedDict(b=1, a=2), defaultdict(int, z=1), Bag(real=1), MappingProxyType({"m": None}), object, object()),
    ]
)
odd_keys = any_text | st.sampled_from(
    [None, True, 0, 1, 2.5, b"k", (1, 2), Colour.RED, Level.HIGH, Shouted.QUIET, Name("n"), Count(5), 2**70, math.nan]
)
all_values = (
    nested(
        st.none() | st.booleans() | ints | floats | any_text | odd_atoms,
        any_text | odd_keys,
    )
    | st.lists(nested(st.booleans() | any_text, any_text), max_size=4).map(tuple)
    | st.lists(floats, max_size=6)
)
"""Everything that an encoder could meet, supported or not."""


def read_form(form: bytes) -> Any:
    """Read an `lg1` form back: lists as list, objects as dict, tagged forms as (tag, payload); all bytes used.

    Members and items must be separated exactly as the form writes them, so that reading back proves that a form
    can be read in one way only.
    """
    value, end = _read(form, 0)
    assert len(form) == end
    return value


def _read(form: bytes, at: int) -> tuple[Any, int]:
    first = form[at : at + 1]
    if first == b"\xff":
        start = at + 1
        end = start
        while form[end : end + 1].isalnum() and form[end : end + 1] not in b'"[{':
            end += 1
        payload, after = _read(form, end)
        return (form[start:end].decode(), payload), after
    if first == b"[":
        return _read_list(form, at + 1)
    if first == b"{":
        return _read_object(form, at + 1)
    end = at
    if first == b'"':
        end += 1
        while form[end : end + 1] != b'"':
            end += 2 if form[end : end + 1] == b"\\" else 1
        end += 1
    else:
        while form[end : end + 1] not in (b"", b",", b"]", b"}", b":"):
            end += 1
    return json.loads(form[at:end].decode()), end


def _read_list(form: bytes, at: int) -> tuple[list[Any], int]:
    items: list[Any] = []
    if form[at : at + 1] == b"]":
        return items, at + 1
    while True:
        item, at = _read(form, at)
        items.append(item)
        if form[at : at + 1] == b"]":
            return items, at + 1
        assert b"," == form[at : at + 1]
        at += 1


def _read_object(form: bytes, at: int) -> tuple[dict[Any, Any], int]:
    members: dict[Any, Any] = {}
    if form[at : at + 1] == b"}":
        return members, at + 1
    while True:
        name, at = _read(form, at)
        assert b":" == form[at : at + 1]
        assert name not in members
        members[name], at = _read(form, at + 1)
        if form[at : at + 1] == b"}":
            return members, at + 1
        assert b"," == form[at : at + 1]
        at += 1
