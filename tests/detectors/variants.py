"""One runner for detectors' cases: the same finding at the same call, however the calls come.

`check` takes call records and what must be found. It feeds them call by call, and then delivers them again in
every way of `VARIANTS`: keys reordered, duplicated, shuffled, with another run between them, with garbage among
them, as spans that carry content, and as spans that carry nothing but `loopguard.*` attributes. All findings, and
all that a guard would decide, must be equal each time. A variant that cannot carry what a record says
(`spans_can_carry`) is left out by itself.
`check_calls` does the same for calls made without content, as far as that goes.
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from otel_loopguard import attributes as attr
from otel_loopguard import files
from otel_loopguard import policy as policies
from otel_loopguard.assembly import assemble
from otel_loopguard.dialects import own
from otel_loopguard.facts import FactsReader
from otel_loopguard.files.calls import record as read_record
from otel_loopguard.model import (
    BadInput,
    CallFacts,
    CallRecord,
    Decision,
    Finding,
    Kind,
    Outcome,
    Run,
    Span,
    ToolCall,
    Verdict,
)
from otel_loopguard.observation import Observation
from otel_loopguard.policy import Policy, Scope
from otel_loopguard.tracker import Tracker
from otel_loopguard.writing import of_call
from tests.replaying import DIGESTER, replay_items

Record: TypeAlias = dict[str, Any]
"""One call record as its file has it (DESIGN 9); `check` adds run id, sequence and call id where absent."""

Expected: TypeAlias = Mapping[Kind, int | None]
"""The call (from 1) at which a kind must first be found; None: it must not be found."""

_START_NS: Final = 1_790_000_000_000_000_000
_STEP_NS: Final = 1_000
"""Between calls whose records give no time, and after the time of those that do: keeps equal times in order."""
_SHUFFLES: Final = 3
_OTHER_RUN: Final = "another-run"


# --- writing records ------------------------------------------------------------------------------------


def call(tool: str, arguments: Any = None, result: Any = "", **fields: Any) -> Record:
    """One call record without a place yet."""
    return {"tool": tool, "arguments": arguments, "result": result, **fields}


def placed(records: Iterable[Record], *, run_id: str = "run") -> list[Record]:
    """The records with run id, sequence and call id where they had none."""
    return [
        {"run_id": run_id, "sequence": number, "call_id": f"c{number}", **record}
        for number, record in enumerate(records, start=1)
    ]


# --- checking -------------------------------------------------------------------------------------------


def check(
    records: Iterable[Record],
    expected: Expected,
    *,
    policy: Policy | str | None = None,
    without: Iterable[str] = (),
) -> tuple[Finding, ...]:
    """Asserts what is found in some call records, call by call and delivered in every way.

    Args:
        records: in the order in which the calls were made.
        expected: see `Expected`; kinds that it does not name may be found or not, but alike in every variant.
        policy: a policy, its YAML, or None for the default one.
        without: names of `VARIANTS` that do not apply (say why where it is used).

    Returns:
        The findings of all runs, by run, then by call.
    """
    rules = policy if isinstance(policy, Policy) else policies.default() if policy is None else policies.load(policy)
    rows = placed(records)
    reference = _verdicts(_records(rows), rules)
    findings = tuple(finding for verdict in reference.values() for finding in verdict.findings)
    _assert_expected(findings, expected, "replay")
    skipped = set(without)
    assert skipped <= set(VARIANTS), f"no such variant: {skipped - set(VARIANTS)}"
    if len(reference) == 1:
        assert findings == _call_by_call(rows, rules), "fed call by call"
    for name, deliver in VARIANTS.items():
        if name in skipped or (name in _AS_SPANS and not spans_can_carry(rows, rules)):
            continue
        for seed in range(_SHUFFLES if name in _RANDOM else 1):
            found = _verdicts(deliver(rows, rules, random.Random(seed)), rules)
            _assert_same(reference, found, f"{name} (seed {seed})")
    return findings


def check_calls(calls: Sequence[ToolCall], expected: Expected, policy: Policy) -> tuple[Finding, ...]:
    """Asserts what is found in calls without content: call by call, from attributes only, and beside another run."""
    tracker, other = Tracker(policy), Tracker(policy)
    seen: list[Observation] = []
    decided: list[Decision] = []
    for one in calls:
        decided.append(tracker.propose(one))
        seen.append(tracker.observe(one))
        other.observe(one)
        other.observe(one)
    findings = tracker.findings()
    _assert_expected(findings, expected, "call by call")
    _assert_first_seen(seen, findings)
    outside = Tracker(policy)
    bare = [from_attributes(one, was) for one, was in zip(calls, seen, strict=True)]
    again = [(outside.propose(one), outside.observe(one)) for one in bare]
    assert findings == outside.findings(), "from attributes only"
    assert list(zip(decided, seen, strict=True)) == again, "from attributes only"
    return findings


def first_at(findings: Iterable[Finding], kind: Kind) -> int | None:
    """The first call at which a kind was found."""
    return min((finding.at_call for finding in findings if finding.kind is kind), default=None)


def _assert_expected(findings: Sequence[Finding], expected: Expected, how: str) -> None:
    found = {kind: first_at(findings, kind) for kind in expected}
    assert dict(expected) == found, f"{how}: found {[(one.kind.value, one.at_call) for one in findings]}"


def _assert_same(reference: Mapping[str, Verdict], found: Mapping[str, Verdict], how: str) -> None:
    if how.startswith(_AS_SPANS):  # a run of spans is named after its trace
        found = dict(zip(reference, [v for v in found.values() if GARBAGE.trace_id not in v.trace_ids], strict=True))
    for run_id, verdict in reference.items():
        assert run_id in found, how
        assert verdict.findings == found[run_id].findings, how
        assert verdict.wasted_calls == found[run_id].wasted_calls, how
        assert verdict.guard == found[run_id].guard, f"{how}: what a guard would do"


def _assert_first_seen(seen: Sequence[Observation], findings: Sequence[Finding]) -> None:
    """What each step reported is what the findings say in the end."""
    reported = sorted((number, kind) for number, one in enumerate(seen, start=1) for kind in one.kinds)
    assert sorted((finding.at_call, finding.kind) for finding in findings) == reported


def _call_by_call(rows: Sequence[Record], policy: Policy) -> tuple[Finding, ...]:
    """Feeds the calls one by one, and again from their attributes only; returns the findings."""
    return check_calls(_run(rows, policy).calls, {}, policy)


def _run(rows: Sequence[Record], policy: Policy) -> Run:
    reader = FactsReader(policy, lambda _: DIGESTER)
    (run,) = assemble([reader.of_record(record) for record in _records(rows)], policy)
    return run


def _records(rows: Iterable[Record]) -> list[CallRecord]:
    return [read_record(row) for row in rows]


def _verdicts(items: Iterable[Span | CallRecord], policy: Policy) -> dict[str, Verdict]:
    return {report.verdict.run_id: report.verdict for report in replay_items(items, policy)}


# --- attributes only --------------------------------------------------------------------------------------


def from_attributes(one: ToolCall, seen: Observation) -> ToolCall:
    """The call as a scorer knows it that got nothing but its attributes."""
    told = own.read_own(of_call(one.facts, seen))
    assert not told.malformed, "an attribute does not have its contract's shape"
    bare = CallFacts(tool=one.facts.tool, call_id=one.facts.call_id, dispatched=one.facts.dispatched)
    facts = msgspec.structs.replace(bare, error_type=one.facts.error_type)
    return msgspec.structs.replace(one, facts=told.over(facts))


# --- ways of delivery -------------------------------------------------------------------------------------


def _reordered(rows: Sequence[Record], _policy: Policy, _random: random.Random) -> list[Span | CallRecord]:
    return list(_records({name: _reversed_keys(row[name]) for name in reversed(row)} for row in rows))


def _reversed_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _reversed_keys(value[name]) for name in reversed(value)}
    return [_reversed_keys(entry) for entry in value] if isinstance(value, list) else value


def _duplicated(rows: Sequence[Record], _policy: Policy, _random: random.Random) -> list[Span | CallRecord]:
    records = _records(rows)
    return [*records, *records[::2], *(record for record in records for _ in range(2))]


def _shuffled(rows: Sequence[Record], _policy: Policy, random_: random.Random) -> list[Span | CallRecord]:
    return list(_records(random_.sample(rows, len(rows))))


def _interleaved(rows: Sequence[Record], policy: Policy, _random: random.Random) -> list[Span | CallRecord]:
    """The run's own calls once more, backwards, as another run's: nothing of it may count here."""
    others = [{**row, "run_id": _OTHER_RUN, "sequence": n} for n, row in enumerate(reversed(rows), start=1)]
    for row in others:
        row.update({name: f"other {row[name]}" for name in ("session", "task") if row.get(name) is not None})
    if any(contract.business_scope == "global" for contract in policy.tools.values()):
        others = [{**row, "tool": f"other_{row['tool']}"} for row in others]  # global keys do span runs
    return list(_records(row for pair in zip(rows, others, strict=True) for row in pair))


def _with_garbage(rows: Sequence[Record], _policy: Policy, _random: random.Random) -> list[Span | CallRecord]:
    lines = [json.dumps(row) for row in rows]
    lines.insert(len(lines) // 2, '{"run_id": "run", "tool": 7, "arguments": ')
    found = list(files.read(io.BytesIO("\n".join(lines).encode()), name="calls.jsonl"))
    items: list[Span | CallRecord] = [item for item in found if not isinstance(item, BadInput)]
    assert len(items) == len(rows) < len(found), "the line of garbage is bad input, and nothing else is"
    items.insert(len(items) // 2, GARBAGE)
    return items


GARBAGE: Final = Span(
    trace_id="9" * 32,
    span_id="9" * 16,
    parent_id="9" * 16,
    name="execute_tool \x00",
    start_ns=_START_NS + 7,
    end_ns=_START_NS,
    attributes={
        "gen_ai.operation.name": ["execute_tool"],
        "gen_ai.tool.name": {"a": b"\xff"},
        "gen_ai.tool.call.arguments": '{"a": ',
        "loopguard.schema": "one",
        "loopguard.call.digest": 7,
        "loopguard.repeat.count": -1,
        "openinference.span.kind": "TOOL",
        "input.value": "[[[[",
    },
)
"""A span that is its own parent, ends before it starts, and is wrong in every attribute."""


def _as_spans(rows: Sequence[Record], policy: Policy, _random: random.Random) -> list[Span | CallRecord]:
    """Spans of the GenAI conventions: a workflow, its agents, a span a turn, and the tool spans with content."""
    return list(spans_of(rows, policy))


def _as_shuffled_spans(rows: Sequence[Record], policy: Policy, random_: random.Random) -> list[Span | CallRecord]:
    spans = [*spans_of(rows, policy), GARBAGE]
    return list(random_.sample(spans * 2, 2 * len(spans)))


def _as_attributes(rows: Sequence[Record], policy: Policy, random_: random.Random) -> list[Span | CallRecord]:
    """Tool spans without any content, out of order."""
    run, tracker = _run(rows, policy), Tracker(policy)
    spans = []
    for one in run.calls:
        told = of_call(one.facts, tracker.observe(one))
        place = {
            attr.RUN_ID: "run",
            attr.PRODUCER_ID: "p1",
            attr.CALL_SEQUENCE: one.number,
            attr.CALL_STARTED: one.number,
            attr.TURN_ID: f"t{one.turn}",
            attr.AGENT_ID: one.agent,
        }
        named = {attr.OPERATION: "execute_tool", attr.TOOL_NAME: one.facts.tool, attr.TOOL_CALL_ID: one.facts.call_id}
        if one.facts.error_type is not None:
            named[attr.ERROR_TYPE] = one.facts.error_type
        start_ns = _START_NS + (one.start_ns or one.number * _STEP_NS)
        spans.append(_span(one.number, None, f"execute_tool {one.facts.tool}", start_ns, {**named, **place, **told}))
    return list(random_.sample(spans, len(spans)))


VARIANTS: Final[Mapping[str, Callable[[Sequence[Record], Policy, random.Random], list[Span | CallRecord]]]] = {
    "reordered keys": _reordered,
    "duplicate delivery": _duplicated,
    "shuffled delivery": _shuffled,
    "another run interleaved": _interleaved,
    "garbage": _with_garbage,
    "spans": _as_spans,
    "spans shuffled": _as_shuffled_spans,
    "spans of attributes only": _as_attributes,
}
"""Every way in which `check` delivers a case, by name."""
_AS_SPANS: Final = ("spans", "spans shuffled", "spans of attributes only")
_RANDOM: Final = frozenset({"shuffled delivery", "spans shuffled", "spans of attributes only"})


# --- records as spans ---------------------------------------------------------------------------------------


def spans_can_carry(rows: Sequence[Record], policy: Policy) -> bool:
    """False where spans of today have no place for something that a record says, or where times would be made up."""
    if policy.scope is not Scope.RUN or len({row["run_id"] for row in rows}) > 1:
        return False
    for name in ("user_turn", "attempt", "session", "task"):
        if len({row.get(name) for row in rows}) > 1:
            return False
    if any(row.get(name) is not None for row in rows for name in ("dispatched", "key_id", "concurrent")):
        return False
    timed = all(row.get("ts") is not None for row in rows)
    return timed or not any(policy.contract(row["tool"]).polling for row in rows)


def spans_of(rows: Sequence[Record], policy: Policy) -> list[Span]:
    """The spans of one run, made of placed records; what spans cannot carry is lost (see `spans_can_carry`)."""
    starts = [_START_NS + int((row.get("ts") or 0.0) * 1e9) + n * _STEP_NS for n, row in enumerate(rows, start=1)]
    last_ns = max(starts) + _STEP_NS
    root = _span(1, None, "invoke_workflow", _START_NS, {attr.OPERATION: "invoke_workflow"}, end_ns=last_ns)
    spans = [root]
    agents: dict[str | None, Span] = {None: root}
    turns: dict[tuple[str | None, str], Span] = {}
    for number, (row, start_ns) in enumerate(zip(rows, starts, strict=True), start=1):
        name = row.get("agent")
        if name not in agents:
            told = {attr.OPERATION: "invoke_agent", attr.AGENT_NAME: name}
            agents[name] = _span(0x100000 + number, root, f"invoke_agent {name}", _START_NS, told, end_ns=last_ns)
            spans.append(agents[name])
        turn = (name, f"t{row['turn']}" if row.get("turn") is not None else f"own {number}")
        if turn not in turns:
            told = {attr.OPERATION: "agent_step"}
            turns[turn] = _span(0x200000 + number, agents[name], "agent_step", start_ns, told, end_ns=last_ns)
            spans.append(turns[turn])
        spans.append(_tool_span(0x300000 + number, turns[turn], row, start_ns, policy))
    return spans


def _tool_span(number: int, parent: Span, row: Record, start_ns: int, policy: Policy) -> Span:
    result, error = row.get("result", row.get("observation")), row.get("error")
    attributes: dict[str, Any] = {
        attr.OPERATION: "execute_tool",
        attr.TOOL_NAME: row["tool"],
        attr.TOOL_CALL_ID: row["call_id"],
        attr.TOOL_ARGUMENTS: json.dumps(row["arguments"]),
    }
    answered = not row.get("result_missing") and ("result" in row or "observation" in row)
    if answered:
        attributes[attr.TOOL_RESULT] = result if isinstance(result, str) else json.dumps(result)
    if row.get("denied"):
        attributes |= {attr.OUTCOME: Outcome.DENIED.value, attr.DENIED_BY: "other"}
    if row.get("effect") is not None:
        attributes[attr.TOOL_EFFECT] = row["effect"]
    if row.get("tenant") is not None:
        attributes |= dict.fromkeys(policy.identity, row["tenant"])
    failed = error not in (None, False)
    text = error if isinstance(error, str) else result if failed and isinstance(result, str) else ""
    name = f"execute_tool {row['tool']}"
    span = _span(number, parent, name, start_ns, attributes, failed=failed, message=text)
    # No result came: a span that never ended. One that ended without a result had one, which was not captured.
    return span if answered or failed or row.get("denied") else msgspec.structs.replace(span, end_ns=None)


def _span(
    number: int,
    parent: Span | None,
    name: str,
    start_ns: int,
    attributes: Mapping[str, Any],
    *,
    end_ns: int | None = None,
    failed: bool = False,
    message: str = "",
) -> Span:
    return Span(
        trace_id="7" * 32,
        span_id=f"{number:016x}",
        parent_id=None if parent is None else parent.span_id,
        name=name,
        start_ns=start_ns,
        end_ns=start_ns + 1 if end_ns is None else end_ns,
        status_code=2 if failed else 0,
        status_message=message,
        attributes=attributes,
    )
