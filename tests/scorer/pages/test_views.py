"""What the pages show, as records: the list, one run, the sums, the health."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest

from otel_loopguard import policy as policies
from otel_loopguard.demo.scenes import POLICY
from otel_loopguard.model import CallRecord, Kind, RunOutcome, Severity
from otel_loopguard.scorer.filters import Filters, place
from otel_loopguard.scorer.pages.addresses import read_query
from otel_loopguard.scorer.pages.health import Level, health_page
from otel_loopguard.scorer.pages.source import Health
from otel_loopguard.scorer.pages.strip import strip
from otel_loopguard.scorer.pages.sums import releases_page, tools_page
from otel_loopguard.scorer.pages.timeline import COLOURS, PAGE_CALLS, CallView, RunPage, run_page
from otel_loopguard.scorer.pages.views import PAGE_RUNS, runs_page
from otel_loopguard.scorer.records import JudgedRun, Refusal
from tests.lint.linting import calls_of, spans_without_content
from tests.scorer.pages.memory_source import NOW_NS, MemorySource, demo_source, demo_spans, file_items

NO_QUERY = read_query({}, NOW_NS)
STUCK, POLL, PAGER, REFUND, CIRCLE = range(5)


def _runs(source: MemorySource) -> list[JudgedRun]:
    """In the order in which they were put in."""
    return sorted(source.kept.values(), key=place)


def _page(number: int, *, start: int = 1) -> RunPage:
    source = demo_source()
    run = _runs(source)[number]
    return run_page(run, source.assembled(run.run_id), source.policy, start=start)


def _calls(page: RunPage) -> list[CallView]:
    return [call for turn in page.turns for call in turn.calls]


def _records(run_id: str, letters: str, *, results: str | None = None) -> list[CallRecord]:
    """A run with one call a turn; equal letters are equal calls."""
    return [
        CallRecord(
            run_id=run_id, sequence=number, turn=number, tool="find", arguments={"q": letter}, result={"a": answer}
        )
        for number, (letter, answer) in enumerate(zip(letters, results or letters, strict=True), start=1)
    ]


# --- the list -----------------------------------------------------------------------------------------------


def test_the_list_is_newest_first_and_says_what_was_found() -> None:
    """The demo's runs in reverse, each with its outcome and its first findings."""
    source = demo_source()
    page = runs_page(source.runs(Filters(), before=None, limit=PAGE_RUNS + 1), source.counts(Filters()), NO_QUERY)
    said = [(run.outcome.value, [(one.kind.value, one.tool, one.count) for one in run.findings]) for run in page.runs]
    assert [
        ("loop", [("exact_repeat", "get_invoice", 3), ("handoff_cycle", "find_account", 3)]),
        ("duplicate_write", [("duplicate_write", "issue_refund", 2)]),
        ("clean", []),
        ("clean", []),
        ("loop", [("exact_repeat", "lookup_order", 5)]),
    ] == said
    assert [("loop", 2), ("duplicate_write", 1), ("clean", 2)] == [(one.outcome, one.runs) for one in page.outcomes]
    assert (5, None, True) == (page.total, page.older, page.first_page)


