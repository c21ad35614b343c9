"""How judged groups go: by age, then by the size of the database, oldest first, in small transactions.

Invariants: a group goes with its names, its facts and all of its runs; what is not yet judged never goes; totals
stay. What is freed is given back to the disk where it is much.
"""

from __future__ import annotations

import sqlite3
from enum import StrEnum
from typing import Final

BATCH_GROUPS: Final = 200
"""Groups of one transaction: others wait for it for milliseconds."""
VACUUM_PAGES: Final = 1024
"""Given back in one transaction: 8 MiB."""
_SPARE: Final = 4
"""One page in so many may stay free: arrivals come and go all the time and would have the file grow again."""


class Eviction(StrEnum):
    """Why a judged run is not kept any longer."""

    AGE = "age"
    SIZE = "size"


def evict_old(db: sqlite3.Connection, before_ns: int) -> tuple[int, int]:
    """Takes away some of the oldest groups that were judged before `before_ns`.

    Returns:
        (groups, runs) that went; (0, 0) where none is left.
    """
    db.execute("DELETE FROM withdrawn WHERE judged_ns < ?", (before_ns,))
    query = "SELECT grp FROM judged WHERE judged_ns < ? ORDER BY judged_ns, grp LIMIT ?"
    return _evict(db, [grp for (grp,) in db.execute(query, (before_ns, BATCH_GROUPS))])


def evict_above(db: sqlite3.Connection, max_bytes: int) -> tuple[int, int]:
    """Takes away some of the oldest groups while more than `max_bytes` of the database are in use.

    Returns:
        (groups, runs) that went; (0, 0) where it is small enough, or no judged group is left.
    """
    excess = used_bytes(db) - max_bytes
    if excess <= 0:
        return 0, 0
    oldest = "SELECT position FROM withdrawn ORDER BY position LIMIT ?"
    db.execute(f"DELETE FROM withdrawn WHERE position IN ({oldest})", (BATCH_GROUPS,))  # noqa: S608 - fixed
    query = (
        "SELECT grp, length(facts) + 3 * length(names) + "
        "(SELECT total(length(record)) + 400 * count(*) FROM run WHERE run.grp = judged.grp) "
        "FROM judged ORDER BY judged_ns, grp LIMIT ?"
    )
    chosen = []
    for grp, size in db.execute(query, (BATCH_GROUPS,)).fetchall():
        if excess <= 0:
            break
        chosen.append(grp)
        excess -= size
    return _evict(db, chosen)


def _evict(db: sqlite3.Connection, groups: list[int]) -> tuple[int, int]:
    chosen = [(grp,) for grp in groups]
    if not chosen:
        return 0, 0
    runs = db.executemany("DELETE FROM run WHERE grp = ?", chosen).rowcount
    names = "DELETE FROM name WHERE grp = ?1 AND name IN (SELECT value FROM judged, json_each(names) WHERE grp = ?1)"
    db.executemany(names, chosen)
    return db.executemany("DELETE FROM judged WHERE grp = ?", chosen).rowcount, runs


def used_bytes(db: sqlite3.Connection) -> int:
    """Returns the bytes of the database that hold something."""
    return (_ask(db, "page_count") - _ask(db, "freelist_count")) * _ask(db, "page_size")


def give_back(db: sqlite3.Connection, max_bytes: int) -> bool:
    """Gives some free pages back to the disk, where many are free or the file is larger than `max_bytes`.

    Must not be called in a transaction: it makes one.

    Returns:
        Whether there are more to be given back.
    """
    pages, free = _ask(db, "page_count"), _ask(db, "freelist_count")
    spare = min((pages - free) // _SPARE, max(0, max_bytes // _ask(db, "page_size") - (pages - free)))
    surplus = free - spare
    if surplus <= 0:
        return False
    # A script is stepped to its end; a statement without columns is stepped once, which gives one page.
    db.executescript(f"PRAGMA incremental_vacuum({min(surplus, VACUUM_PAGES)})")
    return surplus > VACUUM_PAGES


def _ask(db: sqlite3.Connection, pragma: str) -> int:
    return int(db.execute(f"PRAGMA {pragma}").fetchone()[0])
