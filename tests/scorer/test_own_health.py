"""What the scorer says of itself: every counter reaches its metric, and none begins with its first count."""

from __future__ import annotations

from otel_loopguard.files.reasons import Reason
from otel_loopguard.scorer.counts import Counts, Transport
from otel_loopguard.scorer.metrics import METRICS, Source
from otel_loopguard.scorer.own_health import RESULTS, Work, health
from otel_loopguard.scorer.records import Refusal
from otel_loopguard.scorer.writer import WriterCounts

OUTPUTS = {
    "loopguard_outbox_verdicts",
    "loopguard_sent_verdicts",
    "loopguard_send_failures",
    "loopguard_rejected_verdicts",
}
WORK = Work(open_groups=3, open_spans=40, lag_s=0.5, failed_settlements=2, data_bytes=5000, evicted={"age": 7})


def shown(counts: Counts) -> dict[str, dict[str, float]]:
    """What is above 0: by metric, and by the values of its labels."""
    written = WriterCounts(commits=9, failed_commits=1, waiting_bytes=100)
    found: dict[str, dict[str, float]] = {}
    for (name, labels), value in health(counts.read(), written, WORK, version="0.1.0").items():
        if value:
            found.setdefault(name.removeprefix("loopguard_"), {})[" ".join(text for _, text in labels)] = value
    return found


def test_every_count_reaches_its_metric() -> None:
    """Requests, spans, bytes, the store, the judge and the folder."""
    counts = Counts()
    counts.body(Transport.HTTP, sent=100, unpacked=900)
    counts.took(Transport.HTTP, spans=8, rejected={"bad_span": 2}, mended={"bad_link_id": 1})
    counts.ended(Transport.GRPC, Refusal.BUSY.value)
    assert {
        "commits_total": {"": 9},
        "failed_commits_total": {"": 1},
        "waiting_bytes": {"": 100},
        "data_bytes": {"": 5000},
        "open_groups": {"": 3},
        "open_spans": {"": 40},
        "judging_lag_seconds": {"": 0.5},
        "failed_settlements_total": {"": 2},
        "build_info": {"0.1.0": 1},
        "requests_total": {"http partly_taken": 1, "grpc busy": 1},
        "received_spans_total": {"http": 8},
        "request_bytes_total": {"http": 100},
        "unpacked_request_bytes_total": {"http": 900},
        "rejected_spans_total": {"bad_span": 2},
        "mended_spans_total": {"bad_link_id": 1},
        "evicted_runs_total": {"age": 7},
    } == shown(counts)


def test_everything_begins_at_zero() -> None:
    """Before anything has come, all words of all counters are there, and every metric of the table is."""
    found = health(Counts().read(), WriterCounts(), WORK, version="0")
    results = {(dict(labels)["protocol"], dict(labels)["result"]) for name, labels in found if "_requests_" in name}
    assert {(protocol.value, result) for protocol in Transport for result in RESULTS} == results
    assert set(map(str, Reason)) == {dict(labels)["reason"] for name, labels in found if "rejected_spans" in name}
    assert {metric.sample for metric in METRICS if metric.source is Source.HEALTH and metric.name not in OUTPUTS} == {
        name for name, _ in found
    }


def test_a_field_behind_a_reason_is_no_label() -> None:
    """What stands behind a colon is left out, and the counts are added up."""
    counts = Counts()
    counts.took(Transport.HTTP, spans=1, rejected={"bad_field:ts": 1, "bad_field:tool": 2}, mended={})
    assert {"bad_field": 3} == shown(counts)["rejected_spans_total"]
