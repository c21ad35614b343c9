"""Remembers which declared writes were made, so that making one again is seen at the second time.

Invariants: two writes are the same where their business digests are; without a business key the arguments decide,
and a different write of the tool ends it (set, unset, set is three writes). A write that is known to have done
nothing counts for nothing; a failure that does not say so may have been carried out. Time is event time; where it
is not known, no time has passed. Bounded: what was written longest ago is forgotten first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from otel_loopguard.detectors.recent import Recent
from otel_loopguard.detectors.step import Member
from otel_loopguard.detectors.stretch import Stretch
from otel_loopguard.model import Effect, ErrorCategory, Outcome, ResultClass
from otel_loopguard.policy import BusinessScope, UnknownOutcome

if TYPE_CHECKING:
    from otel_loopguard.model import ToolCall
    from otel_loopguard.policy import ToolContract

# Members under names of their own: to look one up in its class costs 50 ns, and a step does so dozens of times.
_EFFECT_WRITE: Final = Effect.WRITE
_OUTCOME_ERROR: Final = Outcome.ERROR
_OUTCOME_OK: Final = Outcome.OK
_RESULT_CLASS_ERROR: Final = ResultClass.ERROR

MAX_WRITES: Final = 1024
"""Writes remembered a run, the latest half of them for certain."""
MAX_BUSINESS_KEYS: Final = 65_536
"""Business keys remembered across runs, the latest half of them for certain."""

_NOT_CARRIED_OUT: Final = frozenset({ErrorCategory.VALIDATION, ErrorCategory.NOT_FOUND, ErrorCategory.PERMISSION})
_NS_PER_S: Final = 1_000_000_000
_Key: TypeAlias = "tuple[str | None, ...]"


class _Write:
    """The last time one write was made; `done` is False while no call of it is known to have succeeded."""

    __slots__ = ("digest", "done", "idempotency", "member", "run", "start_ns", "times", "turn")

    def __init__(self, run: int, call: ToolCall) -> None:
        self.done = False
        self.times = 0
        self.follow(run, call)

    def follow(self, run: int, call: ToolCall) -> None:
        facts = call.facts
        self.times += 1
        self.run, self.turn, self.digest = run, call.turn, facts.call_digest
        self.idempotency, self.start_ns = facts.idempotency_digest, call.start_ns
        self.member = Member(call.number, call.facts.call_id, executed=True)


class BusinessMemory:
    """Writes whose business key holds beyond one run; handed from run to run, in the order of their starts.

    Args:
        limit: keys remembered.
    """

    __slots__ = ("runs", "writes")

    def __init__(self, *, limit: int = MAX_BUSINESS_KEYS) -> None:
        self.writes: Recent[_Key, _Write] = Recent(limit)
        self.runs = 0


class SameWrite(NamedTuple):
    """A write made again."""

    stretch: Stretch
    """Its calls in this run; `count` also counts those of earlier runs."""
    sure: bool
    """Whether two are known to have been carried out."""
    scope: str | None
    """Within what they are the same, where that is more than the run."""


class Writes:
    """The declared writes of one run.

    Args:
        memory: what earlier runs wrote.
    """

    __slots__ = ("_again_in_run", "_keyless", "_memory", "_own", "_run")

    def __init__(self, memory: BusinessMemory) -> None:
        self._memory = memory
        memory.runs += 1
        self._run = memory.runs
        self._own: Recent[_Key, _Write] = Recent(MAX_WRITES)
        self._keyless: dict[str, tuple[_Key, _Write]] = {}
        self._again_in_run: dict[_Key, SameWrite] = {}

    @property
    def evicted(self) -> int:
        """Writes of this run forgotten for want of room."""
        return self._own.evicted

    def start_over(self) -> None:
        """A user turn begins: writes of this run may be asked for again."""
        self._own = Recent(MAX_WRITES)
        self._keyless.clear()
        self._again_in_run.clear()

    def take(self, call: ToolCall, contract: ToolContract) -> SameWrite | None:
        """Takes in one call of a declared write; returns what it repeats.

        None for a first time, an equal sibling, and a call that is known to have done nothing.
        """
        known = _known_to(call)
        key = _key_of(call, contract)
        if known is None or key is None:
            return None
        done = known
        before = self._find(key, call, contract)
        if before is None:
            before = _Write(self._run, call)
            before.done = done
            self._keep(key, before, call, contract)
            return None
        if self._is_sibling(before, call):
            before.done = before.done or done
            return None
        harmless = not before.done and _same_idempotency(before, call)
        same = None if harmless else self._again(key, before, call, sure=before.done and done)
        before.done = before.done or done
        before.follow(self._run, call)
        return same

    def foresee(self, call: ToolCall, contract: ToolContract, *, starts_over: bool) -> int:
        """Returns how often a proposed write would then have been made, 0 where it may be made; changes nothing.

        Args:
            call: the proposed call.
            contract: of its tool.
            starts_over: True where it begins a user turn.
        """
        key = _key_of(call, contract)
        if key is None or (starts_over and key[0] == BusinessScope.RUN):
            return 0
        before = self._find(key, call, contract, peek=True)
        if before is None or self._is_sibling(before, call):
            return 0
        if not before.done and contract.unknown_outcome is UnknownOutcome.ALLOW_SAME_KEY:
            return 0 if _same_idempotency(before, call) else before.times + 1
        return before.times + 1

    def _again(self, key: _Key, before: _Write, call: ToolCall, *, sure: bool) -> SameWrite:
        found = self._again_in_run.get(key) if before.run == self._run else None
        if found is None or (sure and not found.sure):
            digest = call.facts.call_digest
            stretch = Stretch(call.facts.tool, call.agent, () if digest is None else (digest,))
            if before.run == self._run:
                stretch.members.append(before.member)
            found = SameWrite(stretch, sure, None if key[0] == BusinessScope.RUN else key[0])
            if len(self._again_in_run) >= MAX_WRITES:
                self._again_in_run.clear()
            self._again_in_run[key] = found
        found.stretch.add(call)
        found.stretch.count = before.times + 1
        return found

    def _find(self, key: _Key, call: ToolCall, contract: ToolContract, *, peek: bool = False) -> _Write | None:
        if not contract.writes.key:
            kept = self._keyless.get(call.facts.tool)
            return kept[1] if kept is not None and kept[0] == key else None
        store = self._own if key[0] == BusinessScope.RUN else self._memory.writes
        found = store.peek(key) if peek else store.latest.get(key) or store.promote(key)
        if found is None or contract.business_ttl_s is None:
            return found
        then, now = found.start_ns, call.start_ns
        return None if then and now and now - then > contract.business_ttl_s * _NS_PER_S else found

    def _keep(self, key: _Key, write: _Write, call: ToolCall, contract: ToolContract) -> None:
        if not contract.writes.key:
            if len(self._keyless) >= MAX_WRITES:
                self._keyless.clear()
            self._keyless[call.facts.tool] = (key, write)
            return
        store = self._own if key[0] == BusinessScope.RUN else self._memory.writes
        if key in store.latest:
            store.latest[key] = write  # the one before has run out
        else:
            store.add(key, write)

    def _is_sibling(self, before: _Write, call: ToolCall) -> bool:
        return before.run == self._run and before.turn == call.turn and before.digest == call.facts.call_digest


def _known_to(call: ToolCall) -> bool | None:
    """True for a write that was carried out, False where that is not known, None where it was not."""
    facts = call.facts
    if not call.executed:
        return None
    if facts.outcome is _OUTCOME_ERROR or facts.result_class is _RESULT_CLASS_ERROR:
        return None if facts.error_category in _NOT_CARRIED_OUT else False
    return facts.outcome is _OUTCOME_OK


def _key_of(call: ToolCall, contract: ToolContract) -> _Key | None:
    facts = call.facts
    if facts.effect is not _EFFECT_WRITE:
        return None
    digest = facts.business_digest or facts.call_digest
    if digest is None:
        return None
    scope = contract.business_scope if facts.business_digest is not None else BusinessScope.RUN
    within = None
    if scope is BusinessScope.TASK:
        within = call.task
    elif scope is BusinessScope.CONVERSATION:
        within = call.session
    if within is None and scope is not BusinessScope.GLOBAL:
        scope = BusinessScope.RUN
    return scope.value, within, facts.tool, facts.key_id, digest


def _same_idempotency(before: _Write, call: ToolCall) -> bool:
    return before.idempotency is not None and before.idempotency == call.facts.idempotency_digest
