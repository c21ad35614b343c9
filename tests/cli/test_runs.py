"""Rendering of one run: what stands in which line, marks, colours, and that nothing unsafe comes through."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest

from otel_loopguard.cli.runs import Tables, input_line, report_lines, summary_line
from otel_loopguard.cli.table import MAX_ROWS, table
from otel_loopguard.cli.terminal import Painter
from otel_loopguard.marks import Marks
from otel_loopguard.model import (
    Action,
    DeniedBy,
    ErrorCategory,
    Flag,
    GuardEntry,
    Kind,
    Outcome,
    Progress,
    ResultClass,
    RunOutcome,
    TerminationReason,
    Unknown,
)
from otel_loopguard.observation import Observation
from otel_loopguard.replay import Counts, RunReport
from otel_loopguard.words import safe
from tests.cli.runs_by_hand import call, digest, finding, report

_PLAIN = Painter(colour=False)
_COLOUR = Painter(colour=True)
_SENTENCE = (
    "lookup_order was called 3 times in a row with equal arguments and an equal result; allowed were 2; "
    "first at call 1, certain at call 3"
)


def _lines(given: RunReport, *, tables: Tables = Tables.NOT_CLEAN, whole: bool = False) -> list[str]:
    return list(report_lines(given, _PLAIN, tables=tables, whole=whole))


def test_a_clean_run_is_one_line() -> None:
    """A clean run takes one line that says who, how much, and how it ended."""
    given = report(
        [call(1), call(2, "b")],
        service="shop",
        agent="helper",
        termination_reason=TerminationReason.FINAL_ANSWER,
        flags=(Flag.SAMPLED,),
    )
    expected = "clean                run run-1, service shop, agent helper, 2 calls in 2 turns, ended with an answer"
    assert [expected] == _lines(given)


def test_a_loop_says_why_and_shows_its_calls() -> None:
    """A run in a loop has heading, outcome, findings, cost, guard, flags and the table, in this order."""
    seen = [
        Observation(Progress.FIRST),
        Observation(Progress.UNCHANGED, None, 2),
        Observation(Progress.UNCHANGED, "version increases", 3, (Kind.EXACT_REPEAT,)),
    ]
    given = report(
        [call(1), call(2), call(3, result="other")],
        seen,
        outcome=RunOutcome.LOOP,
        findings=(finding(count=3, calls=(1, 2, 3)),),
        wasted_calls=1,
        guard=(GuardEntry(call_id="c3", call=3, action=Action.DENY, enforced=False, reason="exact_repeat"),),
        flags=(Flag.NO_ROOT,),
    )
    a, r, other = (digest(text)[:2] for text in ("a", "r", "other"))
    third = "unchanged x3 (version increases)"
    expected = [
        "loop                 run run-1, 3 calls in 3 turns, ending not recorded",
        "  stuck in a loop",
        f"  {_SENTENCE}",
        "  1 call wasted",
        "  guard: deny at call 3 (not enforced), exact_repeat",
        "  the trace's root span was not seen",
        "    turn  call  tool          arguments  result  class    progress                          finding",
        f"       1     1  lookup_order  A {a}       a {r}    content  first",
        f"       2     2  lookup_order  A {a}       a {r}    content  unchanged x2",
        f"       3     3  lookup_order  A {a}       b {other}    content  {third}  exact_repeat",
        "",
    ]
    assert expected == _lines(given)


def test_tables_are_shown_as_asked() -> None:
    """No tables, tables of runs that are not clean, and tables of all."""
    clean, loop = report([call(1)]), report([call(1)], outcome=RunOutcome.LOOP)
    shown = {
        tables: ["lookup_order" in "\n".join(_lines(given, tables=tables)) for given in (clean, loop)]
        for tables in Tables
    }
    assert {Tables.NONE: [False, False], Tables.NOT_CLEAN: [False, True], Tables.ALL: [True, True]} == shown


def test_a_run_without_calls_says_what_is_missing() -> None:
    """A capture without tool spans is not shown as an empty table but says so."""
    lines = _lines(report([], outcome=RunOutcome.UNSCORABLE, flags=(Flag.NO_TOOL_SPANS,)))
    assert "0 calls in 0 turns" in lines[0]
    assert any(line.startswith("  no tool spans seen: ") for line in lines)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "content"),
        ({"result_class": ResultClass.NOT_FOUND}, "not_found"),
        ({"outcome": Outcome.ERROR, "error_category": ErrorCategory.TRANSIENT}, "error transient"),
        ({"outcome": Outcome.ERROR, "error_category": ErrorCategory.UNKNOWN}, "error"),
        ({"outcome": Outcome.ERROR}, "error"),
        ({"outcome": Outcome.DENIED, "denied_by": DeniedBy.GUARD}, "denied by guard"),
        ({"outcome": Outcome.DENIED}, "denied"),
        ({"result_class": None}, "?"),
    ],
)
def test_class_column(changes: dict[str, Any], expected: str) -> None:
    """The class says what a result amounts to, or how the call failed or was refused."""
    (_, row) = table([call(1, **changes)], [Observation(Progress.FIRST)], _PLAIN)
    assert [expected] == re.split(r"  +", row.strip())[5:-1]


def test_unknown_digests_say_why() -> None:
    """A call without digest has no letter but the reason, and one with neither a question mark."""
    unknown = call(1, call_digest=None, call_unknown=Unknown.TRUNCATED, result_digest=None)
    (_, row) = table([unknown], [Observation(Progress.UNKNOWN)], _PLAIN)
    assert ["1", "1", "lookup_order", "? cut off", "?", "content", "unknown"] == re.split(r"  +", row.strip())


def test_agents_are_shown_where_there_are_several() -> None:
    """The agent's column appears with a second agent only."""
    seen = [Observation(Progress.FIRST)] * 2
    assert "agent" not in next(table([call(1), call(2)], seen, _PLAIN))
    assert "agent" in next(table([call(1), call(2, agent="other")], seen, _PLAIN))


