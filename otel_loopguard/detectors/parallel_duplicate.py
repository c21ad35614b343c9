"""Reports equal calls inside one turn: waste, but no loop, since siblings were asked for at one time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.detectors.step import Claim, Reads
from otel_loopguard.model import Kind, Severity

if TYPE_CHECKING:
    from otel_loopguard.detectors.step import Step


class ParallelDuplicate:
    """Reports the second equal sibling and those after it, unless the tool declares `parallel: run`."""

    __slots__ = ()
    kind = Kind.PARALLEL_DUPLICATE
    reads = Reads.RARE

    def judge(self, step: Step, /) -> Claim | None:
        """Returns a claim of severity report where this call has an equal sibling before it."""
        stretch = step.siblings
        if stretch is None or step.contract.parallel == "run":
            return None
        return Claim(self.kind, Severity.REPORT, stretch, stretch.count)
