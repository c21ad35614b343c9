"""Totals over many settlements: zeros, caps, releases, restarts, and that the net is what the runs say."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_loopguard.model import RunOutcome
from otel_loopguard.scorer.label_names import Caps
from otel_loopguard.scorer.metrics import METRIC_OF, RELEASE_SEEN, Shape
from otel_loopguard.scorer.records import JudgedRun, Series, Totals
from otel_loopguard.scorer.totals import Accumulated, Exemplar, Plan
from tests.scorer.judged import NOW_NS, SECOND, TRACE, finding, judged, revised, runs

SMALL = Caps(services=2, agents=1, tools=2, releases=2, releases_waiting=1, releases_remembered=4)


class Disk:
    """The store's totals, and the runs in it."""

    def __init__(self) -> None:
        self.totals: dict[Series, float] = {}
        self.runs: dict[str, JudgedRun] = {}

    def settle(self, plan: Plan, withdrawn: Iterable[str] = ()) -> None:
        """One transaction, as `Store.settle` makes it."""
        for series, value in plan.totals.items():
            self.totals[series] = self.totals.get(series, 0.0) + value
        for series in plan.forgotten:
            self.totals.pop(series, None)
        self.runs.update({run.run_id: run for run in plan.runs})
        for run_id in withdrawn:
            del self.runs[run_id]


def settled(totals: Accumulated, disk: Disk, *after: JudgedRun, now_ns: int = NOW_NS) -> Plan:
    """Plans, writes and applies one settlement."""
    plan = totals.plan([(disk.runs.get(run.run_id), run) for run in after], now_ns=now_ns)
    assert plan.ready
    disk.settle(plan)
    totals.apply(plan)
    return plan


def at_once(stored: Totals | None = None, *, caps: Caps | None = None) -> Accumulated:
    """Totals that wait for nobody."""
    return Accumulated(stored or {}, now_ns=NOW_NS, wait_ns=0, caps=caps)


def values(totals: Accumulated, name: str, label: str) -> dict[str, float]:
    """The shown series of one metric, summed by one label; those at 0 are left out."""
    found: dict[str, float] = {}
    for (sample, labels), value in totals.snapshot(now_ns=NOW_NS).values.items():
        if sample == name and value:
            found[dict(labels)[label]] = found.get(dict(labels)[label], 0) + value
    return found


def close_to(expected: Totals, actual: Totals) -> bool:
    """Whether two sums of floats are the same but for rounding."""
    return dict(actual) == pytest.approx(dict(expected), abs=1e-6)


# --- zeros ----------------------------------------------------------------------------------------------------------


def test_a_first_verdict_waits_for_a_scrape() -> None:
    """The zeros are shown before the verdict is; after one scrape it may be written."""
    totals, run = Accumulated({}, now_ns=NOW_NS), judged(outcome=RunOutcome.LOOP)
    assert not totals.plan([(None, run)], now_ns=NOW_NS).ready
    snapshot = totals.snapshot(now_ns=NOW_NS + SECOND)
    shown = {
        dict(labels)["outcome"]: value
        for (name, labels), value in snapshot.values.items()
        if name == "loopguard_runs_total"
    }
    assert dict.fromkeys(map(str, RunOutcome), 0) == shown
    assert not totals.plan([(None, run)], now_ns=NOW_NS + 2 * SECOND).ready
    totals.seen(snapshot)
    plan = totals.plan([(None, run)], now_ns=NOW_NS + 3 * SECOND)
    assert plan.ready
    assert {} == values(totals, "loopguard_runs_total", "outcome")
    totals.apply(plan)
    assert {"loop": 1} == values(totals, "loopguard_runs_total", "outcome")


def test_the_second_run_of_a_label_set_does_not_wait() -> None:
    """All outcomes of a label set were opened with its first run."""
    totals = Accumulated({}, now_ns=NOW_NS)
    totals.plan([(None, judged())], now_ns=NOW_NS)
    totals.seen(totals.snapshot(now_ns=NOW_NS))
    assert totals.plan([(None, judged("r2", outcome=RunOutcome.LOOP))], now_ns=NOW_NS).ready
    assert not totals.plan([(None, judged("r3", release="2"))], now_ns=NOW_NS).ready


def test_a_finding_of_a_new_kind_and_tool_waits_too() -> None:
    """A series that could not be foreseen is shown at 0 before it counts."""
    totals = Accumulated({}, now_ns=NOW_NS)
    totals.plan([(None, judged())], now_ns=NOW_NS)
    totals.seen(totals.snapshot(now_ns=NOW_NS))
    run = judged("r2", findings=(finding(),))
    assert not totals.plan([(None, run)], now_ns=NOW_NS).ready
    snapshot = totals.snapshot(now_ns=NOW_NS)
    assert 0 in [value for (name, _), value in snapshot.values.items() if name == "loopguard_findings_total"]
    totals.seen(snapshot)
    assert totals.plan([(None, run)], now_ns=NOW_NS).ready


