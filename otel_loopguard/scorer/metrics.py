"""The one table of all metrics: the totals, both formats of the endpoint, OTLP, docs and dashboards come from it.

Invariants: no label holds an id or a digest, and every label has a closed list of values or a cap (`totals`).
Counters never go down: a run counts once, at its first verdict; what a later verdict takes back is added to a counter
of its own, so that net = total - retracted, and for outcomes net = runs + revised to - revised from. Pure.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final

import msgspec

from otel_loopguard.model import Action, RunOutcome, Severity, TerminationReason, Unknown
from otel_loopguard.scorer.records import Close, Series
from otel_loopguard.verdict import INCOMPLETE_FLAGS

PREFIX: Final = "loopguard_"
NONE: Final = "__none__"
"""Label value where nothing names the service, release, agent or tool."""
OTHER: Final = "__other__"
"""Label value of all names past a cap."""
OLD: Final = "__old__"
"""Label value of all releases that are not among a service's newest."""
GONE: Final = "__gone__"
"""Where the totals of a release go that is no longer among the newest; kept for the net, never shown."""
WITHDRAWN: Final = "withdrawn"
"""What a run is revised to that turned out to be a part of another."""
MOVED: Final = "moved"
"""What a run is revised to under its old labels, and from under its new ones, where late spans changed these."""


class Shape(StrEnum):
    """How a metric is counted."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Source(StrEnum):
    """When a metric changes."""

    OUTCOME = "outcome"
    """With a run's first verdict; a counter of revisions nets it."""
    RUN = "run"
    """With each verdict of a run, by what it brings; what it takes back goes to the retracted counter."""
    EVENT = "event"
    """With verdicts, and is never taken back."""
    STATE = "state"
    """Stored beside the totals and says something about them."""
    HEALTH = "health"
    """With the scorer's process, from whose start it counts."""


class Unit(StrEnum):
    """Base units; the end of the name, and the unit in OTLP."""

    NONE = ""
    SECONDS = "seconds"
    BYTES = "bytes"

    @property
    def otlp(self) -> str:
        """As UCUM has it; empty for counts, whose unit is their name."""
        return {"seconds": "s", "bytes": "By"}.get(self.value, "")


class Label(msgspec.Struct, frozen=True, kw_only=True):
    """One label."""

    name: str
    doc: str
    values: tuple[str, ...] | None = None
    """All that there are; None where names from outside are capped, or another table lists the words."""


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """One metric. Its series in the totals bear the names of Prometheus' samples."""

    name: str
    """As in OpenMetrics: with the unit, without `_total`."""
    doc: str
    shape: Shape = Shape.COUNTER
    source: Source
    unit: Unit = Unit.NONE
    labels: tuple[str, ...] = ()
    """Sorted, as in every series."""
    buckets: tuple[float, ...] = ()
    """Upper bounds of a histogram, ascending; the last bucket has none."""
    zeros: bool = False
    """Its series are shown at 0 before they count, so that an alert on an increase sees the first."""

    @property
    def sample(self) -> str:
        """The name of its samples in Prometheus' text; of a histogram, their common beginning."""
        return f"{self.name}_total" if self.shape is Shape.COUNTER else self.name

    @property
    def otlp_name(self) -> str:
        """The name in OTLP, of which a translation to Prometheus makes the same name again."""
        name = self.name.replace(PREFIX, "loopguard.", 1)
        return name.removesuffix(f"_{self.unit.value}") if self.unit else name

    def series(self, labels: Mapping[str, str] | None = None) -> Series:
        """The series with these labels.

        Raises:
            ValueError: a label is missing, or is not of this metric.
        """
        given = labels or {}
        if set(given) != set(self.labels):
            message = f"{self.name} has the labels {', '.join(self.labels) or '(none)'}"
            raise ValueError(message)
        return self.sample, tuple([(one, given[one]) for one in self.labels])


def _words(members: Iterable[StrEnum]) -> tuple[str, ...]:
    """Plain text: labels are stored and compared."""
    return tuple([member.value for member in members])


AGENT: Final = "agent"
RELEASE: Final = "release"
SAMPLED: Final = "sampled"
SERVICE: Final = "service_name"
TOOL: Final = "tool"
_TRUTHS: Final = ("false", "true")

