"""Writes the generated files of the policy format: its JSON Schema and the tables of its reference page."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from otel_loopguard.policy.reference import MARK, schema_text, tables_text

ROOT: Final = Path(__file__).resolve().parent.parent
SCHEMA: Final = ROOT / "otel_loopguard" / "policy" / "schema.json"
PAGE: Final = ROOT / "docs" / "policy.md"


def page_text(current: str) -> str:
    """The reference page with its generated part made anew."""
    head, mark, _ = current.partition(MARK)
    if not mark:
        message = f"{PAGE.name} has lost the line {MARK}"
        raise SystemExit(message)
    return f"{head}{mark}\n\n{tables_text()}"


def main() -> None:
    """Write both files."""
    SCHEMA.write_text(schema_text(), encoding="utf-8")
    PAGE.write_text(page_text(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
