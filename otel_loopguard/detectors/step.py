"""What a detector is shown of one call, and what it may say about it.

Invariants: the tracker builds all evidence once and hands the same `Step` to every detector; detectors only
read it. Everything here can be carried by `loopguard.*` attributes, so that a scorer that never saw content
reaches the same findings. A `Stretch` is the tracker's own record of calls that belong together: a finding is
made at most once per stretch and kind, with the stretch's last count.
"""

from __future__ import annotations

from enum import IntFlag
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from otel_loopguard.model import Basis, Effect, ErrorCategory, Kind, Progress, ResultClass, Severity, ToolCall

if TYPE_CHECKING:
    from otel_loopguard.detectors.alike import TextRun
    from otel_loopguard.detectors.returns import Trail
    from otel_loopguard.detectors.tally import Counted
    from otel_loopguard.model import CallFacts
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


class Member(msgspec.Struct, frozen=True, gc=False):
    """One call of a stretch."""

    number: int
    call_id: str | None
    executed: bool


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


class Lap(msgspec.Struct, frozen=True, gc=False):
    """A sequence of rounds that has come round: `count` full periods of `period` rounds."""

    stretch: Stretch
    period: int
    count: int


class Step(msgspec.Struct, frozen=True, gc=False):
    """One call and what the calls before it make of it.

    `stretch` holds the calls with an unchanged answer that this call adds to, None where it adds to none
    (first, moved on, unknown). `result_class` and `failing` describe the answer, for a call that the guard
    denied the last executed equal call's. `waiting`: a declared poller's answer for which patience was
    declared. `siblings`: equal calls of one turn. `stalled_pages`: pages without anything new.
    """

    call: ToolCall
    contract: ToolContract
    progress: Progress
    rule: str | None
    stretch: Stretch | None
    result_class: ResultClass | None
    failing: bool
    waiting: bool
    siblings: Stretch | None
    poll: Poll | None
    stalled_pages: Stretch | None
    lap: Lap | None
    lap_across: Lap | None
    barriers_before: int
    """Barriers of DESIGN 6 seen in the run before this call."""
    barriers: int
    """The same with this call's own."""
    trail: Trail | None = None
    """Of a call with an unchanged answer: the equal ones before it, whatever lay between."""
    denials: Stretch | None = None
    """Where someone other than the guard refused this call: the rounds in which that happened."""
    counted: Counted | None = None
    """What the call adds to whichever call it is; None for nothing."""
    texts: TextRun | None = None
    """Of a call that gave a text: those alike to it that equal calls gave."""
    turn_before: int = -1
    """The agent's turn before the call's own, -1 for none; a turn of no-ops is none."""

    @property
    def is_found_otherwise(self) -> bool:
        """True where the consecutive rounds are the end of a longer stretch that is a loop already, and no news."""
        trail = self.trail
        if trail is None:
            return False
        if trail.relapse is not None:
            return trail.sure
        return trail.still_stretch is not None and trail.still_stretch.loop


class Claim(msgspec.Struct, frozen=True):
    """What a detector says about one step: the stretch is, or still is, a case of `kind`."""

    kind: Kind
    severity: Severity
    stretch: Stretch
    count: int
    period: int | None = None
    rule: str | None = None
    basis: Basis = Basis.DIGEST


class Reads(IntFlag):
    """Evidence that a detector reads of a step."""

    STRETCH = 1
    TRAIL = 2
    LAP = 4
    """`lap` or `lap_across`."""
    COUNTED = 8
    RARE = 16
    """`siblings`, `poll`, `stalled_pages` or `denials`."""
    TEXTS = 32
    ASKED = 64
    """Free text in the call's arguments, a declared identity, or what a producer measured by them."""
    EVERY = 128
    """Nothing in particular: it is asked about every call of a known digest."""


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


class Detector(Protocol):
    """One way of being stuck.

    `judge` is called in run order, once for each call that shows what it reads. It returns a claim on the step with
    which its pattern comes true, and may do so again; the tracker makes one finding of all claims on one stretch.
    """

    kind: Kind
    reads: Reads
    """The evidence without which it has nothing to say; it is not asked about other calls."""

    def judge(self, step: Step, /) -> Claim | None:
        """Returns a claim, or None. Cost: constant. It does not raise."""


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
