"""What the parts of the scorer hand to each other.

Invariants: plain records; no content of a span is in any of them. Reasons are closed enumerations, as they are
labels of metrics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from enum import StrEnum
from typing import Final, Protocol, TypeAlias

import msgspec

from otel_loopguard.errors import LoopGuardError
from otel_loopguard.lint import Evidence
from otel_loopguard.model import Span, Verdict

Labels: TypeAlias = tuple[tuple[str, str], ...]
"""Names and values of labels, sorted by name."""
Series: TypeAlias = tuple[str, Labels]
"""One metric and one set of labels."""
Totals: TypeAlias = Mapping[Series, float]


class Refusal(StrEnum):
    """Why a whole request was not taken; nothing of it was kept."""

    DISK_FULL = "disk_full"
    STORE_FAILED = "store_failed"
    BUSY = "busy"
    """More waits to be written than may wait."""
    RATE = "rate"
    TOO_SLOW = "too_slow"
    """The body did not arrive in time."""
    STOPPING = "stopping"
    TOO_LARGE = "too_large"
    """The body as it was sent."""
    TOO_LARGE_UNPACKED = "too_large_unpacked"
    BAD_COMPRESSION = "bad_compression"
    UNKNOWN_COMPRESSION = "unknown_compression"
    UNKNOWN_TYPE = "unknown_type"
    MALFORMED = "malformed"
    UNAUTHENTICATED = "unauthenticated"


RETRYABLE: Final = frozenset(
    {
        Refusal.DISK_FULL,
        Refusal.STORE_FAILED,
        Refusal.BUSY,
        Refusal.RATE,
        Refusal.TOO_SLOW,
        Refusal.STOPPING,
    }
)
"""Refusals that a sender is asked to repeat later: the same request may be taken then."""


class RefusedError(LoopGuardError):
    """A request is not taken.

    Args:
        reason: why.
        retry_after_s: when to come again, for a reason of `RETRYABLE`.
    """

    def __init__(self, reason: Refusal, *, retry_after_s: float = 1.0) -> None:
        super().__init__(reason.value)
        self.reason = reason
        self.retry_after_s = retry_after_s


class Row(msgspec.Struct, frozen=True, gc=False):
    """The facts of one span, as they are stored, where it was told from its bytes without reading it."""

    trace_id: str
    facts: bytes
    """`SpanFacts` as MessagePack."""
    ended: bool
    """It has no parent and has ended."""
    joins: tuple[int, tuple[bytes, ...]] | None
    """What is equal for two spans whose facts join their trace to the same others; None: it joins nothing."""


class Intake(Protocol):
    """Takes decoded spans in; the receivers call it, from any thread."""

    def submit(self, spans: Sequence[Span], rows: Sequence[Row] = ()) -> Future[Mapping[str, int]]:
        """Digests the spans and keeps them, and what is known of others already.

        Returns:
            Done when they are on disk; fails with `RefusedError` where they could not be kept. Its result counts,
            by `files.reasons.Reason`, spans of these that were not kept, such as raw ones under `Raw.REFUSE`; the
            answer says so (partial success). Empty for none.

        Raises:
            RefusedError: there is no room for more at the moment, or the scorer is stopping.
        """


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """Spans of one trace that came in one request: one row on disk until their group is judged."""

    trace_id: str
    """32 lower-case hex characters."""
    received_ns: int
    """Unix time."""
    spans: int
    names: tuple[str, ...] = ()
    """What else joins this trace to others: `r:` run ids, `c:` conversations, linked trace ids (`Grouper`)."""
    root_ended: bool = False
    """Whether a span without a parent is among them and has ended."""
    facts: bytes
    """`SpanFacts`, as a MessagePack array."""


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """An arrival that was kept: what is held of it in memory until its group is judged."""

    row: int
    """Its place in the order of arrival, from 1; never used again."""
    trace_id: str
    received_ns: int
    spans: int
    names: tuple[str, ...]
    root_ended: bool


class Close(StrEnum):
    """Why a group was judged when it was."""

    ROOT_ENDED = "root_ended"
    IDLE = "idle"
    AGE_LIMIT = "age_limit"
    SPAN_LIMIT = "span_limit"
    LATE = "late"
    """Spans came to runs that were judged before."""


class JudgedRun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run as it is stored: its verdict and what the metrics were told of it."""

    run_id: str
    verdict: Verdict
    """With its `revision`."""
    close: Close
    judged_ns: int
    backfill: bool
    """Whether it was old when it came: its metrics go apart, which no alert reads. Stays as at its first verdict."""
    spans: int
    """Spans of its group."""
    tools: Mapping[str, int] = {}
    """Calls by tool."""
    labels: Labels = ()
    """What its metrics are counted under; `totals.Accumulated.plan` sets it."""
    withdrawn: bool = False
    """It is no run any more, as its spans are part of another: late ones showed that. The verdict is its last one."""
    lint: Evidence = {}
    """What it tells of the policy, by tool; of most runs nothing."""


def only_copies_came(before: JudgedRun | None, after: JudgedRun | None) -> bool:
    """Tells whether a run is as it was but for how many copies came of its spans: nobody is told of that."""
    if before is None or after is None or before.verdict.revision != after.verdict.revision:
        return False
    return msgspec.structs.replace(before.verdict, duplicates=after.verdict.duplicates) == after.verdict


class Settlement(msgspec.Struct, frozen=True, kw_only=True):
    """What judging one group changes on disk, in one transaction."""

    group: int
    """Number of the group; a new one from `Store.next_group`."""
    rows: tuple[int, ...]
    """Arrivals that are judged with it: their rows go."""
    merged: tuple[int, ...] = ()
    """Groups that were stored before and are now part of this one; their names and facts go."""
    names: tuple[str, ...]
    """All trace ids and joining names of the group: by them late spans find it."""
    facts: bytes
    """All facts of the group, as a MessagePack array."""
    spans: int
    runs: tuple[JudgedRun, ...] = ()
    """Those that are new, or whose verdict changed."""
    recounted: tuple[JudgedRun, ...] = ()
    """Those of which only copies came: kept with their number, and told to nobody."""
    withdrawn: tuple[str, ...] = ()
    """Run ids that the merged groups had and this one has not."""
    totals: Totals = {}
    """What is added to the totals."""
    forgotten: tuple[Series, ...] = ()
    """Totals that are dropped, after the additions: those of releases that are no longer among the newest."""
    judged_ns: int


class StoredGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A judged group, read back because spans came late."""

    group: int
    facts: bytes
    names: tuple[str, ...]
    runs: tuple[JudgedRun, ...]
