"""Reads a policy written as JSON, keeping the place of every value.

Invariants: strict JSON, but that comments do not exist here either; limits as in `nodes`; the first error ends
the reading, because after it places can no longer be trusted.
"""

from __future__ import annotations

import json.decoder
import re
from typing import Final, NoReturn

from otel_loopguard.policy.nodes import MAX_DEPTH, MAX_NODES, Node, Problems, Scalar, Shape

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_MAX_NUMBER: Final = 40
_WORDS: Final[dict[str, Scalar]] = {"true": True, "false": False, "null": None}


class JsonReader:
    """One reading of one document."""

    def __init__(self, text: str, problems: Problems) -> None:
        self._text = text
        self._problems = problems
        self._at = 0
        self._nodes = 0
        self._line = 1
        self._line_start = 0
        self._counted = 0

    def document(self) -> Node:
        """The root.

        Raises:
            PolicyError: the text is not JSON or is over a limit.
        """
        root = self._value(0)
        self._skip()
        if self._at < len(self._text):
            self._fail("more text follows the closing bracket; remove it")
        return root

    def _value(self, depth: int) -> Node:
        self._skip()
        self._nodes += 1
        if self._nodes > MAX_NODES:
            self._fail(f"the file holds more than {MAX_NODES} values; split the policy")
        if depth > MAX_DEPTH:
            self._fail(f"the file is nested more than {MAX_DEPTH} levels deep; flatten it")
        char = self._text[self._at : self._at + 1]
        if char == "{":
            return self._table(depth)
        if char == "[":
            return self._list(depth)
        if char == '"':
            return self._string()
        return self._bare()

    def _table(self, depth: int) -> Node:
        line, column = self._place()
        entries: list[tuple[Node, Node]] = []
        self._at += 1
        while not self._closed("}", first=not entries):
            if self._text[self._at : self._at + 1] != '"':
                self._fail('a key in double quotes is expected here (a policy that begins with "{" is read as JSON)')
            key = self._string()
            self._skip()
            if self._text[self._at : self._at + 1] != ":":
                self._fail("a colon is expected after the key")
            self._at += 1
            entries.append((key, self._value(depth + 1)))
        return Node(line, column, Shape.TABLE, entries=tuple(entries))

    def _list(self, depth: int) -> Node:
        line, column = self._place()
        items: list[Node] = []
        self._at += 1
        while not self._closed("]", first=not items):
            items.append(self._value(depth + 1))
        return Node(line, column, Shape.LIST, items=tuple(items))

    def _closed(self, bracket: str, *, first: bool) -> bool:
        """True at the closing bracket; else steps over the comma that separates elements."""
        self._skip()
        char = self._text[self._at : self._at + 1]
        if char == bracket:
            self._at += 1
            return True
        if not first:
            if char != ",":
                self._fail(f'a comma or "{bracket}" is expected here')
            self._at += 1
            self._skip()
        return False

    def _string(self) -> Node:
        line, column = self._place()
        try:
            text, self._at = json.decoder.scanstring(self._text, self._at + 1, True)  # type: ignore[attr-defined]  # noqa: FBT003
        except ValueError:
            self._fail("the text in quotes is not closed, or holds a bad escape or a control character")
        if any("\ud800" <= char <= "\udfff" for char in text):
            self._fail("half of a surrogate pair is not text; write the character itself")
        return Node(line, column, Shape.SCALAR, text, text)

    def _bare(self) -> Node:
        line, column = self._place()
        for word, value in _WORDS.items():
            if self._text.startswith(word, self._at):
                self._at += len(word)
                return Node(line, column, Shape.SCALAR, value, word)
        found = _NUMBER.match(self._text, self._at)
        if found is None:
            self._fail(
                "a value is expected here: text in double quotes, a number, true, false, null, a list or a table"
            )
        text = found.group()
        if len(text) > _MAX_NUMBER:
            self._fail(f"a number has at most {_MAX_NUMBER} characters")
        number = float(text) if set(text) & set(".eE") else int(text)
        if abs(number) == float("inf"):
            self._fail("the number is too large")
        self._at = found.end()
        return Node(line, column, Shape.SCALAR, number, text)

    def _skip(self) -> None:
        found = _SPACE.match(self._text, self._at)
        self._at = found.end() if found else self._at

    def _place(self) -> tuple[int, int]:
        """Line and column of the current position; counts forward only, so the whole stays linear."""
        breaks = self._text.count("\n", self._counted, self._at)
        if breaks:
            self._line += breaks
            self._line_start = self._text.rfind("\n", self._counted, self._at) + 1
        self._counted = self._at
        return self._line, self._at - self._line_start + 1

    def _fail(self, text: str) -> NoReturn:
        self._problems.add_at(*self._place(), "", f"this is not JSON: {text}" if "JSON" not in text else text)
        raise self._problems.error()
