"""What comes out of the store and the judge is counted once: totals on disk, in memory and of the runs agree."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_loopguard import policy
from otel_loopguard.digest import Keyring
from otel_loopguard.model import Span, Verdict
from otel_loopguard.scorer.groups import NS_PER_S, Limits
from otel_loopguard.scorer.intake import IntakeQueue
from otel_loopguard.scorer.judge import Judge
from otel_loopguard.scorer.outputs import Outlet, VerdictFile
from otel_loopguard.scorer.records import Series
from otel_loopguard.scorer.store import Store
from otel_loopguard.scorer.totals import Accumulated
from tests.replaying import KEY, items_of
from tests.scorer.scoring import Clock

FIXTURES = Path(__file__).parent.parent / "fixtures"
CASES = FIXTURES / "cases"
CAPTURES = sorted((Path(__file__).parent.parent.parent / "otel_loopguard/examples").glob("*.jsonl"))
EARLY_NS = 1_700_000_000 * NS_PER_S
"""Before any of the spans: none is backfill, however much time passes between requests."""


class Scorer:
    """All of a scorer but its servers; `again` begins a new process on the same folder."""

    def __init__(self, folder: Path, rules: policy.Policy, *, wait_ns: int = 0) -> None:
        self._folder, self._policy, self._wait_ns = folder, rules, wait_ns
        self.clock = Clock(EARLY_NS)
        self._start()

    def _start(self) -> None:
        self.store = Store(self._folder, clock=self.clock)
        self.counted = Accumulated(self.store.totals(), now_ns=self.clock(), wait_ns=self._wait_ns)
        self.judge = Judge(self.store, self._policy, limits=Limits(), counts=self.counted, clock=self.clock)
        self.judge.recover()
        self.intake = IntakeQueue(self.store, self._policy, Keyring(KEY), learn=self.judge.learn, clock=self.clock)

    def again(self) -> None:
        """A new process."""
        self.store.close()
        self._start()

    def take(self, spans: Sequence[Span]) -> None:
        """One request."""
        self.intake.submit(spans).result(30)

    def judge_all(self) -> None:
        """Lets so much time pass that everything is due, and judges it."""
        for _ in range(3):
            self.clock.pass_s(120)
            self.judge.settle_due()

    def total(self, name: str, **labels: str) -> float:
        """The sum of the shown series that have these labels."""
        return sum(
            value
            for (sample, having), value in self.counted.snapshot(now_ns=self.clock()).values.items()
            if sample == name and set(labels.items()) <= set(having)
        )


def rounded(totals: dict[Series, float]) -> dict[Series, float]:
    """Sums of floats without what rounding makes of them."""
    return {series: round(value, 6) for series, value in totals.items()}


def of_case(name: str, folder: Path, **options: int) -> tuple[Scorer, list[list[Span]]]:
    """A scorer under the policy of a case, and the spans of its deliveries."""
    scorer = Scorer(folder, policy.load_file(CASES / name / "policy.yaml"), **options)
    deliveries = []
    for number, line in enumerate((CASES / name / "deliveries.otlp.jsonl").read_text(encoding="utf-8").splitlines()):
        part = folder.parent / f"{name}-{number}.jsonl"
        part.write_text(line + "\n", encoding="utf-8")
        deliveries.append([item for item in items_of(part) if isinstance(item, Span)])
    return scorer, deliveries


@pytest.mark.parametrize("between", [False, True], ids=["at once", "judged and begun anew between deliveries"])
@pytest.mark.parametrize(("name", "calls", "runs"), [("D18", 3, 3), ("G01", 8, 1), ("G02", 4, 1), ("G07", 2, 1)])
def test_cases_hold_on_disk(tmp_path: Path, name: str, calls: int, runs: int, between: bool) -> None:  # noqa: FBT001
    """However a case's deliveries fall, its calls and runs count once, and D18's say that they are sampled."""
    scorer, deliveries = of_case(name, tmp_path / "data")
    for spans in deliveries:
        scorer.take(spans)
        if between:
            scorer.judge_all()
            scorer.again()
    scorer.judge_all()
    assert runs == scorer.total("loopguard_runs_total")
    assert calls == scorer.total("loopguard_tool_calls_total") - scorer.total("loopguard_retracted_tool_calls_total")
    assert (3 if name == "D18" else 0) == scorer.total("loopguard_runs_total", sampled="true")
    duplicates = scorer.total("loopguard_duplicate_spans_total")
    duplicates -= scorer.total("loopguard_retracted_duplicate_spans_total")
    assert {"G02": 4, "G07": 4}.get(name, 0) == duplicates
    scorer.store.close()


def test_the_first_loop_is_seen_from_zero(tmp_path: Path) -> None:
    """G06, with a scraper: before the first loop counts, a scrape has seen the loops of its service at 0."""
    scorer, deliveries = of_case("G01", tmp_path / "data", wait_ns=10**12)
    for spans in deliveries:
        scorer.take(spans)
    scorer.judge_all()
    assert [] == list(scorer.store.runs())
    snapshot = scorer.counted.snapshot(now_ns=scorer.clock())
    loops = {value for (name, labels), value in snapshot.values.items() if ("outcome", "loop") in labels}
    assert {0.0} == loops
    scorer.counted.seen(snapshot)
    scorer.judge_all()
    assert 1 == len(list(scorer.store.runs()))
    assert 1 == scorer.total("loopguard_runs_total")
    scorer.store.close()


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32), copies=st.integers(1, 3), requests=st.integers(1, 12))
def test_any_delivery_nets_to_the_same(
    tmp_path_factory: pytest.TempPathFactory, seed: int, copies: int, requests: int
) -> None:
    """Captures cut into requests at random, repeated, judged and begun anew in between: one net, wherever one looks."""
    rules, chance = policy.default(), random.Random(seed)
    spans = [item for path in CAPTURES for item in items_of(path) if isinstance(item, Span)]
    clean = Scorer(tmp_path_factory.mktemp("clean"), rules)
    clean.take(spans)
    clean.judge_all()
    scorer = Scorer(tmp_path_factory.mktemp("data"), rules)
    shuffled = chance.sample(spans * copies, len(spans) * copies)
    size = -(-len(shuffled) // requests)
    for start in range(0, len(shuffled), size):
        scorer.take(shuffled[start : start + size])
        if chance.random() < 0.5:
            scorer.judge_all()
        if chance.random() < 0.3:
            scorer.again()
    scorer.judge_all()
    runs = list(scorer.store.runs())
    assert rounded(scorer.counted.recount(runs)) == rounded(scorer.counted.net())
    assert rounded(scorer.store.totals()) == rounded(dict(scorer.counted.snapshot(now_ns=scorer.clock()).values))
    of_runs = {one: value for one, value in scorer.counted.net().items() if "duplicate_spans" not in one[0]}
    assert rounded(of_runs) == rounded(
        {one: value for one, value in clean.counted.net().items() if "duplicate_spans" not in one[0]}
    )
    at_once = Scorer(tmp_path_factory.mktemp("once"), rules)
    at_once.take(shuffled)
    at_once.judge_all()
    assert rounded(at_once.counted.net()) == rounded(scorer.counted.net())
    for one in (scorer, clean, at_once):
        one.store.close()


def test_every_verdict_of_the_store_reaches_the_file(tmp_path: Path) -> None:
    """Judged, revised, and begun anew between writing a batch and noting it: each is there, repeats are told apart."""
    scorer, path = Scorer(tmp_path / "data", policy.default()), tmp_path / "verdicts.jsonl"
    spans = [item for capture in CAPTURES for item in items_of(capture) if isinstance(item, Span)]
    sink = VerdictFile(path)
    for part in (spans[::2], spans[1::2]):
        scorer.take(part)
        scorer.judge_all()
        # As a process does that is killed right after it has written.
        sink.send([run for _, run in scorer.store.outbox("file", 5)])
        scorer.again()
        outlet = Outlet(scorer.store, sink)
        while scorer.store.backlog("file"):
            outlet.step()
    written = [msgspec.json.decode(line, type=Verdict) for line in path.read_bytes().splitlines()]
    stored = [run.verdict for run in scorer.store.runs()]
    latest = {verdict.run_id: verdict for verdict in written}
    assert {verdict.run_id: verdict for verdict in stored} == {
        verdict.run_id: latest[verdict.run_id] for verdict in stored
    }
    told_apart = {(verdict.run_id, verdict.revision) for verdict in written}
    assert len(told_apart) < len(written)
    assert len(told_apart) == len({msgspec.json.encode(verdict) for verdict in written})
    scorer.store.close()
