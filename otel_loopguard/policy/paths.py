"""Paths into arguments and results: JMESPath, of which the common part is read here and the rest by `jmespath`.

The common part is names (`version`, `order-id`, `"odd name"`), dots, indices (`[0]`, `[-1]`), and projections
(`[*]`, `[]`). It means what JMESPath means by it (property-tested), needs no library, and can also be
rewritten in place. Invariants: reading never raises and takes time linear in the value (n log n where an
expression sorts); rewriting never changes the value it is given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, TypeAlias

import msgspec

from otel_loopguard.errors import MissingExtraError
from otel_loopguard.model import Value

MAX_PATH: Final = 300
"""Characters of one path."""
MAX_STEPS: Final = 32
MAX_EXPRESSION_PARTS: Final = 48
"""Nodes of a full expression's syntax tree."""


class Each(Enum):
    """A projection: the rest of the path is read in every element."""

    ELEMENT = "[*]"
    FLAT = "[]"


class Drop(Enum):
    """What a rewriting function returns to remove the value."""

    DROP = "drop"


DROP: Final = Drop.DROP
Step: TypeAlias = str | int | Each
Change: TypeAlias = Callable[[Value], "Value | Drop"]


class PathError(ValueError):
    """The path cannot be used; the text says why and what to do."""


class Path(msgspec.Struct, frozen=True):
    """A compiled path of the common part."""

    text: str
    steps: tuple[Step, ...]

    def read(self, value: Value) -> Value:
        """What stands at the path; None where nothing does (JMESPath does not tell null from absent)."""
        return _read(value, self.steps)

    def rewrite(self, value: Value, change: Change) -> Value:
        """`value` with everything at the path replaced by `change` of it, or removed; copied only where changed."""
        return _rewrite(value, self.steps, change)

    def begins(self, other: Path) -> bool:
        """True if `other` lies at this path or inside it."""
        return other.steps[: len(self.steps)] == self.steps


class Expression(msgspec.Struct, frozen=True, eq=False):
    """A full JMESPath expression; can only be read."""

    text: str
    search: Callable[[Value], Value]

    def read(self, value: Value) -> Value:
        """What the expression yields; None where it yields nothing or cannot be applied to this value."""
        try:
            return self.search(value)
        except _search_errors():
            return None


Readable: TypeAlias = Path | Expression

_TOKEN: Final = re.compile(
    r'(?P<name>[A-Za-z_$][A-Za-z0-9_$-]*)|"(?P<quoted>(?:[^"\\]|\\["\\/])+)"'
    r"|\[(?P<index>-?[0-9]{1,6})\]|(?P<each>\[\*\])|(?P<flat>\[\])|(?P<dot>\.)"
)


def compile_path(text: str) -> Path:
    """A path of the common part.

    Raises:
        PathError: the text is something else.
    """
    steps = _steps(text)
    if steps is None:
        message = "use names joined by dots, [0], [*] and []; put a name with other characters in double quotes"
        raise PathError(message)
    return Path(text, steps)


def compile_target(text: str) -> Path:
    """A path that can be rewritten: of the common part, and ending in a name.

    Raises:
        PathError: the text is something else.
    """
    path = compile_path(text)
    if not isinstance(path.steps[-1], str):
        message = "a path to remove or rewrite must end in a name"
        raise PathError(message)
    return path


def compile_readable(text: str) -> Readable:
    """A path of the common part where that suffices, else a bounded JMESPath expression.

    Raises:
        PathError: the text is not JMESPath, or is too large or uses a part that could grow without bound.
        MissingExtraError: the text goes beyond the common part and `jmespath` is not installed.
    """
    steps = _steps(text)
    return Path(text, steps) if steps is not None else _expression(text)


def _steps(text: str) -> tuple[Step, ...] | None:
    if not 1 <= len(text) <= MAX_PATH:
        return None
    steps: list[Step] = []
    at = 0
    wants_name = True
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            return None
        at = found.end()
        kind = found.lastgroup
        is_name = kind in {"name", "quoted"}
        if is_name is not wants_name and not (wants_name and not steps and kind != "dot"):
            return None
        wants_name = kind == "dot"
        if kind == "name":
            steps.append(found.group())
        elif kind == "quoted":
            steps.append(re.sub(r'\\(["\\/])', r"\1", found.group("quoted")))
        elif kind == "index":
            steps.append(int(found.group("index")))
        elif kind != "dot":
            steps.append(Each.ELEMENT if kind == "each" else Each.FLAT)
    return None if wants_name or len(steps) > MAX_STEPS else tuple(steps)


