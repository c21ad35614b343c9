"""Finds one call that brings nearly the same text each time: a page that the call does not change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_loopguard.detectors.alike import WHOLE_TEXT_WORDS, patience
from otel_loopguard.detectors.step import Claim, Reads
from otel_loopguard.model import Basis, Kind, Severity

if TYPE_CHECKING:
    from otel_loopguard.detectors.step import Step

VERY_ALIKE_TEXTS: Final = 3
"""So alike texts that make a finding. Source: DESIGN 6."""

ALIKE_TEXTS: Final = 4
"""Texts of a likeness of 0.6 that make a finding. Source: DESIGN 6."""


class NearResult:
    """Fires on the third text very alike to the first, or the fourth alike, unless the texts move on."""

    __slots__ = ()
    kind = Kind.NEAR_RESULT
    reads = Reads.TEXTS

    def judge(self, step: Step, /) -> Claim | None:
        """Returns a claim by likeness, which no guard denies on."""
        run = step.texts
        if run is None or run.moving or not run.varied or (step.call.facts.result_words or 0) < WHOLE_TEXT_WORDS:
            return None
        more = patience(step.contract)
        if run.very_alike < VERY_ALIKE_TEXTS + more and run.count < ALIKE_TEXTS + more:
            return None
        return Claim(self.kind, Severity.LOOP, run.stretch, run.count, basis=Basis.LIKENESS)
