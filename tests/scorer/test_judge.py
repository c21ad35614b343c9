"""What the judge says of spans is what replay says of them, however they come, and each run is counted once."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_loopguard import policy
from otel_loopguard.model import Flag, RunOutcome, Span, SpanFacts
from otel_loopguard.policy import Policy
from otel_loopguard.scorer.groups import NS_PER_S
from otel_loopguard.scorer.judge import MOST_AT_ONCE
from otel_loopguard.scorer.records import Close, JudgedRun, Refusal
from tests.assembly.build import OTHER_TRACE, TRACE, agent, span, tool
from tests.captures.summary import CAPTURES, POLICY, SPANS
from tests.replaying import items_of
from tests.scorer.made_runs import Delivery, deliveries, made_spans
from tests.scorer.scoring import START_NS, Scoring, plain, replayed

DEFAULT = policy.default()
SCOPES = {
    scope: policy.load(f'{{"version": 1, "policy": "p", "policy_version": "1", "scope": "{scope}"}}')
    for scope in ("run", "user_turn", "conversation", "task")
}
STEPS_S = (0.0, 0.0, 0.2, 5.0, 61.0, 901.0)


def spans_of(name: str) -> list[Span]:
    """The spans of one capture."""
    return [item for item in items_of(SPANS / f"{name}.jsonl") if isinstance(item, Span)]


def deliver(scoring: Scoring, spans: Sequence[Span | SpanFacts], delivery: Delivery) -> None:
    """Sends spans as a delivery says, with pauses, judging, crashes and refusals in between, and judges all."""
    chance = random.Random(delivery.seed)
    for places in delivery.requests(len(spans)):
        scoring.take([spans[place] for place in places])
        scoring.clock.pass_s(chance.choice(STEPS_S))
        step = chance.random()
        if step < 0.1:
            scoring.again()
        elif step < 0.2:
            scoring.store.refusing = Refusal.DISK_FULL
            scoring.judge.settle_due()
            scoring.store.refusing = None
        elif step < 0.8:
            scoring.judge.settle_due()
    scoring.judge_all()
    rows = scoring.store.judged_rows
    assert list(range(1, len(rows) + 1)) == sorted(rows)


# --- the same as replay -----------------------------------------------------------------------------------


def test_every_capture_says_what_replay_says() -> None:
    """All frameworks, each in one request."""
    for name in CAPTURES:
        scoring = Scoring(POLICY)
        scoring.take(spans_of(name))
        scoring.judge_all()
        assert replayed(spans_of(name), POLICY) == scoring.verdicts(), name


@settings(max_examples=60)
@given(st.sampled_from(CAPTURES), deliveries)
def test_a_capture_says_the_same_however_it_comes(name: str, delivery: Delivery) -> None:
    """Shuffled, up to 29 times, in requests, with judging, crashes and refused settlements in between."""
    scoring = Scoring(POLICY)
    deliver(scoring, spans_of(name), delivery)
    assert replayed(spans_of(name), POLICY) == scoring.verdicts()


@given(made_spans, st.sampled_from(sorted(SCOPES)), deliveries)
def test_made_up_runs_say_the_same_however_they_come(spans: list[SpanFacts], scope: str, delivery: Delivery) -> None:
    """Runs that join by ids, links and conversations, spans in several versions, lost and circular parents."""
    scoring = Scoring(SCOPES[scope])
    deliver(scoring, spans, delivery)
    assert replayed(spans, SCOPES[scope]) == scoring.verdicts()


def test_all_captures_at_once_say_what_replay_says() -> None:
    """Forty frameworks in one stream of mixed requests."""
    spans = [one for name in CAPTURES for one in spans_of(name)]
    scoring = Scoring(POLICY)
    deliver(scoring, spans, Delivery(seed=5, most_copies=2, request=200))
    assert replayed(spans, POLICY) == scoring.verdicts()


def test_copies_are_counted_as_replay_counts_them() -> None:
    """Where all copies came before the run was judged."""
    spans = [agent("a", 0, 90), *(tool(f"t{n}", n * 10, n * 10 + 5, parent="a", args=str(n)) for n in range(1, 5))]
    scoring = Scoring(DEFAULT)
    scoring.take([one for one in spans for _ in range(29)])
    scoring.judge_all()
    (run,) = scoring.runs.values()
    assert 28 * 5 == run.verdict.duplicates.identical


# --- revisions ----------------------------------------------------------------------------------------------


def one_run(calls: int, **fields: Any) -> list[SpanFacts]:
    """A run whose calls are all equal."""
    spans = [tool(f"t{n}", n * 10, n * 10 + 5, parent="a", **fields) for n in range(1, calls + 1)]
    return [agent("a", 0, 1000, **({"trace_id": fields["trace_id"]} if "trace_id" in fields else {})), *spans]


def revisions(scoring: Scoring) -> list[tuple[str, int]]:
    """What was sent out, in order."""
    return scoring.store.outbox


def test_a_late_span_revises_a_run_once() -> None:
    """Two equal calls are no loop, the third that comes later makes one."""
    scoring = Scoring(DEFAULT)
    spans = one_run(3)
    scoring.take(spans[:3])
    scoring.judge_all()
    assert [(RunOutcome.CLEAN, 1, Close.ROOT_ENDED)] == told(scoring)
    scoring.clock.pass_s(600)
    scoring.take(spans[3:])
    scoring.judge_all()
    assert [(RunOutcome.LOOP, 2, Close.LATE)] == told(scoring)
    assert [(TRACE, 1), (TRACE, 2)] == revisions(scoring)


def told(scoring: Scoring) -> list[tuple[RunOutcome, int, Close]]:
    """Outcome, revision and close reason of each run."""
    return [(run.verdict.outcome, run.verdict.revision, run.close) for run in scoring.runs.values()]


def test_a_late_copy_revises_nothing_and_is_counted() -> None:
    """Only how often a span came has changed."""
    scoring = Scoring(DEFAULT)
    spans = one_run(3)
    counted = []
    for part in (spans, spans[1:], spans * 5):
        scoring.take(part)
        scoring.judge_all()
        scoring.clock.pass_s(100)
        counted.append(scoring.runs[TRACE].verdict.duplicates.identical)
    assert [0, 3, 3 + 5 * 4] == counted
    assert [(TRACE, 1)] == revisions(scoring)
    assert {} == scoring.store.rows


def test_copies_that_come_with_news_revise_once() -> None:
    """A span that is new and copies of others in one request."""
    scoring = Scoring(DEFAULT)
    spans = one_run(3)
    for part in (spans[:3], spans):
        scoring.take(part)
        scoring.judge_all()
        scoring.clock.pass_s(100)
    assert [(RunOutcome.LOOP, 2, Close.LATE)] == told(scoring)
    assert 3 == scoring.runs[TRACE].verdict.duplicates.identical
    assert [(TRACE, 1), (TRACE, 2)] == revisions(scoring)


def test_spans_that_come_while_a_group_is_judged_are_judged_later() -> None:
    """The snapshot is what was taken; the rest makes the group due again."""
    scoring = Scoring(DEFAULT)
    spans = one_run(3)
    scoring.take(spans[:3])
    scoring.clock.pass_s(5)
    settle = scoring.store.settle

    def meanwhile(settlement: Any) -> Any:
        scoring.store.settle = settle  # type: ignore[method-assign]
        scoring.take(spans[3:])
        return settle(settlement)

    scoring.store.settle = meanwhile  # type: ignore[method-assign]
    assert 1 == scoring.judge.settle_due()
    assert [(RunOutcome.CLEAN, 1, Close.ROOT_ENDED)] == told(scoring)
    assert 1 == len(scoring.store.rows)
    scoring.judge_all()
    assert [(RunOutcome.LOOP, 2, Close.LATE)] == told(scoring)


def test_judged_runs_that_turn_out_to_be_one_are_merged() -> None:
    """A span that names both traces' run comes last: one run stays, the other two are withdrawn."""
    scoring = Scoring(DEFAULT)
    scoring.take([*one_run(2), *one_run(2, trace_id=OTHER_TRACE)])
    scoring.judge_all()
    assert [TRACE, OTHER_TRACE] == list(scoring.runs)
    named = [agent("b", 0, 1001, trace_id=trace, run_id="job") for trace in (TRACE, OTHER_TRACE)]
    scoring.take([msgspec.structs.replace(one, span_id=agent("a", 0, 0).span_id) for one in named])
    scoring.judge_all()
    assert replayed([*one_run(2), *one_run(2, trace_id=OTHER_TRACE), *map(_as_a, named)], DEFAULT) == scoring.verdicts()
    assert ["job"] == list(scoring.runs)
    assert 1 == len(scoring.store.groups)


