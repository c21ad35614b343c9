"""Keeps what a request said out of the logs of the libraries that serve it.

Invariants: of an error only its class is logged: its text, and the source lines of a traceback, may quote a request.
"""

from __future__ import annotations

import logging
from typing import Final


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
