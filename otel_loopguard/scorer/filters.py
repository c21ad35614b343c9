"""Which judged runs are wanted, and in what order: as conditions of a query to the database.

Invariants: pure; no value becomes part of a query's text.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from otel_loopguard.model import RunOutcome
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


def place(run: JudgedRun) -> Place:
    """Returns where a run stands in the list."""
    return (run.judged_ns, run.run_id)


def where(filters: Filters, before: Place | None = None) -> tuple[str, tuple[Any, ...]]:
    """Returns the condition on rows of the table `run`, and its values.

    Agent and tool stand in a row's record alone: a filter by them reads the rows that the others leave.
    """
    tests: dict[str, Any] = {
        "outcome = ?": None if filters.outcome is None else filters.outcome.value,
        "service = ?": filters.service,
        "release = ?": filters.release,
        "judged_ns >= ?": filters.since_ns,
        "json_extract(record, '$.verdict.agent') = ?": filters.agent,
        "EXISTS (SELECT 1 FROM json_each(record, '$.tools') WHERE key = ?)": filters.tool,
    }
    given: dict[str, tuple[Any, ...]] = {test: (value,) for test, value in tests.items() if value is not None}
    if before is not None:
        given["(judged_ns, run_id) < (?, ?)"] = before
    return " AND ".join(given) or "TRUE", tuple(value for values in given.values() for value in values)
