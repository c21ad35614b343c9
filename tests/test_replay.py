"""Replay judges every run once, in bounded memory, and the same on disk as in memory."""

from __future__ import annotations

import random

import pytest

from otel_loopguard import policy
from otel_loopguard.model import CallRecord, Flag, SpanFacts
from otel_loopguard.replay import Replay, RunReport
from tests.captures.summary import CAPTURES, POLICY, SPANS
from tests.replaying import DIGESTER, facts_of


def replayed(items: list[SpanFacts], **limits: int) -> list[RunReport]:
    """The reports, by run id, under some limits."""
    replay = Replay(POLICY, DIGESTER, **limits)
    for item in items:
        replay.add(item)
    return sorted(replay.reports(), key=lambda report: report.verdict.run_id)


def all_facts() -> list[SpanFacts]:
    """The facts of every capture, shuffled together."""
    facts = [span for name in CAPTURES for span in facts_of(SPANS / f"{name}.jsonl", POLICY)]
    random.Random(3).shuffle(facts)
    return facts


@pytest.mark.parametrize("spill_after", [1, 97, 2000])
def test_a_spilled_replay_says_the_same(spill_after: int) -> None:
    """All captures in one shuffled stream, kept in memory or on disk: the same reports."""
    facts = all_facts()
    assert replayed(facts, spill_after_spans=spill_after) == replayed(facts)


def test_all_captures_at_once_say_what_each_says_alone() -> None:
    """Runs of forty frameworks in one stream do not touch each other."""
    alone = [report for name in CAPTURES for report in replayed(facts_of(SPANS / f"{name}.jsonl", POLICY))]
    assert replayed(all_facts()) == sorted(alone, key=lambda report: report.verdict.run_id)


@pytest.mark.parametrize("spill_after", [10, 100_000])
def test_a_run_over_the_limit_is_cut_and_says_so(spill_after: int) -> None:
    """Past `max_group_spans` each part is judged, flagged, and no call is lost."""
    replay = Replay(policy.default(), DIGESTER, spill_after_spans=spill_after, max_group_spans=40)
    for number in range(100):
        replay.add(
            CallRecord(run_id="long", sequence=number, tool="t", arguments={"n": number}, result=number, ts=number)
        )
    reports = list(replay.reports())
    assert [len(report.calls) for report in reports] == [40, 40, 20]
    assert all(Flag.RUN_LIMIT in report.verdict.flags for report in reports)
    assert replay.counts.calls == 100
    assert [report.verdict.run_id for report in reports] == ["long", "long~2", "long~3"]


def test_a_run_at_the_limit_is_whole() -> None:
    """Exactly as many spans as allowed."""
    replay = Replay(policy.default(), DIGESTER, max_group_spans=40)
    for number in range(40):
        replay.add(CallRecord(run_id="long", sequence=number, tool="t", arguments={"n": number}, result=number))
    (report,) = replay.reports()
    assert (len(report.calls), Flag.RUN_LIMIT in report.verdict.flags) == (40, False)


def test_counts_say_what_went_in() -> None:
    """Spans, records and dialects are counted for the summary line."""
    replay = Replay(POLICY, DIGESTER)
    name = "strands-agents-1.62.0+native+main"
    for span in facts_of(SPANS / f"{name}.jsonl", POLICY):
        replay.add(span)
    replay.add(CallRecord(run_id="r", sequence=1, tool="t"))
    reports = list(replay.reports())
    counts = replay.counts
    assert (counts.records, counts.tool_spans, counts.runs, counts.calls) == (1, 10, 2, 10)
    assert (len(reports), set(counts.dialects)) == (2, {"strands"})


@pytest.mark.parametrize("spill_after", [3, 100_000])
def test_a_cut_run_does_not_depend_on_the_order_of_its_records(spill_after: int) -> None:
    """Records without times are cut by their sequence, wherever they stood in the file."""
    records = [CallRecord(run_id="r", sequence=n, tool="t", arguments={"n": n // 5}, result="same") for n in range(40)]

    def outcomes(items: list[CallRecord]) -> list[object]:
        replay = Replay(policy.default(), DIGESTER, max_group_spans=10, spill_after_spans=spill_after)
        for item in items:
            replay.add(item)
        return [report.verdict for report in replay.reports()]

    expected = outcomes(records)
    random.Random(1).shuffle(records)
    assert outcomes(records) == expected


def test_reports_are_read_once() -> None:
    """A second reading would find nothing left, which must not look like an empty file."""
    replay = Replay(policy.default(), DIGESTER)
    assert list(replay.reports()) == []
    with pytest.raises(RuntimeError, match="once"):
        list(replay.reports())


@pytest.mark.parametrize("limits", [{"spill_after_spans": 0}, {"max_group_spans": 0}, {"max_group_spans": -1}])
def test_limits_below_one_are_refused(limits: dict[str, int]) -> None:
    """Nothing can be judged in groups of none."""
    with pytest.raises(ValueError, match="at least 1"):
        Replay(policy.default(), DIGESTER, **limits)
