"""Writes the probes as files: `python -m tests.probes.make`.

For each probe `healthy/NAME.jsonl` or `stuck/NAME.jsonl` with its call records, `NAME.policy.yaml` where its owner
would declare something, and all expectations of a folder in its `expected.json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.probes import healthy, stuck
from tests.probes.probe import Probe

HERE: Final = Path(__file__).parent
FOLDERS: Final[Mapping[str, Sequence[Probe]]] = {"healthy": healthy.probes(), "stuck": stuck.probes()}


def texts() -> dict[str, str]:
    """Every file's text by its path under this folder."""
    found = {}
    for folder, probes in FOLDERS.items():
        for probe in probes:
            lines = [json.dumps(row, ensure_ascii=False) for row in probe.records()]
            found[f"{folder}/{probe.name}.jsonl"] = "\n".join(lines) + "\n"
            if probe.policy is not None:
                found[f"{folder}/{probe.name}.policy.yaml"] = probe.policy
        expected = {probe.name: probe.expected() for probe in sorted(probes)}
        found[f"{folder}/expected.json"] = json.dumps(expected, indent=1, ensure_ascii=False) + "\n"
    return found


def main() -> int:
    """Write every file, and remove those of probes that are gone."""
    wanted = texts()
    for folder in FOLDERS:
        (HERE / folder).mkdir(exist_ok=True)
        for path in (HERE / folder).iterdir():
            if path.relative_to(HERE).as_posix() not in wanted:
                path.unlink()
    for name, text in wanted.items():
        (HERE / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
