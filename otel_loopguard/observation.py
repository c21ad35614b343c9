"""What one call of a run turned out to be, and how much of a run is kept.

Invariants: records alone stand here, apart from the tracker that makes them, since a build may compile it
(docs/decisions/0012).
"""

from __future__ import annotations

from typing import Final

import msgspec

from otel_loopguard.model import Kind, Progress


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much one run may keep. Past a limit the oldest goes and is counted; no call is refused."""

    digests: int = 1024
    """Distinct calls remembered, the latest half of them for certain; a repeat of a forgotten call is a first."""
    agents: int = 256
    """Agents remembered, the latest half of them for certain."""
    findings: int = 256
    items: int = 16_384
    """Items and cursors remembered a pager; past this, unseen ones are taken for new."""
    answers: int = 1024
    """Answers remembered, the latest half of them for certain; one that is forgotten is new when it comes again."""


class Evictions(msgspec.Struct, frozen=True):
    """What `Limits` made the tracker forget."""

    digests: int = 0
    agents: int = 0
    findings: int = 0
    answers: int = 0
    writes: int = 0


class Observation(msgspec.Struct, frozen=True, gc=False):
    """What one call turned out to be.

    `repeat_count` is how many equal answers in a row this call makes, itself included (1: none before).
    `kinds` are the kinds that became true with this call. `new_items`, `terminal` and `covered` are None
    where not known.
    """

    progress: Progress
    rule: str | None = None
    repeat_count: int = 1
    kinds: tuple[Kind, ...] = ()
    new_items: int | None = None
    terminal: bool | None = None
    covered: bool | None = None
    near_repeat_count: int | None = None
    """This and the next five as in `CallFacts`: what a producer writes down, since no scorer can measure it."""
    near_repeat_alike: int | None = None
    near_result_count: int | None = None
    near_result_alike: int | None = None
    result_moving: bool | None = None
    same_result_item: bool | None = None


FIRST: Final = Observation(Progress.FIRST)
"""Of most calls: the first of its kind, and nothing else is known."""
