"""Verdicts on their way out: from the store's outbox to each sink, at least once, for as long as it takes.

Invariants: a verdict is passed by only when its sink has it or has refused it for good; both are counted. A consumer
tells repeats by `run_id` and `revision`. A sink that fails delays no other and nothing else. No content: a line holds
the verdict and how it came about.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import stat
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol

import msgspec

from otel_loopguard.errors import LoopGuardError
from otel_loopguard.scorer.metrics import BACKLOG, SEND_FAILURES, SEND_REJECTED, SENT
from otel_loopguard.scorer.records import JudgedRun, Series

BATCH: Final = 256
"""Verdicts sent together at most: some 2 kB each."""
IDLE_S: Final = 0.5
"""How long it is until the outbox is looked at again once it is empty."""
FIRST_DELAY_S: Final = 1.0
LAST_DELAY_S: Final = 60.0
"""After each failure it takes twice as long until the next try, up to this."""
_FILE_MODE: Final = 0o640
_TAIL_BYTES: Final = 2**20

_LOG: Final = logging.getLogger(__name__)


class SendFailure(StrEnum):
    """Why a sending failed; it is repeated whatever the reason."""

    DISK_FULL = "disk_full"
    UNWRITABLE = "unwritable"
    UNREACHABLE = "unreachable"
    TIMED_OUT = "timed_out"
    BUSY = "busy"
    """The receiver asks to come again later."""
    UNAUTHENTICATED = "unauthenticated"
    BAD_ANSWER = "bad_answer"
    STORE = "store"
    """The outbox could not be read."""


class SinkError(LoopGuardError):
    """A sink could not take what it was given; part of it may have arrived.

    Args:
        reason: why.
        message: what, where, and what to do; no content.
        retry_after_s: when the receiver asks to come again.
    """

    def __init__(self, reason: SendFailure, message: str, *, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.reason = reason
        self.retry_after_s = retry_after_s


class Sink(Protocol):
    """Where verdicts go."""

    @property
    def name(self) -> str:
        """The label of its metrics, and under which the store keeps how far it is."""

    def send(self, runs: Sequence[JudgedRun]) -> int:
        """Sends all of them.

        Returns:
            How many of them the receiver will never take, however often they come.

        Raises:
            SinkError: not all have arrived; the same are sent again.
        """


class Outbox(Protocol):
    """The part of the store that sinks need."""

    def outbox(self, sink: str, limit: int) -> list[tuple[int, JudgedRun]]:
        """The next verdicts for a sink, with their positions, ascending."""

    def sent(self, sink: str, position: int) -> None:
        """A sink has all up to this position."""

    def backlog(self, sink: str) -> int:
        """How many verdicts a sink has not had."""


class Outlet:
    """Takes one sink's verdicts from the outbox to it.

    Args:
        store: whose outbox.
        sink: where to.

    Thread safety: one thread calls `step`; `health` may be called from any.
    """

    def __init__(self, store: Outbox, sink: Sink) -> None:
        self._store, self._sink = store, sink
        self._delay_s = 0.0
        self._sent = self._rejected = 0
        self._failures: Counter[str] = Counter({reason.value: 0 for reason in SendFailure})

    def step(self) -> float:
        """Sends one batch.

        Returns:
            Seconds until the next step.
        """
        name = self._sink.name
        try:
            batch = self._store.outbox(name, BATCH)
            if not batch:
                return IDLE_S
            rejected = self._sink.send([run for _, run in batch])
            self._store.sent(name, batch[-1][0])
        except SinkError as error:
            return self._failed(error.reason, error, error.retry_after_s)
        except LoopGuardError as error:
            return self._failed(SendFailure.STORE, error, 0.0)
        if self._delay_s:
            _LOG.info("verdicts are sent to %s again", name)
        self._delay_s = 0.0
        self._rejected += rejected
        self._sent += len(batch) - rejected
        return 0.0 if len(batch) == BATCH else IDLE_S

    def health(self) -> dict[Series, float]:
        """Its metrics, of source `health`."""
        sink = {"sink": self._sink.name}
        found: dict[Series, float] = {
            SENT.series(sink): self._sent,
            SEND_REJECTED.series(sink): self._rejected,
        }
        with contextlib.suppress(LoopGuardError):  # a database that cannot be read leaves one number out, not all
            found[BACKLOG.series(sink)] = self._store.backlog(self._sink.name)
        for reason, count in self._failures.items():
            found[SEND_FAILURES.series({**sink, "reason": reason})] = count
        return found

    def _failed(self, reason: SendFailure, error: LoopGuardError, retry_after_s: float) -> float:
        self._failures[reason.value] += 1
        if not self._delay_s:
            _LOG.warning("verdicts wait, as %s cannot be sent to: %s", self._sink.name, error)
        self._delay_s = later(self._delay_s)
        return max(self._delay_s, retry_after_s)


def later(delay_s: float) -> float:
    """How long to wait after one more failure."""
    return min(max(2 * delay_s, FIRST_DELAY_S), LAST_DELAY_S)


class Repeating:
    """A thread that calls a step again and again, each time after the seconds that the last one returned."""

    def __init__(self, step: Callable[[], float], *, name: str) -> None:
        self._step = step
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Starts it, once."""
        self._thread.start()

    def stop(self, timeout_s: float = 5.0) -> bool:
        """Lets the step that runs come to its end, and tells whether it did in time."""
        self._stop.set()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def is_alive(self) -> bool:
        """Tells whether it runs."""
        return self._thread.is_alive()

    def _run(self) -> None:
        while not self._stop.wait(self._step()):
            pass


