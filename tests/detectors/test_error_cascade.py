"""error_cascade: one trouble that is met with every tool in turn."""

from __future__ import annotations

import pytest

from otel_loopguard.model import Basis, ErrorCategory, Kind, Severity
from tests.detectors.feeding import Run, digest
from tests.detectors.variants import Record, call, check

KIND = Kind.ERROR_CASCADE
TOOLS = ("mail", "cal", "files", "notes", "tasks")


def _fail(number: int, text: str = "backend gone", **fields: object) -> Record:
    return call(TOOLS[number % 5], {"n": number}, error=text, **fields)


def _found(records: list[Record], expected: int | None) -> list[tuple[Severity, Basis, str | None, int]]:
    findings = check(records, {KIND: expected})
    return [(one.severity, one.basis, one.rule, one.count) for one in findings if one.kind is KIND]


@pytest.mark.parametrize(("count", "expected"), [(4, None), (5, 5), (6, 5)])
def test_fifth_failure_of_one_text(count: int, expected: int | None) -> None:
    """Fault "threshold off by one": five tools that say the same; by likeness, so never denied for."""
    wanted = [(Severity.LOOP, Basis.LIKENESS, "equal text", count)] * (expected is not None)
    assert wanted == _found([_fail(number) for number in range(count)], expected)


@pytest.mark.parametrize(("count", "expected"), [(7, None), (8, 8), (9, 8)])
def test_eighth_failure_of_one_category(count: int, expected: int | None) -> None:
    """Fault "threshold off by one": texts that differ, all of them unknown failures."""
    wanted = [(Severity.SUSPECT, Basis.DIGEST, "equal category", count)] * (expected is not None)
    assert wanted == _found([_fail(number, f"trouble {number}") for number in range(count)], expected)


def test_expired_token_is_only_suspect() -> None:
    """The cause lies outside; trying another door is sensible up to a point."""
    wanted = [(Severity.SUSPECT, Basis.DIGEST, "equal category", 12)]
    assert wanted == _found([_fail(number, "token expired") for number in range(12)], 8)


def test_success_in_between_is_quiet() -> None:
    """Four failures, then something that works."""
    records = [call("read", {"n": n}, f"page {n}") if n % 5 == 4 else _fail(n) for n in range(30)]
    assert [] == _found(records, None)


def test_one_tool_alone_is_others_matter() -> None:
    """error_repeat and same_result see that."""
    check([call("shell", {"line": f"cmd {n}"}, error="command not available") for n in range(12)], {KIND: None})


def test_turns_count_once() -> None:
    """Five siblings that fail alike are one meeting; a turn with a success in it is none."""
    assert [] == _found([_fail(number, turn=number // 5) for number in range(20)], None)
    run = Run()
    for number in range(12):
        run.fail(f"tool_{number % 3}", f"{number}", error_digest=digest("e"))
        run.call("read", f"{number}", f"{number}", sibling=True)
        run.fail(f"tool_{number % 3}", f"x{number}", error_digest=digest("e"), sibling=True)
    assert KIND not in run.kinds()


def test_passing_errors_are_an_outage() -> None:
    """They are no part of a cascade."""
    run = Run()
    for number in range(12):
        run.fail(f"tool_{number % 3}", f"{number}", error_category=ErrorCategory.TRANSIENT)
    assert KIND not in run.kinds()


def test_passing_error_says_nothing_of_the_failures_before_it() -> None:
    """Being refused permission stays suspect, whatever fails next."""
    run = Run()
    for number in range(5):
        run.fail("ab"[number % 2], f"{number}", error_digest=digest("no"), error_category=ErrorCategory.PERMISSION)
    run.fail("b", "9", error_category=ErrorCategory.TRANSIENT)
    assert KIND not in run.kinds()


def test_agents_and_user_turns_are_apart() -> None:
    """Each agent's failures are its own, and a user turn starts over."""
    agents = Run()
    for number in range(12):
        agents.fail(f"tool_{number}", f"{number}", agent="abc"[number % 3], error_digest=digest("e"))
    assert KIND not in agents.kinds()
    turns = Run()
    for number in range(12):
        turns.user_turn = number // 4
        turns.fail(f"tool_{number}", f"{number}", error_digest=digest("e"))
    assert KIND not in turns.kinds()


def test_failures_without_arguments_count() -> None:
    """That they failed is known, and how."""
    run = Run()
    for number in range(5):
        run.fail(f"tool_{number % 2}", None, error_digest=digest("e"))
    assert 5 == run.first(KIND)


def test_refusals_are_no_failures() -> None:
    """A call that was not made neither counts nor ends the row."""
    run = Run()
    for number in range(5):
        run.fail(f"tool_{number % 2}", f"{number}", error_digest=digest("e"))
        run.refuse("other", f"{number}")
    assert 9 == run.first(KIND)
