"""Reading JSON text: strict about structure, exact about values, bounded before anything is parsed.

Invariants: a duplicate key is found however it is spelled; depth is counted before a parser sees the text; no
number is rounded but a fraction to its float. The C parser does the work wherever counting proves that it
lost nothing; Python's own parser reads the rest.
"""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any, Final, NoReturn

import msgspec

from otel_loopguard.canonical._encode import as_form, is_written_plainly
from otel_loopguard.canonical._form import MAX_DEPTH, MAX_INT_DIGITS, MAX_TEXT_BYTES, Opaque, unparsable
from otel_loopguard.model import Value

_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder(order="sorted").encode
_BOM: Final = b"\xef\xbb\xbf"
_BRACKETS: Final = bytes.maketrans(b"[{]}", b"(())")
_NOT_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in b"[]{}")
_LOWEST_LIMIT: Final = 640
"""The lowest limit on digits that `sys.set_int_max_str_digits` can set."""


def parse_json(text: str | bytes) -> Value:
    """Parse one JSON text without losing anything that tells two texts apart.

    Args:
        text: JSON as text or UTF-8. One byte order mark in front is passed over. `NaN`, `Infinity`,
            `-Infinity` and escaped lone surrogates are read as Python's `json` reads them.

    Returns:
        The value, integers exact; `Opaque` for text of more than `MAX_TEXT_BYTES` bytes, parsable or not.

    Raises:
        CanonicalError: `unparsable`: not JSON, not UTF-8, a duplicate key, more than `MAX_DEPTH` levels, an
            integer of more than `MAX_INT_DIGITS` digits, a number beyond the range of a float.

    Cost: linear; above the size bound one hash of the text, below it about as much as `json.loads`, which proves less.
    """
    return parse_with_form(text)[0]


def parse_with_form(text: str | bytes) -> tuple[Value, bytes | None]:
    """Parse one JSON text as `parse_json` does; give the value's canonical form with it, where that has come to light.

    To prove that nothing was lost, the value is written again, and with its keys in order that is the form of most
    values: what `encode` makes sure of besides, the parser has seen. None where `encode` must decide.
    """
    raw = text.encode() if type(text) is str and text.isascii() and len(text) <= MAX_TEXT_BYTES else _to_bytes(text)
    if raw is None:
        return Opaque.of(text), None
    raw = raw.removeprefix(_BOM)
    if len(raw) > MAX_DEPTH and raw.count(b"{") + raw.count(b"[") > MAX_DEPTH:
        _check_depth(raw)
    try:
        value = _decode_plain(raw)
        out = _encode(value)
        kept_all = _kept_all(raw, out)
    except (msgspec.DecodeError, RecursionError, ValueError):
        kept_all = False  # bad text, a float that is written otherwise, or text that only the slower parser accepts
    if kept_all:
        return value, out if out.isascii() and len(out) <= MAX_INT_DIGITS else as_form(out, value)
    try:
        value = _decode(raw)
        if _kept_all(raw, _encode(value)):
            return value, None
    except (msgspec.DecodeError, RecursionError, ValueError):
        pass
    return _parse_slowly(raw, surrogates="surrogatepass" if isinstance(text, str) else "strict"), None


def _to_bytes(text: str | bytes) -> bytes | None:
    """Give the text as bytes (lone surrogates as themselves), or None if it is over the size bound."""
    if len(text) > MAX_TEXT_BYTES:
        return None
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else bytes(text)
    return None if len(raw) > MAX_TEXT_BYTES else raw


def _kept_all(raw: bytes, written: bytes) -> bool:
    """Prove by counting colons that no duplicate key was dropped; False if there is no proof this way.

    Args:
        raw: the text.
        written: what the C parser made of it, as text again.
    """
    # What a dropped member takes along is a colon or more; an escaped colon would count only in what was kept.
    if b"\\" in raw and (b"\\u003a" in raw or b"\\u003A" in raw):
        return False
    return raw.count(b":") == written.count(b":")


def _plain_float(spelled: str) -> float:
    value = float(spelled)
    if not is_written_plainly(value):
        msg = "a float that the encoder must look at"
        raise ValueError(msg)
    return value


_decode_plain: Final = msgspec.json.Decoder(float_hook=_plain_float).decode
"""Refuses text with a float that the C encoder does not write as `lg1`."""


def _check_depth(raw: bytes) -> None:
    """Refuse text of more than `MAX_DEPTH` levels, or whose brackets do not match, without parsing it.

    Where the text is not JSON, strings may be told apart wrongly from there on; a parser gets no further than there.
    Cost: linear, the levels peeled off from the inside by C code, at most `MAX_DEPTH` times.
    """
    if b"\\" in raw:
        raw = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    brackets = b"".join(raw.split(b'"')[::2]).translate(_BRACKETS, _NOT_BRACKETS)
    for _ in range(MAX_DEPTH):
        before = len(brackets)
        brackets = brackets.replace(b"()", b"")
        if len(brackets) in (0, before):
            break
    if brackets:
        msg = f"JSON of more than {MAX_DEPTH} levels, or brackets that do not match"
        raise unparsable(msg)


def _parse_slowly(raw: bytes, *, surrogates: str) -> Value:
    # Raised after the handler, so that no error of the parser, which holds the text, hangs on ours.
    why = "not UTF-8"
    try:
        text = raw.decode("utf-8", surrogates)
        why = "not JSON"
        return json.loads(text, object_pairs_hook=_object, parse_int=_int, parse_float=_float)
    except (ValueError, RecursionError):
        pass
    raise unparsable(why)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        msg = "a duplicate key"
        raise unparsable(msg)
    return members


def _int(digits: str) -> int:
    if len(digits.lstrip("-")) > MAX_INT_DIGITS:
        _refuse_number()
    # By way of Decimal where the process's own limit on conversions may be lower.
    return int(digits) if len(digits) < _LOWEST_LIMIT else int(Decimal(digits))


def _float(spelled: str) -> float:
    value = float(spelled)
    if math.isinf(value):
        _refuse_number()
    return value


def _refuse_number() -> NoReturn:
    msg = "a number out of range"
    raise unparsable(msg)
