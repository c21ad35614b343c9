"""Runs public detectors over the labelled runs, each in its own package's words: `python peers.py CALLS.jsonl`.

`compare_peers.sh` runs this in an environment of its own, which holds the packages and nothing of ours; none of them
is a dependency. Prints one JSON object: by package its version, the first flagged call by run id, and microseconds of
CPU time a call; or why it was not run. What counts as flagged is said at each adapter.
"""

# ruff: noqa: PLC0415  # each adapter imports its own package, which may be missing
# mypy: ignore-errors

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

ROUNDS = 3
"""Rounds over all runs for the time a call; the fastest counts."""


def runbound() -> Callable[[Sequence[dict[str, Any]]], int | None]:
    """The loop detector with its default settings; flagged where it first logs (its lowest rung)."""
    from runbound.config import GuardrailConfig
    from runbound.detectors import LoopDetector
    from runbound.events import Event
    from runbound.state import SessionState

    config = GuardrailConfig()

    def detect(rows: Sequence[dict[str, Any]]) -> int | None:
        state, detector = SessionState(session_id="s"), LoopDetector()
        for at, row in enumerate(rows, start=1):
            text = json.dumps([row["tool"], row["arguments"]], sort_keys=True)
            digest = hashlib.sha256(text.encode()).hexdigest()
            kinds = ["tool_call", "tool_error"] if row.get("error") else ["tool_call"]
            for kind in kinds:
                event = Event(
                    kind=kind,
                    ts=float(at),
                    step=at,
                    tool_name=row["tool"],
                    args_hash=digest if kind == "tool_call" else None,
                    error="error" if kind == "tool_error" else None,
                )
                state.record(event)
                if detector.check(state, event, config) is not None:
                    return at
        return None

    return detect


def trajectory_fuse() -> Callable[[Sequence[dict[str, Any]]], int | None]:
    """The default fuse; flagged where it raises its deadlock error."""
    from trajectory_fuse import Action, AgentFuse, DeadlockDetected

    def detect(rows: Sequence[dict[str, Any]]) -> int | None:
        fuse = AgentFuse()
        for at, row in enumerate(rows, start=1):
            try:
                fuse.observe(Action(row["tool"], row["arguments"], row.get("result"), not row.get("error")))
            except DeadlockDetected:
                return at
        return None

    return detect


def unwedge() -> Callable[[Sequence[dict[str, Any]]], int | None]:
    """The guard without a model, not in shadow mode; flagged where it first hints."""
    from unwedge import Guard, GuardConfig, make_provider
    from unwedge.adapters.generic import turn_from_command

    def detect(rows: Sequence[dict[str, Any]]) -> int | None:
        provider = make_provider("none")
        guard = Guard(goal="", provider=provider, config=GuardConfig.for_provider(provider, shadow=False))
        for at, row in enumerate(rows, start=1):
            command = f"{row['tool']} {json.dumps(row['arguments'], sort_keys=True)}"
            result = row.get("result")
            output = result if isinstance(result, str) else json.dumps(result)
            if guard.on_turn(turn_from_command(at, command, output, failed=bool(row.get("error")))).hint_text:
                return at
        return None

    return detect


def loopguard_runtime() -> Callable[[Sequence[dict[str, Any]]], int | None]:
    """The detectors and policy that its own trace replay uses; flagged at its first decision to stop."""
    from loopguard import Monitor
    from loopguard.guard import default_detectors
    from loopguard.ingest import _steps_to_observations
    from loopguard.signals import GuardAction

    def detect(rows: Sequence[dict[str, Any]]) -> int | None:
        monitor = Monitor(detectors=default_detectors())
        for at, row in enumerate(rows, start=1):
            step = {"agent": "agent", "tool": row["tool"], "args": row["arguments"], "output": row.get("result")}
            for node, action, signature, payload in _steps_to_observations([step]):
                monitor.observe(node, action, signature, **payload)
            if any(decision.action == GuardAction.STOP for decision in monitor.decisions):
                return at
        return None

    return detect


ADAPTERS = {
    "runbound": runbound,
    "trajectory-fuse": trajectory_fuse,
    "unwedge": unwedge,
    "loopguard-runtime": loopguard_runtime,
}
WITHOUT_A_RULE = {"agent-budget-guard": "counts money; this version has no rule about repeated calls"}


def main(path: str) -> int:
    """Measure every adapter whose package is there."""
    runs: dict[str, list[dict[str, Any]]] = {}
    with open(path, encoding="utf-8") as lines:  # noqa: PTH123  # nothing but the path is known here
        for line in lines:
            row = json.loads(line)
            runs.setdefault(row["run_id"], []).append(row)
    calls = sum(map(len, runs.values()))
    found: dict[str, Any] = {}
    for name, make in ADAPTERS.items():
        try:
            version, detect = importlib.metadata.version(name), make()
        except ImportError as error:
            found[name] = {"not_run": f"cannot be imported ({type(error).__name__})"}
            continue
        taken = []
        for _ in range(ROUNDS):
            begun = time.process_time()
            first = {run_id: detect(rows) for run_id, rows in runs.items()}
            taken.append(time.process_time() - begun)
        # It stops at its first finding: only calls up to there were looked at.
        looked_at = sum(first[run_id] or len(rows) for run_id, rows in runs.items())
        found[name] = {"version": version, "us_per_call": round(min(taken) / looked_at * 1e6, 1), "first": first}
    for name, reason in WITHOUT_A_RULE.items():
        try:
            found[name] = {"version": importlib.metadata.version(name), "not_run": reason}
        except ImportError:
            found[name] = {"not_run": "not installable"}
    print(json.dumps({"calls": calls, "peers": found}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
