"""Follows one run call by call and says what each call is a repeat of, and which findings it makes true.

Invariants: pure and deterministic; one call costs constant time, and memory is bounded by `Limits` whatever the
length of the run, with evictions counted. All evidence is built here, once; the kinds in `detectors` judge it.
The processor, the guard, the scorer and replay use this class, and the same calls give the same findings.
The guard's question, what a proposed call would complete, belongs beside `observe`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from otel_loopguard.detectors import DETECTORS
from otel_loopguard.detectors.agents import Agent
from otel_loopguard.detectors.answers import Answer, Record, is_terminal
from otel_loopguard.detectors.claims import Claims
from otel_loopguard.detectors.poll_budget import MIN_INTERVAL_RULE
from otel_loopguard.detectors.recent import Recent
from otel_loopguard.detectors.rounds import Laps, Mark
from otel_loopguard.detectors.step import Step
from otel_loopguard.model import Effect, Finding, Kind, Pattern, Progress, Severity, ToolCall

if TYPE_CHECKING:
    from otel_loopguard.detectors.step import Lap
    from otel_loopguard.detectors.supposed import WouldComplete
    from otel_loopguard.policy import Policy, ToolContract

_STALLED: Final = frozenset({Kind.EXACT_REPEAT, Kind.ERROR_REPEAT, Kind.STALLED_POLL})
_CYCLES: Final = frozenset({Kind.CYCLE, Kind.HANDOFF_CYCLE})
_BUDGETS: Final = frozenset({Kind.POLL_BUDGET})


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much one run may keep. Past a limit the oldest goes and is counted; no call is refused."""

    digests: int = 1024
    """Distinct calls remembered, the latest half of them for certain; a repeat of a forgotten call is a first."""
    agents: int = 256
    """Agents remembered, the latest half of them for certain."""
    findings: int = 256
    items: int = 16_384
    """Items and cursors remembered a pager; past this, unseen ones are taken for new."""


class Evictions(msgspec.Struct, frozen=True):
    """What `Limits` made the tracker forget."""

    digests: int = 0
    agents: int = 0
    findings: int = 0


class Observation(msgspec.Struct, frozen=True):
    """What one call turned out to be.

    `repeat_count` is how many equal answers in a row this call makes, itself included (1: none before).
    `kinds` are the kinds that became true with this call. `new_items` and `terminal` are None where not known.
    """

    progress: Progress
    rule: str | None = None
    repeat_count: int = 1
    kinds: tuple[Kind, ...] = ()
    new_items: int | None = None
    terminal: bool | None = None


_FIRST: Final = Observation(Progress.FIRST)
_NOT_KNOWN: Final = Observation(Progress.UNKNOWN)


_LIMITS: Final = Limits()
_Key: TypeAlias = "tuple[str, str | None, str | None, str | None]"


