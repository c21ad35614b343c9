"""What the pages are made from: the interface to whatever keeps the judged runs, and the numbers of its health.

Invariants: plain records; a source only answers and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

import msgspec

from otel_loopguard.model import RunOutcome, SpanFacts
from otel_loopguard.policy import Policy
from otel_loopguard.scorer.records import JudgedRun

Place: TypeAlias = tuple[int, str]
"""Where a run stands in the list, newest first: (judged_ns, run id)."""


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs are wanted; None: whatever they have."""

    outcome: RunOutcome | None = None
    service: str | None = None
    release: str | None = None
    tool: str | None = None
    """Called at least once."""
    agent: str | None = None
    """The run's own."""
    since_ns: int | None = None
    """Judged at this Unix time or later."""


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """How the scorer itself does. Counts go from its start; sizes are of now."""

    started_ns: int
    """Unix time."""
    requests: int = 0
    spans: int = 0
    """Received and kept."""
    refused: Mapping[str, int] = {}
    """Requests by `Refusal`."""
    rejected: Mapping[str, int] = {}
    """Spans left out of a request that was kept, by reason."""
    open_groups: int = 0
    open_spans: int = 0
    waiting_bytes: int = 0
    """Received and not yet on disk."""
    lag_s: float = 0.0
    """How long the group that is due the longest has been so."""
    judged: int = 0
    """Verdicts, revisions included."""
    runs: int = 0
    """Kept on disk."""
    disk_bytes: int = 0
    max_disk_bytes: int | None = None
    free_bytes: int | None = None
    evicted: Mapping[str, int] = {}
    """Judged runs let go, by reason."""
    outbox: Mapping[str, int] = {}
    """Verdicts that are still to be sent, by where."""


class Source(Protocol):
    """Answers the pages; any thread asks."""

    @property
    def policy(self) -> Policy:
        """By which runs are judged now."""

    def runs(self, filters: Filters, *, before: Place | None, limit: int) -> Sequence[JudgedRun]:
        """Returns at most `limit` runs, newest first, that come after `before` in this order; None: from the first."""

    def counts(self, filters: Filters) -> Mapping[RunOutcome, int]:
        """Returns how many runs there are by outcome, whatever outcome `filters` ask for."""

    def run(self, run_id: str) -> JudgedRun | None:
        """Returns one run."""

    def facts(self, run_id: str) -> Sequence[SpanFacts]:
        """Returns the facts of its group; empty where they are gone."""

    def health(self) -> Health:
        """Returns how the scorer does."""


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


def place(run: JudgedRun) -> Place:
    """Returns where a run stands in the list."""
    return (run.judged_ns, run.run_id)
