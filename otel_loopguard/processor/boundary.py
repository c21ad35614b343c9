"""The one place where any error of ours is caught, so that the application never sees it.

Invariants: a failure is counted each time and said once a step, by its class and the line of ours it came from; never
by its text, which may hold content. What is no `Exception` (exits, interrupts) passes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar, TypeVarTuple
from weakref import WeakMethod

from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.trace import Status

from otel_loopguard.digest import NameKind, looks_like_name

if TYPE_CHECKING:
    from logging import Logger
    from types import TracebackType

    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan, Span

_Given = TypeVarTuple("_Given")
_Got = TypeVar("_Got")

_PACKAGE: Final = __name__.partition(".")[0] + "."
_BARE: Final = (MappingProxyType[str, Any]({}), (), (), "unreadable", Status())
"""What is left of a span that cannot even be emptied: attributes, events, links, name, status."""


class Boundary:
    """Runs steps of ours and keeps what goes wrong in them from whoever called.

    Args:
        logger: where a step's first failure is said, as a warning.

    Thread safety: any thread, and a child after a fork.
    """

    def __init__(self, logger: Logger) -> None:
        self._logger = logger
        self._counts: dict[str, int] = {}
        # Re-entered where a signal handler or the garbage collector ends a span while a failure is counted.
        self._lock = threading.RLock()
        if hasattr(os, "register_at_fork"):
            renew = WeakMethod(self._renew)
            os.register_at_fork(after_in_child=lambda: (found := renew()) and found())

    @property
    def failures(self) -> Mapping[str, int]:
        """How often each step failed; steps that never did are left out."""
        with self._lock:
            return dict(self._counts)

    def run(self, step: str, function: Callable[[*_Given], _Got], *arguments: *_Given, otherwise: _Got) -> _Got:
        """Calls `function` and returns what it gives, or `otherwise` where it raises.

        Args:
            step: what is being done, as counted and logged; a constant of the caller's.
            function: a step of ours, or what the application gave us to call.
            arguments: handed to it.
            otherwise: what stands for its result where it fails.
        """
        try:
            return function(*arguments)
        except Exception as error:  # noqa: BLE001 - this is the boundary
            self.caught(step, error)
            return otherwise

    def caught(self, step: str, error: Exception) -> None:
        """Counts what a step raised, and says it the first time. It does not raise."""
        try:  # noqa: SIM105 - `suppress` is one more call, and there may be no stack left
            self._note(step, error)
        except Exception:  # noqa: BLE001, S110 - nor is there anybody to tell where a log handler raises
            pass

    def _note(self, step: str, error: Exception) -> None:
        with self._lock:
            count = self._counts[step] = self._counts.get(step, 0) + 1
        if count == 1:
            name = type(error).__name__
            self._logger.warning(
                "%s failed: %s at %s. The application is not affected; further failures of this step are only counted.",
                step,
                name if looks_like_name(name, kind=NameKind.ERROR_TYPE) else "an exception",
                _own_line(error.__traceback__),
            )

    def _renew(self) -> None:
        # The lock may have been held, at the fork, by a thread that does not exist here.
        self._lock = threading.RLock()


# ruff: noqa: SLF001 - what is stored on a span without a call


class GuardedSpanProcessor(SpanProcessor):
    """A span processor whose hooks never raise; what they do stands in `started`, `ending`, `ended` and `emptied`.

    Args:
        logger: where a failure is said.
    """

    def __init__(self, logger: Logger) -> None:
        self.boundary = Boundary(logger)

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:  # noqa: ARG002 - the SDK's
        """Called by the SDK when a span starts."""
        try:
            self.started(span)
        except Exception as error:  # noqa: BLE001 - this is the boundary
            try:  # noqa: SIM105 - no call that can be spared: there may be no stack left
                self.boundary.caught("start", error)
            except Exception:  # noqa: BLE001, S110 - nor can it be counted
                pass

    def _on_ending(self, span: Span) -> None:
        """Called by the SDK on the thread that ends a span, before any processor's `on_end`."""
        try:
            self.ending(span)
        except Exception as error:  # noqa: BLE001 - this is the boundary
            try:
                self.boundary.caught("end", error)
                self.emptied(span)
            except Exception as second:  # noqa: BLE001 - the same
                # Not a single call: there may be no stack left for one.
                span._attributes, span._events, span._links, span._name, span._status = _BARE
                try:  # noqa: SIM105
                    self.boundary.caught("empty", second)
                except Exception:  # noqa: BLE001, S110
                    pass

    def on_ending(self, span: Span) -> None:
        """The specification's name for the hook, for an SDK that calls it so."""
        self._on_ending(span)

    def on_end(self, span: ReadableSpan) -> None:
        """Called by the SDK with the ended span."""
        try:
            self.ended(span)
        except Exception as error:  # noqa: BLE001 - this is the boundary
            try:
                self.boundary.caught("end", error)
                self.emptied(span)
            except Exception as second:  # noqa: BLE001 - the same
                # Not a single call: there may be no stack left for one.
                span._attributes, span._events, span._links, span._name, span._status = _BARE
                try:  # noqa: SIM105
                    self.boundary.caught("empty", second)
                except Exception:  # noqa: BLE001, S110
                    pass

    def started(self, span: Span) -> None:
        """Takes note of a span that starts."""
        raise NotImplementedError

    def ending(self, span: Span) -> None:
        """Changes a span that is ending."""
        raise NotImplementedError

    def ended(self, span: ReadableSpan) -> None:
        """Looks at a span that ended."""
        raise NotImplementedError

    def emptied(self, span: ReadableSpan) -> None:
        """Leaves nothing on a span that could not be dealt with."""
        raise NotImplementedError


def _own_line(traceback: TracebackType | None) -> str:
    """The innermost line of this package that the error came through."""
    found = "a line outside"
    while traceback is not None:
        module = str(traceback.tb_frame.f_globals.get("__name__"))
        if module.startswith(_PACKAGE):
            found = f"{module}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return found
