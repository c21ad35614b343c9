"""What is kept of claims: one finding a stretch and kind, in order, and each wasted call once."""

from __future__ import annotations

import pytest

from otel_loopguard.detectors.claims import Claims
from otel_loopguard.detectors.step import Claim
from otel_loopguard.detectors.stretch import Stretch
from otel_loopguard.model import CallFacts, Kind, Severity, ToolCall


def call(number: int, call_id: str | None = None) -> ToolCall:
    """The call of this number."""
    return ToolCall(number=number, turn=number, agent="a", facts=CallFacts(tool="t", call_id=call_id))


def stretch(*calls: ToolCall, spared: int = 1) -> Stretch:
    """A stretch of these calls."""
    made = Stretch("t", "a", ("d",), spared=spared)
    for one in calls:
        made.add(one)
    return made


def claim(
    kind: Kind, of: Stretch, *, count: int = 3, severity: Severity = Severity.LOOP, rule: str | None = None
) -> Claim:
    """A claim of a kind on a stretch."""
    return Claim(kind, severity, of, count, rule=rule)


def test_a_claim_is_noted_once_with_its_last_count() -> None:
    """The first time on a stretch makes the finding; from then on only the count moves."""
    claims, of = Claims(limit=9), stretch(call(1, "c1"), call(2), call(3, "c3"))
    assert [True, False, False] == [
        claims.note(claim(Kind.EXACT_REPEAT, of, count=count), call(count)) for count in (3, 4, 5)
    ]
    (finding,) = claims.findings()
    assert (5, 3, 1) == (finding.count, finding.at_call, finding.first_call)
    assert (("c1", "c3"), (1, 2, 3)) == (finding.call_ids, finding.calls)


def test_findings_are_in_order() -> None:
    """By the call at which they appeared, then by kind, whatever order they were claimed in."""
    claims = Claims(limit=9)
    for kind, at in ((Kind.PARALLEL_DUPLICATE, 4), (Kind.CYCLE, 4), (Kind.EXACT_REPEAT, 2)):
        claims.note(claim(kind, stretch(call(1))), call(at))
    assert [Kind.EXACT_REPEAT, Kind.CYCLE, Kind.PARALLEL_DUPLICATE] == [one.kind for one in claims.findings()]


@pytest.mark.parametrize("limit", [0, 1, 2])
def test_past_the_limit_a_stretch_counts_once(limit: int) -> None:
    """A finding that there is no room for is counted as dropped, once, however often it is claimed again."""
    claims, stretches = Claims(limit=limit), [stretch(call(number)) for number in range(1, 4)]
    for _ in range(2):
        for number, of in enumerate(stretches, start=1):
            claims.note(claim(Kind.EXACT_REPEAT, of), call(number))
    assert (limit, 3 - limit) == (len(claims.findings()), claims.dropped)


def test_which_findings_there_are() -> None:
    """A finding is asked for by kind and severity, and by a rule that it must not rest on."""
    claims = Claims(limit=9)
    claims.note(claim(Kind.POLL_BUDGET, stretch(call(1)), severity=Severity.BUDGET, rule="total"), call(1))
    asked = [
        claims.any_of({Kind.POLL_BUDGET}, Severity.BUDGET),
        claims.any_of({Kind.POLL_BUDGET, Kind.CYCLE}, Severity.BUDGET, apart_from="deadline"),
        claims.any_of({Kind.POLL_BUDGET}, Severity.BUDGET, apart_from="total"),
        claims.any_of({Kind.POLL_BUDGET}, Severity.LOOP),
        claims.any_of({Kind.CYCLE}, Severity.BUDGET),
    ]
    assert [True, True, False, False, False] == asked
    claims.note(claim(Kind.CYCLE, stretch(call(2))), call(2))
    assert claims.any_of({Kind.CYCLE}, Severity.LOOP), "a claim by no rule"
    assert claims.any_of({Kind.CYCLE}, Severity.LOOP, apart_from="total")


def test_wasted_calls_count_once() -> None:
    """All but the spared ones of a loop, from call 1 to far ones; nothing of a stretch that is no loop."""
    claims = Claims(limit=9)
    numbers = (1, 2, 7, 8, 9, 16, 300)
    of = stretch(*(call(number) for number in numbers), spared=2)
    claims.note(claim(Kind.STALLED_POLL, of, severity=Severity.SUSPECT), call(300))
    assert frozenset() == claims.wasted_calls
    claims.note(claim(Kind.EXACT_REPEAT, of), call(300))
    claims.note(claim(Kind.CYCLE, stretch(call(8), call(9))), call(300))
    assert frozenset(numbers[2:]) == claims.wasted_calls
    of.add(call(301))
    claims.count_waste(of)
    assert frozenset({*numbers[2:], 301}) == claims.wasted_calls
    assert [] == of.unlisted


def test_reports_never_crowd_out_a_loop() -> None:
    """Each severity has room of its own: an agent that doubles its parallel reads for days may still get stuck."""
    claims = Claims(limit=2)
    for number in (1, 2, 3):
        of = stretch(call(number))
        claims.note(claim(Kind.PARALLEL_DUPLICATE, of, severity=Severity.REPORT), call(number))
    claims.note(claim(Kind.EXACT_REPEAT, stretch(call(4))), call(4))
    kinds = [finding.kind for finding in claims.findings()]
    assert ([Kind.PARALLEL_DUPLICATE, Kind.PARALLEL_DUPLICATE, Kind.EXACT_REPEAT], 1) == (kinds, claims.dropped)


def test_a_dropped_suspicion_that_becomes_a_loop_is_kept() -> None:
    """There was no room for the suspicion; the loop has some, and became true when it became a loop."""
    claims, of = Claims(limit=1), stretch(call(2), call(3), call(4))
    claims.note(claim(Kind.SAME_RESULT, stretch(call(1)), severity=Severity.SUSPECT), call(1))
    claims.note(claim(Kind.NEAR_REPEAT, of, severity=Severity.SUSPECT), call(3))
    claims.note(claim(Kind.NEAR_REPEAT, of, severity=Severity.LOOP), call(4))
    assert [(Kind.SAME_RESULT, 1), (Kind.NEAR_REPEAT, 4)] == [(f.kind, f.at_call) for f in claims.findings()]


def test_a_loop_that_was_a_suspicion_became_true_with_the_call_that_made_it_one() -> None:
    """Until then nobody could be sure."""
    claims, of = Claims(limit=9), stretch(call(1), call(2), call(3), call(4))
    claims.note(claim(Kind.NEAR_REPEAT, of, severity=Severity.SUSPECT), call(3))
    claims.note(claim(Kind.NEAR_REPEAT, of, severity=Severity.LOOP), call(4))
    claims.note(claim(Kind.NEAR_REPEAT, of, severity=Severity.LOOP, count=9), call(5))
    assert [(4, 9)] == [(f.at_call, f.count) for f in claims.findings()]
