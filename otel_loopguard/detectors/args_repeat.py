"""Finds one call that is answered in other words each time, with nothing else new in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_loopguard.detectors.alike import WHOLE_TEXT_WORDS, patience
from otel_loopguard.detectors.step import Claim, Reads
from otel_loopguard.model import Basis, Kind, Severity

if TYPE_CHECKING:
    from otel_loopguard.detectors.step import Step

ALIKE_ANSWERS: Final = 8
"""Equal calls with answers alike that are suspect. Source: DESIGN 6."""


class ArgsRepeat:
    """Fires on the eighth answer alike to the first, unless the answers move on; whole pages are `near_result`'s."""

    __slots__ = ()
    kind = Kind.ARGS_REPEAT
    reads = Reads.TEXTS

    def judge(self, step: Step, /) -> Claim | None:
        """Returns a claim of severity suspect."""
        run = step.texts
        if run is None or run.moving or not run.varied or run.count < ALIKE_ANSWERS + patience(step.contract):
            return None
        if (step.call.facts.result_words or 0) >= WHOLE_TEXT_WORDS:
            return None
        return Claim(self.kind, Severity.SUSPECT, run.stretch, run.count, basis=Basis.LIKENESS)
