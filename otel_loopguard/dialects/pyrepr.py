"""Reads Python's repr of plain values: dict, list, tuple, str, bytes, int, float, bool and None.

Invariants: no `eval`, no recursion, time and memory linear in the text; text that is anything else, too long or too
deep gives `NotAReprError` and nothing else. Values come out as JSON would have carried them: a tuple is a list, and a
number, bool or None as a dict key is its JSON text.
"""

from __future__ import annotations

import re
from typing import Final

from otel_loopguard.model import Value

MAX_CHARS: Final = 262_144
"""Longest text that is read, in characters; longer text stays text. Longer reprs are files, not records."""

MAX_DEPTH: Final = 64
"""Deepest nesting of containers that is read."""

_MAX_DIGITS: Final = 4300
"""Python's own limit for turning decimal text into an integer."""

_TOKEN: Final = re.compile(
    r"""[ \t\r\n]*(?:
        (?P<string>[bB]?(?:'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*"))
      | (?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?(?![\w.]))
      | (?P<word>(?:True|False|None|-?inf|nan)(?!\w))
      | (?P<mark>[\[\](){},:])
    )""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_WORDS: Final = {
    "True": True,
    "False": False,
    "None": None,
    "inf": float("inf"),
    "-inf": float("-inf"),
    "nan": float("nan"),
}
_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_ESCAPED: Final = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "r": "\r", "t": "\t"}
_CLOSERS: Final = {"[": "]", "(": ")", "{": "}"}
_FIELD: Final = re.compile(r"[ ,\t\r\n]*([A-Za-z_][A-Za-z0-9_]*)=")
_MAX_CODE_POINT: Final = 0x10FFFF


class NotAReprError(ValueError):
    """The text is not the repr of plain values, or is over the bounds. Carries no text."""


def read(text: str) -> Value:
    """Reads text that is one value's repr from its first to its last character.

    Raises:
        NotAReprError: anything else.
    """
    value, end = read_at(text, 0)
    if text[end:].strip():
        raise NotAReprError
    return value


def fields(text: str) -> dict[str, Value]:
    """Reads the fields of an object's repr, `name=value name=value` or comma-separated, as far as they are plain.

    Returns:
        The fields before the first one whose value is not a plain repr, in order; may be empty.
    """
    found: dict[str, Value] = {}
    at = 0
    while match := _FIELD.match(text, at):
        try:
            found[match.group(1)], at = read_at(text, match.end())
        except NotAReprError:
            break
    return found


def read_at(text: str, start: int) -> tuple[Value, int]:
    """Reads one value's repr that begins at `start`.

    Returns:
        The value, and the index behind its last character.

    Raises:
        NotAReprError: no plain value's repr begins there, or it is over the bounds.
    """
    if len(text) - start > MAX_CHARS:
        raise NotAReprError
    open_containers: list[_Container] = []
    at = start
    while True:
        token = _TOKEN.match(text, at)
        if token is None:
            raise NotAReprError
        at = token.end()
        mark = token.group("mark")
        if mark is None:
            value = _scalar(token)
        elif mark in _CLOSERS:
            if len(open_containers) >= MAX_DEPTH:
                raise NotAReprError
            open_containers.append(_Container(mark))
            continue
        elif not open_containers:
            raise NotAReprError
        elif mark in ",:":
            open_containers[-1].separate(mark)
            continue
        else:
            value = open_containers.pop().close(mark)
        if not open_containers:
            return value, at
        open_containers[-1].add(value)


class _Container:
    """One container that is being read; `awaits` is what may come next."""

    __slots__ = ("awaits", "closer", "commas", "entries", "items", "key")

    def __init__(self, opener: str) -> None:
        self.closer = _CLOSERS[opener]
        self.items: list[Value] = []
        self.entries: dict[str, Value] | None = {} if opener == "{" else None
        self.awaits = "item" if self.entries is None else "key"
        self.key = ""
        self.commas = 0

    def add(self, value: Value) -> None:
        if self.awaits == "item":
            self.items.append(value)
        elif self.awaits == "key":
            self.key = _key(value)
            self.awaits = "colon"
            return
        elif self.awaits == "value" and self.entries is not None and self.key not in self.entries:
            self.entries[self.key] = value
        else:
            raise NotAReprError
        self.awaits = "comma"

    def separate(self, mark: str) -> None:
        if mark == ":" and self.awaits == "colon":
            self.awaits = "value"
        elif mark == "," and self.awaits == "comma":
            self.commas += 1
            self.awaits = "item" if self.entries is None else "key"
        else:
            raise NotAReprError

    def close(self, mark: str) -> Value:
        if mark != self.closer or self.awaits in ("colon", "value"):
            raise NotAReprError
        if self.entries is not None:
            return self.entries
        in_brackets_only = mark == ")" and len(self.items) == 1 and not self.commas
        return self.items[0] if in_brackets_only else self.items


def _scalar(token: re.Match[str]) -> Value:
    word, number = token.group("word"), token.group("number")
    if word is not None:
        return _WORDS[word]
    if number is not None:
        if len(number) > _MAX_DIGITS:
            raise NotAReprError
        return float(number) if any(mark in number for mark in ".eE") else int(number)
    string = token.group("string")
    if string[0] in "bB":
        try:
            return _unescaped(string[2:-1]).encode("latin-1")
        except UnicodeEncodeError:
            raise NotAReprError from None
    return _unescaped(string[1:-1])


def _unescaped(body: str) -> str:
    return _ESCAPE.sub(_character, body) if "\\" in body else body


def _character(escape: re.Match[str]) -> str:
    code = escape.group(1) or escape.group(2) or escape.group(3)
    if code is not None:
        point = int(code, 16)
        if point > _MAX_CODE_POINT:
            raise NotAReprError
        return chr(point)
    character = _ESCAPED.get(escape.group(4))
    if character is None:
        raise NotAReprError
    return character


def _key(value: Value) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    raise NotAReprError
