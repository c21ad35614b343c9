"""What every capture of the scenario `main` must be read as, whoever wrote its spans."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.model import Outcome, Value
from tests.dialects.captures import LOOKUP, ORDER, STATES, named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_loopguard.dialects.reading import Reading


def check(calls: Sequence[Reading], *, prefix: str = "", job: Value = None, cancelled: Value = None) -> None:
    """Assert 9 calls: 3 equal with equal results, 3 equal with different results, 2 siblings, 1 failure.

    Args:
        calls: the capture's calls without inner layers, in the order of their starts.
        prefix: what stands before the tools' names.
        job: arguments of get_export_status, where not `{"job_id": "J7"}`.
        cancelled: arguments of cancel_order, where not `{"order_id": "A12"}`.
    """
    lookups, polls, slow, cancels = (
        named(calls, prefix + tool) for tool in ("lookup_order", "get_export_status", "slow_task", "cancel_order")
    )
    assert [3, 3, 2, 1] == [len(found) for found in (lookups, polls, slow, cancels)]
    assert len(calls) == 9
    assert [(None, None)] * 8 == [(call.arguments.unknown, call.result.unknown) for call in (*lookups, *polls, *slow)]
    assert [(LOOKUP, ORDER)] * 3 == [(call.arguments.value, call.result.value) for call in lookups]
    expected = {"job_id": "J7"} if job is None else job
    assert [(expected, state) for state in STATES] == [(call.arguments.value, call.result.value) for call in polls]
    tasks = sorted((call.arguments.value["n"], call.result.value) for call in slow)
    assert [(1, "task 1 finished"), (2, "task 2 finished")] == tasks
    assert len({call.turn for call in slow}) == 1
    failed = cancels[0]
    assert ({"order_id": "A12"} if cancelled is None else cancelled) == failed.arguments.value
    assert [failed] == [call for call in calls if call.outcome is Outcome.ERROR]
    assert failed.error_text
    assert {Outcome.OK} == {call.outcome for call in calls if call is not failed}


def check_without_content(calls: Sequence[Reading], reason: str) -> None:
    """Assert the same 9 calls with a reason in place of every argument and result."""
    assert len(calls) == 9
    assert {(reason, reason)} == {(call.arguments.unknown, call.result.unknown) for call in calls}
    assert 1 == sum(call.outcome is Outcome.ERROR for call in calls)
