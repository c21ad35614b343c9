"""Finds one agent going round: the same 2 to 8 rounds of calls and answers, three times over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.detectors.step import Claim, Reads
from otel_loopguard.model import Kind, Severity

if TYPE_CHECKING:
    from otel_loopguard.detectors.step import Step


class Cycle:
    """Fires when one agent's rounds have come round; `rounds.Laps` counts them."""

    __slots__ = ()
    kind = Kind.CYCLE
    reads = Reads.LAP

    def judge(self, step: Step, /) -> Claim | None:
        """Returns a claim where this call completes a further round of the period."""
        lap = step.lap
        if lap is None or lap.stretch.is_claimed(self.kind):
            return None
        severity = Severity.SUSPECT if lap.stretch.silent else Severity.LOOP
        return Claim(self.kind, severity, lap.stretch, lap.count, period=lap.period)
