"""Finds one call that comes back with an unchanged answer, other calls between, and nothing done in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.detectors.step import Claim, Reads
from otel_loopguard.detectors.stretch import allowed_unchanged
from otel_loopguard.model import Kind, Severity

if TYPE_CHECKING:
    from otel_loopguard.detectors.step import Step


class InterleavedRepeat:
    """Fires on a chain of equal answers without a barrier: a loop where it stalled between, else a suspicion.

    Leaves consecutive rounds to `exact_repeat` and `error_repeat`, returns after a loop to `relapse`, and rounds
    that are already a cycle to `cycle`.
    """

    __slots__ = ()
    kind = Kind.INTERLEAVED_REPEAT
    reads = Reads.TRAIL

    def judge(self, step: Step, /) -> Claim | None:
        """Returns a claim where the chain is longer than the tool's contract allows."""
        trail = step.trail
        if trail is None or trail.relapse is not None or step.lap is not None or step.lap_across is not None:
            return None
        if trail.chain_stretch is None and trail.still_stretch is None:
            return None
        allowed = step.contract.allowed_repeats if step.failing else allowed_unchanged(step.contract, step.result_class)
        if allowed is None:
            return None
        still, chain = trail.still_stretch, trail.chain_stretch
        if still is not None and trail.still > allowed:
            return None if still.is_claimed(self.kind) else Claim(self.kind, Severity.LOOP, still, trail.still)
        if step.stretch is not None and step.stretch.count > allowed:
            return None
        if chain is not None and trail.chain > allowed and not chain.is_claimed(self.kind):
            return Claim(self.kind, Severity.SUSPECT, chain, trail.chain)
        return None
