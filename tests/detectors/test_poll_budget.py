"""poll_budget: a declared poller that spent its total, its deadline, or did not wait."""

from __future__ import annotations

import pytest

from otel_loopguard.model import Kind, Severity
from tests.detectors.feeding import Run, state


@pytest.mark.parametrize(("count", "expected"), [(5, None), (6, None), (7, 7), (8, 7)])
def test_threshold_of_the_total(count: int, expected: int | None) -> None:
    """Fault "threshold off by one": the poll after `max_polls` fires, although every answer moved."""
    run = Run()
    for number in range(count):
        run.call("export", "job", f"{number}", signals=state(f"{number}", terminal=False))
    assert expected == run.first(Kind.POLL_BUDGET)
    assert run.tracker.poll_budget_exhausted is (expected is not None)
    assert [("max_polls", Severity.BUDGET, count)] * (expected is not None) == [
        (finding.rule, finding.severity, finding.count) for finding in run.tracker.findings()
    ]


@pytest.mark.parametrize(("last_s", "expected"), [(159.9, None), (160.0, None), (160.1, 3)])
def test_threshold_of_the_deadline(last_s: float, expected: int | None) -> None:
    """Fault "threshold off by one": a poll that starts at the deadline is in time, one after it is not."""
    run = Run()
    for number, at_s in enumerate((100.0, 130.0, last_s)):
        run.call("timed", "job", f"{number}", at_s=at_s)
    assert expected == run.first(Kind.POLL_BUDGET)
    assert run.tracker.poll_budget_exhausted is (expected is not None)


@pytest.mark.parametrize(("gap_s", "expected"), [(4.9, 2), (5.0, None), (5.1, None)])
def test_threshold_of_the_interval(gap_s: float, expected: int | None) -> None:
    """Fault "threshold off by one": the least interval itself is allowed; it exhausts no budget."""
    run = Run()
    run.call("timed", "job", "1", at_s=100.0)
    run.call("timed", "job", "2", at_s=100.0 + gap_s)
    assert expected == run.first(Kind.POLL_BUDGET)
    assert ["min_interval_s"] * (expected is not None) == [finding.rule for finding in run.tracker.findings()]
    assert not run.tracker.poll_budget_exhausted


def test_polls_in_time_are_quiet() -> None:
    """Polling that moves, within all bounds."""
    run = Run()
    for number in range(10):
        run.call("timed", "job", f"{number}", at_s=100.0 + 6 * number)
    assert set() == run.kinds()


def test_different_jobs_have_budgets_of_their_own() -> None:
    """A batch of jobs, each polled a few times."""
    run = Run()
    for job in range(8):
        for number in range(6):
            run.call("export", f"job {job}", f"{number}", signals=state(f"{number}", terminal=False))
    assert set() == run.kinds()


def test_terminal_answer_begins_a_new_wait() -> None:
    """A job that is started again and again may be polled as long each time."""
    run = Run()
    for _ in range(4):
        for name in ("queued", "running", "almost", "complete"):
            run.call("export", "job", name, signals=state(name, terminal=name == "complete"))
    assert set() == run.kinds()


def test_user_turn_begins_a_new_wait() -> None:
    """The user's question gives a fresh budget."""
    run = Run()
    for turn in range(1, 5):
        run.user_turn = turn
        for number in range(4):
            run.call("export", "job", f"{number}", signals=state(f"{number}", terminal=False))
    assert Kind.POLL_BUDGET not in run.kinds()


def test_write_begins_a_new_wait() -> None:
    """A write may have started another job."""
    run = Run()
    for start in range(4):
        run.call("write", f"start {start}", "ok")
        for number in range(4):
            run.call("export", "job", f"{number}", signals=state(f"{number}", terminal=False))
    assert Kind.POLL_BUDGET not in run.kinds()


def test_sibling_polls_have_no_interval() -> None:
    """Fault "sibling as sequence": equal polls of one turn were asked for at one time."""
    run = Run()
    run.call("timed", "job", "1", at_s=100.0)
    run.call("timed", "job", "1", at_s=100.1, sibling=True)
    assert Kind.POLL_BUDGET not in run.kinds()


def test_unknown_times_are_quiet() -> None:
    """Without times there is no deadline and no interval."""
    run = Run()
    for number in range(10):
        run.call("timed", "job", f"{number}")
    assert set() == run.kinds()


def test_clock_that_goes_back_is_quiet() -> None:
    """Times of two hosts may disagree; that is no short interval."""
    run = Run()
    for number, at_s in enumerate((100.0, 90.0, 106.0)):
        run.call("timed", "job", f"{number}", at_s=at_s)
    assert set() == run.kinds()


def test_refused_polls_are_free() -> None:
    """A poll that was refused spent nothing."""
    run = Run()
    for number in range(6):
        run.call("export", "job", f"{number}", signals=state(f"{number}", terminal=False))
        run.refuse("export", "job")
    assert Kind.POLL_BUDGET not in run.kinds()


def test_failing_polls_are_counted() -> None:
    """A poll that failed was a poll."""
    run = Run()
    for number in range(7):
        run.fail("export", "job", error_type=f"Error{number}")
    assert 7 == run.first(Kind.POLL_BUDGET)
