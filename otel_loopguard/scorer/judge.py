"""Judges the groups that are due, and changes all of one on disk in one transaction.

Invariants: a group is judged from rows that were taken from the index together; what comes meanwhile stays for later.
Nothing of a group is forgotten before its settlement is on disk, and a crash at any point leaves its rows to be judged
again. Two groups that share a name are never on their way at one time. No clock but the one given.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Final, Protocol

import msgspec

from otel_loopguard.errors import LoopGuardError, StaleError
from otel_loopguard.policy import Policy
from otel_loopguard.scorer.group_facts import combined, decode, decode_arrival, encode
from otel_loopguard.scorer.groups import NS_PER_S, Due, Limits, OpenGroups
from otel_loopguard.scorer.judging import Circumstances, Judgement, Pairs, judge_group
from otel_loopguard.scorer.records import (
    JudgedRun,
    Pending,
    RefusedError,
    Series,
    Settlement,
    StoredGroup,
    Totals,
    only_copies_came,
)

EVERY_S: Final = 0.1
"""How often it is asked which groups are due."""
MOST_AT_ONCE: Final = 512
"""Groups settled before what came meanwhile is taken in."""
MOST_BYTES_AT_ONCE: Final = 16 * 2**20
"""Facts on their way to disk at one time."""
PAUSE_NS: Final = NS_PER_S
"""How long nothing is judged after the store could not take it, and a group alone whose own fault it is."""
MAX_PAUSE_NS: Final = 300 * NS_PER_S
"""To so much it doubles for a group that fails again and again."""
NOT_READY_NS: Final = 5 * NS_PER_S
"""When a run is looked at again whose metrics are to be seen at 0 first."""
LARGE_SPANS: Final = 5000
REST_NS_PER_SPAN: Final = 400_000
"""How long a large group rests after it was judged, some twenty times as long as that took: names that all runs share,
such as one run id for everything, must not have the same spans judged over and over."""
_MOST_RESTING: Final = 1000
_FAULTS: Final = (LoopGuardError, msgspec.MsgspecError)
_log = logging.getLogger(__name__)


class Settles(Protocol):
    """The part of the store that a judge needs."""

    def pending(self) -> Iterator[Pending]:
        """All that is kept and not judged."""

    def read(self, rows: Sequence[int]) -> list[bytes]:
        """The facts of rows."""

    def groups_with(self, names: Collection[str]) -> list[StoredGroup]:
        """Judged groups that have any of these names."""

    def run(self, run_id: str) -> JudgedRun | None:
        """One run, if there is one of this id."""

    def next_group(self) -> int:
        """A number that no group has had."""

    def settle(self, settlement: Settlement) -> Future[None]:
        """Writes it in one transaction: done when it is on disk."""


class Planned(Protocol):
    """What counting says of one settlement."""

    @property
    def ready(self) -> bool:
        """False: ask again later."""

    @property
    def runs(self) -> tuple[JudgedRun, ...]:
        """The runs as they are now, with their labels."""

    @property
    def totals(self) -> Totals:
        """What is added."""

    @property
    def forgotten(self) -> tuple[Series, ...]:
        """What is dropped."""


class Counts(Protocol):
    """Counts runs for the metrics: `totals.Accumulated`."""

    def plan(self, pairs: Pairs, *, now_ns: int) -> Any:
        """Says what changes of runs add; the answer is a `Planned`."""

    def apply(self, plan: Any) -> None:
        """The plan's settlement is on disk."""

    def abandon(self, plan: Any) -> None:
        """It is not, and will not be."""


class _Plan(msgspec.Struct, frozen=True, kw_only=True):
    runs: tuple[JudgedRun, ...]
    ready: bool = True
    totals: Totals = {}
    forgotten: tuple[Series, ...] = ()


class Uncounted:
    """Counts nothing."""

    def plan(self, pairs: Pairs, *, now_ns: int) -> _Plan:  # noqa: ARG002 - as `Counts` has it
        """Returns the runs alone."""
        return _Plan(runs=tuple([after for _, after in pairs if after is not None]))

    def apply(self, plan: _Plan) -> None:
        """Does nothing."""

    def abandon(self, plan: _Plan) -> None:
        """Does nothing."""


