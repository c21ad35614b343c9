"""Intake, judge, store and totals together: on disk is what replay says, and the totals are those of the runs."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from hypothesis import given, settings

from otel_loopguard import policy
from otel_loopguard.digest import Keyring
from otel_loopguard.model import Span, SpanFacts
from otel_loopguard.policy import Policy
from otel_loopguard.scorer.groups import Limits
from otel_loopguard.scorer.intake import IntakeQueue
from otel_loopguard.scorer.judge import Judge
from otel_loopguard.scorer.records import JudgedRun
from otel_loopguard.scorer.store import Store
from otel_loopguard.scorer.totals import Accumulated
from tests.captures.summary import CAPTURES, POLICY, SPANS
from tests.replaying import KEY, items_of
from tests.scorer.made_runs import Delivery, deliveries, made_spans
from tests.scorer.scoring import Clock, arrivals_of, plain, replayed

DEFAULT: Final = policy.default()


class OnDisk:
    """A scorer without its servers, on one folder."""

    def __init__(self, folder: Path, owned: Policy) -> None:
        self.folder, self.policy = folder, owned
        self.clock = Clock()
        self.told: dict[str, JudgedRun] = {}
        """The last that a sink was told of each run."""
        self.revisions: set[tuple[str, int]] = set()
        self.begin()

    def begin(self) -> None:
        """Begins a process."""
        self.store = Store(self.folder, clock=self.clock)
        self.totals = Accumulated(self.store.totals(), now_ns=self.clock(), wait_ns=0)
        self.judge = Judge(self.store, self.policy, limits=Limits(), counts=self.totals, clock=self.clock)
        self.judge.recover()
        self.intake = IntakeQueue(self.store, self.policy, Keyring(KEY), learn=self.judge.learn, clock=self.clock)

    def take(self, items: list[Span] | list[SpanFacts]) -> None:
        """Takes one request, or facts as an intake would have made them."""
        spans = [item for item in items if isinstance(item, Span)]
        if spans:
            self.intake.submit(spans).result()
            return
        facts = [item for item in items if isinstance(item, SpanFacts)]
        rows = set(self.store.append(arrivals_of(self.intake, facts, self.clock())).result())
        self.judge.learn([pending for pending in self.store.pending() if pending.row in rows])

    def deliver(self, items: list[Span] | list[SpanFacts], delivery: Delivery) -> None:
        """Sends spans as a delivery says, with judging and new processes in between, and judges all."""
        chance = random.Random(delivery.seed)
        for places in delivery.requests(len(items)):
            self.take([items[place] for place in places])  # type: ignore[arg-type]
            self.clock.pass_s(chance.choice((0.0, 0.2, 5.0, 61.0)))
            if chance.random() < 0.05:
                self.store.close()
                self.begin()
            elif chance.random() < 0.7:
                self.judge.settle_due()
                self.tell()
        while list(self.store.pending()):
            self.clock.pass_s(30)
            self.judge.settle_due()
        self.tell()

    def tell(self) -> None:
        """Tells the sink what is new; no revision comes twice."""
        for position, run in self.store.outbox("sink", 10_000):
            revision = (run.run_id, run.verdict.revision)
            assert revision not in self.revisions
            self.revisions.add(revision)
            self.told[run.run_id] = run
            self.store.sent("sink", position)

    def runs(self) -> list[JudgedRun]:
        """All runs, by id."""
        return sorted(self.store.runs(limit=10_000), key=lambda run: run.run_id)

    def check(self, items: list[Span] | list[SpanFacts]) -> None:
        """The runs are replay's, each once, and the totals are theirs, in memory and on disk; so sinks were told."""
        runs = self.runs()
        standing = {run_id: run.verdict.revision for run_id, run in self.told.items() if not run.withdrawn}
        assert standing == {run.run_id: run.verdict.revision for run in runs}
        assert replayed(items, self.policy) == [plain(run.verdict) for run in runs]
        assert pytest.approx(self.totals.recount(runs)) == self.totals.net()
        self.store.close()
        self.begin()
        assert pytest.approx(self.totals.recount(runs)) == self.totals.net()
        self.store.close()


@settings(max_examples=25)
@given(made_spans, deliveries)
def test_made_up_runs_are_on_disk_as_replay_has_them(spans: list[SpanFacts], delivery: Delivery) -> None:
    """However they came, and however often the process began anew."""
    with TemporaryDirectory() as folder:
        scoring = OnDisk(Path(folder), DEFAULT)
        scoring.deliver(spans, Delivery(delivery.seed, min(3, delivery.most_copies), max(3, delivery.request)))
        scoring.check(spans)


def test_all_captures_are_on_disk_as_replay_has_them(tmp_path: Path) -> None:
    """Forty frameworks in one stream."""
    spans = [item for name in CAPTURES for item in items_of(SPANS / f"{name}.jsonl") if isinstance(item, Span)]
    scoring = OnDisk(tmp_path, POLICY)
    scoring.deliver(spans, Delivery(seed=3, most_copies=2, request=300))
    scoring.check(spans)


def test_a_late_span_of_an_evicted_group_begins_anew(tmp_path: Path) -> None:
    """What it belonged to is gone; nothing fails over it."""
    name = "strands-agents-1.62.0+native+main"
    spans = [item for item in items_of(SPANS / f"{name}.jsonl") if isinstance(item, Span)]
    scoring = OnDisk(tmp_path, POLICY)
    scoring.deliver(spans, Delivery(seed=3, most_copies=1, request=10_000))
    scoring.store.evict(before_ns=scoring.clock() + 1, max_bytes=2**40)
    assert [] == scoring.runs()
    scoring.revisions.clear()  # nothing knows of them any more
    scoring.deliver(spans, Delivery(seed=3, most_copies=1, request=10_000))
    assert replayed(spans, POLICY) == [plain(run.verdict) for run in scoring.runs()]
    assert (0, 0) == (scoring.judge.failures, scoring.judge.open_groups())
    scoring.store.close()


def test_threads_that_send_while_one_judges_lose_nothing(tmp_path: Path) -> None:
    """By the real clock, with waits so short that every run is judged in the middle and revised."""
    spans = [item for name in CAPTURES for item in items_of(SPANS / f"{name}.jsonl") if isinstance(item, Span)]
    store = Store(tmp_path)
    totals = Accumulated(store.totals(), now_ns=time.time_ns(), wait_ns=0)
    limits = Limits(grace_ns=10**6, idle_ns=10**7, max_age_ns=10**8)
    judge = Judge(store, POLICY, limits=limits, counts=totals)
    intake = IntakeQueue(store, POLICY, Keyring(KEY), learn=judge.learn, load=judge.load)
    judging = threading.Thread(target=judge.run)

    def send(seed: int) -> None:
        for places in Delivery(seed=seed, most_copies=1, request=200).requests(len(spans)):
            intake.submit([spans[place] for place in places]).result()

    with ThreadPoolExecutor() as pool:
        judging.start()
        list(pool.map(send, range(4)))
    while list(store.pending()):
        judging.join(0.05)
    judge.stop()
    judging.join()
    runs = sorted(store.runs(limit=10_000), key=lambda run: run.run_id)
    assert replayed(spans, POLICY) == [plain(run.verdict) for run in runs]
    assert pytest.approx(totals.recount(runs)) == totals.net()
    assert (0, 0, 0) == (judge.failures, judge.open_groups(), judge.open_spans())
    store.close()
