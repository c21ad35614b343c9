"""The fast encoder: a C encoder wherever a cheap look proves that it writes `lg1`, else `encode_slow`.

Invariant: `encode` equals `encode_slow` on every value, errors included; property tests hold it. The C
encoder differs from `lg1` on floats, on the order of keys beyond the BMP, on keys and values that JSON does not
have, and on bounds; `_survey` finds whatever of these a value holds.
"""

from __future__ import annotations

from gc import get_referents
from sys import get_int_max_str_digits
from typing import Any, Final

import msgspec

from otel_loopguard.canonical._form import (
    MAX_DEPTH,
    MAX_FORM_BYTES,
    MAX_INT_DIGITS,
    MAX_VALUES,
    PLAIN_BITS,
    TOO_DEEP,
    TOO_LONG,
    TOO_MANY,
    encode_slow,
    float_form,
    unparsable,
)
from otel_loopguard.model import Value

_encode_sorted: Final = msgspec.json.Encoder(order="sorted").encode
_ATOMS: Final = frozenset({str, int, bool, type(None)})
"""Types that the C encoder writes as `lg1` does, by exact type."""
_CHECKED_LIMITS: Final = range(1, MAX_INT_DIGITS + 1)
"""Settings of the interpreter's limit on digits under which it refuses any integer that `lg1` refuses (0: no limit)."""
_LEAST_PLAIN: Final = 1e-5
_MOST_PLAIN: Final = 1e15
"""Fractions in this range both encoders write out in plain digits, and whole numbers are exact integers."""
_CONTAINERS: Final = frozenset({dict, list, tuple})
_MUCH_ROOM: Final = MAX_VALUES - 1024
"""With more room left than this there are too few values for shared text to blow the form up beyond memory."""
_LONG_TEXT: Final = MAX_FORM_BYTES // 6
"""Characters of a string that, all escaped, might pass the bound on forms."""
_LAST_BMP: Final = "\uffff"


def at_top(value: Value) -> Value:
    """Make null, absent and `{}` one, as arguments at top level are; any other value comes back as it is."""
    return None if isinstance(value, dict) and not value else value


def encode(value: Value) -> bytes:
    """Encode `value` as `lg1`.

    Args:
        value: any Python value.

    Returns:
        The canonical form: UTF-8 JSON as in RFC 8785, but for tagged forms (`docs/canonical-form.md`).

    Raises:
        CanonicalError: unsupported type, a cycle or more than `MAX_DEPTH` levels, or another bound passed.

    Cost: linear; half to a third of `json.dumps(sort_keys=True)`, but up to three times as much for many floats that
    are whole or very small; what JSON cannot say, and names beyond the BMP, as `encode_slow`.
    """
    try:
        out = _encode_container(value) if type(value) in _CONTAINERS else _encode_atom(value)
    except (RuntimeError, ValueError, TypeError):
        # Lone surrogates and over-long integers are ValueErrors, recursion and a dict changed meanwhile RuntimeErrors,
        # keys that are no text TypeErrors. Left here, so that no error which holds the value hangs on ours.
        out = None
    return encode_slow(value) if out is None else out


def _encode_container(value: Any) -> bytes | None:
    room, odd_floats = _survey(value)
    if room < 0:
        return None
    if room < _MUCH_ROOM and _text_length(value) > MAX_FORM_BYTES:
        raise unparsable(TOO_LONG)
    out = _encode_sorted(_with_floats_written(value) if odd_floats else value)
    if len(out) > MAX_FORM_BYTES:
        raise unparsable(TOO_LONG)
    return as_form(out, value)


def as_form(out: bytes, value: Any) -> bytes | None:
    """Give what the C encoder wrote of a surveyed value, keys sorted; None where it is not the canonical form."""
    if not out.isascii() and _astral_key(value):
        return None
    if len(out) > MAX_INT_DIGITS and get_int_max_str_digits() not in _CHECKED_LIMITS:
        return None
    return out


def is_written_plainly(value: float) -> bool:
    """Say of a float that the C encoder writes it as `lg1`: a fraction of plain digits."""
    return _LEAST_PLAIN <= abs(value) < _MOST_PLAIN and not value.is_integer()


def _encode_atom(value: Any) -> bytes | None:
    kind = type(value)
    if kind is float:
        return float_form(value)
    if kind not in _ATOMS or (kind is str and len(value) > _LONG_TEXT):
        return None
    return None if kind is int and value.bit_length() > PLAIN_BITS else _encode_sorted(value)


def _survey(value: Any) -> tuple[int, bool]:
    """Look at a container level by level: does it hold only what the C encoder writes as `lg1`, within bounds?

    Returns:
        How many more values there is room for (negative: the plain encoder must decide), and whether there are floats
        that the C encoder writes otherwise.
    """
    room = MAX_VALUES - 1
    odd_floats = False
    level = [value]
    size = len(value)
    for _ in range(MAX_DEPTH):
        if size > room:
            raise unparsable(TOO_MANY)
        # All that a level's containers hold, in one C call: list items and dict values; and keys, of a dict with other
        # keys than exact strings. The count shows those, and would show it if an interpreter passed anything over.
        inside = get_referents(*level)
        if len(inside) != size:
            return -1, False
        room -= size
        if _ATOMS.issuperset(map(type, inside)):
            return room, odd_floats
        level = []
        for item in inside:
            kind = type(item)
            if kind in _ATOMS:
                continue
            if kind in _CONTAINERS:
                level.append(item)
            elif kind is float:
                odd_floats = odd_floats or not is_written_plainly(item)
            else:
                return -1, False
        if not level:
            return room, odd_floats
        size = sum(map(len, level))
    raise unparsable(TOO_DEEP)


def _with_floats_written(value: Any) -> Any:
    """Copy a surveyed container with each float as what the C encoder writes as `lg1`."""
    kind = type(value)
    if kind is float:
        if _LEAST_PLAIN <= abs(value) < _MOST_PLAIN:
            return int(value) if value.is_integer() else value
        return msgspec.Raw(float_form(value))
    # Looking at the type here spares most values a call.
    if kind is dict:
        return {key: item if type(item) in _ATOMS else _with_floats_written(item) for key, item in value.items()}
    return [item if type(item) in _ATOMS else _with_floats_written(item) for item in value]


def _text_length(value: Any) -> int:
    """Add up the text of a checked container, giving up above `MAX_FORM_BYTES`."""
    total = 0
    open_containers = [value]
    while open_containers and total <= MAX_FORM_BYTES:
        container = open_containers.pop()
        items = container
        if type(container) is dict:
            items = container.values()
            total += sum(map(len, container))
        total += sum([len(item) for item in items if type(item) is str])
        open_containers.extend([item for item in items if type(item) in _CONTAINERS])
    return total


def _astral_key(value: Any) -> bool:
    """Say whether a key of a checked value goes beyond the BMP, where UTF-16 and code points sort apart."""
    open_containers = [value] if type(value) in _CONTAINERS else []
    while open_containers:
        container = open_containers.pop()
        items = container
        if type(container) is dict:
            items = container.values()
            keys = "".join(container)
            if not keys.isascii() and max(keys) > _LAST_BMP:
                return True
        open_containers.extend([item for item in items if type(item) in _CONTAINERS])
    return False
