"""The data folder: who may use it, and what must stand in it before a database is opened or begun there.

Invariants: one process at a time; all of ours in it is for its owner alone (0600, the folder itself 0700 where we
make it); a database that was there and is gone is never silently begun anew. In a forked child the folder is let go.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from weakref import WeakMethod

from otel_loopguard.errors import StoreError
from otel_loopguard.scorer.schema import WAY_ON

DATABASE: Final = "scorer.sqlite3"
WAL: Final = DATABASE + "-wal"
LOCK: Final = "lock"
MARK: Final = "FORMAT"
"""Stands in the folder once the database in it is complete: from then on a missing database is a loss."""
_MARK_TEXT: Final = b"Data folder of otel-loopguard's scorer. Copy it whole, or make a copy with its backup.\n"
_FILES: Final = (DATABASE, WAL, DATABASE + "-shm", LOCK, MARK)
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_OPEN: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class DataFolder:
    """Makes the folder where it is missing, and holds its lock until `close`.

    Args:
        path: of the folder.

    Raises:
        StoreError: it is in use, cannot be written, or has lost its database; says how to go on.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.database = path / DATABASE
        with _disk_faults(path):
            _make(path)
            self._lock: int | None = os.open(path / LOCK, _OPEN, 0o600)
        # A child that outlives us would hold the lock: a duplicate of ours.
        let_go = WeakMethod(self.close)
        os.register_at_fork(after_in_child=lambda: (found := let_go()) and found())
        try:
            self._take(self._lock)
            with _disk_faults(path):
                self._check()
        except StoreError:
            self.close()
            raise

    def close(self) -> None:
        """Lets the lock go."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @property
    def complete(self) -> bool:
        """Whether a database stood here before."""
        return (self.path / MARK).exists()

    def note_complete(self) -> None:
        """Notes that the database stands, durably."""
        with _disk_faults(self.path):
            if not self.complete:
                _write_durably(self.path / MARK, _MARK_TEXT)

    def check_there(self) -> None:
        """Checks that the database is still the one that was opened: what is written to one that was deleted is lost.

        Raises:
            StoreError: it is not.
        """
        try:
            found = _identity(self.database)
        except OSError:
            found = None
        if found != self._opened:
            message = f"the database {self.database} was moved or deleted: put it back, or start the scorer again"
            raise StoreError(message)

    def _take(self, lock: int) -> None:
        with _disk_faults(self.path):
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(lock, 20, 0).decode("ascii", "replace").strip()
                named = f" (process {holder})" if holder.isdecimal() else ""
                message = (
                    f"the data folder {self.path} is in use by another scorer{named}: stop that one, or give this one "
                    "a folder of its own with --data"
                )
                raise StoreError(message) from None
            os.ftruncate(lock, 0)
            os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)

    def _check(self) -> None:
        for name in _FILES:
            file = self.path / name
            if file.exists() and stat.S_IMODE(file.stat().st_mode) & _OTHERS:
                file.chmod(0o600)
        if not self.database.exists() or not self.database.stat().st_size:
            wal = self.path / WAL
            if self.complete or (wal.exists() and wal.stat().st_size):
                message = f"the database {self.database} is missing or empty, but its folder was in use: {WAY_ON}"
                raise StoreError(message)
        # Before SQLite makes it: its other files get the mode of this one.
        os.close(os.open(self.database, _OPEN, 0o600))
        self._opened = _identity(self.database)


def _identity(file: Path) -> tuple[int, int]:
    found = file.stat()
    return found.st_dev, found.st_ino


def _make(path: Path) -> None:
    if not path.exists():
        path.mkdir(parents=True, mode=0o700)
        path.chmod(0o700)
    if not path.is_dir():
        message = f"{path} is not a folder: name one with --data"
        raise StoreError(message)
    mode = path.stat().st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        message = f"the data folder {path} can be written by every user of this machine: run chmod o-w {path}"
        raise StoreError(message)


def _write_durably(file: Path, content: bytes) -> None:
    """Writes a small file, for its owner alone, so that it is there in full or not at all."""
    fresh = file.with_name(file.name + ".new")
    descriptor = os.open(fresh, _OPEN | os.O_TRUNC, 0o600)
    try:
        os.write(descriptor, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    fresh.rename(file)
    _sync_folder(file.parent)


def _sync_folder(path: Path) -> None:
    """Makes names that were given in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _disk_faults(path: Path) -> Iterator[None]:
    """Turns the operating system's faults into ours, with what to do."""
    try:
        yield
    except OSError as error:
        message = (
            f"the data folder {path} cannot be used: {_WAYS_ON.get(error.errno or 0, error.strerror or 'unknown')}"
        )
        raise StoreError(message) from error


_WAYS_ON: Final = {
    errno.EROFS: "its disk is read-only: mount it for writing, or give another folder with --data",
    errno.EACCES: "no permission: it must belong to the user that runs the scorer, with mode 0700",
    errno.EPERM: "no permission: it and all in it must belong to the user that runs the scorer",
    errno.ENOSPC: "its disk is full: free some space",
    errno.EDQUOT: "its owner's disk quota is used up: free some space",
    errno.ENOTDIR: "a part of its path is not a folder: name a folder with --data",
    errno.ELOOP: "a file in it is a symbolic link: replace it by the file itself",
    errno.EISDIR: "a folder stands where a file of the scorer must be: move it away",
    errno.ENOLCK: "its file system has no locks: put it on a local disk",
}