class Tracker:
    """One run as far as it has come.

    Args:
        policy: contracts and thresholds.
        limits: bounds of memory.

    Thread safety: none; the caller holds one lock a run.
    """

    def __init__(self, policy: Policy, *, limits: Limits = _LIMITS) -> None:
        self._policy = policy
        self._max_items = limits.items
        detectors = tuple(make() for make in DETECTORS)
        self._judges = tuple(detector.judge for detector in detectors)
        self._always = any(detector.always for detector in detectors)
        self._records = Recent[_Key, Record](limits.digests)
        self._agents = Recent[str, Agent](limits.agents)
        self._first_agent: Agent | None = None
        self._across: Laps | None = None
        self._across_turn = -1
        self._user_turn: int | None = None
        self._attempt: str | None = None
        self._hard = 0
        self._barriers = 0
        self._claims = Claims(limit=limits.findings)
        self._progress_observed = False
        self._new_items: bool | None = None
        self._open_waits: int | None = None
        self._would_complete: WouldComplete | None = None

    # --- one call -------------------------------------------------------------------------------------

    def observe(self, call: ToolCall) -> Observation:
        """Takes in the next call of the run.

        Args:
            call: the next in run order; siblings follow one another. What it repeats is read from its facts.

        Returns:
            What the call turned out to be, with the kinds that became true with it.

        Cost: constant. It does not raise on any call.
        """
        facts = call.facts
        contract = self._policy.contract(facts.tool)
        if call.user_turn != self._user_turn or call.attempt != self._attempt:
            self._start_over(call)
        if contract.noop:
            return _NOT_KNOWN
        agent = self._agents.latest.get(call.agent) or self._meet(call.agent)
        agent.take_turn(call, self._hard)
        answer = Answer(facts, contract)
        if facts.call_digest is not None:
            return self._weigh(agent, call, answer, contract)
        # Without a digest it may be any call of its tool, so it is evidence of none.
        self._raise_barrier(agent, call, answer, again=False)
        self._break_laps(agent)
        if self._would_complete is None:
            self._would_complete = agent.suppose(call, answer, contract, digest=None, hard=self._hard)
        return _NOT_KNOWN

    def _start_over(self, call: ToolCall) -> None:
        """A user turn or another attempt begins: what came before is no evidence any more."""
        self._user_turn, self._attempt = call.user_turn, call.attempt
        self._hard += 1
        self._barriers += 1
        if self._across is not None:
            self._across.clear()

    def _meet(self, name: str) -> Agent:
        agent = self._agents.promote(name)
        if agent is not None:
            return agent
        # Rounds start where no agent of this name can have left off that was forgotten before.
        agent = Agent(first_round=self._agents.evicted << 32, hard=self._hard)
        self._agents.add(name, agent)
        if self._first_agent is None:
            self._first_agent = agent
        elif self._across is None:
            first = self._first_agent
            self._across, self._across_turn = first.laps.copy_across(), first.lap_turn
        return agent

    def _weigh(self, agent: Agent, call: ToolCall, answer: Answer, contract: ToolContract) -> Observation:
        """Compares the call with its agent's last equal one, brings all evidence up to date and judges it."""
        facts = call.facts
        key: _Key = (call.agent, facts.call_digest, facts.key_id, facts.contract)
        epoch = self._hard - agent.own if facts.effect is Effect.WRITE else self._hard
        record = self._recall(key, epoch)
        sibling = record.turn == call.turn
        if record.epoch != epoch and not sibling:
            record.forget(epoch)
        if answer.guarded and record.answer is not None:
            answer.stand_in(record)
        page = None
        if facts.pattern is Pattern.PAGINATED and not (sibling or answer.denied or answer.failing):
            page = agent.pages_of(contract, self._hard, self._max_items).take(call, fresh=record.answer is None)
        progress, rule, counted = record.take(call, answer, contract, in_round=agent.round, page=page)
        again = sibling and not counted
        stretch, stalled, new_items = record.stretch if counted else None, None, facts.new_items
        if page is not None:
            stretch, stalled, new_items = None if page.rule is not None else stretch, page.stalled, page.new_items
        barriers_before = self._barriers
        self._raise_barrier(
            agent, call, answer, again=again or progress is Progress.UNCHANGED, count=0 if again else record.count
        )
        terminal = self._wait(record, call, contract, sibling=sibling) if facts.pattern is Pattern.POLLING else None
        lap, across = self._laps(agent, call, answer, record, progress)
        if self._would_complete is None:
            answer.value = None if answer.value is None else record.answer
            self._would_complete = agent.suppose(call, answer, contract, digest=key, hard=self._hard)
        self._note(progress, new_items)
        siblings = record.siblings if sibling else None
        kinds: tuple[Kind, ...] = ()
        if self._always or stretch or siblings or record.poll or stalled or lap or across:
            kinds = self._judge(
                Step(
                    call,
                    contract,
                    progress,
                    rule,
                    stretch,
                    answer.result_class,
                    answer.failing,
                    answer.waiting,
                    siblings,
                    record.poll,
                    stalled,
                    lap,
                    across,
                    barriers_before,
                    self._barriers,
                )
            )
        if sibling and record.stretch is not None and record.stretch.loop:
            self._claims.count_waste(record.stretch)
        if progress is Progress.FIRST and not kinds and new_items is None and terminal is None:
            return _FIRST
        return Observation(progress, rule, record.count or 1, kinds, new_items, terminal)

    def _note(self, progress: Progress, new_items: int | None) -> None:
        if progress is Progress.ADVANCED:
            self._progress_observed = True
        if new_items is not None:
            self._new_items = self._new_items or new_items > 0

    def _recall(self, key: _Key, epoch: int) -> Record:
        record = self._records.latest.get(key) or self._records.promote(key)
        if record is None:
            record = Record(epoch)
            self._records.add(key, record)
        return record

    def _raise_barrier(self, agent: Agent, call: ToolCall, answer: Answer, *, again: bool, count: int = 0) -> None:
        """Counts what makes it worth while to look again at other things (DESIGN 6, barrier).

        Args:
            agent: whose call it is.
            call: the call.
            answer: what it gave back.
            again: True where it repeats an equal call with an equal answer.
            count: how many such in a row, 0 for an equal sibling.
        """
        if answer.failing or answer.denied or not call.executed:
            return
        effect = call.facts.effect
        if effect is Effect.WRITE:
            # A write that repeats the one just made changes nothing that the one before did not; one that
            # comes back after other calls (set, unset, set) does.
            if not again or count == 1:
                self._hard += 1
                agent.own += 1
                self._barriers += 1
        elif answer.waiting or (effect is Effect.UNKNOWN and not again):
            self._barriers += 1

    def _wait(self, record: Record, call: ToolCall, contract: ToolContract, *, sibling: bool) -> bool | None:
        """Brings a declared poller's wait up to date and returns whether its answer is terminal."""
        terminal = is_terminal(call.facts)
        was_terminal = record.terminal is True
        if terminal is not None and terminal is not record.terminal:
            waits = self._open_waits or 0
            self._open_waits = waits + (not terminal) - (record.terminal is False)
            record.terminal = terminal
        if contract.polling is not None and call.executed:
            record.poll_once(call, contract, was_terminal=was_terminal, sibling=sibling)
        return terminal

    def _laps(
        self, agent: Agent, call: ToolCall, answer: Answer, record: Record, progress: Progress
    ) -> tuple[Lap | None, Lap | None]:
        """Adds the call to the rounds of its agent and of the run."""
        if call.facts.pattern is not Pattern.PLAIN:
            if answer.waiting or progress is Progress.ADVANCED or progress is Progress.FIRST:
                self._break_laps(agent)
            return None, None
        if answer.value is None:
            if not answer.denied:
                self._break_laps(agent)
            return None, None
        mark = record.mark()
        lap = agent.laps.add(mark, call, opens=agent.lap_turn != call.turn)
        agent.lap_turn = call.turn
        if self._across is None:
            return lap, None
        if mark.across is None:
            mark.across = Mark()
        across = self._across.add(mark.across, call, opens=self._across_turn != call.turn)
        self._across_turn = call.turn
        return lap, across

    def _break_laps(self, agent: Agent) -> None:
        agent.laps.clear()
        if self._across is not None:
            self._across.clear()

    def _judge(self, step: Step) -> tuple[Kind, ...]:
        """Shows the step to every detector and returns the kinds that became true with it."""
        kinds: tuple[Kind, ...] = ()
        for judge in self._judges:
            claim = judge(step)
            if claim is not None and self._claims.note(claim, step.call):
                kinds = (*kinds, claim.kind)
        return kinds

    # --- what the verdict asks ----------------------------------------------------------------------------

    def findings(self) -> tuple[Finding, ...]:
        """Returns one finding a stretch and kind, with its last count; ordered by `at_call`, then kind."""
        return self._claims.findings()

    @property
    def progress_observed(self) -> bool:
        """True if any call advanced over its last equal one."""
        return self._progress_observed

    @property
    def new_items_observed(self) -> bool | None:
        """Whether any page or result brought unseen items; None where items were never known."""
        return self._new_items

    @property
    def poll_budget_exhausted(self) -> bool:
        """True if a declared poller went over its total or its deadline (a short interval exhausts nothing)."""
        return self._claims.any_of(_BUDGETS, Severity.BUDGET, apart_from=MIN_INTERVAL_RULE)

    @property
    def terminal_state(self) -> bool | None:
        """True if every declared poller's last known answer was terminal; None where none is known."""
        return None if self._open_waits is None else self._open_waits == 0

    @property
    def stalled_repeat(self) -> bool:
        """True if one call was repeated without a change until it was a finding of severity loop."""
        return self._claims.any_of(_STALLED, Severity.LOOP)

    @property
    def cycle(self) -> bool:
        """True if a cycle of rounds was found, of one agent or across agents."""
        return self._claims.any_of(_CYCLES, Severity.LOOP)

    @property
    def would_complete(self) -> WouldComplete | None:
        """The first call that would complete a loop if what is unknown were equal; None if no call would."""
        return self._would_complete

    @property
    def wasted_calls(self) -> frozenset[int]:
        """Numbers of executed calls in loop stretches: all but a repeat's first, a cycle's first period."""
        return self._claims.wasted_calls

    @property
    def evictions(self) -> Evictions:
        """What the limits made this tracker forget."""
        return Evictions(self._records.evicted, self._agents.evicted, self._claims.dropped)
