"""Keeps one agent's place in its rounds, with all evidence that is its own.

Invariants: a round is one turn of one agent; calls of no-op tools make none. What another agent wrote parts an
agent's rounds, what it wrote itself does not: that is a round, or a sibling, like others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_loopguard.detectors.coverage import Reader
from otel_loopguard.detectors.failing import Failures, Outages
from otel_loopguard.detectors.paging import MAX_PAGERS, Pages
from otel_loopguard.detectors.rounds import Laps
from otel_loopguard.detectors.staleness import Answers
from otel_loopguard.detectors.step import Seen
from otel_loopguard.detectors.supposed import Suppositions, WouldComplete
from otel_loopguard.model import Effect, ErrorCategory, Pattern, Unknown

if TYPE_CHECKING:
    from collections.abc import Hashable

    from otel_loopguard.detectors.answers import Answer
    from otel_loopguard.detectors.stretch import Stretch
    from otel_loopguard.model import ToolCall
    from otel_loopguard.policy import ToolContract

# Members under names of their own: to look one up in its class costs 50 ns, and a step does so dozens of times.
_EFFECT_WRITE: Final = Effect.WRITE
_ERROR_CATEGORY_TRANSIENT: Final = ErrorCategory.TRANSIENT
_PATTERN_PLAIN: Final = Pattern.PLAIN


class Agent:
    """One agent of a run.

    Args:
        first_round: number that no round of this agent was given before.
        hard: the run's user turns and declared writes so far; `own` counts this agent's among them.
    """

    __slots__ = (
        "_others",
        "_pages",
        "_readers",
        "_supposed",
        "_turn",
        "_well_turn",
        "answers",
        "calls",
        "deeds",
        "failures",
        "lap_turn",
        "laps",
        "moved",
        "outages",
        "own",
        "round",
        "since",
        "starts",
        "turn_before",
    )

    def __init__(self, *, first_round: int, hard: int) -> None:
        self._turn = self.turn_before = self.lap_turn = self._well_turn = -1
        self.round = self.calls = self.moved = first_round
        self.own = self.deeds = 0
        self._others = hard
        self.laps = Laps()
        self._supposed = Suppositions()
        self._pages: dict[str, Pages] = {}
        self._readers: dict[str, Reader] = {}
        self.answers = Answers()
        self.since, self.starts = hard, -1
        self.failures: Failures | None = None
        self.outages: Outages | None = None

    def succeed(self, call: ToolCall) -> None:
        """Takes in a call that did not fail, as far as is known: it ends what failed in a row."""
        self._well_turn = call.turn
        self.failures = None
        if self.outages is not None:
            self.outages.by_tool.pop(call.facts.tool, None)

    def fail(self, call: ToolCall) -> Stretch | None:
        """Takes in a failure; returns the passing errors of its tool where it is one of them."""
        if call.facts.error_category is _ERROR_CATEGORY_TRANSIENT:
            if self.outages is None:
                self.outages = Outages()
            return self.outages.take(call)
        if self.outages is not None:
            self.outages.by_tool.pop(call.facts.tool, None)
        if call.turn != self._well_turn:
            if self.failures is None:
                self.failures = Failures()
            self.failures.take(call)
        return None

    def reader_of(self, contract: ToolContract, hard: int) -> Reader:
        """Returns what this agent has read with one tool since the last user turn or write."""
        reader = self._readers.get(contract.tool)
        if reader is None or reader.epoch != hard:
            if len(self._readers) >= MAX_PAGERS:
                self._readers.clear()
            reader = self._readers[contract.tool] = Reader(hard)
        return reader

    def take_turn(self, call: ToolCall, hard: int) -> None:
        """Begins a round where the call is the first of its turn, and parts the rounds where others wrote."""
        others = hard - self.own
        opens = call.turn != self._turn
        if opens:
            self.turn_before, self._turn = self._turn, call.turn
            self.round += 1
        if others != self._others:
            self._others = others
            self.laps.clear()
            self._supposed.clear()
            self._supposed.open()
        elif opens:
            self._supposed.open()

    def next_round(self, turn: int) -> int:
        """Returns the round that a call of this turn belongs to."""
        return self.round + (turn != self._turn)

    def rounds_hold(self, hard: int) -> bool:
        """True unless another agent has written since this one's last turn, which parts its rounds."""
        return hard - self.own == self._others

    def peek_pages(self, tool: str, hard: int) -> Pages | None:
        """Returns what `pages_of` would, if this agent has turned pages with the tool."""
        pages = self._pages.get(tool)
        return pages if pages is not None and pages.epoch == hard else None

    def pages_of(self, contract: ToolContract, hard: int, max_items: int) -> Pages:
        """Returns this agent's pages of one tool since the last user turn or write."""
        pages = self._pages.get(contract.tool)
        if pages is None or pages.epoch != hard:
            if len(self._pages) >= MAX_PAGERS:
                self._pages.clear()
            names_next = contract.pagination is not None and contract.pagination.cursor is not None
            pages = self._pages[contract.tool] = Pages(names_next=names_next, max_items=max_items, epoch=hard)
        return pages

    def suppose(
        self, call: ToolCall, answer: Answer, contract: ToolContract, *, digest: Hashable | None, hard: int
    ) -> WouldComplete | None:
        """Asks whether what is unknown of this call and those before it, taken as equal, would complete a loop.

        A denied call gave nothing: it is left out, and its round breaks every chain.
        """
        if answer.denied:
            return None
        facts = call.facts
        reason, value = None, answer.value
        if digest is None:
            reason = facts.call_unknown or Unknown.NOT_CAPTURED
        elif answer.lost:
            reason = facts.result_unknown or Unknown.NOT_CAPTURED
        if value is None and not answer.lost:
            # A transient failure is known to be no part of a loop, so it is like no other answer.
            value = call.number
        epoch = hard - self.own if facts.effect is _EFFECT_WRITE else hard
        plain = facts.pattern is _PATTERN_PLAIN
        seen = Seen(facts.tool, digest, value, answer.result_class, reason, epoch, plain)
        found = self._supposed.add(seen, contract)
        return None if found is None else WouldComplete(call.number, facts.tool, found)
