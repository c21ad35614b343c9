"""Looks through the wrappers that vendors put around an SDK's providers.

Invariants: what is looked for is told by its type, never by a vendor's name; bounded, and a ring of wrappers ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

MAX_WRAPPERS: Final = 8
"""Wrappers looked through, one inside the other."""


def inside(provider: object, kind: type) -> Iterator[object]:
    """Gives a provider, then what it wraps of a kind, then what that wraps; each once."""
    level: list[object] = [provider]
    seen: set[int] = set()
    for _ in range(MAX_WRAPPERS):
        inner: list[object] = []
        for one in level:
            if id(one) in seen:
                continue
            seen.add(id(one))
            yield one
            inner += [held for held in getattr(one, "__dict__", {}).values() if isinstance(held, kind)]
        level = inner
