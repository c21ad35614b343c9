"""The call sequences of two published detectors' tests, and our answer to each.

The articles "Stop an agent before a repeated tool call becomes a loop" (one consecutive-repeat detector with a
progress rule) and "Detecting Stuck Agent Loops" (a window of eight with a progress signal) test their detectors on
short sequences. Here are the same sequences, written anew as call records. Where their answer is right, ours is the
same; where ours is another, the test says why, and docs/detection.md lists it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import pytest

from otel_loopguard import policy
from otel_loopguard.files.calls import record
from otel_loopguard.model import (
    Action,
    CallFacts,
    Flag,
    Kind,
    Outcome,
    ResultClass,
    RunOutcome,
    Severity,
    ToolCall,
    Verdict,
)
from otel_loopguard.tracker import Tracker
from tests.detectors.feeding import digest
from tests.detectors.variants import Record, call, check, placed
from tests.replaying import replay_items

HEAD: Final = 'version: 1\npolicy: seeds\npolicy_version: "1"\n'
VERSIONED: Final = f"""{HEAD}
tools:
  lookup_order: {{effect: read, allowed_repeats: 2, progress: [{{path: version, rule: increases}}]}}
  lookup_once: {{effect: read, allowed_repeats: 1}}
  get_export_status: {{effect: read, polling: {{state: status, terminal: [complete]}}}}
  search_cases: {{effect: read, pagination: {{cursor: next, items: "cases[].id"}}}}
  issue_refund: {{effect: write, business_key: [order_id, amount], idempotency_key: request_key}}
  read_refund_policy: {{effect: read}}
  fetch: {{effect: read}}
  write_page: {{effect: write}}