LABELS: Final = {
    one.name: one
    for one in (
        Label(name=SERVICE, doc=f"The run's `service.name`: 20 of them, then `{OTHER}`."),
        Label(name=RELEASE, doc=f"Its `service.version`: the service's newest 20, then `{OLD}`."),
        Label(name=AGENT, doc=f"Its outermost agent: 10 of a service, then `{OTHER}`."),
        Label(name=TOOL, doc=f"The tool: 50 of a service, then `{OTHER}`."),
        Label(name=SAMPLED, values=_TRUTHS, doc="Whether its traces were sampled: such counts are not whole."),
        Label(name="outcome", values=_words(RunOutcome), doc="The verdict's outcome."),
        Label(name="kind", doc="Of findings, the pattern; of duplicates, why a span was not counted."),
        Label(name="severity", values=_words(Severity), doc="What the finding claims."),
        Label(name="reason", doc="Why."),
        Label(name="termination", values=_words(TerminationReason), doc="How the run ended."),
        Label(
            name="missing", values=_words(sorted(INCOMPLETE_FLAGS)), doc="What is missing, as a flag of the verdict."
        ),
        Label(name="unknown", values=_words(Unknown), doc="Why calls have no digest."),
        Label(name="action", values=_words(one for one in Action if one is not Action.ALLOW), doc="What was decided."),
        Label(name="enforced", values=_TRUTHS, doc="Whether a guard acted so, or one would have."),
        Label(name="close", values=_words(Close), doc="Why the run was judged when it was."),
        Label(name="from", values=(*_words(RunOutcome), MOVED), doc="The outcome before."),
        Label(name="to", values=(*_words(RunOutcome), WITHDRAWN, MOVED), doc="The outcome after."),
        Label(name="protocol", values=("grpc", "http"), doc="How it came."),
        Label(
            name="result",
            doc="`taken`; `partly_taken`: some spans were rejected; `cut_off`: the sender went away; `failed`: a fault "
            "of the scorer's; else why it was refused, such as `disk_full`, `busy`, `malformed`.",
        ),
        Label(name="sink", doc="Where it is sent: `file`, `otlp` (verdicts), `otlp_metrics`."),
        Label(name="version", doc="The version of this package."),
    )
}

_BASE: Final = (SAMPLED, SERVICE)


def _sorted(*labels: str) -> tuple[str, ...]:
    return tuple(sorted(labels))


def _of_runs(name: str, doc: str, *labels: str, unit: Unit = Unit.NONE, zeros: bool = True) -> Metric:
    return Metric(
        name=PREFIX + name, doc=doc, source=Source.RUN, labels=_sorted(*_BASE, *labels), unit=unit, zeros=zeros
    )


def _health(name: str, doc: str, *labels: str, shape: Shape = Shape.COUNTER, unit: Unit = Unit.NONE) -> Metric:
    return Metric(name=PREFIX + name, doc=doc, source=Source.HEALTH, labels=_sorted(*labels), shape=shape, unit=unit)


