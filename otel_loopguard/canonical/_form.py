"""The definition of `lg1`: an encoder in plain Python that is meant to be read, and the bounds it keeps.

Invariants: what JSON can say is written as RFC 8785 writes it. What JSON cannot say is a tagged form: the byte
0xFF, which occurs in no UTF-8 text and so in no JSON text, then the tag's name, then JSON. Every form ends
where it ends whatever follows, so a form inside a list or an object cannot be mistaken for its neighbours.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

import msgspec

from otel_loopguard.errors import LoopGuardError
from otel_loopguard.model import Unknown, Value

MAX_TEXT_BYTES: Final = 1_048_576
"""JSON text above this many bytes is not parsed but hashed whole (DESIGN 5)."""
MAX_DEPTH: Final = 64
"""Containers inside containers. Tool arguments stay below ten; 64 leaves the C encoders' stack alone."""
MAX_VALUES: Final = 1_048_576
"""Values in one form, itself included, names of members not. Text of `MAX_TEXT_BYTES` holds fewer; shared lists in
memory can hold more."""
MAX_FORM_BYTES: Final = 67_108_864
"""Length of one form, 64 MiB: 64 times the largest text that is parsed."""
MAX_INT_DIGITS: Final = 4300
"""Digits of one integer: Python's own default bound, above which conversion takes quadratic time."""

TAG: Final = b"\xff"
PLAIN_BITS: Final = 2048
"""Below 640 digits, the lowest limit on conversions that a process can set."""
_MOST_BITS: Final = MAX_INT_DIGITS * 10 // 3
"""Bits that no integer of `MAX_INT_DIGITS` digits exceeds (log2 of 10 is below 10/3)."""
# ECMA-262, Number::toString: powers of ten that are written out.
_LOWEST_PLAIN_POWER: Final = -6
_LOWEST_POWER_WITH_EXPONENT: Final = 21

TOO_DEEP: Final = f"more than {MAX_DEPTH} levels, or a cycle"
TOO_MANY: Final = f"more than {MAX_VALUES} values"
TOO_LONG: Final = f"a form of more than {MAX_FORM_BYTES} bytes"


class CanonicalError(LoopGuardError):
    """A value has no canonical form. `reason` says why; the message holds no content."""

    def __init__(self, reason: Unknown, why: str) -> None:
        super().__init__(f"no canonical form ({reason}): {why}")
        self.reason = reason


def unparsable(why: str) -> CanonicalError:
    """Give the error for a value or text that cannot be brought into canonical form."""
    return CanonicalError(Unknown.UNPARSABLE, why)


class Opaque(msgspec.Struct, frozen=True):
    """Stands for text above `MAX_TEXT_BYTES`: equal only to the Opaque of the same bytes. Holds no text."""

    digest: bytes
    """SHA-256 of the text as UTF-8. Unkeyed: it never leaves the process but inside a keyed digest."""

    @classmethod
    def of(cls, text: str | bytes) -> Opaque:
        """Hash the whole of `text`. Cost: linear, about 1 ms a MiB."""
        raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        return cls(hashlib.sha256(raw).digest())


class _Room:
    """How many values and how many bytes of atoms one form may still hold."""

    __slots__ = ("size", "values")

    def __init__(self) -> None:
        self.values = MAX_VALUES
        self.size = MAX_FORM_BYTES

    def take(self, size: int, *, values: int = 1) -> None:
        """Take room for one value (none, for a key) of `size` bytes; running out is a `CanonicalError`."""
        self.values -= values
        self.size -= size
        if self.values < 0:
            raise unparsable(TOO_MANY)
        if self.size < 0:
            raise unparsable(TOO_LONG)


def encode_slow(value: Value) -> bytes:
    """Encode `value` as `lg1`, the plain way: what `encode` must equal.

    Args:
        value: any Python value.

    Returns:
        The canonical form: UTF-8 JSON as in RFC 8785, but for tagged forms.

    Raises:
        CanonicalError: unsupported type, a cycle or more than `MAX_DEPTH` levels, or another bound passed.

    Cost: linear in the size of the value; 10 to 60 times `encode`.
    """
    try:
        out = _form(value, MAX_DEPTH, _Room())
    except (RuntimeError, ValueError, TypeError, AttributeError):
        out = None  # RecursionError is a RuntimeError; a released memoryview and a broken tzinfo are among the others
    if out is None:
        # Raised after the handler, so that no error which holds the value hangs on this one.
        msg = "the value changed while it was read, does not behave as its type, or the stack is used up"
        raise unparsable(msg)
    if len(out) > MAX_FORM_BYTES:
        raise unparsable(TOO_LONG)
    return out


def _form(value: Value, depth: int, room: _Room) -> bytes:
    out = _atom(value)
    if out is not None:
        room.take(len(out))
        return out
    if depth == 0:
        raise unparsable(TOO_DEEP)
    room.take(0)
    return _container(value, depth - 1, room)


def _atom(value: Value) -> bytes | None:
    """Write a value that holds no other values; None for one that may."""
    # bool before int, and text and numbers before Enum: a StrEnum's member is its text.
    if value is None:
        return b"null"
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, str):
        return text_form(value)
    if isinstance(value, int):
        return _int_form(value)
    if isinstance(value, float):
        return float_form(value)
    return _tagged_atom(value)


