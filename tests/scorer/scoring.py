"""A scorer without its servers: intake, judge and a store in memory, driven by a clock of the tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from otel_loopguard.digest import Keyring
from otel_loopguard.facts import FactsReader
from otel_loopguard.model import Duplicates, Span, SpanFacts, Verdict
from otel_loopguard.policy import Policy
from otel_loopguard.replay import Replay
from otel_loopguard.scorer.groups import NS_PER_S, Limits
from otel_loopguard.scorer.intake import IntakeQueue
from otel_loopguard.scorer.judge import Counts, Judge
from otel_loopguard.scorer.records import Arrival, JudgedRun
from tests.replaying import DIGESTER, KEY
from tests.scorer.memory_store import MemoryStore, SlowStore

START_NS: Final = 1_796_000_000 * NS_PER_S
_encode = msgspec.msgpack.Encoder().encode


class Clock:
    """Unix time in nanoseconds, moved by the tests."""

    def __init__(self, now_ns: int = START_NS) -> None:
        self.now_ns = now_ns

    def __call__(self) -> int:
        """The time."""
        return self.now_ns

    def pass_s(self, seconds: float) -> None:
        """Lets time pass; it may go back."""
        self.now_ns += int(seconds * NS_PER_S)


class Scoring:
    """Takes spans in and judges them; `again` begins a new process on the same store."""

    def __init__(self, policy: Policy, *, counts: Counts | None = None, slow: bool = False, **limits: int) -> None:
        self.policy = policy
        self.counts = counts
        self.clock = Clock()
        self.store = SlowStore() if slow else MemoryStore()
        self.limits = Limits(**limits)
        self._start()

    def _start(self, **intake: Any) -> None:
        self.judge = Judge(self.store, self.policy, limits=self.limits, counts=self.counts, clock=self.clock)
        self.recovered = self.judge.recover()
        self.intake = IntakeQueue(
            self.store,
            self.policy,
            Keyring(KEY),
            learn=self.judge.learn,
            load=self.judge.load,
            clock=self.clock,
            **intake,
        )

    def again(self) -> None:
        """As after a crash: all that was in memory is gone."""
        self._start()

    def take(self, items: Sequence[Span | SpanFacts]) -> None:
        """Takes one request in, or facts as an intake would have made them."""
        spans = [item for item in items if isinstance(item, Span)]
        if spans:
            assert {} == self.intake.submit(spans).result()
        facts = [item for item in items if isinstance(item, SpanFacts)]
        if facts:
            arrivals = arrivals_of(self.intake, facts, self.clock())
            rows = self.store.append(arrivals).result()
            pendings = {pending.row: pending for pending in self.store.pending()}
            self.judge.learn([pendings[row] for row in rows])

    def judge_all(self) -> None:
        """Lets time pass until nothing waits."""
        for _ in range(1000):
            self.judge.settle_due()
            if not self.store.rows:
                return
            self.clock.pass_s(30)
        message = f"{len(self.store.rows)} rows are never judged"
        raise AssertionError(message)

    @property
    def runs(self) -> dict[str, JudgedRun]:
        """The runs as they are stored, by id."""
        return {run_id: run for run_id, (_, run) in sorted(self.store.runs.items())}

    def verdicts(self) -> list[Verdict]:
        """What they say, without what depends on how the spans came."""
        return [plain(run.verdict) for run in self.runs.values()]


def arrivals_of(intake: IntakeQueue, facts: Iterable[SpanFacts], now_ns: int) -> list[Arrival]:
    """What an intake makes of facts."""
    by_trace: dict[str, list[SpanFacts]] = {}
    for span in facts:
        by_trace.setdefault(span.trace_id, []).append(span)
    return [intake.arrival(trace_id, spans, now_ns) for trace_id, spans in by_trace.items()]


def plain(verdict: Verdict) -> Verdict:
    """A verdict without revision, `final` and duplicates."""
    return msgspec.structs.replace(verdict, revision=1, final=True, duplicates=Duplicates())


def without_likeness(span: SpanFacts) -> SpanFacts:
    """Facts as the scorer keeps them."""
    if span.call is None or span.call.likenesses is None:
        return span
    return msgspec.structs.replace(span, call=msgspec.structs.replace(span.call, likenesses=None))


def replayed(items: Iterable[Span | SpanFacts], policy: Policy, **limits: int) -> list[Verdict]:
    """The verdicts of `Replay` on the same spans, by run id."""
    reader = FactsReader(policy, lambda _: DIGESTER)
    replay = Replay(policy, DIGESTER, **limits)
    for item in items:
        replay.add(without_likeness(reader.of_span(item) if isinstance(item, Span) else item))
    return sorted((plain(report.verdict) for report in replay.reports()), key=lambda verdict: verdict.run_id)