@pytest.mark.parametrize(("passed_s", "ready"), [(59, False), (60, True)])
def test_a_first_verdict_waits_a_minute_at_most(passed_s: int, ready: bool) -> None:  # noqa: FBT001 - a parameter
    """Where nobody comes for the zeros, the verdict goes without."""
    totals = Accumulated({}, now_ns=NOW_NS)
    totals.seen(totals.snapshot(now_ns=NOW_NS))
    assert not totals.plan([(None, judged())], now_ns=NOW_NS + SECOND).ready
    assert ready == totals.plan([(None, judged())], now_ns=NOW_NS + (1 + passed_s) * SECOND).ready


def test_a_clock_that_is_set_back_holds_up_nothing() -> None:
    """What was opened an hour ahead is not waited for until then."""
    totals = Accumulated({}, now_ns=NOW_NS)
    totals.seen(totals.snapshot(now_ns=NOW_NS + 3600 * SECOND))
    assert not totals.plan([(None, judged())], now_ns=NOW_NS + 3600 * SECOND).ready
    assert totals.plan([(None, judged())], now_ns=NOW_NS).ready


@pytest.mark.parametrize(("passed_s", "ready"), [(299, False), (300, True)])
def test_nobody_is_waited_for_who_has_gone(passed_s: int, ready: bool) -> None:  # noqa: FBT001 - a parameter
    """A scraper that has not come for five minutes is not expected."""
    totals = Accumulated({}, now_ns=NOW_NS)
    totals.seen(totals.snapshot(now_ns=NOW_NS))
    assert ready == totals.plan([(None, judged())], now_ns=NOW_NS + passed_s * SECOND).ready


def test_a_process_that_nobody_scrapes_does_not_wait() -> None:
    """After its first minute a scorer that nobody has asked waits no more."""
    totals = Accumulated({}, now_ns=NOW_NS)
    assert not totals.plan([(None, judged())], now_ns=NOW_NS + 59 * SECOND).ready
    assert totals.plan([(None, judged(release="2"))], now_ns=NOW_NS + 60 * SECOND).ready


def test_zeros_are_written_with_the_first_settlement() -> None:
    """After a restart the same zeros are there, and the same verdicts need not wait."""
    disk = Disk()
    settled(at_once(), disk, judged())
    again = Accumulated(disk.totals, now_ns=NOW_NS + SECOND)
    assert again.plan([(None, judged("r2", outcome=RunOutcome.LOOP))], now_ns=NOW_NS + SECOND).ready


# --- caps -----------------------------------------------------------------------------------------------------------


def test_names_past_a_cap_share_a_label() -> None:
    """The first services, agents and tools keep their names, over a restart too; the others count together."""
    totals, disk = at_once(caps=SMALL), Disk()
    for number in range(4):
        settled(totals, disk, judged(f"r{number}", service=f"s{number}", tools={f"t{number}": 1}))
    assert {"s0": 1, "s1": 1, "__other__": 2} == values(totals, "loopguard_runs_total", "service_name")
    again = at_once(disk.totals, caps=SMALL)
    settled(again, disk, judged("r5", service="s0", agent="a1", tools={"t7": 1, "t8": 1, "t9": 1}))
    settled(again, disk, judged("r6", service="s9"))
    assert {"s0": 2, "s1": 1, "__other__": 3} == values(again, "loopguard_runs_total", "service_name")
    assert {"main": 5, "__other__": 1} == values(again, "loopguard_agent_runs_total", "agent")
    assert {"t0": 1, "t7": 1, "__other__": 2} == {
        dict(labels)["tool"]: value
        for (name, labels), value in again.snapshot(now_ns=NOW_NS).values.items()
        if name == "loopguard_tool_calls_total" and dict(labels)["service_name"] == "s0"
    }


def test_only_the_newest_releases_are_shown() -> None:
    """A release that is displaced goes out of sight at once and its later runs count as old; no total is lost."""
    totals, disk = at_once(caps=SMALL), Disk()
    for release in ("1", "2", "3"):
        settled(totals, disk, judged(release, release=release))
    settled(totals, disk, judged("4", release="1"))
    assert {"2": 1, "3": 1, "__old__": 1} == values(totals, "loopguard_runs_total", "release")
    for held in (totals, at_once(disk.totals, caps=SMALL)):
        assert {"2": 1, "3": 1, "__old__": 1} == values(held, "loopguard_runs_total", "release")
        assert {"2", "3"} == set(values(held, RELEASE_SEEN.sample, "release"))
        assert held.recount(disk.runs.values()) == held.net()
    assert [] == [
        series for series in disk.totals if ("release", "1") in series[1] and series[0] != RELEASE_SEEN.sample
    ]


