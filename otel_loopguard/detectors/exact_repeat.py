"""Finds one call repeated in consecutive rounds with an answer that does not change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.detectors.step import Claim, Reads
from otel_loopguard.detectors.stretch import allowed_unchanged
from otel_loopguard.model import Kind, Severity

if TYPE_CHECKING:
    from otel_loopguard.detectors.step import Step


class ExactRepeat:
    """Fires when more equal answers than allowed came in a row; failures are `error_repeat`'s."""

    __slots__ = ()
    kind = Kind.EXACT_REPEAT
    reads = Reads.STRETCH

    def judge(self, step: Step, /) -> Claim | None:
        """Returns a claim where the stretch is longer than the tool's contract allows."""
        stretch = step.stretch
        if stretch is None or stretch.is_claimed(self.kind) or step.failing or step.waiting or step.is_found_otherwise:
            return None
        allowed = allowed_unchanged(step.contract, step.result_class)
        if allowed is None or stretch.count <= allowed:
            return None
        return Claim(self.kind, Severity.LOOP, stretch, stretch.count, rule=step.rule)