def _as_a(one: SpanFacts) -> SpanFacts:
    return msgspec.structs.replace(one, span_id=agent("a", 0, 0).span_id)


def test_a_run_that_was_withdrawn_and_comes_back_goes_on_with_its_revisions() -> None:
    """(run id, revision) names one verdict for ever."""
    scoring = Scoring(DEFAULT)
    lone = tool("t", 10, 15, trace_id=TRACE, conversation="c" * 32)
    scoring.take([lone])
    scoring.judge_all()
    scoring.take([agent("a", 0, 100)])
    scoring.judge_all()
    assert [("c" * 32, 1), (TRACE, 1)] == revisions(scoring)
    other = tool("u", 10, 15, trace_id=OTHER_TRACE, conversation="c" * 32)
    scoring.take([other])
    scoring.judge_all()
    assert [("c" * 32, 1), (TRACE, 1), ("c" * 32, 3)] == revisions(scoring)  # 2 said that it was withdrawn


def test_a_run_that_goes_on_is_judged_so_often_and_final_once_its_root_ended() -> None:
    """Its close reason is no lateness, as everybody knew that more would come."""
    scoring = Scoring(DEFAULT)
    found = []
    for number in range(1, 100):
        scoring.take([tool(f"t{number}", number * 10, number * 10 + 5, parent="a", args=str(number))])
        scoring.clock.pass_s(20)
        scoring.judge.settle_due()
        found += [(run.verdict.revision, run.close, run.verdict.final) for run in scoring.runs.values()]
    assert [(1, Close.AGE_LIMIT, False), (2, Close.AGE_LIMIT, False)] == list(dict.fromkeys(found))
    scoring.take([agent("a", 0, 1000)])
    scoring.judge_all()
    (run,) = scoring.runs.values()
    assert (3, Close.ROOT_ENDED, True, 99) == (run.verdict.revision, run.close, run.verdict.final, run.verdict.calls)


