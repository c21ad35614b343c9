"""Judged runs in memory, for the pages to show: groups of spans, judged as replay judges them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import msgspec

from otel_loopguard import policy as policies
from otel_loopguard.assembly import assemble
from otel_loopguard.demo.scenes import POLICY
from otel_loopguard.demo.watch import watch
from otel_loopguard.facts import FactsReader
from otel_loopguard.lint import evidence_of
from otel_loopguard.model import CallRecord, Run, RunOutcome, Span, SpanFacts
from otel_loopguard.policy import Policy
from otel_loopguard.processor.received import attributes_of, received
from otel_loopguard.scorer.filters import Filters, Place, place
from otel_loopguard.scorer.pages.source import Health
from otel_loopguard.scorer.records import Close, JudgedRun
from otel_loopguard.verdict import judge
from tests.replaying import DIGESTER, items_of

NOW_NS = 1_790_000_000_000_000_000
ROOT = Path(__file__).resolve().parent.parent.parent
SPANS = ROOT / "fixtures/spans"
DEMO_POLICY = policies.load(msgspec.json.encode(POLICY).decode(), source="the demo's policy")


def matches(run: JudgedRun, filters: Filters) -> bool:
    """Tells whether a run is wanted."""
    verdict = run.verdict
    return (
        filters.outcome in (None, verdict.outcome)
        and filters.service in (None, verdict.service)
        and filters.release in (None, verdict.release)
        and filters.agent in (None, verdict.agent)
        and (filters.tool is None or filters.tool in run.tools)
        and (filters.since_ns is None or run.judged_ns >= filters.since_ns)
    )


class MemorySource:
    """Keeps runs in a list."""

    def __init__(self, policy: Policy = DEMO_POLICY) -> None:
        self.policy = policy
        self.kept: dict[str, JudgedRun] = {}
        self.groups: dict[str, tuple[SpanFacts, ...]] = {}
        self.names: dict[str, str] = {}
        """What a run is called by its spans, where its id is another."""
        self.told = Health(started_ns=NOW_NS - 3_600_000_000_000)

    def runs(self, filters: Filters, *, before: Place | None, limit: int) -> Sequence[JudgedRun]:
        """Newest first."""
        found = sorted((run for run in self.kept.values() if matches(run, filters)), key=place, reverse=True)
        return [run for run in found if before is None or place(run) < before][:limit]

    def counts(self, filters: Filters) -> Mapping[RunOutcome, int]:
        """By outcome."""
        wanted = msgspec.structs.replace(filters, outcome=None)
        return Counter(run.verdict.outcome for run in self.kept.values() if matches(run, wanted))

    def run(self, run_id: str) -> JudgedRun | None:
        """One of them."""
        return self.kept.get(run_id)

    def assembled(self, run_id: str) -> Run | None:
        """From the facts of its group."""
        runs = assemble(list(self.groups.get(run_id, ())), self.policy)
        return next((run for run in runs if self.names.get(run_id, run_id) == run.run_id), None)

    def health(self) -> Health:
        """As it was set."""
        return self.told

    # --- putting in ---------------------------------------------------------------------------------------

    def add_facts(self, facts: Iterable[SpanFacts], *, judged_ns: int = NOW_NS) -> list[JudgedRun]:
        """Judges one group and keeps its runs."""
        group = tuple(facts)
        made: list[JudgedRun] = []
        for run in assemble(list(group), self.policy):
            verdict, seen = judge(run, self.policy)
            made.append(
                JudgedRun(
                    run_id=run.run_id,
                    verdict=verdict,
                    close=Close.ROOT_ENDED,
                    judged_ns=judged_ns + len(made),
                    backfill=False,
                    spans=len(group),
                    tools=Counter(call.facts.tool for call in run.calls),
                    lint=evidence_of(run.calls, seen, self.policy),
                )
            )
            self.kept[run.run_id] = made[-1]
            self.groups[run.run_id] = group
        return made

    def add(self, items: Iterable[Span | CallRecord], *, judged_ns: int = NOW_NS) -> list[JudgedRun]:
        """The same of spans or call records."""
        reader = FactsReader(self.policy, lambda _: DIGESTER)
        facts = [reader.of_span(item) if isinstance(item, Span) else reader.of_record(item) for item in items]
        return self.add_facts(facts, judged_ns=judged_ns)


@cache
def demo_spans() -> Mapping[str, tuple[Span, ...]]:
    """The demo's scenes by name, as they leave the application."""
    return {
        watched.scene.name: tuple(received(span, attributes_of(span)) for span in watched.left)
        for watched in watch().watched
    }


def demo_source() -> MemorySource:
    """All scenes of the demo, judged one second after the other."""
    source = MemorySource()
    for number, spans in enumerate(demo_spans().values()):
        source.add(spans, judged_ns=NOW_NS + number * 1_000_000_000)
    return source


def file_items(name: str) -> tuple[Span | CallRecord, ...]:
    """The spans of one capture."""
    return items_of(SPANS / name)
