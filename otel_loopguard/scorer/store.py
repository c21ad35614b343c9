"""Keeps arrivals until they are judged, and judged groups, runs and totals after that: one SQLite database.

Invariants: what was acknowledged is on disk; each row is judged once and each run has one verdict, since a
settlement is one transaction that fails where its rows are gone. Facts are stored compressed. Only the writer's
thread writes; every reader has a connection of its own, so that nobody waits for another.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from threading import Lock, local
from typing import Any, Final

import zstandard

from otel_loopguard.errors import StaleError, StoreError
from otel_loopguard.model import RunOutcome
from otel_loopguard.scorer import retention, settling
from otel_loopguard.scorer.filters import Filters, Place, where
from otel_loopguard.scorer.folder import WAL, DataFolder
from otel_loopguard.scorer.readers import Readers, database_faults
from otel_loopguard.scorer.records import Arrival, JudgedRun, Pending, Series, Settlement, StoredGroup
from otel_loopguard.scorer.retention import Eviction
from otel_loopguard.scorer.schema import connect_writer, empty_log, last_number, prepare
from otel_loopguard.scorer.writer import Writer, WriterCounts

DEFAULT_MAX_WAITING_BYTES: Final = 64 * 2**20
_PENDING_AT_ONCE: Final = 10_000
_ROW_BYTES: Final = 200
"""What a waiting row holds beside its facts, about."""


class _Packing(local):
    """One compressor a thread; they must not be shared. Level 1: 0.4 µs a span, to a fifth of its size."""

    def __init__(self) -> None:
        self.pack = zstandard.ZstdCompressor(level=1).compress
        self.unpack = zstandard.ZstdDecompressor().decompress


class Store:
    """The scorer's data folder.

    Args:
        folder: made where it is missing. Nobody else may use it at the same time.
        clock: Unix time in nanoseconds.
        max_waiting_bytes: compressed facts that may wait to be written.
        max_pages: size of the database in pages of 8 KiB at most; None: as many as the disk takes.

    Raises:
        StoreError: the folder is in use, cannot be written, or its database is damaged or of a newer version.

    Thread safety: all methods, any thread. A forked child cannot use it.
    """

    def __init__(
        self,
        folder: Path,
        *,
        clock: Callable[[], int] = time.time_ns,
        max_waiting_bytes: int = DEFAULT_MAX_WAITING_BYTES,
        max_pages: int | None = None,
    ) -> None:
        self.clock = clock
        self._folder = DataFolder(folder)
        self._file = self._folder.database
        self._process = os.getpid()
        self._closed = False
        self._readers = Readers(self._file)
        self._numbers = Lock()
        self._packing = _Packing()
        connect = partial(connect_writer, self._file, max_pages=max_pages)
        try:
            with database_faults(self._file):
                db = connect()
            try:
                with database_faults(self._file):
                    prepare(db, self._file, complete=self._folder.complete)
                    self._next_row = last_number(db, "pending") + 1
                    self._next_group = last_number(db, "judged") + 1
                self._folder.note_complete()
            except StoreError:
                db.close()
                raise
        except StoreError:
            self._folder.close()
            raise
        self._writer = Writer(db, connect, log=folder / WAL, max_waiting_bytes=max_waiting_bytes)

    @property
    def counts(self) -> WriterCounts:
        """What the writer has done and what waits, as it stands now."""
        return self._writer.counts

    # --- writing ------------------------------------------------------------------------------------------

    def append(self, arrivals: Sequence[Arrival]) -> Future[tuple[int, ...]]:
        """Keeps arrivals.

        Returns:
            Their rows, in their order, once they are on disk. Futures of several calls are done in the order of
            their rows. Fails with `RefusedError` where they could not be kept: then none of them was.

        Raises:
            RefusedError: too much waits, or the store has stopped.
        """
        pack = self._packing.pack
        rows = [settling.arrival_row(arrival, pack(arrival.facts)) for arrival in arrivals]
        return self._writer.put(
            lambda db: settling.keep(db, rows, self._take_rows(len(rows))),
            size=sum(len(row[-1]) + _ROW_BYTES for row in rows),
        )

    def _take_rows(self, count: int) -> int:
        """The first of new row numbers; the writer's thread alone asks."""
        first = self._next_row
        self._next_row += count
        return first

    def next_group(self) -> int:
        """Returns a number that no group has or had."""
        with self._numbers:
            number = self._next_group
            self._next_group += 1
        return number

    def settle(self, settlement: Settlement) -> Future[None]:
        """Writes what judging a group changes, all of it or nothing.

        Its number is new, or that of a group among `merged`, which it then takes the place of.

        Returns:
            Done when it is on disk. Fails with `StaleError` where a row, a merged group or a withdrawn run is not
            there any more: judge again; with `RefusedError` where the disk failed: try again.

        Raises:
            RefusedError: the store has stopped.
        """
        packed = self._packing.pack(settlement.facts)
        return self._writer.put(lambda db: settling.settle(db, settlement, packed))

    def sent(self, sink: str, position: int) -> None:
        """Notes that a sink has had all up to `position`; returns when that is on disk.

        Raises:
            RefusedError: it could not be noted.
        """
        self._writer.put(lambda db: settling.note_sent(db, sink, position)).result()

    def evict(self, *, before_ns: int, max_bytes: int) -> Mapping[str, int]:
        """Takes away the oldest judged groups with their runs; totals stay.

        Args:
            before_ns: groups judged before this go.
            max_bytes: more go while the database holds more; the log beside it, 4 to 16 MiB, is not counted.

        Returns:
            Runs that went, by `Eviction`.

        Raises:
            RefusedError: the disk failed; what went before that is gone.
        """
        counts = dict.fromkeys(map(str, Eviction), 0)
        for reason, take in (
            (Eviction.AGE, partial(retention.evict_old, before_ns=before_ns)),
            (Eviction.SIZE, partial(retention.evict_above, max_bytes=max_bytes)),
        ):
            groups = 1
            while groups:
                groups, runs = self._writer.put(take).result()
                counts[reason.value] += runs
        give_back = partial(retention.give_back, max_bytes=max_bytes)
        while self._writer.put(give_back, alone=True).result():
            pass
        self._writer.put(empty_log, alone=True).result()  # only then does the file become smaller
        return counts

    def close(self) -> None:
        """Commits what waits, and lets the folder go."""
        if self._closed or os.getpid() != self._process:
            return
        self._closed = True
        self._readers.close()
        self._writer.close()  # the last one closes the log
        self._folder.close()

    # --- reading ------------------------------------------------------------------------------------------

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
        self,
        *,
        service: str | None = None,
        release: str | None = None,
        outcome: RunOutcome | None = None,
        started_from_ns: int | None = None,
        started_before_ns: int | None = None,
        before: tuple[int, str] | None = None,
        limit: int = 100,
    ) -> list[JudgedRun]:
        """Returns runs that all filters let through, the last judged first.

        Args:
            service: of the run; None for any, as with the others.
            release: of the service.
            outcome: of the verdict.
            started_from_ns: start of the run at the earliest.
            started_before_ns: start of the run before this.
            before: (judged_ns, run_id) of the last one of the page before.
            limit: how many at most.
        """
        tests: dict[str, Any] = {
            "service = ?": service,
            "release = ?": release,
            "outcome = ?": outcome,
            "started_ns >= ?": started_from_ns,
            "started_ns < ?": started_before_ns,
        }
        given = {test: value for test, value in tests.items() if value is not None}
        values = list(given.values())
        if before is not None:
            given["(judged_ns, run_id) < (?, ?)"] = before
            values += before
        where = " AND ".join(given) or "TRUE"
        query = f"SELECT 0, record FROM run WHERE {where} ORDER BY judged_ns DESC, run_id DESC LIMIT ?"  # noqa: S608 - fixed tests
        return [run for _, run in self._decoded(query, (*values, limit))]

    def listed(self, filters: Filters, *, before: Place | None, limit: int) -> list[JudgedRun]:
        """Returns the runs that are wanted and come after `before`, the last judged first."""
        condition, values = where(filters, before)
        query = f"SELECT record FROM run WHERE {condition} ORDER BY judged_ns DESC, run_id DESC LIMIT ?"  # noqa: S608 - fixed tests
        return [settling.decode_run(record) for (record,) in self._readers.all(query, (*values, limit))]

    def outcomes(self, filters: Filters) -> dict[RunOutcome, int]:
        """Returns how many of the runs that are wanted have which outcome."""
        condition, values = where(filters)
        query = f"SELECT outcome, count(*) FROM run WHERE {condition} GROUP BY outcome"  # noqa: S608 - fixed tests
        return {RunOutcome(outcome): number for outcome, number in self._readers.all(query, values)}

    def outbox(self, sink: str, limit: int) -> list[tuple[int, JudgedRun]]:
        """Returns runs that a sink has not had, in the order in which they were judged, with their positions.

        A run that was revised before the sink had it comes once, as it is now.
        """
        query = (
            "SELECT position, record FROM run WHERE position > "
            "coalesce((SELECT position FROM sink WHERE name = ?), 0) ORDER BY position LIMIT ?"
        )
        return self._decoded(query, (sink, limit))

    def _decoded(self, query: str, values: Sequence[Any]) -> list[tuple[int, JudgedRun]]:
        with self._readers.one() as db:
            return [
                (position, settling.decode_run(record)) for position, record in db.execute(query, values).fetchall()
            ]

    def backlog(self, sink: str) -> int:
        """Returns how many runs a sink has not had."""
        query = "SELECT count(*) FROM run WHERE position > coalesce((SELECT position FROM sink WHERE name = ?), 0)"
        return int(self._readers.all(query, (sink,))[0][0])

    def backup(self, path: Path) -> None:
        """Copies the database, as it is at this moment, into a new folder that a store can be opened on.

        Raises:
            StoreError: the folder exists and is not empty, or cannot be written.
        """
        if path.exists() and any(path.iterdir()):
            message = f"the folder {path} for a backup is not empty: name a new one"
            raise StoreError(message)
        target = DataFolder(path)
        try:
            try:
                with self._readers.one() as db, database_faults(target.database):
                    copy = sqlite3.connect(target.database, isolation_level=None)
                    try:
                        db.backup(copy)  # in one step: in several it would begin again with every commit
                    finally:
                        copy.close()
            except StoreError:
                target.database.unlink()  # half a copy must not be taken for one
                raise
            target.note_complete()
        finally:
            target.close()
