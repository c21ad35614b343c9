"""Lint on declared signals: one that always moves, and one that is never found."""

from __future__ import annotations

from typing import Any

import pytest

from otel_loopguard import policy as policies
from otel_loopguard.lint import judge_evidence
from otel_loopguard.model import CallRecord
from otel_loopguard.policy import Policy
from tests.lint.linting import (
    calls_of,
    evidence_from_attributes,
    evidence_with_content,
    lints_of,
    policy_of,
    renumbered,
    shown,
)

CLOCK = policy_of(effect="read", progress=[{"path": "fetched_at", "rule": "changes"}])
ALWAYS = [("signal_always_moves", "fetched_at changes")]


def _fetched(times: int) -> list[dict[str, Any]]:
    return [{"status": "late", "fetched_at": f"12:00:{second:02}"} for second in range(times)]


def _runs(*moves: int, results: Any = _fetched, **changes: Any) -> list[CallRecord]:
    """One run for each number of moves, which takes one call more."""
    return [
        call for n, count in enumerate(moves) for call in calls_of(results(count + 1), run_id=f"run-{n}", **changes)
    ]


# --- a signal that always moves ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moves", "expected"),
    [
        ((7, 7), []),
        ((7, 8), []),
        ((8, 8), ALWAYS),
        ((9, 9), ALWAYS),
        ((8,), []),
        ((59,), []),
        ((60,), ALWAYS),
        ((61,), ALWAYS),
        ((7,) * 20, []),
    ],
)
def test_a_signal_that_moved_on_every_occasion(moves: tuple[int, ...], expected: list[tuple[str, str]]) -> None:
    """It takes eight moves in a row in two runs, or a poller's whole budget in one."""
    assert expected == lints_of(_runs(*moves), CLOCK)


@pytest.mark.parametrize("moves", [(7, 8), (8, 8), (59,), (60,)])
@pytest.mark.parametrize("scorers", [CLOCK, policies.default()], ids=["same policy", "no policy"])
def test_attributes_tell_the_same_of_moves(moves: tuple[int, ...], scorers: Policy) -> None:
    """From spans without content a scorer says what the command says of content, with the policy or without."""
    records = _runs(*moves)
    evidence = evidence_from_attributes(records, CLOCK, scorers)
    assert lints_of(records, CLOCK) == shown(judge_evidence(evidence, scorers))


def test_one_unchanged_call_proves_the_signal() -> None:
    """A signal that stood still once can stand still."""
    stood = _fetched(20)
    stood[9] = {**stood[8], "status": "later"}
    assert [] == lints_of([*_runs(20), *calls_of(stood, run_id="other")], CLOCK)


def test_a_poller_that_comes_to_its_end_has_a_true_signal() -> None:
    """A percentage that rose with every poll until the job was done led somewhere."""
    rose = [{"state": "running", "percent": 10 * n} for n in range(10)] + [{"state": "done", "percent": 100}]
    records = [call for run in range(5) for call in calls_of(rose, run_id=f"run-{run}")]
    rule = {"progress": [{"path": "percent", "rule": "increases"}]}
    assert [] == lints_of(records, policy_of(polling={"state": "state", "terminal": ["done"]}, **rule))
    assert [("signal_always_moves", "percent increases")] == lints_of(records, policy_of(polling={}, **rule))


def test_a_state_of_few_values_moves_in_every_run() -> None:
    """Jobs that were seen in each of their states have a poller's state that never stood still, and means something."""
    states = [{"state": state} for state in ("queued", "running", "packing", "complete")]
    records = [call for run in range(50) for call in calls_of(states, run_id=f"run-{run}")]
    assert [] == lints_of(records, policy_of(polling={"state": "state"}))


@pytest.mark.parametrize(
    "rule",
    [
        {"path": "left", "rule": "shrinks"},
        {"path": "ids", "rule": "new_items"},
        {"path": "n", "in_order": list(range(30))},
        {"path": "n", "reaches": list(range(1, 30, 2))},
    ],
)
def test_rules_that_end_by_their_nature(rule: dict[str, Any]) -> None:
    """A queue that runs out, new items, and states with a last one may move on every call."""
    results = [{"left": 100 - n, "ids": [n], "n": n} for n in range(30)]
    records = [call for run in range(3) for call in calls_of(results, run_id=f"run-{run}")]
    assert [] == lints_of(records, policy_of(progress=[rule]))


def test_a_version_that_moves_because_something_was_done() -> None:
    """Reading a version after each edit is no evidence, whatever the edit's effect is declared to be."""
    read = calls_of([{"version": n} for n in range(20)])
    edit = calls_of([{"ok": True}] * 20, tool="edit_order")
    run = renumbered([call for pair in zip(read, edit, strict=True) for call in pair])
    records = [*run, *[_in_run(call, "run-2") for call in run]]
    policy = policy_of(effect="read", progress=[{"path": "version", "rule": "increases"}])
    assert [] == lints_of(records, policy)
    assert [("signal_always_moves", "version increases")] == lints_of(
        [call for call in records if call.tool != "edit_order"], policy
    )


def _in_run(call: CallRecord, run_id: str) -> CallRecord:
    return CallRecord(**{name: getattr(call, name) for name in CallRecord.__struct_fields__} | {"run_id": run_id})


