"""Finds one tool that gives the same answer whatever it is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_loopguard.detectors.alike import LONG_ANSWER_WORDS, MAX_CHAINS, add_to, begin, is_evidence, patience
from otel_loopguard.detectors.recent import Recent
from otel_loopguard.detectors.step import Claim, Reads
from otel_loopguard.model import Effect, ErrorCategory, Kind, ResultClass, Severity

if TYPE_CHECKING:
    from otel_loopguard.detectors.step import Step, Stretch
    from otel_loopguard.model import ToolCall

SAME_ANSWERS: Final = 4
"""Equal answers in a row that make a finding. Source: DESIGN 6."""

SAME_LONG_ANSWERS: Final = 8
"""The same for a long text: equal documents in several places exist. Source: identical licence files of packages."""

_SAYS_LITTLE: Final = frozenset({ResultClass.ACK, ResultClass.EMPTY, ResultClass.SILENCE})


class _Same:
    """The equal answers of one tool to one agent, no other answer of the tool and no barrier between."""

    __slots__ = ("_first", "_stretch", "answer", "barriers", "count", "turn", "varied")

    def __init__(self, answer: str, call: ToolCall) -> None:
        self.answer, self.turn = answer, call.turn
        self.count, self.varied = 1, False
        self.barriers = -1
        self._first = call
        self._stretch: Stretch | None = None

    @property
    def stretch(self) -> Stretch:
        """The calls; made when there is more than one, which most answers never come to."""
        if self._stretch is None:
            self._stretch = begin(self._first)
        return self._stretch

    def extend(self, call: ToolCall) -> None:
        """Adds a call; siblings, which were asked for at one time, count once."""
        stretch = self.stretch
        self.varied = self.varied or call.facts.call_digest not in stretch.digests
        add_to(stretch, call)
        if call.turn != self.turn:
            self.turn = call.turn
            self.count += 1


class SameResult:
    """Fires on the fourth equal answer to at least two different calls of one tool."""

    __slots__ = ("_runs",)
    kind = Kind.SAME_RESULT
    reads = Reads.EVERY

    def __init__(self) -> None:
        self._runs = Recent[tuple[str, str], _Same](MAX_CHAINS)

    @property
    def evicted(self) -> int:
        """Tools forgotten for want of room."""
        return self._runs.evicted

    def judge(self, step: Step, /) -> Claim | None:
        """Returns a claim of severity loop where nothing was to be had, suspect where the answer is content."""
        call = step.call
        facts = call.facts
        answer = facts.error_digest if step.failing else facts.result_digest
        if answer is None or not is_evidence(step):
            return None
        key = (call.agent, facts.tool)
        same = self._runs.latest.get(key) or self._runs.promote(key)
        if same is None:
            same = _Same(answer, call)
            self._runs.add(key, same)
        elif same.answer != answer or (same.barriers != step.barriers_before and same.turn != call.turn):
            same = self._runs.latest[key] = _Same(answer, call)
        else:
            same.extend(call)
        same.barriers = step.barriers
        if not same.varied:
            return None
        most = _enough(step)
        if most is None or same.count < most + patience(step.contract):
            return None
        lost = step.failing or step.result_class is ResultClass.NOT_FOUND
        severe = lost and facts.error_category is not ErrorCategory.PERMISSION
        return Claim(self.kind, Severity.LOOP if severe else Severity.SUSPECT, same.stretch, same.count)


def _enough(step: Step) -> int | None:
    """Returns how many equal answers of this sort make a finding; None where no number does."""
    facts = step.call.facts
    if step.failing or step.result_class is ResultClass.NOT_FOUND:
        return SAME_ANSWERS
    if facts.effect is Effect.WRITE or step.result_class in _SAYS_LITTLE or facts.result_words is None:
        # A structure that is equal for different things is data about them: "active", "in stock".
        return None
    return SAME_ANSWERS if facts.result_words < LONG_ANSWER_WORDS else SAME_LONG_ANSWERS
