"""The kinds of single values that a policy may hold: how each is read, described and written as JSON Schema.

Invariants: `read` never raises; it notes what is wrong, with its place, and returns `WRONG`. A kind's checks
and its JSON Schema stand in one class, so that they cannot drift apart.
"""

# ruff: noqa: D102 - what the methods of a kind do stands on the protocol `Kind`
from __future__ import annotations

import re
from difflib import get_close_matches
from enum import Enum
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from otel_loopguard.policy.nodes import Node, Problems, Shape, printable

Schema: TypeAlias = dict[str, Any]


class Mark(Enum):
    """Stands for a value that could not be read."""

    WRONG = "wrong"


WRONG: Final = Mark.WRONG


class Kind(Protocol):
    """One kind of value."""

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        """The value, or `WRONG` after noting why."""

    def schema(self) -> Schema:
        """JSON Schema of the value."""

    def describe(self) -> str:
        """A few words for the reference page."""


class Text(msgspec.Struct, frozen=True):
    """Text of 1 to `limit` characters; with `numbers`, a number stands for its spelling."""

    limit: int = 256
    numbers: bool = False
    pattern: str | None = None
    pattern_words: str = ""

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        if node.shape is not Shape.SCALAR:
            return wrong(node, path, problems, f"text is expected, this is {node.shape.value}")
        number = isinstance(node.value, int | float) and not isinstance(node.value, bool)
        if not isinstance(node.value, str) and not (number and self.numbers):
            shown = printable(node.text) or "nothing"
            return wrong(node, path, problems, f'text is expected, this is {shown}; put it in quotes: "{shown}"')
        text = node.text
        if not 1 <= len(text) <= self.limit:
            return wrong(node, path, problems, f"text of 1 to {self.limit} characters is expected, not {len(text)}")
        if self.pattern is not None and re.fullmatch(self.pattern, text) is None:
            return wrong(node, path, problems, f'"{printable(text)}" is not allowed; use {self.pattern_words}')
        return text

    def schema(self) -> Schema:
        found: Schema = {"type": ["string", "number"] if self.numbers else "string"}
        found |= {"minLength": 1, "maxLength": self.limit}
        if self.pattern is not None:
            found["pattern"] = f"^(?:{self.pattern})$"
        return found

    def describe(self) -> str:
        return "text or number" if self.numbers else "text"


class Choice(msgspec.Struct, frozen=True):
    """One of a few words."""

    words: tuple[str, ...]

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        if node.shape is Shape.SCALAR and isinstance(node.value, str) and node.value in self.words:
            return node.value
        allowed = ", ".join(self.words)
        if node.shape is not Shape.SCALAR:
            return wrong(node, path, problems, f"one of {allowed} is expected, this is {node.shape.value}")
        return wrong(
            node, path, problems, f'"{printable(node.text)}" is not one of {allowed}{nearest(node.text, self.words)}'
        )

    def schema(self) -> Schema:
        return {"enum": list(self.words)}

    def describe(self) -> str:
        return " or ".join(f"`{word}`" for word in self.words)


class Exactly(msgspec.Struct, frozen=True):
    """One number and no other: the version of the format."""

    number: int

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        if node.shape is Shape.SCALAR and type(node.value) is int and node.value == self.number:
            return self.number
        shown = printable(node.text) if node.shape is Shape.SCALAR else node.shape.value
        if isinstance(node.value, str) and node.shape is Shape.SCALAR:
            shown = f'"{shown}"'
        return wrong(
            node, path, problems, f"{shown or 'nothing'} is not a version this program reads; write {self.number}"
        )

    def schema(self) -> Schema:
        return {"const": self.number}

    def describe(self) -> str:
        return f"`{self.number}`"


class Flag(msgspec.Struct, frozen=True):
    """true or false."""

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        if node.shape is Shape.SCALAR and isinstance(node.value, bool):
            return node.value
        shown = f'"{printable(node.text)}"' if node.shape is Shape.SCALAR else node.shape.value
        return wrong(node, path, problems, f"true or false is expected, this is {shown}; write it without quotes")

    def schema(self) -> Schema:
        return {"type": "boolean"}

    def describe(self) -> str:
        return "`true` or `false`"


class Number(msgspec.Struct, frozen=True):
    """A number from `low` to `high`, both included; `whole` refuses fractions, `nullable` allows null."""

    low: int
    high: int
    whole: bool = True
    nullable: bool = False

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        value = node.value
        if node.shape is Shape.SCALAR and value is None and self.nullable:
            return None
        if node.shape is not Shape.SCALAR or isinstance(value, bool) or not isinstance(value, int | float):
            shown = f'"{printable(node.text)}"' if node.shape is Shape.SCALAR else node.shape.value
            return wrong(node, path, problems, f"{self._noun} is expected, this is {shown}")
        if self.whole and not float(value).is_integer():
            return wrong(node, path, problems, f"{self._noun} is expected, this is {printable(node.text)}")
        if not self.low <= value <= self.high:
            return wrong(node, path, problems, f"{printable(node.text)} is out of range; use {self.low} to {self.high}")
        return int(value) if self.whole else float(value)

    @property
    def _noun(self) -> str:
        return ("a whole number" if self.whole else "a number") + (" or null" if self.nullable else "")

    def schema(self) -> Schema:
        name = "integer" if self.whole else "number"
        return {"type": [name, "null"] if self.nullable else name, "minimum": self.low, "maximum": self.high}

    def describe(self) -> str:
        return f"{self._noun[2:]}, {self.low} to {self.high}"


class AnyScalar(msgspec.Struct, frozen=True):
    """Text, a number, true or false: a value that a result can hold."""

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        if node.shape is Shape.SCALAR and node.value is not None:
            return _whole(node.value)
        shown = "null" if node.shape is Shape.SCALAR else node.shape.value
        return wrong(node, path, problems, f"text, a number, true or false is expected, this is {shown}")

    def schema(self) -> Schema:
        return {"type": ["string", "number", "boolean"]}

    def describe(self) -> str:
        return "text, number, `true` or `false`"


class Anything(msgspec.Struct, frozen=True):
    """Any JSON value, as an argument's default may be."""

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        if node.shape is Shape.SCALAR:
            return _whole(node.value)
        if node.shape is Shape.LIST:
            return [self.read(item, path, problems) for item in node.items]
        return {key.text: self.read(value, path, problems) for key, value in node.entries}

    def schema(self) -> Schema:
        return {}

    def describe(self) -> str:
        return "any value"


def nearest(name: str, known: tuple[str, ...]) -> str:
    """The end of a message that names the known word nearest to `name`; empty if none is near."""
    close = get_close_matches(name[:64].lower(), known, n=1, cutoff=0.6)
    return f"; did you mean `{close[0]}`?" if close else ""


def same(left: Any, right: Any) -> bool:
    """JSON equality of scalars: 1 is 1.0, true is not 1."""
    return isinstance(left, bool) is isinstance(right, bool) and bool(left == right)


def _whole(value: Any) -> Any:
    """A float without fraction as the integer it equals, so that 30.0 and 30 are one setting."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def wrong(node: Node, path: str, problems: Problems, text: str) -> Mark:
    """Notes what is wrong and returns `WRONG`."""
    problems.add(node, path, text)
    return WRONG
