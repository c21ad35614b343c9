"""A bounded map that forgets what was used longest ago, half of it at a time.

Invariants: constant time; the `limit` // 2 keys used last are there for certain, and never more than `limit`.
"""

from __future__ import annotations

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Two generations: what is used moves to the latest; where that is full, the older one is dropped.

    `latest` may be looked at directly, which is the short way for a key in use; `evicted` counts dropped keys.
    """

    __slots__ = ("_generation", "_older", "evicted", "latest")

    def __init__(self, limit: int) -> None:
        self._generation = max(1, limit // 2)
        self.latest: dict[K, V] = {}
        self._older: dict[K, V] = {}
        self.evicted = 0

    def peek(self, key: K) -> V | None:
        """Returns the value of a key without making it one of the latest; None if there is none."""
        value = self.latest.get(key)
        return self._older.get(key) if value is None else value

    def promote(self, key: K) -> V | None:
        """Returns the value of a key that is not in `latest`, made one of the latest; None if there is none."""
        value = self._older.pop(key, None)
        if value is not None:
            self.add(key, value)
        return value

    def drop(self, key: K) -> None:
        """Forgets one key, if it is there; this is no eviction."""
        self.latest.pop(key, None)
        self._older.pop(key, None)

    def add(self, key: K, value: V) -> None:
        """Adds a key that is in neither generation."""
        full = self.latest
        if len(full) >= self._generation:
            fresh: dict[K, V] = {}
            # Another thread may have been here meanwhile: what it began must not be dropped with what is old. There is
            # no call between this look and the change, so that no thread gets its turn in between.
            if self.latest is full:
                dropped, self._older, self.latest = self._older, full, fresh
                self.evicted += len(dropped)
        self.latest[key] = value
