"""The strip above a run's timeline: every call as a small square in its turn's column, findings as lines below.

Invariants: pure; whole numbers in the units of an SVG drawing. Letters beside colours wherever there is room for them.
"""

from __future__ import annotations

from typing import Final

import msgspec

from otel_loopguard.model import Severity
from otel_loopguard.scorer.pages.timeline import CallView, RunPage

HEAD: Final = 14
"""Height of the line with the turns' numbers."""
ROW: Final = 20
LINE: Final = 9
"""Height of a finding's line."""
_WIDTHS: Final = ((48, 22), (120, 12))
_LEAST_WIDTH: Final = 7
_LETTERS_FROM: Final = 20
_NUMBERS_APART: Final = 30
MOST_SIBLINGS: Final = 12
MOST_LINES: Final = 12


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One call's square."""

    x: int
    y: int
    call: CallView
    turn: int
    letter: str


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """One finding's line, from its first call to the one that made it certain, and its calls on it."""

    number: int
    severity: Severity
    x: int
    y: int
    width: int
    dots: tuple[int, ...]
    certain: int | None
    """Where it came true, if that is on this page."""


class Strip(msgspec.Struct, frozen=True, kw_only=True):
    """The whole drawing."""

    width: int
    height: int
    side: int
    """Of a square."""
    heads: tuple[tuple[int, int], ...]
    """Where the number of which turn stands."""
    cells: tuple[Cell, ...]
    bars: tuple[Bar, ...]
    hidden: int
    """Siblings past `MOST_SIBLINGS`, which have no square."""


def strip(page: RunPage) -> Strip | None:
    """Draws the calls of one page of a run; None where there are none."""
    turns = page.turns
    if not turns:
        return None
    pitch = next((width for most, width in _WIDTHS if len(turns) <= most), _LEAST_WIDTH)
    cells: list[Cell] = []
    column: dict[int, int] = {}
    hidden = 0
    for place, turn in enumerate(turns):
        for row, call in enumerate(turn.calls):
            column[call.number] = place * pitch
            if row >= MOST_SIBLINGS:
                hidden += 1
                continue
            letter = _letter(call) if pitch >= _LETTERS_FROM else ""
            cells.append(Cell(x=place * pitch, y=HEAD + row * ROW, call=call, turn=turn.number, letter=letter))
    rows = max(min(len(turn.calls), MOST_SIBLINGS) for turn in turns)
    below = HEAD + rows * ROW + 3
    bars = _bars(page, column, below, pitch)
    step = max(1, -(-_NUMBERS_APART // pitch)) if pitch < _LETTERS_FROM else 1
    return Strip(
        width=len(turns) * pitch,
        height=below + LINE * len(bars) + 2,
        side=max(pitch - 3, 5),
        heads=tuple((place * pitch, turn.number) for place, turn in enumerate(turns) if place % step == 0),
        cells=tuple(cells),
        bars=bars,
        hidden=hidden,
    )


def _letter(call: CallView) -> str:
    if call.arguments.text is None:
        return "?"
    return "" if call.arguments.colour is None else call.arguments.text.partition(" ")[0]


def _bars(page: RunPage, column: dict[int, int], top: int, pitch: int) -> tuple[Bar, ...]:
    bars: list[Bar] = []
    for finding in page.findings:
        here = sorted({column[call] for call in (*finding.calls, finding.at_call) if call in column})
        if not here or len(bars) == MOST_LINES:
            continue
        bars.append(
            Bar(
                number=finding.number,
                severity=finding.severity,
                x=here[0],
                y=top + LINE * len(bars),
                width=here[-1] - here[0] + pitch - 3,
                dots=tuple(here),
                certain=column.get(finding.at_call),
            )
        )
    return tuple(bars)
