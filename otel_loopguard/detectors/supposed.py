"""Finds out whether calls without digest or result would complete a loop, were they equal (DESIGN 8, unscorable).

Invariants: same thresholds as the real rules, over "may be equal" in place of "is equal": same tool, and digests
and answers that are equal or unknown. Whatever is known to differ breaks the chain. A chain without anything
unknown in it is the real rules' business. Bounded: looks back 64 rounds of one agent, stops at the first break.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from otel_loopguard.detectors.rounds import MAX_PERIOD, MIN_PERIODS
from otel_loopguard.detectors.step import Seen
from otel_loopguard.detectors.stretch import allowed_unchanged
from otel_loopguard.model import Pattern, ResultClass, Unknown

if TYPE_CHECKING:
    from collections.abc import Hashable

    from otel_loopguard.policy import ToolContract

# Members under names of their own: to look one up in its class costs 50 ns, and a step does so dozens of times.
_PATTERN_PLAIN: Final = Pattern.PLAIN
_RESULT_CLASS_SILENCE: Final = ResultClass.SILENCE

LOOKED_BACK_ROUNDS: Final = 64
"""Rounds kept for suppositions: a tool allowed more repeats than this is never held unscorable for them."""

MAX_SIBLINGS: Final = 64
"""Calls of one turn looked at; in a turn with more, the further ones complete nothing."""


class WouldComplete(NamedTuple):
    """The first call that, with calls before it, would complete a loop if what is unknown were equal."""

    call: int
    tool: str
    reason: Unknown


Round: TypeAlias = "list[Seen]"


class Suppositions:
    """The last rounds of one agent, with what is unknown in them."""

    __slots__ = ("_last_unknown", "_opened", "_rounds")

    def __init__(self) -> None:
        self._rounds: deque[Round] = deque(maxlen=LOOKED_BACK_ROUNDS)
        self._opened = 0
        self._last_unknown = -LOOKED_BACK_ROUNDS

    def clear(self) -> None:
        """Forgets all rounds: a user turn or another agent's write came between."""
        self._rounds.clear()
        self._last_unknown = -LOOKED_BACK_ROUNDS

    def open(self) -> None:
        """Begins a round; one that stays empty breaks every chain."""
        self._rounds.append([])
        self._opened += 1

    def add(self, seen: Seen, contract: ToolContract) -> Unknown | None:
        """Adds one call of the open round.

        Returns:
            Why the call or one before it is unknown, where the chain would complete a loop; else None.
        """
        if len(self._rounds[-1]) < MAX_SIBLINGS:
            self._rounds[-1].append(seen)
        if seen.reason is not None:
            self._last_unknown = self._opened
        elif self._opened - self._last_unknown >= LOOKED_BACK_ROUNDS:
            return None
        return self._repeat(seen, contract) or self._cycle(contract)

    def _repeat(self, seen: Seen, contract: ToolContract) -> Unknown | None:
        digest, answer, reason = seen.digest, seen.answer, seen.reason
        classes = {seen.result_class}
        count = 1
        for number in range(len(self._rounds) - 2, -1, -1):
            match = _match(self._rounds[number], seen, digest, answer)
            if match is None:
                return None
            digest = match.digest if digest is None else digest
            answer = match.answer if answer is None else answer
            reason = reason or match.reason
            classes.add(match.result_class)
            count += 1
            if reason is not None and _completes(count, contract, classes):
                return reason
        return None

    def _cycle(self, contract: ToolContract) -> Unknown | None:
        if contract.pattern is not _PATTERN_PLAIN:
            return None
        rounds = self._rounds
        newest = len(rounds) - 1
        for period in range(2, min(MAX_PERIOD, len(rounds) // MIN_PERIODS) + 1):
            reason = None
            for at in range(newest, newest - period, -1):
                three = (rounds[at], rounds[at - period], rounds[at - 2 * period])
                if not _alike(*three[:2]) or not _alike(*three[1:]) or not _alike(three[0], three[2]):
                    break
                reason = reason or next((seen.reason for one in three for seen in one if seen.reason), None)
            else:
                # Rounds that may all be one call are a repeat, and were judged as that; silence is no evidence.
                apart = any(not _alike(rounds[at], rounds[at - 1]) for at in range(newest, newest - period, -1))
                if reason is not None and apart and not _silent(list(rounds)[-period:]):
                    return reason
        return None


def _match(candidates: Round, seen: Seen, digest: Hashable | None, answer: Hashable | None) -> Seen | None:
    for other in candidates:
        if (
            other.tool == seen.tool
            and other.epoch == seen.epoch
            and (digest is None or other.digest is None or digest == other.digest)
            and (answer is None or other.answer is None or answer == other.answer)
        ):
            return other
    return None


def _completes(count: int, contract: ToolContract, classes: set[ResultClass | None]) -> bool:
    if contract.polling is not None:
        return count > contract.polling.max_unchanged
    allowed = [allowed_unchanged(contract, result_class) for result_class in classes]
    known = [number for number in allowed if number is not None]
    return len(known) == len(allowed) and count > max(known)


def _alike(one: Round, other: Round) -> bool:
    if len(one) != len(other) or not one:
        return False
    if len(one) > 1:
        one, other = sorted(one, key=_order), sorted(other, key=_order)
    return all(
        a.tool == b.tool
        and a.plain
        and (a.digest is None or b.digest is None or a.digest == b.digest)
        and (a.answer is None or b.answer is None or a.answer == b.answer)
        for a, b in zip(one, other, strict=True)
    )


def _order(seen: Seen) -> tuple[str, str]:
    return seen.tool, str(seen.digest)


def _silent(rounds: list[Round]) -> bool:
    return all(seen.result_class is _RESULT_CLASS_SILENCE for one in rounds for seen in one)
