"""Keeps arrivals until they are judged, and judged groups, runs and totals after that: one SQLite database.

Invariants: what was acknowledged is on disk; each row is judged once and each run has one verdict, since a
settlement is one transaction that fails where its rows are gone. Facts are stored compressed. Only the writer's
thread writes; every reader has a connection of its own, so that nobody waits for another.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Final

from otel_loopguard.errors import StoreError
from otel_loopguard.scorer import retention, settling
from otel_loopguard.scorer.folder import WAL, DataFolder
from otel_loopguard.scorer.readers import database_faults
from otel_loopguard.scorer.reading import Packing, StoreReading
from otel_loopguard.scorer.records import Arrival, Settlement
from otel_loopguard.scorer.retention import Eviction
from otel_loopguard.scorer.schema import connect_writer, empty_log, last_number, prepare
from otel_loopguard.scorer.writer import Writer, WriterCounts

DEFAULT_MAX_WAITING_BYTES: Final = 64 * 2**20
_ROW_BYTES: Final = 200
"""What a waiting row holds beside its facts, about."""


class Store(StoreReading):
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
        self._numbers = Lock()
        super().__init__(self._file, Packing())
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
        self._writer = Writer(
            db,
            connect,
            check=self._folder.check_there,
            log=folder / WAL,
            empty_log=self._empty_log,
            max_waiting_bytes=max_waiting_bytes,
        )

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
        pack = self._packing.pack_quickly
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
        self._writer.put(self._empty_log, alone=True).result()  # only then does the file become smaller
        return counts

    def _empty_log(self, db: sqlite3.Connection) -> None:
        """Empties the log while nobody begins to read: readers that relieve each other would never let it be empty."""
        with self._readers.held_off():
            empty_log(db)

    def close(self) -> None:
        """Commits what waits, and lets the folder go."""
        if self._closed or os.getpid() != self._process:
            return
        self._closed = True
        self._readers.close()
        self._writer.close()  # the last one closes the log
        self._folder.close()

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
