"""Small changes of one module's syntax tree: what a slip of the keyboard or of the mind would leave behind.

Invariants: the same text gives the same mutants in the same order; a tree is changed only inside `Mutant.applied` and
line numbers never move. Not touched: annotations, docstrings, decorators, class keywords, messages (text with a space
in it, f-strings), `__all__`, `__slots__`, and what only type checkers see.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

Enums = Mapping[str, Sequence[Sequence[str]]]
"""Members in order, of each enumeration of a name (there may be several)."""

_OPERATORS: Final[Mapping[type[ast.AST], type[Any]]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr, ast.BitXor: ast.BitOr,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
_CALLS: Final[Mapping[str, str]] = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list"}
_NORMALISERS: Final = frozenset({"strip", "lstrip", "rstrip", "lower", "casefold", "removeprefix", "removesuffix"})
_UNTOUCHED_NAMES: Final = frozenset({"__all__", "__slots__"})
_UNTOUCHED_CALLS: Final = frozenset({"cast", "TypeVar"})
_UNTOUCHED_FIELDS: Final = frozenset({"annotation", "returns", "decorator_list", "bases", "keywords of a class", "ctx"})
_NAMED_BY: Final[Mapping[type[ast.AST], tuple[str, ...]]] = {ast.Set: ("elts",), ast.Dict: ("keys",)}
"""Constants that are left out one by one: to misspell one says the same."""
_CONDITIONS: Final = (ast.Compare, ast.BoolOp)
_COMPOUND: Final = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.FunctionDef, ast.ClassDef, ast.Match)


class Place(NamedTuple):
    """Where a node hangs: a field of its owner, or one place of a field that is a list."""

    owner: ast.AST
    field: str
    at: int | None = None

    def put(self, node: ast.AST | None) -> None:
        """Hang `node` there."""
        if self.at is None:
            setattr(self.owner, self.field, node)
        else:
            getattr(self.owner, self.field)[self.at] = node


class Mutant(NamedTuple):
    """One change of one module."""

    path: str
    first: int
    last: int
    """Lines of the statement, of a compound one those of its head: tests that run none of them cannot tell."""
    line: int
    before: str
    after: str
    in_function: bool
    """False: it takes effect only while the module is imported."""
    place: Place
    old: ast.AST
    new: ast.AST

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.before} -> {self.after}"

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Change the tree, and change it back."""
        self.place.put(self.new)
        try:
            yield
        finally:
            self.place.put(self.old)


def enumerations(trees: Sequence[ast.Module]) -> dict[str, list[list[str]]]:
    """Every enumeration that the trees define."""
    found: dict[str, list[list[str]]] = {}
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base).endswith("Enum") for base in node.bases):
            assigned = [one.targets[0] for one in node.body if isinstance(one, ast.Assign)]
            found.setdefault(node.name, []).append([name.id for name in assigned if isinstance(name, ast.Name)])
    return found


def mutants(path: str, tree: ast.Module, enums: Enums) -> list[Mutant]:
    """Every mutant of the module, in the order of its text."""
    return list(_Walk(path, enums).block(tree, function=None))