def _read(value: Value, steps: tuple[Step, ...]) -> Value:
    if Each.FLAT in steps:
        last = len(steps) - 1 - steps[::-1].index(Each.FLAT)
        whole = _read(value, steps[:last])
        if not isinstance(whole, list | tuple):
            return None
        flat: list[Value] = []
        for item in whole:
            if isinstance(item, list | tuple):
                flat.extend(item)
            else:
                flat.append(item)
        return _project(flat, steps[last + 1 :])
    for index, step in enumerate(steps):
        if isinstance(step, str):
            value = value.get(step) if isinstance(value, Mapping) else None
        elif not isinstance(value, list | tuple):
            return None
        elif isinstance(step, int):
            value = value[step] if -len(value) <= step < len(value) else None
        else:
            return _project(value, steps[index + 1 :])
        if value is None:
            return None
    return value


def _project(items: list[Value] | tuple[Value, ...], rest: tuple[Step, ...]) -> list[Value]:
    found = (_read(item, rest) for item in items)
    return [item for item in found if item is not None]


def _rewrite(value: Value, steps: tuple[Step, ...], change: Change, *, projected: bool = False) -> Value:
    """`projected`: this value is one element of an earlier projection, whose flattening reaches one level less."""
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if isinstance(step, str):
        return _rewrite_key(value, step, rest, change, projected=projected)
    if step is Each.FLAT and projected:
        inner = value if isinstance(value, list | tuple) else None
        return _rewrite(value, rest, change, projected=True) if inner is None else _rewrite_each(inner, rest, change)
    if not isinstance(value, list | tuple):
        return value
    if isinstance(step, int):
        if not -len(value) <= step < len(value):
            return value
        new = _rewrite(value[step], rest, change, projected=projected)
        if new is value[step]:
            return value
        copy = list(value)
        copy[step] = new
        return copy
    return _rewrite_each(value, steps if step is Each.FLAT else rest, change)


def _rewrite_each(items: Sequence[Value], steps: tuple[Step, ...], change: Change) -> Value:
    """Rewrites in every element; `steps` that begin with `[]` stand for the flattening of the elements."""
    new = [_rewrite(item, steps, change, projected=True) for item in items]
    return items if all(after is before for after, before in zip(new, items, strict=True)) else new


def _rewrite_key(value: Value, key: str, rest: tuple[Step, ...], change: Change, *, projected: bool) -> Value:
    if not isinstance(value, Mapping) or key not in value:
        return value
    old = value[key]
    new = _rewrite(old, rest, change, projected=projected) if rest else change(old)
    if new is old:
        return value
    copy = dict(value)
    if new is DROP:
        del copy[key]
    else:
        copy[key] = new
    return copy


# --- Full expressions ---------------------------------------------------------------------------------

_FUNCTIONS: Final = frozenset({
    "abs", "avg", "ceil", "contains", "ends_with", "floor", "keys", "length", "max", "max_by", "min", "min_by",
    "not_null", "sort", "sort_by", "starts_with", "sum", "to_number", "type", "values",
})  # fmt: skip
"""Functions whose result is no larger than what they are given; `to_string`, `join` or `map` can grow it."""
_ONCE: Final = frozenset({"multi_select_list", "multi_select_dict"})
"""Parts that repeat their input: one is linear, a chain of them is exponential."""


def _expression(text: str) -> Expression:
    if len(text) > MAX_PATH:
        message = f"an expression has at most {MAX_PATH} characters"
        raise PathError(message)
    try:
        import jmespath  # noqa: PLC0415 - optional: only paths beyond the common part need it
    except ImportError:
        message = 'this path needs the jmespath library; install it with: pip install "otel-loopguard[policy]"'
        raise MissingExtraError(message) from None
    try:
        compiled = jmespath.compile(text)
    except _search_errors():
        message = "this is not a JMESPath expression"
        raise PathError(message) from None
    _check_size(compiled.parsed)
    return Expression(text, compiled.search)


def _check_size(tree: Mapping[str, Any]) -> None:
    parts = 0
    copies = 0
    pending: list[Any] = [tree]
    while pending:
        part = pending.pop()
        if not isinstance(part, Mapping):
            continue
        parts += 1
        copies += part["type"] in _ONCE
        if part["type"] == "function_expression" and part["value"] not in _FUNCTIONS:
            message = f"the function {part['value']}() is not allowed; use one of {', '.join(sorted(_FUNCTIONS))}"
            raise PathError(message)
        pending.extend(part["children"])
    if parts > MAX_EXPRESSION_PARTS or copies > 1:
        message = f"the expression is too large; use at most {MAX_EXPRESSION_PARTS} parts and one [a, b] or {{a: b}}"
        raise PathError(message)


def _search_errors() -> tuple[type[Exception], ...]:
    """What `jmespath` raises on odd expressions and odd values, its own errors and Python's."""
    from jmespath.exceptions import JMESPathError  # noqa: PLC0415 - optional

    return (JMESPathError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError, Warning)
