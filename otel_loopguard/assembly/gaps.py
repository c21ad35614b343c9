"""Which numbered calls are missing from a run.

Each producer numbers its calls of a trace from 1 without gaps (DESIGN 2, `call.sequence`), so a hole is a lost
span; `run.calls` on a closing span shows a lost tail.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


class Numbered:
    """What the producers of one group of spans numbered, whichever run each call turned out to be of.

    A producer numbers the calls of a trace, and a trace may hold several runs.

    Args:
        spans: all of the group, those that no dialect knows among them: a root of the application's own may close.
    """

    __slots__ = ("calls", "totals")

    def __init__(self, spans: Iterable[SpanFacts]) -> None:
        self.calls: dict[str, set[int]] = {}
        self.totals: dict[str, int] = {}
        for span in spans:
            if span.sequence is not None:
                self.calls.setdefault(span.producer or "", set()).add(span.sequence)
            if span.run_calls is not None:
                producer = span.producer or ""
                self.totals[producer] = max(self.totals.get(producer, 0), span.run_calls)


def find(ordered: Sequence[Candidate], numbered: Numbered) -> Gaps:
    """Finds the holes in a run.

    Args:
        ordered: the run's calls in their order.
        numbered: what its group's producers numbered.
    """
    seen: dict[str, dict[int, int]] = {}
    for number, call in enumerate(ordered, start=1):
        for span in call.same.spans:
            if span.sequence is not None:
                seen.setdefault(span.producer or "", {})[span.sequence] = number
    if not seen:
        return _NONE
    missing: list[int] = []
    after: set[int] = set()
    for producer, numbers in sorted(seen.items()):
        before, others = 0, numbered.calls[producer]
        for sequence in range(1, max(*numbers, numbered.totals.get(producer, 0)) + 1):
            if sequence in numbers:
                before = max(before, numbers[sequence])
            elif sequence in others:
                continue  # of another run in its trace
            elif len(missing) < MAX_REPORTED:
                missing.append(sequence)
                after.add(before)
            else:
                break
    flags = {Flag.SEQUENCE_GAP} if missing else set()
    if any(producer and producer not in numbered.totals for producer in seen):
        flags.add(Flag.PRODUCER_NOT_CLOSED)
    return Gaps(tuple(sorted(missing)), tuple(sorted(after)), frozenset(flags))
