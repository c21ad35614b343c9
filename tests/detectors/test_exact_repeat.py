"""exact_repeat: one call in consecutive rounds with an answer that does not change."""

from __future__ import annotations

import pytest

from otel_loopguard.model import (
    DeniedBy,
    Effect,
    ErrorCategory,
    Kind,
    Mark,
    Outcome,
    Progress,
    ResultClass,
    Severity,
    Signals,
)
from tests.detectors.feeding import UNSEEN, Run


@pytest.mark.parametrize(("count", "expected"), [(1, None), (2, None), (3, 3), (4, 3)])
def test_threshold_by_default(count: int, expected: int | None) -> None:
    """Fault "threshold off by one": with two repeats allowed the third unchanged answer fires, not the second."""
    run = Run()
    run.repeat(count)
    assert expected == run.first(Kind.EXACT_REPEAT)


@pytest.mark.parametrize(("tool", "expected"), [("strict", 2), ("tool", 3), ("patient", 5)])
def test_threshold_by_contract(tool: str, expected: int) -> None:
    """`allowed_repeats` of the tool's contract is the number of equal answers that still pass."""
    run = Run()
    run.repeat(8, tool)
    assert expected == run.first(Kind.EXACT_REPEAT)


@pytest.mark.parametrize("result_class", [ResultClass.ACK, ResultClass.EMPTY])
@pytest.mark.parametrize(("count", "expected"), [(4, None), (5, 5), (6, 5)])
def test_threshold_of_answers_that_say_little(result_class: ResultClass, count: int, expected: int | None) -> None:
    """Acknowledgements and empty lists are weak evidence: the fifth fires."""
    run = Run()
    run.repeat(count, result_class=result_class)
    assert expected == run.first(Kind.EXACT_REPEAT)


def test_silence_never_fires() -> None:
    """Silence says nothing about progress, however often it comes."""
    run = Run()
    run.repeat(40, result_class=ResultClass.SILENCE)
    assert Kind.EXACT_REPEAT not in run.kinds()


@pytest.mark.parametrize("result_class", [ResultClass.NOT_FOUND, None])
def test_other_classes_fire_at_the_third(result_class: ResultClass | None) -> None:
    """That nothing was found is an answer, and a class that nobody knows is taken for content."""
    run = Run()
    run.repeat(3, result_class=result_class)
    assert 3 == run.first(Kind.EXACT_REPEAT)


def test_finding_tells_the_stretch() -> None:
    """A finding names the stretch, with its last count, once."""
    run = Run()
    run.call("other", "b", "s")
    run.repeat(5, "lookup", agent="agent")
    (finding,) = run.tracker.findings()
    assert (Kind.EXACT_REPEAT, Severity.LOOP, "lookup", "agent", 5, 2, 4) == (
        finding.kind,
        finding.severity,
        finding.tool,
        finding.agent,
        finding.count,
        finding.first_call,
        finding.at_call,
    )
    assert (2, 3, 4, 5, 6) == finding.calls
    assert ("c2", "c3", "c4", "c5", "c6") == finding.call_ids
    assert (run.calls[1].facts.call_digest,) == finding.digests


def test_new_stretch_gives_a_new_finding() -> None:
    """A stretch that ended and began again after a write is found again (without one it is a relapse)."""
    run = Run()
    run.repeat(3)
    run.call("write", "b", "s")
    run.repeat(4)
    assert [(1, 3, 3), (5, 7, 4)] == [(f.first_call, f.at_call, f.count) for f in run.tracker.findings()]


def test_wasted_are_all_but_the_first() -> None:
    """The first call of a stretch was useful; refused ones cost nothing."""
    run = Run()
    run.repeat(3)
    run.refuse(by=DeniedBy.GUARD)
    run.call()
    assert frozenset({2, 3, 5}) == run.tracker.wasted_calls
    assert 5 == run.tracker.findings()[0].count


def test_changed_answer_resets() -> None:
    """Polling that moves: an answer that differs starts a new count."""
    run = Run()
    for result in ("12 %", "12 %", "24 %", "24 %", "36 %", "36 %"):
        run.call(result=result)
    assert set() == run.kinds()
    assert run.tracker.progress_observed


def test_batch_over_many_items_is_quiet() -> None:
    """One tool over many items, all answered alike, is work."""
    run = Run()
    for number in range(30):
        run.call("move", f"item {number}", "same answer")
    assert run.kinds() <= {Kind.SAME_RESULT}
    assert not run.tracker.progress_observed


