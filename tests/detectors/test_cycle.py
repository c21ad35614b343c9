"""cycle and handoff_cycle: the same rounds of calls and answers, three times over."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_loopguard.model import ErrorCategory, Kind, ResultClass, Severity
from tests.detectors.feeding import UNSEEN, Run


def go_round(run: Run, names: str, calls: int) -> None:
    """Feeds calls by name, round and round, until there are so many."""
    for number in range(calls):
        name = names[number % len(names)]
        run.call(f"tool_{name}", name, f"answer of {name}")


@pytest.mark.parametrize("period", range(2, 9))
def test_threshold_of_every_period(period: int) -> None:
    """Fault "threshold off by one": the call that completes the third round fires, and no call before it."""
    run = Run()
    go_round(run, "abcdefgh"[:period], 4 * period)
    assert 3 * period == run.first(Kind.CYCLE)
    (finding,) = run.found(Kind.CYCLE)
    assert (period, 4, 1, Severity.LOOP) == (finding.period, finding.count, finding.first_call, finding.severity)
    assert period == len(finding.digests)


def test_period_of_nine_is_not_followed() -> None:
    """Longer periods are beyond what is kept."""
    run = Run()
    go_round(run, "abcdefghi", 60)
    assert Kind.CYCLE not in run.kinds()


def test_two_rounds_are_quiet() -> None:
    """Twice the same way is no cycle yet."""
    run = Run()
    go_round(run, "abc", 8)
    assert set() == run.kinds()


def test_cycle_is_found_in_the_middle_of_a_run() -> None:
    """What came before does not matter."""
    run = Run()
    for number in range(11):
        run.call("read", f"{number}", f"{number}")
    go_round(run, "ab", 6)
    (finding,) = run.found(Kind.CYCLE)
    assert (12, 17, 2) == (finding.first_call, finding.at_call, finding.period)
    assert frozenset(range(14, 18)) == run.tracker.wasted_calls


def test_shortest_period_is_named() -> None:
    """A cycle of two is not also one of four, six and eight."""
    run = Run()
    go_round(run, "ab", 40)
    assert [2] == [finding.period for finding in run.found(Kind.CYCLE)]
    assert 20 == run.found(Kind.CYCLE)[0].count


def test_one_call_alone_is_no_cycle() -> None:
    """Equal calls are exact_repeat's, of whatever period one could read into them."""
    run = Run()
    go_round(run, "a", 30)
    assert {Kind.EXACT_REPEAT} == run.kinds()


def test_one_round_of_several_calls_is_no_cycle() -> None:
    """Each of its calls is an exact repeat; a period of one round is none of two."""
    run = Run()
    for _ in range(12):
        run.call("left", "a", "one")
        run.call("right", "b", "two", sibling=True)
    assert {Kind.EXACT_REPEAT} == run.kinds()


@pytest.mark.parametrize("agents", ["a", "ab", "abc"])
def test_one_call_whose_answer_comes_and_goes_is_quiet(agents: str) -> None:
    """A watched service that flaps brings news with each answer, whoever looks."""
    run = Run()
    for number in range(24):
        run.call("status", "web", ("up", "down", "slow")[number % 3], agent=agents[number % len(agents)])
    assert not {Kind.CYCLE, Kind.HANDOFF_CYCLE} & run.kinds()


def test_repeats_inside_a_period_are_allowed() -> None:
    """A period may hold a call twice, as long as it is not one call alone."""
    run = Run()
    go_round(run, "aab", 9)
    assert 9 == run.first(Kind.CYCLE)


def test_broken_cycle_is_found_anew() -> None:
    """A cycle that ends and begins again gives a second finding."""
    run = Run()
    go_round(run, "ab", 6)
    run.call("read", "x", "y")
    go_round(run, "ab", 6)
    assert [6, 13] == [finding.at_call for finding in run.found(Kind.CYCLE)]


def test_changing_answers_are_quiet() -> None:
    """Polling that moves: the calls come round, the answers do not."""
    run = Run()
    for number in range(20):
        run.call("tool_a", "a", f"{number}")
        run.call("tool_b", "b", "same")
    assert set() == run.kinds()


def test_changing_arguments_are_quiet() -> None:
    """Batch over many items: a pattern of tools that never repeats a call."""
    run = Run()
    for number in range(8):
        for tool in ("find", "move", "fix"):
            run.call(tool, f"part {number}", f"done part {number}")
    assert set() == run.kinds()