def test_older_runs_follow_without_a_gap() -> None:
    """The address of the older page leads to exactly the runs that the first one leaves, and the last has none."""
    source = MemorySource()
    for number in range(PAGE_RUNS + 3):
        source.add(_records(f"r{number}", "ab"), judged_ns=NOW_NS + number // 2)
    first = source.runs(Filters(), before=None, limit=PAGE_RUNS + 1)
    page = runs_page(first, source.counts(Filters()), NO_QUERY)
    assert page.older is not None
    query = read_query({"before": page.older.partition("before=")[2].replace("%7E", "~")}, NOW_NS)
    second = source.runs(query.filters, before=query.before, limit=PAGE_RUNS + 1)
    rest = runs_page(second, source.counts(Filters()), query)
    seen = [run.run_id for run in (*page.runs, *rest.runs)]
    assert (PAGE_RUNS, 3, None, False) == (len(page.runs), len(rest.runs), rest.older, rest.first_page)
    assert len(source.kept) == len(set(seen))


def test_each_filter_narrows_the_list() -> None:
    """Outcome, service, tool, agent and time each leave the runs that have it."""
    source = demo_source()

    def found(**filters: object) -> int:
        return len(source.runs(msgspec.convert(filters, Filters), before=None, limit=9))

    assert [5, 2, 5, 0, 1, 4, 1, 2] == [
        found(),
        found(outcome="loop"),
        found(service="demo-shop"),
        found(release="1"),
        found(tool="issue_refund"),
        found(agent="support"),
        found(agent="triage"),
        found(since_ns=NOW_NS + 3_000_000_000),
    ]


def test_an_outcome_that_is_asked_for_is_listed_although_no_run_has_it() -> None:
    """The filter that is on can be seen, and taken off."""
    query = read_query({"outcome": "outage", "service": "x"}, NOW_NS)
    page = runs_page((), {}, query)
    assert [(RunOutcome.OUTAGE, 0)] == [(one.outcome, one.runs) for one in page.outcomes]
    assert ("/?service=x", "/?outcome=outage&service=x") == (page.any_outcome, page.newest)


# --- one run --------------------------------------------------------------------------------------------------


def test_a_repeat_is_seen_at_a_glance() -> None:
    """The stuck run's five calls have one letter and one colour, each from the second on is wasted."""
    page = _page(STUCK)
    calls = _calls(page)
    assert [1] * 5 == [call.arguments.colour for call in calls]
    assert 1 == len({call.arguments.text for call in calls})
    assert "A " + (calls[0].arguments.digest or "")[:4] == calls[0].arguments.text
    assert [False, True, True, True, True] == [call.wasted for call in calls]
    assert [("first", 1), ("unchanged", 2), ("unchanged", 3), ("unchanged", 4), ("unchanged", 5)] == [
        (call.progress, call.repeat_count) for call in calls
    ]
    assert [(1,)] * 5 == [call.findings for call in calls]
    assert [(), (), (1,), (), ()] == [call.certain for call in calls]


def test_a_poll_that_moves_has_differing_results() -> None:
    """Equal calls with results that come once: a colour for the one, none for the others."""
    calls = _calls(_page(POLL))
    assert [1] * 5 == [call.arguments.colour for call in calls]
    assert ([None] * 5, 5) == (
        [call.result.colour for call in calls],
        len({call.result.text for call in calls}),
    )
    assert ["first", *["advanced"] * 4] == [call.progress for call in calls]


def test_a_decision_stands_at_its_call() -> None:
    """The second refund says what a guard would have done."""
    page = _page(REFUND)
    assert [[], [], ["deny"]] == [[entry.action.value for entry in call.guard] for call in _calls(page)]
    assert [3] == [entry.call for entry in page.decisions]
    assert [None, None, None] == [call.arguments.colour for call in _calls(page)]


def test_agents_are_named_in_order() -> None:
    """A run of two agents lists both, and each call says whose it is."""
    page = _page(CIRCLE)
    assert ("triage", "billing") == page.agents
    assert ["triage", "billing"] * 3 == [call.agent for call in _calls(page)]


def test_colours_come_again_but_letters_do_not() -> None:
    """With more repeated digests than colours, two may share a colour and never a mark."""
    source = MemorySource()
    letters = "abcdefghijklmno"
    (run,) = source.add(_records("many", letters * 2))
    calls = _calls(run_page(run, source.assembled("many"), source.policy))
    assert [*range(1, COLOURS + 1), 1, 2, 3] == [call.arguments.colour for call in calls[: len(letters)]]
    assert len(letters) == len({call.arguments.text for call in calls})
    assert [call.arguments.text for call in calls[: len(letters)]] == [
        call.arguments.text for call in calls[len(letters) :]
    ]


def test_siblings_stand_in_one_turn() -> None:
    """Calls of one turn are side by side."""
    source = MemorySource()
    records = [
        msgspec.structs.replace(record, turn=1 if record.sequence < 3 else 2) for record in _records("side", "aab")
    ]
    (run,) = source.add(records)
    page = run_page(run, source.assembled("side"), source.policy)
    assert [[1, 2], [3]] == [[call.number for call in turn.calls] for turn in page.turns]
    drawn = strip(page)
    assert drawn is not None
    assert drawn.cells[0].x == drawn.cells[1].x != drawn.cells[2].x
    assert ["A", "A", ""] == [cell.letter for cell in drawn.cells]


def test_a_long_run_comes_in_pages() -> None:
    """Each page shows so many calls at most, with the letters and colours that the whole run gives them."""
    source = MemorySource()
    (run,) = source.add(_records("long", "ab" * PAGE_CALLS))
    whole = source.assembled("long")
    first = run_page(run, whole, source.policy)
    second = run_page(run, whole, source.policy, start=PAGE_CALLS + 1)
    assert (1, PAGE_CALLS, None, f"/runs/long?from={PAGE_CALLS + 1}") == (
        first.first_shown,
        first.last_shown,
        first.earlier,
        first.later,
    )
    assert (PAGE_CALLS + 1, 2 * PAGE_CALLS, "/runs/long", None) == (
        second.first_shown,
        second.last_shown,
        second.earlier,
        second.later,
    )
    assert _calls(first)[0].arguments == _calls(second)[0].arguments
    assert 2 * PAGE_CALLS == run_page(run, whole, source.policy, start=10**8).first_shown


def test_findings_come_worst_first_and_keep_their_numbers() -> None:
    """A report does not stand before a loop; calls name findings by the verdict's order."""
    source = MemorySource()
    # One letter: equal siblings first, which is a report, then a repeat.
    records = [
        msgspec.structs.replace(record, turn=1 if record.sequence < 3 else record.sequence)
        for record in _records("both", "aaaaaa")
    ]
    (run,) = source.add(records)
    page = run_page(run, source.assembled("both"), source.policy)
    ranks = [list(Severity).index(Severity.LOOP) if one.severity is Severity.LOOP else 99 for one in page.findings]
    assert all(one <= other for one, other in pairwise(ranks))
    assert {Kind.EXACT_REPEAT, Kind.PARALLEL_DUPLICATE} == {one.kind for one in page.findings}
    by_number = {one.number: one for one in page.findings}
    for call in _calls(page):
        assert all(call.number in by_number[number].calls for number in call.findings if number not in call.certain)


def test_without_facts_the_verdict_stands_alone() -> None:
    """A run whose facts are gone is shown as it was judged, with a remark."""
    run = _runs(demo_source())[STUCK]
    page = run_page(run, None, demo_source().policy)
    assert ((), 0, 5) == (page.turns, page.assembled_calls, page.verdict.calls)
    assert page.remark is not None
    assert strip(page) is None


def test_spans_that_came_since_are_remarked() -> None:
    """Where the calls differ in number from the verdict's, the page says so."""
    source = demo_source()
    run = _runs(source)[STUCK]
    fewer = msgspec.structs.replace(run, verdict=msgspec.structs.replace(run.verdict, calls=4))
    page = run_page(fewer, source.assembled(run.run_id), source.policy)
    assert "it counts 4 calls, and 5 are known now" in (page.remark or "")


def test_what_is_missing_is_said() -> None:
    """A capture without arguments names the reason at each call and in a sentence."""
    source = MemorySource()
    name = "langchain-1.5.0-langgraph-1.2.24+opentelemetry-instrumentation-genai-langchain-1.3b0+main-handled.jsonl"
    run = source.add(file_items(name))[0]
    page = run_page(run, source.assembled(run.run_id), source.policy)
    assert {"not captured"} == {call.arguments.unknown for call in _calls(page)}
    assert any("arguments not known" in text for text in page.missing)
    assert page.flags


@pytest.mark.parametrize("name", list(demo_spans()))
def test_a_page_is_written_and_read_as_json(name: str) -> None:
    """The JSON of a run holds the whole record, and the stored verdict as it is."""
    source = MemorySource()
    (run,) = source.add(demo_spans()[name])
    page = run_page(run, source.assembled(run.run_id), source.policy)
    read = msgspec.json.decode(msgspec.json.encode(page))
    assert set(RunPage.__struct_fields__) == set(read)
    assert msgspec.json.decode(msgspec.json.encode(run.verdict)) == read["verdict"]


# --- sums and health --------------------------------------------------------------------------------------------


def test_tools_add_up() -> None:
    """Each tool has its runs, calls, findings and the waste of the runs that were stuck on it."""
    source = demo_source()
    page = tools_page(_runs(source), NO_QUERY, source.policy, more=False)
    rows = {row.tool: (row.runs, row.calls, row.stuck_runs, dict(row.kinds), row.wasted_calls) for row in page.tools}
    assert {
        "lookup_order": (1, 5, 1, {"exact_repeat": 1}, 4),
        "get_export_status": (1, 5, 0, {}, 0),
        "search_cases": (1, 5, 0, {}, 0),
        "issue_refund": (1, 2, 0, {"duplicate_write": 1}, 0),
        "get_balance": (1, 1, 0, {}, 0),
        "find_account": (1, 3, 1, {"handoff_cycle": 1}, 4),
        "get_invoice": (1, 3, 1, {"exact_repeat": 1}, 4),
    } == rows
    declared = {row.tool: row.declared for row in page.tools}
    assert ("read, polling", "write", None) == (
        declared["get_export_status"],
        declared["issue_refund"],
        declared["lookup_order"],
    )
    assert ("/?tool=lookup_order", ()) == (next(r.path for r in page.tools if r.tool == "lookup_order"), page.unused)


def test_tools_that_are_declared_and_never_called_are_named() -> None:
    """A misspelt tool in the policy shows itself."""
    source = demo_source()
    page = tools_page(_runs(source)[:1], NO_QUERY, source.policy, more=False)
    assert {"get_export_status", "search_cases", "issue_refund"} <= set(page.unused)


def _clock_runs(source: MemorySource, *, runs: int = 2) -> None:
    """Runs whose declared signal is a clock, as spans without content."""
    for number in range(runs):
        records = calls_of([{"rows": n} for n in range(9)], run_id=f"run-{number}", tool="get_export_status")
        source.add(spans_without_content(records, source.policy))


def test_the_policy_is_linted_over_all_runs() -> None:
    """Two runs together make a lint that one alone does not; it leads to the runs that called the tool."""
    source = MemorySource()
    _clock_runs(source)
    runs = _runs(source)
    assert () == tools_page(runs[:1], NO_QUERY, source.policy, more=False).lint
    (row,) = tools_page(runs, NO_QUERY, source.policy, more=False).lint
    assert ("signal_always_moves", "get_export_status", "rows increases", "progress", "/?tool=get_export_status") == (
        row.lint.value,
        row.tool,
        row.rule,
        row.key,
        row.path,
    )
    assert {"moved": 16, "unchanged": 0, "runs": 2, "longest": 8} == row.evidence
    assert ("the rule `rows increases` said", "If this is a time") == (row.said[:30], row.advice[:17])


def test_runs_under_another_policy_say_nothing_of_this_one() -> None:
    """Once the owner has changed the policy, the runs before it are no evidence any more."""
    source = MemorySource()
    _clock_runs(source)
    now = policies.load(msgspec.json.encode({**POLICY, "policy_version": "2"}).decode(), source="made for the test")
    assert () == tools_page(_runs(source), NO_QUERY, now, more=False).lint


def test_releases_add_up() -> None:
    """Each release of a service has its outcomes, in the order of severity."""
    source = demo_source()
    runs = _runs(source)
    other = msgspec.structs.replace(
        runs[0], verdict=msgspec.structs.replace(runs[0].verdict, release="2"), judged_ns=NOW_NS + 10**12
    )
    page = releases_page([*runs, other], NO_QUERY, more=True)
    assert [("2", 1, {"loop": 1}), (None, 5, {"loop": 2, "duplicate_write": 1, "clean": 2})] == [
        (row.release, row.runs, dict(row.outcomes)) for row in page.releases
    ]
    assert [4, 8] == [row.wasted_calls for row in page.releases]
    assert (6, True) == (page.runs, page.more)


def test_tables_of_names_from_outside_are_bounded() -> None:
    """One run may name any number of tools; those that are left out are counted, the rest is as it was."""
    source = demo_source()
    run = msgspec.structs.replace(_runs(source)[0], tools={f"tool{number}": number + 1 for number in range(3000)})
    page = tools_page([run], NO_QUERY, source.policy, more=False)
    found = {finding.tool for finding in run.verdict.findings}
    assert (1000, 2000 + len(found)) == (len(page.tools), page.left_out)
    assert "tool2999" in {row.tool for row in page.tools}
    named = [
        msgspec.structs.replace(run, verdict=msgspec.structs.replace(run.verdict, release=str(number)))
        for number in range(1001)
    ]
    releases = releases_page(named, NO_QUERY, more=False)
    assert (1000, 1) == (len(releases.releases), releases.left_out)


def test_health_says_what_to_do() -> None:
    """Each thing that is not well has a notice; a scorer that is well has none."""
    policy = demo_source().policy
    well = Health(started_ns=NOW_NS, spans=5, max_disk_bytes=100, disk_bytes=90, free_bytes=2**40)
    assert () == health_page(well, policy).notices
    every = {refusal.value: 1 for refusal in Refusal if refusal is not Refusal.STOPPING}
    bad = Health(
        started_ns=NOW_NS,
        refused={**every, "stopping": 3},
        rejected={"bad_span_id": 2},
        lag_s=30.0,
        failed_commits=1,
        disk_bytes=91,
        max_disk_bytes=100,
        free_bytes=5,
        outbox={"otlp": 1000},
    )
    page = health_page(bad, policy)
    assert len(every) + 6 == len(page.notices)
    assert any(one.level is Level.ACT and "disk was full" in one.text for one in page.notices)
    assert (0.91, "demo-shop@1", 3) == (page.disk_share, page.policy, page.declared_tools)