def test_a_group_without_runs_makes_no_verdict_and_is_kept() -> None:
    """Its spans may be the parents of what comes late."""
    scoring = Scoring(DEFAULT)
    scoring.take([span("http", 0, 100), span("handler", 1, 99, parent="http")])
    scoring.judge_all()
    assert ({}, 1) == (scoring.runs, len(scoring.store.groups))
    late = tool("t", 10, 15, parent="handler")
    scoring.take([late])
    scoring.judge_all()
    (run,) = scoring.runs.values()
    assert (1, ()) == (run.verdict.revision, tuple(flag for flag in run.verdict.flags if flag is Flag.NO_ROOT))


# --- ids that several runs claim --------------------------------------------------------------------------------


def claimed(*, named: str, trace_id: str) -> list[SpanFacts]:
    """A run that chose its id."""
    return [tool(f"t{n}", n * 10, n * 10 + 5, trace_id=trace_id, run_id=named, args=str(n)) for n in (1, 2)]


def test_a_run_that_chose_another_traces_id_is_told_by_its_trace() -> None:
    """Each run has one verdict of its own, and keeps its name when it is revised."""
    scoring = Scoring(DEFAULT)
    scoring.take(one_run(2))
    scoring.judge_all()
    liar = claimed(named=TRACE, trace_id=OTHER_TRACE)
    for part in (liar[:1], liar[1:]):
        scoring.take(part)
        scoring.judge_all()
    assert {TRACE: 2, f"{TRACE}@{OTHER_TRACE}": 2} == {
        run_id: run.verdict.calls for run_id, run in scoring.runs.items()
    }
    scoring.take(one_run(3)[3:])
    scoring.judge_all()
    assert [(TRACE, 1), (f"{TRACE}@{OTHER_TRACE}", 1), (f"{TRACE}@{OTHER_TRACE}", 2), (TRACE, 2)] == revisions(scoring)


