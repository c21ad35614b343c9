"""What each verdict adds to the totals, and the table that it stands in."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from otel_loopguard import policy
from otel_loopguard.model import Action, Duplicates, Flag, GuardEntry, RunOutcome, TerminationReason
from otel_loopguard.scorer import metrics
from otel_loopguard.scorer.counting import changes, net, recount, run_labels, zeros
from otel_loopguard.scorer.metrics import LABELS, METRIC_OF, METRICS, Shape, Source
from otel_loopguard.scorer.records import Close, JudgedRun, Series
from tests.replaying import replay_files
from tests.scorer.judged import NOW_NS, SECOND, finding, judged, of_report, revised
from tools.make_metrics_page import PAGE, page_text

CASES = Path(__file__).parent.parent / "fixtures" / "cases"


def of_case(name: str) -> list[JudgedRun]:
    """The runs of a case as the scorer would keep them."""
    folder = CASES / name
    found = [path for path in (folder / "calls.jsonl", folder / "deliveries.otlp.jsonl") if path.exists()]
    return [of_report(report) for report in replay_files(found, policy.load_file(folder / "policy.yaml"))]


def counted(name: str, **labels: str) -> Series:
    """A series of the service `shop`, release 1.0, not sampled."""
    metric = METRIC_OF[name]
    base = {"service_name": "shop", "release": "1.0", "sampled": "false", "agent": "main"}
    return metric.series({one: labels.get(one, base.get(one, "")) for one in metric.labels})


def total(found: dict[Series, float], name: str, **labels: str) -> float:
    """The sum of a metric's series that have these labels."""
    wanted = set(labels.items())
    return sum(value for (sample, having), value in found.items() if sample == name and wanted <= set(having))


# --- the table ------------------------------------------------------------------------------------------------------


def test_names_follow_the_rules_of_prometheus() -> None:
    """Names begin with the prefix, end with their unit, and counters alone end with `_total`."""
    assert len(METRICS) == len({metric.name for metric in METRICS})
    for metric in METRICS:
        assert re.fullmatch(r"loopguard_[a-z_]+", metric.name)
        assert (metric.shape is Shape.COUNTER) == metric.sample.endswith("_total")
        assert metric.name.endswith(metric.unit.value)
        assert bool(metric.buckets) == (metric.shape is Shape.HISTOGRAM)
        assert list(metric.buckets) == sorted(metric.buckets)


def test_otlp_names_translate_back() -> None:
    """What Prometheus makes of the name in OTLP is the name of the endpoint."""
    for metric in METRICS:
        ends = {"s": "_seconds", "By": "_bytes", "": ""}[metric.unit.otlp]
        assert metric.name == metric.otlp_name.replace(".", "_") + ends


def test_labels_are_few_and_none_is_an_id() -> None:
    """Every label stands in the table of labels, and no metric has more than five."""
    assert set(LABELS) == {label for metric in METRICS for label in metric.labels}
    assert 5 >= max(len(metric.labels) for metric in METRICS)
    assert [] == [label for label in LABELS if re.search(r"(_|^)(id|digest|trace|run|call)(_|$)", label)]


def test_a_series_needs_its_labels() -> None:
    """A wrong set of labels is refused with the right one."""
    with pytest.raises(ValueError, match="loopguard_sent_verdicts has the labels sink"):
        metrics.SENT.series({"reason": "x"})
    assert ("loopguard_sent_verdicts_total", (("sink", "file"),)) == metrics.SENT.series({"sink": "file"})


def test_every_metric_of_runs_can_be_taken_back() -> None:
    """Each metric that follows the verdict has a counter for what is taken back, and no other has."""
    of_runs = {metric.name for metric in METRICS if metric.source is Source.RUN}
    assert of_runs == set(metrics.RETRACTED)
    assert {"loopguard_retracted_wasted_seconds_total"} <= set(METRIC_OF)


