"""Counts steps that changed nothing: an application's state that stays, and answers an agent had been given before.

Invariants: a turn is one step of the state, equal siblings are one answer; constant time and memory.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from otel_loopguard.detectors.stretch import Stretch

if TYPE_CHECKING:
    from otel_loopguard.model import ToolCall

WINDOW_CALLS: Final = 8
"""Calls among which known answers are counted. Source: DESIGN 6."""
KNOWN_ANSWERS: Final = 6
"""Known answers among them that make a suspicion. Source: DESIGN 6."""

_WINDOW: Final = (1 << WINDOW_CALLS) - 1


class State:
    """The application's state as its calls carry it, and the steps that left it as it was."""

    __slots__ = ("_digest", "_turn", "stretch")

    def __init__(self) -> None:
        self._digest: tuple[str, str | None] | None = None
        self._turn = -1
        self.stretch: Stretch | None = None

    def clear(self) -> None:
        """A user turn begins: what came before is no evidence."""
        self._digest, self.stretch = None, None

    def take(self, call: ToolCall, digest: str) -> Stretch | None:
        """Takes in one call with the state after it; returns the steps without a change, `count` of them."""
        state = (digest, call.facts.key_id)
        opens, self._turn = call.turn != self._turn, call.turn
        if state != self._digest:
            self._digest = state
            self.stretch = Stretch(call.facts.tool, call.agent, ())
            self.stretch.count = 0
        elif opens and self.stretch is not None:
            self.stretch.count += 1
        if self.stretch is not None:
            self.stretch.add(call)
        return self.stretch


class Answers:
    """Which of an agent's last calls brought an answer that it had been given before."""

    __slots__ = ("_calls", "_known", "_stretch")

    def __init__(self) -> None:
        self._known = 0
        self._calls: deque[ToolCall] = deque(maxlen=WINDOW_CALLS)
        self._stretch: Stretch | None = None

    def clear(self) -> None:
        """Something was written, or a user turn began: answers may be new again."""
        self._known, self._stretch = 0, None
        self._calls.clear()

    def take(self, call: ToolCall, *, known: bool) -> Stretch | None:
        """Takes in one call; returns the known answers in the window where there are enough of them."""
        self._known = (self._known << 1 | known) & _WINDOW
        self._calls.append(call)
        if not known:
            if self._stretch is not None and self._known.bit_count() < KNOWN_ANSWERS:
                self._stretch = None
            return None
        count = self._known.bit_count()
        if count < KNOWN_ANSWERS:
            return None
        stretch = self._stretch
        if stretch is None:
            stretch = self._stretch = Stretch(call.facts.tool, call.agent, (), spared=0)
            for back, one in zip(range(len(self._calls) - 1, -1, -1), self._calls, strict=True):
                if self._known >> back & 1:
                    stretch.add(one)
            stretch.count = count
        else:
            stretch.add(call)
            stretch.count += 1
        stretch.tool = call.facts.tool
        return stretch
