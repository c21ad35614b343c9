"""Follows one run call by call and says what each call is a repeat of, and which findings it makes true.

Invariants: pure and deterministic; one call costs constant time, and memory is bounded by `Limits` whatever the
length of the run, with evictions counted. All evidence is built here, once; the kinds in `detectors` judge it.
The processor, the guard, the scorer and replay use this class, and the same calls give the same findings.
The guard's question, what a proposed call would complete, belongs beside `observe`.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from otel_loopguard.detectors import DETECTORS
from otel_loopguard.detectors.agents import Agent
from otel_loopguard.detectors.alike import TextRuns
from otel_loopguard.detectors.answers import Answer, Record, is_terminal
from otel_loopguard.detectors.claims import Claims
from otel_loopguard.detectors.foresight import (
    Standing,
    of_budget,
    of_pages,
    of_polls,
    of_refusals,
    of_repeats,
    of_rounds,
    of_state,
    of_write,
)
from otel_loopguard.detectors.near_repeat import NearRepeat
from otel_loopguard.detectors.poll_budget import MIN_INTERVAL_RULE
from otel_loopguard.detectors.recent import Recent
from otel_loopguard.detectors.returns import Place
from otel_loopguard.detectors.rounds import Laps, Mark
from otel_loopguard.detectors.same_result import SameResult
from otel_loopguard.detectors.shown import shown
from otel_loopguard.detectors.step import Claim, Reads, Step
from otel_loopguard.detectors.tally import TELLING_WORDS, Tally
from otel_loopguard.detectors.writes import BusinessMemory
from otel_loopguard.model import (
    CallFacts,
    Decision,
    Effect,
    ErrorCategory,
    Finding,
    Kind,
    Pattern,
    Progress,
    ResultClass,
    Severity,
    ToolCall,
)
from otel_loopguard.observation import FIRST, Evictions, Limits, Observation
from otel_loopguard.prediction import ALLOW, SHARE, decide

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from otel_loopguard.detectors.foresight import Foreseen
    from otel_loopguard.detectors.step import Detector, Lap
    from otel_loopguard.detectors.supposed import WouldComplete
    from otel_loopguard.policy import Policy, ToolContract

# Members under names of their own: to look one up in its class costs 50 ns, and a step does so dozens of times.
_EFFECT_UNKNOWN: Final = Effect.UNKNOWN
_EFFECT_WRITE: Final = Effect.WRITE
_ERROR_CATEGORY_TRANSIENT: Final = ErrorCategory.TRANSIENT
_PATTERN_PAGINATED: Final = Pattern.PAGINATED
_PATTERN_PLAIN: Final = Pattern.PLAIN
_PATTERN_POLLING: Final = Pattern.POLLING
_PROGRESS_ADVANCED: Final = Progress.ADVANCED
_PROGRESS_FIRST: Final = Progress.FIRST
_PROGRESS_UNCHANGED: Final = Progress.UNCHANGED
_PROGRESS_UNKNOWN: Final = Progress.UNKNOWN
_RESULT_CLASS_CONTENT: Final = ResultClass.CONTENT
_RESULT_CLASS_SILENCE: Final = ResultClass.SILENCE

_STALLED: Final = frozenset(
    {Kind.EXACT_REPEAT, Kind.ERROR_REPEAT, Kind.STALLED_POLL, Kind.INTERLEAVED_REPEAT, Kind.RELAPSE}
)
_CYCLES: Final = frozenset({Kind.CYCLE, Kind.HANDOFF_CYCLE})
_BUDGETS: Final = frozenset({Kind.POLL_BUDGET})


_NOT_KNOWN: Final = Observation(Progress.UNKNOWN)
_LIMITS: Final = Limits()
_NOT_ASKED: Final = (None, None)
_NO_TEXT: Final = (None, None, None)


_ACTS: Final = (ResultClass.ACK, ResultClass.SILENCE, None)
"""Answers of calls of unknown effect that may have changed something without showing it."""
_Key: TypeAlias = "tuple[str, str | None, str | None, str | None]"
_Measured: TypeAlias = "tuple[int | None, int | None, int | None, int | None, bool | None, bool | None]"
_Judge: TypeAlias = "Callable[[Detector, Step], Claim | None]"


class Tracker:
    """One run as far as it has come.

    Args:
        policy: contracts and thresholds.
        limits: bounds of memory.
        memory: what earlier runs wrote under business keys that hold beyond a run; None where none came before.

    Thread safety: none; the caller holds one lock a run.
    """

    def __init__(self, policy: Policy, *, limits: Limits = _LIMITS, memory: BusinessMemory | None = None) -> None:
        self._policy = policy
        self._max_items = limits.items
        self._detectors = detectors = tuple([make() for make in DETECTORS])
        self._readers = readers = _readers(DETECTORS)
        self._near_repeat = cast("NearRepeat", detectors[readers.near_repeat]) if readers.near_repeat >= 0 else None
        self._same_result = cast("SameResult", detectors[readers.same_result]) if readers.same_result >= 0 else None
        self._texts = TextRuns()
        self._tally = Tally(memory or BusinessMemory(limit=2), answers=limits.answers)
        self._turn: int | None = None
        self._place: Place | None = None
        self._acts = 0
        self._records: Recent[_Key, Record] = Recent(limits.digests)
        self._agents: Recent[str, Agent] = Recent(limits.agents)
        self._first_agent: Agent | None = None
        self._across: Laps | None = None
        self._across_turn = -1
        self._user_turn: int | None = None
        self._attempt: str | None = None
        self._hard = 0
        self._barriers = self._deeds = 0
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
        place = self._place
        if place is None or call.turn != self._turn:
            if place is not None:
                place.close(self._barriers, self._acts, self._deeds)
            self._turn = call.turn
            self._place = place = Place(agent, self._barriers, self._acts, self._deeds)
        agent.take_turn(call, self._hard)
        answer = Answer(facts, contract)
        if facts.call_digest is not None:
            return self._weigh(agent, place, call, answer, contract)
        return self._weigh_unread(agent, call, answer, contract)

    def _weigh_unread(self, agent: Agent, call: ToolCall, answer: Answer, contract: ToolContract) -> Observation:
        """Takes in a call without a digest: it may be any call of its tool, so it is no evidence of a repeat."""
        before = self._barriers
        self._tally.knows(call, answer, self._hard)
        self._raise_barrier(agent, call, answer, again=False)
        self._move(agent, call, answer, stalled=False)
        counted = self._tally.take(agent, call, answer, contract, known=None, hard=self._hard)
        self._break_laps(agent)
        if self._would_complete is None:
            self._would_complete = agent.suppose(call, answer, contract, digest=None, hard=self._hard)
        if counted is None:
            return _NOT_KNOWN
        step = Step(
            call,
            contract,
            _PROGRESS_UNKNOWN,
            None,
            None,
            answer.result_class,
            answer.failing,
            answer.waiting,
            None,
            None,
            None,
            None,
            None,
            before,
            self._barriers,
            counted=counted,
        )
        kinds = self._judge(step, int(Reads.COUNTED))
        return Observation(_PROGRESS_UNKNOWN, kinds=kinds, covered=counted.covered)

    # --- a question in front ---------------------------------------------------------------------------------

    def propose(self, call: ToolCall) -> Decision:
        """Says what a guard would do about a call that is proposed next, without taking it in.

        Args:
            call: as for `observe`; nothing is read of what it gave back.

        Returns:
            A prediction (`enforced` False). It supposes that the call comes back as its last executed equal call
            did. Siblings never make each other a loop; an equal sibling shares the first one's outcome, unless the
            tool declares `parallel: run`.

        Cost: constant. It does not raise on any call.
        """
        facts = call.facts
        contract = self._policy.contract(facts.tool)
        if contract.noop:
            return ALLOW
        starts_over = call.user_turn != self._user_turn or call.attempt != self._attempt
        agent = self._agents.peek(call.agent)
        record = None
        if facts.call_digest is not None and agent is not None and not starts_over:
            record = self._records.peek((call.agent, facts.call_digest, facts.key_id, facts.contract))
            if record is not None and record.turn == call.turn:
                if contract.parallel == "share":
                    return SHARE
                record = None
            epoch = self._hard - agent.own if facts.effect is _EFFECT_WRITE else self._hard
            if record is not None and record.epoch != epoch:
                record = None
        foreseen: list[Foreseen] = []
        if record is not None and agent is not None:
            foreseen += self._foresee(agent, record, call, contract)
        if facts.effect is _EFFECT_WRITE:
            times = self._tally.writes.foresee(call, contract, starts_over=call.user_turn != self._user_turn)
            foreseen += of_write(times, contract)
        if contract.max_calls is not None:
            foreseen += of_budget(self._tally.spent(facts.tool), contract)
        return decide(foreseen, self._policy.actions) if foreseen else ALLOW

    def _foresee(self, agent: Agent, record: Record, call: ToolCall, contract: ToolContract) -> Iterator[Foreseen]:
        """Yields what an equal call's last answer would make of this one."""
        yield from of_refusals(record, contract)
        if record.answer is None:
            return
        place = self._place
        opens = place is None or call.turn != self._turn
        now = Place(agent, self._barriers, self._acts, self._deeds) if opens or place is None else place
        # A turn that is still open ends where the next one begins.
        before = now if record.place is place else record.place
        if agent.rounds_hold(self._hard) and agent.lap_turn != call.turn:
            yield from of_rounds(record, agent.laps, Kind.CYCLE, contract)
            if self._across is not None and self._across_turn != call.turn:
                yield from of_rounds(record, self._across, Kind.HANDOFF_CYCLE, contract)
        pages = contract.pattern is _PATTERN_PAGINATED and agent.peek_pages(contract.tool, self._hard)
        if not (pages and pages.readable):
            yield from of_repeats(record, Standing(agent.next_round(call.turn), now, before), contract)
        else:
            yield from of_pages(record, agent, contract, self._hard)
        if contract.polling is not None:
            yield from of_polls(record, call, contract)
        if self._tally.unchanged_steps:
            yield from of_state(record, self._tally.unchanged_steps, contract)

    def _start_over(self, call: ToolCall) -> None:
        """A user turn or another attempt begins: what came before is no evidence any more."""
        self._tally.start_over(same_user_turn=call.user_turn == self._user_turn)
        self._user_turn, self._attempt = call.user_turn, call.attempt
        self._hard += 1
        self._barriers += 1
        self._deeds += 1
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

    def _weigh(self, agent: Agent, place: Place, call: ToolCall, answer: Answer, contract: ToolContract) -> Observation:
        """Compares the call with its agent's last equal one, brings all evidence up to date and judges it."""
        facts = call.facts
        key: _Key = (call.agent, facts.call_digest, facts.key_id, facts.contract)
        record = self._recall(key, agent, call)
        sibling = record.turn == call.turn
        if answer.guarded and record.answer is not None:
            answer.stand_in(record)
        page = None
        if facts.pattern is _PATTERN_PAGINATED and not (sibling or answer.denied or answer.failing):
            page = agent.pages_of(contract, self._hard, self._max_items).take(call, fresh=record.answer is None)
        known = self._tally.knows(call, answer, self._hard)
        progress, rule, added = record.take(call, answer, contract, in_round=agent.round, now=place, page=page)
        again = sibling and not added
        stretch, stalled, new_items = record.stretch if added else None, None, facts.new_items
        if page is not None:
            stretch, stalled, new_items = None if page.rule is not None else stretch, page.stalled, page.new_items
        barriers_before, covered, counted = self._barriers, None, None
        repeated = (
            again
            or progress is _PROGRESS_UNCHANGED
            or (progress is _PROGRESS_ADVANCED and record.had(answer.value))
            or (self._across is not None and progress is _PROGRESS_FIRST and self._is_known_to_others(key, answer))
        )
        moved_on = progress is _PROGRESS_ADVANCED and rule is not None
        told = known and not moved_on and _is_telling(facts) and self._tally.has_answered_otherwise(call)
        self._raise_barrier(agent, call, answer, again=repeated, count=0 if again else record.count, rewrite=repeated)
        if again:
            self._tally.spend_sibling(call, contract)
        else:
            self._move(agent, call, answer, stalled=repeated)
            old = (known and (repeated or told or answer.failing)) and not (answer.waiting or moved_on)
            counted = self._tally.take(agent, call, answer, contract, known=old, hard=self._hard)
            covered = None if counted is None else counted.covered
        terminal = self._wait(record, call, contract, sibling=sibling) if facts.pattern is _PATTERN_POLLING else None
        lap, across = self._laps(agent, call, answer, record, progress)
        if self._would_complete is None:
            answer.value = None if answer.value is None else record.answer
            self._would_complete = agent.suppose(call, answer, contract, digest=key, hard=self._hard)
        if progress is _PROGRESS_ADVANCED or new_items is not None:
            self._note(progress, new_items)
        texts = None
        if facts.likenesses is not None or facts.near_result_count is not None:
            texts = self._texts.take(
                call, failing=answer.failing, moved_on=moved_on, before=barriers_before, barriers=self._barriers
            )
        siblings = record.siblings if sibling else None
        trail = record.trail if added and record.trail is not None and record.trail.tells else None
        denials = record.denials if answer.denied and not (sibling or answer.guarded) else None
        step = Step(
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
            trail,
            denials,
            counted,
            texts,
            agent.turn_before,
        )
        kinds = self._judge(step, shown(step))
        if (stretch or trail or sibling or lap or across) and self._count_waste(record, lap, across):
            # These calls are accounted for: what comes after them is judged by itself.
            agent.answers.clear()
        if texts is not None or facts.likenesses is not None or _is_measured(facts):
            showed = self._measure(call)
            if showed is not None:
                return Observation(progress, rule, record.count or 1, kinds, new_items, terminal, covered, *showed)
        if progress is _PROGRESS_FIRST and not kinds and new_items is terminal is covered is None:
            return FIRST
        return Observation(progress, rule, record.count or 1, kinds, new_items, terminal, covered)

    def _is_known_to_others(self, key: _Key, answer: Answer) -> bool:
        """Tells whether another agent of the run made this call and was given this answer."""
        if answer.value is None:
            return False
        for name in self._agents.latest:
            other = self._records.peek((name, *key[1:]))
            if other is not None and name != key[0] and other.answer == answer.value:
                return True
        return False

    def _count_waste(self, record: Record, lap: Lap | None, across: Lap | None) -> bool:
        """Marks what a call adds to loops that were found, and returns whether it belongs to any."""
        found = [record.stretch]
        if record.trail is not None:
            found += record.trail.still_stretch, record.trail.relapse
        if lap is not None:
            found.append(lap.stretch)
        if across is not None:
            found.append(across.stretch)
        looping = False
        for stretch in found:
            if stretch is not None and stretch.loop:
                looping = True
                if stretch.unlisted:
                    self._claims.count_waste(stretch)
        return looping

    def _move(self, agent: Agent, call: ToolCall, answer: Answer, *, stalled: bool) -> None:
        """Counts the call among its agent's, and whether it brought anything or may have done something."""
        agent.calls += 1
        if answer.failing or answer.denied:
            return
        silent = call.facts.effect is _EFFECT_UNKNOWN and answer.result_class is _RESULT_CLASS_SILENCE
        if not stalled or silent:  # silence may be a wait, or something that was done
            agent.moved += 1
        if call.facts.effect is _EFFECT_UNKNOWN and answer.result_class in _ACTS:
            self._acts += 1

    def _note(self, progress: Progress, new_items: int | None) -> None:
        if progress is _PROGRESS_ADVANCED:
            self._progress_observed = True
        if new_items is not None:
            self._new_items = self._new_items or new_items > 0

    def _recall(self, key: _Key, agent: Agent, call: ToolCall) -> Record:
        """Returns what is remembered of equal calls; nothing of what a user turn or a write has made no evidence."""
        epoch = self._hard - agent.own if call.facts.effect is _EFFECT_WRITE else self._hard
        record = self._records.latest.get(key) or self._records.promote(key)
        if record is None:
            record = Record(epoch)
            self._records.add(key, record)
        elif record.epoch != epoch and record.turn != call.turn:
            record.forget(epoch)
        return record

    def _raise_barrier(
        self, agent: Agent, call: ToolCall, answer: Answer, *, again: bool, count: int = 0, rewrite: bool = False
    ) -> None:
        """Counts what makes it worth while to look again at other things (DESIGN 6, barrier).

        Args:
            agent: whose call it is.
            call: the call.
            answer: what it gave back.
            again: True where it repeats an equal call with an answer that this call had given before. A known answer
                to another call is no proof that nothing was done: editors and shells answer many things alike.
            count: how many equal calls with equal answers in a row, 0 for an equal sibling.
            rewrite: True where it repeats an equal call with an equal answer.
        """
        if answer.failing:
            # An outage may be over by the next look, and what is done meanwhile is waiting.
            if call.facts.error_category is _ERROR_CATEGORY_TRANSIENT:
                self._barriers += 1
            return
        if not answer.executed:
            return
        effect = call.facts.effect
        if effect is _EFFECT_WRITE:
            # A write that repeats the one just made changes nothing that the one before did not; one that
            # comes back after other calls (set, unset, set) does.
            if not rewrite or count == 1:
                self._hard += 1
                agent.own += 1
                self._do(agent)
        elif answer.waiting:
            self._barriers += 1
        elif effect is _EFFECT_UNKNOWN and not again:
            self._do(agent)

    def _do(self, agent: Agent) -> None:
        self._barriers += 1
        self._deeds += 1
        agent.deeds += 1

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
        if call.facts.pattern is not _PATTERN_PLAIN:
            if answer.waiting or progress is _PROGRESS_ADVANCED or progress is _PROGRESS_FIRST:
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

    def _judge(self, step: Step, evidence: int) -> tuple[Kind, ...]:
        """Shows the step to those who read some of its evidence and returns the kinds that became true with it."""
        kinds: tuple[Kind, ...] = ()
        for at, judge in self._readers[evidence]:
            claim = judge(self._detectors[at], step)
            if claim is not None and self._claims.note(claim, step.call):
                kinds = (*kinds, claim.kind)
        return kinds

    def _measure(self, call: ToolCall) -> _Measured | None:
        """Returns what likeness showed of a call that was judged, as the last fields of `Observation`."""
        asked = None if self._near_repeat is None else self._near_repeat.measured(call)
        text = self._texts.measured(call)
        item = None if self._same_result is None else self._same_result.measured(call)
        if asked is None and text is None and item is None:
            return None
        requests, requests_alike = asked or _NOT_ASKED
        texts, texts_alike, moving = text or _NO_TEXT
        return requests, requests_alike, texts, texts_alike, moving, item

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
        tally = self._tally
        return Evictions(
            self._records.evicted, self._agents.evicted, self._claims.dropped, tally.evicted, tally.writes.evicted
        )


