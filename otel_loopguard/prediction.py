"""Makes a guard's decision of what a proposed call would complete (DESIGN 3): warn, then deny, then stop.

Invariants: pure. A decision is a prediction; whether anybody acts on it is for the caller to say. Where a call
would complete several findings, the one that is furthest past its bound decides, of equals the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_loopguard.detectors.foresight import LAST_ALLOWED
from otel_loopguard.model import Action, Decision, Kind
from otel_loopguard.policy import Ladder

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_loopguard.detectors.foresight import Foreseen

ALLOW: Final = Decision(action=Action.ALLOW)
SHARE: Final = Decision(action=Action.SHARE, reason=Kind.PARALLEL_DUPLICATE)

_WARNED: Final = frozenset(
    {Kind.EXACT_REPEAT, Kind.ERROR_REPEAT, Kind.INTERLEAVED_REPEAT, Kind.CYCLE, Kind.HANDOFF_CYCLE, Kind.STALLED_POLL}
)
"""Kinds whose last allowed call is told that it is the last: the others begin at the second time, or are counts."""
_MIN_WARNED_COUNT: Final = 2
_ACTIONS: Final = {Ladder.DENY: Action.DENY, Ladder.RESTRICT_TOOL: Action.DENY, Ladder.STOP: Action.STOP}
_REFUSALS: Final = (Action.DENY, Action.STOP)


def decide(foreseen: Iterable[Foreseen], ladder: Sequence[Ladder]) -> Decision:
    """Decides on one proposed call.

    Args:
        foreseen: what it would complete; may be empty.
        ladder: the policy's `actions`, at least one: the first for the first call that is too many, and so on.

    Returns:
        `allow`, `warn` for the last call that a repeat is allowed, or the step of the ladder that is due.
    """
    worst: Foreseen | None = None
    warned: Foreseen | None = None
    for one in foreseen:
        if one.past >= 0:
            if worst is None or one.past > worst.past:
                worst = one
        elif one.past == LAST_ALLOWED and one.kind in _WARNED and one.times >= _MIN_WARNED_COUNT and warned is None:
            warned = one
    if worst is not None:
        step = ladder[min(worst.past, len(ladder) - 1)]
        return Decision(action=_ACTIONS[step], reason=worst.kind, count=worst.times)
    if warned is not None:
        return Decision(action=Action.WARN, reason=warned.kind, count=warned.times)
    return ALLOW


def is_refusal(decision: Decision) -> bool:
    """True where the call does not run."""
    return decision.action in _REFUSALS