def test_answers_with_a_rhythm_of_their_own() -> None:
    """A call whose answer toggles is compared with the answer of the same place in the round."""
    run = Run()
    for _ in range(3):
        for answer in ("on", "off"):
            run.call("flip", "a", answer)
            run.call("look", "b", "same")
    assert 12 == run.first(Kind.CYCLE)
    assert 4 == run.found(Kind.CYCLE)[0].period


def test_test_and_different_edits_are_quiet() -> None:
    """Fault "barrier ignored": test, edit, test with a new edit each time is work."""
    run = Run()
    for number in range(10):
        run.call("suite", "all", "2 failed")
        run.call("write", f"edit {number}", "applied")
    assert set() == run.kinds()


def test_toggling_writes_are_a_cycle() -> None:
    """Setting and unsetting the same thing three times over is stuck, although writes are barriers."""
    run = Run()
    for _ in range(3):
        run.call("write", "on", "ok")
        run.call("read", "flag", "seen")
        run.call("write", "off", "ok")
    assert 9 == run.first(Kind.CYCLE)


def test_bare_toggle_is_a_cycle() -> None:
    """On, off, on, off, on, off: each write differs from the one before, and three rounds of both lead nowhere."""
    run = Run()
    for number in range(6):
        run.call("write", ("on", "off")[number % 2], "ok", result_class=ResultClass.ACK)
    assert {Kind.CYCLE} == run.kinds()
    assert 6 == run.first(Kind.CYCLE)


def test_silent_rounds_are_quiet() -> None:
    """Where every answer is silence nobody can say that nothing happened."""
    run = Run()
    for number in range(20):
        run.call("press", ("down", "enter")[number % 2], "", result_class=ResultClass.SILENCE)
    assert set() == run.kinds()


def test_one_answer_among_silent_ones_is_evidence() -> None:
    """A round that ends with the same sight each time is a cycle, however silent its other steps."""
    run = Run()
    for _ in range(3):
        run.call("press", "down", "", result_class=ResultClass.SILENCE)
        run.call("look", "screen", "the menu")
    assert 6 == run.first(Kind.CYCLE)


def test_failures_compare_by_category_and_type() -> None:
    """Two calls that fail in turn are a cycle, whatever their messages say."""
    run = Run()
    for number in range(6):
        run.fail("tool_a", "a" if number % 2 else "b", text=f"at {number}", error_type="ExitStatus1")
    assert 6 == run.first(Kind.CYCLE)


def test_transient_failures_break() -> None:
    """Going round in an outage is waiting."""
    run = Run()
    for _ in range(5):
        run.fail("tool_a", "a", error_category=ErrorCategory.TRANSIENT)
        run.call("tool_b", "b", "same")
    assert {Kind.OUTAGE} == run.kinds()


def test_user_turn_breaks() -> None:
    """The user's next question may lead the same way."""
    run = Run()
    for turn in range(1, 6):
        run.user_turn = turn
        go_round(run, "ab", 4)
    assert set() == run.kinds()


def test_unknown_result_breaks() -> None:
    """What is not known equals nothing."""
    run = Run()
    go_round(run, "ab", 5)
    run.call("tool_b", "b", UNSEEN)
    go_round(run, "ab", 5)
    assert Kind.CYCLE not in run.kinds()


def test_unknown_call_breaks() -> None:
    """A call without digest may be any call."""
    run = Run()
    go_round(run, "ab", 5)
    run.call("tool_b", UNSEEN, "answer of b")
    go_round(run, "ab", 5)
    assert Kind.CYCLE not in run.kinds()


def test_write_of_another_agent_breaks() -> None:
    """After someone else's write the round may well end differently."""
    run = Run()
    go_round(run, "ab", 5)
    run.call("write", "w", "ok", agent="writer")
    go_round(run, "ba", 5)
    assert Kind.CYCLE not in run.kinds()


def test_pollers_are_excluded_and_break() -> None:
    """Waiting between two looks, within the declared patience, is what polling is for."""
    run = Run()
    for _ in range(8):
        run.call("poll", "job", "running")
        run.call("read", "inbox", "nothing")
    assert set() == run.kinds()


def test_pagers_are_excluded() -> None:
    """Declared pagers have a kind of their own."""
    run = Run()
    for _ in range(8):
        run.call("pages", "1", "one")
        run.call("pages", "2", "two")
    assert Kind.CYCLE not in run.kinds()


def test_noops_are_transparent() -> None:
    """Thinking between the steps makes no other round."""
    run = Run()
    for number in range(6):
        run.call("tool_a", "ab"[number % 2], "same")
        run.call("think", f"{number}", "")
    assert 11 == run.first(Kind.CYCLE)


