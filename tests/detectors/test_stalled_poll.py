"""stalled_poll: waiting that brings nothing."""

from __future__ import annotations

import pytest

from otel_loopguard.model import ErrorCategory, Kind, Outcome, Progress, ResultClass, Severity
from tests.detectors.feeding import UNSEEN, Run, state


@pytest.mark.parametrize(("count", "expected"), [(9, None), (10, None), (11, 11), (12, 11)])
def test_threshold_of_declared_pollers(count: int, expected: int | None) -> None:
    """Fault "threshold off by one": ten unchanged answers are within the default patience, the eleventh is not."""
    run = Run()
    run.repeat(count, "poll", "job", "running")
    assert expected == run.first(Kind.STALLED_POLL)
    assert [Severity.LOOP] * (expected is not None) == [f.severity for f in run.found(Kind.STALLED_POLL)]


@pytest.mark.parametrize(("count", "expected"), [(3, None), (4, 4), (5, 4)])
def test_threshold_by_policy(count: int, expected: int | None) -> None:
    """`max_unchanged` of the policy decides; the finding names it."""
    run = Run()
    for number in range(count):
        run.call("export", "job", f"request {number}", signals=state("queued", terminal=False))
    assert expected == run.first(Kind.STALLED_POLL)
    assert ["max_unchanged"] * (expected is not None) == [f.rule for f in run.found(Kind.STALLED_POLL)]


def test_within_bounds_no_other_kind_fires() -> None:
    """A poller's equal answers within bounds are healthy."""
    run = Run()
    run.repeat(10, "poll", "job", "running")
    assert set() == run.kinds()


def test_silent_declared_waits_are_quiet() -> None:
    """Nine empty waits and then output."""
    run = Run()
    run.repeat(9, "poll", "keys", "", result_class=ResultClass.SILENCE)
    run.call("poll", "keys", "build done")
    assert set() == run.kinds()


def test_polling_that_moves_is_quiet() -> None:
    """Every answer differs."""
    run = Run()
    for percent in range(50):
        run.call("poll", "job", f"{percent} %")
    assert set() == run.kinds()


def test_change_resets() -> None:
    """Patience begins anew with every change of state."""
    run = Run()
    for name in ("queued", "queued", "queued", "running", "running", "running"):
        run.call("export", "job", name, signals=state(name, terminal=False))
    assert Kind.STALLED_POLL not in run.kinds()


def test_other_work_between_polls_does_not_reset() -> None:
    """The owner bounded unchanged answers, not consecutive ones."""
    run = Run()
    for number in range(4):
        run.call("export", "job", "queued", signals=state("queued", terminal=False))
        run.call("read", f"{number}", f"{number}")
    assert 7 == run.first(Kind.STALLED_POLL)


def test_write_between_polls_resets() -> None:
    """Starting the job again begins another wait."""
    run = Run()
    for number in range(4):
        run.repeat(3, "export", "job", "queued", signals=state("queued", terminal=False))
        run.call("write", f"start {number}", "ok")
    assert Kind.STALLED_POLL not in run.kinds()


def test_user_turn_resets() -> None:
    """Being asked again, one looks again."""
    run = Run()
    for turn in range(1, 5):
        run.user_turn = turn
        run.repeat(3, "export", "job", "queued", signals=state("queued", terminal=False))
    assert Kind.STALLED_POLL not in run.kinds()


def test_unknown_answers_do_not_count() -> None:
    """Answers that were not captured are no evidence of waiting in vain."""
    run = Run()
    run.repeat(30, "poll", "job", UNSEEN)
    assert Kind.STALLED_POLL not in run.kinds()


@pytest.mark.parametrize("category", [ErrorCategory.UNKNOWN, ErrorCategory.NOT_FOUND, ErrorCategory.BUSINESS])
def test_failure_that_waiting_may_cure_gets_patience(category: ErrorCategory) -> None:
    """A service that is still starting refuses the connection, or does not find the job."""
    run = Run()
    for _ in range(12):
        run.fail("poll", "job", error_category=category)
    assert 11 == run.first(Kind.STALLED_POLL)
    assert Kind.ERROR_REPEAT not in run.kinds()


