"""What the kinds that go by likeness share: which rounds follow each other, and how a call's texts went on.

Invariants: bounded memory, `MAX_CHAINS` chains a detector and agent turns; constant work a call but for comparing
two sketches. What a producer measured where the content was is believed, and grows the same chains as what is
measured here, so that a scorer which sees no content makes the same findings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

from otel_loopguard.detectors.recent import Recent
from otel_loopguard.detectors.step import Stretch
from otel_loopguard.likeness import direction, grew, only_numbers_differ, per_cent
from otel_loopguard.model import ErrorCategory, Pattern, Progress

if TYPE_CHECKING:
    from otel_loopguard.detectors.step import Step
    from otel_loopguard.model import CallFacts, Sketch, ToolCall, Value
    from otel_loopguard.policy import ToolContract

# Members under names of their own: to look one up in its class costs 50 ns, and a step does so dozens of times.
_ERROR_CATEGORY_TRANSIENT: Final = ErrorCategory.TRANSIENT
_PATTERN_PLAIN: Final = Pattern.PLAIN
_PROGRESS_ADVANCED: Final = Progress.ADVANCED

MAX_CHAINS: Final = 64
"""Chains remembered by one detector of one run, the latest half of them for certain."""

MAX_DIGESTS: Final = 16
"""Distinct calls that one finding names."""

ALIKE_PER_CENT: Final = 60
"""Texts and failures alike. Source: DESIGN 6; pages of one site that differ in what was asked share less."""

LONG_ANSWER_WORDS: Final = 15
"""Words from which an answer is more than a set phrase that may well be right twice. Source: DESIGN 6."""

WHOLE_TEXT_WORDS: Final = 50
"""Words from which a text that comes back nearly unchanged is the same page. Source: DESIGN 6."""


USUAL_REPEATS: Final = 2
"""`allowed_repeats` by default: every call more that a tool's contract allows is one more allowed here."""


def patience(contract: ToolContract) -> int:
    """Returns how many calls more than usual the tool's contract allows; negative for fewer."""
    return contract.allowed_repeats - USUAL_REPEATS


def is_evidence(step: Step) -> bool:
    """Tells whether a call's answer may be compared by likeness.

    Declared pollers and pagers have kinds of their own; what was not executed gave nothing; a transient failure
    is known to be no part of a loop.
    """
    call = step.call
    facts = call.facts
    return (
        facts.pattern is _PATTERN_PLAIN
        and call.executed
        and not (step.failing and facts.error_category is _ERROR_CATEGORY_TRANSIENT)
    )


def add_to(stretch: Stretch, call: ToolCall) -> None:
    """Adds a call to a stretch of calls that may differ, and its digest to those the finding names."""
    stretch.add(call)
    digest = call.facts.call_digest
    if digest is not None and digest not in stretch.digests and len(stretch.digests) < MAX_DIGESTS:
        stretch.digests = (*stretch.digests, digest)


def begin(call: ToolCall) -> Stretch:
    """Returns a stretch that holds one call."""
    stretch = Stretch(call.facts.tool, call.agent, ())
    add_to(stretch, call)
    return stretch


@runtime_checkable
class Measuring(Protocol):
    """A detector whose counts a producer writes down, for a scorer that sees no content."""

    def measured(self, call: ToolCall) -> dict[str, Value]:
        """Returns what was measured of the call judged last, by field of `CallFacts`; empty for any other call."""


class _Text(NamedTuple):
    """How one text compares with those before it, as the fields `near_result_*` and `result_moving` of `CallFacts`."""

    calls: int
    per_cent: int
    moving: bool


class TextRun:
    """The texts that calls of one digest gave, as long as each is alike to the first.

    `count`, `moving` as in `CallFacts.near_result_count` and `result_moving`; `very_alike` counts the texts of the
    likeness that was asked for; `varied` tells whether any differs from the first. `seen` is what is compared with.
    """

    __slots__ = ("_result", "count", "moving", "seen", "stretch", "varied", "very_alike")

    def __init__(self, call: ToolCall, count: int) -> None:
        self.seen: _Seen | None = None
        self.count, self.very_alike = count, 1
        self.varied = self.moving = False
        self.stretch = begin(call)
        self._result = _result_of(call.facts)

    def add(self, call: ToolCall, text: _Text, *, very_alike: bool) -> None:
        """Adds a call that gave a text alike to the first."""
        self.count, self.moving = text.calls, text.moving
        self.very_alike += very_alike
        self.varied = self.varied or _result_of(call.facts) != self._result
        add_to(self.stretch, call)


