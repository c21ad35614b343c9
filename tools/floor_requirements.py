"""Print the lowest version of each run-time dependency that pyproject.toml allows, as a pip constraints file.

The floors of `dependencies` and of the extras that the package itself uses are the only place where they stand; this
turns them into `name==floor`, so that CI can run the tests with exactly what the package promises to work with.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Final

PYPROJECT: Final = Path(__file__).resolve().parent.parent / "pyproject.toml"
TOOL_EXTRAS: Final = frozenset({"test", "dev"})
"""Extras for developing the package: nothing is promised about the age of a test runner."""

_REQUIREMENT: Final = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(\[[a-z,]+\])?(>=(?P<floor>[0-9][0-9a-z.]*))?$")


def floors(pyproject: str) -> dict[str, str]:
    """Name to lowest version, in the order of the file.

    Raises:
        ValueError: a requirement has no lower bound, or two of one name differ.
    """
    project = tomllib.loads(pyproject)["project"]
    extras = project["optional-dependencies"]
    requirements = [
        *project["dependencies"],
        *(one for name in extras if name not in TOOL_EXTRAS for one in extras[name]),
    ]
    found: dict[str, str] = {}
    for requirement in requirements:
        parts = _REQUIREMENT.match(requirement)
        name, floor = (parts["name"], parts["floor"]) if parts else (requirement, None)
        if name == project["name"]:
            continue
        if floor is None or found.setdefault(name, floor) != floor:
            message = f"{requirement}: give it one lower bound, name>=version"
            raise ValueError(message)
    return found


def main() -> int:
    """Print the constraints."""
    for name, floor in floors(PYPROJECT.read_text(encoding="utf-8")).items():
        print(f"{name}=={floor}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