def test_sibling_order_does_not_matter() -> None:
    """Fault "sibling as sequence": a turn is a set of calls."""
    run = Run()
    for number in range(6):
        if number % 2:
            run.call("tool_c", "c", "same")
            continue
        first, second = ("ab", "ba")[number // 2 % 2]
        run.call("tool", first, first)
        run.call("tool", second, second, sibling=True)
    assert 9 == run.first(Kind.CYCLE)
    assert 2 == run.found(Kind.CYCLE)[0].period


def test_siblings_alone_are_no_cycle() -> None:
    """A batch that holds the same calls in turn is one round."""
    run = Run()
    for number in range(12):
        run.call("tool", "ab"[number % 2], "same", sibling=True)
    assert Kind.CYCLE not in run.kinds()


def test_further_sibling_makes_another_round() -> None:
    """A round that also asked for something new is not the same round."""
    run = Run()
    for number in range(10):
        run.call("tool", "ab"[number % 2], "same")
        run.call("read", f"{number}", f"{number}", sibling=True)
    assert Kind.CYCLE not in run.kinds()


def test_wide_rounds_make_one_finding() -> None:
    """A cycle of turns with several calls stays one stretch, and lists them all."""
    run = Run()
    for number in range(10):
        run.call("tool", "ab"[number % 2], "same")
        run.call("read", "xy"[number % 2], "same", sibling=True)
    (finding,) = run.found(Kind.CYCLE)
    assert (12, 5, tuple(range(1, 21))) == (finding.at_call, finding.count, finding.calls)
    assert frozenset(range(5, 21)) == run.tracker.wasted_calls


def test_agents_that_hand_over_in_a_circle() -> None:
    """Rounds of different agents that come round together are a handoff_cycle, named once."""
    run = Run()
    for _ in range(4):
        run.call("ask", "writer", "please", agent="critic", result_class=None)
        run.call("ask", "critic", "again", agent="writer", result_class=None)
    assert 6 == run.first(Kind.HANDOFF_CYCLE)
    (finding,) = run.found(Kind.HANDOFF_CYCLE)
    assert (2, 4, "critic", Severity.LOOP) == (finding.period, finding.count, finding.agent, finding.severity)
    assert Kind.CYCLE not in run.kinds()


def test_second_agent_joins_late() -> None:
    """The rounds before the second agent's first call belong to the circle."""
    run = Run()
    for _ in range(3):
        run.call("plan", "a", "same", agent="planner")
        run.call("check", "b", "same", agent="planner")
        run.call("do", "c", "same", agent="worker")
    assert 9 == run.first(Kind.HANDOFF_CYCLE)


def test_one_agents_cycle_is_not_a_handoff() -> None:
    """That other agents exist does not make one agent's cycle theirs."""
    run = Run()
    run.call("read", "x", "y", agent="other")
    for number in range(8):
        run.call("tool", "ab"[number % 2], "rs"[number % 2], agent="stuck")
    assert {Kind.CYCLE} == run.kinds()


def test_agents_with_work_are_quiet() -> None:
    """Agents that hand over with something new each time are at work."""
    run = Run()
    for number in range(12):
        run.call("ask", f"question {number}", f"answer {number}", agent="ab"[number % 2])
    assert set() == run.kinds()


@given(st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=3), min_size=1, max_size=40))
def test_agrees_with_a_plain_reading_of_the_rule(rounds: list[list[str]]) -> None:
    """Any sequence of rounds: found exactly where the last three times p rounds are three equal, minimal periods."""
    run = Run()
    expected = set()
    done: list[frozenset[str]] = []
    for names in rounds:
        done.append(frozenset())
        for place, name in enumerate(names):
            run.call("tool", name, f"answer of {name}", sibling=place > 0)
            done[-1] |= {name}
            if _comes_round(done):
                expected.add(len(run.calls))
    claimed = {number for number, seen in enumerate(run.seen, start=1) if Kind.CYCLE in seen.kinds}
    assert claimed <= expected
    assert min(expected, default=None) == min(claimed, default=None)


def _comes_round(rounds: list[frozenset[str]]) -> bool:
    for period in range(2, 9):
        last = rounds[-3 * period :]
        if len(last) < 3 * period or last[period:] != last[:-period]:
            continue
        block = last[:period]
        if not any(period % d == 0 and block[d:] == block[:-d] for d in range(1, period)):
            return True
    return False