def test_offset_paging_is_quiet() -> None:
    """Fault "dropped cursor": pages differ by their offset, which is part of the digest."""
    run = Run()
    for offset in range(0, 600, 50):
        run.call("list_rows", f"boats from {offset}", "fifty rows")
    assert run.kinds() <= {Kind.SAME_RESULT}


def test_call_id_is_not_part_of_a_call() -> None:
    """Fault "id in the digest": equal calls have different ids in every run, and are equal all the same."""
    run = Run()
    run.call(call_id="x")
    run.call(call_id="y")
    run.call(call_id=None)
    assert 3 == run.first(Kind.EXACT_REPEAT)


def test_user_turn_resets() -> None:
    """Asking again because the user asked again is no loop."""
    run = Run()
    for turn in (1, 1, 2, 2, 3, 3):
        run.user_turn = turn
        run.call()
    assert set() == run.kinds()
    assert [Progress.FIRST, Progress.UNCHANGED] * 3 == run.progress()


def test_another_attempt_resets() -> None:
    """A retry by the framework begins from scratch; the model did not repeat itself."""
    run = Run()
    for attempt in ("1", "2", "3"):
        run.attempt = attempt
        run.call()
    assert set() == run.kinds()


def test_other_round_breaks() -> None:
    """Consecutive means consecutive: any other round of the agent ends the stretch."""
    run = Run()
    for number in range(6):
        run.call()
        run.call("peek", f"{number}", f"{number}")
    assert Kind.EXACT_REPEAT not in run.kinds()


def test_noop_rounds_are_transparent() -> None:
    """Thinking in between changes nothing."""
    run = Run()
    for number in range(3):
        run.call()
        run.call("think", f"thought {number}", "")
    assert 5 == run.first(Kind.EXACT_REPEAT)
    assert 3 == run.tracker.findings()[0].count


def test_sibling_is_no_sequence() -> None:
    """Fault "sibling as sequence": equal calls of one turn count once."""
    run = Run()
    for _ in range(2):
        run.call()
        for _ in range(7):
            run.call(sibling=True)
    assert Kind.EXACT_REPEAT not in run.kinds()
    run.call()
    assert 17 == run.first(Kind.EXACT_REPEAT)
    assert 3 == run.found(Kind.EXACT_REPEAT)[0].count


def test_other_siblings_ride_along() -> None:
    """What else a turn asked for does not stand between two rounds."""
    run = Run()
    for number in range(3):
        run.call("calc", UNSEEN, f"{number}")
        run.call("rate", "EURSEK", "11.2", sibling=True)
    assert 6 == run.first(Kind.EXACT_REPEAT)


def test_sibling_with_another_answer_resets() -> None:
    """Where equal siblings disagree, the answer is not settled."""
    run = Run()
    for _ in range(4):
        run.call(result="one")
        run.call(result="two", sibling=True)
    assert Kind.EXACT_REPEAT not in run.kinds()


def test_different_write_as_sibling_is_a_barrier() -> None:
    """Fault "barrier ignored": test and edit in one turn, three times over, is work if the edit differs."""
    run = Run()
    for number in range(5):
        run.call("suite", "all", "2 failed")
        run.call("write", f"edit {number}", "applied", sibling=True)
    assert set() == run.kinds()


def test_write_of_another_agent_is_a_barrier() -> None:
    """Barriers are seen by all: after someone else's write it is worth while to look again."""
    run = Run()
    for number in range(5):
        run.call("read", "a", "r", agent="reader")
        run.call("write", f"{number}", "ok", agent="writer")
    assert set() == run.kinds()


def test_failed_write_is_no_barrier() -> None:
    """A write that failed changed nothing."""
    run = Run()
    for number in range(3):
        run.call("read", "a", "r", agent="reader")
        run.fail("write", f"{number}", agent="writer")
    assert 5 == run.first(Kind.EXACT_REPEAT)


def test_repeated_write_of_another_agent_is_no_barrier() -> None:
    """A write that only repeats itself changes nothing that it had not changed before."""
    run = Run()
    run.call("write", "w", "ok", agent="writer")
    for _ in range(3):
        run.call("read", "a", "r", agent="reader")
        run.call("write", "w", "ok", agent="writer")
    assert 6 == run.found(Kind.EXACT_REPEAT)[0].at_call
    assert "reader" == run.found(Kind.EXACT_REPEAT)[0].agent


