"""What can be read of the store: rows that wait, judged groups, runs, totals, and what a sink has not had.

Invariants: each method sees what was committed when it began; it neither waits for the writer nor holds it up. What
does not read back is a `StoreError` that says how to go on.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from threading import local
from typing import Any, Final

import zstandard

from otel_loopguard.errors import StaleError
from otel_loopguard.model import RunOutcome
from otel_loopguard.scorer import settling
from otel_loopguard.scorer.filters import Filters, Place, where
from otel_loopguard.scorer.readers import Readers
from otel_loopguard.scorer.records import JudgedRun, Pending, Series, StoredGroup

_PENDING_AT_ONCE: Final = 10_000

_NOT_SENT: Final = "position > coalesce((SELECT position FROM sink WHERE name = ?1), 0)"
_TOLD: Final = (
    f"SELECT position, record FROM run WHERE {_NOT_SENT} UNION ALL "  # noqa: S608 - fixed
    f"SELECT position, record FROM withdrawn WHERE {_NOT_SENT}"
)
"""What a sink has not had."""
EVERY_RUN: Final = Filters()
DEFAULT_RUNS: Final = 100


class Packing(local):
    """Compressors of one thread; they must not be shared. To a quarter of the size, a span takes 0.6 µs."""

    def __init__(self) -> None:
        self.pack = zstandard.ZstdCompressor(level=1).compress
        self.pack_quickly = zstandard.ZstdCompressor(level=-1).compress
        """Takes half the time and half as much again of room: for what is there until it is judged."""
        self.unpack = zstandard.ZstdDecompressor().decompress


class StoreReading:
    """The reading half of `Store`.

    Args:
        file: of the database.
        packing: what facts are unpacked with.
    """

    def __init__(self, file: Path, packing: Packing) -> None:
        self._readers = Readers(file)
        self._packing = packing

    def pending(self) -> Iterator[Pending]:
        """Yields the rows that are not yet judged, ascending."""
        query = (
            "SELECT row, trace_id, received_ns, spans, root_ended, names "  # not the facts, which stand behind them
            "FROM pending WHERE row > ? ORDER BY row LIMIT ?"
        )
        after = 0
        while True:
            with self._readers.one() as db:
                rows = db.execute(query, (after, _PENDING_AT_ONCE)).fetchall()
                found = [settling.read_pending(row) for row in rows]
            if not found:
                return
            yield from found
            after = found[-1].row

    def read(self, rows: Sequence[int]) -> list[bytes]:
        """Returns the facts of rows, in their order.

        Raises:
            StaleError: one of them is not there any more.
        """
        query = "SELECT row, facts FROM pending WHERE row IN (SELECT value FROM json_each(?))"
        with self._readers.one() as db:
            packed = dict(db.execute(query, (settling.encode_json(rows).decode(),)).fetchall())
            found = {row: self._packing.unpack(facts) for row, facts in packed.items()}
        try:
            return [found[row] for row in rows]
        except KeyError:
            message = "rows that were to be read are settled"
            raise StaleError(message) from None

    def groups_with(self, names: Collection[str]) -> list[StoredGroup]:
        """Returns the judged groups that have any of these names, ascending by number."""
        wanted = settling.names_text(tuple(names))
        with self._readers.snapshot() as db:
            query = "SELECT DISTINCT grp FROM name WHERE name IN (SELECT value FROM json_each(?)) ORDER BY grp"
            return [self._group(db, grp) for (grp,) in db.execute(query, (wanted,)).fetchall()]

    def group_of(self, run_id: str) -> StoredGroup | None:
        """Returns the group of a run; None where the run is not known."""
        with self._readers.snapshot() as db:
            found = db.execute("SELECT grp FROM run WHERE run_id = ?", (run_id,)).fetchone()
            return None if found is None else self._group(db, found[0])

    def _group(self, db: sqlite3.Connection, group: int) -> StoredGroup:
        names, packed = db.execute("SELECT names, facts FROM judged WHERE grp = ?", (group,)).fetchone()
        runs = db.execute("SELECT record FROM run WHERE grp = ? ORDER BY position", (group,)).fetchall()
        return StoredGroup(
            group=group,
            facts=self._packing.unpack(packed),
            names=settling.decode_names(names),
            runs=tuple(settling.decode_run(record) for (record,) in runs),
        )

    def totals(self) -> dict[Series, float]:
        """Returns all totals."""
        with self._readers.one() as db:
            return settling.read_totals(db.execute("SELECT name, labels, value FROM total").fetchall())

    def run(self, run_id: str) -> JudgedRun | None:
        """Returns one run; None where it is not known."""
        found = self._decoded("SELECT 0, record FROM run WHERE run_id = ?", (run_id,))
        return found[0][1] if found else None

    def runs(
        self, filters: Filters = EVERY_RUN, *, before: Place | None = None, limit: int = DEFAULT_RUNS
    ) -> list[JudgedRun]:
        """Returns the runs that are wanted and come after `before`, the last judged first."""
        condition, values = where(filters, before)
        query = f"SELECT 0, record FROM run WHERE {condition} ORDER BY judged_ns DESC, run_id DESC LIMIT ?"  # noqa: S608 - fixed tests
        return [run for _, run in self._decoded(query, (*values, limit))]

    def outcomes(self, filters: Filters = EVERY_RUN) -> dict[RunOutcome, int]:
        """Returns how many of the runs that are wanted have which outcome."""
        condition, values = where(filters)
        query = f"SELECT outcome, count(*) FROM run WHERE {condition} GROUP BY outcome"  # noqa: S608 - fixed tests
        return {RunOutcome(outcome): number for outcome, number in self._readers.all(query, values)}

    def outbox(self, sink: str, limit: int) -> list[tuple[int, JudgedRun]]:
        """Returns runs that a sink has not had, in the order in which they were judged, with their positions.

        A run that was revised before the sink had it comes once, as it is now; one that was withdrawn comes as such.
        """
        query = f"SELECT position, record FROM ({_TOLD}) ORDER BY position LIMIT ?2"  # noqa: S608 - fixed
        return self._decoded(query, (sink, limit))

    def _decoded(self, query: str, values: Sequence[Any]) -> list[tuple[int, JudgedRun]]:
        with self._readers.one() as db:
            return [
                (position, settling.decode_run(record)) for position, record in db.execute(query, values).fetchall()
            ]

    def backlog(self, sink: str) -> int:
        """Returns how many runs a sink has not had."""
        return int(self._readers.all(f"SELECT count(*) FROM ({_TOLD})", (sink,))[0][0])  # noqa: S608 - fixed
