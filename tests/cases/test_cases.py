"""The 59 cases from users' complaints, judged with their own policies.

`waiting.json` lists what a later issue brings; a case of that list that starts to pass fails here, so that it
is taken off the list. What a guard would decide is tested on its predictions; what a case expects of a live guard is
listed there too. What it expects of metrics and of replicas is asked of running scorers
(`tests/scorer/test_served_cases.py`, `tests/collector/test_replicas.py`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from otel_loopguard import policy
from otel_loopguard.model import Action, Verdict
from otel_loopguard.replay import RunReport
from tests.replaying import replay_files

CASES = Path(__file__).parent.parent / "fixtures" / "cases"
WAITING: dict[str, str] = json.loads((Path(__file__).parent / "waiting.json").read_text())["outcomes"]
NAMES = sorted(path.name for path in CASES.iterdir() if path.is_dir())

_OUTCOMES = {
    "loop": {"loop"},
    "no_loop": {"clean"},
    "duplicate_side_effect": {"duplicate_write", "indeterminate_write"},
    "parallel_duplicate": {"clean"},
    "duplicate_telemetry": {"clean"},
    "incomplete": {"incomplete"},
    "unknown": {"unscorable"},
    "unknown_order": {"unscorable"},
    "outage": {"outage"},
    "budget_exceeded": {"budget_exceeded"},
    "loop_or_incomplete": {"loop", "incomplete"},
}
# The cases' words for kinds, where ours differ.
_KINDS = {"invalid_args_repeat": "error_repeat", "no_progress_result": "same_result"}
# Flags that only something with a clock can raise.
_SCORER_FLAGS = {"idle_timeout", "late"}


def problems_of(name: str) -> list[str]:
    """What the verdicts of a case say otherwise than expected."""
    folder = CASES / name
    expected: dict[str, Any] = json.loads((folder / "expected.json").read_text())["expected"]
    files = [path for path in (folder / "calls.jsonl", folder / "deliveries.otlp.jsonl") if path.exists()]
    reports = replay_files(files, policy.load_file(folder / "policy.yaml"))
    verdicts = [report.verdict for report in reports]
    guard = _against_guard(reports, expected.get("guard", {}))
    if guard:
        return guard
    found = [problem for verdict in verdicts for problem in problems_with(verdict, expected)]
    # A case with several runs is as expected where one run shows what is expected and none a false alarm.
    if expected["verdict"] in ("no_loop", "duplicate_telemetry", "parallel_duplicate"):
        return found
    return [] if any(not problems_with(verdict, expected) for verdict in verdicts) else found


def _against_guard(reports: list[RunReport], expected: dict[str, Any]) -> list[str]:
    """What a guard would decide otherwise than expected; after a stop nothing runs any more."""
    runs: dict[str, bool] = {}
    shared: set[str] = set()
    for report in reports:
        said = {entry.call: entry.action for entry in report.verdict.guard}
        stopped = min((call for call, action in said.items() if call and action is Action.STOP), default=None)
        for call in report.calls:
            name, action = call.facts.call_id or "", said.get(call.number, Action.ALLOW)
            denied = action is Action.DENY or (stopped is not None and call.number >= stopped)
            runs[name] = not denied and action is not Action.SHARE
            if action is Action.SHARE:
                shared.add(name)
    must_run = runs if expected.get("must_allow") == "all" else expected.get("must_allow", ())
    refused = [*expected.get("deny", ()), *expected.get("must_deny", ()), *expected.get("would_deny", ())]
    found = [f"{name} is not run" for name in must_run if not runs[name]]
    found += [f"{name} is not denied" for name in refused if runs[name] or name in shared]
    first = expected.get("must_deny_from_call")
    if first is not None and any(runs_ for number, runs_ in enumerate(runs.values(), start=1) if number >= first):
        found.append(f"not all denied from call {first}")
    if "execute_exactly" in expected and sum(runs.values()) != expected["execute_exactly"]:
        found.append(f"{sum(runs.values())} executed")
    if expected.get("share_result") and len(shared) != len(runs) - 1:
        found.append(f"{len(shared)} shared")
    return found


def problems_with(verdict: Verdict, expected: dict[str, Any]) -> list[str]:
    """What one verdict says otherwise than a case expects."""
    found = []
    outcomes = set(_OUTCOMES[expected["verdict"]])
    if expected.get("severity") == "warn" or expected.get("confidence") == "low":
        outcomes = {"suspect"}
    if verdict.outcome not in outcomes:
        found.append(f"outcome {verdict.outcome}, expected {sorted(outcomes)}")
    kind = _KINDS.get(expected.get("kind", ""), expected.get("kind"))
    findings = [finding for finding in verdict.findings if kind is None or finding.kind == kind]
    if kind is not None and not findings:
        found.append(f"no finding {kind}: {[finding.kind for finding in verdict.findings]}")
    latest = expected.get("flag_by_call")
    if latest is not None and findings and findings[0].at_call > latest:
        found.append(f"flagged at {findings[0].at_call}, expected by {latest}")
    if "period" in expected and expected["period"] not in [finding.period for finding in findings]:
        found.append("another period")
    if "distinct_calls" in expected and verdict.distinct_calls != expected["distinct_calls"]:
        found.append(f"distinct_calls {verdict.distinct_calls}, expected {expected['distinct_calls']}")
    if "distinct_fingerprints" in expected and verdict.distinct_digests != expected["distinct_fingerprints"]:
        found.append(f"distinct_digests {verdict.distinct_digests}")
    if "missing_sequence" in expected and list(verdict.missing_sequences) != expected["missing_sequence"]:
        found.append(f"missing_sequences {verdict.missing_sequences}")
    also = expected.get("also")
    if also == "duplicate_side_effect" and not any(one.kind == "duplicate_write" for one in verdict.findings):
        found.append("no duplicate write beside")
    missing = set(expected.get("flags", ())) - _SCORER_FLAGS - set(verdict.flags)
    if missing:
        found.append(f"flags missing: {sorted(missing)}")
    if expected.get("must_not") == "no_loop" and verdict.outcome == "clean":
        found.append("clean")
    return found


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.xfail(reason=WAITING[name], strict=True)) if name in WAITING else name
        for name in NAMES
    ],
)
def test_case(name: str) -> None:
    """The case's verdict is what a right product says of it."""
    assert problems_of(name) == []


def test_the_waiting_list_names_cases_only() -> None:
    """A case that was renamed or dropped must not stay on the list."""
    assert set(WAITING) <= set(NAMES)
