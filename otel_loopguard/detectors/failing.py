"""Counts an agent's failures in a row across its tools, and passing errors of one tool that it does not get over.

Invariants: a turn counts once, and one with a success in it counts for nothing; refusals are no failures. Bounded:
a few stretches an agent. Passing errors are no part of a cascade.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_loopguard.detectors.stretch import Stretch
from otel_loopguard.model import ErrorCategory

if TYPE_CHECKING:
    from otel_loopguard.model import ToolCall

MAX_OUTAGES: Final = 64
"""Tools of one agent whose passing errors are followed at a time."""


class Streak:
    """Rounds in a row that failed alike: by what (`same`), their calls, and whether several tools took part.

    The stretch bears the name of the last tool.
    """

    __slots__ = ("same", "several_tools", "stretch", "turn")

    def __init__(self, same: object, call: ToolCall) -> None:
        self.same = same
        self.turn = call.turn
        self.several_tools = False
        self.stretch = Stretch(call.facts.tool, call.agent, (), spared=1)
        self.stretch.add(call)

    def grow(self, call: ToolCall) -> None:
        """Adds one failure; further ones of its turn do not count."""
        if call.turn != self.turn:
            self.turn = call.turn
            self.stretch.count += 1
        if call.facts.tool != self.stretch.tool:
            self.several_tools = True
            self.stretch.tool = call.facts.tool
        self.stretch.add(call)


class Failures:
    """One agent's failures since its last success.

    `category` and `text` are the streaks of equal category and of equal text; None where there is none.
    """

    __slots__ = ("category", "text")

    def __init__(self) -> None:
        self.category: Streak | None = None
        self.text: Streak | None = None

    def take(self, call: ToolCall) -> None:
        """Takes in one failure that does not pass by itself."""
        facts = call.facts
        category = facts.error_category or ErrorCategory.UNKNOWN
        if self.category is not None and self.category.same is category:
            self.category.grow(call)
        else:
            self.category = Streak(category, call)
        text = None if facts.error_digest is None else (facts.error_digest, facts.key_id, category)
        if text is None:
            self.text = None
        elif self.text is not None and self.text.same == text:
            self.text.grow(call)
        else:
            self.text = Streak(text, call)


class Outages:
    """Passing errors of one agent's tools, each since that tool last did anything else."""

    __slots__ = ("by_tool",)

    def __init__(self) -> None:
        self.by_tool: dict[str, Streak] = {}

    def take(self, call: ToolCall) -> Stretch:
        """Takes in one passing error and returns those in a row of its tool."""
        tool, same = call.facts.tool, call.facts.error_type
        streak = self.by_tool.get(tool)
        if streak is not None and streak.same == same:
            streak.grow(call)
        else:
            if streak is None and len(self.by_tool) >= MAX_OUTAGES:
                self.by_tool.clear()
            streak = self.by_tool[tool] = Streak(same, call)
        return streak.stretch
