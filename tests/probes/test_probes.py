"""Healthy probes are never loops and stuck probes are found, alike in every delivery.

`waiting.json` lists, with its reason, what is not reached yet; a probe of that list that starts to pass fails here, so
that it is taken off the list.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from otel_loopguard import policy
from otel_loopguard.model import Action, Basis, RunOutcome
from otel_loopguard.policy import Policy
from otel_loopguard.replay import RunReport
from tests.detectors.variants import check
from tests.probes import make
from tests.replaying import replay_files

HERE: Final = Path(__file__).parent
WAITING: Final[dict[str, str]] = json.loads((HERE / "waiting.json").read_text(encoding="utf-8"))
HEALTHY: Final[dict[str, Any]] = json.loads((HERE / "healthy" / "expected.json").read_text(encoding="utf-8"))
STUCK: Final[dict[str, Any]] = json.loads((HERE / "stuck" / "expected.json").read_text(encoding="utf-8"))

_REFUSALS: Final = frozenset({Action.DENY, Action.STOP})


def _policy(folder: str, name: str) -> Policy:
    declared = HERE / folder / f"{name}.policy.yaml"
    return policy.load_file(declared) if declared.exists() else policy.default()


def _reports(folder: str, name: str) -> list[RunReport]:
    return replay_files([HERE / folder / f"{name}.jsonl"], _policy(folder, name))


def _marked(name: str) -> Any:
    return pytest.param(name, marks=[pytest.mark.xfail(reason=WAITING[name], strict=True)] if name in WAITING else [])


@pytest.mark.parametrize("name", [_marked(name) for name in HEALTHY])
def test_healthy_is_no_loop(name: str) -> None:
    """What looks stuck and is not: no outcome `loop`, and nothing that a guard would refuse."""
    (report,) = _reports("healthy", name)
    verdict = report.verdict
    assert verdict.outcome in {RunOutcome.CLEAN, RunOutcome.SUSPECT}, [(f.kind, f.at_call) for f in verdict.findings]
    assert [] == [entry for entry in verdict.guard if entry.action in _REFUSALS]


@pytest.mark.parametrize("name", [_marked(name) for name in STUCK])
def test_stuck_is_found(name: str) -> None:
    """A stuck run has an outcome that says so, by a finding of a fitting kind that came in time."""
    expected = STUCK[name]
    (report,) = _reports("stuck", name)
    verdict = report.verdict
    found = [(finding.kind.value, finding.at_call) for finding in verdict.findings]
    assert verdict.outcome in expected["outcomes"], found
    kinds = expected["kinds"] or [kind for kind, _ in found]
    assert any(kind in kinds and at_call <= expected["latest"] for kind, at_call in found), found


@pytest.mark.parametrize(("folder", "name"), [*(("healthy", n) for n in HEALTHY), *(("stuck", n) for n in STUCK)])
def test_found_alike_in_every_delivery(folder: str, name: str) -> None:
    """Whatever is found in a probe, it is found at the same call however its calls come."""
    lines = (HERE / folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    check([json.loads(line) for line in lines], {}, policy=_policy(folder, name))


@pytest.mark.parametrize(("folder", "name"), [*(("healthy", n) for n in HEALTHY), *(("stuck", n) for n in STUCK)])
def test_likeness_never_denies(folder: str, name: str) -> None:
    """No call would be refused for what was found by likeness."""
    (report,) = _reports(folder, name)
    verdict = report.verdict
    likely = {one.kind for one in verdict.findings if one.basis is Basis.LIKENESS}
    assert [] == [one.call for one in verdict.guard if one.action in _REFUSALS and one.reason in likely]


def test_waiting_names_probes_only() -> None:
    """A probe that was renamed or dropped must not stay on the list."""
    assert set(WAITING) <= {*HEALTHY, *STUCK}


def test_there_are_enough_probes() -> None:
    """The list only grows."""
    assert len(HEALTHY) >= 45
    assert len(STUCK) >= 34


def test_files_are_as_made() -> None:
    """The files are what `python -m tests.probes.make` writes."""
    wanted = make.texts()
    kept = {
        path.relative_to(HERE).as_posix(): path.read_text(encoding="utf-8")
        for folder in make.FOLDERS
        for path in (HERE / folder).iterdir()
    }
    assert wanted == kept
