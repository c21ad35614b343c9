"""The policy as the rest of the program sees it.

Invariants: immutable but for a bounded cache of contracts of undeclared tools, whose names come from outside;
equal text gives equal digests.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from otel_loopguard.policy.contract import ToolContract
from otel_loopguard.policy.error_rules import ErrorRules

MAX_UNDECLARED: Final = 1024
"""Contracts of undeclared tools kept; past that they are made anew, which costs time and nothing else."""


class Mode(StrEnum):
    """Whether a guard only says what it would do."""

    OBSERVE = "observe"
    ENFORCE = "enforce"


class Scope(StrEnum):
    """What is judged as one run."""

    RUN = "run"
    USER_TURN = "user_turn"
    CONVERSATION = "conversation"
    TASK = "task"


class ContentRule(StrEnum):
    """What a processor removes from spans."""

    DROP_ALL = "drop_all"
    DROP_TOOL = "drop_tool"
    KEEP = "keep"


class Ladder(StrEnum):
    """What a guard does after its warning."""

    DENY = "deny"
    RESTRICT_TOOL = "restrict_tool"
    STOP = "stop"


class Defaults(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for every tool unless the tool says otherwise."""

    allowed_repeats: int = 2
    undeclared_allowed_repeats: int = 7
    window: int = 8
    max_calls: int | None = None


class Policy(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """The owner's policy; compared and hashed by identity.

    Thread safety: may be shared; the cache is filled by single dictionary operations.
    """

    label: str
    """`id@version`."""
    mode: Mode = Mode.OBSERVE
    unattended: bool = False
    scope: Scope = Scope.RUN
    content: ContentRule = ContentRule.DROP_ALL
    actions: tuple[Ladder, ...] = (Ladder.DENY, Ladder.STOP)
    identity: tuple[str, ...] = ()
    """Context attributes that are part of what a call is."""
    defaults: Defaults = Defaults()
    noop_tools: frozenset[str] = frozenset()
    errors: ErrorRules = ErrorRules()
    digest8: str
    """8 hex characters over everything in the policy."""
    tools: Mapping[str, ToolContract] = {}
    """Contracts of declared tools and no-op tools, by name."""
    undeclared: ToolContract
    """What every other tool's contract is, but for its name."""
    _cache: dict[str, ToolContract] = msgspec.field(default_factory=dict)

    def contract(self, tool: str) -> ToolContract:
        """The contract of a tool, declared or not.

        Cost: one or two dictionary look-ups for a name seen before.
        """
        found = self.tools.get(tool) or self._cache.get(tool)
        if found is None:
            found = msgspec.structs.replace(self.undeclared, tool=tool)
            if len(self._cache) >= MAX_UNDECLARED:
                self._cache.clear()
            self._cache[tool] = found
        return found