def verdict_line(run: JudgedRun) -> bytes:
    """A verdict as one line of JSON: the fields that `replay --json` prints, then how it came about."""
    line = {
        **msgspec.to_builtins(run.verdict),
        "close": run.close,
        "judged": run.judged_ns,
        "backfill": run.backfill,
        "withdrawn": run.withdrawn,
    }
    return msgspec.json.encode(line) + b"\n"


class VerdictFile:
    """Adds verdicts to a file as JSON lines, each batch on disk before it counts as sent.

    The file is opened anew for each batch, so that it may be moved away or emptied at any time.

    Args:
        path: the file; made where it is missing, in a folder that is there.
    """

    name: Final = "file"

    def __init__(self, path: Path) -> None:
        self._path = path

    def send(self, runs: Sequence[JudgedRun]) -> int:
        """Adds their lines; see `Sink`. After a failure the file ends where it ended before."""
        lines = [verdict_line(run) for run in runs]
        try:
            opened = os.open(
                self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, _FILE_MODE
            )
            try:
                self._append(opened, lines)
            finally:
                os.close(opened)
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            reason = SendFailure.DISK_FULL if full else SendFailure.UNWRITABLE
            message = f"{self._path}: {os.strerror(error.errno or 0)}"
            raise SinkError(reason, message) from None
        return 0

    def _append(self, opened: int, lines: Sequence[bytes]) -> None:
        found = os.fstat(opened)
        if not stat.S_ISREG(found.st_mode):
            message = f"{self._path} is not a file: name one for the verdicts"
            raise SinkError(SendFailure.UNWRITABLE, message)
        size = _mended(opened, found.st_size, lines)
        left = memoryview(b"".join(lines))
        try:
            while left:
                left = left[os.write(opened, left) :]
            os.fsync(opened)
        except OSError:
            # Not where somebody has emptied it meanwhile: it would be filled up with zeros.
            if os.fstat(opened).st_size > size:
                os.ftruncate(opened, size)
            raise
        if not size:
            _sync_folder(self._path.parent)


def _mended(opened: int, size: int, lines: Sequence[bytes]) -> int:
    """Sees to it that the file ends with a whole line, and returns its size.

    What a process left unfinished that was killed is removed where it is the beginning of a line that now comes again;
    else it is ended, as it may be somebody else's.
    """
    start = max(0, size - _TAIL_BYTES)
    tail = os.pread(opened, size - start, start).rpartition(b"\n")[2]
    if not tail:
        return size
    if any(line.startswith(tail) for line in lines):
        os.ftruncate(opened, size - len(tail))
        return size - len(tail)
    os.write(opened, b"\n")
    return size + 1


def _sync_folder(folder: Path) -> None:
    """Puts the name of a new file on disk."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