@pytest.mark.parametrize("category", [ErrorCategory.VALIDATION, ErrorCategory.PERMISSION])
def test_failure_that_waiting_does_not_cure_gets_none(category: ErrorCategory) -> None:
    """Wrong arguments stay wrong however long one waits."""
    run = Run()
    for _ in range(4):
        run.fail("poll", "job", error_category=category)
    assert {Kind.ERROR_REPEAT} == run.kinds()
    assert 3 == run.first(Kind.ERROR_REPEAT)


def test_terminal_answer_gets_no_patience() -> None:
    """A finished job that is asked for again and again is a plain repeat."""
    run = Run()
    run.call("export", "job", "running", signals=state("running", terminal=False))
    for _ in range(3):
        run.call("export", "job", "complete", signals=state("complete", terminal=True))
    assert {Kind.EXACT_REPEAT} == run.kinds()
    assert 4 == run.first(Kind.EXACT_REPEAT)


@pytest.mark.parametrize(("count", "expected"), [(9, None), (10, 10), (11, 10)])
def test_threshold_of_undeclared_silence(count: int, expected: int | None) -> None:
    """The tenth silent answer of an undeclared tool is suspect, and no more than that."""
    run = Run()
    run.repeat(count, "job_output", "j1", "", result_class=ResultClass.SILENCE)
    assert expected == run.first(Kind.STALLED_POLL)
    assert [Severity.SUSPECT] * (expected is not None) == [f.severity for f in run.found(Kind.STALLED_POLL)]
    assert frozenset() == run.tracker.wasted_calls
    assert not run.tracker.stalled_repeat


def test_silence_broken_by_work_is_quiet() -> None:
    """Silent commands between other calls are how a shell works."""
    run = Run()
    for number in range(20):
        run.call("shell", "cd x", "", result_class=ResultClass.SILENCE)
        run.call("shell", f"ls {number}", f"{number}")
    assert set() == run.kinds()


def test_terminal_state_of_the_run() -> None:
    """True once every wait has ended; None where no poller told."""
    run = Run()
    assert run.tracker.terminal_state is None
    run.call("export", "one", "running", signals=state("running", terminal=False))
    run.call("export", "two", "running", signals=state("running", terminal=False))
    assert run.tracker.terminal_state is False
    run.call("export", "one", "complete", signals=state("complete", terminal=True))
    assert run.tracker.terminal_state is False
    run.call("export", "two", "complete", signals=state("complete", terminal=True))
    assert run.tracker.terminal_state is True


def test_states_in_order_are_progress() -> None:
    """Queued, running, complete: progress at each step, and no finding."""
    run = Run()
    for name in ("queued", "running", "complete"):
        seen = run.call("export", "job", "x", signals=state(name, terminal=name == "complete"))
    assert [Progress.FIRST, Progress.ADVANCED, Progress.ADVANCED] == run.progress()
    assert ("status changes", True) == (seen.rule, seen.terminal)
    assert run.tracker.progress_observed


def test_producers_state_without_content() -> None:
    """A scorer has the producer's progress and terminal flag, and comes to the same finding."""
    run = Run()
    for _ in range(4):
        run.call("export", "job", "x", progress=Progress.UNCHANGED, progress_rule="status changes", terminal=False)
    assert 4 == run.first(Kind.STALLED_POLL)
    assert run.tracker.terminal_state is False


def test_denied_polls_do_not_count() -> None:
    """A poll that was refused brought no answer."""
    run = Run()
    for _ in range(12):
        run.refuse("poll", "job")
    assert {Kind.DENIED_REPEAT} == run.kinds()
    assert Outcome.DENIED is run.calls[0].facts.outcome
