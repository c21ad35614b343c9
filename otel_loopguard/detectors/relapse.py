"""Finds an agent that goes back to a repeat which had been found to be a loop, as if nothing had been said."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.detectors.step import Claim, Reads
from otel_loopguard.model import Kind, Severity

if TYPE_CHECKING:
    from otel_loopguard.detectors.step import Step


class Relapse:
    """Fires on the first unchanged answer after a loop was left; a suspicion where something may have been done."""

    __slots__ = ()
    kind = Kind.RELAPSE
    reads = Reads.TRAIL

    def judge(self, step: Step, /) -> Claim | None:
        """Returns a claim where the call was found to be a loop before, and nothing has changed since."""
        trail = step.trail
        if trail is None or trail.relapse is None or trail.relapse.is_claimed(self.kind):
            return None
        return Claim(self.kind, Severity.LOOP if trail.sure else Severity.SUSPECT, trail.relapse, trail.times)