errors: {{transient: [connection reset]}}
"""


def judged(rows: Iterable[Record], rules: str = VERSIONED) -> Verdict:
    """The verdict on one run."""
    (report,) = replay_items([record(row) for row in placed(rows)], policy.load(rules))
    return report.verdict


def lookups(*observations: tuple[str, Any], order: str = "A12") -> list[Record]:
    """Lookups of one order in turn, each with a status and a version."""
    return [
        call("lookup_order", {"order_id": order}, {"status": status, "version": version})
        for status, version in observations
    ]


# --- the first article: consecutive repeats without progress --------------------------------------------------


@pytest.mark.parametrize(("count", "expected"), [(0, None), (1, None), (2, None), (3, 3)])
def test_unchanged_lookups(count: int, expected: int | None) -> None:
    """Equal: with two allowed, the third unchanged lookup is found, and none before it."""
    rows = [*lookups(*[("delivered", 7)] * count), call("fetch", {"page": 1}, "one page of text")]
    found = check(rows, {Kind.EXACT_REPEAT: expected}, policy=VERSIONED)
    assert [(1, 3, 3)] * (expected is not None) == [(one.first_call, one.at_call, one.count) for one in found]


@pytest.mark.parametrize(("count", "expected"), [(2, []), (3, [3]), (4, [3, 4])])
def test_first_call_that_is_not_dispatched(count: int, expected: list[int]) -> None:
    """Equal: with two allowed, a guard refuses the third before it runs, not the fourth and not the second."""
    guard = judged(lookups(*[("delivered", 7)] * count)).guard
    assert expected == [entry.call for entry in guard if entry.action in {Action.DENY, Action.STOP}]


def test_second_refund_is_not_dispatched() -> None:
    """Equal: a repeated payment is stopped at the second, not counted to three first."""
    guard = judged(refunds(("k1", {"refund": 1}, None), ("k2", {"refund": 2}, None))).guard
    assert [(2, Action.DENY)] == [(entry.call, entry.action) for entry in guard]


@pytest.mark.parametrize(
    "versions",
    [[("pending", 7), ("pending", 8), ("delivered", 9)], [("delivered", 7), ("delivered", 7), ("delivered", 8)]],
)
def test_version_that_advances(versions: list[tuple[str, int]]) -> None:
    """Equal: a higher declared version is progress, though the arguments are the same."""
    check(lookups(*versions), {Kind.EXACT_REPEAT: None}, policy=VERSIONED)


@pytest.mark.parametrize("versions", [[7, 7, 7], ["7", "7", "7"], [True, True, True], [None, None, None]])
def test_version_that_is_no_number(versions: Sequence[Any]) -> None:
    """Equal: a version that is no number, or a boolean, is never progress."""
    check(lookups(*[("delivered", one) for one in versions]), {Kind.EXACT_REPEAT: 3}, policy=VERSIONED)


def test_version_that_goes_back() -> None:
    """Equal: a lower version is no progress either, whatever else the answer says."""
    check(lookups(("a", 9), ("b", 8), ("c", 7)), {Kind.EXACT_REPEAT: 3}, policy=VERSIONED)


@pytest.mark.parametrize("cursor", ["page-2", "page-3"])
def test_other_cursor_is_another_action(cursor: str) -> None:
    """Equal: cursor null, another, null again is no repeat, with one repeat allowed."""
    rows = [call("lookup_once", {"query": "refund", "cursor": at}, {"n": 1}) for at in (None, cursor, None)]
    check(rows, {Kind.EXACT_REPEAT: None, Kind.CYCLE: None}, policy=VERSIONED)


def test_other_arguments_are_another_action() -> None:
    """Equal: another order is another action; so is another tenant that the policy names as part of the identity."""
    rows = [lookups(("delivered", 7), order=order)[0] for order in ("A12", "B9", "A12", "B9", "A12")]
    check(rows, {Kind.EXACT_REPEAT: None}, policy=VERSIONED)
    tenants = [{**lookups(("delivered", 7))[0], "tenant": name} for name in ("north", "south", "west", "east")]
    check(tenants, {Kind.EXACT_REPEAT: None}, policy=f"{VERSIONED}identity: [tenant.id]\n")


def test_order_of_keys_does_not_matter() -> None:
    """Equal: sorted keys, arrays in order."""
    one, two = {"order_id": "A12", "include_items": True}, {"include_items": True, "order_id": "A12"}
    rows = [call("lookup_once", arguments, {"n": 1}) for arguments in (one, two)]
    check(rows, {Kind.EXACT_REPEAT: 2}, policy=VERSIONED)
    lists = [call("lookup_once", {"ids": ids}, {"n": 1}) for ids in ([1, 2], [2, 1])]
    check(lists, {Kind.EXACT_REPEAT: None}, policy=VERSIONED)


def test_nothing_is_cleaned_up() -> None:
    """Equal: capitals, rounding and timestamps are not folded away unless the owner says so."""
    rows = [call("lookup_once", {"mail": mail}, {"n": 1}) for mail in ("a@b.example", "A@b.example")]
    check(rows, {Kind.EXACT_REPEAT: None}, policy=VERSIONED)
    numbers = [call("lookup_once", {"lat": lat}, {"n": 1}) for lat in (59.91, 59.9)]
    check(numbers, {Kind.EXACT_REPEAT: None}, policy=VERSIONED)


def test_parallel_reads_are_no_sequence() -> None:
    """Equal: identical calls of one turn are waste, not a loop across turns."""
    rows = [{**row, "turn": 1} for row in lookups(*[("delivered", 7)] * 4)]
    check(rows, {Kind.EXACT_REPEAT: None, Kind.PARALLEL_DUPLICATE: 2}, policy=VERSIONED)
    assert RunOutcome.CLEAN is judged(rows).outcome


def test_duplicate_sequence_numbers() -> None:
    """Better: they reject a trace that has a sequence number twice; we count a copy once and judge what is left.

    A batch exporter that retries is everyday, so a rejected trace would be a blind spot.
    """
    rows = placed(lookups(("delivered", 7), ("delivered", 7)))
    verdict = judged([*rows, *rows, rows[0]])
    assert (RunOutcome.CLEAN, 2, 3) == (verdict.outcome, verdict.calls, verdict.duplicates.identical)


def test_delivery_order_is_not_execution_order() -> None:
    """Equal: the sequence decides, not the order of arrival."""
    rows = placed(lookups(("pending", 7), ("pending", 8), ("delivered", 9)))
    assert RunOutcome.CLEAN is judged(reversed(rows)).outcome


def test_other_read_between() -> None:
    """Better: a read in between ends the consecutive stretch, as with them; the third unchanged lookup is still told.

    Another read changes nothing that the lookup could show, so coming back to it is suspect, though no loop.
    """
    between = call("read_refund_policy", {}, {"days": 30})
    lookup = lookups(("delivered", 7))[0]
    rows = [lookup, between, lookup, {**between, "arguments": {"part": 2}, "result": {"days": 14}}, lookup]
    found = check(rows, {Kind.EXACT_REPEAT: None, Kind.INTERLEAVED_REPEAT: 5}, policy=VERSIONED)
    assert {Severity.SUSPECT} == {one.severity for one in found}


def test_alternating_calls() -> None:
    """Better: A, B, A, B is out of their detector's sight by choice; here it has a kind of its own."""
    one, two = call("fetch", {"page": 1}, {"text": "one"}), call("fetch", {"page": 2}, {"text": "two"})
    check([one, two] * 3, {Kind.CYCLE: 6}, policy=VERSIONED)