def test_other_agents_do_not_break() -> None:
    """Streaks are per agent, however the agents are interleaved."""
    run = Run()
    for number in range(3):
        run.call(agent="stuck")
        run.call("read", f"{number}", f"{number}", agent="busy")
    assert 5 == run.first(Kind.EXACT_REPEAT)


def test_same_call_by_two_agents_is_two_calls() -> None:
    """Agents that each look once at the same thing, one after the other, repeat nothing."""
    run = Run()
    for place, agent in enumerate("abcd"):
        for number in range(place):
            run.call("read", f"{agent} {number}", f"{number}", agent=agent)
        run.call(agent=agent)
    assert set() == run.kinds()
    assert Progress.ADVANCED not in run.progress()
    assert Progress.UNCHANGED not in run.progress()


def test_declared_write_is_always_unchanged() -> None:
    """New ids in the result of a write look like progress and are none; its answers are acknowledgements."""
    run = Run()
    for number in range(5):
        run.call("write", "page", f"id {number}")
    assert 5 == run.first(Kind.EXACT_REPEAT)
    assert not run.tracker.progress_observed


def test_parallel_writes_repeated_are_found() -> None:
    """Two writes asked for in every turn do not hide each other."""
    run = Run()
    for _ in range(5):
        run.call("write", "a", "ok")
        run.call("write", "b", "ok", sibling=True)
    assert [9, 10] == [finding.at_call for finding in run.found(Kind.EXACT_REPEAT)]


def test_set_and_set_back_is_quiet() -> None:
    """A different write lies between the two equal ones."""
    run = Run()
    for value in ("on", "off", "on"):
        run.call("write", value, "ok")
    assert set() == run.kinds()


def test_unknown_result_neither_counts_nor_resets() -> None:
    """A result that was not captured is no evidence either way."""
    run = Run()
    run.call()
    run.call(result=UNSEEN)
    run.call()
    assert set() == run.kinds()
    run.call()
    assert 4 == run.first(Kind.EXACT_REPEAT)
    assert [Progress.FIRST, Progress.UNKNOWN, Progress.UNCHANGED, Progress.UNCHANGED] == run.progress()


def test_unknown_result_does_not_bridge_another_round() -> None:
    """An uncounted call does not join what a round in between had parted."""
    run = Run()
    run.repeat(2)
    run.call("other", "b", "s")
    run.call(result=UNSEEN)
    run.call()
    assert set() == run.kinds()


def test_call_denied_by_the_guard_stays_in_its_stretch() -> None:
    """The guard's denial shows the model nothing new, so proposing again is unchanged."""
    run = Run()
    run.repeat(2)
    run.refuse(by=DeniedBy.GUARD)
    assert 3 == run.first(Kind.EXACT_REPEAT)


def test_call_denied_by_others_does_not_count() -> None:
    """`denied_repeat` is another kind's matter; here it neither counts nor resets."""
    run = Run()
    run.repeat(2)
    run.refuse()
    run.refuse()
    assert set() == run.kinds()
    run.call()
    assert 5 == run.first(Kind.EXACT_REPEAT)


def test_key_change_breaks() -> None:
    """Digests under two keys are never compared; each part is found for itself."""
    run = Run()
    run.repeat(2, key_id="k1")
    run.repeat(2, key_id="k2")
    assert set() == run.kinds()
    run.repeat(2, key_id="k2")
    assert [(3, 5)] == [(finding.first_call, finding.at_call) for finding in run.tracker.findings()]


def test_contract_change_breaks() -> None:
    """Digests made under two contracts are never compared."""
    run = Run()
    run.repeat(2, contract="00000001")
    run.repeat(2, contract="00000002")
    assert set() == run.kinds()


def test_declared_rule_overrides_the_digest() -> None:
    """A version that stands still is no progress, whatever else differs in the result."""
    run = Run()
    for number in range(3):
        run.call("order", "A12", f"request {number}", signals=Signals(marks=(Mark("version increases", 7),)))
    assert 3 == run.first(Kind.EXACT_REPEAT)
    assert "version increases" == run.tracker.findings()[0].rule


