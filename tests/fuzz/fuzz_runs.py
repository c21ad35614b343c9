"""Fuzz everything from received spans to verdicts: hostile trees, times, ids, links, copies, our own attributes.

Run as `python tests/fuzz/fuzz_runs.py --count 20000 --seed 1`. An input is a group of up to 24 spans and call records
that share few ids, so that they collide. Each must be judged without an exception, give JSON, give each call to one
run and no call to two, and give the same verdicts when its items come in another order.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

sys.path.insert(0, str(Path(__file__).parents[2]))

import msgspec

from otel_loopguard import attributes as attr
from otel_loopguard import policy
from otel_loopguard.digest import Digester, Key, Scope
from otel_loopguard.model import CallRecord, Span, SpanEvent
from otel_loopguard.replay import Replay, RunReport

if TYPE_CHECKING:
    from collections.abc import Sequence

_DIGESTER: Final = Digester(Key("fuzz", bytes(range(32))), scope=Scope.ENVIRONMENT)
_POLICIES: Final = tuple(
    policy.load(json.dumps({"version": 1, "policy": "fuzz", "policy_version": "1", **more}), source="fuzz")
    for more in (
        {},
        {"scope": "conversation", "mode": "enforce"},
        {"scope": "task", "identity": ["tenant.id"], "errors": {"in_band": True, "transient": ["timeout", "503"]}},
        {
            "scope": "user_turn",
            "tools": {
                "a": {"effect": "write", "business_key": ["x"], "idempotency_key": "k"},
                "b": {"polling": {"state": "s", "terminal": ["done"], "max_polls": 2, "deadline_s": 1}},
                "c": {"pagination": {"cursor": "next", "items": "items[].id"}},
                "d": {"progress": [{"path": "v", "rule": "increases"}], "ignore_result": ["t"]},
            },
        },
    )
)
_TRACES: Final = ("1" * 32, "2" * 32, "3" * 32)
_IDS: Final = tuple(f"{number:016x}" for number in range(1, 9))
_TOOLS: Final = ("a", "b", "c", "d", "srv__a", "x.b", "", "not a name \x1b[31m", "é" * 300)
_VALUES: Final[tuple[Any, ...]] = (
    None, "", "{}", "[]", '{"x": 1}', '{"x": 1.0, "k": "1"}', '{"x": 2, "k": "2"}', "{'x': 1}", '{"x": 1, "x": 2}',
    '{"x": NaN}', '{"s": "queued"}', '{"s": "done"}', '{"next": "p2", "items": [{"id": 1}]}', '{"v": 3}', '{"v": "3"}',
    "error: no such file", "not found", "ok", "__REDACTED__", '{"x": "cut', 1, 1.5, True, b"\xff", [1, None],
    {"x": {"y": [1]}}, "9" * 400, "[" * 200, '{"ok": true}', 2**63, float("nan"),
)  # fmt: skip
_TIMES: Final = (0, 1, 5, 10, 10, 20, 10**9, 3 * 10**9, 10**18, 2**63 - 1, -1)
_OPERATIONS: Final = ("execute_tool", "invoke_agent", "invoke_workflow", "chat", "create_agent", "unknown", "handoff")
_OWN: Final[tuple[tuple[str, tuple[Any, ...]], ...]] = (
    (attr.RUN_ID, ("job", "job2", "not a name", 3)),
    (attr.PRODUCER_ID, ("p", "q", None)),
    (attr.CALL_SEQUENCE, (1, 2, 3, 7, 0, -1, 10**15, "1")),
    (attr.CALL_STARTED, (1, 2, 3, 10**15)),
    (attr.TURN_ID, ("t1", "t2")),
    (attr.AGENT_ID, ("x", "y")),
    (attr.CALL_DIGEST, ("0" * 32, "1" * 32, "short")),
    (attr.RESULT_DIGEST, ("2" * 32, "3" * 32)),
    (attr.CALL_UNKNOWN, ("redacted", "what")),
    (attr.KEY_ID, ("k1", "k2")),
    (attr.OUTCOME, ("ok", "error", "denied", "?")),
    (attr.PROGRESS, ("advanced", "unchanged", "first", "unknown")),
    (attr.DENIED_BY, ("guard", "other")),
    (attr.RUN_CALLS, (1, 3, 10**15)),
    (attr.TERMINATION_REASON, ("turn_limit", "loop_guard")),
    (attr.TOOL_PATTERN, ("polling", "paginated", "plain")),
    (attr.TOOL_EFFECT, ("write", "read")),
    (attr.DECISION_ACTION, ("deny", "stop", "warn", "allow")),
    (attr.DECISION_ENFORCED, (True, False)),
)


def _span(rng: random.Random) -> Span:
    operation = "execute_tool" if rng.random() < 0.5 else rng.choice(_OPERATIONS)
    attributes: dict[str, Any] = {attr.OPERATION: operation}
    if operation == "execute_tool" or rng.random() < 0.1:
        attributes[attr.TOOL_NAME] = rng.choice(_TOOLS)
        attributes[attr.TOOL_ARGUMENTS] = rng.choice(_VALUES)
        attributes[attr.TOOL_RESULT] = rng.choice(_VALUES)
        if rng.random() < 0.7:
            attributes[attr.TOOL_CALL_ID] = rng.choice(("c1", "c2", "c3", ""))
    if rng.random() < 0.3:
        attributes["gen_ai.conversation.id"] = rng.choice(("k1", "k2"))
    if rng.random() < 0.2:
        attributes["mcp.method.name"] = "tools/call"
    for key, values in _OWN:
        if rng.random() < 0.08:
            attributes[key] = rng.choice(values)
    for key in [key for key, value in attributes.items() if value is None]:
        del attributes[key]
    start = rng.choice(_TIMES)
    return Span(
        trace_id=rng.choice(_TRACES),
        span_id=rng.choice(_IDS),
        parent_id=rng.choice((None, *_IDS, "f" * 16)),
        name=rng.choice((operation, attr.DECISION_SPAN, attr.RUN_END_SPAN, "x")),
        kind=rng.randrange(6),
        scope=rng.choice(("", "pydantic-ai", "strands.telemetry.tracer", "gcp.vertex.agent", "agent_framework")),
        start_ns=start,
        end_ns=rng.choice((None, start, start + 5, start + 10**9, 0)),
        status_code=rng.randrange(3),
        status_message=rng.choice(("", "Max turns exceeded", "boom")),
        attributes=attributes,
        events=[SpanEvent("exception", {"exception.type": rng.choice(("TimeoutError", "builtins.KeyError", 3))})]
        * rng.randrange(2),
        links=[(rng.choice(_TRACES), rng.choice(_IDS))] * rng.randrange(2),
        resource=rng.choice(({}, {"service.name": "s"}, {"service.name": 3, "host.name": ["x"]})),
        trace_state=rng.choice(("", "ot=th:8", "ot=th:0", "ot=th:;x,=,", "a=b,ot=p:1;th:c")),
        dropped_attributes=rng.choice((0, 0, 2)),
    )


def _record(rng: random.Random) -> CallRecord:
    return CallRecord(
        run_id=rng.choice(("job", "other", "not a name")),
        sequence=rng.choice((0, 1, 2, 3, 4, -1, 10**18)),
        tool=rng.choice(_TOOLS),
        turn=rng.choice((None, 1, 2, "x")),
        call_id=rng.choice((None, "c1", "c2")),
        arguments=rng.choice(_VALUES),
        result=rng.choice(_VALUES),
        result_missing=rng.random() < 0.1,
        error=rng.choice((None, False, True, "timeout", "invalid", 3)),
        ts=rng.choice((None, 0, 1.5, 1e9, -1.0)),
        agent=rng.choice((None, "x", "y")),
        user_turn=rng.choice((None, 1, 2)),
        session=rng.choice((None, "s")),
        task=rng.choice((None, "t")),
        attempt=rng.choice((None, 1, 2)),
        tenant=rng.choice((None, "t1", "t2")),
        denied=rng.random() < 0.1,
        dispatched=rng.choice((None, True, False)),
    )


def _judge(items: Sequence[Span | CallRecord], under: policy.Policy, spill_after: int) -> list[RunReport]:
    replay = Replay(under, _DIGESTER, spill_after_spans=spill_after)
    for item in items:
        replay.add(item)
    return sorted(replay.reports(), key=lambda report: (report.verdict.run_id, msgspec.json.encode(report.verdict)))


def check(rng: random.Random) -> int:
    """Judge one made-up group and return how many calls it had; raises where something does not hold."""
    under = rng.choice(_POLICIES)
    items: list[Span | CallRecord] = [
        _record(rng) if rng.random() < 0.2 else _span(rng) for _ in range(rng.randrange(1, 25))
    ]
    reports = _judge(items, under, rng.choice((2, 100_000)))
    seen = [key for report in reports for call in report.calls for key in call.keys]
    assert len(seen) == len(set(seen)), "a span is in two calls"
    for report in reports:
        json.loads(msgspec.json.encode(report.verdict))
        assert [call.number for call in report.calls] == list(range(1, len(report.calls) + 1))
        assert len(report.calls) == len(report.observations)
        turns = [call.turn for call in report.calls]
        assert turns == sorted(turns), "siblings are not together"
    rng.shuffle(items)
    again = _judge(items, under, 100_000)
    assert [msgspec.json.encode(report) for report in again] == [msgspec.json.encode(report) for report in reports]
    return len(seen)


def main(argv: Sequence[str] | None = None) -> int:
    """Run `count` inputs; the seed of a failing one is printed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    calls = 0
    for number in range(options.count):
        seed = options.seed * 1_000_003 + number
        try:
            calls += check(random.Random(seed))
        except Exception:
            print(f"failed: input seed {seed}", file=sys.stderr)
            raise
    print(f"{options.count} groups, {calls} calls judged")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
