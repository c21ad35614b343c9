"""Writes deploy/grafana/loopguard.json, a dashboard of every metric of the scorer, from the one table of metrics.

Run: `python tools/make_dashboard.py`. Needs `grafana-foundation-sdk`, which the extra `dev` brings.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as kinds
from grafana_foundation_sdk.models import dashboard as model

from otel_loopguard.model import RunOutcome
from otel_loopguard.scorer import metrics as m
from otel_loopguard.scorer.metrics import RELEASE, SAMPLED, SERVICE, TOOL, Metric, Shape, Source, Unit

FILE: Final = Path(__file__).resolve().parent.parent / "deploy" / "grafana" / "loopguard.json"
WINDOW: Final = "$__rate_interval"
RANGE: Final = "$__range"
LEAST_STEP: Final = "5m"
"""Of what is counted by step: a shorter one would show steps of nothing and of one."""
COUNT: Final = "short"
PER_SECOND: Final = "cps"
SHARE: Final = "percentunit"
AGO: Final = "dateTimeFromNow"
_UNITS: Final = {Unit.NONE: COUNT, Unit.SECONDS: "s", Unit.BYTES: "bytes"}
_SOURCE: Final = model.DataSourceRef(type_val="prometheus", uid="${source}")
_LOOP: Final = f'outcome="{RunOutcome.LOOP}"'
_UNDECIDED: Final = f'outcome=~"{RunOutcome.INCOMPLETE}|{RunOutcome.UNSCORABLE}"'
_SCORER: Final = "instance"
"""Which scorer, as Prometheus labels what it scrapes."""
Built: TypeAlias = timeseries.Panel | stat.Panel


class Query(NamedTuple):
    """One query of a panel."""

    expr: str
    legend: str


class Panel(NamedTuple):
    """One panel; what it says of itself is the doc of its first metric."""

    title: str
    doc: str
    queries: Sequence[Query]
    unit: str = COUNT
    width: int = 8
    bars: bool = False
    number: bool = False
    """One number for the whole range, in place of a graph."""


def selector(metric: Metric, *conditions: str, end: str = "") -> str:
    """The series of a metric for the chosen services."""
    chosen = [f'{SERVICE}=~"$service"'] if SERVICE in metric.labels else []
    kept = ",".join([*chosen, *conditions])
    return f"{metric.sample}{end}{{{kept}}}" if kept else f"{metric.sample}{end}"


def summed(expr: str, by: Sequence[str]) -> str:
    """The sum over all other labels."""
    return f"sum by ({', '.join(by)}) ({expr})" if by else f"sum({expr})"


def counted(metric: Metric, *conditions: str, by: Sequence[str] = (), window: str = WINDOW) -> str:
    """What a counter has counted within a window, less what revisions took back."""
    gross = summed(f"increase({selector(metric, *conditions)}[{window}])", by)
    twin = m.RETRACTED.get(metric.name)
    if twin is None:
        return gross
    taken = summed(f"increase({selector(twin, *conditions)}[{window}])", by)
    # A twin has no series before something is taken back.
    none = summed(f"0 * increase({selector(metric, *conditions)}[{window}])", by)
    return f"{gross} - ({taken} or {none})"


def share(part: str, whole: str) -> str:
    """A share that is 0 where there is nothing yet."""
    return f"({part}) / clamp_min({whole}, 1)"


def share_of_runs(*conditions: str) -> str:
    """Runs of some sort of all runs, in the whole range; 0 where there never was one of that sort."""
    return share(f"{_all_runs(*conditions)} or vector(0)", _all_runs())


def graph(title: str, metric: Metric, *by: str, more: Sequence[Metric] = (), width: int = 8) -> Panel:
    """A panel of one metric, or of several of one kind."""
    queries = [query for one in (metric, *more) for query in _queries(one, by, named=bool(more))]
    counts = metric.shape is Shape.COUNTER
    unit = _UNITS[metric.unit]
    if counts and metric.source is Source.HEALTH:
        unit = {Unit.BYTES: "Bps"}.get(metric.unit, PER_SECOND)
    bars = counts and metric.source is not Source.HEALTH
    return Panel(title, metric.doc, queries, unit=unit, width=width, bars=bars)


def _queries(metric: Metric, by: Sequence[str], *, named: bool) -> list[Query]:
    name = metric.name.removeprefix(m.PREFIX).replace("_", " ")
    shown = " ".join(f"{{{{{label}}}}}" for label in by)
    legend = " ".join([*([name] if named or not by else []), *([shown] if shown else [])])
    if metric.shape is Shape.HISTOGRAM:
        buckets = summed(f"rate({selector(metric, end='_bucket')}[{WINDOW}])", ("le", *by))
        return [Query(f"histogram_quantile({part}, {buckets})", f"p{part * 100:g} {shown}") for part in (0.5, 0.95)]
    if metric.shape is Shape.GAUGE:
        return [Query(summed(selector(metric), by), legend)]
    if metric.source is Source.HEALTH:
        return [Query(summed(f"rate({selector(metric)}[{WINDOW}])", by), legend)]
    return [Query(counted(metric, by=by), legend)]


def figure(title: str, doc: str, expr: str, unit: str = COUNT) -> Panel:
    """A panel of one number."""
    return Panel(title, doc, [Query(expr, "")], unit=unit, width=3, number=True)


def _all_runs(*conditions: str) -> str:
    return counted(m.AGENT_RUNS, *conditions, window=RANGE)


def _release_share() -> str:
    """Loop runs of all runs that a release ever had: totals outlive restarts."""
    by = (SERVICE, RELEASE)
    first = summed(selector(m.RUNS, _LOOP), by)
    none = f"0 * {first}"
    revised = summed(selector(m.REVISIONS, f'to="{RunOutcome.LOOP}"'), by)
    gone = summed(selector(m.REVISIONS, f'from="{RunOutcome.LOOP}"'), by)
    return share(f"{first} + ({revised} or {none}) - ({gone} or {none})", summed(selector(m.RUNS), by))


ROWS: Final = {
    "Runs": (
        figure("Runs", m.RUNS.doc, _all_runs()),
        figure("Loop runs", "Runs that are a loop, less those that late spans cleared.", _all_runs(_LOOP)),
        figure("Share of loops", "Loop runs of all runs.", share_of_runs(_LOOP), SHARE),
        figure(
            "Undecided",
            "Runs of which it cannot be said whether they loop: where this is high, few loops mean little.",
            share_of_runs(_UNDECIDED),
            SHARE,
        ),
        figure("Wasted calls", m.WASTED_CALLS.doc, counted(m.WASTED_CALLS, window=RANGE)),
        figure("Wasted time", m.WASTED_SECONDS.doc, counted(m.WASTED_SECONDS, window=RANGE), "s"),
        figure("Wasted tokens", m.WASTED_TOKENS.doc, counted(m.WASTED_TOKENS, window=RANGE)),
        figure(
            "Sampled",
            "Runs of sampled traces: where there are any, no count is whole.",
            share_of_runs(f'{SAMPLED}="true"'),
            SHARE,
        ),
        graph("Runs by outcome", m.AGENT_RUNS, "outcome", width=12),
        Panel(
            "Loop runs by agent",
            m.AGENT_RUNS.doc,
            [Query(counted(m.AGENT_RUNS, _LOOP, by=(SERVICE, m.AGENT)), f"{{{{{SERVICE}}}}} {{{{{m.AGENT}}}}}")],
            width=12,
            bars=True,
        ),
        graph("Findings", m.FINDINGS, "severity", "kind", TOOL, width=12),
        Panel(
            "Share of loops by release",
            "Loop runs of all runs that the release has had.",
            [Query(_release_share(), f"{{{{{SERVICE}}}}} {{{{{RELEASE}}}}}")],
            unit=SHARE,
            width=12,
        ),
        graph("Wasted calls by release", m.WASTED_CALLS, SERVICE, RELEASE),
        graph("Wasted time by release", m.WASTED_SECONDS, SERVICE, RELEASE),
        graph("Wasted tokens by release", m.WASTED_TOKENS, SERVICE, RELEASE),
        graph("Tool calls", m.CALLS, TOOL),
        graph("Tool calls of a run", m.RUN_CALLS, "outcome"),
        graph("How runs end", m.TERMINATIONS, "termination"),
        Panel(
            "Releases: first seen",
            m.RELEASE_SEEN.doc,
            [
                Query(
                    f"1000 * max by ({SERVICE}, {RELEASE}) ({selector(m.RELEASE_SEEN)})", "{{service_name}} {{release}}"
                )
            ],
            unit=AGO,
            width=24,
            number=True,
        ),
    ),
    "Guards": (
        graph("Decisions", m.DECISIONS, "action", "enforced", width=12),
        graph("Calls that were made all the same", m.AFTER_FINDING, more=(m.AFTER_DENIAL, m.SIDE_EFFECTS), width=12),
    ),
    "How far the counts can be trusted": (
        graph("Missing", m.INCOMPLETE, "missing"),
        graph("Calls without a digest", m.UNKNOWN_CALLS, "unknown"),
        graph("Spans that were not counted", m.DUPLICATES, "kind"),
        graph("Revised verdicts", m.REVISIONS, "from", "to"),
        graph("Backfill", m.BACKFILL_RUNS, "outcome"),
        graph("Revised verdicts of backfill", m.BACKFILL_REVISIONS, "from", "to"),
    ),
    "Scorer": (
        graph("Requests", m.REQUESTS, "protocol", "result"),
        graph("Spans received", m.RECEIVED_SPANS, "protocol"),
        graph("Spans rejected and mended", m.REJECTED_SPANS, "reason", more=(m.MENDED_SPANS,)),
        graph("Bodies of requests", m.SENT_BYTES, "protocol", more=(m.UNPACKED_BYTES,)),
        graph("Commits", m.COMMITS, _SCORER, more=(m.FAILED_COMMITS, m.FAILED_SETTLEMENTS)),
        graph("Waiting to be written", m.WAITING_BYTES, _SCORER),
        graph("Open", m.OPEN_SPANS, _SCORER, more=(m.OPEN_GROUPS,)),
        graph("Judging lag", m.JUDGING_LAG, _SCORER),
        graph("From the end of a run to its verdict", m.LAG, "close"),
        graph("Verdicts", m.VERDICTS, "close"),
        graph("Verdicts that wait to be sent", m.BACKLOG, _SCORER, "sink"),
        graph("Verdicts sent", m.SENT, "sink", more=(m.SEND_REJECTED,)),
        graph("Failures of sending", m.SEND_FAILURES, "sink", "reason"),
        graph("Data folder", m.DATA_BYTES, _SCORER),
        graph("Runs deleted", m.EVICTED_RUNS, "reason"),
        Panel(
            "Counting since", m.START.doc, [Query(f"1000 * {m.START.sample}", "{{instance}}")], unit=AGO, number=True
        ),
        Panel(
            "Version", m.BUILD.doc, [Query(summed(m.BUILD.sample, (_SCORER, "version")), "{{instance}} {{version}}")]
        ),
    ),
}
"""All panels, by row."""


def built(panel: Panel, number: int) -> Built:
    """The panel as Grafana has it."""
    targets = [
        prometheus.Dataquery().expr(query.expr).legend_format(query.legend).ref_id(chr(ord("A") + place))
        for place, query in enumerate(panel.queries)
    ]
    made: Built
    if panel.number:
        made = stat.Panel().height(4).reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        targets = [target.instant() for target in targets]
    else:
        made = timeseries.Panel().height(8)
        if panel.bars:
            stacked = common.StackingConfig().mode(kinds.StackingMode.NORMAL)
            made = made.draw_style(kinds.GraphDrawStyle.BARS).fill_opacity(60).stacking(stacked).interval(LEAST_STEP)
    for target in targets:
        made = made.with_target(target)
    made = made.id(number).title(panel.title).description(panel.doc).datasource(_SOURCE)
    return made.span(panel.width).unit(panel.unit)


def dashboard_text() -> str:
    """The file."""
    whole = (
        dashboard.Dashboard("Tool loops of agents")
        .uid("loopguard")
        .tags(["loopguard"])
        .time("now-6h", "now")
        .timezone("browser")
        .refresh("1m")
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .with_variable(dashboard.DatasourceVariable("source").label("Prometheus").type("prometheus"))
        .with_variable(
            dashboard.QueryVariable("service")
            .label("Service")
            .datasource(_SOURCE)
            .query(f"label_values({m.RUNS.sample}, {SERVICE})")
            .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
            .multi(multi=True)
            .include_all(include_all=True)
            .all_value(".*")
            .current(model.VariableOption(selected=True, text="All", value="$__all"))
        )
    )
    number = 0
    for title, panels in ROWS.items():
        number += 1
        whole = whole.with_row(dashboard.Row(title).id(number))
        for panel in panels:
            number += 1
            whole = whole.with_panel(built(panel, number))
    return json.dumps(whole.build(), cls=JSONEncoder, indent=2, sort_keys=True) + "\n"


def main() -> None:
    """Write the file."""
    FILE.write_text(dashboard_text(), encoding="utf-8")


if __name__ == "__main__":
    main()