def test_page_is_in_sync() -> None:
    """docs/metrics.md holds the table as the code has it; `python tools/make_metrics_page.py` writes it."""
    text = PAGE.read_text(encoding="utf-8")
    assert page_text(text) == text


# --- new, revised, withdrawn ----------------------------------------------------------------------------------------


def test_a_new_run_counts_in_each_metric_that_it_has_something_for() -> None:
    """Every field of a verdict that is counted reaches its metric; nothing else is touched."""
    run = judged(
        tools={"search": 5},
        calls=6,
        outcome=RunOutcome.LOOP,
        ended_ns=NOW_NS - 7 * SECOND,
        termination_reason=TerminationReason.TURN_LIMIT,
        findings=(finding(), finding(), finding(tool="")),
        guard=(GuardEntry(call_id=None, call=4, action=Action.DENY, enforced=True),),
        executions_after_finding=4,
        executions_after_denial=3,
        side_effects_after_denial=1,
        wasted_calls=2,
        wasted_ms=1250.0,
        wasted_tokens=70,
        unknown_calls={"redacted": 1},
        duplicates=Duplicates(identical=2, layered=1),
    )
    loop = {"kind": "exact_repeat", "severity": "loop"}
    bucket = ("le", "10.0"), ("outcome", "loop"), ("sampled", "false"), ("service_name", "shop")
    assert {
        counted("loopguard_runs_total", outcome="loop"): 1,
        counted("loopguard_agent_runs_total", outcome="loop"): 1,
        counted("loopguard_run_terminations_total", termination="turn_limit"): 1,
        counted("loopguard_findings_total", **loop, tool="search"): 2,
        counted("loopguard_findings_total", **loop, tool="__none__"): 1,
        counted("loopguard_decisions_total", action="deny", enforced="true"): 1,
        counted("loopguard_executions_after_finding_total"): 4,
        counted("loopguard_executions_after_denial_total"): 3,
        counted("loopguard_side_effects_after_denial_total"): 1,
        counted("loopguard_wasted_calls_total"): 2,
        counted("loopguard_wasted_seconds_total"): 1.25,
        counted("loopguard_wasted_tokens_total"): 70,
        counted("loopguard_tool_calls_total", tool="search"): 5,
        counted("loopguard_tool_calls_total", tool="__none__"): 1,
        counted("loopguard_unknown_calls_total", unknown="redacted"): 1,
        counted("loopguard_duplicate_spans_total", kind="identical"): 2,
        counted("loopguard_duplicate_spans_total", kind="layered"): 1,
        ("loopguard_run_tool_calls_bucket", bucket): 1,
        ("loopguard_run_tool_calls_sum", bucket[1:]): 6,
        ("loopguard_verdicts_total", (("close", "root_ended"),)): 1,
        ("loopguard_verdict_lag_seconds_bucket", (("close", "root_ended"), ("le", "10.0"))): 1,
        ("loopguard_verdict_lag_seconds_sum", (("close", "root_ended"),)): 7,
    } == changes(None, run)


@pytest.mark.parametrize(
    ("calls", "bound"), [(0, "0.0"), (1, "1.0"), (2, "2.0"), (3, "5.0"), (500, "500.0"), (501, "+Inf")]
)
def test_a_bound_belongs_to_its_bucket(calls: int, bound: str) -> None:
    """A value that equals a bucket's bound is inside it."""
    found = changes(None, judged(tools={"t": calls}))
    assert 1 == total(found, "loopguard_run_tool_calls_bucket", le=bound)
    assert 1 == total(found, "loopguard_run_tool_calls_bucket")


def test_incomplete_counts_each_thing_that_is_missing() -> None:
    """An incomplete run counts once for each flag that says what is missing; other runs with such a flag do not."""
    flags = (Flag.SEQUENCE_GAP, Flag.OPEN_SPANS, Flag.NO_ROOT)
    found = changes(None, judged(outcome=RunOutcome.INCOMPLETE, flags=flags))
    name = "loopguard_incomplete_runs_total"
    assert 1 == total(found, name, missing="sequence_gap") == total(found, name, missing="open_spans")
    assert 2 == total(found, name)
    assert 0 == total(changes(None, judged(outcome=RunOutcome.LOOP, flags=flags)), name)


