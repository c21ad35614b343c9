"""Follows one call that comes back unchanged with other things between, or after it was found to be a loop.

Invariants: only a barrier, a change, or too many calls between part a chain; siblings lie between nothing. Two
strengths are kept apart, each with a stretch of its own: `still`, where nothing new lay between, and `chain`,
where new answers did. Constant time; a trail exists only for a call that came at least twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_loopguard.detectors.stretch import Stretch

if TYPE_CHECKING:
    from otel_loopguard.detectors.agents import Agent
    from otel_loopguard.model import ToolCall

STALLED_REACH_CALLS: Final = 32
"""How far back an equal call may lie where only stalled calls lie between. Source: DESIGN 6."""

PARTED: Final = 0
NEAR: Final = 1
STILL: Final = 2


class Place:
    """Where one turn of an agent stood in the run when it ended; as long as it goes on, where it began.

    `calls` and `moved` count the agent's calls and those that brought something new; `barriers` and `acts` the
    run's barriers and its acknowledged or silent calls of unknown effect; `others` the barriers that others raised
    by what they did, or a user turn; those who only wait, or fail in passing, part no rounds but their own.
    """

    __slots__ = ("acts", "agent", "barriers", "calls", "moved", "others")

    def __init__(self, agent: Agent, barriers: int, acts: int, deeds: int) -> None:
        self.agent, self.calls, self.moved = agent, agent.calls, agent.moved
        self.barriers, self.acts, self.others = barriers, acts, deeds - agent.deeds

    def close(self, barriers: int, acts: int, deeds: int) -> None:
        """The turn is over: from now on this says where it ended."""
        self.calls, self.moved = self.agent.calls, self.agent.moved
        self.barriers, self.acts = barriers, acts
        self.others = deeds - self.agent.deeds


def gap(before: Place, now: Place, window: int) -> int:
    """Tells what lies between two turns of one agent.

    Args:
        before: the turn of the last equal call, closed.
        now: the open turn, as it began.
        window: calls back that count where something new lies between.

    Returns:
        `PARTED` for a barrier or too many calls; `STILL` where all of them are stalled, else `NEAR`.
    """
    if before.barriers != now.barriers:
        return PARTED
    back = now.calls - before.calls + 1
    if now.moved == before.moved and back <= STALLED_REACH_CALLS:
        return STILL
    return NEAR if back <= window else PARTED


class Trail:
    """The unchanged answers of one call of one agent, across other calls.

    `chain` and `still` count them, the latter only while nothing new lay between; `times` counts all since the
    answer last changed. The stretches are None while all came in consecutive rounds. `relapse` is the stretch of
    the returns after a loop, None where this call is none; `sure` is False where what lies between may have been
    a change. `flagged`: a loop was found of this call and answer, and the agent has left it since; `returns` counts
    the calls of that relapse.
    """

    __slots__ = (
        "_doubtful",
        "_sure",
        "chain",
        "chain_stretch",
        "flagged",
        "relapse",
        "returns",
        "still",
        "still_stretch",
        "sure",
        "times",
    )

    def __init__(self) -> None:
        self.chain = self.still = self.times = 1
        self.chain_stretch: Stretch | None = None
        self.still_stretch: Stretch | None = None
        self.flagged = False
        self.relapse: Stretch | None = None
        self.returns = 0
        self.sure = False
        self._sure: Stretch | None = None
        self._doubtful: Stretch | None = None

    def follow(
        self,
        call: ToolCall,
        previous: ToolCall,
        *,
        between: int,
        left: bool,
        rounds: Stretch | None,
        acted: bool,
    ) -> None:
        """Takes in a further round with an unchanged answer.

        Args:
            call: the call.
            previous: the equal one before it.
            between: what lies between, see `gap`.
            left: False in the round right after the last.
            rounds: where it is not, the consecutive rounds up to `previous`; None where that was the only one.
            acted: whether a call of unknown effect in between was only acknowledged, or silent.
        """
        self.times += 1
        if rounds is not None and rounds.loop:
            self.flagged = True
        if between == PARTED:
            self._part()
            self.chain = self.still = 1
        else:
            self.chain += 1
            self.still = self.still + 1 if between == STILL else 1
        if self.flagged:
            self._relapse(call, previous, left=left, acted=acted)
        elif left and between != PARTED:
            self._come_back(call, previous, rounds, between, acted=acted)
        else:
            self._grow(call)

    @property
    def tells(self) -> bool:
        """False while all answers came in consecutive rounds and no loop was left."""
        return self.still_stretch is not None or self.chain_stretch is not None or self.relapse is not None

    def would_relapse(self, between: int, *, left: bool) -> bool:
        """Tells whether coming back with the same answer, after leaving it to no effect, is a relapse for certain."""
        if self._sure is not None:
            return True
        parted = self.still_stretch is not None and self.still_stretch.loop and between != STILL
        return left and (self.flagged or parted)

    def go_on(self, *, parted: bool) -> None:
        """Takes in an unchanged answer right after the last, while all of them were consecutive: the short way."""
        self.times += 1
        if parted:
            self.chain = self.still = 1
        else:
            self.chain += 1
            self.still += 1

    def join(self, call: ToolCall) -> None:
        """Adds an equal sibling, which counts once with the first."""
        for stretch in (self.chain_stretch, self.still_stretch, self.relapse):
            if stretch is not None:
                stretch.add(call)

    def _part(self) -> None:
        if self.still_stretch is not None and self.still_stretch.loop:
            self.flagged = True
        self.chain_stretch = self.still_stretch = None

    def _come_back(
        self, call: ToolCall, previous: ToolCall, rounds: Stretch | None, between: int, *, acted: bool
    ) -> None:
        if between == NEAR:
            if self.still_stretch is not None and self.still_stretch.loop:
                # Something new came between: the loop was left, and this is the return to it.
                self._part()
                self._relapse(call, previous, left=True, acted=acted)
                return
            if self.chain_stretch is None:
                self.chain_stretch = self.still_stretch or _begun(previous, rounds)
            self.still_stretch = None
        elif self.still_stretch is None:
            self.still_stretch = _begun(previous, rounds)
        self._grow(call)

    def _grow(self, call: ToolCall) -> None:
        if self.chain_stretch is not None:
            self.chain_stretch.add(call)
            self.chain_stretch.count = self.chain
        if self.still_stretch is not None:
            self.still_stretch.add(call)
            self.still_stretch.count = self.still

    def _relapse(self, call: ToolCall, previous: ToolCall, *, left: bool, acted: bool) -> None:
        if self._sure is not None:
            stretch, self.sure = self._sure, True
        elif not left and self.relapse is None:
            return
        elif acted or not left:
            self.sure = False
            if self._doubtful is None:
                self._doubtful = _begun(previous, None)
            stretch = self._doubtful
        else:
            self.sure = True
            stretch = self._sure = _begun(previous, None)
        stretch.add(call)
        stretch.count = self.times
        self.relapse = stretch
        self.returns += self.sure


def _begun(previous: ToolCall, rounds: Stretch | None) -> Stretch:
    """A stretch that begins with the calls before this one."""
    digest = previous.facts.call_digest
    stretch = Stretch(previous.facts.tool, previous.agent, () if digest is None else (digest,))
    if rounds is None:
        stretch.add(previous)
    else:
        stretch.members = list(rounds.members)
    return stretch
