"""What the pages are made from: the interface to whatever keeps the judged runs, and the numbers of its health.

Invariants: plain records; a source only answers and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from otel_loopguard.model import Run, RunOutcome
from otel_loopguard.policy import Policy
from otel_loopguard.scorer.filters import Filters, Place
from otel_loopguard.scorer.records import JudgedRun


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
    failed_commits: int = 0
    failed_settlements: int = 0
    """Verdicts that could not be written, and are made again."""
    verdicts: int = 0
    """Revisions included, since the data folder was begun."""
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

    def assembled(self, run_id: str) -> Run | None:
        """Returns its calls, assembled anew from what is kept of its group; None where that is gone."""

    def health(self) -> Health:
        """Returns how the scorer does."""
