"""What a report says, in a form a person can check: letters for digests, no ids that change.

Run as a script to write the expected files anew; then read the difference before committing it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from otel_loopguard import policy
from otel_loopguard.replay import RunReport

FIXTURES = Path(__file__).parent.parent / "fixtures"
SPANS = FIXTURES / "spans"
EXPECTED = FIXTURES / "expected"
CAPTURES = sorted(p.name.removesuffix(".jsonl") for p in SPANS.glob("*.jsonl") if not p.name.endswith(".logs.jsonl"))

POLICY = policy.load(
    'version: 1\npolicy: captures\npolicy_version: "1"\ntools:\n  get_export_status: {polling: {}}\n',
    source="captures",
)
"""What an owner of the captured agents would declare: one poller."""


def summary(reports: Iterable[RunReport]) -> list[dict[str, Any]]:
    """One object a run. Calls: turn, tool, agent, call mark, result mark, outcome, class, category, progress, kinds."""
    return [_run(report) for report in reports]


def _run(report: RunReport) -> dict[str, Any]:
    verdict = report.verdict
    letters: dict[str, str] = {}

    def mark(digest: str | None, unknown: str | None) -> str:
        return f"({unknown})" if digest is None else letters.setdefault(digest, _letters(len(letters)))

    calls = []
    for call, seen in zip(report.calls, report.observations, strict=True):
        facts = call.facts
        calls.append(
            " ".join(
                (
                    f"{call.turn}:{facts.tool}",
                    f"agent={call.agent}",
                    f"id={facts.call_id}",
                    mark(facts.call_digest, facts.call_unknown),
                    mark(facts.result_digest, facts.result_unknown),
                    str(facts.outcome.value),
                    str(facts.result_class and facts.result_class.value),
                    str(facts.error_category and facts.error_category.value),
                    str(seen.progress.value),
                    *(f"!{kind.value}" for kind in seen.kinds),
                )
            )
        )
    return {
        "outcome": verdict.outcome.value,
        "traces": len(verdict.trace_ids),
        "agent": verdict.agent,
        "model": verdict.model,
        "turns": verdict.turns,
        "distinct_calls": verdict.distinct_calls,
        "findings": [f"{f.kind.value} {f.severity.value} at {f.at_call} count {f.count}" for f in verdict.findings],
        "termination": verdict.termination_reason.value,
        "terminal_response": verdict.terminal_response_emitted,
        "wasted": [verdict.wasted_calls, verdict.wasted_tokens],
        "flags": [flag.value for flag in verdict.flags],
        "duplicates": [
            verdict.duplicates.identical,
            verdict.duplicates.conflicting,
            verdict.duplicates.reidentified,
            verdict.duplicates.layered,
        ],
        "calls": calls,
    }


def _letters(number: int) -> str:
    return chr(65 + number % 26) + (str(number // 26) if number >= 26 else "")


def main() -> int:
    """Write every expected file anew."""
    from tests.replaying import replay_files  # noqa: PLC0415 - the path is set below when run as a script

    EXPECTED.mkdir(exist_ok=True)
    for old in EXPECTED.glob("*.json"):
        old.unlink()
    for name in CAPTURES:
        found = summary(replay_files([SPANS / f"{name}.jsonl"], POLICY))
        (EXPECTED / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent.parent))
    raise SystemExit(main())