def test_marks_are_one_to_one() -> None:
    """A hundred digests have a hundred letters, in order of appearance, and keep them."""
    marks, digests = Marks(), [digest(str(number)) for number in range(100)]
    first = [marks.of(text) for text in digests]
    assert ["A", "B", "Z", "AA", "AB", "CV"] == [first[place].split()[0] for place in (0, 1, 25, 26, 27, 99)]
    assert 100 == len({mark.split()[0] for mark in first})
    assert first == [marks.of(text) for text in digests]


def test_equal_digests_have_equal_colours() -> None:
    """Colour follows the digest; without colour there is not one escape."""
    calls = [call(1, "a"), call(2, "b"), call(3, "a")]
    rows = list(table(calls, [Observation(Progress.FIRST)] * 3, _COLOUR))[1:]
    colours = [re.findall(r"48;5;(\d+)m[A-Z]", row) for row in rows]
    assert colours[0] == colours[2] != colours[1]
    assert "\x1b" not in "".join(table(calls, [Observation(Progress.FIRST)] * 3, _PLAIN))


def test_colour_changes_no_text() -> None:
    """Without its escapes, coloured output is the plain output."""
    given = report([call(1), call(2)], outcome=RunOutcome.LOOP, findings=(finding(),), flags=(Flag.SAMPLED,))
    coloured = "\n".join(report_lines(given, _COLOUR, tables=Tables.ALL, whole=False))
    assert "\n".join(_lines(given, tables=Tables.ALL)) == re.sub(r"\x1b\[[0-9;]*m", "", coloured)


@pytest.mark.parametrize("total", [MAX_ROWS, MAX_ROWS + 1, 5000])
def test_long_runs_are_cut_around_their_findings(total: int) -> None:
    """Up to the limit every row is shown; beyond, both ends and what lies around findings, and how many are not."""
    seen = [Observation(Progress.FIRST, kinds=(Kind.CYCLE,) if number == total // 2 else ()) for number in range(total)]
    calls = [call(number, str(number)) for number in range(1, total + 1)]
    rows = list(table(calls, seen, _PLAIN))[1:]
    numbers = [int(row.split()[1]) for row in rows if "not shown" not in row]
    hidden = sum(int(re.findall(r"\d+", row)[0]) for row in rows if "not shown" in row)
    assert total == len(numbers) + hidden
    assert (total <= MAX_ROWS) == (hidden == 0)
    assert {1, total // 2 + 1, total} <= set(numbers)
    assert total == len(list(table(calls, seen, _PLAIN, whole=True))) - 1


def test_many_findings_do_not_fill_the_screen() -> None:
    """A run with a finding at every call is cut all the same."""
    seen = [Observation(Progress.FIRST, kinds=(Kind.CYCLE,))] * 5000
    assert 2 * MAX_ROWS > len(list(table([call(number) for number in range(1, 5001)], seen, _PLAIN)))


def test_nothing_unsafe_is_printed() -> None:
    """Escapes, line ends and direction marks in a name that slipped through do not reach the terminal."""
    evil = "x\x1b[2J\x07\r\n\u202e\x9b31m"
    given = report(
        [call(1, tool=evil, agent=evil), call(2)],
        outcome=RunOutcome.LOOP,
        run_id=evil,
        service=evil,
        agent=evil,
        findings=(finding(tool=evil, rule=evil),),
        guard=(GuardEntry(call_id=None, call=None, action=Action.WARN, enforced=True, reason=evil),),
    )
    assert all(line.isprintable() for line in _lines(given))


def test_long_names_are_cut() -> None:
    """A name is shown up to a limit, and its end says that it was cut."""
    assert ("x" * 80, "x" * 77 + "...") == (safe("x" * 80), safe("x" * 81))


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        (Counts(), "read 0 spans"),
        (Counts(records=1), "read 1 call record"),
        (Counts(spans=3, dialects=Counter(genai=2, mcp=1)), "read 3 spans (genai 2, mcp 1)"),
        (Counts(spans=1, records=2), "read 1 span and 2 call records"),
    ],
)
def test_what_was_read(counts: Counts, expected: str) -> None:
    """The input is counted by kind, and spans by the dialect that read them."""
    assert expected == input_line(counts)


@pytest.mark.parametrize(
    ("outcomes", "calls", "expected"),
    [
        (Counter(), 0, "0 runs with 0 calls"),
        ({RunOutcome.CLEAN: 1}, 1, "1 run with 1 call: 1 clean"),
        (
            {RunOutcome.CLEAN: 3, RunOutcome.LOOP: 2, RunOutcome.SUSPECT: 1},
            9,
            "6 runs with 9 calls: 2 loop, 1 suspect, 3 clean",
        ),
    ],
)
def test_summary(outcomes: dict[RunOutcome, int], calls: int, expected: str) -> None:
    """The last line counts runs by outcome, the worst first."""
    assert expected == summary_line(Counter(outcomes), calls)
