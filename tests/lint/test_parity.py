"""Attributes tell of moves and repeats what the content told, on every case, probe and labelled run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from otel_loopguard import policy as policies
from otel_loopguard.assembly import assemble
from otel_loopguard.lint import Evidence, FieldReader, evidence_of, judge_evidence, summed
from otel_loopguard.model import Run
from otel_loopguard.policy import Policy
from otel_loopguard.verdict import judge
from tests.detectors.variants import from_attributes
from tests.replaying import DIGESTER, items_of

TESTS = Path(__file__).parents[1]
CASES = sorted(path for path in (TESTS / "fixtures/cases").iterdir() if path.is_dir())
FILES = [TESTS / "fixtures/runs/calls.jsonl", *sorted((TESTS / "probes").glob("*/*.jsonl"))]


def _runs(paths: list[Path], policy: Policy) -> tuple[list[Run], FieldReader]:
    reader = FieldReader(policy, DIGESTER)
    facts = [reader.facts(item) for path in paths for item in items_of(path)]
    return list(assemble(facts, policy)), reader


def _told(evidence: Evidence) -> Mapping[str, object]:
    """What must not depend on the content, of tools of which there is any."""
    told = {}
    for tool, one in evidence.items():
        moves = {
            label: (signal.moved, signal.still, signal.long_runs, signal.longest)
            for label, signal in one.signals.items()
            if signal.moved or signal.still
        }
        if moves or one.repeats or one.same:
            told[tool] = (one.repeats, one.reads, one.same, moves)
    return told


def _compare(runs: list[Run], policy: Policy) -> None:
    for run in runs:
        _, seen = judge(run, policy)
        calls = tuple([from_attributes(call, one) for call, one in zip(run.calls, seen, strict=True)])
        bare = msgspec.structs.replace(run, calls=calls)
        _, again = judge(bare, policy)
        with_content, without = evidence_of(run.calls, seen, policy), evidence_of(bare.calls, again, policy)
        assert (run.run_id, _told(with_content)) == (run.run_id, _told(without))


def _advice(runs: list[Run], policy: Policy, reader: FieldReader) -> list[tuple[str, str]]:
    evidence = summed(evidence_of(run.calls, judge(run, policy)[1], policy, fields=reader) for run in runs)
    return [(lint.lint.value, ", ".join(lint.fields)) for lint in judge_evidence(evidence, policy)]


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_cases(case: Path) -> None:
    """Under the case's own policy; and no case gets advice, as its policy is what its tools need."""
    policy = policies.load_file(case / "policy.yaml")
    paths = [path for path in (case / "calls.jsonl", case / "deliveries.otlp.jsonl") if path.exists()]
    runs, reader = _runs(paths, policy)
    _compare(runs, policy)
    assert [] == _advice(runs, policy, reader)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_files(path: Path) -> None:
    """Under the default policy; the one probe whose id hides a repeat gets advice, and nothing else does."""
    runs, reader = _runs([path], policies.default())
    _compare(runs, policies.default())
    expected = [("same_field_differs", "request_id")] if path.stem == "volatile_id" else []
    assert expected == _advice(runs, policies.default(), reader)
