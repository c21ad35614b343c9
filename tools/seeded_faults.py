"""Put each fault of tools/faults.toml into a copy of the code and see that the tests named there turn red.

A fault is one replacement in one file, chosen by hand: a threshold off by one, a guard left out, a field dropped.
A fault whose text is no longer in the file, or stands there twice, is an error: the list must follow the code.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
COPIED: Final = (
    "otel_loopguard",
    "collector-config",
    "tests",
    "tools",
    "docs",
    "README.md",
    "CHANGELOG.md",
    "pyproject.toml",
)
WORKERS: Final = 2
SECONDS_A_FAULT: Final = 300.0
"""A fault that makes the tests hang is found too: running out of time counts as red."""

PYTEST_FAILED: Final = 1
PYTEST_INTERRUPTED: Final = 2
"""What pytest answers when a module cannot even be imported."""


class Fault(NamedTuple):
    """One fault: replace `find` by `put` in `file`; one of `tests` (pytest's arguments) must fail."""

    name: str
    file: str
    find: str
    put: str
    tests: tuple[str, ...]


def load(text: str) -> tuple[Fault, ...]:
    """Every fault of a list, in its order."""
    return tuple(Fault(**{**one, "tests": tuple(one["tests"])}) for one in tomllib.loads(text)["fault"])


def problem(fault: Fault, root: Path) -> str | None:
    """Why a fault cannot be put in, or None."""
    path = root / fault.file
    found = path.read_text(encoding="utf-8").count(fault.find) if path.is_file() else 0
    if found != 1:
        return f"`find` stands {found} times in {fault.file}"
    lacking = [test for test in fault.tests if not (root / test.partition("::")[0]).exists()]
    return f"no such test: {', '.join(lacking)}" if lacking else None


def try_fault(fault: Fault, root: Path) -> tuple[bool, str]:
    """Whether the tests caught the fault, and pytest's last line; the file is put back."""
    path = root / fault.file
    sound = path.read_text(encoding="utf-8")
    path.write_text(sound.replace(fault.find, fault.put), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", *fault.tests]
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        ended = subprocess.run(  # noqa: S603  # our own command line
            command, cwd=root, env=environment, capture_output=True, text=True, timeout=SECONDS_A_FAULT, check=False
        )
    except subprocess.TimeoutExpired:
        return True, "out of time"
    finally:
        path.write_text(sound, encoding="utf-8")
    last = (ended.stdout.strip().splitlines() or [""])[-1]
    return ended.returncode in {PYTEST_FAILED, PYTEST_INTERRUPTED}, last


def copy_of_code(folder: Path) -> Path:
    """A copy of what the tests need."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, folder / name)
    return folder


def run(faults: tuple[Fault, ...]) -> int:
    """Try every fault, print one line for each, and return how many no test caught."""
    with tempfile.TemporaryDirectory() as scratch:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(WORKERS):
            copies.put(copy_of_code(Path(scratch) / str(number)))

        def one(fault: Fault) -> tuple[Fault, bool, str]:
            copy = copies.get()
            try:
                wrong = problem(fault, copy)
                caught, why = (False, wrong) if wrong else try_fault(fault, copy)
            finally:
                copies.put(copy)
            return fault, caught, why

        missed = 0
        with ThreadPoolExecutor(WORKERS) as pool:
            for fault, caught, why in pool.map(one, faults):
                missed += not caught
                print(f"{'caught' if caught else 'MISSED'}  {fault.name}: {why}", flush=True)
    return missed


def main() -> int:
    """Try the faults whose names contain `--only`; 1 where one was missed or the list is empty."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--only", default="", help="part of a fault's name")
    only = parser.parse_args().only
    faults = tuple(
        fault for fault in load((ROOT / "tools/faults.toml").read_text(encoding="utf-8")) if only in fault.name
    )
    missed = run(faults)
    print(f"{len(faults) - missed} of {len(faults)} seeded faults caught")
    return 1 if missed or not faults else 0


if __name__ == "__main__":
    sys.exit(main())
