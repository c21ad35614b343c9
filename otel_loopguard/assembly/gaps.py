"""Which numbered calls are missing from a run.

Each producer numbers its calls of a run from 1 without gaps (DESIGN 2, `call.sequence`), so a hole is a lost
span; `run.calls` on a closing span shows a lost tail.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from otel_loopguard.assembly.turns import Candidate
from otel_loopguard.model import Flag, SpanFacts

MAX_REPORTED: Final = 1000
"""Missing numbers listed at most in a run; a forged sequence of 10^18 must not fill memory."""


class Gaps(msgspec.Struct, frozen=True):
    """What is missing; both ascending.

    `after` holds call numbers after which a call is missing, 0 for before the first.
    """

    missing: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    flags: frozenset[Flag] = frozenset()


_NONE: Final = Gaps()


def find(ordered: Sequence[Candidate], spans: Sequence[SpanFacts]) -> Gaps:
    """Finds the holes in a run.

    Args:
        ordered: the run's calls in their order.
        spans: all spans of the run, any order.
    """
    seen: dict[str, dict[int, int]] = {}
    for number, call in enumerate(ordered, start=1):
        for span in call.same.spans:
            if span.sequence is not None:
                seen.setdefault(span.producer or "", {})[span.sequence] = number
    if not seen:
        return _NONE
    totals: dict[str, int] = {}
    for span in spans:
        if span.run_calls is not None:
            producer = span.producer or ""
            totals[producer] = max(totals.get(producer, 0), span.run_calls)
    missing: list[int] = []
    after: set[int] = set()
    for producer, numbers in sorted(seen.items()):
        before = 0
        for sequence in range(1, max(*numbers, totals.get(producer, 0)) + 1):
            if sequence in numbers:
                before = max(before, numbers[sequence])
            elif len(missing) < MAX_REPORTED:
                missing.append(sequence)
                after.add(before)
            else:
                break
    flags = {Flag.SEQUENCE_GAP} if missing else set()
    if any(producer and producer not in totals for producer in seen):
        flags.add(Flag.PRODUCER_NOT_CLOSED)
    return Gaps(tuple(sorted(missing)), tuple(sorted(after)), frozenset(flags))