RUNS: Final = Metric(
    name="loopguard_runs",
    doc="Runs, each once, by the outcome of its first verdict.",
    source=Source.OUTCOME,
    labels=_sorted(*_BASE, RELEASE, "outcome"),
    zeros=True,
)
REVISIONS: Final = Metric(
    name="loopguard_run_revisions",
    doc="Verdicts given anew because spans came late; the net of an outcome is runs + revised to it - revised from it.",
    source=Source.OUTCOME,
    labels=_sorted(*_BASE, RELEASE, "from", "to"),
)
BACKFILL_RUNS: Final = Metric(
    name="loopguard_backfill_runs",
    doc="Runs that had ended more than 15 minutes before they came; no other metric of runs counts them.",
    source=Source.OUTCOME,
    labels=_sorted(SERVICE, "outcome"),
)
BACKFILL_REVISIONS: Final = Metric(
    name="loopguard_backfill_run_revisions",
    doc="Verdicts of such runs given anew.",
    source=Source.OUTCOME,
    labels=_sorted(SERVICE, "from", "to"),
)
AGENT_RUNS: Final = _of_runs("agent_runs", "Runs by agent.", AGENT, "outcome")
TERMINATIONS: Final = _of_runs("run_terminations", "Runs by how they ended.", "termination")
INCOMPLETE: Final = _of_runs(
    "incomplete_runs", "Runs of the outcome `incomplete`, once for each thing that is missing.", "missing"
)
FINDINGS: Final = _of_runs("findings", "Findings.", "kind", "severity", TOOL)
DECISIONS: Final = _of_runs("decisions", "Decisions of guards, other than to allow.", "action", "enforced")
AFTER_FINDING: Final = _of_runs("executions_after_finding", "Executions of a loop's call after the loop was found.")
AFTER_DENIAL: Final = _of_runs("executions_after_denial", "Executions of a call after a guard had denied it.")
SIDE_EFFECTS: Final = _of_runs("side_effects_after_denial", "Those of them that are declared writes.")
WASTED_CALLS: Final = _of_runs("wasted_calls", "Executed calls of loops but the first.", RELEASE)
WASTED_SECONDS: Final = _of_runs("wasted_seconds", "The time that they took.", RELEASE, unit=Unit.SECONDS)
WASTED_TOKENS: Final = _of_runs("wasted_tokens", "Tokens of responses that asked for nothing else.", RELEASE)
CALLS: Final = _of_runs("tool_calls", "Tool calls, each once however many spans show it.", TOOL)
UNKNOWN_CALLS: Final = _of_runs("unknown_calls", "Tool calls without a digest.", "unknown", zeros=False)
DUPLICATES: Final = _of_runs("duplicate_spans", "Spans of runs that were not counted.", "kind", zeros=False)
RUN_CALLS: Final = Metric(
    name="loopguard_run_tool_calls",
    doc="Tool calls of a run.",
    shape=Shape.HISTOGRAM,
    source=Source.RUN,
    labels=_sorted(*_BASE, "outcome"),
    buckets=(0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0),
)
VERDICTS: Final = Metric(
    name="loopguard_verdicts",
    doc="Verdicts, first ones and revisions, of old runs too.",
    source=Source.EVENT,
    labels=("close",),
)
LAG: Final = Metric(
    name="loopguard_verdict_lag_seconds",
    doc="From a run's last end to its first verdict.",
    shape=Shape.HISTOGRAM,
    source=Source.EVENT,
    unit=Unit.SECONDS,
    labels=("close",),
    buckets=(1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 900.0),
)
RELEASE_SEEN: Final = Metric(
    name="loopguard_release_first_seen_timestamp_seconds",
    doc="When the first run of a release was judged, in Unix time.",
    shape=Shape.GAUGE,
    source=Source.STATE,
    unit=Unit.SECONDS,
    labels=_sorted(RELEASE, SERVICE),
)
START: Final = Metric(
    name="loopguard_totals_start_timestamp_seconds",
    doc="Since when the totals count, in Unix time: restarts do not begin them anew.",
    shape=Shape.GAUGE,
    source=Source.STATE,
    unit=Unit.SECONDS,
)
REQUESTS: Final = _health("requests", "Export requests, by what became of them.", "protocol", "result")
SENT_BYTES: Final = _health("request_bytes", "Their bodies, as they were sent.", "protocol", unit=Unit.BYTES)
UNPACKED_BYTES: Final = _health("unpacked_request_bytes", "The same, unpacked.", "protocol", unit=Unit.BYTES)
RECEIVED_SPANS: Final = _health("received_spans", "Spans that were acknowledged: they are on disk.", "protocol")
REJECTED_SPANS: Final = _health("rejected_spans", "Spans that were refused inside a request that was taken.", "reason")
MENDED_SPANS: Final = _health("mended_spans", "Spans that were kept without a part that cannot be read.", "reason")
COMMITS: Final = _health("commits", "Transactions on disk.")
FAILED_COMMITS: Final = _health("failed_commits", "Transactions that the disk did not take.")
WAITING_BYTES: Final = _health("waiting_bytes", "What waits to be written.", shape=Shape.GAUGE, unit=Unit.BYTES)
DATA_BYTES: Final = _health("data_bytes", "Size of the data folder.", shape=Shape.GAUGE, unit=Unit.BYTES)
OPEN_GROUPS: Final = _health("open_groups", "Groups of traces that are not judged yet.", shape=Shape.GAUGE)
OPEN_SPANS: Final = _health("open_spans", "Their spans.", shape=Shape.GAUGE)
JUDGING_LAG: Final = _health(
    "judging_lag_seconds",
    "How long the group that is due the longest has been so.",
    shape=Shape.GAUGE,
    unit=Unit.SECONDS,
)
FAILED_SETTLEMENTS: Final = _health("failed_settlements", "Judged groups that were not written, and are judged again.")
EVICTED_RUNS: Final = _health("evicted_runs", "Judged runs that were deleted; the totals keep them.", "reason")
BACKLOG: Final = _health("outbox_verdicts", "Verdicts not sent yet.", "sink", shape=Shape.GAUGE)
SENT: Final = _health("sent_verdicts", "Verdicts that were sent.", "sink")
SEND_FAILURES: Final = _health("send_failures", "Sendings that failed and are repeated.", "reason", "sink")
SEND_REJECTED: Final = _health("rejected_verdicts", "Verdicts that a sink will never take.", "sink")
BUILD: Final = _health("build_info", "Always 1.", "version", shape=Shape.GAUGE)

