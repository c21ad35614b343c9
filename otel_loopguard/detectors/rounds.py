"""Counts how long a sequence of rounds has been repeating itself, at every lag from 1 to 8.

Invariants: constant time and memory per call. A round is one turn's set of (call, answer) marks, equal siblings
once; two rounds are equal where their sets are. A finding's first claim stands even where a later sibling of
the same turn makes its round differ: findings come from what had happened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_loopguard.detectors.step import Lap
from otel_loopguard.detectors.stretch import MAX_LISTED_CALLS, Stretch, is_silent

if TYPE_CHECKING:
    from otel_loopguard.model import ToolCall

MAX_PERIOD: Final = 8
"""Longest period in rounds. Source: DESIGN 6."""
MIN_PERIODS: Final = 3
"""Full periods before a cycle is certain. Source: DESIGN 6."""

_KEPT: Final = MAX_PERIOD * MIN_PERIODS
_LAGS: Final = (1 << MAX_PERIOD + 1) - 2


class Mark:
    """One call with one answer, and the last rounds that held it: bit k of `rounds` is the round `last` - k.

    `across` is the same among the rounds of all agents, None until there are several.
    """

    __slots__ = ("across", "last", "rounds")

    def __init__(self) -> None:
        self.last = -_KEPT
        self.rounds = 0
        self.across: Mark | None = None


class Laps:
    """The last 24 rounds of one agent, or of all agents of a run, and their repeats.

    `_matches` has bit p set where the open round equals the round p before it, `_closed` where the round before
    the open one did so, and `_since[p]` is the round with which that began.
    """

    __slots__ = (
        "_across",
        "_added",
        "_calls",
        "_closed",
        "_common",
        "_floor",
        "_marks",
        "_matches",
        "_open",
        "_period",
        "_since",
        "_stretch",
        "_wide",
        "_widths",
    )

    def __init__(self, *, across: bool = False) -> None:
        self._across = across
        self._calls: list[list[ToolCall] | ToolCall | None] = [None] * _KEPT
        self._marks: list[list[Mark] | Mark | None] = [None] * _KEPT
        self._widths = [0] * _KEPT
        self._since = [0] * (MAX_PERIOD + 1)
        self._open = self._floor = -1
        self._wide = -_KEPT
        self._common = self._matches = self._closed = self._added = self._period = 0
        self._stretch: Stretch | None = None

    def clear(self) -> None:
        """Forgets all rounds: something came between that no period may span."""
        self._floor = self._open
        self._matches = self._closed = 0
        self._stretch = None

    def add(self, mark: Mark, call: ToolCall, *, opens: bool) -> Lap | None:
        """Adds one call and returns the lap that it completes, if any.

        Args:
            mark: the call with its answer.
            call: the call itself.
            opens: True where this call is the first of its round that counts here.

        Returns:
            The lap, with its stretch grown by the open round's calls, on every call that completes one.
        """
        opened = self._open
        if not opens and opened != self._floor:
            self._join(mark, call)
        else:
            if self._matches != self._closed:
                self._close_round()
            self._open = opened = opened + 1
            at = opened % _KEPT
            self._calls[at], self._marks[at], self._widths[at] = call, mark, 1
            self._added = 0
            back, reach = opened - mark.last, opened - self._floor - 1
            if back > MAX_PERIOD or not reach:
                mark.rounds, self._common = 1, 0
            else:
                mark.rounds = rounds = (mark.rounds << back | 1) & (_LAGS | 1)
                self._common = rounds & (_LAGS if reach >= MAX_PERIOD else (1 << reach + 1) - 2)
            mark.last = opened
        matches = self._common
        if matches and opened - self._wide <= MAX_PERIOD:
            matches = self._equally_wide(matches)
        self._matches = matches
        if not matches:
            return None
        if self._stretch is not None and matches >> self._period & 1:
            return self._grow(self._stretch)
        return self._find() if matches > 1 else None

    def _close_round(self) -> None:
        """Keeps what the open round equals, and since when, before the next one opens."""
        matches = self._matches
        begun = matches & ~self._closed
        for lag in range(1, MAX_PERIOD + 1):
            if begun >> lag & 1:
                self._since[lag] = self._open
        self._closed = matches
        if not matches >> self._period & 1:
            self._stretch = None

    def _join(self, mark: Mark, call: ToolCall) -> None:
        at = self._open % _KEPT
        calls, marks = self._calls[at], self._marks[at]
        if isinstance(calls, list):
            if len(calls) < MAX_LISTED_CALLS:
                calls.append(call)
        elif calls is not None:
            self._calls[at] = [calls, call]
        if mark.last == self._open:
            return
        if isinstance(marks, list):
            if len(marks) < MAX_LISTED_CALLS:
                marks.append(mark)
        elif marks is not None:
            self._marks[at] = [marks, mark]
        back = self._open - mark.last
        mark.rounds = 1 if back > MAX_PERIOD else (mark.rounds << back | 1) & (_LAGS | 1)
        mark.last = self._open
        self._widths[at] += 1
        self._wide = self._open
        self._common &= mark.rounds

    def _equally_wide(self, matches: int) -> int:
        """Keeps the lags at which the round of old held no further marks."""
        widths, here = self._widths, self._widths[self._open % _KEPT]
        for lag in range(1, MAX_PERIOD + 1):
            if matches >> lag & 1 and widths[(self._open - lag) % _KEPT] != here:
                matches &= ~(1 << lag)
        return matches

    def _length(self, lag: int) -> int:
        """Returns how many rounds in a row, the open one included, equal the round `lag` before them."""
        if not self._matches >> lag & 1:
            return 0
        return self._open - self._since[lag] + 1 if self._closed >> lag & 1 else 1

    def _find(self) -> Lap | None:
        """Looks for the shortest period that has come round often enough.

        As the shortest it is none of a shorter one's multiples; periods that one call alone fills are left out.
        """
        shortest = max(2, self._length(1) + 1)
        if not self._matches >> shortest:
            return None
        for period in range(shortest, MAX_PERIOD + 1):
            if self._matches >> period & 1 and self._length(period) >= (MIN_PERIODS - 1) * period:
                stretch = self._begin_stretch(period)
                if stretch is not None:
                    self._stretch, self._period = stretch, period
                    return self._grow(stretch)
        return None

    def _grow(self, stretch: Stretch) -> Lap:
        calls = self._calls[self._open % _KEPT]
        if isinstance(calls, list):
            for call in calls[self._added :]:
                stretch.add(call)
            self._added = len(calls)
        elif calls is not None and not self._added:
            stretch.add(calls)
            self._added = 1
        stretch.count = self._length(self._period) // self._period + 1
        return Lap(stretch, self._period, stretch.count)

    def _begin_stretch(self, period: int) -> Stretch | None:
        """Builds the stretch from the rounds before the open one.

        None where every answer was silence, which is no evidence, where one call alone came back with one answer
        after the other, and across agents where only one took part.
        """
        before = [self._round(back) for back in range(MIN_PERIODS * period - 1, 0, -1)]
        first = before[:period]
        if self._across and len({calls[0].agent for calls in first}) == 1:
            return None
        if all(is_silent(call.facts) for calls in first for call in calls):
            return None
        digests = tuple(dict.fromkeys(call.facts.call_digest or "" for calls in first for call in calls))
        if len(digests) == 1:
            return None
        stretch = Stretch(
            first[0][0].facts.tool,
            first[0][0].agent,
            digests,
            spared=sum(len(calls) for calls in first),
        )
        for calls in before:
            for call in calls:
                stretch.add(call)
        return stretch

    def foresee(self, mark: Mark, *, periods: int) -> tuple[int, int, int] | None:
        """Tells how near a further round of this one call would be to a cycle, without adding it.

        Args:
            mark: the call with the answer that it is supposed to get.
            periods: full periods that make the cycle.

        Returns:
            (rounds past the one that makes it, negative before it; period; full periods then) of the period that is
            furthest; None where the round would come round to nothing, or in silence. Rounds of several calls
            are left out.
        """
        opened = self._open + 1
        reach, back = opened - self._floor - 1, opened - mark.last
        if reach <= 0 or back > MAX_PERIOD or back <= 0:
            return None
        common = (mark.rounds << back | 1) & (_LAGS if reach >= MAX_PERIOD else (1 << reach + 1) - 2)
        best: tuple[int, int, int] | None = None
        for period in range(2, MAX_PERIOD + 1):
            if not common >> period & 1 or self._widths[(opened - period) % _KEPT] != 1:
                continue
            length = 1
            if self._matches >> period & 1:
                length += self._open - (self._since[period] if self._closed >> period & 1 else self._open) + 1
            past = length - (periods - 1) * period
            if (best is None or past > best[0]) and self._goes_round(period):
                best = (past, period, length // period + 1)
        return best

    def _goes_round(self, period: int) -> bool:
        """True if the last period holds several calls, across also agents, and no silence, which is only suspect."""
        calls = [call for back in range(period) for call in self._round(back)]
        if self._across and len({call.agent for call in calls}) == 1:
            return False
        if len({call.facts.call_digest for call in calls}) == 1:
            return False
        return not any(is_silent(call.facts) for call in calls)

    def _round(self, back: int) -> list[ToolCall]:
        calls = self._calls[(self._open - back) % _KEPT]
        return calls if isinstance(calls, list) else [calls] if calls is not None else []

    def copy_across(self) -> Laps:
        """Returns these rounds as the first ones of all agents; used when a second agent turns up in a run."""
        made = Laps(across=True)
        made._calls = [list(calls) if isinstance(calls, list) else calls for calls in self._calls]
        made._marks, made._widths, made._since = list(self._marks), list(self._widths), list(self._since)
        made._open, made._floor, made._wide = self._open, self._floor, self._wide
        made._common, made._matches, made._closed = self._common, self._matches, self._closed
        for held in self._marks:
            for mark in held if isinstance(held, list) else [held]:
                if mark is not None:
                    mark.across = Mark()
                    mark.across.last, mark.across.rounds = mark.last, mark.rounds
        return made
