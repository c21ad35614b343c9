"""A tool's contract: what its owner declared about its arguments, its results and its repeats.

Invariants: values are never changed, only copied; nothing is removed but what is declared; no method raises on
any value. A contract is immutable; where nothing is declared, its methods return at once what they were given.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from otel_loopguard.model import Effect, Extent, Pattern, Progress, Signals, Value
from otel_loopguard.policy import progress as rules
from otel_loopguard.policy.paths import DROP, Path, Readable
from otel_loopguard.policy.patterns import Pattern as TextPattern
from otel_loopguard.policy.patterns import remove_everywhere

_NOTHING_SEEN: Final[frozenset[int]] = frozenset()


class Parallel(StrEnum):
    """What a guard does with equal siblings."""

    SHARE = "share"
    RUN = "run"


class BusinessScope(StrEnum):
    """Within what equal business arguments are the same write."""

    RUN = "run"
    TASK = "task"
    CONVERSATION = "conversation"
    GLOBAL = "global"


class UnknownOutcome(StrEnum):
    """What may follow a write whose outcome is not known."""

    DENY = "deny"
    ALLOW_SAME_KEY = "allow_same_key"


class Polling(msgspec.Struct, frozen=True, kw_only=True):
    """A declared poller and its bounds; times in seconds."""

    state: Readable | None = None
    terminal: tuple[str | int | float | bool, ...] = ()
    max_polls: int = 60
    deadline_s: float | None = None
    min_interval_s: float | None = None
    max_unchanged: int = 10


class Pagination(msgspec.Struct, frozen=True, kw_only=True):
    """A declared pager: where a page names the next cursor, and where its items stand. At least one is given."""

    cursor: Readable | None = None
    items: Readable | None = None


class Range(msgspec.Struct, frozen=True, kw_only=True):
    """A ranged reader: the arguments that say what is read, from where, and how much."""

    key: Path
    start: Path
    length: Path | None = None


class ArgumentRules(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """How arguments become the part of them that makes a call what it is; applied in the order of the fields."""

    null_is_absent: bool = False
    defaults: Mapping[str, Value] = {}
    paths: tuple[Path, ...] = ()
    ignored: tuple[Path, ...] = ()

    @property
    def declared(self) -> bool:
        """True if any of this changes anything."""
        return bool(self.null_is_absent or self.defaults or self.paths or self.ignored)

    def apply(self, arguments: Value) -> Value:
        """Normalised arguments; null counts as no arguments, any other value that is not a table stays as it is."""
        if arguments is None:
            arguments = {}
        if not isinstance(arguments, Mapping):
            return arguments
        found: Value = arguments
        if self.null_is_absent and any(value is None for value in found.values()):
            found = {key: value for key, value in found.items() if value is not None}
        if any(key not in found for key in self.defaults):
            found = {**self.defaults, **found}
        for path in self.paths:
            found = path.rewrite(found, _normal_path)
        for path in self.ignored:
            found = path.rewrite(found, _dropped)
        return found


class WriteRules(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """What makes two writes the same write."""

    key: tuple[Path, ...] = ()
    scope: BusinessScope = BusinessScope.RUN
    ttl_s: float | None = None
    idempotency: Path | None = None
    unknown_outcome: UnknownOutcome = UnknownOutcome.DENY


class ToolContract(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """Everything declared about one tool; compared and hashed by identity.

    Thread safety: immutable.
    """

    tool: str
    declared: bool = False
    """False for a tool that the policy does not name."""
    noop: bool = False
    effect: Effect = Effect.UNKNOWN
    pattern: Pattern = Pattern.PLAIN
    allowed_repeats: int = 2
    undeclared_allowed_repeats: int = 7
    max_calls: int | None = None
    parallel: Parallel = Parallel.SHARE
    window: int = 8
    digest8: str = ""
    """8 hex characters over what shapes this tool's digests and progress; thresholds are not part of it."""
    polling: Polling | None = None
    pagination: Pagination | None = None
    range: Range | None = None
    progress: tuple[rules.ProgressRule, ...] = ()
    """Declared rules in order; a pager's items come last, as one more `new_items` rule."""
    writes: WriteRules = WriteRules()
    identity_args: tuple[Path, ...] = ()
    argument_rules: ArgumentRules | None = None
    ignored_results: tuple[Path, ...] = ()
    ignored_texts: tuple[TextPattern, ...] = ()

    @property
    def business_scope(self) -> BusinessScope:
        """Within what equal business arguments are the same write."""
        return self.writes.scope

    @property
    def business_ttl_s(self) -> float | None:
        """For how many seconds they are; None: without end."""
        return self.writes.ttl_s

    @property
    def unknown_outcome(self) -> UnknownOutcome:
        """What may follow a write whose outcome is not known."""
        return self.writes.unknown_outcome

    @property
    def has_progress(self) -> bool:
        """True if anything declared here can say whether a call advanced."""
        return bool(self.progress or self.pagination or (self.polling and self.polling.state))

    def arguments(self, value: Value) -> Value:
        """Arguments as the call digest sees them: nulls removed, defaults filled in, paths normalised, ignored removed.

        `identity_args`, the pagination cursor and the idempotency key stay unless `ignore_args` names them.
        """
        return value if self.argument_rules is None else self.argument_rules.apply(value)

    def result(self, value: Value) -> Value:
        """A result as the result digest sees it: ignored fields removed, then ignored text removed from all texts."""
        for path in self.ignored_results:
            value = path.rewrite(value, _dropped)
        return remove_everywhere(value, self.ignored_texts) if self.ignored_texts else value

    def identity(self, arguments: Value) -> Value | None:
        """The values of `identity_args` by name; None if none are declared or none is there."""
        return _picked(self.identity_args, self.arguments(arguments))

    def business(self, arguments: Value) -> Value | None:
        """What makes a declared write the same write; None for other tools.

        The `business_key` values by name, or, with no key declared or none of its fields there, all normalised
        arguments without the idempotency key.
        """
        if self.effect is not Effect.WRITE:
            return None
        normal = self.arguments(arguments)
        picked = _picked(self.writes.key, normal)
        if picked is not None:
            return picked
        if self.writes.idempotency is not None:
            normal = self.writes.idempotency.rewrite(normal, _dropped)
        return {} if normal is None else normal

    def idempotency(self, arguments: Value) -> Value | None:
        """The idempotency key as sent; None if none is declared or sent (an empty one protects nothing)."""
        if self.writes.idempotency is None:
            return None
        found = self.writes.idempotency.read(arguments)
        return None if found == "" else found

    def signals(self, arguments: Value, result: Value, digester: rules.Digests) -> Signals | None:
        """What the declared rules see in one call; None if this tool declares none.

        Args:
            arguments: the call's arguments, not normalised.
            result: the call's result, not normalised.
            digester: makes 32 hex characters of a state and 64 bits of an item.
        """
        if not self.has_progress:
            return None if self.range is None else Signals(extent=self._extent(arguments, digester))
        state, terminal = self._state(result, digester)
        marks = rules.marks(self.progress, arguments, result, digester)
        seen = [mark.value for mark in marks if isinstance(mark.value, tuple)]
        items = tuple(dict.fromkeys(item for found in seen for item in found)) if seen else None
        return Signals(
            marks=marks,
            state=state,
            terminal=terminal,
            cursor=self._cursor(result, digester),
            items=items,
            extent=self._extent(arguments, digester),
        )

    def _state(self, result: Value, digester: rules.Digests) -> tuple[str | None, bool | None]:
        if self.polling is None or self.polling.state is None:
            return None, None
        found = self.polling.state.read(result)
        if found is None:
            return None, None
        terminal = rules.position(found, self.polling.terminal) is not None if self.polling.terminal else None
        return rules.digest_of(found, digester), terminal

    def _cursor(self, result: Value, digester: rules.Digests) -> str | None:
        if self.pagination is None or self.pagination.cursor is None:
            return None
        found = self.pagination.cursor.read(result)
        return None if found is None or found == "" else rules.digest_of(found, digester)

    def _extent(self, arguments: Value, digester: rules.Digests) -> Extent | None:
        """What a ranged reader was asked for; None where its start or what it reads is not told."""
        if self.range is None:
            return None
        read, start = self.range.key.read(arguments), _number(self.range.start.read(arguments))
        of = None if read is None or start is None else rules.digest_of(read, digester)
        if of is None or start is None:
            return None
        told = None if self.range.length is None else self.range.length.read(arguments)
        length = _number(told)
        if told is not None and (length is None or length < 0):
            return None
        return Extent(of, start, None if length is None else start + length)

    def compare(
        self, before: Signals | None, now: Signals | None, seen: Container[int] = _NOTHING_SEEN
    ) -> tuple[Progress, str | None]:
        """Whether a call advanced over the last equal call, and the rule that decided.

        Args:
            before: signals of the last executed equal call, None if there is none.
            now: signals of this call.
            seen: items seen before this call, from `Signals.items`.

        Returns:
            ADVANCED if any rule advanced, UNCHANGED if every rule says unchanged, else UNKNOWN. (UNKNOWN, None)
            means that no rule is declared: the results themselves have to be compared.
        """
        if not self.has_progress:
            return Progress.UNKNOWN, None
        if now is None:
            now = Signals()
        judged = rules.compare(self.progress, before, now, seen)
        if self.polling is not None and self.polling.state is not None:
            judged.append(_judged_state(before, now, self.polling.state.text))
        pager = None if self.pagination is None else self.pagination.cursor
        if pager is not None and not judged and before and before.cursor is not None and now.cursor is not None:
            # A pager without items: an equal call that leads elsewhere than last time has moved.
            moved = before.cursor != now.cursor
            judged.append((Progress.ADVANCED if moved else Progress.UNCHANGED, f"{pager.text} changes"))
        return rules.combine(judged)


