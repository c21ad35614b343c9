"""What the scorer says of itself, as series of the metrics of source `health`.

Invariants: every word that a counter may come to count is there at 0 from the start of the process, so that an alert on
an increase sees the first. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from otel_loopguard.files.reasons import Reason
from otel_loopguard.scorer.counts import CUT_OFF, FAILED, PARTLY_TAKEN, TAKEN, Received, Transport
from otel_loopguard.scorer.metrics import (
    BUILD,
    COMMITS,
    DATA_BYTES,
    EVICTED_RUNS,
    FAILED_COMMITS,
    FAILED_SETTLEMENTS,
    JUDGING_LAG,
    MENDED_SPANS,
    OPEN_GROUPS,
    OPEN_SPANS,
    RECEIVED_SPANS,
    REJECTED_SPANS,
    REQUESTS,
    SENT_BYTES,
    UNPACKED_BYTES,
    WAITING_BYTES,
)
from otel_loopguard.scorer.records import Refusal, Series
from otel_loopguard.scorer.retention import Eviction
from otel_loopguard.scorer.writer import WriterCounts

RESULTS: Final = (TAKEN, PARTLY_TAKEN, CUT_OFF, FAILED, *(refusal.value for refusal in Refusal))


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """How the judge and the data folder stand now."""

    open_groups: int
    open_spans: int
    lag_s: float
    """How long the group that is due the longest has been so."""
    failed_settlements: int
    data_bytes: int
    evicted: Mapping[str, int]
    """Runs that went since the start, by `Eviction`."""


def health(received: Received, written: WriterCounts, work: Work, *, version: str) -> dict[Series, float]:
    """All series that are not those of the outputs, which bring their own.

    Args:
        received: what the receivers have counted.
        written: what the store's writer has.
        work: of the judge and the folder.
        version: of this package.
    """
    found: dict[Series, float] = {
        COMMITS.series(): written.commits,
        FAILED_COMMITS.series(): written.failed_commits,
        WAITING_BYTES.series(): written.waiting_bytes,
        DATA_BYTES.series(): work.data_bytes,
        OPEN_GROUPS.series(): work.open_groups,
        OPEN_SPANS.series(): work.open_spans,
        JUDGING_LAG.series(): work.lag_s,
        FAILED_SETTLEMENTS.series(): work.failed_settlements,
        BUILD.series({"version": version}): 1,
    }
    for protocol in Transport:
        named = {"protocol": protocol.value}
        for result in RESULTS:
            found[REQUESTS.series({**named, "result": result})] = received.requests.get((protocol.value, result), 0)
        found[RECEIVED_SPANS.series(named)] = received.spans.get(protocol.value, 0)
        found[SENT_BYTES.series(named)] = received.sent_bytes.get(protocol.value, 0)
        found[UNPACKED_BYTES.series(named)] = received.unpacked_bytes.get(protocol.value, 0)
    for metric, counts in ((REJECTED_SPANS, received.rejected), (MENDED_SPANS, received.mended)):
        for reason in {*map(str, Reason), *counts}:
            # A reason may name one of our own fields behind a colon.
            series = metric.series({"reason": reason.partition(":")[0]})
            found[series] = found.get(series, 0) + counts.get(reason, 0)
    for reason in Eviction:
        found[EVICTED_RUNS.series({"reason": reason.value})] = work.evicted.get(reason.value, 0)
    return found
