"""docs/verdict.md names every field and every word that a verdict can hold, and none that it cannot."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from otel_loopguard.model import (
    Duplicates,
    Finding,
    Flag,
    GuardEntry,
    ResultClass,
    RunOutcome,
    Severity,
    TerminationReason,
    Unknown,
    Verdict,
)

if TYPE_CHECKING:
    import msgspec

PAGE = (Path(__file__).parent.parent / "docs" / "verdict.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    """The text under one heading, up to the next."""
    found = re.search(rf"^#+ {re.escape(title)}$(.*?)(?=^#|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, title
    return found[1]


def first_cells(title: str) -> list[str]:
    """The names in the first column of a section's table, its heading left out."""
    rows = [line for line in section(title).splitlines() if line.startswith("| ")][1:]
    return [name for row in rows for name in re.findall(r"`([a-z_]+)`", row.split("|")[1])]


@pytest.mark.parametrize(
    ("title", "words"),
    [
        ("Outcome", RunOutcome),
        ("Termination reasons", TerminationReason),
        ("Flags", Flag),
        ("Why there is no digest", Unknown),
        ("Result classes", ResultClass),
    ],
)
def test_every_word_is_explained(title: str, words: type[StrEnum]) -> None:
    """The table holds the enumeration's words, each once; outcomes in the order in which they apply."""
    expected = [word.value for word in words]
    found = first_cells(title)
    assert (expected == found) if words is RunOutcome else (sorted(expected) == sorted(found))


@pytest.mark.parametrize(("title", "record"), [("Fields", Verdict), ("Findings", Finding)])
def test_every_field_is_explained(title: str, record: type[msgspec.Struct]) -> None:
    """The table holds the JSON's field names, each once."""
    assert sorted(record.__struct_encode_fields__) == sorted(first_cells(title))


def test_nested_fields_and_severities_are_named() -> None:
    """What stands inside a cell is complete, too."""
    for name in (*GuardEntry.__struct_encode_fields__, *Duplicates.__struct_encode_fields__):
        assert f"`{name}`" in section("Fields")
    for severity in Severity:
        assert f"`{severity.value}`" in section("Findings")
