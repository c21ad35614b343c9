"""What each verdict adds to the metrics, and what all of it amounts to.

Invariants: pure; nothing that is added is below 0; what is taken back is so under the labels that it was counted under.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Iterable, Mapping

from otel_loopguard.model import Duplicates, Flag, RunOutcome, Verdict
from otel_loopguard.scorer.metrics import (
    AFTER_DENIAL,
    AFTER_FINDING,
    AGENT,
    AGENT_RUNS,
    BACKFILL_REVISIONS,
    BACKFILL_RUNS,
    BY_TWIN,
    CALLS,
    DECISIONS,
    DUPLICATES,
    FINDINGS,
    INCOMPLETE,
    LABELS,
    LAG,
    METRIC_OF,
    METRICS,
    MOVED,
    NONE,
    RELEASE,
    REVISIONS,
    RUN_CALLS,
    RUNS,
    SAMPLED,
    SERVICE,
    SIDE_EFFECTS,
    TERMINATIONS,
    TOOL,
    TWIN_OF,
    UNKNOWN_CALLS,
    VERDICTS,
    WASTED_CALLS,
    WASTED_SECONDS,
    WASTED_TOKENS,
    WITHDRAWN,
    Metric,
    Source,
)
from otel_loopguard.scorer.records import JudgedRun, Labels, Series, Totals, only_copies_came
from otel_loopguard.verdict import INCOMPLETE_FLAGS


def run_labels(verdict: Verdict) -> Labels:
    """What a run is counted under, before any cap."""
    return (
        (AGENT, verdict.agent or NONE),
        (RELEASE, verdict.release or NONE),
        (SAMPLED, _truth(Flag.SAMPLED in verdict.flags)),
        (SERVICE, verdict.service or NONE),
    )


def changes(before: JudgedRun | None, after: JudgedRun | None) -> dict[Series, float]:
    """What a verdict adds to the totals.

    Args:
        before: the run as it was counted; None for a new one.
        after: the run as it is judged now; None where it is withdrawn.

    Returns:
        Amounts by series, all of them above 0. Names of tools are not capped yet.
    """
    first = before or after
    if first is None:
        return {}
    found: dict[Series, float] = {}
    told = not only_copies_came(before, after)
    if told:
        _add_outcome(found, before, after)
    if told and after is not None:
        _add(found, VERDICTS, {"close": after.close})
        if before is None and not after.backfill and after.verdict.ended_ns is not None:
            _observe(found, LAG, {"close": after.close}, max(0, after.judged_ns - after.verdict.ended_ns) / 1e9)
    if first.backfill:
        return found
    was = {} if before is None else _brought(before)
    now = {} if after is None else _brought(after)
    # In the order of the verdicts, not of a set: of tools past a cap, the first ones keep their names.
    for series in {**now, **was}:
        added = now.get(series, 0.0) - was.get(series, 0.0)
        if added > 0:
            found[series] = added
        elif added < 0:
            found[(TWIN_OF[series[0]], series[1])] = -added
    return found


def zeros(labels: Labels) -> list[Series]:
    """The series that a run with these labels may count in and whose other labels are closed lists."""
    named = dict(labels)
    found = []
    for metric in METRICS:
        if not metric.zeros:
            continue
        ways = [(named[one],) if one in named else LABELS[one].values for one in metric.labels]
        closed = [way for way in ways if way is not None]
        if len(closed) == len(ways):
            found += [
                metric.series(dict(zip(metric.labels, values, strict=True))) for values in itertools.product(*closed)
            ]
    return found


def net(totals: Totals) -> dict[Series, float]:
    """What is left of all that was counted: what the runs as they are now would bring, and nothing that is 0.

    Of the metrics of runs only; events and states are left out.
    """
    found: dict[Series, float] = {}
    for (name, labels), value in totals.items():
        metric = METRIC_OF.get(name)
        if metric is None:
            continue
        if metric is REVISIONS or metric is BACKFILL_REVISIONS:
            runs = RUNS if metric is REVISIONS else BACKFILL_RUNS
            named = dict(labels)
            was, now = named.pop("from"), named.pop("to")
            if was != MOVED:
                _add(found, runs, {**named, "outcome": was}, -value)
            if now not in (WITHDRAWN, MOVED):
                _add(found, runs, {**named, "outcome": now}, value)
        elif name in BY_TWIN:
            found[(BY_TWIN[name], labels)] = found.get((BY_TWIN[name], labels), 0.0) - value
        elif metric.source in (Source.OUTCOME, Source.RUN):
            found[(name, labels)] = found.get((name, labels), 0.0) + value
    return {series: value for series, value in found.items() if abs(value) > 1e-6}  # noqa: PLR2004 - a sum of floats


def recount(runs: Iterable[JudgedRun]) -> dict[Series, float]:
    """What `net` has to be after these runs, as they are now, were counted."""
    found: dict[Series, float] = {}
    for run in runs:
        for series, value in changes(None, run).items():
            found[series] = found.get(series, 0.0) + value
    return net(found)


def _add_outcome(found: dict[Series, float], before: JudgedRun | None, after: JudgedRun | None) -> None:
    backfill = any(run is not None and run.backfill for run in (before, after))
    runs, revisions = (BACKFILL_RUNS, BACKFILL_REVISIONS) if backfill else (RUNS, REVISIONS)
    if before is None:
        if after is not None:
            _add(found, runs, {**_labels(after), "outcome": after.verdict.outcome})
        return
    was = {**_labels(before), "from": before.verdict.outcome}
    if after is None:
        _add(found, revisions, {**was, "to": WITHDRAWN})
        return
    now = {**_labels(after), "to": after.verdict.outcome}
    if all(was[label] == now[label] for label in revisions.labels if label not in ("from", "to")):
        _add(found, revisions, {**was, **now})
        return
    _add(found, revisions, {**was, "to": MOVED})
    _add(found, revisions, {**now, "from": MOVED})


def _labels(run: JudgedRun) -> dict[str, str]:
    return dict(run.labels or run_labels(run.verdict))


def _brought(run: JudgedRun) -> dict[Series, float]:
    """What one run brings to the metrics of source RUN, whatever was counted before."""
    labels = _labels(run)
    verdict, found = run.verdict, dict[Series, float]()
    _add(found, AGENT_RUNS, {**labels, "outcome": verdict.outcome})
    _add(found, TERMINATIONS, {**labels, "termination": verdict.termination_reason})
    if verdict.outcome is RunOutcome.INCOMPLETE:
        for flag in INCOMPLETE_FLAGS.intersection(verdict.flags):
            _add(found, INCOMPLETE, {**labels, "missing": flag})
    for finding in verdict.findings:
        tool = finding.tool or NONE
        _add(found, FINDINGS, {**labels, "kind": finding.kind, "severity": finding.severity, TOOL: tool})
    for entry in verdict.guard:
        _add(found, DECISIONS, {**labels, "action": entry.action, "enforced": _truth(entry.enforced)})
    _add(found, AFTER_FINDING, labels, verdict.executions_after_finding)
    _add(found, AFTER_DENIAL, labels, verdict.executions_after_denial)
    _add(found, SIDE_EFFECTS, labels, verdict.side_effects_after_denial)
    _add(found, WASTED_CALLS, labels, verdict.wasted_calls)
    _add(found, WASTED_SECONDS, labels, verdict.wasted_ms / 1e3)
    _add(found, WASTED_TOKENS, labels, verdict.wasted_tokens)
    for tool, count in run.tools.items():
        _add(found, CALLS, {**labels, TOOL: tool or NONE}, count)
    _add(found, CALLS, {**labels, TOOL: NONE}, max(0, verdict.calls - sum(run.tools.values())))
    for reason, count in verdict.unknown_calls.items():
        _add(found, UNKNOWN_CALLS, {**labels, "unknown": reason}, count)
    for kind in Duplicates.__struct_fields__:
        _add(found, DUPLICATES, {**labels, "kind": kind}, getattr(verdict.duplicates, kind))
    _observe(found, RUN_CALLS, {**labels, "outcome": verdict.outcome}, verdict.calls)
    return found


def _add(found: dict[Series, float], metric: Metric, labels: Mapping[str, str], amount: float = 1.0) -> None:
    if amount:
        # `str` of a member of an enumeration: a label is plain text wherever it is kept or compared.
        series = (metric.sample, tuple([(one, str(labels[one])) for one in metric.labels]))
        found[series] = found.get(series, 0.0) + amount


def _observe(found: dict[Series, float], metric: Metric, labels: Mapping[str, str], value: float) -> None:
    place = bisect_left(metric.buckets, value)
    bound = repr(metric.buckets[place]) if place < len(metric.buckets) else "+Inf"
    kept = [(one, str(labels[one])) for one in metric.labels]
    for sample, names, amount in (("bucket", [*kept, ("le", bound)], 1.0), ("sum", kept, value)):
        if amount:
            series = (f"{metric.name}_{sample}", tuple(sorted(names)))
            found[series] = found.get(series, 0.0) + amount


def _truth(value: bool) -> str:  # noqa: FBT001 - one value to be written
    return "true" if value else "false"
