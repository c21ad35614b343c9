"""Finds one trouble that an agent meets wherever it turns: failures in a row, across tools, that are alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_loopguard.detectors.step import Claim, Reads
from otel_loopguard.model import Basis, ErrorCategory, Kind, Severity

if TYPE_CHECKING:
    from otel_loopguard.detectors.step import Step

SAME_CATEGORY: Final = 8
"""Failures of one category in a row. Source: DESIGN 6."""
SAME_TEXT: Final = 5
"""Failures of one text in a row. Source: DESIGN 6."""
TEXT_RULE: Final = "equal text"
CATEGORY_RULE: Final = "equal category"


class ErrorCascade:
    """Fires on failures of several tools with one text (loop by likeness) or one category (suspect).

    One tool's equal failures are `error_repeat`'s and `same_result`'s. Being refused permission is only suspect:
    the cause lies outside, and trying another door is what an agent should do, up to a point.
    """

    __slots__ = ()
    kind = Kind.ERROR_CASCADE
    reads = Reads.COUNTED

    def judge(self, step: Step, /) -> Claim | None:
        """Returns a claim where this failure adds to a long enough streak."""
        failures = None if step.counted is None else step.counted.failures
        if failures is None:
            return None
        text, category = failures.text, failures.category
        if (
            text is not None
            and text.several_tools
            and text.stretch.count >= SAME_TEXT
            and step.call.facts.error_category is not ErrorCategory.PERMISSION
        ):
            return Claim(
                self.kind, Severity.LOOP, text.stretch, text.stretch.count, rule=TEXT_RULE, basis=Basis.LIKENESS
            )
        if category is not None and category.several_tools and category.stretch.count >= SAME_CATEGORY:
            stretch = category.stretch
            return Claim(self.kind, Severity.SUSPECT, stretch, stretch.count, rule=CATEGORY_RULE)
        return None
