"""Compares each call with the last equal call of its agent, and grows the stretch of unchanged answers.

Invariants: an unknown answer, a transient failure and a call denied by others neither count nor end a stretch;
a call denied by the guard counts as unchanged, since the model was shown nothing new; equal siblings count once.
A declared rule decides before digests do, and what a producer computed with the content at hand before both.
Progress is never claimed for a failure: an answer that turned into one only ends the stretch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_loopguard.detectors.returns import Trail, gap
from otel_loopguard.detectors.rounds import MAX_PERIOD, Mark
from otel_loopguard.detectors.stretch import LASTING_FAILURES, Poll, Stretch
from otel_loopguard.model import (
    DeniedBy,
    Effect,
    ErrorCategory,
    Outcome,
    Pattern,
    Progress,
    ResultClass,
    Signals,
    ToolCall,
)

if TYPE_CHECKING:
    from collections.abc import Hashable

    from otel_loopguard.detectors.paging import Page
    from otel_loopguard.detectors.returns import Place
    from otel_loopguard.model import CallFacts
    from otel_loopguard.policy import ToolContract

# Members under names of their own: to look one up in its class costs 50 ns, and a step does so dozens of times.
_DENIED_BY_GUARD: Final = DeniedBy.GUARD
_EFFECT_WRITE: Final = Effect.WRITE
_ERROR_CATEGORY_TRANSIENT: Final = ErrorCategory.TRANSIENT
_ERROR_CATEGORY_UNKNOWN: Final = ErrorCategory.UNKNOWN
_OUTCOME_DENIED: Final = Outcome.DENIED
_OUTCOME_ERROR: Final = Outcome.ERROR
_PATTERN_POLLING: Final = Pattern.POLLING
_PROGRESS_ADVANCED: Final = Progress.ADVANCED
_PROGRESS_FIRST: Final = Progress.FIRST
_PROGRESS_UNCHANGED: Final = Progress.UNCHANGED
_PROGRESS_UNKNOWN: Final = Progress.UNKNOWN
_RESULT_CLASS_ACK: Final = ResultClass.ACK
_RESULT_CLASS_ERROR: Final = ResultClass.ERROR
_RESULT_CLASS_SILENCE: Final = ResultClass.SILENCE

_NS_PER_S: Final = 1_000_000_000
MAX_ITEMS: Final = 16_384
"""Items remembered a call; past this, unseen ones are taken for new."""
_DONE: Final = "done"
"""The answer of every declared write that did not fail: new ids in its result are no progress."""


class Answer:
    """What one call gave back. `value` is None where that is not known, or says nothing (see `silent`).

    `lost` is True where the answer would be there, had it been captured; False for denials by others and
    transient failures, which are known and simply no evidence.
    """

    __slots__ = ("denied", "executed", "failing", "guarded", "lost", "result_class", "value", "waiting")

    def __init__(self, facts: CallFacts, contract: ToolContract) -> None:
        self.result_class = facts.result_class
        self.value: Hashable | None = None
        self.denied = facts.outcome is _OUTCOME_DENIED
        self.executed = not self.denied and facts.dispatched is not False
        self.guarded = self.denied and facts.denied_by is _DENIED_BY_GUARD
        self.failing = not self.denied and (
            facts.outcome is _OUTCOME_ERROR or facts.result_class is _RESULT_CLASS_ERROR
        )
        self.lost = False
        self.waiting = contract.polling is not None or facts.pattern is _PATTERN_POLLING
        if self.denied:
            return
        if self.failing:
            self._fail(facts)
        elif facts.effect is _EFFECT_WRITE:
            self.value, self.result_class = _DONE, _RESULT_CLASS_ACK
        else:
            self.value = facts.result_digest
            self.lost = self.value is None
        if self.waiting and is_terminal(facts):
            self.waiting = False

    def _fail(self, facts: CallFacts) -> None:
        category = facts.error_category or _ERROR_CATEGORY_UNKNOWN
        if category is _ERROR_CATEGORY_TRANSIENT:
            return
        # Failures are equal by category and type, whatever clock or id stands in their text. Where only the text
        # says that this is a failure, and not which, it may as well be a log line or a page that moves on.
        in_band = facts.outcome is not _OUTCOME_ERROR and category is _ERROR_CATEGORY_UNKNOWN
        self.value = (category, facts.error_type, facts.result_digest if in_band else None)
        self.waiting = self.waiting and category not in LASTING_FAILURES

    def stand_in(self, record: Record) -> None:
        """Gives a call that the guard denied the answer that the model has already been shown."""
        self.value, self.failing = record.answer, record.failing
        self.result_class = record.result_class


def is_terminal(facts: CallFacts) -> bool | None:
    """Returns whether a poller's answer is a terminal state; None where that is not known."""
    if facts.terminal is None and facts.signals is not None:
        return facts.signals.terminal
    return facts.terminal