class _Walk:
    """One walk over one module."""

    def __init__(self, path: str, enums: Enums) -> None:
        self._path = path
        self._enums = enums

    def block(self, owner: ast.AST, *, function: ast.FunctionDef | None) -> Iterator[Mutant]:
        """Mutants of every statement that hangs on `owner`."""
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(owner, field, None)
            for index, statement in enumerate(statements if isinstance(statements, list) else ()):
                yield from self._statement(Place(owner, field, index), statement, function)
        for part in (*getattr(owner, "handlers", ()), *getattr(owner, "cases", ())):
            yield from self.block(part, function=function)
            if isinstance(part, ast.ExceptHandler) and isinstance(part.type, ast.Tuple):
                for rest in _shorter(part.type, "elts"):
                    lines = (part.lineno, part.lineno, part.lineno)
                    yield self._mutant(Place(part, "type"), part.type, rest, lines=lines, inside=function is not None)

    def _statement(self, place: Place, node: ast.stmt, function: ast.FunctionDef | None) -> Iterator[Mutant]:
        if _untouched(node):
            return
        inside = function is not None
        last = node.end_lineno or node.lineno
        if isinstance(node, _COMPOUND):
            inner = node.cases[0].pattern if isinstance(node, ast.Match) else node.body[0]
            last = max(node.lineno, inner.lineno - 1)
        lines = (node.lineno, last, node.lineno)
        if _deletable(node, function):
            gone = ast.copy_location(ast.Pass(), node)
            yield self._mutant(place, node, gone, lines=lines, inside=inside)
        if isinstance(node, ast.Return) and not _is_nothing(node.value):
            yield self._mutant(place, node, ast.Return(ast.Constant(None)), lines=lines, inside=inside)
        if isinstance(node, ast.FunctionDef):
            yield from self._fields(node.args, lines, inside=inside)
            yield from self.block(node, function=node)
            return
        if not isinstance(node, ast.ClassDef):
            yield from self._fields(node, lines, inside=inside)
        yield from self.block(node, function=function)

    def _fields(self, owner: ast.AST, lines: tuple[int, int, int], *, inside: bool) -> Iterator[Mutant]:
        """Mutants of the expressions below `owner`."""
        for field, value in ast.iter_fields(owner):
            if field in _UNTOUCHED_FIELDS or (isinstance(owner, ast.Call) and _name(owner.func) in _UNTOUCHED_CALLS):
                continue
            listed = isinstance(value, list)
            for index, node in enumerate(value if listed else (value,)):
                if isinstance(node, ast.stmt | ast.JoinedStr | ast.ExceptHandler | ast.match_case):
                    continue
                if field in _NAMED_BY.get(type(owner), ()) and isinstance(node, ast.Constant) and len(value) > 1:
                    continue
                if isinstance(node, ast.AST):
                    place = Place(owner, field, index if listed else None)
                    yield from self._expression(place, node, lines, inside=inside)

    def _expression(
        self, place: Place, node: ast.AST, lines: tuple[int, int, int], *, inside: bool
    ) -> Iterator[Mutant]:
        at = (*lines[:2], getattr(node, "lineno", lines[2]))
        for new in _replacements(place, node, self._enums, inside=inside):
            yield self._mutant(place, node, new, lines=at, inside=inside)
        yield from self._fields(node, at, inside=inside or isinstance(node, ast.Lambda))

    def _mutant(self, place: Place, old: ast.AST, new: ast.AST, *, lines: tuple[int, int, int], inside: bool) -> Mutant:
        if isinstance(old, ast.expr | ast.stmt):
            new = ast.fix_missing_locations(ast.copy_location(new, old))
        first, last, line = lines
        shown = place.owner if isinstance(old, ast.operator | ast.cmpop | ast.boolop) else old
        before = _brief(shown)
        place.put(new)
        after = _brief(shown if shown is place.owner else new)
        place.put(old)
        return Mutant(self._path, first, last, line, before, after, inside, place, old, new)


