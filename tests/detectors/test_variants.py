"""The runner of detectors' cases: it passes what is right in every delivery, and fails what is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from otel_loopguard import policy
from otel_loopguard.model import Kind
from tests.detectors import variants
from tests.detectors.variants import VARIANTS, call, check

CASES: Final = Path(__file__).parent.parent / "fixtures" / "cases"
RECORDED: Final = sorted(path.parent.name for path in CASES.glob("*/calls.jsonl"))
THREE: Final = [call("look", {"a": 1, "b": [{"c": 2, "d": 3}]}, {"e": 4, "f": 5})] * 3


@pytest.mark.parametrize("name", RECORDED)
def test_cases_are_found_alike_in_every_delivery(name: str) -> None:
    """Parity: whatever is found in a case, it is found at the same call however its calls come."""
    lines = (CASES / name / "calls.jsonl").read_text(encoding="utf-8").splitlines()
    check([json.loads(line) for line in lines], {}, policy=policy.load_file(CASES / name / "policy.yaml"))


def test_the_expected_call_passes() -> None:
    """Three equal calls are found at the third, everywhere."""
    (finding,) = check(THREE, {Kind.EXACT_REPEAT: 3, Kind.CYCLE: None})
    assert (1, 2, 3) == finding.calls


@pytest.mark.parametrize("expected", [{Kind.EXACT_REPEAT: 2}, {Kind.EXACT_REPEAT: None}, {Kind.CYCLE: 3}])
def test_another_call_or_kind_fails(expected: dict[Kind, int | None]) -> None:
    """A case that is found elsewhere, or where nothing was expected, fails."""
    with pytest.raises(AssertionError, match="found"):
        check(THREE, expected)


@pytest.mark.parametrize("name", sorted(VARIANTS))
def test_a_delivery_that_loses_a_call_fails(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every variant is compared: one that finds something else than the calls in order fails by its name."""
    deliver = VARIANTS[name]

    def losing(rows: Any, rules: Any, random_: Any) -> Any:
        return deliver(rows[:2], rules, random_)

    monkeypatch.setattr(variants, "VARIANTS", {**VARIANTS, name: losing})
    with pytest.raises(AssertionError, match=name):
        check(THREE, {Kind.EXACT_REPEAT: 3})


def test_a_variant_that_does_not_exist_fails() -> None:
    """What is left out is named rightly."""
    with pytest.raises(AssertionError, match="no such variant"):
        check(THREE, {}, without=["shuffled"])