def test_a_write_does_something_each_time() -> None:
    """What a call says of itself that is told to be a write may move with each."""
    policy = policy_of(progress=[{"path": "fetched_at", "rule": "changes"}])
    assert [] == lints_of(_runs(20, 20, effect="write"), policy)
    assert ALWAYS == lints_of(_runs(20, 20, effect="read"), policy)


def test_a_rule_that_was_overruled_did_not_always_move() -> None:
    """Of two rules the one that decides only where the other did not is told from it."""
    rules = [{"path": "version", "rule": "increases"}, {"path": "fetched_at", "rule": "changes"}]
    results = [{"version": n // 2, "fetched_at": n} for n in range(40)]
    assert [] == lints_of([*calls_of(results), *calls_of(results, run_id="run-2")], policy_of(progress=rules[:1]))
    found = lints_of([*calls_of(results), *calls_of(results, run_id="run-2")], policy_of(progress=rules))
    assert ALWAYS == found


def test_failures_and_refusals_move_nothing() -> None:
    """Calls that failed or were denied are no occasions."""
    assert [] == lints_of(_runs(20, 20, error=True), CLOCK)
    assert [] == lints_of(_runs(20, 20, denied=True), CLOCK)


def test_a_rule_that_is_gone_is_not_spoken_of() -> None:
    """Evidence under an older policy says nothing of rules that the present one does not declare."""
    evidence = evidence_with_content(_runs(20, 20), CLOCK)
    now = policy_of(progress=[{"path": "version", "rule": "increases"}])
    assert [] == shown(judge_evidence(evidence, now))


# --- a signal that is never found -------------------------------------------------------------------------------

ITEMS = [{"rows": [{"id": n}], "next": f"p{n}", "stat": "late", "version": n} for n in range(30)]


@pytest.mark.parametrize(
    ("tool", "label", "key"),
    [
        ({"progress": [{"path": "vesrion", "rule": "increases"}]}, "vesrion increases", "progress"),
        ({"progress": [{"path": "stat", "rule": "increases"}]}, "stat increases", "progress"),
        ({"progress": [{"path": "stat", "in_order": ["a", "b"]}]}, "stat in_order", "progress"),
        ({"polling": {"state": "status"}}, "status changes", "polling.state"),
        ({"pagination": {"cursor": "nxt"}}, "nxt changes", "pagination.cursor"),
        ({"pagination": {"items": "row[].id"}}, "row[].id new_items", "pagination.items"),
    ],
)
@pytest.mark.parametrize("count", [9, 10, 11])
def test_a_path_that_finds_nothing(tool: dict[str, Any], label: str, key: str, count: int) -> None:
    """Ten results with content in which it found nothing make a mistyped path, wherever it is declared."""
    policy = policy_of(**tool)
    calls = [
        CallRecord(run_id="r", sequence=n, tool="lookup_order", arguments={"n": n}, result=ITEMS[n])
        for n in range(count)
    ]
    lints = judge_evidence(evidence_with_content(calls, policy), policy)
    expected = [("signal_never_found", label, key, count)] if count >= 10 else []
    assert expected == [(one.lint.value, one.rule, one.key, one.evidence["looked"]) for one in lints]


def test_a_path_that_finds_something_once_is_right() -> None:
    """One value among many results proves it."""
    policy = policy_of(progress=[{"path": "version", "rule": "increases"}])
    assert [] == lints_of(calls_of([*[{"status": "late"}] * 30, {"version": 1}]), policy)


def test_a_missing_cursor_means_one_page_where_items_are_found() -> None:
    """Where items decide, answers of one page each have no cursor, and need none."""
    policy = policy_of(pagination={"cursor": "nxt", "items": "rows[].id"})
    assert [] == lints_of(calls_of(ITEMS), policy)


@pytest.mark.parametrize(
    "changes",
    [{"error": True}, {"denied": True}, {"result_missing": True, "result": None}, {"result": "ok"}, {"result": []}],
)
def test_results_without_content_are_no_evidence(changes: dict[str, Any]) -> None:
    """In what failed, was denied, is not known, is an acknowledgement or empty, no value is missed."""
    policy = policy_of(progress=[{"path": "vesrion", "rule": "increases"}])
    assert [] == lints_of(calls_of([{"version": n} for n in range(30)], **changes), policy)


@pytest.mark.parametrize(
    "results", [[{"version": 1}] * 11, [{"version": n} for n in range(11)]], ids=["equal", "moving"]
)
@pytest.mark.parametrize("calls", [10, 11])
def test_attributes_tell_of_a_path_that_never_decided(results: list[Any], calls: int) -> None:
    """A rule that left ten comparisons undecided and decided none has no value, told from attributes alone."""
    policy = policy_of(progress=[{"path": "vesrion", "rule": "increases"}])
    evidence = evidence_from_attributes(calls_of(results[:calls]), policy, policy)
    expected = [("signal_never_found", "vesrion increases")] if calls == 11 else []
    assert expected == shown(judge_evidence(evidence, policy))


def test_attributes_of_another_policy_say_nothing_of_this_one() -> None:
    """Equal results under a producer that declared no rule are no sign of a path that is wrong here."""
    evidence = evidence_from_attributes(calls_of([{"version": 1}] * 30), policies.default(), CLOCK)
    assert [] == shown(judge_evidence(evidence, CLOCK))
