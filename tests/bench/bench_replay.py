"""Prints how much longer replay takes than parsing its lines, and how much memory it takes.

Run as `python tests/bench/bench_replay.py`; `--full` adds a million calls, for which it wants some 6 GB of disk. For
each shape of file it runs, each in a process of its own, `json.loads` over the lines, reading alone, and
`otel-loopguard replay --json`. Times are CPU time with imports; the ratio to `json.loads` is what counts (goal: at most
10 for a file as instrumentations write it), since it depends little on the machine. The first shape is the goal's: the
spans are of the size that captures have with content on. The other shapes are the worst case for this ratio: spans so
small that there is next to nothing to parse, judged in full all the same.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

_ROOT: Final = Path(__file__).parents[2]
_PARSE: Final = "import json, sys\nfor line in open(sys.argv[1], 'rb'):\n    json.loads(line)\n"
_READ: Final = """\
import sys
from otel_loopguard import files
for item in files.read(open(sys.argv[1], "rb", 0), name="x"):
    pass
"""
_REPORT: Final = (
    "import resource, runpy, sys, time\n"
    "begun = time.process_time()\n"
    "{body}\n"
    "taken = time.process_time() - begun\n"
    "sys.stderr.write(f'{{taken}} {{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}}')\n"
)
_REPLAY: Final = "from otel_loopguard.cli import main\nmain(['replay', '--json', sys.argv[1]])"


_GOAL: Final = 10


class Shape(NamedTuple):
    """One kind of file."""

    name: str
    calls: int
    run_length: int
    chats: bool = False
    captured: bool = False


_SHAPES: Final = (
    Shape("100k calls, captured, runs of 20", 100_000, 20, captured=True),
    Shape("100k calls, small, runs of 20, with chats", 100_000, 20, chats=True),
    Shape("100k calls, small, runs of 3, tools only", 100_000, 3),
    Shape("100k calls, small, one run, tools only", 100_000, 100_000),
)
_FULL_SHAPES: Final = (
    Shape("1M calls, captured, runs of 20", 1_000_000, 20, captured=True),
    Shape("1M calls, small, runs of 3, tools only", 1_000_000, 3),
    Shape("1M calls, small, runs of 100,000, tools only", 1_000_000, 100_000),
)


class Measured(NamedTuple):
    """What one process took."""

    seconds: float
    peak_mib: float


def _measure(body: str, path: Path) -> Measured:
    """Run `body` over a file in a fresh process; its output goes nowhere."""
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", _REPORT.format(body=body), str(path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=True,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
    )
    seconds, peak_kib = done.stderr.split()[-2:]
    return Measured(float(seconds), int(peak_kib) / 1024)


def _generate(shape: Shape, path: Path) -> None:
    command = [sys.executable, str(Path(__file__).with_name("generate.py"))]
    command += ["--calls", str(shape.calls), "--run-length", str(shape.run_length)]
    command += [] if shape.chats else ["--no-chats"]
    command += ["--captured"] if shape.captured else []
    with path.open("wb") as output:
        subprocess.run(command, stdout=output, check=True)  # noqa: S603 - our own program


def main(argv: Sequence[str] | None = None) -> int:
    """Print one line a shape."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="also a million calls")
    parser.add_argument("--calls", type=int, help="this many calls in place of 100k")
    options = parser.parse_args(argv)
    print(f"{'':46} {'MiB':>6} {'read':>6} {'replay':>7} {'goal':>5} {'calls/s':>8} {'peak MiB':>9}")
    print(f"{'':53} (ratios to json.loads)")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "spans.jsonl"
        for shape in (*_SHAPES, *(_FULL_SHAPES if options.full else ())):
            used = shape._replace(calls=options.calls) if options.calls else shape
            _generate(used, path)
            parse, read, replay = (_measure(body, path) for body in (_PARSE, _READ, _REPLAY))
            size = path.stat().st_size / 2**20
            print(
                f"{shape.name:46} {size:6.0f} {read.seconds / parse.seconds:6.2f} {replay.seconds / parse.seconds:7.2f}"
                f" {_GOAL if shape.captured else '-':>5} {used.calls / replay.seconds:8.0f} {replay.peak_mib:9.0f}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
