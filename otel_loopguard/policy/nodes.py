"""The parts of a policy document with their places, and the list of what is wrong with it.

Invariants: a document has at most `MAX_BYTES` bytes, `MAX_NODES` nodes and `MAX_DEPTH` levels, whatever it was
written in; keys are text; a scalar keeps its spelling beside its value, so that `7` can stand for "7".
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from otel_loopguard.errors import PolicyError

MAX_BYTES: Final = 1_048_576
MAX_NODES: Final = 50_000
MAX_DEPTH: Final = 24
MAX_PROBLEMS: Final = 100
"""Problems listed for one document; more are counted."""

Scalar: TypeAlias = str | int | float | bool | None


class Shape(StrEnum):
    """What a node is; the values are the words used in messages."""

    SCALAR = "a single value"
    LIST = "a list"
    TABLE = "a table of keys"


class Node(msgspec.Struct, frozen=True, eq=False):
    """One value of the document; `line` and `column` count from 1."""

    line: int
    column: int
    shape: Shape = Shape.SCALAR
    value: Scalar = None
    text: str = ""
    """A scalar as written, without quotes."""
    items: tuple[Node, ...] = ()
    """Elements of a list, in order."""
    entries: tuple[tuple[Node, Node], ...] = ()
    """Keys and values of a table, in order; keys are scalars, read by their `text`."""


class Problems:
    """Collects what is wrong with one document, so that all of it is reported at once."""

    def __init__(self, source: str) -> None:
        self._source = printable(source, limit=200)
        self._found: list[tuple[int, int, str]] = []
        self._more = 0

    @property
    def count(self) -> int:
        """How many problems were found so far."""
        return len(self._found) + self._more

    @property
    def full(self) -> bool:
        """True once further problems are only counted."""
        return len(self._found) >= MAX_PROBLEMS

    def add(self, node: Node, path: str, text: str) -> None:
        """Notes that the value at `path` is wrong; `text` says what, and after a semicolon what to do."""
        self.add_at(node.line, node.column, path, text)

    def add_at(self, line: int, column: int, path: str, text: str) -> None:
        """Like `add`, for a place that has no node."""
        if self.full:
            self._more += 1
            return
        where = f"{self._source}:{line}:{column}: "
        self._found.append((line, column, f"{where}{path}: {text}" if path else f"{where}{text}"))

    def error(self) -> PolicyError:
        """The error that holds every problem, in document order."""
        lines = [text for _, _, text in sorted(self._found)]
        if self._more:
            lines.append(f"{self._source}: {self._more} more problems are not listed; repair these first")
        return PolicyError(tuple(lines))

    def check(self) -> None:
        """Raises `error()` if anything was found."""
        if self.count:
            raise self.error()


def printable(text: str, *, limit: int = 60) -> str:
    """`text` on one line, cut to `limit` characters, without control characters, for use in a message."""
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return "".join(char if char.isprintable() else "?" for char in cut)


def join(path: str, key: str) -> str:
    """The path of `key` inside `path`."""
    name = printable(key)
    return f"{path}.{name}" if path else name


def plain_scalar(text: str) -> Scalar:
    """The value of an unquoted YAML scalar: the JSON types of YAML 1.2's core schema, and else text.

    `on`, `yes` and dates are text, unlike in YAML 1.1: an argument may be named so. Numbers with a leading
    zero or more than 40 characters are text too; where a number is wanted, that is reported as such.
    """
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > _MAX_NUMBER or not text or text[0] not in "+-.0123456789":
        return text
    digits = text[1:] if text[0] in "+-" else text
    if digits.isascii() and digits.isdigit():
        return text if len(digits) > 1 and digits[0] == "0" else int(text)
    if not digits or digits[-1] not in "0123456789." or "_" in text or not set(digits) <= set("0123456789.eE+-"):
        return text
    try:
        number = float(text)
    except ValueError:
        return text
    return number if abs(number) <= _MAX_FLOAT else text


_MAX_NUMBER: Final = 40
_MAX_FLOAT: Final = 1.7976931348623157e308
_WORDS: Final[dict[str, Scalar]] = {
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "NULL": None,
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
