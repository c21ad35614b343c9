"""Finds one tool that gives the same answer whatever it is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_loopguard.detectors.alike import LONG_ANSWER_WORDS, MAX_CHAINS, add_to, begin, is_evidence, patience
from otel_loopguard.detectors.recent import Recent
from otel_loopguard.detectors.step import Claim, Reads
from otel_loopguard.model import Effect, ErrorCategory, Kind, ResultClass, Severity

if TYPE_CHECKING:
    from otel_loopguard.detectors.step import Step
    from otel_loopguard.detectors.stretch import Stretch
    from otel_loopguard.model import ToolCall

# Members under names of their own: to look one up in its class costs 50 ns, and a step does so dozens of times.
_EFFECT_WRITE: Final = Effect.WRITE
_ERROR_CATEGORY_NOT_FOUND: Final = ErrorCategory.NOT_FOUND
_ERROR_CATEGORY_PERMISSION: Final = ErrorCategory.PERMISSION
_ERROR_CATEGORY_VALIDATION: Final = ErrorCategory.VALIDATION
_RESULT_CLASS_NOT_FOUND: Final = ResultClass.NOT_FOUND

SAME_ANSWERS: Final = 4
"""Equal answers in a row that make a finding. Source: DESIGN 6."""

SAME_LONG_ANSWERS: Final = 8
"""The same for a long text: equal documents in several places exist. Source: identical licence files of packages."""

NOT_THERE_ANSWERS: Final = 8
"""The same where each call asks for another thing, which is not there: a search. Source: names tried one by one."""

MAX_SEEN_VALUES: Final = 1024
"""Values of arguments remembered of such calls; an older one that comes again is taken for new."""

_SAYS_LITTLE: Final = frozenset({ResultClass.ACK, ResultClass.EMPTY, ResultClass.SILENCE})


def _values_of(call: ToolCall) -> tuple[int, ...]:
    known = call.facts.likenesses
    return () if known is None else known.values


class _Same:
    """The equal answers of one tool to one agent, no other answer of the tool and no barrier between."""

    __slots__ = ("_first", "_last", "_seen", "_stretch", "answer", "barriers", "batch", "count", "turn", "varied")

    def __init__(self, answer: str, call: ToolCall, *, batch: bool = True) -> None:
        self.answer, self.turn = answer, call.turn
        self.count, self.varied = 1, False
        self.batch = batch
        """True as long as each call asks for the next of many things."""
        self.barriers = -1
        self._first = call
        self._stretch: Stretch | None = None
        self._last: tuple[int, ...] | None = None
        self._seen: set[int] = set()

    def is_next_item(self, call: ToolCall) -> bool | None:
        """Tells whether a call differs from the last one in one short value only, and a new one; None: unknown."""
        facts = call.facts
        if facts.same_result_item is not None or facts.likenesses is None:
            return facts.same_result_item
        values = facts.likenesses.values
        if self._last is None:
            self._last = _values_of(self._first)
            self._seen.update(self._last)
        last = self._last
        changed = [value for value in values if value not in last]
        self._last = values
        is_item = len(values) == len(last) and len(changed) == 1 and not (changed[0] & 1 or changed[0] in self._seen)
        if len(self._seen) < MAX_SEEN_VALUES:
            self._seen.update(changed)
        return is_item

    @property
    def stretch(self) -> Stretch:
        """The calls; made when there is more than one, which most answers never come to."""
        if self._stretch is None:
            self._stretch = begin(self._first)
        return self._stretch

    def extend(self, call: ToolCall) -> None:
        """Adds a call; siblings, which were asked for at one time, count once."""
        stretch = self._stretch or self.stretch
        if call.facts.call_digest in stretch.digests:
            stretch.add(call)
        else:
            self.varied = True
            add_to(stretch, call)
        if call.turn != self.turn:
            self.turn = call.turn
            self.count += 1


class SameResult:
    """Fires on the fourth equal answer to at least two different calls of one tool."""

    __slots__ = ("_item", "_number", "_runs")
    kind = Kind.SAME_RESULT
    reads = Reads.EVERY

    def __init__(self) -> None:
        self._runs: Recent[tuple[str, str], _Same] = Recent(MAX_CHAINS)
        self._number, self._item = 0, False

    @property
    def evicted(self) -> int:
        """Tools forgotten for want of room."""
        return self._runs.evicted

    def measured(self, call: ToolCall) -> bool | None:
        """Returns `CallFacts.same_result_item` of the call judged last; None for any other call."""
        return self._item if call.number == self._number else None

    def judge(self, step: Step, /) -> Claim | None:
        """Returns a claim of severity loop where nothing was to be had in any words, else suspect."""
        call = step.call
        facts = call.facts
        if _is_no_sign(step):
            if facts.result_digest is not None and call.executed:
                self._runs.drop((call.agent, facts.tool))
            return None
        answer = facts.error_digest if step.failing else facts.result_digest
        if answer is None or not is_evidence(call, failing=step.failing):
            return None
        key = (call.agent, facts.tool)
        same = self._runs.latest.get(key) or self._runs.promote(key)
        if same is None:
            same = _Same(answer, call)
            self._runs.add(key, same)
        elif same.answer != answer or (same.barriers != step.barriers_before and same.turn != call.turn):
            same = self._runs.latest[key] = _Same(answer, call)
        else:
            same = self._extend(key, same, step)
        same.barriers = step.barriers
        if not same.varied:
            return None
        if same.count < _enough(step, batch=same.batch) + patience(step.contract):
            return None
        severe = _is_lost(step) and not same.batch and facts.error_category is not _ERROR_CATEGORY_PERMISSION
        return Claim(self.kind, Severity.LOOP if severe else Severity.SUSPECT, same.stretch, same.count)

    def _extend(self, key: tuple[str, str], same: _Same, step: Step) -> _Same:
        """Adds a call to its row; what is asked again after a batch was found begins another row."""
        call = step.call
        if _is_lost(step):
            is_item = same.is_next_item(call)
            if is_item is not None:
                self._number, self._item = call.number, is_item
            # A complaint about the request itself is none about the thing that is asked for.
            if not is_item or call.facts.error_category is _ERROR_CATEGORY_VALIDATION:
                if same.batch and same.stretch.is_claimed(self.kind):
                    same = self._runs.latest[key] = _Same(same.answer, call, batch=False)
                    return same
                same.batch = False
        same.extend(call)
        return same


def _is_lost(step: Step) -> bool:
    """Tells whether nothing was to be had."""
    return step.failing or step.result_class is _RESULT_CLASS_NOT_FOUND


def _is_no_sign(step: Step) -> bool:
    """Tells whether no number of answers like this one is a finding: all there is to it is that it ends a row.

    A structure that is equal for different things is data about them: "active", "in stock".
    """
    if step.failing or step.result_class is _RESULT_CLASS_NOT_FOUND:
        return False
    facts = step.call.facts
    return facts.result_words is None or facts.effect is _EFFECT_WRITE or step.result_class in _SAYS_LITTLE


def _enough(step: Step, *, batch: bool) -> int:
    """Returns how many equal answers of this sort make a finding."""
    facts = step.call.facts
    if _is_lost(step):
        not_there = step.result_class is _RESULT_CLASS_NOT_FOUND or facts.error_category is _ERROR_CATEGORY_NOT_FOUND
        return NOT_THERE_ANSWERS if batch and not_there else SAME_ANSWERS
    return SAME_ANSWERS if (facts.result_words or 0) < LONG_ANSWER_WORDS else SAME_LONG_ANSWERS