def test_export_polling() -> None:
    """Equal: queued, running, complete is no stalled repeat, no exhausted budget, and ends in a terminal state."""
    states = ("queued", "running", "complete")
    verdict = judged([call("get_export_status", {"job": "J7"}, {"status": state}) for state in states])
    assert (RunOutcome.CLEAN, False, False, True) == (
        verdict.outcome,
        verdict.stalled_repeat,
        verdict.poll_budget_exhausted,
        verdict.terminal_state,
    )


def test_pagination() -> None:
    """Equal: two pages are two distinct calls, with new items observed."""
    verdict = judged(
        [
            call("search_cases", {"cursor": None}, {"next": "p2", "cases": [{"id": 1}, {"id": 2}]}),
            call("search_cases", {"cursor": "p2"}, {"next": None, "cases": [{"id": 3}]}),
        ]
    )
    assert (RunOutcome.CLEAN, 2, True) == (verdict.outcome, verdict.distinct_calls, verdict.new_items_observed)


def refunds(*rows: tuple[str, Any, Any]) -> list[Record]:
    """Refunds of one order and amount: request key, result, error."""
    return [
        call("issue_refund", {"order_id": "A12", "amount": 20, "request_key": key}, result, error=error)
        for key, result, error in rows
    ]


def test_second_refund() -> None:
    """Equal: a second success is no progress but a second refund."""
    verdict = judged(refunds(("k1", {"refund": 1}, None), ("k2", {"refund": 2}, None)))
    assert RunOutcome.DUPLICATE_WRITE is verdict.outcome


@pytest.mark.parametrize(
    ("key", "expected"),
    [("k1", {RunOutcome.CLEAN}), ("k2", {RunOutcome.INDETERMINATE_WRITE})],
)
def test_refund_after_a_timeout(key: str, expected: set[RunOutcome]) -> None:
    """Equal: after an unknown outcome a retry is a recovery with the same key, and indeterminate with another."""
    verdict = judged(refunds(("k1", None, "timed out while waiting for the answer"), (key, {"refund": 1}, None)))
    assert verdict.outcome in expected


def test_failures() -> None:
    """Equal: one retry of a transport error is no loop; invalid arguments sent again and again are one."""
    url = {"url": "https://shop.example"}
    retried = [call("fetch", url, None, error="connection reset"), call("fetch", url, {"orders": 3})]
    check(retried, {Kind.ERROR_REPEAT: None}, policy=VERSIONED)
    invalid = [call("fetch", {"url": 7}, None, error="validation: url must be a text")] * 3
    check(invalid, {Kind.ERROR_REPEAT: 3}, policy=VERSIONED)


def test_redacted_arguments_are_not_equal() -> None:
    """Equal: `[REDACTED]` in place of every order id makes different requests look alike, so nothing is claimed."""
    rows = [call("lookup_order", {"order_id": "[REDACTED]"}, {"status": "delivered", "version": 7})] * 3
    verdict = judged(rows)
    assert (RunOutcome.UNSCORABLE, ()) == (verdict.outcome, verdict.findings)
    assert Flag.REDACTED_ARGUMENTS in verdict.flags


def test_missing_results_are_not_clean() -> None:
    """Equal: calls whose results were lost say nothing about progress, and get neither a clean score nor a loop."""
    rows = [call("lookup_order", {"order_id": "A12"}, None, result_missing=True)] * 3
    verdict = judged(rows)
    assert (RunOutcome.UNSCORABLE, ()) == (verdict.outcome, verdict.findings)


# --- the second article: a window of eight, equal results, and a progress signal -------------------------------------


