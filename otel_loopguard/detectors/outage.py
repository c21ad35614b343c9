"""Finds a tool that keeps failing in a way that passes by itself: the agent is not at fault."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_loopguard.detectors.step import Claim, Reads
from otel_loopguard.model import Kind, Severity

if TYPE_CHECKING:
    from otel_loopguard.detectors.step import Step

PASSING_ERRORS: Final = 4
"""Equal passing errors in a row. Source: DESIGN 6; clients retry three times."""


class Outage:
    """Fires on passing errors of one tool in rounds in a row; its own outcome, and never a loop."""

    __slots__ = ()
    kind = Kind.OUTAGE
    reads = Reads.COUNTED

    def judge(self, step: Step, /) -> Claim | None:
        """Returns a claim of severity outage where this is at least the fourth equal passing error of its tool."""
        stretch = None if step.counted is None else step.counted.outage
        if stretch is None or stretch.count < PASSING_ERRORS:
            return None
        return Claim(self.kind, Severity.OUTAGE, stretch, stretch.count)
