"""Prints how detectors do on the labelled runs, or writes it: `python -m tests.bench.detection.table [--write]`.

`--write` replaces the generated parts of docs/detection.md. What the public detectors found comes from peers.json,
which `compare_peers.sh` makes anew. Times are the one part that differs from machine to machine: `without_times`.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.bench.detection import ours
from tests.bench.detection.labelled import Prediction, Row, Score, predict, runs, score
from tests.bench.detection.rules import RULES

DOCUMENT: Final = Path(__file__).parents[3] / "docs" / "detection.md"
PEERS: Final = Path(__file__).parent / "peers.json"

_HEAD: Final = (
    "| detector | precision | recall | F1 | false alarms | delay, median | delay, p90 | suspects | time a call |",
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
)
_BLOCK: Final = re.compile(r"(?P<open><!-- generated: (?P<name>\w+) -->\n).*?(?P<close><!-- end -->)", re.DOTALL)
_TIME: Final = re.compile(r" \d+ µs \|$", re.MULTILINE)


def blocks(*, timed: bool = True) -> Mapping[str, str]:
    """The generated parts of the document, by name; `timed` False leaves our own times out (0)."""
    pooled, held = ours.leave_one_out()
    return {
        "detectors": "\n".join((*_HEAD, *_rows(pooled, timed=timed))),
        "sources": "\n".join((*_SOURCES_HEAD, *(_source_row(one) for one in held))),
        "not_run": "\n".join(_not_run()) or "All of them ran.",
    }


def write(text: str, parts: Mapping[str, str]) -> str:
    """The document's text with its generated parts replaced."""
    return _BLOCK.sub(lambda found: found["open"] + parts[found["name"]] + "\n" + found["close"], text)


def without_times(text: str) -> str:
    """The text with the last column of the table of detectors emptied."""
    return _TIME.sub(" |", text)


def _rows(pooled: Mapping[str, Prediction], *, timed: bool) -> list[str]:
    mine = _row("**otel-loopguard**", score(ours.replayed()), ours.us_per_call() if timed else 0)
    left_out = _row("otel-loopguard, settings chosen without the source", score(pooled), None)
    peers = [
        (
            f"{name} {peer['version']}",
            score({run: Prediction(at) for run, at in peer["first"].items()}),
            peer["us_per_call"],
        )
        for name, peer in _peers().items()
        if "first" in peer
    ]
    rules = [(name, score(predict(rule)), _us(rule) if timed else 0) for name, rule in RULES.items()]
    others = sorted([*peers, *rules], key=lambda row: -row[1].f1)
    return [mine, left_out, *(_row(*row) for row in others)]


def _row(name: str, made: Score, us: float | None) -> str:
    cells = (
        name,
        f"{made.precision:.2f}",
        f"{made.recall:.2f}",
        f"{made.f1:.2f}",
        f"{len(made.false_alarms)} of {made.healthy}",
        "-" if made.delay_median is None else f"{made.delay_median:+d}",
        "-" if made.delay_p90 is None else f"{made.delay_p90:+d}",
        f"{made.suspects_on_healthy}",
        "" if us is None else f"{us:.0f} µs",
    )
    return f"| {' | '.join(cells)} |"


_SOURCES_HEAD: Final = (
    "| source left out | loops found | false alarms | settings chosen on the others |",
    "| --- | --- | --- | --- |",
)


def _source_row(held: ours.Held) -> str:
    made = held.score
    others = [
        f"{name.rpartition(':')[2]} {value}"
        for (name, value), (_, default) in zip(held.chosen, ours.DEFAULTS, strict=True)
        if value != default
    ]
    chosen = ", ".join(others) or "the defaults"
    loops = made.hits + len(made.missed)
    return f"| {held.source} | {made.hits} of {loops} | {len(made.false_alarms)} of {made.healthy} | {chosen} |"


def _not_run() -> list[str]:
    return [
        f"- {name} {peer.get('version', '')}: {peer['not_run']}."
        for name, peer in _peers().items()
        if "not_run" in peer
    ]


def _peers() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(PEERS.read_text(encoding="utf-8"))["peers"]
    return found


def _us(rule: Any) -> float:
    """Microseconds of CPU time a call that the rule looked at."""
    rows: Sequence[Sequence[Row]] = tuple(runs().values())
    begun = time.process_time()
    looked_at = sum(rule(one) or len(one) for one in rows)
    return (time.process_time() - begun) / looked_at * 1e6


def main() -> int:
    """Print or write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="replace the generated parts of docs/detection.md")
    parts = blocks()
    if parser.parse_args().write:
        DOCUMENT.write_text(write(DOCUMENT.read_text(encoding="utf-8"), parts), encoding="utf-8")
    else:
        made = score(ours.replayed())
        print("\n\n".join(parts.values()))
        print(f"\nmissed: {', '.join(made.missed) or 'none'}\nfalse alarms: {', '.join(made.false_alarms) or 'none'}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
