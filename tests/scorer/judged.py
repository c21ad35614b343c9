"""Judged runs for the tests of metrics: by hand, by replay, and at random."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec
from hypothesis import strategies as st

from otel_loopguard.model import (
    Action,
    Duplicates,
    Finding,
    Flag,
    GuardEntry,
    Kind,
    RunOutcome,
    Severity,
    TerminationReason,
    Verdict,
)
from otel_loopguard.replay import RunReport
from otel_loopguard.scorer.records import Close, JudgedRun

SECOND = 10**9
NOW_NS = 1_790_000_100 * SECOND
TRACE = "0af7651916cd43dd8448eb211c80319c"


def finding(**fields: Any) -> Finding:
    """A loop of `search`, seen at call 4."""
    given = {"kind": Kind.EXACT_REPEAT, "severity": Severity.LOOP, "tool": "search", "agent": "main", "count": 4}
    return Finding(**{**given, "first_call": 1, "at_call": 4, **fields})


def judged(
    run_id: str = "r1",
    *,
    tools: Mapping[str, int] | None = None,
    backfill: bool = False,
    judged_ns: int = NOW_NS,
    close: Close = Close.ROOT_ENDED,
    **fields: Any,
) -> JudgedRun:
    """A clean run of one service, but for the fields of the verdict that are given."""
    given = {"outcome": RunOutcome.CLEAN, "service": "shop", "release": "1.0", "agent": "main", "trace_ids": (TRACE,)}
    verdict = Verdict(run_id=run_id, **{**given, "calls": sum((tools or {}).values()), **fields})
    return JudgedRun(
        run_id=run_id,
        verdict=verdict,
        close=close,
        judged_ns=judged_ns,
        backfill=backfill,
        spans=verdict.calls,
        tools=tools or {},
    )


def of_report(report: RunReport) -> JudgedRun:
    """A replayed run as the scorer keeps it."""
    verdict = report.verdict
    return JudgedRun(
        run_id=verdict.run_id,
        verdict=verdict,
        close=Close.IDLE,
        judged_ns=(verdict.ended_ns or 0) + 30 * SECOND,
        backfill=False,
        spans=len(report.calls),
        tools=Counter(call.facts.tool for call in report.calls),
    )


def revised(run: JudgedRun, **fields: Any) -> JudgedRun:
    """The same run with another verdict."""
    verdict = msgspec.structs.replace(run.verdict, revision=run.verdict.revision + 1, **fields)
    return msgspec.structs.replace(run, verdict=verdict, close=Close.LATE, judged_ns=run.judged_ns + SECOND)


_counts = st.integers(0, 5)


@st.composite
def runs(draw: st.DrawFn, run_id: str, *, names: int = 4) -> JudgedRun:
    """Any run, of few services, releases, agents and tools, or of as many as `names`."""

    def name(kind: str) -> str | None:
        number = draw(st.integers(0, names))
        return f"{kind}{number}" if number else None

    findings = st.builds(
        finding, kind=st.sampled_from(Kind), severity=st.sampled_from(Severity), tool=st.sampled_from(["a", "b", ""])
    )
    guard = st.builds(
        GuardEntry,
        call_id=st.none(),
        call=st.just(1),
        action=st.sampled_from([Action.WARN, Action.DENY, Action.STOP]),
        enforced=st.booleans(),
    )
    tools = {tool: draw(_counts) for tool in (name("tool"), name("tool")) if tool}
    return judged(
        run_id,
        tools=tools,
        backfill=draw(st.booleans()),
        outcome=draw(st.sampled_from(RunOutcome)),
        service=name("service"),
        release=name("release"),
        agent=name("agent"),
        calls=sum(tools.values()) + draw(_counts),
        ended_ns=draw(st.none() | st.integers(NOW_NS - 1000 * SECOND, NOW_NS)),
        termination_reason=draw(st.sampled_from(TerminationReason)),
        flags=tuple(draw(st.sets(st.sampled_from(Flag), max_size=3))),
        findings=tuple(draw(st.lists(findings, max_size=3))),
        guard=tuple(draw(st.lists(guard, max_size=2))),
        executions_after_denial=draw(_counts),
        wasted_calls=draw(_counts),
        wasted_ms=draw(st.sampled_from([0.0, 0.25, 1500.125, 3.7])),
        wasted_tokens=draw(_counts),
        unknown_calls=draw(st.sampled_from([{}, {"redacted": 2}])),
        duplicates=Duplicates(identical=draw(_counts)),
    )
