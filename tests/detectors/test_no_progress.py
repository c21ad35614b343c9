"""no_progress: steps that leave the application's state as it is, and answers that were known before."""

from __future__ import annotations

import pytest

from otel_loopguard.model import Kind, ResultClass, Severity
from tests.detectors.feeding import Run, digest
from tests.detectors.variants import Record, call, check, check_calls

KIND = Kind.NO_PROGRESS
READS = "version: 1\npolicy: t\npolicy_version: 1\ntools: {read: {effect: read}, write: {effect: write}}\n"
TEXTS = {name: " ".join(f"{name}{n}" for n in range(20)) for name in "abcdefghij"}


def _reads(names: str) -> list[Record]:
    return [call("read", {"path": name}, TEXTS[name]) for name in names]


@pytest.mark.parametrize(("count", "expected"), [(8, None), (9, 9), (10, 9)])
def test_eight_steps_without_a_change_of_state(count: int, expected: int | None) -> None:
    """Fault "steps off by one": eight steps left the state as the one before did."""
    run = Run()
    for number in range(count):
        run.call("tool", f"{number}", f"{number}", state_digest=digest("state"))
    assert expected == run.first(KIND)
    check_calls(run.calls, {KIND: expected}, run.policy)
    assert [(Severity.LOOP, "state", count - 1)] * (expected is not None) == [
        (one.severity, one.rule, one.count) for one in run.found(KIND)
    ]


def test_states_that_move_are_quiet() -> None:
    """Every seventh step changes something."""
    run = Run()
    for number in range(60):
        run.call("tool", f"{number}", f"{number}", state_digest=digest("state", number // 7))
    assert KIND not in run.kinds()


def test_turns_are_steps_and_user_turns_start_over() -> None:
    """Thirty siblings are one step; what the user asks next may be a question only."""
    wide = Run()
    for number in range(30):
        wide.call("tool", f"{number}", f"{number}", state_digest=digest("state"), sibling=True)
    assert KIND not in wide.kinds()
    asked = Run()
    for number in range(30):
        asked.user_turn = number // 8
        asked.call("tool", f"{number}", f"{number}", state_digest=digest("state"))
    assert KIND not in asked.kinds()


def test_steps_without_a_state_neither_count_nor_reset() -> None:
    """Only what was recorded is compared, under one key."""
    run = Run()
    for number in range(18):
        run.call("tool", f"{number}", f"{number}", state_digest=digest("state") if number % 2 else None)
    assert 18 == run.first(KIND)
    keys = Run()
    for number in range(18):
        keys.call("tool", f"{number}", f"{number}", state_digest=digest("state"), key_id=f"k{number % 2}")
    assert KIND not in keys.kinds()


def test_state_counts_for_calls_without_arguments() -> None:
    """The application says that nothing changed, whatever the calls were."""
    run = Run()
    for number in range(9):
        run.call("tool", None, f"{number}", state_digest=digest("state"))
    assert 9 == run.first(KIND)


@pytest.mark.parametrize(("again", "expected"), [("abcde", None), ("abcdef", 12), ("abcdefg", 12)])
def test_six_known_answers_of_eight(again: str, expected: int | None) -> None:
    """Fault "known answers off by one": six files that were read before, once more, are suspect."""
    findings = check([*_reads("abcdef"), *_reads(again)[:7]], {KIND: expected}, policy=READS)
    assert {Severity.SUSPECT} == {one.severity for one in findings} | {Severity.SUSPECT}


@pytest.mark.parametrize(("known", "found"), [(5, False), (6, True)])
def test_news_in_between_counts_against(known: int, *, found: bool) -> None:
    """Five known answers of any eight are none, six are; nothing repeats in a fixed order or often enough."""
    run = Run()
    names = [f"page {number}" for number in range(40)]
    for name in names:
        run.call("read", name, name)
    for number in range(40):
        old = number % 8 < known
        name = names[number * 7 % 40] if old else f"new {number}"
        run.call("read", name, name)
    assert found is (Kind.NO_PROGRESS in run.kinds())


@pytest.mark.parametrize("result_class", [ResultClass.ACK, ResultClass.EMPTY, ResultClass.SILENCE])
def test_answers_that_say_little_are_no_evidence(result_class: ResultClass) -> None:
    """Fifty different steps, all acknowledged alike."""
    run = Run()
    for number in range(50):
        run.call("step", f"{number}", "ok", result_class=result_class)
    assert KIND not in run.kinds()


def test_short_answers_to_other_questions_are_new() -> None:
    """Of "True" for each of fifty items; a long text that is known is not."""
    for words, found in ((1, False), (14, False), (15, True)):
        run = Run()
        run.call("check", "first", "other", result_words=words)
        for number in range(20):
            run.call("check", f"{number}", "same", result_words=words)
        assert found is (KIND in run.kinds()), words


def test_stuck_worker_beside_agents_that_get_on_is_suspect() -> None:
    """What the others do may change what it asks for, unless their tools are declared to read: then it is a loop."""
    run = Run()
    for number in range(8):
        run.call("lookup", "A12", "same", agent="worker")
        run.call("work", f"{number}", f"{number}", agent="other")
    assert {(KIND, Severity.SUSPECT)} == {(finding.kind, finding.severity) for finding in run.tracker.findings()}


def test_a_tool_with_one_answer_may_acknowledge() -> None:
    """A tool that answers twenty edits alike, at length, says by that nothing about progress."""
    run = Run()
    for number in range(20):
        run.call("edit", f"{number}", "the file was updated", result_words=40)
    assert KIND not in run.kinds()


def test_after_a_write_everything_may_be_new() -> None:
    """Read all, change one thing, read all again."""
    check([*_reads("abcdef"), call("write", {"n": 1}, "ok"), *_reads("abcdef")], {KIND: None}, policy=READS)


def test_three_agents_reading_the_same_files_are_quiet() -> None:
    """What another agent was told, this one was not."""
    records = [{**one, "agent": agent} for agent in "xyz" for one in _reads("abcdefg")]
    check(records, {KIND: None}, policy=READS)


def test_siblings_that_are_equal_count_once() -> None:
    """Eight equal calls of one turn are one answer."""
    check([{**one, "turn": 1} for one in _reads("aaaaaaaa")], {KIND: None}, policy=READS)


def test_loops_are_accounted_for() -> None:
    """A call in a loop that was found is not suspected beside, nor are the calls after it for its sake."""
    run = Run()
    run.repeat(12, "read", "a", "same")
    run.call("read", "b", "other")
    run.call("read", "b", "other")
    assert {Kind.EXACT_REPEAT} == run.kinds()


def test_waiting_within_bounds_is_quiet() -> None:
    """A declared poller may say the same for a while."""
    run = Run()
    for _ in range(9):
        run.call("poll", "job", "running")
    assert KIND not in run.kinds()
