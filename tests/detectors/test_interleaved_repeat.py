"""interleaved_repeat: one call that comes back unchanged with other calls between and nothing done."""

from __future__ import annotations

from typing import Any

import pytest

from otel_loopguard.model import DeniedBy, ErrorCategory, Kind, ResultClass, Severity
from tests.detectors.feeding import UNSEEN, Run
from tests.detectors.variants import Record, call, check

KIND = Kind.INTERLEAVED_REPEAT
HEAD = "version: 1\npolicy: t\npolicy_version: 1\n"
READS = HEAD + "tools: {peek: {effect: read}, read: {effect: read}, write: {effect: write}}\n"


def _broken(number: int) -> Record:
    return call("open", {"path": f"x/{number}"}, error=f"cannot open, try {number}")


def _status() -> Record:
    return call("status", {}, "two tests failed")


def _severities(run: Run) -> list[tuple[Severity, int]]:
    return [(finding.severity, finding.at_call) for finding in run.found(KIND)]


@pytest.mark.parametrize(("count", "expected"), [(2, None), (3, 5), (4, 5)])
def test_third_with_failures_between(count: int, expected: int | None) -> None:
    """Fault "threshold off by one": the third equal answer, other calls between having failed, is a loop."""
    records = [one for number in range(count) for one in (_status(), _broken(number))]
    findings = check(records, {KIND: expected})
    assert [Severity.LOOP] * (expected is not None) == [one.severity for one in findings if one.kind is KIND]


@pytest.mark.parametrize(("count", "expected"), [(2, None), (3, 5), (4, 5)])
def test_third_with_reading_between_is_suspect(count: int, expected: int | None) -> None:
    """Something new was read in between each time: test, peek, test is only suspect."""
    records = [one for n in range(count) for one in (call("read", {}, "same text"), call("peek", {"n": n}, f"at {n}"))]
    findings = check(records, {KIND: expected}, policy=READS)
    assert [Severity.SUSPECT] * (expected is not None) == [one.severity for one in findings if one.kind is KIND]


@pytest.mark.parametrize(("between", "found"), [(6, True), (7, True), (8, False)])
def test_reach_over_news(between: int, *, found: bool) -> None:
    """Fault "window off by one": eight calls back are near, nine are not, where something new lies between."""
    run = Run()
    for number in range(3):
        run.call("read", "same", "text")
        for other in range(between):
            run.call("read", f"{number} {other}", f"{number} {other}")
    assert found is (KIND in run.kinds())


@pytest.mark.parametrize(("between", "found"), [(30, True), (31, True), (32, False)])
def test_reach_over_a_standstill(between: int, *, found: bool) -> None:
    """Fault "reach off by one": 32 calls back count where all between is stalled, 33 do not."""
    run = Run()
    for _ in range(3):
        run.call("read", "same", "text")
        for other in range(between):
            run.fail("other", f"{other}", f"text {other}")
    assert found is (KIND in run.kinds())


@pytest.mark.parametrize(
    ("result_class", "expected"),
    [(ResultClass.ACK, 9), (ResultClass.EMPTY, 9), (ResultClass.SILENCE, None), (ResultClass.NOT_FOUND, 5)],
)
def test_answers_that_say_little(result_class: ResultClass, expected: int | None) -> None:
    """Acknowledgements and empty answers take five, silence any number."""
    run = Run()
    for number in range(8):
        run.call("tool", "a", "r", result_class=result_class)
        run.fail("other", f"{number}")
    assert expected == run.first(KIND)


def test_standstill_after_news_is_counted_from_where_it_began() -> None:
    """A suspicion, then a certainty: two findings, the second from where nothing new came any more."""
    run = Run()
    for number in range(5):
        run.call("read", "same", "text")
        if number < 2:
            run.call("read", f"{number}", f"{number}")
        else:
            run.fail("other", f"{number}")
    assert [(Severity.SUSPECT, 5), (Severity.LOOP, 9)] == _severities(run)
    assert [5, 7, 9] == list(run.found(KIND)[1].calls)


@pytest.mark.parametrize("act", ["write", "unknown", "user", "poll", "outage"])
def test_what_may_have_changed_something_parts(act: str) -> None:
    """Test, fix, test: a write, an unknown deed, a user turn, a wait and an outage make it worthwhile to look again."""
    run = Run()
    for number in range(8):
        run.call("read", "same", "text")
        if act == "write":
            run.call("write", f"{number}", "ok")
        elif act == "unknown":
            run.call("edit", f"{number}", f"saved {number}")
        elif act == "user":
            run.user_turn += 1
            run.fail("other", f"{number}")
        elif act == "poll":
            run.call("poll", "job", f"{number} %")
        else:
            run.fail("other", f"{number}", error_category=ErrorCategory.TRANSIENT)
    assert KIND not in run.kinds()


def test_siblings_lie_between_nothing() -> None:
    """What was asked for in the same turn as the call parts its turns in no way."""
    run = Run()
    for number in range(3):
        run.call("status", "a", "same")
        run.call("edit", f"{number}", f"saved {number}", sibling=True)
        run.fail("other", f"{number}")
    assert 7 == run.first(KIND)
    assert [(Severity.LOOP, 7)] == _severities(run)


