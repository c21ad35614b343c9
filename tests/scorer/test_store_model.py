"""Any order of appending, settling, evicting and opening again gives what a plain model of the store gives."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from otel_loopguard.errors import StaleError
from otel_loopguard.scorer.records import Arrival, JudgedRun, Series
from otel_loopguard.scorer.store import Store
from tests.scorer.storing import arrival, judged, settled

_NAMES = st.sampled_from(["a", "b", "c", "d", "e", "f"])
_SERIES = st.sampled_from([("n", ()), ("n", (("tool", "x"),)), ("m", (("a", "1"), ("b", "2")))])


class Model(RuleBasedStateMachine):
    """A store, and beside it what it should hold."""

    rows = Bundle("rows")

    @initialize()
    def begin(self) -> None:
        """An empty folder."""
        self.folder = tempfile.TemporaryDirectory()
        self.store = Store(Path(self.folder.name))
        self.waiting: dict[int, Arrival] = {}
        self.used = 0
        self.groups: dict[int, tuple[int, tuple[str, ...], bytes]] = {}
        self.highest = 0
        self.runs: dict[str, tuple[int, JudgedRun]] = {}
        self.totals: dict[Series, float] = {}
        self.withdrawn: dict[str, int] = {}
        self.unsent: list[str] = []
        self.time = 0

    @rule(
        target=rows,
        facts=st.lists(st.binary(max_size=300), max_size=4),
        names=st.lists(_NAMES, max_size=2).map(tuple),
        ended=st.booleans(),
    )
    def append(self, facts: list[bytes], names: tuple[str, ...], ended: bool) -> Any:  # noqa: FBT001 - drawn
        """Some arrivals get the next numbers."""
        made = [arrival(len(one), facts=one, names=names, root_ended=ended) for one in facts]
        numbers = self.store.append(made).result()
        assert len(made) == len(numbers)
        assert all(number > self.used for number in numbers)
        assert tuple(sorted(set(numbers))) == numbers
        self.used = max(self.used, *numbers, 0)
        self.waiting.update(zip(numbers, made, strict=True))
        return multiple(*numbers)

    @rule(
        some=st.lists(consumes(rows), max_size=3, unique=True),
        names=st.lists(_NAMES, min_size=1, max_size=3, unique=True).map(tuple),
        run_ids=st.lists(_NAMES, max_size=3, unique=True),
        merge=st.booleans(),
        again=st.booleans(),
        keep_number=st.booleans(),
        totals=st.dictionaries(_SERIES, st.integers(-5, 5) | st.sampled_from([0.5, 0.25]), max_size=2),
        forget=st.lists(_SERIES, max_size=1),
    )
    def settle(
        self,
        *,
        some: list[int],
        names: tuple[str, ...],
        run_ids: list[str],
        merge: bool,
        again: bool,
        keep_number: bool,
        totals: dict[Series, float],
        forget: list[Series],
    ) -> None:
        """A group of rows and of the groups that share its names, in place of what they were, or nothing at all."""
        found = {group.group for group in self.store.groups_with(names)}
        assert {group for group, (_, theirs, _) in self.groups.items() if set(theirs) & set(names)} == found
        merged = sorted(found) if merge else []
        theirs = {run_id for run_id, (group, _) in self.runs.items() if group in merged}
        withdrawn = sorted(theirs - set(run_ids))[:1]
        self.time += 1
        group = merged[0] if merged and keep_number else self.store.next_group()
        assert group in merged or group > self.highest
        runs = tuple(judged(run_id, judged_ns=self.time, revision=self.time) for run_id in run_ids)
        written = settled(
            self.store,
            tuple(some),
            group=group,
            names=names,
            merged=tuple(merged),
            withdrawn=tuple(withdrawn),
            runs=runs,
            totals=totals,
            forgotten=tuple(forget),
            facts=repr(names).encode(),
            judged_ns=self.time,
        )
        fits = set(some) <= self.waiting.keys() and not any(
            run_id in self.runs and self.runs[run_id][0] not in merged for run_id in run_ids
        )
        futures = [self.store.settle(written) for _ in range(1 + again)]
        if not fits:
            assert [StaleError] * len(futures) == [type(future.exception()) for future in futures]
            return
        futures[0].result()
        if again and (some or not merged or group not in merged):
            assert isinstance(futures[1].exception(), StaleError)
        self.highest = max(self.highest, group)
        repeats = 2 if again and futures[1].exception() is None else 1
        for row in some:
            del self.waiting[row]
        for one in merged:
            del self.groups[one]
        self.runs = {run_id: (group if g in merged else g, run) for run_id, (g, run) in self.runs.items()}
        for run_id in withdrawn:
            del self.runs[run_id]
            self.withdrawn[run_id] = self.time
        for run in runs:
            self.runs[run.run_id] = (group, run)
            self.withdrawn.pop(run.run_id, None)
        news = [*withdrawn, *run_ids]
        self.unsent = [run_id for run_id in self.unsent if run_id not in news] + news
        self.groups[group] = (self.time, names, repr(names).encode())
        for series, value in totals.items():
            self.totals[series] = self.totals.get(series, 0) + value * repeats
        for series in forget:
            self.totals.pop(series, None)

    @rule(age=st.integers(0, 3))
    def evict(self, age: int) -> None:
        """Groups that were judged some time ago go with their runs."""
        old = {group for group, (judged_ns, _, _) in self.groups.items() if judged_ns < self.time - age}
        gone = {run_id for run_id, (group, _) in self.runs.items() if group in old}
        counts = self.store.evict(before_ns=self.time - age, max_bytes=2**40)
        assert {"age": len(gone), "size": 0} == counts
        self._forget(old, gone | {run_id for run_id, at in self.withdrawn.items() if at < self.time - age})

    @rule()
    def evict_all(self) -> None:
        """No room for any judged group."""
        counts = self.store.evict(before_ns=0, max_bytes=0)
        assert {"age": 0, "size": len(self.runs)} == counts
        self._forget(set(self.groups), set(self.runs) | set(self.withdrawn))

    def _forget(self, groups: set[int], runs: set[str]) -> None:
        self.groups = {number: group for number, group in self.groups.items() if number not in groups}
        self.runs = {run_id: run for run_id, run in self.runs.items() if run_id not in runs}
        self.withdrawn = {run_id: at for run_id, at in self.withdrawn.items() if run_id not in runs}
        self.unsent = [run_id for run_id in self.unsent if run_id not in runs]

    @rule(limit=st.integers(1, 3))
    def send(self, limit: int) -> None:
        """A sink takes some runs."""
        out = self.store.outbox("sink", limit)
        told = [(run.run_id, run.withdrawn) for _, run in out]
        assert [(run_id, run_id in self.withdrawn) for run_id in self.unsent[:limit]] == told
        assert len(self.unsent) == self.store.backlog("sink")
        if out:
            self.store.sent("sink", out[-1][0])
            self.unsent = self.unsent[limit:]

    @rule()
    def open_again(self) -> None:
        """The process ends and another begins."""
        self.store.close()
        self.store = Store(Path(self.folder.name))

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        """All that can be read."""
        waiting = list(self.store.pending())
        assert [(row, one.trace_id, one.names, one.root_ended) for row, one in sorted(self.waiting.items())] == [
            (one.row, one.trace_id, one.names, one.root_ended) for one in waiting
        ]
        assert [one.facts for _, one in sorted(self.waiting.items())] == self.store.read([one.row for one in waiting])
        assert self.totals == self.store.totals()
        assert {run_id: run for run_id, (_, run) in self.runs.items()} == {run.run_id: run for run in self.store.runs()}
        found = self.store.groups_with({name for _, names, _ in self.groups.values() for name in names})
        assert [(number, names, facts) for number, (_, names, facts) in sorted(self.groups.items())] == [
            (group.group, group.names, group.facts) for group in found
        ]
        assert {group.group: {run.run_id for run in group.runs} for group in found} == {
            number: {run_id for run_id, (group, _) in self.runs.items() if group == number} for number in self.groups
        }

    def teardown(self) -> None:
        """Nothing is left."""
        if hasattr(self, "store"):
            self.store.close()
            self.folder.cleanup()


TestModel = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")(Model.TestCase)
TestModel.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
