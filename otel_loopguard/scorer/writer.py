"""The one thread that writes: takes all that waits, commits it as one transaction, and only then says so.

Invariants: a future is done after the commit that has its work, in the order in which work was put; one work that
fails is undone alone, a commit that fails is undone whole; a failing disk stops nothing for good: the next commit
tries again. What waits is bounded.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from threading import Condition, Thread
from typing import Any, Final, TypeVar

import msgspec

from otel_loopguard.errors import StoreError
from otel_loopguard.scorer.records import Refusal, RefusedError
from otel_loopguard.scorer.schema import LOG_BYTES

_T = TypeVar("_T")

_COMMIT_BYTES: Final = 8 * 2**20
"""Facts of one commit at most: what comes after waits no longer than a disk takes for so much."""
_RETRY_S: Final = {Refusal.DISK_FULL: 5.0, Refusal.STORE_FAILED: 5.0}
_OWN_FAULTS: Final = (
    sqlite3.IntegrityError,
    sqlite3.DataError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
    ValueError,
    OverflowError,
)
"""Faults of one work, not of the disk."""
_log = logging.getLogger(__name__)


class _Work(msgspec.Struct, gc=False):
    do: Callable[[sqlite3.Connection], Any]
    future: Future[Any]
    size: int
    alone: bool
    outcome: Any = None
    failure: StoreError | None = None


class WriterCounts(msgspec.Struct, gc=False):
    """What the thread has done since it began, and what waits."""

    commits: int = 0
    works: int = 0
    failed_commits: int = 0
    waiting_bytes: int = 0
    trouble: Refusal | None = None
    """Why the last commit failed; None where it did not."""


class Writer:
    """Runs works on one connection, grouped into transactions.

    Args:
        db: the connection; the writer's from now on.
        connect: makes another one after a fault of the disk.
        check: called before and after each commit; raises `StoreError` where what is written would be lost.
        log: the write-ahead log.
        empty_log: copies it back and empties it, if nobody reads for long.
        max_waiting_bytes: sizes of works that may wait.

    Thread safety: any thread puts.
    """

    def __init__(
        self,
        db: sqlite3.Connection,
        connect: Callable[[], sqlite3.Connection],
        *,
        check: Callable[[], None],
        log: Path,
        empty_log: Callable[[sqlite3.Connection], None],
        max_waiting_bytes: int,
    ) -> None:
        self.counts = WriterCounts()
        self._db: sqlite3.Connection | None = db
        self._connect, self._check = connect, check
        self._log, self._empty_log = log, empty_log
        self._log_limit = LOG_BYTES
        self._max_waiting = max_waiting_bytes
        self._queue: deque[_Work] = deque()
        self._running: Sequence[_Work] = ()
        self._changed = Condition()
        self._stopping = False
        self._ended: Refusal | None = None
        self._process = os.getpid()
        self._thread = Thread(target=self._run, name="loopguard-store", daemon=True)
        self._thread.start()

    def put(self, do: Callable[[sqlite3.Connection], _T], *, size: int = 0, alone: bool = False) -> Future[_T]:
        """Has `do` called in a transaction.

        Args:
            do: changes the database; what it raises of `StoreError` undoes its own changes alone. It may be called
                again after what it did was undone with what others did.
            size: bytes that it holds while it waits; works of size 0 are never refused for what waits.
            alone: outside a transaction.

        Returns:
            What `do` returned, after the commit. Fails with `RefusedError` where the commit failed, and with
            `StoreError` where `do` itself did.

        Raises:
            RefusedError: too much waits, or the writer has stopped.
        """
        if os.getpid() != self._process:
            raise RefusedError(Refusal.STOPPING)
        work = _Work(do, Future(), size, alone)
        with self._changed:
            if self._ended is not None or self._stopping:
                raise RefusedError(self._ended or Refusal.STOPPING)
            waiting = self.counts.waiting_bytes
            if size and waiting and waiting + size > self._max_waiting:
                raise RefusedError(Refusal.BUSY)
            self.counts.waiting_bytes = waiting + size
            self._queue.append(work)
            self._changed.notify()
        return work.future

    def close(self) -> None:
        """Commits what waits, takes no more, and closes the connection."""
        if os.getpid() != self._process:
            return
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        try:
            while works := self._take():
                self._carry_out(works)
                self._bound_log()
            self._ended = Refusal.STOPPING
        finally:  # also after a fault that nobody foresaw: nobody may wait for ever
            with self._changed:
                self._ended = self._ended or Refusal.STORE_FAILED
                left = [*self._running, *self._queue]
                self._queue.clear()
            _refuse(left, self._ended)
            if self._db is not None:
                self._db.close()

    def _take(self) -> list[_Work]:
        """Waits for work; nothing where the writer stops and none is left."""
        with self._changed:
            while not self._queue and not self._stopping:
                self._changed.wait()
            works: list[_Work] = []
            size = 0
            while self._queue and (not works or (size < _COMMIT_BYTES and not self._queue[0].alone)):
                work = self._queue.popleft()
                size += work.size
                works.append(work)
                if work.alone:
                    break
        return works

    def _carry_out(self, works: Sequence[_Work]) -> None:
        self._running = works
        taken = [work for work in works if work.future.set_running_or_notify_cancel()]
        refusal = self._commit(taken) if taken else None
        with self._changed:
            self.counts.waiting_bytes -= sum(work.size for work in works)
        if refusal is None:
            _answer(taken)
            return
        # Where there is no room for more, what makes room or holds little must go on all the same.
        again = [work for work in taken if not work.size] if len(taken) > 1 else []
        _refuse([work for work in taken if work not in again], refusal)
        for work in again:
            refusal = self._commit([work])
            if refusal is None:
                _answer([work])
            else:
                _refuse([work], refusal)

    def _bound_log(self) -> None:
        """Empties the log where readers, one after the other, have kept it from being used again."""
        try:
            if self._db is None or self._log.stat().st_size <= self._log_limit:
                return
            self._empty_log(self._db)
            # Somebody who reads for long, such as a backup, is not waited for with each commit.
            self._log_limit = max(LOG_BYTES, 2 * self._log.stat().st_size)
        except (sqlite3.Error, OSError) as error:
            _log.warning("the log of the scorer's database could not be emptied: %s", error)

    def _commit(self, works: Sequence[_Work]) -> Refusal | None:
        """Returns why nothing of the works was done; None where each was done or failed alone."""
        try:
            self._check()
            db = self._db = self._db or self._connect()
            for work in works:
                work.failure = None
            if works[0].alone:
                _try(db, works[0])
            else:
                _transact(db, works)
            self._check()
        except (sqlite3.Error, StoreError, MemoryError) as error:
            return self._failed(error)
        self.counts.commits += 1
        self.counts.works += len(works)
        if self.counts.trouble is not None:
            _log.warning("the scorer's database can be written again")
            self.counts.trouble = None
        return None

    def _failed(self, error: Exception) -> Refusal:
        full = isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
        refusal = Refusal.DISK_FULL if full else Refusal.STORE_FAILED
        if self.counts.trouble is not refusal:
            _log.error("the scorer's database cannot be written: %s; it is tried again with each request", error)
        self.counts.failed_commits += 1
        self.counts.trouble = refusal
        try:
            if self._db is not None and self._db.in_transaction:
                self._db.execute("ROLLBACK")
            if full:
                return refusal
        except sqlite3.Error:
            pass  # the connection goes, and its transaction with it
        if self._db is not None:
            self._db.close()
            self._db = None
        return refusal


def _transact(db: sqlite3.Connection, works: Sequence[_Work]) -> None:
    """Does works in one transaction; where one fails, all are undone and done again without it.

    A savepoint a work would undo that one alone, and made settling four times as slow.
    """
    while True:
        db.execute("BEGIN IMMEDIATE")
        if all(_try(db, work) for work in works if work.failure is None):
            db.execute("COMMIT")
            return
        db.execute("ROLLBACK")


def _try(db: sqlite3.Connection, work: _Work) -> bool:
    try:
        work.outcome = work.do(db)
    except StoreError as error:
        work.failure = error
    except _OWN_FAULTS as error:
        work.failure = StoreError(f"what was to be written does not fit the database: {error}")
        work.failure.__cause__ = error
    return work.failure is None


def _answer(works: Sequence[_Work]) -> None:
    for work in works:
        if work.failure is None:
            work.future.set_result(work.outcome)
        else:
            work.future.set_exception(work.failure)


def _refuse(works: Sequence[_Work], refusal: Refusal) -> None:
    for work in works:
        if not work.future.done():
            work.future.set_exception(RefusedError(refusal, retry_after_s=_RETRY_S.get(refusal, 1.0)))