def test_repeats_of_earlier_calls_are_stalled() -> None:
    """Going over three known pages in no fixed order, between looks at one status."""
    run = Run()
    for page in "abc":
        run.call("visit", page, f"page {page}")
    for page in "acbcab":
        run.call("status", "a", "same")
        run.call("visit", page, f"page {page}")
    assert [(Severity.LOOP, 8)] == _severities(run)


@pytest.mark.parametrize("words", [2, 40, None])
def test_a_known_answer_to_another_call_is_a_barrier(words: int | None) -> None:
    """Editors and shells answer many things alike, in a few words, in many, or in a structure."""
    run = Run()
    for number in range(12):
        run.call("bash", f"edit {number}", "the file was updated", result_words=words)
        run.call("bash", "test", "1 failed", result_words=words)
    assert set() == {finding.kind for finding in run.tracker.findings() if finding.severity is Severity.LOOP}


def test_silence_between_is_not_stalled() -> None:
    """What gave back nothing may have waited, or done something: repeats around it are suspect at most."""
    run = Run()
    for number in range(12):
        run.call("status", "a", "not yet")
        run.call("sleep", "5", "", result_class=ResultClass.SILENCE)
        if number % 3 == 0:
            run.call("sleep", "9", "", result_class=ResultClass.SILENCE)
    assert set() == {finding.kind for finding in run.tracker.findings() if finding.severity is Severity.LOOP}


def test_known_before_a_write_is_new_after_it() -> None:
    """The same list after a write says that the write changed nothing in it."""
    run = Run()
    for number in range(4):
        run.call("search", f"{number}", "the list", result_words=40)
        run.call("status", "a", "same")
        run.call("write", f"{number}", "ok")
    assert KIND not in run.kinds()


def test_unknown_results_neither_count_nor_are_equal() -> None:
    """A call whose result was not captured is none of the three."""
    run = Run()
    for number in range(2):
        run.call("read", "a", "same")
        run.fail("other", f"{number}")
    run.call("read", "a", UNSEEN)
    assert KIND not in run.kinds()
    run.fail("other", "9")
    run.call("read", "a", "same")
    assert 7 == run.first(KIND)


def test_answers_that_change_are_quiet() -> None:
    """Each look shows something else."""
    check([one for n in range(9) for one in (call("status", {}, f"{n} of 9"), _broken(n))], {KIND: None})


def test_cycle_and_consecutive_rounds_are_others() -> None:
    """Rounds that come round are a cycle; rounds right after each other are exact_repeat's."""
    cycle = Run()
    for number in range(12):
        cycle.call("tool", "ab"[number % 2], "rs"[number % 2])
    assert {Kind.CYCLE} == cycle.kinds()
    exact = Run()
    exact.repeat(9)
    assert {Kind.EXACT_REPEAT} == exact.kinds()


def test_consecutive_rounds_at_the_end_of_a_chain_are_part_of_it() -> None:
    """One stretch is one finding, by the kind that was certain first."""
    run = Run()
    for number in range(2):
        run.call("read", "a", "same")
        run.fail("other", f"{number}")
    run.repeat(5, "read", "a", "same")
    assert {KIND} == run.kinds()
    (finding,) = run.tracker.findings()
    assert (5, 7, [1, 3, 5, 6, 7, 8, 9]) == (finding.at_call, finding.count, list(finding.calls))
    assert frozenset({3, 5, 6, 7, 8, 9}) == run.tracker.wasted_calls


def test_calls_denied_by_the_guard_count() -> None:
    """The model was shown nothing new."""
    run = Run()
    run.call("read", "a", "same")
    run.fail("other", "1")
    run.refuse("read", "a", by=DeniedBy.GUARD)
    run.fail("other", "2")
    run.refuse("read", "a", by=DeniedBy.GUARD)
    assert 5 == run.first(KIND)


def test_agents_are_apart() -> None:
    """Three agents that look once each are no chain; another agent's reading parts nothing."""
    apart = Run()
    for agent in "abc":
        apart.call("read", "a", "same", agent=agent)
        apart.fail("other", agent, agent=agent)
    assert KIND not in apart.kinds()
    run = Run()
    for number in range(3):
        run.call("read", "a", "same", agent="x")
        run.fail("other", f"{number}", agent="x")
        run.call("read", f"{number}", f"{number}", agent="y")
    assert [(Severity.LOOP, 7)] == _severities(run)


@pytest.mark.parametrize("fields", [{"agent": "b"}, {"tool": "think"}])
def test_noops_and_others_calls_are_not_counted_back(fields: dict[str, Any]) -> None:
    """Calls back are this agent's own, without no-ops."""
    run = Run()
    for number in range(3):
        run.call("read", "same", "text")
        for other in range(20):
            run.call(**{"tool": "read", "arguments": f"{number} {other}", "result": f"{number} {other}", **fields})
        run.call("read", f"news {number}", f"news {number}")
    assert KIND in run.kinds()
