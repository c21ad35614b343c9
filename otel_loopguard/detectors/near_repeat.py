"""Finds one request put again and again in other words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from otel_loopguard.detectors.alike import (
    ALIKE_PER_CENT,
    LONG_ANSWER_WORDS,
    MAX_CHAINS,
    add_to,
    begin,
    is_evidence,
    patience,
)
from otel_loopguard.detectors.recent import Recent
from otel_loopguard.detectors.step import Claim, Reads
from otel_loopguard.likeness import answers_what_is_new, fills_a_slot, is_reordered, only_numbers_differ, per_cent
from otel_loopguard.model import Basis, Kind, Outcome, ResultClass, Severity

if TYPE_CHECKING:
    from otel_loopguard.detectors.step import Step
    from otel_loopguard.detectors.stretch import Stretch
    from otel_loopguard.model import CallFacts, Likenesses, ToolCall

# Members under names of their own: to look one up in its class costs 50 ns, and a step does so dozens of times.
_OUTCOME_UNKNOWN: Final = Outcome.UNKNOWN
_RESULT_CLASS_ACK: Final = ResultClass.ACK
_RESULT_CLASS_CONTENT: Final = ResultClass.CONTENT
_RESULT_CLASS_SILENCE: Final = ResultClass.SILENCE

ALIKE_REQUESTS: Final = 5
"""Requests in other words that are suspect. Source: DESIGN 6."""

SILENT_REQUESTS: Final = 10
"""The same where every answer is silence, as a batch of commands gives it. Source: as for `stalled_poll`."""

ANSWERED_ALIKE: Final = 4
"""Requests in a row with the same long answer, or alike failures, that are a loop. Source: DESIGN 6."""

ARGUMENTS_PER_CENT: Final = 50
"""Likeness of arguments that ask for the same. Source: DESIGN 6."""

SILENT_ARGUMENTS_PER_CENT: Final = 80
"""The same where the answer is silence, which says nothing itself. Source: complaint C09, one word of eleven."""

SAME_TEXT_PER_CENT: Final = 95
"""Likeness of two texts that are one answer. Source: DESIGN 6."""


class Measure(NamedTuple):
    """How one call compares with those before it, as `CallFacts.near_repeat_count` and `near_repeat_alike`."""

    calls: int
    alike: int


class _Answer(NamedTuple):
    """What two answers have to do with each other."""

    same: bool
    telling: bool
    """True where that they are the same says that asking again in other words is of no use."""


_OTHER: Final = _Answer(same=False, telling=False)
_SAME: Final = _Answer(same=True, telling=False)
_TELLING: Final = _Answer(same=True, telling=True)


class _Chain:
    """Calls of one tool by one agent that put one request in other words.

    `first` and `last` are what the next is compared with. `row` holds the latest ones, in consecutive rounds, whose
    answers tell; it and `stretch` are None while they would hold the last call alone, as most do.
    """

    __slots__ = ("alike", "barriers", "count", "first", "last", "row", "stretch", "turn")

    def __init__(self, step: Step, measure: Measure) -> None:
        self.count, self.alike = measure
        self.stretch: Stretch | None = None
        self.row: Stretch | None = None
        self.first = self.last = step
        self.turn = self.barriers = -1

    def add(self, step: Step, measure: Measure) -> None:
        """Adds a call."""
        last, self.last = self.last.call, step
        self.stretch = self.stretch or begin(last)
        add_to(self.stretch, step.call)
        if measure.alike > self.alike:
            self.row = self.row or begin(last)
            add_to(self.row, step.call)
        else:
            self.row = None
        self.count, self.alike = measure


class NearRepeat:
    """Fires on the fifth such request as a suspicion, on the fourth in a row as a loop where the answers tell."""

    __slots__ = ("_chains", "_measure", "_number")
    kind = Kind.NEAR_REPEAT
    reads = Reads.ASKED

    def __init__(self) -> None:
        self._chains: Recent[tuple[str, str], _Chain] = Recent(MAX_CHAINS)
        self._number, self._measure = 0, Measure(1, 1)

    @property
    def evicted(self) -> int:
        """Tools forgotten for want of room."""
        return self._chains.evicted

    def measured(self, call: ToolCall) -> Measure | None:
        """Returns what was measured of the call judged last; None for any other call."""
        return self._measure if call.number == self._number else None

    def judge(self, step: Step, /) -> Claim | None:
        """Returns a claim by likeness, which no guard denies on."""
        call, facts = step.call, step.call.facts
        known = facts.likenesses
        if facts.near_repeat_count is None and (known is None or (known.frame is None and known.identity is None)):
            return None
        if not is_evidence(call, failing=step.failing):
            return None
        key = (call.agent, facts.tool)
        chain = self._chains.latest.get(key) or self._chains.promote(key)
        if facts.near_repeat_count is not None:
            measure = Measure(facts.near_repeat_count, facts.near_repeat_alike or 1)
        else:
            compared = _compare(chain, step)
            if compared is None:
                return None
            measure = compared
        self._number, self._measure = call.number, measure
        if chain is None:
            chain = _Chain(step, measure)
            self._chains.add(key, chain)
        elif measure.calls > max(chain.count, 1):
            chain.add(step, measure)
        else:
            chain = self._chains.latest[key] = _Chain(step, measure)
        chain.turn, chain.barriers = call.turn, step.barriers
        return self._claim(chain, step)

    def _claim(self, chain: _Chain, step: Step) -> Claim | None:
        more, stretch, row = patience(step.contract), chain.stretch, chain.row
        if row is not None and chain.alike >= ANSWERED_ALIKE + more and len(row.digests) > 1:
            return Claim(self.kind, Severity.LOOP, row, chain.alike, basis=Basis.LIKENESS)
        enough = SILENT_REQUESTS if step.result_class is _RESULT_CLASS_SILENCE else ALIKE_REQUESTS
        if stretch is None or chain.count < enough + more or len(stretch.digests) == 1:
            return None
        if row is not None and row.claims is not None:
            return None
        return Claim(self.kind, Severity.SUSPECT, stretch, chain.count, basis=Basis.LIKENESS)


def _compare(chain: _Chain | None, step: Step) -> Measure | None:
    """Returns how a call compares with the chain's; None where it neither counts nor resets."""
    call, facts = step.call, step.call.facts
    if not step.failing and facts.result_digest is None and facts.outcome is not _OUTCOME_UNKNOWN:
        return None  # it gave something, which nobody saw
    if chain is None:
        return Measure(1, 1)
    near: bool | None = None
    if call.turn != chain.turn:
        if chain.barriers != step.barriers_before:
            return Measure(1, 1)
        near = _asks_the_same(chain, step)
    if near is None:
        chain.turn, chain.barriers = call.turn, step.barriers
        return None
    answer = _compare_answers(chain.last, step) if near else _OTHER
    if not answer.same:
        return Measure(1, 1)
    in_row = answer.telling and chain.turn == step.turn_before and (step.failing or not _names_another(chain, step))
    return Measure(chain.count + 1, chain.alike + 1 if in_row else 1)


