"""Follows a declared pager: which items and cursors were seen, and which pages brought nothing new.

Invariants: new items clear a page whatever its cursor (some servers keep one cursor for a whole scroll); only
where items are unknown does a cursor decide. What cannot be read is unknown, never stalled. Bounded: past
`max_items` an unseen item is taken for new and not remembered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from otel_loopguard.detectors.stretch import Stretch
from otel_loopguard.model import Progress

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_loopguard.model import Signals, ToolCall

# Members under names of their own: to look one up in its class costs 50 ns, and a step does so dozens of times.
_PROGRESS_ADVANCED: Final = Progress.ADVANCED
_PROGRESS_FIRST: Final = Progress.FIRST
_PROGRESS_UNCHANGED: Final = Progress.UNCHANGED
_PROGRESS_UNKNOWN: Final = Progress.UNKNOWN

MAX_PAGERS: Final = 64
"""Pagers that one agent may use before all of its pages are forgotten (tool names come from outside)."""
ITEMS_RULE: Final = "new_items"
CURSOR_RULE: Final = "cursor"

_Seen = TypeVar("_Seen", int, str)


class Page(NamedTuple):
    """What one page brought. `new_items` is None where the page's items are unknown.

    `stalled` holds the pages in a row without anything new, where this page is the last of them.
    """

    progress: Progress
    rule: str | None
    new_items: int | None
    stalled: Stretch | None = None


class Pages:
    """One agent's pages of one tool since a user turn or a write.

    Args:
        names_next: True where the tool's contract says how a page names the next one.
        max_items: items and cursors remembered.
        epoch: what the tracker counts user turns and writes by.
    """

    __slots__ = (
        "_cursors",
        "_ended",
        "_items",
        "_max_items",
        "_moved",
        "_names_next",
        "_stalled",
        "_turn",
        "epoch",
        "readable",
    )

    def __init__(self, *, names_next: bool, max_items: int, epoch: int) -> None:
        self._names_next = names_next
        self._max_items = max_items
        self.epoch = epoch
        self._items: set[int] = set()
        self._cursors: set[str] = set()
        self._ended = True
        self._turn = -1
        self._moved = False
        self._stalled: Stretch | None = None
        self.readable = False
        """True once items or a cursor have decided about a page."""

    def take(self, call: ToolCall, *, fresh: bool) -> Page | None:
        """Takes in one page that came back.

        Args:
            call: the page's call; what a producer says of its progress is believed.
            fresh: True where the same page was not asked for before.

        Returns:
            What the page brought; None where neither its items nor a cursor are known. A page that was not asked
            for before, after one that named no next page, begins another listing: FIRST, whatever it lists.
        """
        facts = call.facts
        told = facts.progress
        if told is not None and told is not _PROGRESS_UNKNOWN:
            if facts.progress_rule is None:
                return None  # its producer could read neither items nor a cursor, and compared whole results
            page = Page(told, facts.progress_rule, facts.new_items)
        else:
            read = None if facts.signals is None else self._read(facts.signals, fresh=fresh)
            if read is None:
                return None
            page = read
        self.readable = self.readable or page.progress is not _PROGRESS_FIRST
        return page._replace(stalled=self._count(page.progress, call))

    @property
    def stalled_pages(self) -> int:
        """How many pages in a row, up to the last one, brought nothing new; 0 where pages cannot be read."""
        return 0 if self._stalled is None else self._stalled.count

    def _read(self, signals: Signals, *, fresh: bool) -> Page | None:
        first = fresh and self._ended
        new_items = None if signals.items is None else _remember(self._items, signals.items, self._max_items)
        new_cursor = signals.cursor is not None and _remember(self._cursors, (signals.cursor,), self._max_items) > 0
        self._ended = self._names_next and signals.cursor is None
        if signals.items is None and signals.cursor is None:
            return None
        rule, moved = (CURSOR_RULE, new_cursor) if new_items is None else (ITEMS_RULE, new_items > 0)
        if first:
            return Page(_PROGRESS_FIRST, rule, new_items)
        return Page(_PROGRESS_ADVANCED if moved else _PROGRESS_UNCHANGED, rule, new_items)

    def _count(self, progress: Progress, call: ToolCall) -> Stretch | None:
        """Adds a page to the stalled ones, or ends them; the pages of one turn are stalled only together."""
        opens, self._turn = call.turn != self._turn, call.turn
        if progress is not _PROGRESS_UNCHANGED:
            self._moved, self._stalled = True, None
            return None
        if opens:
            self._moved = False
        elif self._moved:
            return None
        stalled = self._stalled
        if stalled is None:
            digest = call.facts.call_digest
            stalled = self._stalled = Stretch(
                call.facts.tool, call.agent, () if digest is None else (digest,), spared=0
            )
        elif opens:
            stalled.count += 1
        stalled.add(call)
        return stalled


def _remember(seen: set[_Seen], new: Iterable[_Seen], limit: int) -> int:
    """Adds what is unseen and returns how many that were; past the limit it counts without remembering."""
    unseen = set(new) - seen
    if len(seen) + len(unseen) <= limit:
        seen |= unseen
    return len(unseen)
