"""Calls that belong together, as the tracker grows them, and how many of them are still allowed.

Invariants: bounded memory. A finding is made at most once per stretch and kind, with the stretch's last count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_loopguard.detectors.step import Member
from otel_loopguard.model import Effect, ErrorCategory, ResultClass

if TYPE_CHECKING:
    from otel_loopguard.model import CallFacts, Kind, ToolCall
    from otel_loopguard.policy import ToolContract

# Members under names of their own: to look one up in its class costs 50 ns, and a step does so dozens of times.
_EFFECT_WRITE: Final = Effect.WRITE
_RESULT_CLASS_ACK: Final = ResultClass.ACK
_RESULT_CLASS_EMPTY: Final = ResultClass.EMPTY
_RESULT_CLASS_SILENCE: Final = ResultClass.SILENCE

MAX_LISTED_CALLS: Final = 256
"""Calls that a finding lists once it is made; its count goes on. Source: what a reader of a report can use."""

MAX_HELD_CALLS: Final = 1024
"""Calls that a stretch holds before it is a finding; a longer one lists and counts as wasted only its first."""

QUIET_EXTRA_REPEATS: Final = 2
"""Further repeats allowed where the answer says little (ack, empty): 5th instead of 3rd. Source: DESIGN 6."""

LASTING_FAILURES: Final = frozenset({ErrorCategory.VALIDATION, ErrorCategory.PERMISSION})
"""Failures that waiting does not cure, so that a declared poller gets no patience for them."""


class Stretch:
    """Calls that belong together, as the tracker grows them.

    `count` counts rounds (equal siblings once), periods in a cycle, or stalled pages. `spared` is how many of
    the first members were not wasted; members are listed while there is `room`.
    `claims` holds each kind claimed on it with the place of its finding
    (None where there was no room). `loop` is set once a finding of severity loop rests on it; `unlisted` then
    holds the executed calls that came since and that nobody has taken yet. `silent`: a call of unknown effect in it
    gave back nothing, so that it may have waited, or done something.
    """

    __slots__ = (
        "agent",
        "claims",
        "count",
        "digests",
        "loop",
        "members",
        "room",
        "silent",
        "spared",
        "tool",
        "unlisted",
    )

    def __init__(self, tool: str, agent: str, digests: tuple[str, ...], *, spared: int = 1) -> None:
        self.tool, self.agent, self.digests, self.spared = tool, agent, digests, spared
        self.count = 1
        self.members: list[Member] = []
        self.room = MAX_HELD_CALLS
        self.claims: dict[Kind, int | None] | None = None
        self.loop = self.silent = False
        self.unlisted: list[int] = []

    def is_claimed(self, kind: Kind) -> bool:
        """Tells whether a finding of this kind rests on it: its count is read in the end, so one claim is enough."""
        return self.claims is not None and kind in self.claims

    def begin_claims(self) -> dict[Kind, int | None]:
        """A first kind is claimed: from now on the room is what a finding lists."""
        self.room = MAX_LISTED_CALLS
        self.claims = {}
        return self.claims

    def add(self, call: ToolCall) -> None:
        """Appends one call; it is listed only while there is room."""
        if len(self.members) < self.room:
            facts = call.facts
            if facts.result_class is _RESULT_CLASS_SILENCE and is_silent(facts):
                self.silent = True
            executed = call.executed
            self.members.append(Member(call.number, facts.call_id, executed))
            if self.loop and executed:
                self._wait(call.number)
        elif self.loop and call.executed:
            self._wait(call.number)

    def _wait(self, number: int) -> None:
        """Notes a call that is wasted if the loop goes on; where it does not, the oldest are let go."""
        self.unlisted.append(number)
        if len(self.unlisted) > MAX_HELD_CALLS:
            del self.unlisted[: MAX_HELD_CALLS // 2]


class Poll:
    """One wait of a declared poller: from its first poll, or the first after a terminal answer.

    `polls` counts executed polls; `early` those that came sooner than `min_interval_s`. Times are start times
    in Unix nanoseconds, 0 where unknown.
    """

    __slots__ = ("early", "first_ns", "last_ns", "polls", "stretch")

    def __init__(self, stretch: Stretch, start_ns: int) -> None:
        self.stretch, self.first_ns, self.last_ns = stretch, start_ns, start_ns
        self.polls, self.early = 1, 0


def allowed_unchanged(contract: ToolContract, result_class: ResultClass | None) -> int | None:
    """Returns how many equal answers in a row are still allowed, the first included; None for any number.

    One rule for a seen repeat and for the supposed repeat of calls without digest.
    """
    if result_class is _RESULT_CLASS_SILENCE:
        return None
    if result_class is _RESULT_CLASS_ACK or result_class is _RESULT_CLASS_EMPTY:
        return contract.allowed_repeats + QUIET_EXTRA_REPEATS
    return contract.allowed_repeats


def is_silent(facts: CallFacts) -> bool:
    """Tells whether a call gave back nothing at all, so that nobody can say what it did; a write's success says."""
    return facts.result_class is _RESULT_CLASS_SILENCE and facts.effect is not _EFFECT_WRITE
