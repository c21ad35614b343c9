"""Keeps what a request said out of the logs of the libraries that serve it.

Invariants: of an error only its class is logged: its text, and the source lines of a traceback, may quote a request.
What befalls an event loop again and again is logged once a minute: a flood of connections must not fill a disk.
"""

from __future__ import annotations

import asyncio
import logging
import math
from typing import Any, Final

AGAIN_S: Final = 60.0
_LOG: Final = logging.getLogger(__name__)


class _NoContent(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        """Leaves the error's class."""
        kind = record.exc_info[0] if isinstance(record.exc_info, tuple) else None
        if kind is not None:
            record.msg, record.args = "a request failed: %s", (kind.__name__,)
            record.exc_info = record.exc_text = None
        return True


_NO_CONTENT: Final = _NoContent()


def quiet(name: str) -> logging.Logger:
    """Returns a logger that logs errors without their texts, from now on."""
    logger = logging.getLogger(name)
    logger.addFilter(_NO_CONTENT)  # once, however often it is added
    return logger


class LoopFaults:
    """The exception handler of an event loop: says what failed, each kind of fault once a minute."""

    def __init__(self) -> None:
        self._said: dict[str, float] = {}
        """When each kind was logged last; kinds are classes of errors."""

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Logs a fault, as asyncio tells of it."""
        error = context.get("exception")
        why = (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
        if loop.time() - self._said.get(why, -math.inf) >= AGAIN_S:
            self._said[why] = loop.time()
            _LOG.error("the event loop met a fault: %s", why)
