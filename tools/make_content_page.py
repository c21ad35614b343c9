"""Writes the generated part of docs/content.md: the attribute keys that hold content, and those that hold names.

Run: `python tools/make_content_page.py` writes the page; with `--check` it says whether the page is up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "content.md"
MARK: Final = "<!-- generated from otel_loopguard/dialects by tools/make_content_page.py; change it there -->"
"""Everything after this line of the page is generated."""
sys.path.insert(0, str(ROOT))

from otel_loopguard import dialects  # noqa: E402 - the path comes first
from otel_loopguard.content import NAME_KEYS, KeyKind, kind_of_key  # noqa: E402
from otel_loopguard.processor.logs import SCOPES  # noqa: E402


def generated() -> str:
    """The tables, in Markdown."""
    by_key = _dialects_by_key()
    everywhere = {key: names for key, names in by_key.items() if kind_of_key(key) is KeyKind.CONTENT}
    words = {key: names for key, names in by_key.items() if key not in everywhere}
    names = {key: [kind.value] for key, kind in NAME_KEYS.items()}
    parts = (
        (
            "Keys that hold content wherever they stand, as do all keys below them (`x.y` is below `x` and `x.`):",
            "",
        ),
        _table(("key", "read by"), everywhere),
        ("Everyday words, which hold content on spans of agents and in GenAI log records only:", ""),
        _table(("key", "read by"), words),
        ("Keys that hold names, which are checked on spans of agents and in GenAI log records:", ""),
        _table(("key", "names"), names),
        ("Scopes whose log records are GenAI ones, with the scopes below them:", ""),
        [", ".join(f"`{scope}`" for scope in sorted(SCOPES)), ""],
    )
    return "\n".join(line for part in parts for line in part)


def _dialects_by_key() -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, module in vars(dialects).items():
        for key in getattr(module, "CONTENT_KEYS", ()):
            found.setdefault(key, []).append(name)
    return found


def _table(head: tuple[str, str], rows: Mapping[str, Iterable[str]]) -> list[str]:
    lines = [f"| `{key}` | {', '.join(sorted(values))} |" for key, values in sorted(rows.items())]
    return [f"| {head[0]} | {head[1]} |", "| --- | --- |", *lines, ""]


def page_text(current: str) -> str:
    """The page with its generated part made anew."""
    head, mark, _ = current.partition(MARK)
    if not mark:
        message = f"{PAGE.name} has lost the line {MARK}"
        raise SystemExit(message)
    return f"{head}{mark}\n\n{generated()}"


def main() -> int:
    """Write or check the page; exit code 1 where it is out of date."""
    current = PAGE.read_text(encoding="utf-8")
    text = page_text(current)
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text, encoding="utf-8")
    elif text != current:
        print(f"{PAGE.relative_to(ROOT)} is out of date: run tools/make_content_page.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