def test_runs_of_one_id_that_are_due_together_are_told_apart() -> None:
    """The one whose settlement is on its way has the id."""
    scoring = Scoring(DEFAULT)
    scoring.take([*one_run(2), *claimed(named=TRACE, trace_id=OTHER_TRACE)])
    scoring.judge_all()
    assert [2, 2] == [run.verdict.calls for run in scoring.runs.values()]
    assert {TRACE, f"{TRACE}@{OTHER_TRACE}"} == set(scoring.runs) or f"{TRACE}@{TRACE}" in scoring.runs


def test_a_run_whose_rival_is_on_its_way_to_disk_is_told_apart() -> None:
    """It is waited for no less than one that is there."""
    scoring = Scoring(DEFAULT, slow=True)
    scoring.take([*one_run(2), *claimed(named=TRACE, trace_id=OTHER_TRACE)])
    scoring.clock.pass_s(100)
    assert 2 == scoring.judge.settle_due()
    assert (2, 0) == (len(scoring.runs), scoring.judge.failures)


def test_groups_that_a_judged_one_joins_are_not_on_their_way_together() -> None:
    """Two that are due at once share nothing but a third: the second is judged with what the first came to."""
    scoring = Scoring(DEFAULT, slow=True)
    third = "3" * 32
    joining = [tool("t1", 10, 15, run_id="job"), tool("u1", 20, 25, conversation="c" * 32)]
    scoring.take(joining)
    scoring.judge_all()
    late = [
        tool("t2", 30, 35, trace_id=OTHER_TRACE, run_id="job"),
        tool("u2", 40, 45, trace_id=third, conversation="c" * 32),
    ]
    scoring.take(late)
    scoring.clock.pass_s(100)
    assert 2 == scoring.judge.settle_due()
    assert replayed([*joining, *late], DEFAULT) == scoring.verdicts()
    assert (1, 0) == (len(scoring.store.groups), scoring.judge.failures)


def test_two_runs_of_one_trace_never_share_an_id() -> None:
    """Some spans name the run by its trace, others do not name it."""
    scoring = Scoring(DEFAULT)
    scoring.take([*claimed(named=TRACE, trace_id=TRACE), tool("u", 50, 60)])
    scoring.judge_all()
    assert {TRACE: 2, f"{TRACE}@{TRACE}": 1} == {run_id: run.verdict.calls for run_id, run in scoring.runs.items()}
    scoring.take([*claimed(named=TRACE, trace_id=TRACE), tool("u", 50, 60)])
    scoring.judge_all()
    assert [(TRACE, 1), (f"{TRACE}@{TRACE}", 1)] == revisions(scoring)


def test_a_run_whose_rival_becomes_part_of_it_has_its_id_back() -> None:
    """What was told by its trace is withdrawn."""
    scoring = Scoring(DEFAULT)
    scoring.take(one_run(2))
    scoring.judge_all()
    scoring.take(claimed(named=TRACE, trace_id=OTHER_TRACE))
    scoring.judge_all()
    joining = tool("t1", 10, 15, parent="a", run_id=TRACE, result="x")
    scoring.take([joining, msgspec.structs.replace(joining, span_id="9" * 16)])
    scoring.judge_all()
    assert TRACE in scoring.runs
    assert 1 == len(scoring.store.groups)
    assert f"{TRACE}@{OTHER_TRACE}" not in scoring.runs