def test_a_revision_adds_the_difference_and_counts_no_run() -> None:
    """What is more is added, what is less is added to what was taken back, and the outcomes are netted."""
    before = judged(tools={"search": 3}, outcome=RunOutcome.INCOMPLETE, wasted_calls=1, wasted_ms=500.0)
    after = revised(before, outcome=RunOutcome.LOOP, wasted_calls=4, wasted_ms=125.0)
    found = changes(before, after)
    assert {
        counted("loopguard_run_revisions_total", **{"from": "incomplete", "to": "loop"}): 1,
        counted("loopguard_agent_runs_total", outcome="loop"): 1,
        counted("loopguard_retracted_agent_runs_total", outcome="incomplete"): 1,
        counted("loopguard_wasted_calls_total"): 3,
        counted("loopguard_retracted_wasted_seconds_total"): 0.375,
        ("loopguard_verdicts_total", (("close", "late"),)): 1,
    } == {series: value for series, value in found.items() if "run_tool_calls" not in series[0]}
    assert 1 == total(found, "loopguard_run_tool_calls_bucket", outcome="loop")
    assert 1 == total(found, "loopguard_retracted_run_tool_calls_bucket", outcome="incomplete")


def test_a_revision_that_changes_labels_moves_the_run() -> None:
    """What was counted under the old labels is taken back there and counted under the new ones."""
    before = judged(agent=None, wasted_calls=1)
    after = revised(before, agent="x", flags=(Flag.SAMPLED,), outcome=RunOutcome.LOOP, wasted_calls=2)
    found = changes(before, after)
    name = "loopguard_run_revisions_total"
    assert 1 == found[counted(name, **{"from": "clean", "to": "moved"})]
    assert 1 == found[counted(name, **{"from": "moved", "to": "loop", "sampled": "true"})]
    assert 1 == found[counted("loopguard_retracted_wasted_calls_total")]
    assert 2 == found[counted("loopguard_wasted_calls_total", sampled="true")]
    totals = changes(None, before)
    for series, value in found.items():
        totals[series] = totals.get(series, 0) + value
    assert recount([after]) == net(totals)


def test_a_revision_under_another_agent_alone_moves_no_outcome() -> None:
    """Runs are not counted by agent there: only what is, moves."""
    before = judged(agent=None)
    found = changes(before, revised(before, agent="x"))
    assert 1 == found[counted("loopguard_run_revisions_total", **{"from": "clean", "to": "clean"})]
    assert 1 == found[counted("loopguard_retracted_agent_runs_total", agent="__none__", outcome="clean")]
    assert 1 == found[counted("loopguard_agent_runs_total", agent="x", outcome="clean")]


def test_a_withdrawn_run_leaves_nothing() -> None:
    """All that a run brought is taken back, and its outcome is revised to `withdrawn`."""
    run = judged(tools={"search": 3}, outcome=RunOutcome.LOOP, findings=(finding(),), wasted_calls=2)
    totals: dict[Series, float] = {}
    for found in (changes(None, run), changes(run, None)):
        for series, value in found.items():
            totals[series] = totals.get(series, 0) + value
    assert 1 == totals[counted("loopguard_run_revisions_total", **{"from": "loop", "to": "withdrawn"})]
    assert {} == net(totals)
    assert {} == changes(None, None)


def test_net_of_a_revised_run_is_its_last_verdict() -> None:
    """Totals less what was taken back are what the last verdict alone would have brought."""
    before = judged(outcome=RunOutcome.INCOMPLETE, tools={"a": 2}, wasted_calls=3)
    after = revised(before, outcome=RunOutcome.CLEAN, wasted_calls=0)
    totals = changes(None, before)
    for series, value in changes(before, after).items():
        totals[series] = totals.get(series, 0) + value
    assert recount([after]) == net(totals)
    assert 1 == net(totals)[counted("loopguard_runs_total", outcome="clean")]


