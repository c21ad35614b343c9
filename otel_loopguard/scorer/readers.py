"""Connections for reading, one for each thread that reads at the moment, and the database's faults in plain words.

Invariants: a connection is used by one thread at a time and goes back clean, or is closed. Reading waits for the
writer only while it empties the log, half a second at most, and the writer for nobody longer than that.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, LifoQueue
from threading import Lock
from typing import Any

import msgspec
import zstandard

from otel_loopguard.errors import StoreError
from otel_loopguard.scorer.schema import connect_reader


class Readers:
    """Lends connections that only read.

    Args:
        file: of the database.

    Thread safety: any thread. A forked child gets none.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._idle: LifoQueue[sqlite3.Connection] = LifoQueue()
        self._closed = False
        self._gate = Lock()
        self._process = os.getpid()

    def held_off(self) -> Lock:
        """What to hold so that nobody begins to read meanwhile; who reads already goes on."""
        return self._gate

    @contextmanager
    def one(self) -> Iterator[sqlite3.Connection]:
        """Lends a connection; the body must have read its results to the end.

        Raises:
            StoreError: the database cannot be read, also where the body found that.
        """
        if self._closed or os.getpid() != self._process:
            message = "the store is closed, or belongs to another process"
            raise StoreError(message)
        with database_faults(self._file):
            with self._gate:
                pass
            try:
                db = self._idle.get_nowait()
            except Empty:
                db = connect_reader(self._file)
            clean = False
            try:
                yield db
                clean = not self._closed
            finally:
                if clean:
                    self._idle.put(db)
                else:
                    db.close()

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """Lends a connection that sees one state of the database throughout."""
        with self.one() as db:
            db.execute("BEGIN")
            try:
                yield db
            finally:
                db.execute("ROLLBACK")

    def all(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """Returns all rows of one query."""
        with self.one() as db:
            return db.execute(query, values).fetchall()

    def close(self) -> None:
        """Closes all that are not lent, and lends none any more."""
        self._closed = True
        with suppress(Empty):
            while True:
                self._idle.get_nowait().close()


@contextmanager
def database_faults(file: Path) -> Iterator[None]:
    """Turns faults of a database into ours, with what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(_explained(file, error)) from error
    except (zstandard.ZstdError, msgspec.MsgspecError) as error:
        raise StoreError(_damaged(file, "what was stored does not read back")) from error


def _explained(file: Path, error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return _damaged(file, str(error))
    if code == sqlite3.SQLITE_FULL:
        return f"the database {file} cannot be written, its disk is full: free some space"
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return f"the database {file} cannot be written ({error}): it and its folder must belong to the scorer's user"
    return f"the database {file} cannot be read or written ({error}): check its disk"


def _damaged(file: Path, why: str) -> str:
    return (
        f"the database {file} is damaged ({why}): restore the folder from a backup, or save what can be read with the "
        "`.recover` command of the program sqlite3, or move the folder away to begin with an empty one"
    )