def _result_of(facts: CallFacts) -> str | None:
    return facts.result_digest or facts.error_digest


class _Seen:
    """The sketches of the first and the last text of a run, and how the texts went on from one to the next."""

    __slots__ = ("_changed", "_down", "_grows", "_numbers", "_up", "barriers", "first", "last", "turn")

    def __init__(self, text: Sketch) -> None:
        self.first = self.last = text
        self.turn = self.barriers = -1
        self._up = self._down = self._grows = self._numbers = True
        self._changed = False

    def moves(self, text: Sketch) -> bool:
        """Takes in the next text and tells whether all of them, one after the other, show progress."""
        last, self.last = self.last, text
        if last != text:
            way = direction(last, text)
            self._changed = True
            self._up, self._down = self._up and way >= 0, self._down and way <= 0
            self._grows = self._grows and grew(last, text)
            # In a short answer a number is the answer: a temperature, a count, what was rolled.
            self._numbers = self._numbers and text.words < WHOLE_TEXT_WORDS and only_numbers_differ(last, text)
        return self._changed and (self._up is not self._down or self._grows or self._numbers)


_TextKey: TypeAlias = "tuple[str, str | None, str | None, str | None]"


class TextRuns:
    """The runs of texts of one tracked run, by agent and call digest.

    Args:
        very_alike: per cent of likeness to the first text from which `TextRun.very_alike` counts.
    """

    __slots__ = ("_number", "_runs", "_text", "_very_alike")

    def __init__(self, *, very_alike: int = 100) -> None:
        self._very_alike = very_alike
        self._runs: Recent[_TextKey, TextRun] = Recent(MAX_CHAINS)
        self._number, self._text = 0, _Text(1, 100, moving=False)

    @property
    def evicted(self) -> int:
        """Calls forgotten for want of room."""
        return self._runs.evicted

    def measured(self, call: ToolCall) -> dict[str, Value]:
        """Returns what was measured of the call taken last, by field of `CallFacts`; empty for any other call."""
        if call.number != self._number:
            return {}
        text = self._text
        return {
            "near_result_count": text.calls,
            "near_result_alike": text.per_cent,
            "result_moving": text.moving,
        }

    def take(self, step: Step) -> TextRun | None:
        """Takes in the next call; returns the run of texts it adds to, or None where it adds to none.

        What is unknown, refused, transient or no text neither adds nor ends a run; so does an equal sibling.
        """
        facts = step.call.facts
        known = facts.likenesses
        if facts.near_result_count is None and (known is None or known.result is None or not known.result_is_text):
            return None
        if not is_evidence(step):
            return None
        call = step.call
        key: _TextKey = (call.agent, facts.call_digest, facts.key_id, facts.contract)
        run = self._runs.latest.get(key) or self._runs.promote(key)
        if facts.near_result_count is not None:
            seen = None
            text = _Text(facts.near_result_count, facts.near_result_alike or 0, bool(facts.result_moving))
        else:
            seen, compared = _compare(run, step)
            if compared is None:
                return None
            text = compared
        self._number, self._text = call.number, text
        if run is None:
            run = TextRun(call, text.calls)
            self._runs.add(key, run)
        elif text.calls > max(run.count, 1):
            run.add(call, text, very_alike=text.per_cent >= self._very_alike)
        else:
            run = self._runs.latest[key] = TextRun(call, text.calls)
        run.seen = seen
        return run


def _compare(run: TextRun | None, step: Step) -> tuple[_Seen | None, _Text | None]:
    """Returns what the next text is compared with, and how this one compares; None for an equal sibling's."""
    call, known = step.call, step.call.facts.likenesses
    if known is None or known.result is None:
        return None, None
    seen = None if run is None else run.seen
    text = _Text(1, 100, moving=False)
    if seen is not None and seen.turn == call.turn:
        seen.barriers = step.barriers
        return seen, None
    if seen is not None and run is not None and seen.barriers == step.barriers_before:
        moved_on = step.progress is _PROGRESS_ADVANCED and step.rule is not None
        alike = 0 if moved_on else per_cent(seen.first, known.result)
        if alike >= ALIKE_PER_CENT:
            # The clock in an error, or its process id, is no progress.
            text = _Text(run.count + 1, alike, moving=seen.moves(known.result) and not step.failing)
        else:
            seen = None
    else:
        seen = None
    if seen is None:
        seen = _Seen(known.result)
    seen.turn, seen.barriers = call.turn, step.barriers
    return seen, text