class _Readers(dict[int, "tuple[tuple[int, _Judge], ...]"]):
    """Who reads some of a set of evidence: places of detectors, in their order, with what judges there.

    The same for every run, and filled as sets are first shown: of 128, runs show a few.
    """

    def __init__(self, makers: tuple[Callable[[], Detector], ...]) -> None:
        super().__init__()
        self._detectors = tuple(make() for make in makers)
        self.near_repeat = makers.index(NearRepeat) if NearRepeat in makers else -1
        self.same_result = makers.index(SameResult) if SameResult in makers else -1

    def __missing__(self, evidence: int) -> tuple[tuple[int, _Judge], ...]:
        readers = [(at, one) for at, one in enumerate(self._detectors) if int(one.reads) & evidence]
        found = self[evidence] = tuple([(at, type(one).judge) for at, one in readers])
        return found


@cache
def _readers(makers: tuple[Callable[[], Detector], ...]) -> _Readers:
    return _Readers(makers)


def _is_measured(facts: CallFacts) -> bool:
    """Tells whether a producer has written down anything that likeness showed."""
    return not (facts.near_repeat_count is facts.near_result_count is facts.same_result_item is None)


def _is_telling(facts: CallFacts) -> bool:
    """Tells whether an answer says enough to be recognised: a structure, or a text of some length."""
    if facts.result_class is not _RESULT_CLASS_CONTENT:
        return False
    return facts.result_words is None or facts.result_words >= TELLING_WORDS
