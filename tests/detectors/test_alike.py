"""What the likeness kinds share: nothing they find depends on seeing content, and nothing grows or raises."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_loopguard import tracker
from otel_loopguard.detectors.alike import MAX_CHAINS, MAX_DIGESTS, TextRuns
from otel_loopguard.detectors.near_repeat import NearRepeat
from otel_loopguard.detectors.same_result import SameResult
from otel_loopguard.detectors.stretch import MAX_HELD_CALLS
from otel_loopguard.likeness import sketch
from otel_loopguard.model import Basis, Kind, Likenesses, Severity
from tests.detectors.feeding import Run
from tests.detectors.variants import Record, call, check

PAGE = " ".join(f"word{n}" for n in range(60))
LIKE_PAGE = [PAGE, f"{PAGE} now", f"{PAGE} then and more", f"7 {PAGE}", f"9 {PAGE}", f"{PAGE} {PAGE[:200]} end"]
HEDGED = [f"{word} you often read about sailing" for word in ("Perhaps", "Maybe", "Surely", "7", "9")]
REWORDED = [
    {"q": f"{word} list all open invoices of the customer"} for word in ("please", "now", "again", "kindly", "2", "3")
]
FAILED = [{"result": None, "error": f"no such column: {name}"} for name in ("invoice", "due", "paid")]
OTHERS = [
    call("ask", {"q": "invoices"}, "ok"),
    call("ask", {"q": "please list all open invoices of the customer", "top": 1}, []),
    call("click", {"on": "next"}, "Something else altogether has come up here"),
    call("find", {"name": "x"}, {"rows": [1]}),
    call("find", {"name": "y"}, "ok", denied=True),
    call("find", {"name": "z"}, "x", agent="b"),
]
THEMES: list[list[Record]] = [
    [call("ask", query, PAGE) for query in REWORDED],
    [call("ask", query, []) for query in REWORDED],
    [{**call("ask", query), **failed} for query in REWORDED for failed in FAILED],
    [call("click", {"on": "next"}, page) for page in LIKE_PAGE],
    [call("click", {"on": "next"}, text) for text in HEDGED],
    [call("find", {"name": name}, text) for name in "abcd" for text in ("No results", "No results", "No match")],
]
"""Calls that a kind of likeness takes for the same, and some that it does not."""
BLOCKS = st.sampled_from(THEMES).flatmap(lambda theme: st.lists(st.sampled_from(theme), min_size=3, max_size=9))
CALLS = st.lists(BLOCKS | st.sampled_from(OTHERS).map(lambda one: [one]), min_size=1, max_size=5)
SIBLINGS = st.sets(st.integers(1, 40), max_size=3)


def _records(blocks: list[list[Record]], siblings: set[int]) -> list[Record]:
    turn, records = 0, []
    for number, record in enumerate(record for block in blocks for record in block):
        turn += number not in siblings or "agent" in record
        records.append({**record, "turn": turn})
    return records


@settings(max_examples=100, deadline=None)
@given(CALLS, SIBLINGS)
def test_counts_carry_all_that_likeness_shows(blocks: list[list[Record]], siblings: set[int]) -> None:
    """Parity: fed call by call, delivered in any way, or scored from attributes alone, the findings are equal.

    And what rests on likeness says so.
    """
    for finding in check(_records(blocks, siblings), {}):
        alike = finding.kind in {Kind.NEAR_REPEAT, Kind.NEAR_RESULT, Kind.ARGS_REPEAT}
        assert alike is (finding.basis is Basis.LIKENESS) or finding.kind is Kind.ERROR_CASCADE
        assert finding.kind is not Kind.ARGS_REPEAT or finding.severity is Severity.SUSPECT


@pytest.mark.parametrize("make", [SameResult, NearRepeat, TextRuns])
def test_what_is_remembered_is_bounded_and_counted(
    make: type[SameResult | NearRepeat | TextRuns], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each forgets the tools and calls used longest ago, and says how many."""
    detector = make()
    if isinstance(detector, TextRuns):
        monkeypatch.setattr(tracker, "TextRuns", lambda: detector)
    else:
        monkeypatch.setattr(tracker, "DETECTORS", (lambda: detector,))
    run, text = Run(), sketch("four words and more")
    for number in range(3 * MAX_CHAINS):
        known = Likenesses(arguments=text, frame="f" * 32, result=text, result_is_text=True)
        run.call(f"tool{number}", f"{number}", f"{number}", likenesses=known, result_words=4)
    assert 2 * MAX_CHAINS <= detector.evicted < 3 * MAX_CHAINS


def test_digests_of_a_finding_are_bounded() -> None:
    """A finding of a thousand requests names sixteen."""
    run = Run()
    for number in range(1_000):
        run.call("find", f"{number}", "nothing", result_words=1)
    (finding,) = run.found(Kind.SAME_RESULT)
    assert (1_000, MAX_DIGESTS, 256) == (finding.count, len(finding.digests), len(finding.calls))


def test_told_counts_decide_over_sketches() -> None:
    """A producer saw the whole content; what is left of it here may be cut."""
    run = Run()
    cut = Likenesses(arguments=sketch("cut"), frame="f" * 32)
    for number in range(1, 6):
        run.call("ask", f"{number}", f"{number}", likenesses=cut, near_repeat_count=number, near_repeat_alike=number)
    assert 4 == run.first(Kind.NEAR_REPEAT)


def test_told_counts_with_a_call_lost() -> None:
    """Fault "counted here": a lost span takes nothing from the count that the producer gave."""
    run = Run()
    for number in (1, 2, 4, 5):
        run.call("ask", f"{number}", f"{number}", near_repeat_count=number, near_repeat_alike=1)
    assert 4 == run.first(Kind.NEAR_REPEAT)
    (finding,) = run.found(Kind.NEAR_REPEAT)
    assert (5, (1, 2, 3, 4)) == (finding.count, finding.calls)


def test_what_waits_for_a_loop_is_bounded() -> None:
    """Texts that were a loop and move on from then are listed up to a bound, however many come."""
    run = Run()
    page = " ".join(f"word{chr(97 + n % 26)}{chr(97 + n // 26)}" for n in range(60))
    for number in range(3 * MAX_HELD_CALLS):
        text = f"{page} {'abcd'[number]}" if number < 4 else f"{page} d {number}"
        known = Likenesses(result=sketch(text), result_is_text=True)
        run.call("read", "a", text, likenesses=known, result_words=61)
    stretch = run.tracker._texts._runs.latest.popitem()[1].stretch  # noqa: SLF001 - what is kept shows nowhere else
    assert Kind.NEAR_RESULT in (stretch.claims or {})
    assert len(stretch.unlisted) <= MAX_HELD_CALLS


def test_a_producers_count_leaves_nothing_to_compare_with() -> None:
    """A text counted by a producer is not held against one whose content is here: it begins anew."""
    run = Run()
    page = " ".join(f"word{n}" for n in range(60))
    for number in range(3):
        text = f"{page} {number}"
        if number == 1:
            run.call("read", "a", text, near_result_count=2, near_result_alike=96, result_moving=True, result_words=61)
        else:
            known = Likenesses(result=sketch(text), result_is_text=True)
            run.call("read", "a", text, likenesses=known, result_words=61)
    assert () == run.found(Kind.NEAR_RESULT)