def test_backfill_goes_apart() -> None:
    """An old run counts in the metrics of old runs alone, and so does its revision."""
    run = judged(backfill=True, outcome=RunOutcome.LOOP, wasted_calls=3, ended_ns=NOW_NS - 3600 * SECOND)
    verdicts = ("loopguard_verdicts_total", (("close", "root_ended"),))
    assert {counted("loopguard_backfill_runs_total", outcome="loop"): 1, verdicts: 1} == changes(None, run)
    found = changes(run, revised(run, outcome=RunOutcome.CLEAN))
    assert 1 == found[counted("loopguard_backfill_run_revisions_total", **{"from": "loop", "to": "clean"})]
    assert {"loopguard_backfill_run_revisions_total", "loopguard_verdicts_total"} == {name for name, _ in found}


def test_lag_is_not_below_nothing() -> None:
    """A run whose clock is ahead has a lag of 0, and one without times has none."""
    assert 1 == total(changes(None, judged(ended_ns=NOW_NS + SECOND)), "loopguard_verdict_lag_seconds_bucket", le="1.0")
    assert 0 == total(changes(None, judged()), "loopguard_verdict_lag_seconds_bucket")


def test_zeros_cover_what_alerts_read() -> None:
    """A run's labels open every outcome, termination, decision and denial, and the waste, once each."""
    found = zeros(run_labels(judged().verdict))
    assert len(found) == len(set(found))
    assert {counted("loopguard_runs_total", outcome=outcome.value) for outcome in RunOutcome} <= set(found)
    assert counted("loopguard_side_effects_after_denial_total") in found
    assert [] == [series for series in found if "retracted" in series[0] or "backfill" in series[0]]
    assert {str} == {type(text) for series in found for label in series[1] for text in label}


def test_labels_are_plain_text() -> None:
    """No member of an enumeration is left in a series: it would be written with its own name."""
    run = judged(outcome=RunOutcome.INCOMPLETE, flags=(Flag.OPEN_SPANS,), findings=(finding(),), close=Close.IDLE)
    assert {str} == {type(text) for series in changes(None, run) for label in series[1] for text in label}


# --- cases from users' complaints ----------------------------------------------------------------------------------


def test_sampled_runs_are_marked() -> None:
    """D18: every absolute count of sampled runs says that it is one."""
    found = recount(of_case("D18"))
    assert 3 == total(found, "loopguard_runs_total", sampled="true", outcome="clean")
    assert {"true"} == {dict(labels)["sampled"] for _, labels in found}


def test_a_run_over_two_replicas_is_scored_once() -> None:
    """G01: one run, which is not clean."""
    found = recount(of_case("G01"))
    assert 1 == total(found, "loopguard_runs_total")
    assert 0 == total(found, "loopguard_runs_total", outcome="clean")


def test_a_redelivered_batch_counts_once() -> None:
    """G02: four calls and one run."""
    found = recount(of_case("G02"))
    assert (4, 1) == (total(found, "loopguard_tool_calls_total"), total(found, "loopguard_runs_total"))


def test_the_first_loop_starts_from_zero() -> None:
    """G06: the loop's series is among the zeros that are shown before."""
    (run,) = of_case("G06")
    loops = [series for series in changes(None, run) if ("outcome", "loop") in series[1] and "_bucket" not in series[0]]
    counters = {series for series in loops if series[0].endswith("_total")}
    assert 2 == len(counters)
    assert counters <= set(zeros(run_labels(run.verdict)))


def test_resent_batches_are_counted_as_duplicates() -> None:
    """G07: two calls and four duplicate spans."""
    found = recount(of_case("G07"))
    assert 2 == total(found, "loopguard_tool_calls_total")
    assert 4 == total(found, "loopguard_duplicate_spans_total", kind="identical")
