"""Counts how long a sequence of rounds has been repeating itself, at every lag from 1 to 8.

Invariants: constant time and memory per call. A round is one turn's set of (call, answer) marks, equal siblings
once; two rounds are equal where their sets are. A finding's first claim stands even where a later sibling of
the same turn makes its round differ: findings come from what had happened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from otel_loopguard.detectors.step import Lap, Stretch

if TYPE_CHECKING:
    from collections.abc import Hashable

    from otel_loopguard.model import ToolCall

MAX_PERIOD: Final = 8
"""Longest period in rounds. Source: DESIGN 6."""
MIN_PERIODS: Final = 3
"""Full periods before a cycle is certain. Source: DESIGN 6."""

_KEPT: Final = MAX_PERIOD * MIN_PERIODS
_PROPER_DIVISORS: Final = tuple(tuple(d for d in range(1, p) if p % d == 0) for p in range(MAX_PERIOD + 1))

Mark: TypeAlias = "Hashable"
"""Stands for one call with its answer; equal marks are equal calls with equal answers."""


class Laps:
    """The last 24 rounds of one agent, or of all agents of a run, and their repeats.

    `runs[p]` is how many closed rounds in a row equal the round p before them; `matches` has bit p set where
    the open round does so now.
    """

    __slots__ = ("_across", "_added", "_calls", "_hot", "_kept", "_marks", "_matches", "_period", "_runs", "_stretch")

    def __init__(self, *, across: bool = False) -> None:
        self._across = across
        self._marks: list[Mark] = [None] * _KEPT
        self._calls: list[list[ToolCall] | ToolCall | None] = [None] * _KEPT
        self._runs = [0] * (MAX_PERIOD + 1)
        self._kept = 0
        self._matches = 0
        self._hot = False
        self._stretch: Stretch | None = None
        self._period = 0
        self._added = 0

    def clear(self) -> None:
        """Forgets all rounds: something came between that no period may span."""
        if self._kept:
            self._kept = 0
            self._matches = 0
            self._cool()

    def _cool(self) -> None:
        if self._hot:
            self._runs = [0] * (MAX_PERIOD + 1)
            self._hot = False
        self._stretch = None

    def add(self, mark: Mark, call: ToolCall, *, opens: bool, fresh: bool) -> Lap | None:
        """Adds one call and returns the lap that it completes, if any.

        Args:
            mark: the call with its answer.
            call: the call itself.
            opens: True where this call is the first of its round that counts here.
            fresh: True where no call with this mark's call was seen before, so that nothing can match.

        Returns:
            The lap, with its stretch grown by the open round's calls, on every call that completes one.
        """
        if opens or not self._kept:
            self._close()
            self._kept += 1
            at = (self._kept - 1) % _KEPT
            self._marks[at], self._calls[at] = mark, call
        else:
            at = (self._kept - 1) % _KEPT
            self._join(at, mark, call)
            mark = self._marks[at]
        if fresh:
            self._matches = 0
            return None
        self._matches = matches = self._match(mark)
        return self._lap() if matches > 1 else None

    def _close(self) -> None:
        """Makes the open round final: extends or breaks the run at each lag."""
        matches = self._matches
        if matches:
            runs = self._runs
            for lag in range(1, MAX_PERIOD + 1):
                runs[lag] = runs[lag] + 1 if matches >> lag & 1 else 0
            self._hot = True
            self._matches = 0
            if self._stretch is not None and not matches >> self._period & 1:
                self._stretch = None
        elif self._hot:
            self._cool()
        self._added = 0

    def _join(self, at: int, mark: Mark, call: ToolCall) -> None:
        here, calls = self._marks[at], self._calls[at]
        if isinstance(here, frozenset):
            self._marks[at] = here | {mark}
        elif here != mark:
            self._marks[at] = frozenset((here, mark))
        if isinstance(calls, list):
            calls.append(call)
        elif calls is not None:
            self._calls[at] = [calls, call]

    def _match(self, mark: Mark) -> int:
        matches, last, marks = 0, self._kept - 1, self._marks
        for lag in range(1, min(last, MAX_PERIOD) + 1):
            if marks[(last - lag) % _KEPT] == mark:
                matches |= 1 << lag
        return matches

    def _lap(self) -> Lap | None:
        """Returns the shortest period that has come round often enough, if it is no shorter one in disguise."""
        for period in range(2, MAX_PERIOD + 1):
            rounds = self._length(period)
            if rounds >= (MIN_PERIODS - 1) * period and not any(
                self._length(d) >= period for d in _PROPER_DIVISORS[period]
            ):
                return self._grow(period, rounds)
        return None

    def _length(self, lag: int) -> int:
        return self._runs[lag] + 1 if self._matches >> lag & 1 else 0

    def _grow(self, period: int, rounds: int) -> Lap | None:
        stretch = self._stretch
        if stretch is None or self._period != period:
            stretch = self._begin(period)
            if stretch is None:
                return None
            self._stretch, self._period = stretch, period
        here = self._round(0)
        for call in here[self._added :]:
            stretch.add(call)
        self._added = len(here)
        stretch.count = rounds // period + 1
        return Lap(stretch, period, stretch.count)

    def _begin(self, period: int) -> Stretch | None:
        """Builds the stretch from the rounds before the open one; None across agents where only one took part."""
        before = [self._round(back) for back in range(MIN_PERIODS * period - 1, 0, -1)]
        first = before[:period]
        if self._across and len({calls[0].agent for calls in first}) == 1:
            return None
        stretch = Stretch(
            first[0][0].facts.tool,
            first[0][0].agent,
            tuple(dict.fromkeys(call.facts.call_digest or "" for calls in first for call in calls)),
            spared=sum(len(calls) for calls in first),
        )
        for calls in before:
            for call in calls:
                stretch.add(call)
        return stretch

    def _round(self, back: int) -> list[ToolCall]:
        calls = self._calls[(self._kept - 1 - back) % _KEPT]
        return calls if isinstance(calls, list) else [calls] if calls is not None else []

    def copy(self, *, across: bool) -> Laps:
        """Returns the same rounds under another rule; used when a second agent turns up in a run."""
        made = Laps(across=across)
        made._marks, made._calls = list(self._marks), list(self._calls)
        made._runs, made._kept = list(self._runs), self._kept
        made._matches, made._hot = self._matches, self._hot
        return made
