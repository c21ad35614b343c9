"""Writes the generated part of docs/settings.md: one row for each environment variable of the processor."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from otel_loopguard.processor.settings import VARIABLES

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "settings.md"
MARK: Final = "<!-- generated from otel_loopguard/processor/settings.py; change it there -->"
"""Everything after this line of the page is generated."""


def table_text() -> str:
    """The table, in Markdown."""
    rows = [
        f"| `{one.name}` | {one.shape} | {one.default} | {one.doc} | {_example(one.example)} |" for one in VARIABLES
    ]
    head = ["| variable | value | default | meaning | example |", "| --- | --- | --- | --- | --- |"]
    return "\n".join([*head, *rows, ""])


def page_text(current: str) -> str:
    """The page with its generated part made anew."""
    head, mark, _ = current.partition(MARK)
    if not mark:
        message = f"{PAGE.name} has lost the line {MARK}"
        raise SystemExit(message)
    return f"{head}{mark}\n\n{table_text()}"


def _example(text: str) -> str:
    return text if "`" in text else f"`{text}`"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page_text(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
