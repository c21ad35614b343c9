"""Finds steps that lead nowhere: the application's state stays as it is, or all answers were known before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_loopguard.detectors.step import Claim, Reads
from otel_loopguard.model import Kind, Severity

if TYPE_CHECKING:
    from otel_loopguard.detectors.step import Step

UNCHANGED_STEPS: Final = 8
"""Steps in a row that left the state as the step before did. Source: DESIGN 6."""
STATE_RULE: Final = "state"


class NoProgress:
    """Fires on a state that eight steps left unchanged (loop), and on six known answers among eight (suspect)."""

    __slots__ = ()
    kind = Kind.NO_PROGRESS
    reads = Reads.COUNTED

    def judge(self, step: Step, /) -> Claim | None:
        """Returns a claim about the state, with the rule `state`; else one about answers that were known before."""
        counted = step.counted
        if counted is None:
            return None
        state, known = counted.state, counted.known_answers
        if state is not None and state.count >= UNCHANGED_STEPS and not state.is_claimed(self.kind):
            return Claim(self.kind, Severity.LOOP, state, state.count, rule=STATE_RULE)
        if known is not None and not known.is_claimed(self.kind) and not _is_found_otherwise(step):
            return Claim(self.kind, Severity.SUSPECT, known, known.count)
        return None


def _is_found_otherwise(step: Step) -> bool:
    """True where a more telling kind has this call in a loop."""
    trail = step.trail
    return (
        step.lap is not None
        or step.lap_across is not None
        or (step.stretch is not None and step.stretch.loop)
        or (trail is not None and (trail.relapse is not None or step.is_found_otherwise))
    )
