"""Finds a declared ranged reader that reads nothing but what it had read before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_loopguard.detectors.step import Claim, Reads
from otel_loopguard.model import Kind, Severity

if TYPE_CHECKING:
    from otel_loopguard.detectors.step import Step

COVERED_READS: Final = 5
"""Covered reads in a row. Source: DESIGN 6; going back to a place a few times is how one reads."""


class NoNewCoverage:
    """Fires on reads in a row of one tool that lie wholly within what the agent had read since the last write."""

    __slots__ = ()
    kind = Kind.NO_NEW_COVERAGE
    reads = Reads.COUNTED

    def judge(self, step: Step, /) -> Claim | None:
        """Returns a claim of severity suspect where this is at least the fifth covered read in a row."""
        stretch = None if step.counted is None else step.counted.reread
        if stretch is None or stretch.count < COVERED_READS:
            return None
        return Claim(self.kind, Severity.SUSPECT, stretch, stretch.count)