def _tagged_atom(value: Value) -> bytes | None:
    if isinstance(value, bytes | bytearray | memoryview):
        return _tagged("bytes", _quoted(bytes(value).hex()))
    if isinstance(value, Opaque):
        return _tagged("opaque", _quoted(value.digest.hex()))
    if isinstance(value, PurePath):
        return _tagged("path", text_form(value.as_posix()))
    spell = _SPELLINGS.get(type(value))
    return None if spell is None else _tagged(spell[0], _quoted(spell[1](value)))


def _container(value: Value, depth: int, room: _Room) -> bytes:
    def inner(item: Value) -> bytes:
        return _form(item, depth, room)

    # The built-in types' own methods, so that a subclass cannot show other content than it has.
    if isinstance(value, dict | MappingProxyType):
        items = list(dict.items(value) if isinstance(value, dict) else value.items())
        return _object_form(items, inner, room) if _all_text(items) else _map_form(items, inner)
    if isinstance(value, list):
        return _list_form(map(inner, list.__iter__(value)))
    if isinstance(value, tuple):
        return _list_form(map(inner, tuple.__iter__(value)))
    if isinstance(value, set | frozenset):
        return _tagged("set", _list_form(sorted(map(inner, value))))
    if isinstance(value, Enum):
        return _tagged("enum", _list_form((text_form(type(value).__qualname__), inner(value.value))))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
        return _tagged("object", _list_form((text_form(type(value).__qualname__), inner(fields))))
    msg = "a value of a type that has no canonical form"
    raise unparsable(msg)


def _all_text(items: Iterable[tuple[Any, Any]]) -> bool:
    return all(isinstance(key, str) for key, _ in items)


def _object_form(items: Iterable[tuple[str, Any]], inner: Callable[[Value], bytes], room: _Room) -> bytes:
    # RFC 8785 3.2.3: sorted by UTF-16 code unit.
    members = sorted((_utf16(key), text_form(key), inner(item)) for key, item in items)
    names = [name for _, name, _ in members]
    room.take(sum(map(len, names)), values=0)
    _refuse_equal(names)
    return b"{" + b",".join(name + b":" + item for _, name, item in members) + b"}"


def _map_form(items: Iterable[tuple[Any, Any]], inner: Callable[[Value], bytes]) -> bytes:
    """Write a dict that JSON has no object for: a list of pairs sorted by their forms, in a tag of its own."""
    pairs = sorted((inner(key), inner(item)) for key, item in items)
    _refuse_equal([key for key, _ in pairs])
    return _tagged("map", _list_form(_list_form(pair) for pair in pairs))


def _refuse_equal(keys: list[bytes]) -> None:
    """Refuse keys that are one in canonical form but two in Python, such as two spellings of one surrogate pair."""
    if len(set(keys)) != len(keys):
        msg = "two keys with one canonical form"
        raise unparsable(msg)


def _list_form(forms: Iterable[bytes]) -> bytes:
    return b"[" + b",".join(forms) + b"]"


def _tagged(tag: str, payload: bytes) -> bytes:
    return TAG + tag.encode() + payload


def _quoted(text: str) -> bytes:
    return json.dumps(text, ensure_ascii=False).encode()


def _utf16(text: str) -> bytes:
    return str.encode(text, "utf-16-be", "surrogatepass")


def text_form(text: str) -> bytes:
    """Write a string: JSON with the escapes of RFC 8785; tagged UTF-16 in hex if it holds a lone surrogate."""
    units = _utf16(text)
    try:
        return _quoted(units.decode("utf-16-be"))
    except UnicodeDecodeError:
        return _tagged("utf16", _quoted(units.hex()))


def _int_form(value: int) -> bytes:
    if int.bit_length(value) <= PLAIN_BITS:
        return int.__repr__(value).encode()
    # By way of Decimal, because a process may set `sys.set_int_max_str_digits` lower or higher than the bound here.
    if int.bit_length(value) <= _MOST_BITS:
        digits = f"{Decimal(value):f}"
        if len(digits.lstrip("-")) <= MAX_INT_DIGITS:
            return digits.encode()
    msg = f"an integer of more than {MAX_INT_DIGITS} digits"
    raise unparsable(msg)


def float_form(value: float) -> bytes:
    """Write a float as ECMAScript's Number::toString does (RFC 8785 3.2.2.3); NaN and infinities tagged.

    Python and ECMAScript choose the same shortest digits and differ only in when they write an exponent, and how.
    """
    spelled = float.__repr__(value)
    if "n" in spelled:  # nan, inf, -inf
        return _tagged("float", _quoted(spelled))
    if "e" not in spelled:
        spelled = spelled.removesuffix(".0")
        return b"0" if spelled == "-0" else spelled.encode()
    mantissa, _, exponent = spelled.partition("e")
    power = int(exponent)
    if _LOWEST_PLAIN_POWER <= power < _LOWEST_POWER_WITH_EXPONENT:
        return f"{Decimal(spelled):f}".encode()
    return f"{mantissa}e{power:+d}".encode()


def _spell_timedelta(value: timedelta) -> str:
    return f"{value.days}d{value.seconds}s{value.microseconds}us"


_SPELLINGS: Final[Mapping[type, tuple[str, Callable[[Any], str]]]] = MappingProxyType(
    {
        Decimal: ("decimal", str),
        datetime: ("datetime", datetime.isoformat),
        date: ("date", date.isoformat),
        time: ("time", time.isoformat),
        timedelta: ("timedelta", _spell_timedelta),
        UUID: ("uuid", str),
    }
)
"""Tag and spelling of types that are one text, by exact type."""
