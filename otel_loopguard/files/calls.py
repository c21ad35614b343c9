"""Call records: one JSON object a line, a tool call written down by an application (DESIGN 9).

Invariants: strict, because a record that is read wrongly is judged wrongly. A missing field, a wrong type or a
key that stands twice gives a reason that names the field, never a guess. Unknown fields are ignored.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from otel_loopguard.files.reasons import Reason
from otel_loopguard.model import CallRecord

REQUIRED: Final = ("run_id", "sequence", "tool", "arguments")
_MAX_NUMBER: Final = 2**63 - 1
_MAX_SECONDS: Final = _MAX_NUMBER // 1_000_000_000
"""Largest `ts`: past this it is no number of seconds (most often it is one of milliseconds or nanoseconds)."""
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_NONE: Final = type(None)
_TEXT: Final = (str, _NONE)
_LABEL: Final = (int, str, _NONE)
_SWITCH: Final = (bool, _NONE)
OPTIONAL: Final[dict[str, tuple[type, ...]]] = {
    "turn": _LABEL,
    "call_id": _LABEL,
    "error": (bool, str, _NONE),
    "ts": (int, float, _NONE),
    "agent": _TEXT,
    "user_turn": _LABEL,
    "session": _LABEL,
    "task": _LABEL,
    "attempt": _LABEL,
    "tenant": _LABEL,
    "key_id": _TEXT,
    "effect": _TEXT,
    "dispatched": _SWITCH,
    "denied": _SWITCH,
    "concurrent": _SWITCH,
    "result_missing": _SWITCH,
    "after_compaction": _SWITCH,
}
"""Every optional field and the JSON types it may have. Where the record's field is text, a number is written out."""

_AS_TEXT: Final = frozenset({"call_id", "session", "task", "tenant"})


class RecordError(Exception):
    """The record cannot be read; `reason` is what a `BadInput` says. Private to `files`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def parse(text: str) -> Any:
    """The JSON value of `text`; numbers exact, NaN and infinities as Python writes them.

    Raises:
        RecordError: it is not JSON, is nested too deep, or has a key twice in one object.
    """
    value, end = parse_at(text, 0)
    if end < len(text):
        raise RecordError(Reason.NOT_JSON.value)
    return value


def parse_at(text: str, place: int) -> tuple[Any, int]:
    """The JSON value that begins at `place` or after the white space there, and where the next one may begin."""
    try:
        value, end = _DECODER.raw_decode(text, _after_space(text, place))
    except RecursionError:
        raise RecordError(Reason.TOO_DEEP.value) from None
    except ValueError:  # also an integer of more digits than Python converts
        raise RecordError(Reason.NOT_JSON.value) from None
    return value, _after_space(text, end)


def _after_space(text: str, place: int) -> int:
    match = _SPACE.match(text, place)
    return match.end() if match else place


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise RecordError(Reason.DUPLICATE_KEY.value)
    return found


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_unique)


def looks_like_record(value: Any) -> bool:
    """True where a JSON object means to be a call record."""
    return isinstance(value, dict) and ("run_id" in value or "tool" in value)


def record(fields: dict[str, Any]) -> CallRecord:
    """The call record that a JSON object holds.

    Raises:
        RecordError: a required field is missing, or a field has the wrong type.
    """
    for name in REQUIRED:
        if name not in fields:
            raise RecordError(Reason.MISSING_FIELD.of(name))
    sequence = fields["sequence"]
    if type(sequence) is not int or abs(sequence) > _MAX_NUMBER:
        raise RecordError(Reason.BAD_FIELD.of("sequence"))
    has_result = "result" in fields
    if has_result and "observation" in fields:
        raise RecordError(Reason.TWO_RESULTS.value)
    optional = _optional(fields)
    missing = optional.pop("result_missing", False)
    has_result = (has_result or "observation" in fields) and not missing
    return CallRecord(
        run_id=_name(fields, "run_id"),
        sequence=sequence,
        tool=_name(fields, "tool"),
        arguments=fields["arguments"],
        result=fields.get("result", fields.get("observation")) if has_result else None,
        result_missing=not has_result,
        **optional,
    )


def _name(fields: dict[str, Any], name: str) -> str:
    """A required, non-empty text that can be written as UTF-8."""
    value = fields[name]
    if type(value) is not str or not value or not _encodable(value):
        raise RecordError(Reason.BAD_FIELD.of(name))
    return value


def _optional(fields: dict[str, Any]) -> dict[str, Any]:
    """The optional fields that are there and not null, each checked against its types."""
    found = {}
    for name, types in OPTIONAL.items():
        value = fields.get(name)
        if value is None:
            continue
        if type(value) not in types or (name != "error" and type(value) is str and not _encodable(value)):
            raise RecordError(Reason.BAD_FIELD.of(name))
        if name == "ts" and not abs(value) <= _MAX_SECONDS:
            raise RecordError(Reason.BAD_FIELD.of(name))
        found[name] = str(value) if name in _AS_TEXT else value
    return found


def _encodable(text: str) -> bool:
    """False for text with half a surrogate pair, which no output could carry."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
