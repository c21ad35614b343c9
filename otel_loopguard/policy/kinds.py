"""The kinds of values that a policy may hold: how each is read, described and written as JSON Schema.

Invariants: `read` never raises; it notes what is wrong, with its place, and returns `WRONG`. A kind's checks
and its JSON Schema stand in one class, so that they cannot drift apart.
"""

# ruff: noqa: D102 - what the methods of a kind do stands on the protocol `Kind`
from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from enum import Enum
from typing import Any, ClassVar, Final, Protocol, TypeAlias

import msgspec

from otel_loopguard.policy.nodes import Node, Problems, Shape, join, printable

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


class Section(msgspec.Struct, frozen=True, eq=False):
    """A table as read: values of all its fields (defaults filled in) and the nodes of those that were written."""

    values: Mapping[str, Any]
    written: Mapping[str, Node]
    path: str
    line: int
    column: int
    sound: bool
    """False where something inside was wrong; then values are only a stand-in."""

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def __contains__(self, name: str) -> bool:
        return name in self.written


class Text(msgspec.Struct, frozen=True):
    """Text of 1 to `limit` characters; with `numbers`, a number stands for its spelling."""

    limit: int = 256
    numbers: bool = False
    pattern: str | None = None
    pattern_words: str = ""

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        if node.shape is not Shape.SCALAR:
            return _wrong(node, path, problems, f"text is expected, this is {node.shape.value}")
        number = isinstance(node.value, int | float) and not isinstance(node.value, bool)
        if not isinstance(node.value, str) and not (number and self.numbers):
            shown = printable(node.text) or "nothing"
            return _wrong(node, path, problems, f'text is expected, this is {shown}; put it in quotes: "{shown}"')
        text = node.text
        if not 1 <= len(text) <= self.limit:
            return _wrong(node, path, problems, f"text of 1 to {self.limit} characters is expected, not {len(text)}")
        if self.pattern is not None and re.fullmatch(self.pattern, text) is None:
            return _wrong(node, path, problems, f'"{printable(text)}" is not allowed; use {self.pattern_words}')
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
            return _wrong(node, path, problems, f"one of {allowed} is expected, this is {node.shape.value}")
        return _wrong(
            node, path, problems, f'"{printable(node.text)}" is not one of {allowed}{_near(node.text, self.words)}'
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
        return _wrong(
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
        return _wrong(node, path, problems, f"true or false is expected, this is {shown}; write it without quotes")

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
            return _wrong(node, path, problems, f"{self._noun} is expected, this is {shown}")
        if self.whole and not float(value).is_integer():
            return _wrong(node, path, problems, f"{self._noun} is expected, this is {printable(node.text)}")
        if not self.low <= value <= self.high:
            return _wrong(
                node, path, problems, f"{printable(node.text)} is out of range; use {self.low} to {self.high}"
            )
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
        return _wrong(node, path, problems, f"text, a number, true or false is expected, this is {shown}")

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


class Listed(msgspec.Struct, frozen=True):
    """A list of one kind without repeats. A lone value stands for a list of one where `lone` says so."""

    of: Any
    low: int = 0
    high: int = 200
    lone: bool = False

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        if node.shape is not Shape.LIST:
            if self.lone and node.shape is Shape.SCALAR and node.value is not None:
                value = self.of.read(node, path, problems)
                return WRONG if value is WRONG else (value,)
            shown = node.shape.value if node.shape is Shape.TABLE or node.value is not None else "null"
            return _wrong(node, path, problems, f"a list is expected, this is {shown}; write [{printable(node.text)}]")
        if not self.low <= len(node.items) <= self.high:
            return _wrong(
                node, path, problems, f"{self.low} to {self.high} entries are expected, not {len(node.items)}"
            )
        found: list[Any] = []
        sound = True
        for index, item in enumerate(node.items):
            place = f"{path}[{index}]"
            value = self.of.read(item, place, problems)
            if value is WRONG:
                sound = False
            elif not isinstance(value, Section) and any(_same(value, other) for other in found):
                problems.add(item, place, f'"{printable(item.text)}" stands twice in this list; remove one')
                sound = False
            else:
                found.append(value)
        return tuple(found) if sound else WRONG

    def schema(self) -> Schema:
        inner = self.of.schema()
        found: Schema = {"type": "array", "items": inner, "uniqueItems": True, "maxItems": self.high}
        if self.low:
            found["minItems"] = self.low
        return {"anyOf": [inner, found]} if self.lone else found

    def describe(self) -> str:
        return f"list of {self.of.describe()}" + (", or one" if self.lone else "")


class Field(msgspec.Struct, frozen=True):
    """One key of a table. Without `default`, the key must be written."""

    kind: Any
    doc: str
    default: Any = WRONG

    @property
    def required(self) -> bool:
        return self.default is WRONG


class Table(msgspec.Struct, frozen=True):
    """A table with fixed keys; `title` names it in the JSON Schema and on the reference page."""

    title: str
    fields: Mapping[str, Field]
    doc: str = ""

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        before = problems.count
        written = _entries(node, path, problems)
        for name, (key, _) in written.items():
            if name not in self.fields:
                hint = "" if problems.full else _near(name, tuple(self.fields))
                hint = hint or f"; known here: {', '.join(self.fields)}"
                problems.add(key, join(path, name), f"unknown key{hint}")
        values: dict[str, Any] = {}
        for name, field in self.fields.items():
            if name in written:
                value = field.kind.read(written[name][1], join(path, name), problems)
                values[name] = field.default if value is WRONG else value
            else:
                values[name] = field.default
                if field.required and node.shape is Shape.TABLE:
                    problems.add(node, path, f"the key `{name}` is missing; add `{name}: …` ({field.kind.describe()})")
        nodes = {name: value for name, (_, value) in written.items()}
        return Section(values, nodes, path, node.line, node.column, problems.count == before)

    def schema(self) -> Schema:
        properties = {}
        for name, field in self.fields.items():
            properties[name] = {"description": field.doc} | field.kind.schema()
            if isinstance(field.default, str | int | float | bool):
                properties[name]["default"] = field.default
        found: Schema = {"type": "object", "additionalProperties": False, "properties": properties}
        required = [name for name, field in self.fields.items() if field.required]
        return found | ({"required": required} if required else {})

    def describe(self) -> str:
        return f"table [{self.title}](#{self.title})"


class Named(msgspec.Struct, frozen=True):
    """A table whose keys the owner chooses, such as tool names; every value is of one kind."""

    of: Any
    noun: str
    longest_key: ClassVar[int] = 256

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        found: dict[str, Any] = {}
        for name, (key, value) in _entries(node, path, problems).items():
            if not 1 <= len(name) <= self.longest_key:
                problems.add(key, path, f"a {self.noun} has 1 to {self.longest_key} characters, not {len(name)}")
                continue
            found[name] = self.of.read(value, join(path, name), problems)
        return {name: value for name, value in found.items() if value is not WRONG}

    def schema(self) -> Schema:
        names = {"minLength": 1, "maxLength": self.longest_key}
        return {"type": "object", "propertyNames": names, "additionalProperties": self.of.schema()}

    def describe(self) -> str:
        return f"one entry per {self.noun}: {self.of.describe()}"


def _entries(node: Node, path: str, problems: Problems) -> dict[str, tuple[Node, Node]]:
    if node.shape is not Shape.TABLE:
        shown = f'"{printable(node.text)}"' if node.shape is Shape.SCALAR and node.text else node.shape.value
        problems.add(node, path, f"a table of keys is expected, this is {shown}; write `{{}}` for an empty one")
        return {}
    return {key.text: (key, value) for key, value in node.entries}


def _near(name: str, known: tuple[str, ...]) -> str:
    close = get_close_matches(name[:64].lower(), known, n=1, cutoff=0.6)
    return f"; did you mean `{close[0]}`?" if close else ""


def _same(left: Any, right: Any) -> bool:
    return isinstance(left, bool) is isinstance(right, bool) and bool(left == right)


def _whole(value: Any) -> Any:
    """A float without fraction as the integer it equals, so that 30.0 and 30 are one setting."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _wrong(node: Node, path: str, problems: Problems, text: str) -> Mark:
    problems.add(node, path, text)
    return WRONG
