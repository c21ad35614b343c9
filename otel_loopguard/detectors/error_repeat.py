"""Finds one call repeated in consecutive rounds that fails the same way each time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.detectors.step import Claim, Reads
from otel_loopguard.model import Kind, Severity

if TYPE_CHECKING:
    from otel_loopguard.detectors.step import Step


class ErrorRepeat:
    """Fires when more equal failures than allowed came in a row; the tracker leaves transient ones out."""

    __slots__ = ()
    kind = Kind.ERROR_REPEAT
    reads = Reads.STRETCH

    def judge(self, step: Step, /) -> Claim | None:
        """Returns a claim where the same failure came more often than the tool's contract allows."""
        stretch = step.stretch
        if (
            stretch is None
            or stretch.is_claimed(self.kind)
            or not step.failing
            or step.waiting
            or stretch.count <= step.contract.allowed_repeats
        ):
            return None
        if step.is_found_otherwise:
            return None
        return Claim(self.kind, Severity.LOOP, stretch, stretch.count)