def _number(value: Value) -> float | None:
    """A finite number as it is; text such as "120" is none, and a bool is not one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _judged_state(before: Signals | None, now: Signals, path: str) -> rules.Judged:
    label = f"{path} changes"
    if before is None or before.state is None or now.state is None:
        return Progress.UNKNOWN, label
    return (Progress.ADVANCED if before.state != now.state else Progress.UNCHANGED), label


def _picked(paths: tuple[Path, ...], arguments: Value) -> dict[str, Value] | None:
    found = {path.text: path.read(arguments) for path in paths}
    return found if any(value is not None for value in found.values()) else None


def _dropped(_: Value) -> Any:
    return DROP


def _normal_path(value: Value) -> Value:
    """A path, or each path of a list, with `//`, `.` and a trailing slash gone.

    `..` stays, because behind a symbolic link `a/../b` is not `b`; letter case stays; addresses with a scheme
    (`https://…`) stay, because there `//` means something.
    """
    if isinstance(value, list | tuple):
        new = [_normal_path(item) if isinstance(item, str) else item for item in value]
        return value if all(after is before for after, before in zip(new, value, strict=True)) else new
    if not isinstance(value, str) or not value or "://" in value:
        return value
    parts = [part for part in value.split("/") if part not in {"", "."}]
    normal = ("/" if value[0] == "/" else "") + "/".join(parts)
    return value if normal == value else normal or "."
