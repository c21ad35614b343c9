"""The body of an OTLP trace request as spans, and the reasons for those that cannot be used.

Invariants: whatever the bytes are, spans and reasons come out, or `RefusedError`; a span that cannot be used costs
itself only. What a body can make of memory is bounded by its parts, which are counted before they are made.
Of a span that no dialect knows only its place and its times are read: nothing asks for more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from otel_loopguard.attributes import OPERATION, RUN_CALLS
from otel_loopguard.dialects import BY_NAME, BY_SCOPE, TELLING_KEYS
from otel_loopguard.files import calls, otlp_json, otlp_loose, otlp_wire
from otel_loopguard.files.reasons import Reason
from otel_loopguard.files.sources import DamagedError
from otel_loopguard.files.spans import Item
from otel_loopguard.model import BadInput, Span
from otel_loopguard.scorer.records import Refusal, RefusedError, Row
from otel_loopguard.scorer.shapes import Shapes

MAX_PARTS: Final = 200_000
"""Spans, scopes and resources of one request at most; a collector sends 8,192 spans at a time."""
MAX_OBJECTS: Final = 1_000_000
"""Objects and lists of a JSON body at most; each takes up to 150 bytes of memory, and 10 to 20 make a span."""
MAX_COMMAS: Final = 1_000_000
"""The same for entries of a JSON body that only the careful reader can read: each takes up to 60 bytes."""
_TELLING: Final = frozenset({*TELLING_KEYS, RUN_CALLS})
_NOT_REJECTED: Final = frozenset({Reason.BAD_PARENT_ID.value, Reason.BAD_LINK_ID.value})
"""Reasons that cost a part of a span: the span itself is kept."""
_NOT_TRACES: Final = frozenset({Reason.SKIPPED_LOGS.value, Reason.SKIPPED_METRICS.value})


class Encoding(StrEnum):
    """How a request is written."""

    PROTOBUF = "protobuf"
    JSON = "json"


class Decoded(msgspec.Struct, frozen=True, kw_only=True):
    """What one request holds."""

    spans: tuple[Span, ...]
    rows: Sequence[Row] = ()
    """Facts of spans that did not have to be read."""
    rejected: Mapping[str, int] = {}
    """Spans that cannot be used, by `files.Reason`."""
    mended: Mapping[str, int] = {}
    """Spans that were kept without a part that could not be used, by `files.Reason`."""

    @property
    def count(self) -> int:
        """How many spans there are, in either form."""
        return len(self.spans) + len(self.rows)


def decode(body: bytes, encoding: Encoding, shapes: Shapes | None = None) -> Decoded:
    """Reads one request.

    Args:
        body: as it was sent, unpacked.
        encoding: how it is written.
        shapes: knows many spans without their being read; None: each is read.

    Returns:
        Its spans in their order, and what was wrong with others.

    Raises:
        RefusedError: MALFORMED, it is no trace request; TOO_LARGE_UNPACKED, it has more parts than fit.

    Cost: for protobuf, some 1.5 times parsing with the generated types and reading six attributes; of tool spans whose
    shape is known 0.8 times, the facts included (`bench_decode`).
    """
    rows: Sequence[Row] = ()
    if encoding is Encoding.JSON:
        items = _json(body)
    elif shapes is None:
        items = _protobuf(body)
    else:
        recognition = shapes.request()
        items, rows = _protobuf(body, recognition.of), recognition.rows
    if not items and not rows and body and encoding is Encoding.PROTOBUF and not otlp_wire.is_request(body):
        raise RefusedError(Refusal.MALFORMED)
    spans = [item for item in items if type(item) is Span]
    if len(spans) == len(items):
        return Decoded(spans=tuple(spans), rows=rows)
    reasons = Counter(item.reason for item in items if isinstance(item, BadInput))
    if not _NOT_TRACES.isdisjoint(reasons):
        raise RefusedError(Refusal.MALFORMED)
    return Decoded(
        spans=tuple(spans),
        rows=rows,
        rejected={reason: count for reason, count in reasons.items() if reason not in _NOT_REJECTED},
        mended={reason: count for reason, count in reasons.items() if reason in _NOT_REJECTED},
    )


def wanted(name: str, scope: str, keys: Collection[str]) -> bool:
    """Tells whether any dialect may know a span of this name, scope and attribute keys, so that it is read whole."""
    # The first asks for what most spans of agents have; the last looks at all keys.
    return OPERATION in keys or name in BY_NAME or scope in BY_SCOPE or not _TELLING.isdisjoint(keys)


def _report(reason: str) -> BadInput:
    return BadInput(source="", line=None, reason=str(reason))


def _protobuf(body: bytes, recognise: otlp_wire.Recognise | None = None) -> list[Item]:
    try:
        return otlp_wire.items(body, _report, wanted=wanted, most=MAX_PARTS, recognise=recognise)
    except DamagedError as damaged:
        too_many = damaged.reason is Reason.TOO_MANY
        raise RefusedError(Refusal.TOO_LARGE_UNPACKED if too_many else Refusal.MALFORMED) from None


def _json(body: bytes) -> list[Item]:
    # Counted in text too, where a quarter of the characters would have to be braces to matter.
    if len(body) > MAX_OBJECTS and body.count(b"{") + body.count(b"[") > MAX_OBJECTS:
        raise RefusedError(Refusal.TOO_LARGE_UNPACKED)
    items = otlp_json.fast(body, _report)
    if items is None:
        items = _loose(body)
    if len(items) > MAX_PARTS:
        raise RefusedError(Refusal.TOO_LARGE_UNPACKED)
    return items


def _loose(body: bytes) -> list[Item]:
    """What the careful reader makes of a body that is not in the common shape."""
    if len(body) > MAX_COMMAS and body.count(b",") > MAX_COMMAS:
        raise RefusedError(Refusal.TOO_LARGE_UNPACKED)
    try:
        value = calls.parse(body.decode())
    except (UnicodeDecodeError, calls.RecordError):
        raise RefusedError(Refusal.MALFORMED) from None
    if value == {}:
        return []
    if not otlp_loose.is_request(value):
        raise RefusedError(Refusal.MALFORMED)
    items = otlp_loose.read(value, _report)
    if any(isinstance(item, BadInput) and item.reason == Reason.TOO_DEEP.value for item in items):
        raise RefusedError(Refusal.MALFORMED)
    return items