def test_declared_rule_that_advances_resets() -> None:
    """The same request while the resource's version rises is progress."""
    run = Run()
    for version in range(7, 17):
        run.call("order", "A12", "same text", signals=Signals(marks=(Mark("version increases", version),)))
    assert set() == run.kinds()
    assert [Progress.FIRST, *[Progress.ADVANCED] * 9] == run.progress()


def test_rule_without_its_value_is_unknown() -> None:
    """A rule that could not be read is no progress and no standstill, unless the whole result is equal."""
    run = Run()
    for number in range(4):
        run.call("order", "A12", f"{number}", signals=Signals(marks=(Mark("version increases", None),)))
    assert set() == run.kinds()
    assert [Progress.FIRST, *[Progress.UNKNOWN] * 3] == run.progress()


def test_rule_without_its_value_compares_with_the_last_answer() -> None:
    """What another answer came between is not "in a row", and the answer before it no longer stands."""
    run = Run()
    for answer, version in (("a", 1), ("a", 1), ("other", None), ("a", 1), ("a", 1)):
        run.call("order", "A12", answer, signals=Signals(marks=(Mark("version increases", version),)))
    assert set() == run.kinds()
    run.call("order", "A12", "a", signals=Signals(marks=(Mark("version increases", 1),)))
    assert {Kind.EXACT_REPEAT} == run.kinds()


def test_producers_progress_is_believed() -> None:
    """A scorer sees no content: what the producer computed with it decides over digests."""
    run = Run()
    run.call()
    run.call(result="other id", progress=Progress.UNCHANGED, progress_rule="version increases")
    run.call(result="third id", progress=Progress.UNCHANGED, progress_rule="version increases")
    assert 3 == run.first(Kind.EXACT_REPEAT)
    healthy = Run()
    healthy.call()
    healthy.repeat(5, progress=Progress.ADVANCED, progress_rule="version increases")
    assert set() == healthy.kinds()


def test_effect_from_the_span_counts_as_declared() -> None:
    """A tool whose span says that it writes is judged as a write."""
    run = Run()
    for number in range(5):
        run.call("mcp_tool", "a", f"{number}", effect=Effect.WRITE)
    assert 5 == run.first(Kind.EXACT_REPEAT)


def test_call_not_dispatched_and_without_outcome_is_no_evidence() -> None:
    """A call that never came back, nor reached its tool, counts for nothing."""
    run = Run()
    run.repeat(4, result=UNSEEN, outcome=Outcome.UNKNOWN, dispatched=False)
    assert set() == run.kinds()
    assert frozenset() == run.tracker.wasted_calls


def test_another_agents_work_parts_rounds() -> None:
    """A coder edits and a tester tests: each test looks at something else, though all fail alike."""
    run = Run()
    for number in range(12):
        run.call("edit", f"{number}", f"edited {number} lines", agent="coder")
        run.call("run_tests", "a", "1 failed", agent="tester")
    assert set() == {finding.kind for finding in run.tracker.findings() if finding.severity is Severity.LOOP}


def test_another_agents_read_or_repeat_parts_nothing() -> None:
    """Looking changes nothing, and neither does asking what was asked before."""
    run = Run()
    for number in range(3):
        run.call("read", f"{number}", f"{number}", agent="other")
        run.call("status", "a", "same", agent="agent")
    assert 6 == run.first(Kind.EXACT_REPEAT)
    both = Run()
    for number in range(6):
        both.call("status", "a", "same", agent="ab"[number % 2])
    assert 5 == both.first(Kind.EXACT_REPEAT)


def test_another_agents_wait_parts_nothing() -> None:
    """It polls, or meets an outage: nothing was done that the next look could be for."""
    polls, outage = Run(), Run()
    for number in range(3):
        polls.call("poll", "job", f"{number} %", agent="other")
        polls.call("status", "a", "same", agent="agent")
        outage.fail("fetch", f"{number}", error_category=ErrorCategory.TRANSIENT, agent="other")
        outage.call("status", "a", "same", agent="agent")
    assert 6 == polls.first(Kind.EXACT_REPEAT)
    assert 6 == outage.first(Kind.EXACT_REPEAT)


def test_own_siblings_of_unknown_effect_part_no_rounds() -> None:
    """What the agent does beside the call, in the same turn, is no other agent's work."""
    run = Run()
    for number in range(3):
        run.call("status", "a", "same")
        run.call("tool", f"{number}", f"{number}", sibling=True)
    assert 5 == run.first(Kind.EXACT_REPEAT)
