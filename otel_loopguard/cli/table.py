"""The table of one run's calls: marks show at a glance which calls and results are equal.

Invariants: equal digests have equal marks within a run, a letter by order of first appearance, two characters of
the digest, and a colour; different digests have different letters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from otel_loopguard.cli.terminal import Painter
from otel_loopguard.marks import Marks
from otel_loopguard.model import CallFacts, ErrorCategory, Outcome, Progress, ToolCall, Unknown
from otel_loopguard.observation import Observation
from otel_loopguard.words import UNKNOWNS, counted, safe

MAX_ROWS: Final = 40
"""Rows shown of a long run: two screens. Those about findings come first."""
_EDGE_ROWS: Final = 8
_AROUND_FINDING: Final = 2
_MAX_TOOL_CHARS: Final = 40


class _Cell(NamedTuple):
    text: str
    style: str | None = None
    digest: str | None = None


def table(
    calls: Sequence[ToolCall],
    observations: Sequence[Observation],
    painter: Painter,
    *,
    whole: bool = False,
) -> Iterator[str]:
    """The lines of the table.

    Args:
        calls: the run's calls, in order; may be empty.
        observations: parallel to `calls`.
        painter: colours or not.
        whole: also the middle of long runs.
    """
    if not calls:
        return
    several = len({call.agent for call in calls}) > 1
    heads = ["turn", "call", *(["agent"] if several else []), "tool", "arguments", "result", "class", "progress"]
    rows = [(0, [_Cell(head, "dim") for head in [*heads, "finding"]])]
    shown = set(range(len(calls))) if whole else _shown(observations)
    call_marks, result_marks = Marks(), Marks(lower=True)
    for place, (call, seen) in enumerate(zip(calls, observations, strict=True)):
        marked = _mark(call.facts.call_digest, call.facts.call_unknown, call_marks)
        answer = _mark(call.facts.result_digest, call.facts.result_unknown, result_marks)
        if place in shown:
            agent = [_Cell(safe(call.agent, limit=_MAX_TOOL_CHARS))] if several else []
            tool = _Cell(safe(call.facts.tool, limit=_MAX_TOOL_CHARS))
            numbers = [_Cell(f"{call.turn:>4}"), _Cell(f"{call.number:>4}")]
            found = _Cell(", ".join(seen.kinds), "bad")
            rows.append(
                (call.number, [*numbers, *agent, tool, marked, answer, _class(call.facts), _progress(seen), found])
            )
    yield from _aligned(rows, painter)


def _shown(observations: Sequence[Observation]) -> set[int]:
    """Which rows of a run to show: all of a short one, else both ends and what lies around new findings."""
    total = len(observations)
    if total <= MAX_ROWS:
        return set(range(total))
    shown = {*range(_EDGE_ROWS), *range(total - _EDGE_ROWS, total)}
    for place, seen in enumerate(observations):
        if seen.kinds and len(shown) < MAX_ROWS:
            shown.update(range(max(0, place - _AROUND_FINDING), min(total, place + _AROUND_FINDING + 1)))
    return shown


def _mark(digest: str | None, unknown: Unknown | None, marks: Marks) -> _Cell:
    if digest is not None:
        return _Cell(marks.of(digest), None, digest)
    return _Cell(f"? {UNKNOWNS[unknown]}" if unknown is not None else "?", "doubt")


def _class(facts: CallFacts) -> _Cell:
    if facts.outcome is Outcome.DENIED:
        return _Cell(f"denied by {facts.denied_by}" if facts.denied_by else "denied", "doubt")
    if facts.outcome is Outcome.ERROR:
        known = facts.error_category not in (None, ErrorCategory.UNKNOWN)
        return _Cell(f"error {facts.error_category}" if known else "error", "doubt")
    return _Cell(facts.result_class.value if facts.result_class is not None else "?")


def _progress(seen: Observation) -> _Cell:
    text = seen.progress.value
    if seen.repeat_count > 1:
        text += f" x{seen.repeat_count}"
    if seen.rule:
        text += f" ({safe(seen.rule, limit=_MAX_TOOL_CHARS)})"
    return _Cell(text, {Progress.UNCHANGED: "doubt", Progress.ADVANCED: "good"}.get(seen.progress))


def _aligned(rows: Sequence[tuple[int, Sequence[_Cell]]], painter: Painter) -> Iterator[str]:
    widths = [max(len(cells[column].text) for _, cells in rows) for column in range(len(rows[0][1]))]
    yield _line(rows[0][1], widths, painter)
    for (before, _), (number, cells) in pairwise(rows):
        if number > before + 1:
            yield "    " + painter.paint(f"... {counted(number - before - 1, 'call')} not shown ...", "dim")
        yield _line(cells, widths, painter)


def _line(cells: Sequence[_Cell], widths: Sequence[int], painter: Painter) -> str:
    parts = []
    for cell, width in zip(cells, widths, strict=True):
        text = painter.block(cell.text, cell.digest) if cell.digest else painter.paint(cell.text, cell.style)
        parts.append(text + " " * (width - len(cell.text)))
    return ("    " + "  ".join(parts)).rstrip()
