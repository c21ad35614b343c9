"""What a detector is shown of one call, and what it may say about it.

Invariants: the tracker builds all evidence once and hands the same `Step` to every detector; detectors only
read it. Everything here can be carried by `loopguard.*` attributes, so that a scorer that never saw content
reaches the same findings. Records and interfaces alone stand here: a build may compile what works with them, and
a compiled class would lose what `msgspec` gives them (docs/decisions/0012).
"""

from __future__ import annotations

from enum import IntFlag
from typing import TYPE_CHECKING, Protocol

import msgspec

from otel_loopguard.model import Basis, Kind, Progress, ResultClass, Severity, ToolCall, Unknown

if TYPE_CHECKING:
    from collections.abc import Hashable

    from otel_loopguard.detectors.alike import TextRun
    from otel_loopguard.detectors.failing import Failures
    from otel_loopguard.detectors.returns import Trail
    from otel_loopguard.detectors.stretch import Poll, Stretch
    from otel_loopguard.detectors.writes import SameWrite
    from otel_loopguard.policy import ToolContract


class Member(msgspec.Struct, frozen=True, gc=False):
    """One call of a stretch."""

    number: int
    call_id: str | None
    executed: bool


class Lap(msgspec.Struct, frozen=True, gc=False):
    """A sequence of rounds that has come round: `count` full periods of `period` rounds."""

    stretch: Stretch
    period: int
    count: int


class Counted(msgspec.Struct, frozen=True, gc=False):
    """What one call adds to; each None where it adds to nothing of that sort."""

    same_write: SameWrite | None = None
    state: Stretch | None = None
    """The steps that left the application's state as it is; `count` of them."""
    known_answers: Stretch | None = None
    failures: Failures | None = None
    """Of a call that failed, and not in passing: its agent's failures in a row."""
    outage: Stretch | None = None
    reread: Stretch | None = None
    covered: bool | None = None
    spent: Stretch | None = None
    """The executed calls of a tool that has a budget."""


class Seen(msgspec.Struct, frozen=True, gc=False):
    """What is known of one call. `digest` and `answer` are None where unknown; `reason` says why one is."""

    tool: str
    digest: Hashable | None
    answer: Hashable | None
    result_class: ResultClass | None
    reason: Unknown | None
    epoch: int
    plain: bool
    """False for pollers and pagers, which no cycle may hold."""


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
