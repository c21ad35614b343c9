"""duplicate_write: a declared write that is made again."""

from __future__ import annotations

from typing import Any

import pytest

from otel_loopguard.detectors.writes import BusinessMemory
from otel_loopguard.files.calls import record as read_record
from otel_loopguard.model import DeniedBy, ErrorCategory, Kind, Outcome, Severity
from otel_loopguard.policy import load
from tests.detectors.feeding import Run
from tests.detectors.variants import Record, call, check, placed
from tests.replaying import replay_items

KIND = Kind.DUPLICATE_WRITE
HEAD = "version: 1\npolicy: t\npolicy_version: 1\n"
POLICY = (
    HEAD
    + """
tools:
  mail: {effect: write}
  pay: {effect: write, business_key: [order], idempotency_key: key}
  chat: {effect: write, parallel: run}
  digest: {effect: write, business_key: [list, date], business_scope: global, business_ttl_s: 3600}
  ticket: {effect: write, business_key: [title], business_scope: conversation}
  report: {effect: write, business_key: [title], business_scope: task}
"""
)


def _mail(number: int = 0, **fields: Any) -> Record:
    return call("mail", {"to": f"pat{number}@x.example"}, {"id": "m"}, **fields)


def _pay(key: str = "k1", order: str = "o1", amount: int = 5, **fields: Any) -> Record:
    return call("pay", {"order": order, "amount": amount, "key": key}, {"id": key}, **fields)


def _severities(records: list[Record], expected: int | None) -> list[tuple[Severity, int, int]]:
    findings = check(records, {KIND: expected}, policy=POLICY)
    return [(one.severity, one.at_call, one.count) for one in findings if one.kind is KIND]


@pytest.mark.parametrize(("count", "expected"), [(1, None), (2, 2), (3, 2)])
def test_second_time(count: int, expected: int | None) -> None:
    """Fault "threshold of a loop": the second mail is already wrong; one finding with its last count."""
    wanted = [(Severity.DUPLICATE_WRITE, 2, count)] * (expected is not None)
    assert wanted == _severities([_mail()] * count, expected)


def test_new_ids_in_the_result_are_no_progress() -> None:
    """Whatever a write returns."""
    records = [{**_mail(), "result": {"id": number}} for number in range(2)]
    assert [(Severity.DUPLICATE_WRITE, 2, 2)] == _severities(records, 2)


def test_with_other_work_between() -> None:
    """Distance does not make a second payment right."""
    news = [call("read", {"n": n}, f"page {n}") for n in range(40)]
    assert [(Severity.DUPLICATE_WRITE, 42, 2)] == _severities([_pay(), *news, _pay("k2")], 42)


@pytest.mark.parametrize(
    ("error", "severity"),
    [
        ("timeout after 30 s", Severity.INDETERMINATE_WRITE),
        ("card declined", Severity.INDETERMINATE_WRITE),
        ("validation error: amount", None),
        ("order not found", None),
        ("permission denied", None),
    ],
)
def test_failures_before(error: str, severity: Severity | None) -> None:
    """A failure that does not say that nothing was done may have done it."""
    failed = {**_mail(), "result": None, "error": error}
    found = _severities([failed, _mail()], None if severity is None else 2)
    assert [severity] * (severity is not None) == [one for one, _, _ in found]


def test_call_that_was_not_dispatched_did_nothing() -> None:
    """Neither before nor now."""
    stopped = {**_mail(), "result": None, "error": "schema", "dispatched": False}
    assert [] == _severities([stopped, _mail(), stopped], None)


def test_failure_after_a_write_is_indeterminate() -> None:
    """The second may have been carried out; a third that surely was makes it certain."""
    failed = {**_mail(), "result": None, "error": "timeout"}
    wanted = [(Severity.INDETERMINATE_WRITE, 2, 2), (Severity.DUPLICATE_WRITE, 3, 3)]
    assert wanted == _severities([_mail(), failed, _mail()], 2)


