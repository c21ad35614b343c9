"""Call records become runs in the order of their sequences, with nothing of their content in any name."""

from __future__ import annotations

import json
import random

import pytest

from otel_loopguard import policy
from otel_loopguard.model import CallRecord, Flag, RunOutcome
from otel_loopguard.replay import RunReport
from tests.replaying import replay_items

DEFAULT = policy.default()


def scoped(scope: str, **more: object) -> policy.Policy:
    """A policy with this scope."""
    document = {"version": 1, "policy": "p", "policy_version": "1", "scope": scope} | more
    return policy.load(json.dumps(document), source="test")


def record(sequence: int, **fields: object) -> CallRecord:
    """A call of `get` that answers the same each time."""
    defaults = {"run_id": "r", "sequence": sequence, "tool": "get", "arguments": {}, "result": "the same text"}
    return CallRecord(**(defaults | fields))  # type: ignore[arg-type]


def judged(records: list[CallRecord], under: policy.Policy = DEFAULT) -> list[RunReport]:
    """The reports, checked to be the same for shuffled records."""
    expected = replay_items(records, under)
    shuffled = list(records)
    random.Random(5).shuffle(shuffled)
    assert replay_items(shuffled, under) == expected
    return expected


def numbers(report: RunReport) -> list[str | None]:
    """Call ids in the run's order."""
    return [call.facts.call_id for call in report.calls]


def test_the_sequence_is_the_order_where_only_some_records_have_times() -> None:
    """A write without a time stands where its sequence puts it, between the reads that have one."""
    write = policy.load(
        json.dumps({"version": 1, "policy": "p", "policy_version": "1", "tools": {"put": {"effect": "write"}}})
    )
    records = [
        record(n, call_id=f"c{n}", ts=1.7e9 + n)
        if n % 2
        else record(n, call_id=f"c{n}", tool="put", arguments={"n": n}, result="ok")
        for n in range(1, 6)
    ]
    (report,) = judged(records, write)
    assert numbers(report) == ["c1", "c2", "c3", "c4", "c5"]
    assert report.verdict.outcome is RunOutcome.CLEAN


@pytest.mark.parametrize(("back_s", "flagged"), [(1.0, False), (1.5, True)])
def test_a_clock_that_goes_back_is_flagged_and_not_followed(back_s: float, flagged: bool) -> None:  # noqa: FBT001 - a parameter
    """The sequence says what came first; a contradiction of more than a second is worth saying."""
    (report,) = judged([record(1, call_id="c1", ts=100.0), record(2, call_id="c2", ts=100.0 - back_s)])
    assert (numbers(report), Flag.CLOCK_SKEW in report.verdict.flags) == (["c1", "c2"], flagged)


def test_run_ids_that_a_scope_joins_are_merged_by_time() -> None:
    """Two runs of one session at the same time, each in its own order."""
    records = [record(n, run_id=run, call_id=f"{run}{n}", session="s", ts=ts) for run, n, ts in [
        ("a", 1, 10), ("b", 1, 11), ("a", 2, 12), ("b", 2, 13)]]  # fmt: skip
    (report,) = judged(records, scoped("conversation"))
    assert numbers(report) == ["a1", "b1", "a2", "b2"]


def test_without_times_one_joined_run_follows_the_other() -> None:
    """Nothing says how they lie in each other; each keeps its order."""
    records = [record(n, run_id=run, call_id=f"{run}{n}", session="s") for run in "ab" for n in (1, 2)]
    (report,) = judged(records, scoped("conversation"))
    assert numbers(report) == ["a1", "a2", "b1", "b2"]


def test_run_ids_that_are_no_names_do_not_collide() -> None:
    """A hundred thousand run ids with a blank in them: cut to 32 bits, some would be one run."""
    ids = {
        report.verdict.run_id
        for report in replay_items([record(1, run_id=f"run #{n}") for n in range(20_000)], DEFAULT)
    }
    assert len(ids) == 20_000
    assert all(run_id.startswith("_n:") and len(run_id) == 35 for run_id in ids)


def test_a_user_turn_is_no_way_for_content_into_a_run_id() -> None:
    """Under scope `user_turn` it is part of the run's id."""
    (report,) = judged([record(1, user_turn="refund card 4111")], scoped("user_turn"))
    assert "4111" not in report.verdict.run_id


@pytest.mark.parametrize(("error", "outcome"), [("", "clean"), (None, "clean"), (False, "clean"), ("boom", "loop")])
def test_an_empty_error_is_none(error: object, outcome: str) -> None:
    """A logger that always writes the field means nothing by an empty one."""
    (report,) = judged([record(n, error=error, result={"state": n}) for n in (1, 2, 3)])
    assert report.verdict.outcome == outcome


def test_a_declared_rate_limit_in_a_records_error_text_is_transient() -> None:
    """Waiting out a limit is no loop; records have no other place for the code."""
    limited = scoped("run", errors={"transient": ["429"]})
    (report,) = judged([record(n, error="429 Too Many Requests", result=None) for n in (1, 2, 3)], limited)
    assert report.verdict.outcome is not RunOutcome.LOOP


def test_agents_that_number_their_own_calls_lose_none() -> None:
    """One agent repeats itself three times, the other does not; both count from 1."""
    records = [record(n, agent="A") for n in (1, 2, 3)]
    records += [record(n, agent="B", tool="other", arguments={"n": n}, result=n) for n in (1, 2, 3)]
    (report,) = judged(records, scoped("run", tools={"other": {"effect": "read"}}))
    assert (report.verdict.calls, report.verdict.outcome) == (6, RunOutcome.LOOP)


def test_two_calls_under_one_sequence_are_two_calls() -> None:
    """A number given twice is a fault of the numbering, not a copy."""
    (report,) = judged([record(1, arguments={"n": n}) for n in (1, 2, 3)])
    assert report.verdict.calls == 3


def test_user_turns_that_number_their_calls_anew_follow_one_another() -> None:
    """Calls 1 and 2 of the second user turn come after those of the first."""
    records = [record(n, user_turn=turn, call_id=f"{turn}-{n}") for turn in (2, 10, 1) for n in (2, 1)]
    (report,) = judged(records)
    assert numbers(report) == ["1-1", "1-2", "2-1", "2-2", "10-1", "10-2"]


def test_named_attempts_follow_by_their_first_call() -> None:
    """Attempts without numbers are ordered by time."""
    records = [record(1, attempt=name, call_id=name, ts=ts) for name, ts in (("late", 9.0), ("early", 1.0))]
    (report,) = judged(records)
    assert numbers(report) == ["early", "late"]


def test_records_marked_concurrent_in_a_row_are_siblings() -> None:
    """Three equal calls at once are one step; a turn of their own would make them a loop."""
    records = [record(n, concurrent=True) for n in (1, 2, 3)] + [record(4), record(5, concurrent=True)]
    (report,) = judged(records)
    assert [call.turn for call in report.calls] == [1, 1, 1, 2, 3]
