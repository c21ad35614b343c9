"""Finds waiting that brings nothing: a poller past its declared patience, or a silent call that nobody declared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_loopguard.detectors.step import Claim, Reads
from otel_loopguard.model import Kind, ResultClass, Severity

if TYPE_CHECKING:
    from otel_loopguard.detectors.step import Step

# Members under names of their own: to look one up in its class costs 50 ns, and a step does so dozens of times.
_RESULT_CLASS_SILENCE: Final = ResultClass.SILENCE

SILENT_CALLS: Final = 10
"""Silent answers in a row that make an undeclared tool suspect. Source: DESIGN 6; a healthy wait had nine."""


class StalledPoll:
    """Fires on more unchanged answers than `max_unchanged`, and as a suspicion on silent repeats."""

    __slots__ = ()
    kind = Kind.STALLED_POLL
    reads = Reads.STRETCH

    def judge(self, step: Step, /) -> Claim | None:
        """Returns a claim of severity loop for declared pollers, suspect for undeclared silence."""
        stretch = step.stretch
        if stretch is None:
            return None
        polling = step.contract.polling
        if polling is not None and step.waiting:
            if stretch.count > polling.max_unchanged:
                return Claim(self.kind, Severity.LOOP, stretch, stretch.count, rule="max_unchanged")
        elif step.result_class is _RESULT_CLASS_SILENCE and not step.failing and stretch.count >= SILENT_CALLS:
            return Claim(self.kind, Severity.SUSPECT, stretch, stretch.count)
        return None
