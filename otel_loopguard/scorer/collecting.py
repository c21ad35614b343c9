"""When Python looks through all objects for circles of garbage: seldom, as all threads stand still meanwhile.

Invariants: circles of young objects are collected as ever, and all others within `EVERY_S`. It is the whole process
whose collector is set: for one that is a scorer and nothing else.
"""

from __future__ import annotations

import asyncio
import gc
from typing import Final

EVERY_S: Final = 600.0
"""A full collection takes some 0.5 s with a million open spans: so seldom, it is not among the slowest 1 in 100
answers. Left alone, Python begins one whenever there are a quarter more objects than after the last: 0.1 s each, again
and again, while the first 300,000 open spans come."""
_YOUNG: Final = 700
_MIDDLE: Final = 10
_NEVER: Final = 2**30


def collect_seldom(loop: asyncio.AbstractEventLoop) -> None:
    """Has full collections come from this loop alone; what lives now, such as modules, is never looked through again.

    Args:
        loop: runs for as long as the process does its work.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _NEVER)

    def collect() -> None:
        gc.collect()
        loop.call_later(EVERY_S, collect)

    loop.call_later(EVERY_S, collect)
