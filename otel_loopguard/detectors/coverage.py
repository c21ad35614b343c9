"""Follows a declared ranged reader: which parts of what it has read, and how often it reads nothing else.

Invariants: where nothing says how much was read, it is read to the end. A range that cannot be told is unknown and
never covered. Bounded: past the limits what was read longest ago is forgotten, which can only make it quieter.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from math import inf
from typing import TYPE_CHECKING, Final

from otel_loopguard.detectors.stretch import Stretch

if TYPE_CHECKING:
    from otel_loopguard.model import Extent, ToolCall

MAX_READ: Final = 256
"""Things of which one tool's ranges are remembered at a time."""
MAX_RANGES: Final = 256
"""Separate ranges remembered of one thing."""


class Reader:
    """One agent's reading with one tool, since a user turn or a write.

    Args:
        epoch: what the tracker counts user turns and writes by.
    """

    __slots__ = ("_ranges", "_stretch", "_turn", "epoch")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self._ranges: dict[str, tuple[list[float], list[float]]] = {}
        self._stretch: Stretch | None = None
        self._turn = -1

    def take(self, call: ToolCall) -> tuple[bool | None, Stretch | None]:
        """Takes in one call that came back.

        Returns:
            Whether all of it had been read before (None: not known), and the rounds in a row of which that is
            true where this call is one of them.
        """
        facts = call.facts
        covered = facts.covered
        if covered is None and facts.signals is not None and facts.signals.extent is not None:
            covered = self._read(facts.signals.extent)
        if covered is False:
            self._stretch = None
        if not covered:
            return covered, None
        stretch = self._stretch
        if stretch is None:
            stretch = self._stretch = Stretch(facts.tool, call.agent, (), spared=0)
        elif call.turn != self._turn:
            stretch.count += 1
        self._turn = call.turn
        stretch.add(call)
        return True, stretch

    def _read(self, extent: Extent) -> bool:
        """Adds a range and tells whether it lay within those read before."""
        start, end = extent.start, inf if extent.end is None else extent.end
        found = self._ranges.get(extent.of)
        if found is None:
            if len(self._ranges) >= MAX_READ:
                del self._ranges[next(iter(self._ranges))]
            self._ranges[extent.of] = ([start], [end])
            return False
        starts, ends = found
        at = bisect_right(starts, start) - 1
        if at >= 0 and end <= ends[at]:
            return True
        # Ranges that touch or overlap become one; they are disjoint and in order, by start and so by end.
        low, high = bisect_left(ends, start), bisect_right(starts, end)
        if low < high:
            start, end = min(start, starts[low]), max(end, ends[high - 1])
        starts[low:high], ends[low:high] = [start], [end]
        if len(starts) > MAX_RANGES:
            del starts[0], ends[0]
        return False
