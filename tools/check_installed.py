"""Check the installed package: it holds every tracked file, and its modules import with what is installed.

Arguments: a file with the tracked paths, one a line (`git ls-files otel_loopguard`); and `all` where every extra is
installed: without it, what needs one is left out. To be run outside the repository with the
Python that the wheel was installed for, and with `-W error`.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from importlib.metadata import files
from pathlib import Path

PACKAGE = "otel_loopguard"
WITH_EXTRAS = (
    "otel_loopguard.demo.scoring",
    "otel_loopguard.files.otlp_messages",
    "otel_loopguard.files.otlp_wire",
    "otel_loopguard.scorer.",
)
"""Modules and packages that need an extra."""
READ_FIRST = frozenset({"otel_loopguard.scorer.settings"})
"""What the command line reads of them before it knows whether the extra is there."""


def missing(tracked: list[str]) -> list[str]:
    """The tracked files that the installed package lacks, sorted; may be empty."""
    return sorted({*tracked} - {file.as_posix() for file in files("otel-loopguard") or ()})


def import_all(*, extras: bool) -> int:
    """Import the modules of the package but `__main__`, and say how many those were."""
    package = importlib.import_module(PACKAGE)
    names = [
        found.name
        for found in pkgutil.walk_packages(package.__path__, f"{PACKAGE}.")
        if extras or not found.name.startswith(WITH_EXTRAS) or found.name in READ_FIRST
    ]
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
    extras = arguments[1:] == ["all"]
    imported = import_all(extras=extras)
    print(f"{len(tracked)} files in the wheel, {imported} modules import with{'' if extras else 'out'} extras")
    return 1 if lacking or not tracked else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
