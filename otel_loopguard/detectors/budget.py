"""Finds a tool that was called more often than its budget allows, whatever came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_loopguard.detectors.step import Claim, Reads
from otel_loopguard.model import Kind, Severity

if TYPE_CHECKING:
    from otel_loopguard.detectors.step import Step

MAX_CALLS_RULE: Final = "max_calls"


class Budget:
    """Fires on the first call past `max_calls`; calls that never reached the tool cost nothing."""

    __slots__ = ()
    kind = Kind.BUDGET
    reads = Reads.COUNTED

    def judge(self, step: Step, /) -> Claim | None:
        """Returns a claim of severity budget where the tool's calls in this run are more than declared."""
        spent, most = None if step.counted is None else step.counted.spent, step.contract.max_calls
        if spent is None or most is None or spent.count <= most:
            return None
        return Claim(self.kind, Severity.BUDGET, spent, spent.count, rule=MAX_CALLS_RULE)
