"""What the list of runs shows, as records; the JSON beside the page is these records encoded.

Invariants: pure; names and numbers only, no markup.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from otel_loopguard.model import Finding, Kind, RunOutcome, Severity, TerminationReason
from otel_loopguard.scorer.filters import place
from otel_loopguard.scorer.pages.addresses import Query, list_path, run_path
from otel_loopguard.scorer.records import Close, JudgedRun

PAGE_RUNS: Final = 50
"""Runs on one page of the list."""
_NS_PER_MS: Final = 1_000_000


class FoundRow(msgspec.Struct, frozen=True, kw_only=True):
    """One finding, as a list shows it."""

    kind: Kind
    severity: Severity
    tool: str
    count: int


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """One run, as a list shows it."""

    run_id: str
    path: str
    """Of its page."""
    outcome: RunOutcome
    revision: int
    final: bool
    backfill: bool
    close: Close
    service: str | None
    release: str | None
    agent: str | None
    model: str | None
    judged_ns: int
    """Unix time."""
    started_ns: int | None
    duration_ms: float | None
    calls: int
    distinct_calls: int
    turns: int
    spans: int
    tools: Mapping[str, int]
    """Calls by tool."""
    findings: tuple[FoundRow, ...]
    """Loops first, then as in the verdict."""
    termination_reason: TerminationReason
    wasted_calls: int
    wasted_ms: float
    wasted_tokens: int


class OutcomeCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many of the runs have one outcome."""

    outcome: RunOutcome
    runs: int
    path: str
    """Of the list of these runs, the other filters being equal."""


class RunsPage(msgspec.Struct, frozen=True, kw_only=True):
    """The list of runs, newest first."""

    filters: Mapping[str, str]
    total: int
    """Runs of any outcome that the other filters leave."""
    outcomes: tuple[OutcomeCount, ...]
    """In the order of severity, only those that there are, and the one that is asked for."""
    runs: tuple[RunRow, ...]
    newest: str
    """Address of the first page."""
    any_outcome: str
    """Address of the list whatever the outcome."""
    older: str | None
    """Address of the page that follows."""
    first_page: bool


def run_row(run: JudgedRun) -> RunRow:
    """Returns one run, as a list shows it."""
    verdict = run.verdict
    started, ended = verdict.started_ns, verdict.ended_ns
    return RunRow(
        run_id=run.run_id,
        path=run_path(run.run_id),
        outcome=verdict.outcome,
        revision=verdict.revision,
        final=verdict.final,
        backfill=run.backfill,
        close=run.close,
        service=verdict.service,
        release=verdict.release,
        agent=verdict.agent,
        model=verdict.model,
        judged_ns=run.judged_ns,
        started_ns=started,
        duration_ms=None if started is None or ended is None else milliseconds(started, ended),
        calls=verdict.calls,
        distinct_calls=verdict.distinct_calls,
        turns=verdict.turns,
        spans=run.spans,
        tools=run.tools,
        findings=tuple(map(_found, sorted(verdict.findings, key=lambda one: one.severity is not Severity.LOOP))),
        termination_reason=verdict.termination_reason,
        wasted_calls=verdict.wasted_calls,
        wasted_ms=verdict.wasted_ms,
        wasted_tokens=verdict.wasted_tokens,
    )


def _found(finding: Finding) -> FoundRow:
    return FoundRow(kind=finding.kind, severity=finding.severity, tool=finding.tool, count=finding.count)


def milliseconds(start_ns: int, end_ns: int) -> float:
    """Returns the time between two others, at least 0."""
    return round(max(0, end_ns - start_ns) / _NS_PER_MS, 3)


def runs_page(runs: Sequence[JudgedRun], counts: Mapping[RunOutcome, int], query: Query) -> RunsPage:
    """Makes the list of runs.

    Args:
        runs: as the source gave them for `query`, one more than a page holds where there are older ones.
        counts: by outcome.
        query: what the address asks for.
    """
    shown = runs[:PAGE_RUNS]
    given = query.given
    others = {name: text for name, text in given.items() if name != "outcome"}
    return RunsPage(
        filters=given,
        total=sum(counts.values()),
        outcomes=tuple(
            OutcomeCount(
                outcome=outcome, runs=counts.get(outcome, 0), path=list_path("/", {**others, "outcome": outcome.value})
            )
            for outcome in RunOutcome
            if counts.get(outcome) or outcome is query.filters.outcome
        ),
        runs=tuple(map(run_row, shown)),
        newest=list_path("/", given),
        any_outcome=list_path("/", others),
        older=list_path("/", given, before=place(shown[-1])) if len(runs) > PAGE_RUNS else None,
        first_page=query.before is None,
    )