def _brief(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    most = 110
    return text if len(text) <= most else f"{text[:most]}…"


def _name(node: ast.AST) -> str | None:
    return node.id if isinstance(node, ast.Name) else None


def _is_nothing(value: ast.expr | None) -> bool:
    """Whether returning None instead says the same to whoever asks for truth: no value, None or False."""
    return value is None or (isinstance(value, ast.Constant) and value.value in {None, False})


def _untouched(node: ast.stmt) -> bool:
    """Whether the statement is only for readers, for type checkers or for the interpreter's import."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.Assign):
        return _name(node.targets[0]) in _UNTOUCHED_NAMES
    if isinstance(node, ast.AnnAssign):
        return node.value is None or ast.unparse(node.annotation) == "TypeAlias"
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "TYPE_CHECKING"
    return isinstance(node, ast.Import | ast.ImportFrom | ast.Pass)


def _deletable(node: ast.stmt, function: ast.FunctionDef | None) -> bool:
    """Whether the code can run without the statement: a name must be bound elsewhere too."""
    if isinstance(node, ast.If):
        return not node.orelse
    if isinstance(node, ast.Expr | ast.AugAssign | ast.Raise | ast.Break | ast.Continue | ast.Delete | ast.For):
        return True
    if function is None or not isinstance(node, ast.Assign | ast.AnnAssign):
        return False
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    if isinstance(target, ast.Attribute | ast.Subscript):
        return True
    if not isinstance(target, ast.Name):
        return False
    bound = [one for one in ast.walk(function) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]
    parameters = [one.arg for one in ast.walk(function.args) if isinstance(one, ast.arg)]
    return [*parameters, *(one.id for one in bound)].count(target.id) > 1


def _replacements(place: Place, node: ast.AST, enums: Enums, *, inside: bool) -> Iterator[ast.AST]:  # noqa: C901, PLR0912 - a table of shapes
    """What may stand instead of an expression."""
    match node:
        case ast.cmpop() | ast.boolop() | ast.operator():
            yield _OPERATORS[type(node)]()
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield node.operand
        case ast.Constant():
            yield from _constants(node.value)
        case ast.IfExp():
            yield ast.IfExp(node.test, node.orelse, node.body)
        case ast.Call():
            yield from _calls(node)
        case ast.Attribute(value=ast.Name(id=name), attr=attr):
            for members in enums.get(name, ()):
                if attr in members and len(members) > 1:
                    other = members[(members.index(attr) + 1) % len(members)]
                    yield ast.Attribute(node.value, other, ast.Load())
                    break
        case ast.Set():
            yield from _shorter(node, "elts")
        case ast.Dict():
            for index in range(len(node.keys) if len(node.keys) > 1 else 0):
                yield ast.Dict(_without(node.keys, index), _without(node.values, index))
        case ast.Tuple() | ast.List() if not inside and isinstance(node.ctx, ast.Load):
            yield from _shorter(node, "elts")
        case ast.comprehension():
            for index in range(len(node.ifs)):
                yield ast.comprehension(node.target, node.iter, _without(node.ifs, index), node.is_async)
    if isinstance(node, ast.BoolOp):
        for index in range(len(node.values)):
            rest = _without(node.values, index)
            yield rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
    if isinstance(place.owner, ast.Call) and isinstance(node, ast.BinOp) and _name(place.owner.func) == "isinstance":
        yield node.left
        yield node.right
    is_test = place.field == "test" or (place.field == "ifs" and isinstance(place.owner, ast.comprehension))
    if is_test and not isinstance(node, _CONDITIONS) and not isinstance(node, ast.UnaryOp | ast.Constant):
        yield ast.UnaryOp(ast.Not(), node)  # type: ignore[arg-type]


def _constants(value: object) -> Iterator[ast.AST]:
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int | float):
        yield ast.Constant(value + 1)
        yield ast.Constant(value - 1)
    elif isinstance(value, str) and " " not in value:
        yield ast.Constant(f"XX{value}")
    elif isinstance(value, bytes):
        yield ast.Constant(b"XX" + value)


def _calls(node: ast.Call) -> Iterator[ast.AST]:
    other = _CALLS.get(_name(node.func) or "")
    if other == "list":
        yield ast.Call(ast.Name(other, ast.Load()), node.args, [])
    elif other is not None:
        yield ast.Call(ast.Name(other, ast.Load()), node.args, node.keywords)
    if isinstance(node.func, ast.Attribute) and node.func.attr in _NORMALISERS:
        yield node.func.value
    for index in range(len(node.keywords)):
        yield ast.Call(node.func, node.args, _without(node.keywords, index))


def _shorter(node: ast.Set | ast.Tuple | ast.List, field: str) -> Iterator[ast.AST]:
    listed = getattr(node, field)
    for index in range(len(listed) if len(listed) > 1 else 0):
        rest = _without(listed, index)
        yield ast.Set(rest) if isinstance(node, ast.Set) else type(node)(rest, ast.Load())


def _without(listed: Sequence[Any], index: int) -> list[Any]:
    return [*listed[:index], *listed[index + 1 :]]
