"""Finds paging that gets nowhere: a cursor that came before, or pages on which every item was seen before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_loopguard.detectors.step import Claim, Reads
from otel_loopguard.model import Kind, Severity

if TYPE_CHECKING:
    from otel_loopguard.detectors.step import Step

STALLED_PAGES: Final = 2
"""Pages in a row without anything new. Source: DESIGN 6; one is a look back at the first page."""


class PaginationStall:
    """Fires when a declared pager brought nothing new on consecutive pages."""

    __slots__ = ()
    kind = Kind.PAGINATION_STALL
    reads = Reads.RARE

    def judge(self, step: Step, /) -> Claim | None:
        """Returns a claim where this page is at least the second in a row without anything new."""
        stretch = step.stalled_pages
        if stretch is None or stretch.count < STALLED_PAGES:
            return None
        return Claim(self.kind, Severity.LOOP, stretch, stretch.count, rule=step.rule)
