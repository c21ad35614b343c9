"""error_repeat: one call in consecutive rounds that fails the same way."""

from __future__ import annotations

from typing import Any

import pytest

from otel_loopguard.model import DeniedBy, ErrorCategory, Kind, Outcome, Progress, ResultClass
from tests.detectors.feeding import Run


@pytest.mark.parametrize(("count", "expected"), [(2, None), (3, 3), (4, 3)])
def test_threshold(count: int, expected: int | None) -> None:
    """Fault "threshold off by one": the third equal failure fires."""
    run = Run()
    for _ in range(count):
        run.fail()
    assert expected == run.first(Kind.ERROR_REPEAT)


@pytest.mark.parametrize(("tool", "expected"), [("strict", 2), ("patient", 5)])
def test_threshold_by_contract(tool: str, expected: int) -> None:
    """The tool's `allowed_repeats` counts for failures too."""
    run = Run()
    for _ in range(8):
        run.fail(tool)
    assert expected == run.first(Kind.ERROR_REPEAT)


def test_text_does_not_matter() -> None:
    """A clock in the message makes no new failure."""
    run = Run()
    for minute in range(4):
        run.fail(text=f"12:0{minute} connect timed out", error_type="ExitStatus255")
    assert 3 == run.first(Kind.ERROR_REPEAT)


def test_one_stretch_is_one_kind() -> None:
    """Equal failures are an error_repeat and not an exact_repeat as well."""
    run = Run()
    for _ in range(5):
        run.fail(text="the same")
    assert {Kind.ERROR_REPEAT} == run.kinds()


def test_validation_that_never_reached_the_tool_counts() -> None:
    """Arguments that were refused before dispatch are failures like others, but nothing was executed."""
    run = Run()
    for _ in range(4):
        run.fail("lint", error_category=ErrorCategory.VALIDATION, dispatched=False)
    assert 3 == run.first(Kind.ERROR_REPEAT)
    assert frozenset() == run.tracker.wasted_calls


def test_missing_category_equals_unknown() -> None:
    """A failure nobody classified is of unknown category."""
    run = Run()
    run.fail(error_category=None)
    run.fail(error_category=ErrorCategory.UNKNOWN)
    run.fail(error_category=None)
    assert 3 == run.first(Kind.ERROR_REPEAT)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"error_category": ErrorCategory.VALIDATION}, {"error_category": ErrorCategory.PERMISSION}),
        ({"error_type": "KeyError"}, {"error_type": "ValueError"}),
    ],
)
def test_another_failure_resets(first: dict[str, Any], second: dict[str, Any]) -> None:
    """A failure of another category or type is another answer."""
    run = Run()
    for facts in (first, first, second, second):
        run.fail(**facts)
    assert set() == run.kinds()
    assert not run.tracker.progress_observed


def test_transient_failures_are_quiet() -> None:
    """Waiting out an outage is no loop."""
    run = Run()
    for _ in range(12):
        run.fail(error_category=ErrorCategory.TRANSIENT)
    assert {Kind.OUTAGE} == run.kinds()


def test_transient_failure_neither_counts_nor_resets() -> None:
    """One hiccup in between tells nothing about the lasting failure."""
    run = Run()
    run.fail()
    run.fail(error_category=ErrorCategory.TRANSIENT)
    run.fail()
    assert set() == run.kinds()
    run.fail()
    assert 4 == run.first(Kind.ERROR_REPEAT)


def test_different_arguments_are_quiet() -> None:
    """A batch in which every item fails is no repeat of one call."""
    run = Run()
    for number in range(10):
        run.fail(arguments=f"item {number}")
    assert set() == run.kinds()


def test_success_resets_and_is_progress() -> None:
    """A failure that turned into a success is progress; a success that turned into a failure is none."""
    run = Run()
    run.fail()
    run.fail()
    run.call()
    run.fail()
    run.fail()
    assert set() == run.kinds()
    assert [Progress.FIRST, Progress.UNCHANGED, Progress.ADVANCED, Progress.UNKNOWN, Progress.UNCHANGED] == (
        run.progress()
    )


def test_user_turn_resets() -> None:
    """A new user turn starts over."""
    run = Run()
    run.fail()
    run.fail()
    run.user_turn = 2
    run.fail()
    assert set() == run.kinds()


def test_equal_siblings_count_once() -> None:
    """Fault "sibling as sequence": five failures of one turn are one round."""
    run = Run()
    run.fail()
    for _ in range(4):
        run.fail(sibling=True)
    assert Kind.ERROR_REPEAT not in run.kinds()


def test_in_band_error_counts() -> None:
    """A result that is nothing but an error message is a failure, whatever the status says."""
    run = Run()
    run.repeat(3, result="Error: no such table", result_class=ResultClass.ERROR)
    assert {Kind.ERROR_REPEAT} == run.kinds()


def test_in_band_errors_of_one_category_count() -> None:
    """Where the text tells the category, the rest of it does not matter."""
    run = Run()
    for second in range(3):
        run.call(
            result=f"{second} Error: not authorised",
            result_class=ResultClass.ERROR,
            error_category=ErrorCategory.PERMISSION,
        )
    assert 3 == run.first(Kind.ERROR_REPEAT)


def test_in_band_error_texts_that_move_are_quiet() -> None:
    """A log that is read on, line by line, may say "error" in each: texts that differ are no proof."""
    run = Run()
    for line in range(6):
        run.call(result=f"error: step {line} failed", result_class=ResultClass.ERROR)
    assert set() == run.kinds()


def test_denied_by_the_guard_keeps_the_kind() -> None:
    """A call that the guard denied within failures is one more of them."""
    run = Run()
    run.fail()
    run.fail()
    run.refuse(by=DeniedBy.GUARD)
    assert 3 == run.first(Kind.ERROR_REPEAT)


def test_failed_write_counts_by_failure() -> None:
    """A write that fails the same way is a failure; one that then succeeds ends the stretch."""
    run = Run()
    run.fail("write")
    run.fail("write")
    run.call("write")
    assert {Kind.DUPLICATE_WRITE} == run.kinds()
    run.fail("write")
    run.fail("write")
    run.fail("write")
    assert 6 == run.first(Kind.ERROR_REPEAT)


def test_unknown_outcome_of_a_failure_class() -> None:
    """The class alone is enough where the span does not tell the outcome."""
    run = Run()
    run.repeat(3, result_class=ResultClass.ERROR, outcome=Outcome.UNKNOWN)
    assert 3 == run.first(Kind.ERROR_REPEAT)
