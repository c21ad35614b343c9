"""What the kinds that go by likeness share: which rounds follow each other, and how a call's texts went on.

Invariants: bounded memory, `MAX_CHAINS` chains a detector and agent turns; constant work a call but for comparing
two sketches. What a producer measured where the content was is believed, and grows the same chains as what is
measured here, so that a scorer which sees no content makes the same findings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from otel_loopguard.detectors.recent import Recent
from otel_loopguard.detectors.stretch import Stretch
from otel_loopguard.likeness import direction, grew, only_numbers_differ, per_cent
from otel_loopguard.model import ErrorCategory, Pattern

if TYPE_CHECKING:
    from otel_loopguard.model import CallFacts, Sketch, ToolCall
    from otel_loopguard.policy import ToolContract

# Members under names of their own: to look one up in its class costs 50 ns, and a step does so dozens of times.
_ERROR_CATEGORY_TRANSIENT: Final = ErrorCategory.TRANSIENT
_PATTERN_PLAIN: Final = Pattern.PLAIN

MAX_CHAINS: Final = 64
"""Chains remembered by one detector of one run, the latest half of them for certain."""

MAX_DIGESTS: Final = 16
"""Distinct calls that one finding names."""

ALIKE_PER_CENT: Final = 60
"""Texts and failures alike. Source: DESIGN 6; pages of one site that differ in what was asked share less."""

VERY_ALIKE_PER_CENT: Final = 95
"""Likeness of texts that differ in a counter or a line. Source: DESIGN 6."""

LONG_ANSWER_WORDS: Final = 15
"""Words from which an answer is more than a set phrase that may well be right twice. Source: DESIGN 6."""

WHOLE_TEXT_WORDS: Final = 50
"""Words from which a text that comes back nearly unchanged is the same page. Source: DESIGN 6."""


USUAL_REPEATS: Final = 2
"""`allowed_repeats` by default: every call more that a tool's contract allows is one more allowed here."""


def patience(contract: ToolContract) -> int:
    """Returns how many calls more than usual the tool's contract allows; negative for fewer."""
    return contract.allowed_repeats - USUAL_REPEATS