def test_a_revision_of_a_displaced_release_is_out_of_sight() -> None:
    """A run of a release that is not shown any more is still netted where its counts went."""
    totals, disk = at_once(caps=SMALL), Disk()
    first = judged("1", release="1", wasted_calls=5)
    settled(totals, disk, first, judged("2", release="2"))
    settled(totals, disk, judged("3", release="3"))
    settled(totals, disk, revised(disk.runs["1"], outcome=RunOutcome.LOOP, wasted_calls=1))
    assert [] == [one for one in totals.snapshot(now_ns=NOW_NS).values if ("release", "1") in one[1]]
    assert totals.recount(disk.runs.values()) == totals.net()
    assert totals.recount(disk.runs.values()) == at_once(disk.totals, caps=SMALL).net()


def test_releases_that_wait_are_few() -> None:
    """A service that names each of its runs as a release opens a bounded number of label sets."""
    totals = Accumulated({}, now_ns=NOW_NS, caps=SMALL)
    for number in range(50):
        totals.plan([(None, judged(f"r{number}", release=str(number)))], now_ns=NOW_NS)
    shown = {dict(labels).get("release") for _, labels in totals.snapshot(now_ns=NOW_NS).values}
    assert {None, "0", "1", "2", "__old__"} == shown


def test_old_releases_are_remembered_up_to_a_bound() -> None:
    """However many releases come, the stored series are bounded."""
    totals, disk = at_once(caps=SMALL), Disk()
    sizes = []
    for number in range(12):
        settled(totals, disk, judged(f"r{number}", release=str(number)))
        sizes.append(len(disk.totals))
    assert sizes[6] == sizes[-1]
    assert {"10": 1, "11": 1} == values(totals, "loopguard_runs_total", "release")
    assert totals.recount(disk.runs.values()) == totals.net()
    settled(totals, disk, judged("again", release="0"))
    assert "0" in values(totals, "loopguard_runs_total", "release")


def test_backfill_displaces_no_release() -> None:
    """Old runs open no series of a release."""
    totals, disk = at_once(caps=SMALL), Disk()
    for release in ("1", "2", "3"):
        settled(totals, disk, judged(release, release=release, backfill=release == "3"))
    assert {"1": 1, "2": 1} == values(totals, "loopguard_runs_total", "release")
    assert {"shop": 1} == values(totals, "loopguard_backfill_runs_total", "service_name")


# --- plans ----------------------------------------------------------------------------------------------------------


def test_an_abandoned_plan_changes_nothing() -> None:
    """What was not written is not shown, and its zeros are written with the next settlement."""
    totals, disk = at_once(), Disk()
    first = totals.plan([(None, judged())], now_ns=NOW_NS)
    totals.abandon(first)
    assert {} == values(totals, "loopguard_runs_total", "outcome")
    again = settled(totals, disk, judged())
    assert first.totals == again.totals
    assert totals.snapshot(now_ns=NOW_NS).values == disk.totals


def test_plans_in_flight_are_independent() -> None:
    """Several plans may be made before the first is applied, and none loses a release's counts that goes."""
    totals, disk = at_once(caps=SMALL), Disk()
    plans = [totals.plan([(None, judged(name, release=name))], now_ns=NOW_NS) for name in "123"]
    assert [(True, ())] * 3 == [(plan.ready, plan.displaced) for plan in plans]
    for plan in plans:
        disk.settle(plan)
        totals.apply(plan)
    first = totals.plan([(None, judged("4", release="3"))], now_ns=NOW_NS)
    disk.settle(first)
    second = totals.plan([(disk.runs["1"], revised(disk.runs["1"], outcome=RunOutcome.LOOP))], now_ns=NOW_NS)
    disk.settle(second)
    assert ((("shop", "1"),), ()) == (first.displaced, second.displaced)
    assert {"1": 1, "2": 1, "3": 1} == values(totals, "loopguard_runs_total", "release")
    totals.apply(first)
    totals.apply(second)
    assert {"2": 1, "3": 2} == values(totals, "loopguard_runs_total", "release")
    assert totals.recount(disk.runs.values()) == totals.net()
    assert [] == [
        series for series in disk.totals if series[0] == "loopguard_runs_total" and "1" in dict(series[1]).values()
    ]


def test_a_release_stays_whose_displacement_was_not_written() -> None:
    """After a settlement that failed the releases are as they were, and the next one displaces."""
    totals, disk = at_once(caps=SMALL), Disk()
    settled(totals, disk, *[judged(name, release=name) for name in "12"])
    totals.abandon(totals.plan([(None, judged("3", release="3"))], now_ns=NOW_NS))
    assert {"1": 1, "2": 1} == values(totals, "loopguard_runs_total", "release")
    assert (("shop", "1"),) == settled(totals, disk, judged("3", release="3")).displaced
    assert {"2": 1, "3": 1} == values(totals, "loopguard_runs_total", "release")


