"""Finds a declared write that is made again: wrong at the second time, whatever it returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.detectors.step import Claim, Reads
from otel_loopguard.model import Kind, Severity

if TYPE_CHECKING:
    from otel_loopguard.detectors.step import Step


class DuplicateWrite:
    """Fires on the second time; severity `indeterminate_write` until two are known to have been carried out."""

    __slots__ = ()
    kind = Kind.DUPLICATE_WRITE
    reads = Reads.COUNTED

    def judge(self, step: Step, /) -> Claim | None:
        """Returns a claim where the same write was made before; `rule` is the business scope, if beyond the run."""
        same = None if step.counted is None else step.counted.same_write
        if same is None:
            return None
        severity = Severity.DUPLICATE_WRITE if same.sure else Severity.INDETERMINATE_WRITE
        return Claim(self.kind, severity, same.stretch, same.stretch.count, rule=same.scope)
