"""The fast encoder: a C encoder wherever a cheap look proves that it writes `lg1`, else `encode_slow`.

Invariant: `encode` equals `encode_slow` on every value, errors included; property tests hold it. The C
encoder differs from `lg1` on floats, on the order of keys beyond the BMP, on keys and values that JSON does not
have, and on bounds; `_ready` replaces the floats and leaves all the rest to the plain encoder.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from otel_loopguard.canonical._form import (
    MAX_DEPTH,
    MAX_FORM_BYTES,
    MAX_VALUES,
    TOO_DEEP,
    TOO_LONG,
    TOO_MANY,
    encode_slow,
    exact_whole,
    float_form,
    unparsable,
)
from otel_loopguard.model import Value

_encode_sorted: Final = msgspec.json.Encoder(order="sorted").encode
_ATOMS: Final = frozenset({str, int, bool, type(None)})
"""Types that the C encoder writes as `lg1` does, by exact type."""
_TEXT: Final = frozenset({str})
_FEW_VALUES: Final = 256
"""Up to so many values shared text cannot blow a form up enough to be worth adding up."""
_LAST_BMP: Final = "\uffff"


class _LeaveToSlowError(Exception):
    """The plain encoder must decide."""


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

    Cost: linear; values of JSON types about a third of `json.dumps(sort_keys=True)`.
    """
    try:
        return _encode_fast(value)
    except (_LeaveToSlowError, RuntimeError, ValueError, TypeError):
        # Lone surrogates and over-long integers are ValueErrors, recursion and a dict changed meanwhile RuntimeErrors.
        return encode_slow(value)


def _encode_fast(value: Value) -> bytes:
    kind = type(value)
    if kind in _ATOMS:
        out = _encode_sorted(value)
    elif kind is float:
        out = float_form(value)
    else:
        room = [MAX_VALUES - 1]
        ready = _ready(value, MAX_DEPTH, room)
        if room[0] < MAX_VALUES - _FEW_VALUES and _text_length(value) > MAX_FORM_BYTES:
            raise unparsable(TOO_LONG)
        out = _encode_sorted(ready)
        if not out.isascii() and _astral_key(value):
            raise _LeaveToSlowError
    if len(out) > MAX_FORM_BYTES:
        raise unparsable(TOO_LONG)
    return out


def _ready(value: Any, depth: int, room: list[int]) -> Any:
    """Give a container that the C encoder writes as `lg1`: the same one where possible, else a changed copy."""
    kind = type(value)
    if kind is dict:
        if not _TEXT.issuperset(map(type, value)):
            raise _LeaveToSlowError
        items = value.values()
        room[0] -= 2 * len(value)
    elif kind is list or kind is tuple:
        items = value
        room[0] -= len(value)
    else:
        raise _LeaveToSlowError
    if depth == 0 or room[0] < 0:
        raise unparsable(TOO_MANY if depth else TOO_DEEP)
    if _ATOMS.issuperset(map(type, items)):
        return value
    return _ready_inside(value, depth - 1, room)


def _ready_inside(value: Any, depth: int, room: list[int]) -> Any:
    changed = None
    for place, item in value.items() if type(value) is dict else enumerate(value):
        kind = type(item)
        if kind in _ATOMS:
            continue
        ready = _ready_float(item) if kind is float else _ready(item, depth, room)
        if ready is not item:
            if changed is None:
                changed = dict(value) if type(value) is dict else list(value)
            changed[place] = ready
    return value if changed is None else changed


def _ready_float(value: float) -> Any:
    if exact_whole(value):
        return int(value)
    if 1e-4 < abs(value) < 1e15:  # noqa: PLR2004 - well inside where both write plain digits
        return value
    return msgspec.Raw(float_form(value))


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
    """Say whether a key of a checked container goes beyond the BMP, where UTF-16 and code points sort apart."""
    open_containers = [value]
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


_CONTAINERS: Final = frozenset({dict, list, tuple})
