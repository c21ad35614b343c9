"""Print a command of README.md by its name, so that whoever runs it runs what the reader reads.

A command is the shell block after a comment `<!-- command: NAME -->`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

README: Final = Path(__file__).resolve().parent.parent / "README.md"
_COMMAND: Final = re.compile(
    r"^<!-- command: (?P<name>[a-z]+) -->\n```sh\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


def commands(text: str) -> dict[str, str]:
    """Every named command of a README text, in the order of the text; may be empty."""
    return {found["name"]: found["text"].strip() for found in _COMMAND.finditer(text)}


def main(arguments: list[str]) -> int:
    """Print the command named by the only argument; 2 where there is no such command."""
    known = commands(README.read_text(encoding="utf-8"))
    if len(arguments) != 1 or arguments[0] not in known:
        print(f"usage: readme_command.py {{{','.join(known)}}}", file=sys.stderr)
        return 2
    print(known[arguments[0]])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
