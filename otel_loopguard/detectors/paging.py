"""Follows a declared pager: which items and cursors were seen, and which pages brought nothing new.

Invariants: new items clear a page whatever its cursor (some servers keep one cursor for a whole scroll); only
where items are unknown does a cursor decide. What cannot be read is unknown, never stalled. Bounded: past
`max_items` an unseen item is taken for new and not remembered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from otel_loopguard.detectors.step import Stretch
from otel_loopguard.model import Progress

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_loopguard.model import CallFacts, Signals, ToolCall

ITEMS_RULE: Final = "new_items"
CURSOR_RULE: Final = "cursor"

_Seen = TypeVar("_Seen", int, str)


class Page(NamedTuple):
    """What one page brought. `new_items` is None where the page's items are unknown."""

    progress: Progress
    rule: str | None
    new_items: int | None


class Pages:
    """One agent's pages of one tool. `stalled` holds the pages without anything new since the last with."""

    __slots__ = ("_cursors", "_ended", "_items", "_max_items", "_names_next", "epoch", "stalled")

    def __init__(self, *, names_next: bool, max_items: int, epoch: int) -> None:
        self._names_next = names_next
        self._max_items = max_items
        self.epoch = epoch
        self._items: set[int] = set()
        self._cursors: set[str] = set()
        self._ended = True
        self.stalled: Stretch | None = None

    def turn(self, facts: CallFacts, *, fresh: bool) -> Page | None:
        """Takes in one page that came back.

        Args:
            facts: of the call; what a producer says of its progress is believed.
            fresh: True where the same page was not asked for before.

        Returns:
            What the page brought; None where neither its items nor a cursor are known. A page that was not asked
            for before, after one that named no next page, begins another listing: FIRST, whatever it lists.
        """
        known = facts.progress
        if known is not None and known is not Progress.UNKNOWN:
            return Page(known, facts.progress_rule, facts.new_items)
        return None if facts.signals is None else self._read(facts.signals, fresh=fresh)

    def _read(self, signals: Signals, *, fresh: bool) -> Page | None:
        first = fresh and self._ended
        new_items = None if signals.items is None else _remember(self._items, signals.items, self._max_items)
        new_cursor = signals.cursor is not None and _remember(self._cursors, (signals.cursor,), self._max_items) > 0
        self._ended = self._names_next and signals.cursor is None
        if signals.items is None and signals.cursor is None:
            return None
        if first:
            return Page(Progress.FIRST, None, new_items)
        if new_items is None:
            return Page(Progress.ADVANCED if new_cursor else Progress.UNCHANGED, CURSOR_RULE, None)
        return Page(Progress.ADVANCED if new_items else Progress.UNCHANGED, ITEMS_RULE, new_items)

    def count(self, progress: Progress, rule: str | None, call: ToolCall) -> Stretch | None:
        """Adds a page to the stalled ones, or ends them.

        Returns:
            The stalled pages, this one the last; None where this page is not one of them.
        """
        if progress is Progress.UNKNOWN:
            return None
        if progress is not Progress.UNCHANGED:
            self.stalled = None
            return None
        if rule is None:
            return None
        stalled = self.stalled
        if stalled is None:
            digest = call.facts.call_digest
            stalled = self.stalled = Stretch(call.facts.tool, call.agent, () if digest is None else (digest,), spared=0)
        else:
            stalled.count += 1
        stalled.add(call)
        return stalled


def _remember(seen: set[_Seen], new: Iterable[_Seen], limit: int) -> int:
    """Adds what is unseen and returns how many that were; past the limit it counts without remembering."""
    unseen = set(new) - seen
    if len(seen) + len(unseen) <= limit:
        seen |= unseen
    return len(unseen)