# --- what is told of a run ------------------------------------------------------------------------------------


def at_start(spans: Sequence[SpanFacts], seconds_ago: float) -> list[SpanFacts]:
    """Spans moved so that the last ended so long before the tests' clock begins."""
    last = max(one.end_ns or 0 for one in spans)
    by = START_NS - int(seconds_ago * NS_PER_S) - last
    return [msgspec.structs.replace(one, start_ns=one.start_ns + by, end_ns=(one.end_ns or 0) + by) for one in spans]


@pytest.mark.parametrize(("seconds_ago", "old"), [(0.0, False), (900.0, False), (900.1, True), (10**6, True)])
def test_a_run_that_ended_long_before_it_came_is_backfill(seconds_ago: float, *, old: bool) -> None:
    """More than fifteen minutes, and it stays so when it is revised."""
    scoring = Scoring(DEFAULT)
    spans = at_start(one_run(3), seconds_ago)
    scoring.take(spans[:3])
    scoring.judge_all()
    assert [old] == [run.backfill for run in scoring.runs.values()]
    scoring.take(spans[3:])
    scoring.judge_all()
    assert [(2, old)] == [(run.verdict.revision, run.backfill) for run in scoring.runs.values()]


def test_a_run_one_of_whose_spans_came_late_is_not_backfill() -> None:
    """What counts is when it began to come."""
    scoring = Scoring(DEFAULT, grace_ns=3600 * NS_PER_S, idle_ns=3600 * NS_PER_S, max_age_ns=7200 * NS_PER_S)
    spans = at_start(one_run(3), 1)
    scoring.take(spans[:3])
    scoring.clock.pass_s(1000)
    scoring.take(spans[3:])
    scoring.judge_all()
    assert [(1, False)] == [(run.verdict.revision, run.backfill) for run in scoring.runs.values()]


def test_a_run_one_of_whose_traces_came_late_is_not_backfill() -> None:
    """Its other trace came while it ran."""
    scoring = Scoring(DEFAULT, grace_ns=3600 * NS_PER_S, idle_ns=3600 * NS_PER_S, max_age_ns=7200 * NS_PER_S)
    spans = at_start([tool("t", 0, 9, run_id="job"), tool("u", 0, 9, run_id="job", trace_id=OTHER_TRACE)], 1)
    scoring.take(spans[:1])
    scoring.clock.pass_s(1000)
    scoring.take(spans[1:])
    scoring.judge_all()
    assert [(2, False)] == [(run.verdict.calls, run.backfill) for run in scoring.runs.values()]


def test_a_sampled_run_is_marked() -> None:
    """Counts of sampled runs are not whole."""
    scoring = Scoring(DEFAULT)
    scoring.take([msgspec.structs.replace(one, sampled=True) for one in one_run(2)])
    scoring.judge_all()
    assert [True] == [Flag.SAMPLED in run.verdict.flags for run in scoring.runs.values()]


def test_the_tools_of_a_run_are_counted() -> None:
    """Calls by tool, and the spans of its group."""
    scoring = Scoring(DEFAULT)
    scoring.take([*one_run(2), tool("u", 50, 55, parent="a", tool_name="write")])
    scoring.judge_all()
    assert [({"lookup": 2, "write": 1}, 4)] == [(run.tools, run.spans) for run in scoring.runs.values()]


# --- large groups -----------------------------------------------------------------------------------------------


