"""Lists and tables of a policy: how they are read, described and written as JSON Schema.

Invariants: as in `kinds`. A table that was read is a `Section`, which remembers where each key stood.
"""

# ruff: noqa: D102 - what the methods of a kind do stands on the protocol `Kind`
from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from otel_loopguard.policy.kinds import WRONG, Schema, nearest, same, wrong
from otel_loopguard.policy.nodes import Node, Problems, Shape, join, printable


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
            return wrong(node, path, problems, f"a list is expected, this is {shown}; write [{printable(node.text)}]")
        if not self.low <= len(node.items) <= self.high:
            return wrong(node, path, problems, f"{self.low} to {self.high} entries are expected, not {len(node.items)}")
        found: list[Any] = []
        sound = True
        for index, item in enumerate(node.items):
            place = f"{path}[{index}]"
            value = self.of.read(item, place, problems)
            if value is WRONG:
                sound = False
            elif not isinstance(value, Section) and any(same(value, other) for other in found):
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
                hint = "" if problems.full else nearest(name, tuple(self.fields))
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
        # A whole file that is one text may be anything, a key among others: it is not shown.
        whole = not path or node.shape is not Shape.SCALAR or not node.text
        shown = node.shape.value if whole else f'"{printable(node.text)}"'
        problems.add(node, path, f"a table of keys is expected, this is {shown}; write `{{}}` for an empty one")
        return {}
    return {key.text: (key, value) for key, value in node.entries}