_LISTED: Final = (
    RUNS,
    REVISIONS,
    AGENT_RUNS,
    TERMINATIONS,
    INCOMPLETE,
    FINDINGS,
    DECISIONS,
    AFTER_FINDING,
    AFTER_DENIAL,
    SIDE_EFFECTS,
    WASTED_CALLS,
    WASTED_SECONDS,
    WASTED_TOKENS,
    CALLS,
    RUN_CALLS,
    UNKNOWN_CALLS,
    DUPLICATES,
    BACKFILL_RUNS,
    BACKFILL_REVISIONS,
    VERDICTS,
    LAG,
    RELEASE_SEEN,
    START,
    REQUESTS,
    SENT_BYTES,
    UNPACKED_BYTES,
    RECEIVED_SPANS,
    REJECTED_SPANS,
    MENDED_SPANS,
    COMMITS,
    FAILED_COMMITS,
    WAITING_BYTES,
    DATA_BYTES,
    OPEN_GROUPS,
    OPEN_SPANS,
    JUDGING_LAG,
    FAILED_SETTLEMENTS,
    EVICTED_RUNS,
    BACKLOG,
    SENT,
    SEND_FAILURES,
    SEND_REJECTED,
    BUILD,
)


def _retracted(metric: Metric) -> Metric:
    return msgspec.structs.replace(
        metric,
        name=metric.name.replace(PREFIX, f"{PREFIX}retracted_", 1),
        doc=f"What later verdicts took back of `{metric.sample}`.",
        source=Source.EVENT,
        zeros=False,
    )


RETRACTED: Final = {metric.name: _retracted(metric) for metric in _LISTED if metric.source is Source.RUN}
"""By the name of the metric that it takes back from."""
METRICS: Final = tuple(
    itertools.chain.from_iterable(
        (metric, RETRACTED[metric.name]) if metric.name in RETRACTED else (metric,) for metric in _LISTED
    )
)
"""Every metric, each with its retracted twin after it."""


def _samples(metric: Metric) -> Iterator[str]:
    if metric.shape is Shape.HISTOGRAM:
        yield f"{metric.name}_bucket"
        yield f"{metric.name}_sum"
    else:
        yield metric.sample


METRIC_OF: Final = {sample: metric for metric in METRICS for sample in _samples(metric)}
"""By the name of a series. A histogram's `_bucket` series hold the observations of one bucket each, not those of all
below it; their number is the count."""
TWIN_OF: Final = {
    sample: twin
    for metric in _LISTED
    if metric.name in RETRACTED
    for sample, twin in zip(_samples(metric), _samples(RETRACTED[metric.name]), strict=True)
}
"""The series in which it is counted what is taken back of a series, by names."""
BY_TWIN: Final = {twin: sample for sample, twin in TWIN_OF.items()}
"""And the other way round."""
