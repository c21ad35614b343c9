"""Calls, observations and reports made by hand, so that rendering is tested apart from judging."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from otel_loopguard.model import (
    CallFacts,
    Finding,
    Kind,
    Outcome,
    Progress,
    ResultClass,
    RunOutcome,
    Severity,
    ToolCall,
    Verdict,
)
from otel_loopguard.observation import Observation
from otel_loopguard.replay import RunReport


def digest(text: str) -> str:
    """Some digest; equal texts, equal digests."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def call(number: int, arguments: str = "a", result: str = "r", **changes: Any) -> ToolCall:
    """One call in a turn of its own; `changes` go to the call or, where it has no such field, to its facts."""
    facts: dict[str, Any] = {
        "tool": "lookup_order",
        "call_id": f"c{number}",
        "call_digest": digest(arguments),
        "result_digest": digest(result),
        "result_class": ResultClass.CONTENT,
        "outcome": Outcome.OK,
    }
    place: dict[str, Any] = {"number": number, "turn": number, "agent": "helper"}
    for name, value in changes.items():
        (place if name in ToolCall.__struct_fields__ else facts)[name] = value
    return ToolCall(facts=CallFacts(**facts), **place)


def finding(**changes: Any) -> Finding:
    """A repeat of five calls that became certain at the third."""
    fields: dict[str, Any] = {
        "kind": Kind.EXACT_REPEAT,
        "severity": Severity.LOOP,
        "tool": "lookup_order",
        "agent": "helper",
        "count": 5,
        "first_call": 1,
        "at_call": 3,
        "calls": (1, 2, 3, 4, 5),
        **changes,
    }
    return Finding(**fields)


def report(calls: Sequence[ToolCall], seen: Sequence[Observation] | None = None, **changes: Any) -> RunReport:
    """A report about these calls; without `seen` each call is a first one."""
    fields: dict[str, Any] = {
        "run_id": "run-1",
        "outcome": RunOutcome.CLEAN,
        "calls": len(calls),
        "turns": len({call.turn for call in calls}),
        **changes,
    }
    observations = tuple(seen) if seen is not None else tuple(Observation(Progress.FIRST) for _ in calls)
    return RunReport(verdict=Verdict(**fields), calls=tuple(calls), observations=observations)