def test_harmless_failure_after_a_write_is_quiet() -> None:
    """What was refused as invalid was not made again."""
    assert [] == _severities([_mail(), {**_mail(), "result": None, "error": "validation error"}], None)


@pytest.mark.parametrize(("key", "found"), [("k1", False), ("k2", True)])
def test_retry_with_an_equal_idempotency_key(key: str, *, found: bool) -> None:
    """After an unknown outcome the tool itself tells a retry; a fresh key is a second payment."""
    records = [{**_pay("k1"), "result": None, "error": "timeout"}, _pay(key)]
    assert found is bool(_severities(records, 2 if found else None))


def test_equal_key_after_success_is_a_duplicate() -> None:
    """It was done, and the agent knew."""
    assert [(Severity.DUPLICATE_WRITE, 2, 2)] == _severities([_pay("k1"), _pay("k1")], 2)


def test_business_key_leaves_the_rest_out() -> None:
    """Another amount for the same order is the same payment; another order is not, and clears nothing."""
    assert [(Severity.DUPLICATE_WRITE, 2, 2)] == _severities([_pay(amount=5), _pay("k2", amount=6)], 2)
    assert [(Severity.DUPLICATE_WRITE, 3, 2)] == _severities([_pay(), _pay("k2", "o2"), _pay("k3")], 3)


def test_set_unset_set_is_quiet() -> None:
    """Without a business key a different write of the tool lies between; another tool's does not."""
    assert [] == _severities([_mail(1), _mail(2), _mail(1), _mail(2)], None)
    assert [(Severity.DUPLICATE_WRITE, 3, 2)] == _severities([_mail(1), _pay(), _mail(1)], 3)


def test_failed_different_write_clears_nothing() -> None:
    """What is known to have done nothing lies not between."""
    wrong = {**_mail(2), "result": None, "error": "validation error"}
    assert [(Severity.DUPLICATE_WRITE, 3, 2)] == _severities([_mail(1), wrong, _mail(1)], 3)


def test_batch_is_quiet() -> None:
    """Fifty mails to fifty people, all acknowledged alike."""
    assert [] == _severities([_mail(number) for number in range(50)], None)


def test_siblings_are_parallel_duplicates() -> None:
    """Equal calls of one turn count once; calls of one business key that differ do not."""
    assert [] == _severities([{**_mail(), "turn": 1}, {**_mail(), "turn": 1}], None)
    assert [(Severity.DUPLICATE_WRITE, 2, 2)] == _severities([_pay("k1", turn=1), _pay("k2", turn=1)], 2)


def test_siblings_without_arguments_are_taken_for_equal() -> None:
    """Of one turn and one business key, nothing else known of them: asked for at one time."""
    run = Run(POLICY)
    for _ in range(2):
        run.call("pay", None, "ok", sibling=True, business_digest="b" * 32)
    assert KIND not in run.kinds()
    run.call("pay", None, "ok", business_digest="b" * 32)
    assert 3 == run.first(KIND)


def test_user_turn_clears_and_attempt_does_not() -> None:
    """The user may ask for it again; a second attempt at the same request may not make it again."""
    assert [] == _severities([_mail(user_turn=1), _mail(user_turn=2)], None)
    assert [(Severity.DUPLICATE_WRITE, 2, 2)] == _severities([_mail(attempt=1), _mail(attempt=2)], 2)


def test_agents_share_the_world() -> None:
    """Two agents that send one mail send it twice."""
    assert [(Severity.DUPLICATE_WRITE, 2, 2)] == _severities([_mail(agent="a"), _mail(agent="b")], 2)


def test_reads_and_undeclared_tools_are_quiet() -> None:
    """Only a declared effect makes a write."""
    assert [] == _severities([call("read", {}, {"id": 1}), call("other", {}, "ok")] * 2, None)


def test_effect_of_the_record_is_a_declaration() -> None:
    """An annotation of the tool's server says as much as the policy; all arguments are the key."""
    records = [call("post", {"n": 1}, "ok", effect="write")] * 2
    assert [(Severity.DUPLICATE_WRITE, 2, 2)] == _severities(records, 2)


