"""Counts what a run adds up to, whichever call it is: writes, budgets, states, known answers, failures, coverage.

Invariants: nothing here needs the call to repeat an equal one, or even to have a digest; equal siblings count once;
constant time, bounded memory. Most calls leave nothing to show, and cost a few look-ups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from otel_loopguard.detectors.recent import Recent
from otel_loopguard.detectors.staleness import State
from otel_loopguard.detectors.step import Counted
from otel_loopguard.detectors.stretch import Stretch
from otel_loopguard.detectors.writes import Writes
from otel_loopguard.model import Effect, ResultClass

if TYPE_CHECKING:
    from otel_loopguard.detectors.agents import Agent
    from otel_loopguard.detectors.answers import Answer
    from otel_loopguard.detectors.writes import BusinessMemory
    from otel_loopguard.model import ToolCall
    from otel_loopguard.policy import ToolContract

# Members under names of their own: to look one up in its class costs 50 ns, and a step does so dozens of times.
_EFFECT_WRITE: Final = Effect.WRITE

TELLING_WORDS: Final = 15
"""Words from which a text answer is long enough to be known again; shorter ones are said of many things."""
MAX_BUDGETED: Final = 1024
"""Tools whose calls are counted against a budget, the latest half of them for certain."""

_TELLING: Final = (ResultClass.CONTENT, ResultClass.NOT_FOUND)
_AnswerKey: TypeAlias = "tuple[str, ...]"


class Tally:
    """What one run adds up to.

    Args:
        memory: what earlier runs wrote under business keys that hold beyond a run.
        answers: answers remembered.
    """

    __slots__ = ("_answers", "_first", "_spent", "_starts", "_state", "writes")

    def __init__(self, memory: BusinessMemory, *, answers: int) -> None:
        self.writes = Writes(memory)
        self._answers: Recent[_AnswerKey, int] = Recent(answers)
        self._first: Recent[_AnswerKey, str] = Recent(answers)
        """The one answer of a tool to an agent; empty where it has given several."""
        self._spent: Recent[str, Stretch] = Recent(MAX_BUDGETED)
        self._state = State()
        self._starts = 0

    def start_over(self, *, same_user_turn: bool) -> None:
        """A user turn, or another attempt at it, begins; what was written in the one before stays written."""
        self._state.clear()
        self._starts += 1
        if not same_user_turn:
            self.writes.start_over()

    def knows(self, call: ToolCall, answer: Answer, hard: int) -> bool:
        """Tells whether the calling agent has been given this answer by this tool before, and remembers it.

        What was given before a user turn or a declared write does not count: it may have been otherwise since.
        """
        facts = call.facts
        if answer.denied or facts.effect is _EFFECT_WRITE:
            return False
        if answer.failing:
            digest = facts.error_digest
        else:
            digest = facts.result_digest if facts.result_class in _TELLING else None
        if digest is None:
            return False
        key = (call.agent, facts.tool, digest)
        answers = self._answers
        since = answers.latest.get(key)
        if since is None:
            since = answers.promote(key)
            if since is None:
                answers.add(key, hard)
                if not answer.failing:
                    self._note_answer(key[:2], digest)
                return False
        answers.latest[key] = hard
        return since == hard

    def _note_answer(self, tool: _AnswerKey, digest: str) -> None:
        seen = self._first
        if tool not in seen.latest and seen.promote(tool) is None:
            seen.add(tool, digest)
        elif seen.latest[tool] != digest:
            seen.latest[tool] = ""

    def has_answered_otherwise(self, call: ToolCall) -> bool:
        """Tells whether a tool has given the agent another answer too.

        One that never did says nothing by its answer: it may be how it acknowledges an edit.
        """
        return self._first.peek((call.agent, call.facts.tool)) == ""

    def take(
        self, agent: Agent, call: ToolCall, answer: Answer, contract: ToolContract, *, known: bool | None, hard: int
    ) -> Counted | None:
        """Takes in one call that is no equal sibling; returns what it adds to, None for nothing.

        Args:
            agent: whose call it is.
            call: the call.
            answer: what it gave back.
            contract: of its tool.
            known: whether it brought nothing but what this agent knew; None where that cannot be told.
            hard: what the tracker counts user turns and writes by.
        """
        facts = call.facts
        if agent.since != hard:
            agent.since = hard
            agent.answers.clear()
            if agent.starts != self._starts:
                agent.starts = self._starts
                agent.failures = agent.outages = None
        known_answers = None if known is None else agent.answers.take(call, known=known)
        outage = None
        if answer.failing:
            outage = agent.fail(call)
        elif not answer.denied:
            agent.succeed(call)
        same_write = self.writes.take(call, contract) if facts.effect is _EFFECT_WRITE else None
        state = None if facts.state_digest is None else self._state.take(call, facts.state_digest)
        covered, reread = None, None
        if (contract.range is not None or facts.covered is not None) and not (answer.failing or answer.denied):
            covered, reread = agent.reader_of(contract, hard).take(call)
        spent = self._spend(call) if contract.max_calls is not None and answer.executed else None
        failures = agent.failures if answer.failing and outage is None else None
        if (
            known_answers is None
            and failures is None
            and outage is None
            and same_write is None
            and state is None
            and covered is None
            and spent is None
        ):
            return None
        return Counted(same_write, state, known_answers, failures, outage, reread, covered, spent)

    def spend_sibling(self, call: ToolCall, contract: ToolContract) -> None:
        """Counts an equal sibling of a tool that runs each of them."""
        if contract.max_calls is not None and contract.parallel == "run" and call.executed:
            self._spend(call)

    def spent(self, tool: str) -> int:
        """How many calls of a tool with a budget were executed so far."""
        found = self._spent.peek(tool)
        return 0 if found is None else found.count

    @property
    def evicted(self) -> int:
        """Answers forgotten for want of room."""
        return self._answers.evicted

    @property
    def unchanged_steps(self) -> int:
        """How many steps in a row left the application's state as it was."""
        return 0 if self._state.stretch is None else self._state.stretch.count

    def _spend(self, call: ToolCall) -> Stretch:
        tool = call.facts.tool
        stretch = self._spent.latest.get(tool) or self._spent.promote(tool)
        if stretch is None:
            stretch = Stretch(tool, call.agent, ())
            self._spent.add(tool, stretch)
        else:
            stretch.count += 1
        stretch.add(call)
        return stretch
