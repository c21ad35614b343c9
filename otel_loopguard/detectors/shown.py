"""Says which evidence a step shows, so that only those are asked who read some of it.

Invariants: pure; the numbers are those of `Reads`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.detectors.step import Reads

if TYPE_CHECKING:
    from otel_loopguard.detectors.step import Step

_STRETCH, _TRAIL, _LAP, _COUNTED, _RARE, _TEXTS, _ASKED, _EVERY = (int(one) for one in Reads)
# Plain numbers: arithmetic with an enumeration's members costs more than a detector.


def shown(step: Step) -> int:
    """Returns the evidence that a step shows, as a number made of `Reads`."""
    found = _EVERY
    if step.stretch is not None:
        found |= _STRETCH
    if step.trail is not None:
        found |= _TRAIL
    if step.lap is not None or step.lap_across is not None:
        found |= _LAP
    if step.counted is not None:
        found |= _COUNTED
    if step.siblings is not None or step.poll is not None or step.stalled_pages is not None or step.denials is not None:
        found |= _RARE
    if step.texts is not None:
        found |= _TEXTS
    facts = step.call.facts
    if facts.likenesses is not None or facts.near_repeat_count is not None:
        found |= _ASKED
    return found