def test_exact_repeats_in_a_row() -> None:
    """Equal: the third equal call and result."""
    check([call("fetch", {"page": 1}, "one page of text")] * 3, {Kind.EXACT_REPEAT: 3}, policy=HEAD)


def test_oscillation() -> None:
    """Equal: the third time round of A, B is found, at the latest when it is complete."""
    one, two = call("open", {"id": "A"}, {"state": "new"}), call("open", {"id": "B"}, {"state": "old"})
    found = check([one, two] * 3, {}, policy=HEAD)
    assert min(finding.at_call for finding in found) in {5, 6}
    assert Severity.LOOP in {finding.severity for finding in found}


def test_reworded_search() -> None:
    """Later by one: they stop at the third empty answer, we at the fourth (the default for rewordings).

    Two other wordings are what a careful person tries; the third one more is what makes it a habit.
    """
    queries = (
        "refund for CASE-6012",
        "CASE-6012 refund",
        "refund status CASE-6012",
        "money back CASE-6012",
        "CASE-6012",
    )
    rows = [call("search_orders", {"query": query}, "No results found.") for query in queries]
    found = check(rows, {Kind.SAME_RESULT: 4}, policy=HEAD)
    assert {Severity.LOOP} == {one.severity for one in found if one.kind is Kind.SAME_RESULT}


@pytest.mark.parametrize("polls", [3, 9])
def test_declared_polling_is_exempt(polls: int) -> None:
    """Equal: a poller is bounded by its own limits, not by the repeat threshold."""
    rows = [call("get_export_status", {"job": "J7"}, {"status": "running"})] * polls
    check(rows, {Kind.EXACT_REPEAT: None, Kind.STALLED_POLL: None}, policy=VERSIONED)


def test_polling_without_end() -> None:
    """Better: exempting a poller moves the risk elsewhere, they say; here it keeps a bound by default."""
    rows = [call("get_export_status", {"job": "J7"}, {"status": "running"})] * 12
    check(rows, {Kind.STALLED_POLL: 11}, policy=VERSIONED)


def test_volatile_fields() -> None:
    """Equal: a result with a clock in it repeats once the owner has named the field."""
    rows = [call("fetch", {"page": 1}, {"text": "one", "at": f"10:00:{at:02d}"}) for at in range(3)]
    check(rows, {Kind.EXACT_REPEAT: 3}, policy=f"{HEAD}tools: {{fetch: {{effect: read, ignore_result: [at]}}}}\n")


def test_numbers_by_value() -> None:
    """Equal: 1 and 1.0 are one number."""
    rows = [call("fetch", {"page": page}, "one page of text") for page in (1, 1.0, 1)]
    check(rows, {Kind.EXACT_REPEAT: 3}, policy=HEAD)


def test_write_between_equal_reads() -> None:
    """Better: their window counts equal calls whatever came between, so test, fix, test stops a working agent.

    A declared write makes it worth while to look again.
    """
    rows = [
        row
        for at in range(4)
        for row in (call("fetch", {"page": 1}, "three tests fail"), call("write_page", {"fix": at}, "saved"))
    ]
    assert RunOutcome.CLEAN is judged(rows).outcome


@pytest.mark.parametrize(("steps", "expected"), [(7, None), (8, None), (9, 9)])
def test_state_that_does_not_move(steps: int, expected: int | None) -> None:
    """Equal: eight steps after the first without any change of the application's state."""
    tracker = Tracker(policy.default())
    seen = [tracker.observe(_step(number, state="open")) for number in range(1, steps + 1)]
    assert expected == next((at for at, one in enumerate(seen, start=1) if Kind.NO_PROGRESS in one.kinds), None)


def test_state_that_moves() -> None:
    """Equal: whoever changes the state makes progress, however alike the calls are."""
    tracker = Tracker(policy.default())
    seen = [tracker.observe(_step(number, state=f"step {number // 4}")) for number in range(1, 30)]
    assert [()] * 29 == [one.kinds for one in seen]


def _step(number: int, *, state: str) -> ToolCall:
    facts = CallFacts(
        tool="work",
        call_digest=digest("call", number),
        result_digest=digest("result", number),
        result_class=ResultClass.CONTENT,
        outcome=Outcome.OK,
        state_digest=digest("state", state),
    )
    return ToolCall(number=number, turn=number, agent="agent", facts=facts)
