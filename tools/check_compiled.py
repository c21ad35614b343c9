"""Check an installed package whose core was compiled: exactly the modules that pyproject.toml names are libraries.

To be run outside the repository's root, with the Python that the wheel was installed for, beside a `pyproject.toml`.
"""

from __future__ import annotations

import importlib
import sys
import tomllib
from fnmatch import fnmatch
from importlib.metadata import files
from pathlib import Path
from typing import Any


def is_named(path: str, hook: dict[str, Any]) -> bool:
    """Tells whether a source file is one that the build compiles."""
    included = any(fnmatch(f"/{path}", pattern) for pattern in hook["include"])
    return included and not any(fnmatch(f"/{path}", pattern) for pattern in hook["exclude"])


def main() -> int:
    """Print what was checked; 1 where a module is compiled that should not be, or the other way round."""
    project = tomllib.loads((Path(__file__).resolve().parent.parent / "pyproject.toml").read_text(encoding="utf-8"))
    hook = project["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["mypyc"]
    sources = [file.as_posix() for file in files("otel-loopguard") or () if file.suffix == ".py"]
    named = {path.removesuffix(".py").replace("/", ".") for path in sources if is_named(path, hook)}
    wrong = 0
    for path in sources:
        name = path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        if name.endswith(".__main__"):
            continue
        compiled = str(importlib.import_module(name).__file__).endswith(".so")
        if compiled is not (name in named):
            wrong += 1
            print(f"{name}: {'compiled' if compiled else 'not compiled'}, against pyproject.toml", file=sys.stderr)
    print(f"{len(named)} of {len(sources)} modules are compiled")
    return 1 if wrong or not named else 0


if __name__ == "__main__":
    sys.exit(main())
