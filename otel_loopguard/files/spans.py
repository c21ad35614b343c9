"""What both OTLP encodings have in common: ids, times, and the reasons for spans that cannot be used.

Invariants: a span without sound ids or times is left out with a reason and its neighbours are kept. A bad parent
or link is reported and left out, and the span is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias

from otel_loopguard.files.reasons import Reason
from otel_loopguard.model import BadInput, Span

Item: TypeAlias = Span | BadInput
Report: TypeAlias = Callable[[str], BadInput]
"""Makes a `BadInput` for this place of the input out of a reason."""

_TRACE_ID: Final = re.compile(r"(?!0{32})[0-9a-f]{32}")
_SPAN_ID: Final = re.compile(r"(?!0{16})[0-9a-f]{16}")
_WHOLE: Final = re.compile(r"-?[0-9]{1,20}")
_MIN_SIGNED: Final = -(2**63)
_ALWAYS_FITS_CHARS: Final = 20
"""Texts of fewer digits than this are below 2**64."""
_MAX_UNSIGNED: Final = 2**64 - 1
_BASE64_CHARS: Final = (24, 12)
"""16 and 8 bytes in base64."""
NO_ID: Final = frozenset({"", "0" * 32, "0" * 16})


class SpanError(Exception):
    """This span cannot be used; private to `files`."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.value)
        self.reason = reason


def reporter(source: str, line: int | None) -> Report:
    """A maker of `BadInput` for one place."""
    return lambda reason: BadInput(source=source, line=line, reason=str(reason))


def trace_id(text: str | None) -> str:
    """`text` as 32 lower-case hex characters; raises SpanError."""
    if text and _TRACE_ID.fullmatch(text):  # the usual case, made quick
        return text
    return _odd_id(text, _TRACE_ID, Reason.NO_TRACE_ID, Reason.BAD_TRACE_ID)


def span_id(text: str | None) -> str:
    """`text` as 16 lower-case hex characters; raises SpanError."""
    if text and _SPAN_ID.fullmatch(text):
        return text
    return _odd_id(text, _SPAN_ID, Reason.NO_SPAN_ID, Reason.BAD_SPAN_ID)


def _odd_id(text: str | None, shape: re.Pattern[str], missing: Reason, bad: Reason) -> str:
    """An id in upper case as the same id in lower case; for all else, why it is none."""
    if not text or text in NO_ID:
        raise SpanError(missing)
    lowered = text.lower()
    if shape.fullmatch(lowered):
        return lowered
    raise SpanError(Reason.BASE64_ID if len(text) in _BASE64_CHARS and text.endswith("=") else bad)


def parent_id(text: str | None) -> tuple[str | None, Reason | None]:
    """The parent's span id, None for a root or a bad id, and the reason in the latter case."""
    if not text or text in NO_ID:
        return None, None
    try:
        return span_id(text), None
    except SpanError:
        return None, Reason.BAD_PARENT_ID


def whole_number(value: float | str | None) -> int:
    """A time or count as OTLP/JSON writes it, number or text; 0 where absent. Raises SpanError past 64 bits."""
    if value is None or value == "":
        return 0
    if isinstance(value, str):
        if len(value) < _ALWAYS_FITS_CHARS and value.isdigit() and value.isascii():  # the usual case, made quick
            return int(value)
        if not _WHOLE.fullmatch(value):
            raise SpanError(Reason.BAD_TIME)
        number = int(value)
    elif not abs(value) <= _MAX_UNSIGNED:  # also NaN, which no integer is
        raise SpanError(Reason.BAD_TIME)
    else:
        number = int(value)
    if not _MIN_SIGNED <= number <= _MAX_UNSIGNED:
        raise SpanError(Reason.BAD_TIME)
    return number


def count(value: float | str | None) -> int:
    """A count of dropped things as OTLP/JSON writes it; 0 where absent or senseless."""
    if not value:
        return 0
    try:
        return max(0, whole_number(value))
    except SpanError:
        return 0
