"""Published simple rules of other projects, written anew from their descriptions, on call records.

Each function takes a run's records and returns the call (from 1) at which the rule first fires, or None. They are
here to be compared with, and are as blind as their originals: see each docstring.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tests.bench.detection.labelled import Row


def _call(row: Row, *, sort_keys: bool = True) -> str:
    return json.dumps([row["tool"], row["arguments"]], sort_keys=sort_keys)


def _result(row: Row) -> str:
    return json.dumps([row["tool"], row.get("result"), row.get("error")], sort_keys=True)


def window_of_eight(rows: Sequence[Row]) -> int | None:
    """The same call with the same result, or the same result of a tool, three times within eight calls."""
    calls = [_call(row) for row in rows]
    results = [_result(row) for row in rows]
    for at in range(len(rows)):
        near = range(max(0, at - 7), at + 1)
        same_result = [one for one in near if results[one] == results[at]]
        if len(same_result) >= 3:
            return at + 1
        if sum(calls[one] == calls[at] for one in same_result) >= 3:
            return at + 1
    return None


def consecutive_third(rows: Sequence[Row]) -> int | None:
    """The same call three times in a row with an unchanged result."""
    count = 1
    for at in range(1, len(rows)):
        same = _call(rows[at]) == _call(rows[at - 1]) and _result(rows[at]) == _result(rows[at - 1])
        count = count + 1 if same else 1
        if count >= 3:
            return at + 1
    return None


def openhands(rows: Sequence[Row]) -> int | None:
    """Four equal (action, observation); three equal actions that failed; two that alternate for six steps."""
    steps = [(_call(row), _result(row)) for row in rows]
    for at in range(len(rows)):
        if at >= 3 and len(set(steps[at - 3 : at + 1])) == 1:
            return at + 1
        last = rows[at - 2 : at + 1] if at >= 2 else []
        if last and len({_call(row) for row in last}) == 1 and all(row.get("error") for row in last):
            return at + 1
        if at >= 5:
            six = steps[at - 5 : at + 1]
            if six[0] == six[2] == six[4] and six[1] == six[3] == six[5] and six[0] != six[1]:
                return at + 1
    return None


def gemini_cli(rows: Sequence[Row]) -> int | None:
    """Calls of period one to five, five times over; keys are not sorted and results are ignored."""
    calls = [_call(row, sort_keys=False) for row in rows]
    for at in range(len(calls)):
        for period in range(1, 6):
            start = at + 1 - 5 * period
            if start >= 0 and all(calls[one] == calls[one + period] for one in range(start, at + 1 - period)):
                return at + 1
    return None


RULES: Final[Mapping[str, Callable[[Sequence[Row]], int | None]]] = {
    "window of 8, call and result or result three times": window_of_eight,
    "consecutive call with unchanged result, third": consecutive_third,
    "OpenHands' rules": openhands,
    "gemini-cli's rule": gemini_cli,
}