class Record:
    """The calls of one agent with one digest: the last answer, and the unchanged ones that led to it.

    `count` is how many rounds in a row gave this answer; `stretch` holds their calls from the second on.
    """

    __slots__ = (
        "_at",
        "_consecutive",
        "_counted",
        "_head",
        "_items",
        "_last",
        "_left",
        "_mark",
        "_marked",
        "_marks",
        "_round",
        "_rounds",
        "_signals",
        "_start",
        "answer",
        "count",
        "denials",
        "epoch",
        "failing",
        "first",
        "place",
        "poll",
        "result_class",
        "siblings",
        "stretch",
        "terminal",
        "trail",
        "turn",
        "waiting",
    )

    def __init__(self, epoch: int) -> None:
        self.turn = -1
        self.terminal: bool | None = None
        self._round = -1
        self._at: Place | None = None
        self._mark: Mark | None = None
        self._marked: Hashable | None = None
        self._marks: dict[Hashable, Mark] | None = None
        self.forget(epoch)

    def forget(self, epoch: int) -> None:
        """Starts over: a barrier makes all that came before no evidence."""
        self.epoch = epoch
        self.first = True
        self.answer: Hashable | None = None
        self.result_class: ResultClass | None = None
        self.failing = self.waiting = False
        self.count = 0
        self.stretch: Stretch | None = None
        self.trail: Trail | None = None
        self.place: Place | None = None
        self.denials: Stretch | None = None
        self.siblings: Stretch | None = None
        self.poll: Poll | None = None
        self._signals: Signals | None = None
        self._items: set[int] | None = None
        self._counted = False
        self._consecutive = False
        self._head: ToolCall | None = None
        self._last: ToolCall | None = None
        self._left = False
        self._rounds: Stretch | None = None
        self._start: ToolCall | None = None

    def take(
        self,
        call: ToolCall,
        answer: Answer,
        contract: ToolContract,
        *,
        in_round: int,
        now: Place,
        page: Page | None = None,
    ) -> tuple[Progress, str | None, bool]:
        """Takes in the next call with this digest.

        Args:
            call: the call.
            answer: what it gave back.
            contract: of its tool.
            in_round: the agent's round that the call belongs to.
            now: the turn that the call belongs to.
            page: what a declared pager's page brought, which then decides.

        Returns:
            Its progress over the last equal call, the declared rule that decided (or None), and whether it
            added one to `count`.
        """
        if call.turn == self.turn:
            self._join(call, answer)
            if self._counted or answer.value is None:
                return _PROGRESS_UNKNOWN, None, False
        else:
            self.turn = call.turn
            self._consecutive = self.is_next(in_round, now)
            self._round, self._at = in_round, now
            self._counted = False
            self._head, self.siblings = call, None
        was_first, self.first = self.first, False
        progress, rule, same = self._compare(call.facts, answer, contract, page, was_first=was_first)
        self._remember(call.facts.signals)
        if not (self._consecutive or answer.waiting):
            self._left, self._rounds = True, self.stretch or self._rounds
            self.count, self.stretch = 0, None
        if answer.value is None:
            if answer.denied and not answer.guarded:
                self._refuse(call)
            return progress, rule, False
        self._counted = True
        if same and self.count:
            self._extend(call)
        else:
            self.count, self.stretch, self._start = 1, None, call
        if not same:
            self.answer = answer.value
            self.trail = None
        elif self.place is not None and not answer.waiting and page is None:
            self._follow(call, contract, now)
        if not answer.denied:
            self.denials = None
        self._last, self.place, self._left, self._rounds = call, now, False, None
        self.failing, self.result_class, self.waiting = answer.failing, answer.result_class, answer.waiting
        if call.facts.signals is not None:
            self._signals = call.facts.signals
        return progress, rule, True

    def _compare(
        self, facts: CallFacts, answer: Answer, contract: ToolContract, page: Page | None, *, was_first: bool
    ) -> tuple[Progress, str | None, bool | None]:
        """Returns progress, rule, and whether the answer is the same (None: not known)."""
        told, rule = (facts.progress, facts.progress_rule) if page is None else (page.progress, page.rule)
        # Without a rule, a producer compared digests; where both are here, they are compared among the right calls.
        compared = rule is not None or page is not None or answer.value is None or self.answer is None
        if compared and (told is _PROGRESS_UNCHANGED or told is _PROGRESS_ADVANCED):
            same = told is _PROGRESS_UNCHANGED
            if answer.value is None and answer.lost:
                answer.value = self.answer if same and self.answer is not None else (told, facts.call_id)
            return told, rule, same if self.answer is not None else None
        if was_first:
            return _PROGRESS_FIRST, None, None
        if answer.value is None or self.answer is None:
            return _PROGRESS_UNKNOWN, None, None
        if told is _PROGRESS_UNKNOWN and rule is not None and answer.value != self.answer:
            return told, rule, False
        if self._signals is not None and facts.signals is not None and not (answer.failing or self.failing):
            progress, rule = contract.compare(self._signals, facts.signals, seen=self._items or ())
            if progress is not _PROGRESS_UNKNOWN:
                return progress, rule, progress is _PROGRESS_UNCHANGED
            if rule is not None and answer.value != self.answer:
                return _PROGRESS_UNKNOWN, rule, False
        if answer.value == self.answer:
            return _PROGRESS_UNCHANGED, None, True
        return (_PROGRESS_UNKNOWN if answer.failing else _PROGRESS_ADVANCED), None, False

    def _remember(self, signals: Signals | None) -> None:
        if signals is None or signals.items is None:
            return
        if self._items is None:
            self._items = set()
        if len(self._items) < MAX_ITEMS:
            self._items.update(signals.items)

    def _extend(self, call: ToolCall) -> None:
        self.count += 1
        if self.stretch is None:
            start = self._start or call
            digest = call.facts.call_digest
            self.stretch = Stretch(call.facts.tool, call.agent, () if digest is None else (digest,))
            self.stretch.add(start)
        self.stretch.add(call)
        self.stretch.count = self.count

    def _follow(self, call: ToolCall, contract: ToolContract, now: Place) -> None:
        before, last = self.place, self._last
        if before is None or last is None or self.result_class is _RESULT_CLASS_SILENCE:
            return
        trail = self.trail
        if trail is None:
            trail = self.trail = Trail()
        if not (self._left or trail.tells or trail.flagged):
            trail.go_on(parted=before.barriers != now.barriers)
            return
        between = gap(before, now, contract.window)
        acted = before.acts != now.acts
        trail.follow(call, last, between=between, left=self._left, rounds=self._rounds, acted=acted)

    def _refuse(self, call: ToolCall) -> None:
        """Counts a call that someone other than the guard refused; one a round."""
        if self.denials is None:
            self.denials = Stretch(call.facts.tool, call.agent, (call.facts.call_digest or "",))
        else:
            self.denials.count += 1
        self.denials.add(call)

    def peek_mark(self) -> Mark | None:
        """Returns the mark of this call with its last answer, if it has one."""
        return self._mark if self._marked == self.answer else None

    def next_count(self, in_round: int, now: Place) -> int:
        """Returns how many equal answers in a row one more in a round would be."""
        goes_on = self.is_next(in_round, now) or self.waiting
        return self.count + 1 if goes_on and self.count else 1

    def is_next(self, in_round: int, now: Place) -> bool:
        """Tells whether the last call was in the round before this one, and no other agent changed anything since."""
        return self._round == in_round - 1 and self._at is not None and self._at.others == now.others

    def left_a_loop(self) -> bool:
        """Tells whether the last consecutive rounds are a loop."""
        rounds = self.stretch or self._rounds
        return rounds is not None and rounds.loop

    def had(self, answer: Hashable | None) -> bool:
        """Tells whether this call gave an answer before its last one (of the last eight, for plain tools)."""
        return self._marks is not None and answer in self._marks

    def _join(self, call: ToolCall, answer: Answer) -> None:
        """Adds an equal sibling, which counts once with the first; one that differs ends the stretch."""
        if self.siblings is None:
            self.siblings = Stretch(call.facts.tool, call.agent, (call.facts.call_digest or "",))
            self.siblings.add(self._head or call)
        self.siblings.add(call)
        self.siblings.count += 1
        if not self._counted:
            return
        if answer.value is not None and answer.value != self.answer:
            self.trail = None
            self.answer, self.failing, self.result_class = answer.value, answer.failing, answer.result_class
            self.count, self.stretch, self._start = 1, None, call
        else:
            if self.stretch is not None:
                self.stretch.add(call)
            if self.trail is not None:
                self.trail.join(call)

    def mark(self) -> Mark:
        """Returns the mark of this call with its present answer; one answer has one mark, for 8 answers back."""
        mark = self._mark
        if mark is not None and self._marked == self.answer:
            return mark
        found = None
        if mark is not None:
            if self._marks is None:
                self._marks = {}
            elif len(self._marks) >= MAX_PERIOD:
                del self._marks[next(iter(self._marks))]
            self._marks[self._marked] = mark
            found = self._marks.pop(self.answer, None)
        self._mark, self._marked = found or Mark(), self.answer
        return self._mark

    def poll_once(self, call: ToolCall, contract: ToolContract, *, was_terminal: bool, sibling: bool) -> None:
        """Counts one executed poll of a declared poller; after a terminal answer a new wait begins."""
        poll, start_ns = self.poll, call.start_ns
        if poll is None or was_terminal:
            poll = self.poll = Poll(Stretch(call.facts.tool, call.agent, (call.facts.call_digest or "",)), start_ns)
        else:
            least = contract.polling.min_interval_s if contract.polling is not None else None
            poll.polls += 1
            # A start before the last one is a clock that went back: it says nothing about the interval.
            if least and not sibling and poll.last_ns and 0 <= start_ns - poll.last_ns < least * _NS_PER_S:
                poll.early += 1
            poll.first_ns = poll.first_ns or start_ns
            poll.last_ns = max(poll.last_ns, start_ns)
        poll.stretch.add(call)