def test_a_group_over_its_limit_is_cut_as_replay_cuts_it() -> None:
    """Parts are numbered and flagged, and those that are full are closed for good."""
    spans = [tool(f"t{n:02}", n * 10, n * 10 + 5, args=str(n // 4), run_id="long") for n in range(50)]
    scoring = Scoring(DEFAULT, max_spans=20)
    scoring.take(spans)
    scoring.judge_all()
    assert replayed(spans, DEFAULT, max_group_spans=20) == scoring.verdicts()
    assert {"long": True, "long~2": True, "long~3": True} == {
        run_id: run.verdict.final for run_id, run in scoring.runs.items()
    }
    (group,) = scoring.store.groups.values()
    assert len(group.facts) < 11 * 400


@pytest.mark.parametrize("request_spans", [1, 7, 20, 33])
def test_a_group_that_grows_past_its_limit_goes_on_in_its_next_part(request_spans: int) -> None:
    """In order of time the parts are replay's, however they were judged; nothing that is closed is revised."""
    spans = [tool(f"t{n:02}", n * 10, n * 10 + 5, args=str(n // 4), run_id="long") for n in range(50)]
    scoring = Scoring(DEFAULT, max_spans=20)
    for first in range(0, 50, request_spans):
        scoring.take(spans[first : first + request_spans])
        scoring.clock.pass_s(61)
        scoring.judge.settle_due()
    scoring.judge_all()
    assert replayed(spans, DEFAULT, max_group_spans=20) == scoring.verdicts()
    assert len(set(revisions(scoring))) == len(revisions(scoring))


def test_copies_do_not_count_towards_the_limit() -> None:
    """A sender that repeats itself cuts no run."""
    spans = one_run(15)
    scoring = Scoring(DEFAULT, max_spans=20)
    for _ in range(200):
        scoring.take(spans)
        scoring.judge.settle_due()
    scoring.judge_all()
    assert replayed(spans, DEFAULT) == scoring.verdicts()
    (group,) = scoring.store.groups.values()
    assert len(group.facts) < 17 * 400


def test_a_large_group_rests_before_it_is_judged_again() -> None:
    """Otherwise a name that all runs share would have the same spans judged over and over."""
    spans = [tool(f"{n:06}", n, n + 1, run_id="all", args=str(n)) for n in range(6000)]
    scoring = Scoring(DEFAULT, grace_ns=NS_PER_S)
    scoring.take([agent("a", 0, 10_000), *spans])
    scoring.clock.pass_s(5)
    assert 1 == scoring.judge.settle_due()
    scoring.take([agent("b", 0, 1, trace_id=OTHER_TRACE, run_id="all")])
    scoring.clock.pass_s(2.3)
    assert 0 == scoring.judge.settle_due()
    scoring.clock.pass_s(5)
    assert 1 == scoring.judge.settle_due()


def test_a_large_group_of_many_traces_rests_as_well() -> None:
    """The name that all share stands behind the ids of their traces, and is the one that matters."""
    scoring = Scoring(DEFAULT, grace_ns=NS_PER_S)
    scoring.take([tool("a", 0, 1, trace_id=f"{n:032x}", run_id="all", args=str(n)) for n in range(6000)])
    scoring.clock.pass_s(61)
    assert 1 == scoring.judge.settle_due()
    scoring.take([agent("b", 0, 1, trace_id="f" * 32, run_id="all")])
    scoring.clock.pass_s(2.3)
    assert 0 == scoring.judge.settle_due()
    scoring.clock.pass_s(5)
    assert 1 == scoring.judge.settle_due()


def test_names_that_join_traces_count_as_load() -> None:
    """One span can bear as many links as fit a request: memory is held for each until it is judged."""
    scoring = Scoring(DEFAULT)
    links = tuple((f"{n:032x}", "1" * 16) for n in range(1000, 1499))
    scoring.take([tool("a", 0, 1, trace_id=TRACE, links=links)])
    scoring.judge.settle_due()
    assert (1, 500) == (scoring.judge.open_spans(), scoring.judge.load())
    scoring.judge_all()
    assert (0, 0) == (scoring.judge.open_spans(), scoring.judge.load())


# --- faults and endings -------------------------------------------------------------------------------------------


def test_a_settlement_that_is_refused_is_made_again_after_a_pause() -> None:
    """Disk full: nothing is lost, nothing is done twice, and the disk is not asked all the time."""
    scoring = Scoring(DEFAULT)
    scoring.take(one_run(3))
    scoring.clock.pass_s(5)
    scoring.store.refusing = Refusal.DISK_FULL
    assert (1, 1) == (scoring.judge.settle_due(), scoring.judge.failures)
    assert (0, 1) == (scoring.judge.settle_due(), scoring.judge.failures)
    assert 1 == len(scoring.store.rows)
    scoring.store.refusing = None
    scoring.clock.pass_s(1)
    assert 1 == scoring.judge.settle_due()
    assert [(RunOutcome.LOOP, 1, Close.ROOT_ENDED)] == told(scoring)


def test_after_a_crash_the_index_is_what_was_kept() -> None:
    """Rows that were not judged are found again, with when they came."""
    scoring = Scoring(DEFAULT)
    spans = one_run(3)
    scoring.take(spans[:2])
    scoring.clock.pass_s(3)
    scoring.take(spans[2:])
    scoring.again()
    assert (2, 4) == (scoring.recovered, scoring.judge.open_spans())
    scoring.clock.pass_s(4.9)
    assert 0 == scoring.judge.settle_due()
    scoring.clock.pass_s(0.1)
    assert 1 == scoring.judge.settle_due()
    assert [(RunOutcome.LOOP, 1, Close.ROOT_ENDED)] == told(scoring)


def test_a_group_that_fails_alone_waits_longer_each_time_and_holds_nothing_up(caplog: pytest.LogCaptureFixture) -> None:
    """Facts that do not read back: everything else is judged, and no value is in the log."""
    scoring = Scoring(DEFAULT)
    scoring.take([*one_run(3), *one_run(2, trace_id=OTHER_TRACE)])
    (bad,) = [row for row, arrival in scoring.store.rows.items() if arrival.trace_id == TRACE]
    scoring.store.rows[bad] = msgspec.structs.replace(scoring.store.rows[bad], facts=b"\x91\xa6canary")
    for _ in range(700):
        scoring.clock.pass_s(1)
        scoring.judge.settle_due()
    assert [OTHER_TRACE] == list(scoring.runs)
    assert 10 == scoring.judge.failures
    assert 10 == len(caplog.records)
    assert "canary" not in caplog.text


def test_what_is_due_at_one_time_is_judged_in_portions() -> None:
    """So that what comes meanwhile is taken in."""
    scoring = Scoring(DEFAULT)
    scoring.take([agent("a", 0, 9, trace_id=f"{n:032x}") for n in range(MOST_AT_ONCE + 10)])
    scoring.clock.pass_s(5)
    assert [MOST_AT_ONCE, 10, 0] == [scoring.judge.settle_due() for _ in range(3)]
    assert MOST_AT_ONCE + 10 == len(scoring.runs)


class Waiting:
    """Counts that are not ready until they were seen."""

    def __init__(self) -> None:
        self.ready = False
        self.calls: list[str] = []

    def plan(self, pairs: Any, *, now_ns: int) -> Waiting:
        """Notes the pairs."""
        del now_ns
        self.runs: tuple[JudgedRun, ...] = tuple(after for _, after in pairs if after is not None)
        self.totals = {("runs", ()): 1.0}
        self.forgotten = ()
        self.calls.append("plan")
        return self

    def apply(self, plan: Any) -> None:
        """Notes it."""
        self.calls.append("apply" if plan is self else "?")

    def abandon(self, plan: Any) -> None:
        """Notes it."""
        self.calls.append("abandon" if plan is self else "?")


def test_a_verdict_waits_until_its_metrics_are_ready() -> None:
    """A plan is applied after the commit, or abandoned where there was none."""
    counts = Waiting()
    scoring = Scoring(DEFAULT, counts=counts)
    scoring.take(one_run(3))
    scoring.clock.pass_s(5)
    assert (1, {}) == (scoring.judge.settle_due(), scoring.runs)
    counts.ready = True
    scoring.store.refusing = Refusal.STORE_FAILED
    scoring.clock.pass_s(5)
    assert (1, {}) == (scoring.judge.settle_due(), scoring.runs)
    scoring.store.refusing = None
    scoring.clock.pass_s(5)
    assert (1, {("runs", ()): 1.0}) == (scoring.judge.settle_due(), scoring.store.totals)
    assert ["plan", "plan", "abandon", "plan", "apply"] == counts.calls
    assert [plain(run.verdict) for run in scoring.runs.values()] == replayed(one_run(3), DEFAULT)


def test_policies_are_the_owners(tmp_path: Any) -> None:
    """A budget of the policy decides here as everywhere."""
    del tmp_path
    owned: Policy = policy.load(
        '{"version": 1, "policy": "p", "policy_version": "1", "tools": {"lookup": {"max_calls": 1}}}'
    )
    scoring = Scoring(owned)
    scoring.take([agent("a", 0, 99), *(tool(f"t{n}", n * 10, n * 10 + 5, parent="a", args=str(n)) for n in (1, 2))])
    scoring.judge_all()
    assert [RunOutcome.BUDGET_EXCEEDED] == [run.verdict.outcome for run in scoring.runs.values()]


WRITES = policy.load(
    '{"version": 1, "policy": "p", "policy_version": "1", "tools": {'
    '"pay": {"effect": "write", "business_key": ["order"], "business_scope": "global"}, '
    '"note": {"effect": "write", "business_key": ["order"], "business_scope": "conversation"}}}'
)


def write(trace_id: str, at: int, *, name: str = "pay", order: int = 7, conversation: str | None = None) -> Span:
    """A write as an application without our part sends it."""
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.arguments": f'{{"order": {order}}}',
        "gen_ai.tool.call.result": '{"state": "done"}',
        **({} if conversation is None else {"gen_ai.conversation.id": conversation}),
    }
    start_ns = START_NS + at
    return Span(
        trace_id=trace_id, span_id=f"{at + 1:016x}", start_ns=start_ns, end_ns=start_ns + 1, attributes=attributes
    )


@pytest.mark.parametrize("together", [True, False])
def test_a_write_that_another_trace_made_before_is_seen(*, together: bool) -> None:
    """A business key that holds everywhere brings the traces together, also where the first was judged long ago."""
    spans = [write(TRACE, 0), write(OTHER_TRACE, 1)]
    scoring = Scoring(WRITES)
    for one in spans:
        scoring.take([one])
        if not together:
            scoring.judge_all()
    scoring.judge_all()
    assert replayed(spans, WRITES) == scoring.verdicts()
    assert RunOutcome.DUPLICATE_WRITE in [verdict.outcome for verdict in scoring.verdicts()]


@settings(deadline=None)
@given(
    st.lists(
        st.builds(
            write,
            st.sampled_from([f"{number:032x}" for number in range(1, 5)]),
            st.integers(0, 50),
            name=st.sampled_from(["pay", "note"]),
            order=st.integers(1, 2),
            conversation=st.sampled_from([None, "c"]),
        ),
        min_size=1,
        max_size=8,
        unique_by=lambda span: span.span_id,
    ),
    deliveries,
)
def test_writes_are_the_same_as_replay_sees_them(spans: list[Span], delivery: Delivery) -> None:
    """Whichever runs made them, in whichever groups, and however they come."""
    scoring = Scoring(WRITES)
    deliver(scoring, spans, delivery)
    assert replayed(spans, WRITES) == scoring.verdicts()


def test_a_thread_that_judges_ends_when_it_is_told_to() -> None:
    """What waits then is judged after the next start."""
    scoring = Scoring(DEFAULT)
    thread = threading.Thread(target=scoring.judge.run)
    thread.start()
    scoring.take(one_run(3))
    scoring.clock.pass_s(5)
    for _ in range(1000):
        if scoring.runs:
            break
        thread.join(0.01)
    scoring.judge.stop()
    thread.join()
    scoring.take(one_run(1, trace_id=OTHER_TRACE))
    scoring.clock.pass_s(500)
    assert ([TRACE], 1) == (list(scoring.runs), len(scoring.store.rows))
    scoring.again()
    scoring.judge_all()
    assert [TRACE, OTHER_TRACE] == list(scoring.runs)
