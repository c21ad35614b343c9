"""Looks at times whether the policy file has changed, and hands a changed policy on.

Invariants: the application's own threads only compare a clock, and once an interval start a thread that lives for one
look; no lock, so a fork cannot leave one held; a file that cannot be used changes nothing and is told once a version.

Why a short-lived thread, and not one that stays or none at all:

- Reading a policy takes a file system's time and, for a large one, the parser's: neither belongs on the thread or the
  event loop that starts a span. A file system that hangs then holds one daemon thread, and no second one is started.
- A thread that stays does not survive a fork, so each child would need its own again; it would also make every later
  fork one of a process with threads, which CPython 3.12 warns of. Here a child goes on looking without being told, and
  a look that the fork cut off is repeated, as a thread that did not come along is not alive.
- Under gevent the thread is a greenlet where threads are patched, and an operating system's thread where not; both end.
- A process without spans looks at nothing; its policy matters only for spans.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable
from threading import Thread
from time import monotonic
from typing import Final, TypeAlias

from otel_loopguard.errors import LoopGuardError, PolicyError
from otel_loopguard.policy import Policy, load_file
from otel_loopguard.processor.boundary import Boundary

SOURCE: Final = "policy file"
"""Name of the file in messages: its path is the owner's business."""
_THREAD: Final = "otel-loopguard-policy"

_Version: TypeAlias = tuple[int, ...]


class PolicyWatch:
    """One policy file, and when to look at it again.

    Args:
        path: the file.
        every_s: seconds between two looks at least; 0: `look` does nothing.
        clock: gives seconds that never run backwards.

    Thread safety: any number of threads may call `look`.
    """

    def __init__(self, path: str, *, every_s: float, clock: Callable[[], float] = monotonic) -> None:
        self._path = path
        self._every_s = every_s
        self._clock = clock
        self._due = clock() + every_s if every_s > 0 else float("inf")
        self._thread: Thread | None = None
        self._done: _Version = ()
        self._claimed: dict[_Version, object] = {}
        self._logger = logging.getLogger(__name__)
        self._boundary = Boundary(self._logger)
        self.changed: Callable[[Policy], object] = _nobody
        """Gets each new policy, on a thread of the watch."""

    def load(self) -> Policy:
        """Reads the policy for the first time.

        Raises:
            PolicyError: the file cannot be read, or holds no usable policy.
            MissingExtraError: it needs a library that is not installed.
        """
        self._done = _version(self._path)
        return _load(self._path)

    def look(self) -> None:
        """Starts a look if one is due; it neither waits nor raises.

        Cost: a clock and a comparison.
        """
        now = self._clock()
        if now < self._due:
            return
        self._due = now + self._every_s
        if self._thread is not None and self._thread.is_alive():
            return
        self._thread = thread = Thread(target=self._guarded, name=_THREAD, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # No more threads, or the interpreter is on its way out. The next look tries again.
            self._thread = None

    def _guarded(self) -> None:
        self._boundary.run("looking at the policy file", self._examine, otherwise=None)

    def _examine(self) -> None:
        """Hands on the policy if the file is another one than at the last look."""
        version = _version(self._path)
        if version == self._done:
            return
        # Two spans may start two looks at once: the first to claim a version deals with it. The process belongs to
        # the claim, because a fork may have cut off the look that made it.
        claim, mine = (os.getpid(), *version), object()
        if self._claimed.setdefault(claim, mine) is not mine:
            return
        self._claimed = {claim: mine}
        try:
            policy = _load(self._path)
        except LoopGuardError as error:
            self._done = version
            told = "%s; the policy read before stays in use"
            self._logger.error(told, line(error))  # noqa: TRY400 - the line says all, a traceback nothing
            return
        if claim in self._claimed:  # no newer version has come meanwhile
            self.changed(policy)
            self._done = version
            self._logger.info("policy %s is in use for traces that begin from now on", policy.label)


def line(error: LoopGuardError) -> str:
    """Returns an error as one line: of several problems the first, and how many there are."""
    if isinstance(error, PolicyError) and len(error.problems) > 1:
        more = len(error.problems) - 1
        return f"{error.problems[0]} (and {more} more problem{'s' if more > 1 else ''})"
    return str(error)


def _nobody(policy: Policy) -> None:
    """Takes a policy that nobody waits for."""


def _load(path: str) -> Policy:
    try:
        # Looked at before it is opened: opening a pipe could wait for ever.
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - the path is text of the owner's
            raise PolicyError((f"{SOURCE}: not a regular file; name a file that holds the policy",))
    except (OSError, ValueError):
        pass  # `load_file` says so
    return load_file(path, source=SOURCE)


def _version(path: str) -> _Version:
    """Returns what tells one state of the file from another; a file that is not there has a state too."""
    try:
        found = os.stat(path)  # noqa: PTH116 - the path is text of the owner's
    except OSError as error:
        return (error.errno or -1,)
    except ValueError:
        return (-2,)
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