def test_a_run_keeps_its_labels_while_its_names_are_the_same() -> None:
    """Also where its release has gone out of sight; and whether it is backfill is said once."""
    totals, disk = at_once(caps=SMALL), Disk()
    first = settled(totals, disk, judged("1", agent=None, release="1"))
    labels = (("agent", "__none__"), ("release", "1"), ("sampled", "false"), ("service_name", "shop"))
    assert labels == first.runs[0].labels
    settled(totals, disk, judged("2", release="2"), judged("3", release="3"))
    again = settled(totals, disk, judged("1", agent=None, release="1", backfill=True))
    assert (labels, False) == (again.runs[0].labels, again.runs[0].backfill)


def test_a_run_gets_new_labels_with_new_names() -> None:
    """An agent that came late is counted as if it had come at once."""
    totals, disk = at_once(), Disk()
    settled(totals, disk, judged("1", agent=None, service=None))
    moved = settled(totals, disk, judged("1"))
    assert (("agent", "main"), ("release", "1.0"), ("sampled", "false"), ("service_name", "shop")) == moved.runs[
        0
    ].labels
    assert {"main": 1, "__none__": 1} == values(totals, "loopguard_agent_runs_total", "agent")
    clean = at_once()
    settled(clean, Disk(), judged("1"))
    assert clean.net() == totals.net()


def test_exemplars_name_the_trace_that_counted_last() -> None:
    """Counters of runs bear what was added and buckets what was observed; sums bear none."""
    totals = at_once()
    settled(totals, Disk(), judged(outcome=RunOutcome.LOOP, tools={"t": 7}))
    found = totals.snapshot(now_ns=NOW_NS).exemplars
    assert {Exemplar(TRACE, 1.0, NOW_NS)} == {
        one for series, one in found.items() if series[0] == "loopguard_runs_total"
    }
    assert {Exemplar(TRACE, 7.0, NOW_NS)} == {one for series, one in found.items() if series[0].endswith("_bucket")}
    assert [] == [series for series in found if series[0].endswith("_sum")]


def test_the_start_is_that_of_the_first_process() -> None:
    """Counting goes on over a restart: so does the time since when."""
    disk = Disk()
    settled(at_once(), disk, judged())
    again = Accumulated(disk.totals, now_ns=NOW_NS + 1000 * SECOND)
    assert NOW_NS == again.start_ns == again.snapshot(now_ns=NOW_NS + 1000 * SECOND).start_ns


# --- any sequence ---------------------------------------------------------------------------------------------------


@st.composite
def histories(draw: st.DrawFn) -> list[list[tuple[str, JudgedRun | None]]]:
    """Settlements: runs that are new, revised or (None) withdrawn."""
    found: list[list[tuple[str, JudgedRun | None]]] = []
    for _ in range(draw(st.integers(1, 8))):
        names = draw(st.sets(st.sampled_from("abcdef"), min_size=1, max_size=3))
        found.append([(name, draw(st.none() | runs(name))) for name in sorted(names)])
    return found


@settings(max_examples=100)
@given(histories(), st.data())
def test_net_is_a_recount_and_nothing_goes_down(
    history: list[list[tuple[str, JudgedRun | None]]], data: st.DataObject
) -> None:
    """After any settlements, restarts and failures between them, disk, memory and the runs say the same."""
    disk, totals = Disk(), at_once(caps=SMALL)
    for settlement in history:
        shown = totals.snapshot(now_ns=NOW_NS).values
        # Withdrawing what is not there is nothing, as the judge sees it.
        pairs = [(disk.runs.get(name), run) for name, run in settlement if name in disk.runs or run is not None]
        plan = totals.plan(pairs, now_ns=NOW_NS)
        assert plan.ready
        if data.draw(st.booleans()):
            totals.abandon(plan)
            plan = totals.plan(pairs, now_ns=NOW_NS)
        assert all(value >= 0 for value in plan.totals.values())
        disk.settle(plan, [before.run_id for before, after in pairs if before is not None and after is None])
        totals.apply(plan)
        if data.draw(st.booleans()):
            totals = at_once(disk.totals, caps=SMALL)
        now = totals.snapshot(now_ns=NOW_NS).values
        assert [] == [series for series, value in shown.items() if series in now and now[series] < value - 1e-9]
        again = at_once(disk.totals, caps=SMALL).snapshot(now_ns=NOW_NS).values
        assert close_to(again, {series: value for series, value in now.items() if series in disk.totals})
        assert close_to(totals.recount(disk.runs.values()), totals.net())
    assert all(METRIC_OF[series[0]].shape is not Shape.GAUGE or value > 0 for series, value in disk.totals.items())
