"""Finds one call that is proposed again and again although it is refused each time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.detectors.step import Claim, Reads
from otel_loopguard.model import Kind, Severity

if TYPE_CHECKING:
    from otel_loopguard.detectors.step import Step


class DeniedRepeat:
    """Fires on more refusals of one call than it may be repeated, by anyone but the guard, whatever lies between."""

    __slots__ = ()
    kind = Kind.DENIED_REPEAT
    reads = Reads.RARE

    def judge(self, step: Step, /) -> Claim | None:
        """Returns a claim where this call was refused in more rounds than the tool's contract allows repeats."""
        stretch = step.denials
        if stretch is None or stretch.count <= step.contract.allowed_repeats:
            return None
        return Claim(self.kind, Severity.LOOP, stretch, stretch.count)
