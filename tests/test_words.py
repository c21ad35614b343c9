"""Plain words: complete tables, and sentences that say what the finding holds."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import pytest

from otel_loopguard import words
from otel_loopguard.lint import LintCode
from otel_loopguard.model import Flag, Kind, RunOutcome, Severity, TerminationReason, Unknown, Verdict
from tests.cli.runs_by_hand import call, finding


@pytest.mark.parametrize(
    ("table", "members"),
    [
        (words.FINDINGS, Kind),
        (words.OUTCOMES, RunOutcome),
        (words.ENDINGS, TerminationReason),
        (words.FLAGS, Flag),
        (words.UNKNOWNS, Unknown),
        (words.LINTS, LintCode),
    ],
)
def test_every_member_has_its_words(table: Mapping[Any, str], members: type[StrEnum]) -> None:
    """No enumeration has a member without words, and no two members have the same."""
    assert set(members) == set(table)
    assert len(table) == len(set(table.values()))


def test_a_repeat_says_count_allowance_and_place() -> None:
    """The sentence of a repeat names the tool, the count, what was allowed, and both call numbers."""
    calls = [call(number) for number in range(1, 6)]
    expected = (
        "lookup_order was called 5 times in a row with equal arguments and an equal result; allowed were 2; "
        "first at call 1, certain at call 3"
    )
    assert expected == words.finding_sentence(finding(), calls)


def test_siblings_are_one_allowed_round() -> None:
    """Two equal calls of one turn count once among those that were allowed."""
    calls = [call(1), call(2, turn=1), call(3), call(4), call(5)]
    assert "; allowed were 2; " in words.finding_sentence(finding(at_call=4), calls)


def test_other_kinds_state_no_allowance() -> None:
    """A cycle says its period and rounds; how much was allowed does not follow from it."""
    sentence = words.finding_sentence(finding(kind=Kind.CYCLE, period=2, count=3), [call(n) for n in range(1, 6)])
    expected = (
        "the same 2 calls, lookup_order among them, came round 3 times with equal results; "
        "first at call 1, certain at call 3"
    )
    assert expected == sentence


@pytest.mark.parametrize("severity", Severity)
@pytest.mark.parametrize("kind", Kind)
def test_every_finding_makes_a_sentence(kind: Kind, severity: Severity) -> None:
    """Each kind under each severity fills its sentence without leaving a gap."""
    sentence = words.finding_sentence(finding(kind=kind, severity=severity, period=2, rule="version increases"), [])
    assert "{" not in sentence
    assert "None" not in sentence
    assert "by the rule version increases" in sentence
    assert sentence.endswith("first at call 1, certain at call 3")


def test_a_suspicion_is_called_one() -> None:
    """What is only suspected says so first."""
    assert words.finding_sentence(finding(severity=Severity.SUSPECT), []).startswith("suspected: lookup_order")


@pytest.mark.parametrize(
    ("wasted", "expected"),
    [
        ((0, 0.0, 0), None),
        ((1, 0.0, 0), "1 call wasted"),
        ((10, 1234.0, 900), "10 calls wasted (1.2 s, 900 tokens)"),
        ((2, 14.2, 1), "2 calls wasted (14 ms, 1 token)"),
    ],
)
def test_cost_in_words(wasted: tuple[int, float, int], expected: str | None) -> None:
    """Wasted calls, time and tokens are told where there are any."""
    calls, milliseconds, tokens = wasted
    verdict = Verdict(
        run_id="r", outcome=RunOutcome.LOOP, wasted_calls=calls, wasted_ms=milliseconds, wasted_tokens=tokens
    )
    assert expected == words.wasted_sentence(verdict)


def test_unknown_digests_say_why() -> None:
    """The number of calls without a digest comes with the reasons."""
    verdict = Verdict(
        run_id="r", outcome=RunOutcome.UNSCORABLE, calls=5, unknown_calls={"not_captured": 2, "truncated": 1}
    )
    expected = "arguments not known for 3 of 5 calls: not captured 2, cut off 1"
    assert expected == words.unknown_sentence(verdict)
