"""Runs made for lint: call records of one tool, read as a command or a scorer reads them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from otel_loopguard import policy as policies
from otel_loopguard.assembly import assemble
from otel_loopguard.digest import Digester
from otel_loopguard.facts import FactsReader
from otel_loopguard.lint import FieldReader, Lint, ToolEvidence, evidence_of, judge_evidence, summed
from otel_loopguard.model import CallRecord, Span, SpanFacts
from otel_loopguard.policy import Policy
from otel_loopguard.verdict import judge
from otel_loopguard.writing import of_call
from tests.replaying import DIGESTER

TOOL = "lookup_order"


def policy_of(**tool: Any) -> Policy:
    """A policy that declares `lookup_order` so."""
    document = {"version": 1, "policy": "shop", "policy_version": 1, "tools": {TOOL: tool}}
    return policies.load(json.dumps(document), source="made for the test")


def calls_of(results: Iterable[Any], *, run_id: str = "run-1", **changes: Any) -> list[CallRecord]:
    """Equal calls, one a turn, with these results; `changes` are of every record."""
    return [
        CallRecord(
            **{
                "run_id": run_id,
                "sequence": number,
                "turn": number,
                "call_id": f"{run_id}-c{number}",
                "tool": TOOL,
                "arguments": {"order_id": "A12"},
                "result": result,
                **changes,
            }
        )
        for number, result in enumerate(results, start=1)
    ]


def renumbered(records: Sequence[CallRecord]) -> list[CallRecord]:
    """The records in this order, each in a turn of its own."""
    return [msgspec.structs.replace(one, sequence=n, turn=n, call_id=f"c{n}") for n, one in enumerate(records, 1)]


def evidence_with_content(
    records: Sequence[CallRecord], policy: Policy, *, fields: bool = True, digester: Digester = DIGESTER
) -> dict[str, ToolEvidence]:
    """As the command makes it; without `fields`, as a scorer does that digests content itself."""
    reader = FieldReader(policy, digester)
    return _evidence([reader.facts(record) for record in records], policy, reader if fields else None)


def evidence_from_attributes(records: Sequence[CallRecord], policy: Policy, scorers: Policy) -> dict[str, ToolEvidence]:
    """As a scorer makes it of spans that left a process with the processor, which knows `policy`."""
    scorer = FactsReader(scorers, lambda _: DIGESTER, sketches=False)
    return _evidence([scorer.of_span(span) for span in spans_without_content(records, policy)], scorers, None)


def spans_without_content(records: Sequence[CallRecord], policy: Policy) -> list[Span]:
    """The calls as spans that bear what the processor writes of them, and nothing else; one trace a run."""
    reader = FactsReader(policy, lambda _: DIGESTER)
    spans = []
    for run in assemble([reader.of_record(record) for record in records], policy):
        _, observations = judge(run, policy)
        for call, seen in zip(run.calls, observations, strict=True):
            spans.append(_span(run.run_id, call.number, of_call(call.facts, seen)))
    return spans


def _span(run_id: str, number: int, attributes: dict[str, Any]) -> Span:
    trace = run_id.encode().hex().ljust(32, "0")[:32]
    kept = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": attributes.get("loopguard.tool.name", TOOL)}
    return Span(
        trace_id=trace,
        span_id=f"{number:016x}",
        start_ns=number * 1000,
        end_ns=number * 1000 + 500,
        attributes={**attributes, **kept},
    )


def _evidence(facts: Sequence[SpanFacts], policy: Policy, reader: FieldReader | None) -> dict[str, ToolEvidence]:
    return summed(
        evidence_of(run.calls, judge(run, policy)[1], policy, fields=reader) for run in assemble(list(facts), policy)
    )


def lints_of(records: Sequence[CallRecord], policy: Policy, **options: Any) -> list[tuple[str, str]]:
    """What is said of these runs: code, and the rule or the fields."""
    return shown(judge_evidence(evidence_with_content(records, policy, **options), policy))


def shown(lints: Iterable[Lint]) -> list[tuple[str, str]]:
    """The code, and the rule or the fields."""
    return [(lint.lint.value, lint.rule or ", ".join(lint.fields)) for lint in lints]
