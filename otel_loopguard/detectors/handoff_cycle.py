"""Finds agents that send the work round in a circle: one period of rounds of at least two agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.detectors.step import Claim, Reads
from otel_loopguard.model import Kind, Severity

if TYPE_CHECKING:
    from otel_loopguard.detectors.step import Step


class HandoffCycle:
    """Fires when the rounds of several agents together have come round."""

    __slots__ = ()
    kind = Kind.HANDOFF_CYCLE
    reads = Reads.LAP

    def judge(self, step: Step, /) -> Claim | None:
        """Returns a claim where this call completes a further round of the period across agents."""
        lap = step.lap_across
        if lap is None or lap.stretch.is_claimed(self.kind):
            return None
        severity = Severity.SUSPECT if lap.stretch.silent else Severity.LOOP
        return Claim(self.kind, severity, lap.stretch, lap.count, period=lap.period)
