"""The addresses of the pages: what stands in them is read here, and they are written here.

Invariants: reading what was written gives the same back, whatever characters a name holds; what cannot be read has one
clear line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote, unquote, urlencode

import msgspec

from otel_loopguard.errors import LoopGuardError
from otel_loopguard.model import RunOutcome
from otel_loopguard.scorer.filters import Filters, Place

JSON: Final = ".json"
RUNS: Final = "/runs/"
SINCE: Final = {"15m": "15 minutes", "1h": "1 hour", "24h": "24 hours", "7d": "7 days"}
"""What the form offers; any other number with its unit can be written into the address."""

_AGO: Final = re.compile(r"(?P<number>[0-9]{1,5})(?P<unit>[smhd])", re.ASCII)
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_NS_PER_S: Final = 1_000_000_000
_STEPS: Final = 60
"""Into how many the time that is looked back on is divided."""
_BEFORE: Final = re.compile(r"(?P<judged_ns>[0-9]{1,19})~(?P<run_id>.*)", re.ASCII | re.DOTALL)
_NAMES: Final = ("service", "release", "tool", "agent")
_MAX_NUMBER_CHARS: Final = 9
_TOO_LATE_NS: Final = 2**63
"""Times are kept in 64 bits: to the year 2262."""


class AddressError(LoopGuardError):
    """An address asks for something that cannot be read; says what, and how it is written."""


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """What the address of a list asks for."""

    filters: Filters
    before: Place | None
    given: Mapping[str, str]
    """The filters as they were written, without empty ones: for the form, and for links."""


def read_query(query: Mapping[str, str], now_ns: int) -> Query:
    """Reads the filters of a list.

    Args:
        query: the address's own; names that are not ours are passed over.
        now_ns: Unix time; `since` goes back from it.

    Raises:
        AddressError: an outcome, a time or a place cannot be read.
    """
    given = {name: query[name] for name in ("outcome", *_NAMES, "since") if query.get(name)}
    filters = Filters(
        outcome=_outcome(given.get("outcome")),
        since_ns=_since(given.get("since"), now_ns),
        **{name: given.get(name) for name in _NAMES},
    )
    return Query(filters=filters, before=_before(query.get("before")), given=given)


def _outcome(text: str | None) -> RunOutcome | None:
    if text is None:
        return None
    try:
        return RunOutcome(text)
    except ValueError:
        message = f"outcome must be one of {', '.join(RunOutcome)}"
        raise AddressError(message) from None


def _since(text: str | None, now_ns: int) -> int | None:
    if text is None:
        return None
    ago = _AGO.fullmatch(text)
    if ago is not None:
        length_s = int(ago["number"]) * _SECONDS[ago["unit"]]
        # In steps, so that a page that is looked at again is the same page.
        step_ns = max(1, length_s // _STEPS) * _NS_PER_S
        return (now_ns - length_s * _NS_PER_S) // step_ns * step_ns
    try:
        when = datetime.fromisoformat(text)
        when = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
        since_ns = round(when.timestamp()) * _NS_PER_S
    except (ValueError, OverflowError):
        since_ns = _TOO_LATE_NS
    if not -_TOO_LATE_NS < since_ns < _TOO_LATE_NS:
        message = "since must be like 30s, 15m, 24h or 7d, or a UTC time like 2026-01-31T12:00"
        raise AddressError(message)
    return since_ns


def _before(text: str | None) -> Place | None:
    if not text:
        return None
    found = _BEFORE.fullmatch(text)
    if found is None or int(found["judged_ns"]) >= _TOO_LATE_NS:
        message = "before must be as the link to older runs has it"
        raise AddressError(message)
    return (int(found["judged_ns"]), found["run_id"])


def read_number(text: str | None, name: str) -> int:
    """Reads a whole number from 1; 1 where there is none.

    Raises:
        AddressError: it is none.
    """
    if not text:
        return 1
    if not text.isascii() or not text.isdecimal() or len(text) > _MAX_NUMBER_CHARS or not int(text):
        message = f"{name} must be a whole number from 1"
        raise AddressError(message)
    return int(text)


def list_path(page: str, given: Mapping[str, str], *, before: Place | None = None) -> str:
    """Writes the address of a list with these filters."""
    query = {name: text for name, text in given.items() if text}
    if before is not None:
        query["before"] = f"{before[0]}~{before[1]}"
    return f"{page}?{urlencode(query)}" if query else page


def run_path(run_id: str, *, json: bool = False, start: int = 1) -> str:
    """Writes the address of a run.

    Ids that browsers or we would take for something else (`.`, `..`, one that ends in `.json`) go into the query.
    """
    suffix = JSON if json else ""
    query = {} if start == 1 else {"from": str(start)}
    if not run_id.strip(".") or run_id.endswith(JSON):
        return f"/run{suffix}?{urlencode({'id': run_id, **query})}"
    return RUNS + quote(run_id, safe="") + suffix + (f"?{urlencode(query)}" if query else "")


def read_run_path(raw_path: str) -> tuple[str, bool]:
    """Reads the path of a run as it was sent, still percent-encoded.

    Returns:
        The run id, and whether its JSON is asked for.
    """
    text = raw_path.removeprefix(RUNS)
    json = text.endswith(JSON)
    return unquote(text.removesuffix(JSON) if json else text, errors="replace"), json
