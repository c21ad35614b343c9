"""Progress rules: what each takes from one call, and what two calls of one tool say when compared.

Invariants: a value that is absent or of the wrong type is unknown, never progress; a bool is not a number;
marks hold the tool's own numbers, positions, counts and keyed digests, no text. Nothing here raises.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from enum import StrEnum
from math import isfinite
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import msgspec

from otel_loopguard.errors import LoopGuardError
from otel_loopguard.model import Mark, Progress, Signals, Value

if TYPE_CHECKING:
    from otel_loopguard.policy.paths import Readable

_MAX_INT: Final = 2**63
"""Integers from here on are unknown: what keeps marks holds no larger ones, and a float would hide their steps."""
MAX_ITEMS: Final = 10_000
"""Items taken from one result. Of more, none are: an item left out could be the new one."""


class Digests(Protocol):
    """The part of `digest.Digester` that signals need."""

    def state(self, value: Value) -> str:
        """32 hex characters."""

    def item(self, value: Value) -> int:
        """64 bits."""


class Rule(StrEnum):
    """How a value shows progress from one call to the next."""

    INCREASES = "increases"
    CHANGES = "changes"
    SHRINKS = "shrinks"
    NEW_ITEMS = "new_items"
    IN_ORDER = "in_order"
    REACHES = "reaches"


MarkValue: TypeAlias = float | int | str | tuple[int, ...] | None
Judged: TypeAlias = tuple[Progress, str | None]
ProgressCallable: TypeAlias = Callable[[Value, Value], "float | int | str | bool | None"]


class ProgressRule(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """One declared rule; exactly one of `path` and `callable` says where its value comes from."""

    rule: Rule
    path: Readable | None = None
    callable: ProgressCallable | None = None
    name: str
    """The path's text or the callable's name."""
    values: tuple[str | int | float | bool, ...] = ()
    """The states of `in_order` (in order) and `reaches`."""

    @property
    def label(self) -> str:
        """What findings call this rule, such as `version increases`."""
        return f"{self.name} {self.rule}"

    def value(self, arguments: Value, result: Value) -> Value:
        """What the rule looks at in this call; None where that is absent."""
        if self.path is not None:
            return self.path.read(result)
        return None if self.callable is None else _called(self.callable, arguments, result)

    def mark(self, value: Value, digests: Digests) -> MarkValue:
        """The comparable form of a value of this rule."""
        match self.rule:
            case Rule.INCREASES:
                return _number(value)
            case Rule.SHRINKS:
                return len(value) if isinstance(value, list | tuple | Mapping) else _number(value)
            case Rule.CHANGES:
                return None if value is None else digest_of(value, digests)
            case Rule.NEW_ITEMS:
                return items(value, self.name, digests)
            case Rule.IN_ORDER:
                return position(value, self.values)
            case Rule.REACHES:
                return None if value is None else int(position(value, self.values) is not None)

    def judge(self, before: MarkValue, now: MarkValue, seen: Container[int]) -> Progress:
        """Whether the mark advanced. `new_items` needs no call before: what is seen is what counts."""
        if self.rule is Rule.NEW_ITEMS and isinstance(now, tuple):
            return Progress.ADVANCED if any(item not in seen for item in now) else Progress.UNCHANGED
        if now is None or before is None or isinstance(before, tuple) or isinstance(now, tuple):
            return Progress.UNKNOWN
        if isinstance(before, str) or isinstance(now, str):
            moved = before != now
        elif self.rule is Rule.SHRINKS:
            moved = now < before
        else:
            moved = now > before
        return Progress.ADVANCED if moved else Progress.UNCHANGED


def _called(function: ProgressCallable, arguments: Value, result: Value) -> Value:
    try:
        found: Value = function(arguments, result)
    except Exception:  # noqa: BLE001 - the owner's code: whatever it raises must not reach the application
        return None
    return found if isinstance(found, str | int | float) else None


def digest_of(value: Value, digests: Digests) -> str | None:
    """The digest of a state; None for a value that has no canonical form."""
    try:
        return digests.state(value)
    except LoopGuardError:
        return None


def _number(value: Value) -> float | int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, int):
        return value if abs(value) < _MAX_INT else None
    return value if isfinite(value) else None


def position(value: Value, values: Sequence[Value]) -> int | None:
    """Where `value` stands in `values`, by JSON equality (1 is 1.0, true is not 1); None if nowhere."""
    if not isinstance(value, str | int | float):
        return None
    for index, other in enumerate(values):
        if value == other and isinstance(value, bool) is isinstance(other, bool):
            return index
    return None


def items(value: Value, path: str, digests: Digests) -> tuple[int, ...] | None:
    """The items of one result as 64-bit digests, each once, in order; None if absent or too many.

    The path is part of an item, so that equal ids of different lists are different items. One item without a
    canonical form makes all unknown.
    """
    if value is None:
        return None
    listed = value if isinstance(value, list | tuple) else [value]
    if len(listed) > MAX_ITEMS:
        return None
    try:
        return tuple(dict.fromkeys(digests.item([path, item]) for item in listed))
    except LoopGuardError:
        return None


def compare(rules: Sequence[ProgressRule], before: Signals | None, now: Signals, seen: Container[int]) -> list[Judged]:
    """What each rule says of two calls. Marks are matched by place and label: another policy's are unknown."""
    judged: list[Judged] = []
    for index, rule in enumerate(rules):
        label = rule.label
        new = _value_at(now, index, label)
        old = None if before is None else _value_at(before, index, label)
        judged.append((rule.judge(old, new, seen), label))
    return judged


def _value_at(signals: Signals, index: int, label: str) -> MarkValue:
    if index >= len(signals.marks) or signals.marks[index].rule != label:
        return None
    return signals.marks[index].value


def marks(rules: Sequence[ProgressRule], arguments: Value, result: Value, digests: Digests) -> tuple[Mark, ...]:
    """The marks of one call, one a rule, in the rules' order."""
    return tuple(Mark(rule.label, rule.mark(rule.value(arguments, result), digests)) for rule in rules)


def combine(judged: Sequence[Judged]) -> Judged:
    """One answer: progress if any rule saw it, none if every rule saw none, else unknown; and which rule decided.

    With no rule at all the answer is (UNKNOWN, None): results have to be compared instead.
    """
    for progress, label in judged:
        if progress is Progress.ADVANCED:
            return progress, label
    for progress, label in judged:
        if progress is not Progress.UNCHANGED:
            return Progress.UNKNOWN, label
    return (Progress.UNCHANGED, judged[0][1]) if judged else (Progress.UNKNOWN, None)
