"""README's ten lines for an application do what README says they do."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from otel_loopguard.cli import COMMANDS

ROOT: Final = Path(__file__).resolve().parent.parent
README: Final = (ROOT / "README.md").read_text(encoding="utf-8")
SECTION: Final = README.partition("\n## In your application\n")[2].partition("\n## ")[0]
MAX_LINES: Final = 10

_PROCESSOR: Final = re.compile(r"^provider\.add_span_processor\(LoopGuardSpanProcessor\(.*\n", re.MULTILINE)
_MASKS: Final = (
    (re.compile(r"[0-9a-f]{32}"), "(digest)"),
    (re.compile(r"eph-[0-9a-f]{8}"), "(key)"),
    (re.compile(r"[0-9a-f]{12}\.1"), "(producer)"),
)


def _block(language: str) -> str:
    """The only block of the section in a language."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)
    return str(found)


def _run(code: str, folder: Path) -> tuple[list[str], list[dict[str, Any]]]:
    """Run code in a process of its own; return the lines that it printed itself, and the spans of the exporter."""
    script = folder / "application.py"
    script.write_text(code, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    ended = subprocess.run(  # noqa: S603 - README's own lines
        [sys.executable, "-W", "error", str(script)],
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "" == ended.stderr
    spans = re.findall(r"^\{$.*?^\}$", ended.stdout, re.MULTILINE | re.DOTALL)
    rest = re.sub(r"^\{$.*?^\}$\n", "", ended.stdout, flags=re.MULTILINE | re.DOTALL)
    return rest.splitlines(), [json.loads(span) for span in spans]


def _masked(attributes: dict[str, Any]) -> dict[str, Any]:
    """The same with what is random in each process as a word."""
    text = json.dumps(attributes)
    for pattern, word in _MASKS:
        text = pattern.sub(word, text)
    found: dict[str, Any] = json.loads(text)
    return found


def test_ten_lines_are_ten() -> None:
    """The block is no longer than README promises."""
    lines = [line for line in _block("python").splitlines() if line.strip()]
    assert MAX_LINES >= len(lines)


def test_ten_lines_find_the_loop(tmp_path: Path) -> None:
    """The block as it stands prints the finding, once, and the exporter gets what README shows."""
    printed, spans = _run(_block("python"), tmp_path)
    (said,) = re.findall(r"It prints `([^`]+)`", SECTION)
    assert [said] == printed
    assert ["lookup_order"] * 3 + ["run"] == [span["name"] for span in spans]
    assert _masked(json.loads(_block("json"))) == _masked(spans[2]["attributes"])


def test_ten_lines_let_no_content_leave(tmp_path: Path) -> None:
    """Arguments and results are in what the exporter gets without the processor's line, and nowhere with it."""
    code = _block("python")
    _, spans = _run(code, tmp_path)
    _, raw = _run(_PROCESSOR.sub("", code), tmp_path)
    assert (False, True) == tuple("A-1042" in json.dumps(one) for one in (spans, raw))
    assert (False, True) == tuple('"late"' in json.dumps(one) for one in (spans, raw))


def test_readme_names_commands_that_exist() -> None:
    """Every command of ours in README is one."""
    named = set(re.findall(r"otel-loopguard (?!--)([a-z]+)\b", README))
    assert {"replay", "audit", "demo"} <= named
    assert set() == named - set(COMMANDS)