def _asks_the_same(chain: _Chain, step: Step) -> bool | None:
    """Tells whether a call puts the chain's request in other words, or the same; None if only numbers differ."""
    known, last = step.call.facts.likenesses, chain.last.call.facts.likenesses
    if known is None or last is None:
        return False
    if known.identity is not None or last.identity is not None:
        return known.identity == last.identity
    if known.frame != last.frame or known.arguments is None or last.arguments is None:
        return False
    if step.call.facts.call_digest == chain.last.call.facts.call_digest:
        return True
    if is_reordered(last.arguments, known.arguments):
        return True
    if only_numbers_differ(last.arguments, known.arguments):
        return None
    enough = SILENT_ARGUMENTS_PER_CENT if step.result_class is _RESULT_CLASS_SILENCE else ARGUMENTS_PER_CENT
    first = chain.first.call.facts.likenesses
    return per_cent(last.arguments, known.arguments, enough=enough) >= enough or (
        not (first is None or first.arguments is None or first is last)
        and per_cent(first.arguments, known.arguments, enough=enough) >= enough
    )


def _names_another(chain: _Chain, step: Step) -> bool:
    """Tells whether a request differs from the first and the last in a name only: it may be about something else."""
    known = step.call.facts.likenesses
    if known is None or known.arguments is None or known.identity is not None:
        return False
    for one in (chain.last, chain.first):
        earlier = one.call.facts.likenesses
        if earlier is None or earlier.arguments is None or not fills_a_slot(earlier.arguments, known.arguments):
            return False
    return True


def _compare_answers(last: Step, step: Step) -> _Answer:
    before, facts = last.call.facts, step.call.facts
    if step.failing or last.failing:
        if not (step.failing and last.failing and _fail_alike(before, facts)):
            return _OTHER
        return _SAME if _names_what_is_new(before.likenesses, facts.likenesses) else _TELLING
    if facts.result_digest is None or before.result_digest is None:
        return _SAME if facts.result_digest is before.result_digest else _OTHER
    if step.result_class is not last.result_class or step.result_class is _RESULT_CLASS_ACK:
        return _OTHER
    known, earlier = facts.likenesses, before.likenesses
    if known is None or earlier is None:
        return _OTHER
    if facts.result_digest == before.result_digest or _one_answer(earlier, known):
        if known.result is not None and known.result.words >= LONG_ANSWER_WORDS:
            return _TELLING
        if known.identity is not None:
            return _SAME
    # That nothing came, or nothing is there, is the same however it is said; a short answer may well be right twice.
    return _OTHER if step.result_class is _RESULT_CLASS_CONTENT else _SAME


def _fail_alike(before: CallFacts, facts: CallFacts) -> bool:
    earlier = None if before.likenesses is None else before.likenesses.result
    text = None if facts.likenesses is None else facts.likenesses.result
    if earlier is not None and text is not None:
        return per_cent(earlier, text, enough=ALIKE_PER_CENT) >= ALIKE_PER_CENT
    return (before.error_category, before.error_type) == (facts.error_category, facts.error_type)


def _names_what_is_new(earlier: Likenesses | None, known: Likenesses | None) -> bool:
    """Tells whether an answer names what is new in its request: then it answers that request, and no other."""
    if earlier is None or known is None:
        return False
    asked, asked_before, text, before = known.arguments, earlier.arguments, known.result, earlier.result
    if asked is None or asked_before is None or text is None or before is None:
        return False
    return answers_what_is_new(asked, text, asked_before, before)


def _one_answer(earlier: Likenesses, known: Likenesses) -> bool:
    text, before = known.result, earlier.result
    if text is None or before is None or text.words < LONG_ANSWER_WORDS:
        return False
    alike = per_cent(before, text, enough=SAME_TEXT_PER_CENT)
    return alike >= SAME_TEXT_PER_CENT and not _names_what_is_new(earlier, known)
