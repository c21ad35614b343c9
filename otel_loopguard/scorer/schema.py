"""The tables of the scorer's database: how one is begun, checked, migrated and connected to.

Invariants: one connection writes and checkpoints, the others only read; a commit is on disk when it returns (WAL,
synchronous FULL); a damaged, foreign or newer database is refused and left as it is. No number of a row, a group or
a position is used twice, also after what bore it is gone (AUTOINCREMENT).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from otel_loopguard.errors import StoreError

VERSION: Final = 2
_WITHDRAWN: Final = """\
CREATE TABLE IF NOT EXISTS withdrawn (
  position INTEGER PRIMARY KEY, run_id TEXT NOT NULL UNIQUE, judged_ns INTEGER NOT NULL, record TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS withdrawn_by_time ON withdrawn (judged_ns);
"""
MIGRATIONS: Final[dict[int, str]] = {1: _WITHDRAWN}
"""By version, the statements that make the next version of it."""
APPLICATION_ID: Final = 0x4C475343
"""Marks the file as ours; also `file` shows it."""
PAGE_BYTES: Final = 8192
CHECKPOINT_PAGES: Final = 512
"""4 MiB. Commits wait while the log is copied back: at 60,000 spans a second 99 of 100 answers came within 38 ms with
4 MiB and within 91 ms with 16 MiB in one long run of `bench_store` on a busy machine, and within 49 and 51 ms in a
short one."""
LOG_BYTES: Final = 4 * CHECKPOINT_PAGES * PAGE_BYTES
"""What the log may grow to where readers keep it from being used from its beginning again; then they are waited for."""
_BUSY_MS: Final = 500
WAY_ON: Final = "restore the folder from a backup, or move it away to begin with an empty one"
_CACHE_KIB: Final = 8_192
_READER_CACHE_KIB: Final = 4_096
_WAIT_S: Final = 10.0

_SCHEMA: Final = """\
CREATE TABLE pending (
  row INTEGER PRIMARY KEY AUTOINCREMENT, trace_id BLOB NOT NULL, received_ns INTEGER NOT NULL, spans INTEGER NOT NULL,
  root_ended INTEGER NOT NULL, names TEXT, facts BLOB NOT NULL);
CREATE TABLE judged (
  grp INTEGER PRIMARY KEY AUTOINCREMENT, judged_ns INTEGER NOT NULL, spans INTEGER NOT NULL, names TEXT NOT NULL,
  facts BLOB NOT NULL);
CREATE INDEX judged_by_time ON judged (judged_ns);
CREATE TABLE name (name TEXT NOT NULL, grp INTEGER NOT NULL, PRIMARY KEY (name, grp)) WITHOUT ROWID;
CREATE TABLE run (
  position INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL UNIQUE, grp INTEGER NOT NULL,
  judged_ns INTEGER NOT NULL, outcome TEXT NOT NULL, service TEXT, release TEXT,
  record TEXT NOT NULL);
CREATE INDEX run_by_group ON run (grp);
CREATE INDEX run_by_time ON run (judged_ns, run_id);
CREATE INDEX run_by_outcome ON run (outcome, judged_ns, run_id);
CREATE INDEX run_by_service ON run (service, judged_ns, run_id);
CREATE INDEX run_by_release ON run (release, judged_ns, run_id);
CREATE TABLE total (name TEXT NOT NULL, labels TEXT NOT NULL, value NOT NULL, PRIMARY KEY (name, labels)) WITHOUT ROWID;
CREATE TABLE sink (name TEXT PRIMARY KEY, position INTEGER NOT NULL) WITHOUT ROWID;
"""  # and what migrations add


def connect_writer(file: Path, *, max_pages: int | None = None) -> sqlite3.Connection:
    """Opens the one connection that writes.

    Args:
        file: of the database; it exists, and may be empty.
        max_pages: of the database at most; None: as many as the disk takes.

    Raises:
        sqlite3.Error: the database cannot be read or written.
    """
    db = _connect(file)
    try:
        _set_up(db, _CACHE_KIB)
        # Each of these writes to the file: what is not ours stays as it is.
        if not db.execute("PRAGMA page_count").fetchone()[0]:
            db.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            db.execute("PRAGMA auto_vacuum = INCREMENTAL")
            db.execute("PRAGMA journal_mode = WAL")
        elif db.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID:
            db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        db.execute(f"PRAGMA journal_size_limit = {CHECKPOINT_PAGES * PAGE_BYTES}")
        if max_pages is not None:
            db.execute(f"PRAGMA max_page_count = {max_pages}")
    except sqlite3.Error:
        db.close()
        raise
    return db


def connect_reader(file: Path) -> sqlite3.Connection:
    """Opens a connection that only reads, and never checkpoints: two that did both at once could lose commits."""
    db = _connect(file)
    try:
        _set_up(db, _READER_CACHE_KIB)
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute("PRAGMA query_only = ON")
    except sqlite3.Error:
        db.close()
        raise
    return db


def _connect(file: Path) -> sqlite3.Connection:
    # One thread at a time has it, but not the same one always.
    return sqlite3.connect(file, timeout=_WAIT_S, isolation_level=None, check_same_thread=False)


def _set_up(db: sqlite3.Connection, cache_kib: int) -> None:
    db.execute(f"PRAGMA cache_size = -{cache_kib}")
    db.execute("PRAGMA temp_store = MEMORY")
    db.execute("PRAGMA cell_size_check = ON")
    db.execute("PRAGMA trusted_schema = OFF")


def prepare(db: sqlite3.Connection, file: Path, *, complete: bool) -> None:
    """Begins an empty database; checks one that stands, and brings it to this version.

    Args:
        db: the writer's connection.
        file: of the database, for messages.
        complete: whether a database stood here before: then an empty one is a loss.

    Raises:
        StoreError: it is of another program, newer than this version, lost its tables, or cannot be migrated.
        sqlite3.Error: it cannot be read or written.
    """
    if not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        if complete:
            message = f"the database {file} has lost its tables: {WAY_ON}"
            raise StoreError(message)
        _check_log(db.execute("PRAGMA journal_mode = WAL"), file)
        _run(db, _SCHEMA + "".join(MIGRATIONS[version] for version in range(1, VERSION)), VERSION)
        # Into the main file at once: a log whose database is empty counts for nothing.
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return
    if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        message = f"{file} is a database of another program: give another folder with --data"
        raise StoreError(message)
    _check_log(db.execute("PRAGMA journal_mode"), file)
    migrate(db, file, MIGRATIONS)


def _check_log(mode: sqlite3.Cursor, file: Path) -> None:
    if mode.fetchone()[0] != "wal":
        message = f"the database {file} cannot be shared by threads on its disk: put the data folder on a local disk"
        raise StoreError(message)


def migrate(db: sqlite3.Connection, file: Path, migrations: Mapping[int, str], version: int = VERSION) -> None:
    """Brings a database to `version`, each step in a transaction of its own.

    Raises:
        StoreError: it is newer, or no way leads from it to `version`.
        sqlite3.Error: a step failed; it and what would follow is not done.
    """
    found: int = db.execute("PRAGMA user_version").fetchone()[0]
    if found > version:
        message = (
            f"the database {file} has format {found} of a newer otel-loopguard, this one knows up to {version}: "
            "install the newer version again, or give another folder with --data"
        )
        raise StoreError(message)
    while found < version:
        if found not in migrations:
            message = f"the database {file} has format {found}, from which no way leads to {version}: "
            raise StoreError(message + "start an older otel-loopguard on it first, or give another folder with --data")
        _run(db, migrations[found], found + 1)
        found += 1


def _run(db: sqlite3.Connection, statements: str, version: int) -> None:
    """Runs statements and notes the version that they make, all or nothing."""
    try:
        db.executescript(
            f"BEGIN IMMEDIATE;{statements};PRAGMA application_id = {APPLICATION_ID};"
            f"PRAGMA user_version = {version};COMMIT;"
        )
    except sqlite3.Error:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def empty_log(db: sqlite3.Connection) -> None:
    """Copies the whole log back and empties it; waits for readers, but not long."""
    db.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
    try:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        db.execute(f"PRAGMA busy_timeout = {int(_WAIT_S * 1000)}")


def last_number(db: sqlite3.Connection, table: str) -> int:
    """Returns the highest number that a table ever gave; 0 for none."""
    found = db.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)).fetchone()
    return 0 if found is None else int(found[0])
