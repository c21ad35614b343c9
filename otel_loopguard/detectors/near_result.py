"""Finds one call that brings nearly the same text each time: a page that the call does not change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_loopguard.detectors.alike import WHOLE_TEXT_WORDS, TextRuns, patience
from otel_loopguard.detectors.step import Claim, Reads
from otel_loopguard.model import Basis, Kind, Severity

if TYPE_CHECKING:
    from otel_loopguard.detectors.step import Step
    from otel_loopguard.model import ToolCall, Value

VERY_ALIKE_PER_CENT: Final = 95
"""Likeness of texts that differ in a counter or a line. Source: DESIGN 6."""

VERY_ALIKE_TEXTS: Final = 3
"""So alike texts that make a finding. Source: DESIGN 6."""

ALIKE_TEXTS: Final = 4
"""Texts of a likeness of 0.6 that make a finding. Source: DESIGN 6."""


class NearResult:
    """Fires on the third text very alike to the first, or the fourth alike, unless the texts move on."""

    __slots__ = ("_texts",)
    kind = Kind.NEAR_RESULT
    reads = Reads.LIKENESS

    def __init__(self) -> None:
        self._texts = TextRuns(very_alike=VERY_ALIKE_PER_CENT)

    @property
    def evicted(self) -> int:
        """Calls forgotten for want of room."""
        return self._texts.evicted

    def measured(self, call: ToolCall) -> dict[str, Value]:
        """Returns what was measured of the call judged last, by field of `CallFacts`; empty for any other call."""
        return self._texts.measured(call)

    def judge(self, step: Step, /) -> Claim | None:
        """Returns a claim by likeness, which no guard denies on."""
        run = self._texts.take(step)
        if run is None or run.moving or not run.varied or (step.call.facts.result_words or 0) < WHOLE_TEXT_WORDS:
            return None
        more = patience(step.contract)
        if run.very_alike < VERY_ALIKE_TEXTS + more and run.count < ALIKE_TEXTS + more:
            return None
        return Claim(self.kind, Severity.LOOP, run.stretch, run.count, basis=Basis.LIKENESS)