class _OnItsWay(msgspec.Struct, frozen=True, kw_only=True):
    due: Due
    settlement: Settlement
    plan: Any
    done: Future[None]


class Judge:
    """Judges what was kept.

    Args:
        store: where it is kept.
        policy: the owner's.
        limits: when groups are judged.
        counts: what counts the runs, asked in the order of the settlements.
        settled: told of each settlement that is on disk, in this thread.
        clock: Unix time in nanoseconds.

    Thread safety: `learn`, `open_spans`, `load`, `open_groups`, `lag_s` and `stop` may be called from any thread;
    everything else from the one that judges.
    """

    def __init__(
        self,
        store: Settles,
        policy: Policy,
        *,
        limits: Limits | None = None,
        counts: Counts | None = None,
        settled: Callable[[Settlement], None] = lambda _: None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._store, self._policy = store, policy
        self._limits = limits or Limits()
        self._groups = OpenGroups(self._limits)
        self._counts: Counts = counts or Uncounted()
        self._settled = settled
        self._clock = clock
        self._inbox: deque[Sequence[Pending]] = deque()
        self._learned = self._settled_spans = 0
        """Each changed by one thread, and never less than before."""
        self._stopping = threading.Event()
        self._paused_ns = 0
        self._on_their_way: list[_OnItsWay] = []
        self._names: set[str] = set()
        """Of the settlements on their way."""
        self._run_ids: set[str] = set()
        """Of their runs."""
        self._bytes = 0
        self._tries: dict[int, int] = {}
        """How often in a row settling a group has failed, by its first row."""
        self.failures = 0
        """Settlements that the store did not take; they are made again. May be read from any thread."""

    def learn(self, pendings: Sequence[Pending]) -> None:
        """Takes note of arrivals that were kept: an intake calls it after each commit, from one thread at a time."""
        self._learned += sum([pending.spans for pending in pendings])
        self._inbox.append(pendings)

    def recover(self) -> int:
        """Takes note of all that was kept before this process began; call it once, before anything is received.

        Returns:
            How many arrivals there were.
        """
        rows = 0
        for pending in self._store.pending():
            self._groups.add(pending)
            self._learned += pending.spans
            rows += 1
        return rows

    def open_spans(self) -> int:
        """How many spans are kept and not yet settled."""
        settled = self._settled_spans  # first: what is learned meanwhile is one too many at most
        return self._learned - settled

    def load(self) -> int:
        """What memory is held for: spans, and names that join their traces, of which one span may have any number."""
        return self.open_spans() + self._groups.names

    def open_groups(self) -> int:
        """In how many groups they are."""
        return self._groups.groups

    def lag_s(self) -> float:
        """How long the group that is due the longest has been so, about: more than a second or two is too long."""
        return self._groups.overdue_ns(self._clock()) / NS_PER_S

    def run(self) -> None:
        """Judges until `stop` is called: the body of a thread. What waits then is judged after the next start."""
        while not self._stopping.is_set():
            if self.settle_due() < MOST_AT_ONCE:
                self._stopping.wait(EVERY_S)

    def stop(self) -> None:
        """Ends `run` after the groups that are being judged."""
        self._stopping.set()

    def settle_due(self) -> int:
        """Judges groups that are due now, at most `MOST_AT_ONCE`.

        Returns:
            How many were taken; their settlements are on disk, or the groups are back in the index.
        """
        now_ns = self._clock()
        self._take_in()
        if now_ns < self._paused_ns <= now_ns + MAX_PAUSE_NS:
            return 0
        taken = 0
        for due in itertools.islice(self._groups.due(now_ns), MOST_AT_ONCE):
            taken += 1
            if not self._names.isdisjoint(due.names):
                self._land(now_ns)  # what it is to be judged with may be on its way
            self._send(due, now_ns)
            if self._bytes >= MOST_BYTES_AT_ONCE:
                self._land(now_ns)
            if self._paused_ns > now_ns or self._stopping.is_set():
                break
        self._land(now_ns)
        return taken

    def _take_in(self) -> None:
        while self._inbox:
            for pending in self._inbox.popleft():
                self._groups.add(pending)

    def _send(self, due: Due, now_ns: int) -> None:
        """Judges one group and sends its settlement on its way; puts it back where that cannot be."""
        plan: Any = None
        try:
            stored = self._store.groups_with(due.names)
            judgement = self._judge(due, stored, now_ns)
            plan = self._counts.plan(judgement.pairs, now_ns=now_ns)
            if not plan.ready:
                self._groups.put_back(due, until_ns=now_ns + NOT_READY_NS)
                return
            settlement = self._settlement(due, stored, judgement, plan, now_ns)
            done = self._store.settle(settlement)
        except _FAULTS as error:
            if plan is not None:
                self._counts.abandon(plan)
            self._failed(due, error, now_ns)
            return
        self._on_their_way.append(_OnItsWay(due=due, settlement=settlement, plan=plan, done=done))
        self._names.update(settlement.names)
        self._run_ids.update([run.run_id for run in settlement.runs])
        self._bytes += len(settlement.facts)

    def _judge(self, due: Due, stored: Sequence[StoredGroup], now_ns: int) -> Judgement:
        arrived = (span for facts in self._store.read(due.rows) for span in decode_arrival(facts))
        whole = combined((decode(group.facts) for group in stored), arrived)
        before = {run.run_id: run for group in stored for run in group.runs}
        circumstances = Circumstances(
            close=due.close, received=due.received, now_ns=now_ns, max_spans=self._limits.max_spans
        )
        return judge_group(whole, before, self._policy, circumstances, is_taken=self._is_taken)

    def _is_taken(self, run_id: str) -> bool:
        return run_id in self._run_ids or self._store.run(run_id) is not None

    def _settlement(
        self, due: Due, stored: Sequence[StoredGroup], judgement: Judgement, plan: Planned, now_ns: int
    ) -> Settlement:
        recounted = {after.run_id for before, after in judgement.pairs if after and only_copies_came(before, after)}
        return Settlement(
            group=self._store.next_group(),
            rows=due.rows,
            merged=tuple([group.group for group in stored]),
            names=tuple(sorted(due.names.union(*(group.names for group in stored)))),
            facts=encode(judgement.kept),
            spans=judgement.spans,
            runs=tuple([run for run in plan.runs if run.run_id not in recounted]),
            recounted=tuple([run for run in plan.runs if run.run_id in recounted]),
            withdrawn=judgement.withdrawn,
            totals=plan.totals,
            forgotten=plan.forgotten,
            judged_ns=now_ns,
        )

    def _land(self, now_ns: int) -> None:
        """Waits until all settlements on their way are on disk, or are known not to be."""
        for sent in self._on_their_way:
            try:
                sent.done.result()
            except _FAULTS as error:
                self._counts.abandon(sent.plan)
                self._failed(sent.due, error, now_ns)
                continue
            self._counts.apply(sent.plan)
            self._settled_spans += sent.due.spans
            self._tries.pop(sent.due.rows[0], None)
            weight = max(sent.settlement.spans, len(sent.settlement.names))
            if weight >= LARGE_SPANS:
                # First what joined its traces, as what comes next may be of a trace that is not known yet.
                shared = sorted(sent.due.names, key=sent.due.received.__contains__)
                names = [*shared, *sent.settlement.names][:_MOST_RESTING]
                self._groups.rest(names, until_ns=now_ns + weight * REST_NS_PER_SPAN)
            self._settled(sent.settlement)
        self._on_their_way.clear()
        self._names.clear()
        self._run_ids.clear()
        self._bytes = 0

    def _failed(self, due: Due, error: Exception, now_ns: int) -> None:
        self.failures += 1
        tries = self._tries[due.rows[0]] = self._tries.get(due.rows[0], 0) + 1
        wait_ns = min(MAX_PAUSE_NS, PAUSE_NS << min(tries - 1, 20))
        if isinstance(error, RefusedError):  # it is the store, whatever the group
            wait_ns = max(PAUSE_NS, int(error.retry_after_s * NS_PER_S))
            self._paused_ns = now_ns + wait_ns
        elif not isinstance(error, StaleError):
            _log.error("spans of %d traces cannot be judged: %s", len(due.traces), _said(error))
        self._groups.put_back(due, until_ns=now_ns + wait_ns)


def _said(error: Exception) -> str:
    return (
        str(error)
        if isinstance(error, LoopGuardError)
        else f"what was stored does not read back ({type(error).__name__})"
    )
