"""Writes the generated part of docs/scorer.md: one row for each setting of the scorer."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from otel_loopguard.scorer.settings import SETTINGS

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "scorer.md"
MARK: Final = "<!-- generated from otel_loopguard/scorer/settings.py; change it there -->"
"""Everything after this line of the page is generated."""


def table_text() -> str:
    """The table, in Markdown."""
    rows = [
        f"| `--{one.name.replace('_', '-')}` | {one.shape} | {_default(one.default)} | {one.doc} |" for one in SETTINGS
    ]
    return "\n".join(["| setting | value | default | meaning |", "| --- | --- | --- | --- |", *rows, ""])


def page_text(current: str) -> str:
    """The page with its generated part made anew."""
    head, mark, _ = current.partition(MARK)
    if not mark:
        message = f"{PAGE.name} has lost the line {MARK}"
        raise SystemExit(message)
    return f"{head}{mark}\n\n{table_text()}"


def _default(text: str) -> str:
    return f"`{text}`" if text else "none"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page_text(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
