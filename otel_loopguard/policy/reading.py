"""Reads the text of a policy, YAML or JSON, into nodes with places.

Invariants: no recursion on the document's depth beyond `MAX_DEPTH`; anchors, aliases, tags, duplicate keys and
second documents are refused, so nothing expands; whatever the text, the outcome is a node or `PolicyError`.
A document that begins with `{` is JSON and needs no YAML library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from otel_loopguard.errors import MissingExtraError
from otel_loopguard.policy.json_text import JsonReader
from otel_loopguard.policy.nodes import MAX_BYTES, MAX_DEPTH, MAX_NODES, Node, Problems, Shape, join, plain_scalar

if TYPE_CHECKING:
    from collections.abc import Iterator

_BYTE_ORDER_MARK = "\ufeff"


def parse(text: str, problems: Problems) -> Node:
    """The document's root.

    Raises:
        PolicyError: the text is no readable document; or a key stands twice in one table.
        MissingExtraError: the text is YAML and PyYAML is not installed.
    """
    text = text.removeprefix(_BYTE_ORDER_MARK)
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        problems.add_at(1, 1, "", "the file is not valid text; save it as UTF-8")
        raise problems.error() from None
    if size > MAX_BYTES:
        problems.add_at(1, 1, "", f"the file has {size} bytes; at most {MAX_BYTES} are read")
        raise problems.error()
    if not text.strip():
        problems.add_at(1, 1, "", "the file is empty; begin with `version: 1`")
        raise problems.error()
    if text.lstrip().startswith("{"):
        root = JsonReader(text, problems).document()
    else:
        root = _YamlBuilder(problems).build(text)
    _refuse_duplicates(root, "", problems)
    return root


def _refuse_duplicates(node: Node, path: str, problems: Problems) -> None:
    seen: dict[str, Node] = {}
    for key, value in node.entries:
        place = join(path, key.text)
        if key.text in seen:
            problems.add(key, place, f"this key already stands in line {seen[key.text].line}; keep one of the two")
        seen.setdefault(key.text, key)
        _refuse_duplicates(value, place, problems)
    for index, item in enumerate(node.items):
        _refuse_duplicates(item, f"{path}[{index}]", problems)


class _Open:
    """A list or table whose end has not been read yet."""

    def __init__(self, line: int, column: int, shape: Shape) -> None:
        self.line = line
        self.column = column
        self.shape = shape
        self.nodes: list[Node] = []

    def close(self) -> Node:
        if self.shape is Shape.LIST:
            return Node(self.line, self.column, self.shape, items=tuple(self.nodes))
        pairs = zip(self.nodes[::2], self.nodes[1::2], strict=True)
        return Node(self.line, self.column, self.shape, entries=tuple(pairs))


class _YamlBuilder:
    """Builds nodes from PyYAML's events, which come one by one: limits act before memory is spent."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._open: list[_Open] = []
        self._root: Node | None = None
        self._nodes = 0

    def build(self, text: str) -> Node:
        try:
            import yaml  # noqa: PLC0415 - optional: only policies written in YAML need it
        except ImportError:
            message = 'a policy in YAML needs PyYAML; install it with: pip install "otel-loopguard[policy]"'
            raise MissingExtraError(message) from None
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            for event in yaml.parse(text, Loader=loader):
                self._take(type(event).__name__, event)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
            self._problems.add_at(line, column, "", _yaml_message(error.problem or ""))
        except yaml.reader.ReaderError:
            self._problems.add_at(*_first_unprintable(text), "", "a control character stands here; remove it")
        except (yaml.YAMLError, ValueError, ArithmeticError):
            # PyYAML's own scanner lets errors of `chr` and `int` escape on absurd escapes and directives.
            self._problems.add_at(1, 1, "", "this is not YAML; compare it with the example in the documentation")
        self._problems.check()
        if self._root is None:
            self._fail(1, 1, "the file holds no policy; begin with `version: 1`")
        return self._root

    def _take(self, name: str, event: Any) -> None:
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        if name in {"StreamStartEvent", "StreamEndEvent", "DocumentEndEvent"}:
            return
        if name == "DocumentStartEvent":
            if self._root is not None:
                self._fail(line, column, "a second document begins here; a policy is one document")
            return
        if name in {"SequenceEndEvent", "MappingEndEvent"}:
            self._place(self._open.pop().close())
            return
        self._refuse_sharing(name, event, line, column)
        self._count(line, column)
        if name == "ScalarEvent":
            self._scalar(event, line, column)
        else:
            self._begin(Shape.LIST if name == "SequenceStartEvent" else Shape.TABLE, line, column)

    def _refuse_sharing(self, name: str, event: Any, line: int, column: int) -> None:
        if name == "AliasEvent" or event.anchor is not None:
            self._fail(line, column, "anchors and aliases (`&` and `*`) are not supported; write the value out")
        if event.tag is not None:
            self._fail(line, column, "tags (`!`) are not supported; write the plain value")

    def _count(self, line: int, column: int) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            self._fail(line, column, f"the file holds more than {MAX_NODES} values; split the policy")

    def _scalar(self, event: Any, line: int, column: int) -> None:
        text: str = event.value
        value = plain_scalar(text) if event.implicit[0] else text
        if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
            self._fail(line, column, "half of a surrogate pair is not text; write the character itself")
        self._place(Node(line, column, Shape.SCALAR, value, text))

    def _begin(self, shape: Shape, line: int, column: int) -> None:
        parent = self._open[-1] if self._open else None
        if parent is not None and parent.shape is Shape.TABLE and len(parent.nodes) % 2 == 0:
            self._fail(line, column, "a key must be plain text; a value that begins with `[` or `{` needs quotes")
        if len(self._open) >= MAX_DEPTH:
            self._fail(line, column, f"the file is nested more than {MAX_DEPTH} levels deep; flatten it")
        self._open.append(_Open(line, column, shape))

    def _place(self, node: Node) -> None:
        if self._open:
            self._open[-1].nodes.append(node)
        else:
            self._root = node

    def _fail(self, line: int, column: int, text: str) -> NoReturn:
        self._problems.add_at(line, column, "", text)
        raise self._problems.error()


def _yaml_message(problem: str) -> str:
    """PyYAML's own words, and what to do about the commonest."""
    if "'\\t'" in problem or "cannot start any token" in problem:
        return "a tab or another character that YAML does not allow here; indent with spaces, quote special text"
    if "mapping values are not allowed" in problem:
        return "a colon is not allowed here; check the indentation, and quote text that holds a colon"
    if "nesting depth" in problem:
        return f"the file is nested more than {MAX_DEPTH} levels deep; flatten it"
    return f"this is not YAML ({problem or 'no reason given'}); check indentation, brackets and quotes near here"


def _first_unprintable(text: str) -> tuple[int, int]:
    """Line and column of the first character that is neither printable nor white space."""
    lines: Iterator[tuple[int, str]] = enumerate(text.split("\n"), start=1)
    for number, line in lines:
        for column, char in enumerate(line, start=1):
            if not char.isprintable() and char not in "\t\r ":
                return number, column
    return 1, 1