def test_denied_writes_are_not_made() -> None:
    """Neither by the guard nor by others."""
    run = Run(POLICY)
    run.call("mail")
    run.refuse("mail", by=DeniedBy.GUARD)
    run.refuse("mail")
    assert KIND not in run.kinds()


def test_unknown_outcome_without_a_failure() -> None:
    """A span that never ended may have written."""
    run = Run(POLICY)
    run.call("mail", outcome=Outcome.UNKNOWN)
    run.call("mail")
    (found,) = run.found(KIND)
    assert Severity.INDETERMINATE_WRITE is found.severity


def test_passing_errors_are_unknown_outcomes() -> None:
    """503 says nothing of what was done."""
    run = Run(POLICY)
    run.fail("mail", error_category=ErrorCategory.TRANSIENT)
    run.call("mail")
    (found,) = run.found(KIND)
    assert Severity.INDETERMINATE_WRITE is found.severity


def _replayed(records: list[Record]) -> list[tuple[str, int, int, tuple[int, ...], str | None]]:
    reports = replay_items([read_record(row) for row in records], load(POLICY))
    found = [(report.verdict.run_id, one) for report in reports for one in report.verdict.findings]
    return [(run, one.at_call, one.count, one.calls, one.rule) for run, one in found if one.kind is KIND]


def _sent(run: str, at_s: float, date: str = "d1", tool: str = "digest", **fields: Any) -> Record:
    arguments = {"list": "crew", "date": date} if tool == "digest" else {"title": date}
    (made,) = placed([call(tool, arguments, {"id": at_s}, ts=at_s, **fields)], run_id=run)
    return made


@pytest.mark.parametrize(("after_s", "found"), [(3599, True), (3600, True), (3601, False)])
def test_global_key_and_its_time(after_s: float, *, found: bool) -> None:
    """Fault "time to live": the same digest by another run within the hour, by the calls' own times."""
    wanted = [("two", 1, 2, (1,), "global")] * found
    assert wanted == _replayed([_sent("two", 1000 + after_s), _sent("one", 1000)])


def test_key_that_ran_out_is_remembered_anew() -> None:
    """A send after the hour begins another hour."""
    assert [("three", 1, 2, (1,), "global")] == _replayed([_sent("one", 1), _sent("two", 5000), _sent("three", 6000)])


def test_other_keys_and_scopes_are_apart() -> None:
    """Tomorrow's digest is another one; runs share nothing within the scope `run`."""
    assert [] == _replayed([_sent("one", 1), _sent("two", 2, "d2")])
    mails = [placed([_mail(ts=n)], run_id=f"r{n}")[0] for n in range(3)]
    assert [] == _replayed(mails)


@pytest.mark.parametrize(("tool", "field"), [("ticket", "session"), ("report", "task")])
def test_conversation_and_task(tool: str, field: str) -> None:
    """Within one conversation or task, across its runs; where it is not known, within the run."""
    same = [_sent(f"r{n}", n + 1, tool=tool, **{field: "s1"}) for n in range(2)]
    assert [("r1", 1, 2, (1,), "conversation" if field == "session" else "task")] == _replayed(same)
    assert [] == _replayed([_sent(f"r{n}", n + 1, tool=tool, **{field: f"s{n}"}) for n in range(2)])
    assert [] == _replayed([_sent(f"r{n}", n + 1, tool=tool) for n in range(2)])


def test_what_runs_leave_behind_is_bounded() -> None:
    """The oldest business keys are forgotten first."""
    memory = BusinessMemory(limit=4)
    policy = load(POLICY)
    for number in range(20):
        run = Run(POLICY)
        run.tracker = type(run.tracker)(policy, memory=memory)
        run.call("digest", f"{number}", "ok", business_digest=f"{number:032x}")
    assert 4 >= len(memory.writes.latest) + len(memory.writes._older)  # noqa: SLF001