def is_evidence(call: ToolCall, *, failing: bool) -> bool:
    """Tells whether a call's answer may be compared by likeness.

    Declared pollers and pagers have kinds of their own; what was not executed gave nothing; a transient failure
    is known to be no part of a loop.
    """
    facts = call.facts
    return (
        facts.pattern is _PATTERN_PLAIN
        and call.executed
        and not (failing and facts.error_category is _ERROR_CATEGORY_TRANSIENT)
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


class Text(NamedTuple):
    """How one text compares with those before it, as the fields `near_result_*` and `result_moving` of `CallFacts`."""

    calls: int
    per_cent: int
    moving: bool


_FIRST_TEXT: Final = Text(1, 100, moving=False)


class TextRun:
    """The texts that calls of one digest gave, as long as each is alike to the first.

    `count`, `moving` as in `CallFacts.near_result_count` and `result_moving`; `very_alike` counts the texts of
    `VERY_ALIKE_PER_CENT`; `varied` tells whether any differs from the first. `turn` and `barriers` are those of the
    last call. What the next text is compared with, the first and the last one, is None where a producer compared.
    """

    __slots__ = (
        "_call",
        "_changed",
        "_down",
        "_grows",
        "_last",
        "_numbers",
        "_stretch",
        "_up",
        "barriers",
        "count",
        "first",
        "moving",
        "turn",
        "varied",
        "very_alike",
    )

    def __init__(self, call: ToolCall, count: int, text: Sketch | None) -> None:
        self.first = self._last = text
        self.turn = self.barriers = -1
        self.count, self.very_alike = count, 1
        self.varied = self.moving = self._changed = False
        self._up = self._down = self._grows = self._numbers = True
        self._call = call
        self._stretch: Stretch | None = None

    @property
    def stretch(self) -> Stretch:
        """The calls; made when there is more than one, which most texts never come to."""
        if self._stretch is None:
            self._stretch = begin(self._call)
        return self._stretch

    def add(self, call: ToolCall, text: Text, sketch: Sketch | None) -> None:
        """Adds a call that gave a text alike to the first; `sketch` is None where a producer compared."""
        self.count, self.moving = text.calls, text.moving
        if sketch is None:
            self.first = self._last = None
        self.very_alike += text.per_cent >= VERY_ALIKE_PER_CENT
        self.varied = self.varied or _result_of(call.facts) != _result_of(self._call.facts)
        add_to(self.stretch, call)

    def moves(self, text: Sketch) -> bool:
        """Takes in the next text and tells whether all of them, one after the other, show progress."""
        last = self._last or text
        self._last = text
        if last != text:
            self._changed = True
            if self._up or self._down:
                way = direction(last, text)
                self._up, self._down = self._up and way >= 0, self._down and way <= 0
            self._grows = self._grows and grew(last, text)
            # In a short answer a number is the answer: a temperature, a count, what was rolled.
            self._numbers = self._numbers and text.words < WHOLE_TEXT_WORDS and only_numbers_differ(last, text)
        return self._changed and (self._up is not self._down or self._grows or self._numbers)


def _result_of(facts: CallFacts) -> str | None:
    return facts.result_digest or facts.error_digest


_TextKey: TypeAlias = "tuple[str, str | None, str | None, str | None]"


class TextRuns:
    """The runs of texts of one tracked run, by agent and call digest."""

    __slots__ = ("_number", "_runs", "_text")

    def __init__(self) -> None:
        self._runs: Recent[_TextKey, TextRun] = Recent(MAX_CHAINS)
        self._number, self._text = 0, _FIRST_TEXT

    @property
    def evicted(self) -> int:
        """Calls forgotten for want of room."""
        return self._runs.evicted

    def measured(self, call: ToolCall) -> Text | None:
        """Returns what was measured of the call taken last; None for any other call."""
        return self._text if call.number == self._number else None

    def take(self, call: ToolCall, *, failing: bool, moved_on: bool, before: int, barriers: int) -> TextRun | None:
        """Takes in the next call.

        What is unknown, refused, transient or no text neither adds nor ends a run; so does an equal sibling.

        Args:
            call: the call.
            failing: whether it failed.
            moved_on: whether a declared rule says that it made progress.
            before: the run's barriers before it.
            barriers: the same with its own.

        Returns:
            The run of texts it adds to, or None where it adds to none.
        """
        facts = call.facts
        known = facts.likenesses
        sketch = known.result if known is not None and known.result_is_text else None
        if (facts.near_result_count is None and sketch is None) or not is_evidence(call, failing=failing):
            return None
        key: _TextKey = (call.agent, facts.call_digest, facts.key_id, facts.contract)
        run = self._runs.latest.get(key) or self._runs.promote(key)
        text = _FIRST_TEXT
        if facts.near_result_count is not None:
            sketch = None
            text = Text(facts.near_result_count, facts.near_result_alike or 0, bool(facts.result_moving))
        elif run is not None and run.first is not None and sketch is not None:
            if run.turn == call.turn:
                run.barriers = barriers
                return None
            alike = 0 if moved_on or run.barriers != before else per_cent(run.first, sketch, enough=ALIKE_PER_CENT)
            if alike >= ALIKE_PER_CENT:
                # The clock in an error, or its process id, is no progress.
                text = Text(run.count + 1, alike, moving=run.moves(sketch) and not failing)
        self._number, self._text = call.number, text
        if run is None:
            run = TextRun(call, text.calls, sketch)
            self._runs.add(key, run)
        elif text.calls > max(run.count, 1):
            run.add(call, text, sketch)
        else:
            run = self._runs.latest[key] = TextRun(call, text.calls, sketch)
        run.turn, run.barriers = call.turn, barriers
        return run
