"""Check the installed package: it holds every tracked file, and every module imports without an extra.

Argument: a file with the tracked paths, one a line (`git ls-files otel_loopguard`). To be run outside the repository
with the Python that the wheel was installed for, and with `-W error`.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from importlib.metadata import files
from pathlib import Path

PACKAGE = "otel_loopguard"


def missing(tracked: list[str]) -> list[str]:
    """The tracked files that the installed package lacks, sorted; may be empty."""
    return sorted({*tracked} - {file.as_posix() for file in files("otel-loopguard") or ()})


def import_all() -> int:
    """Import every module of the package but `__main__`, and say how many those were."""
    package = importlib.import_module(PACKAGE)
    names = [found.name for found in pkgutil.walk_packages(package.__path__, f"{PACKAGE}.")]
    for name in names:
        if not name.endswith(".__main__"):
            importlib.import_module(name)
    return len(names)


def main(arguments: list[str]) -> int:
    """Print what was checked; 1 where a file is missing."""
    tracked = Path(arguments[0]).read_text(encoding="utf-8").split()
    lacking = missing(tracked)
    for path in lacking:
        print(f"not in the wheel: {path}", file=sys.stderr)
    print(f"{len(tracked)} files in the wheel, {import_all()} modules import without an extra")
    return 1 if lacking or not tracked else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
