"""Remembers answers that were slow to get, for so long that asking again and again costs little.

Invariants: an answer is good for a number of times as long as it took to get, so that all who ask for the same together
cost a small share of one core; what was fast is never remembered. Memory is bounded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, Final, TypeVar, cast

SLOW_S: Final = 0.02
TIMES: Final = 20
"""How many times as long as it took an answer is good: it then costs at most 5% of one core."""
MOST_ANSWERS: Final = 32
_T = TypeVar("_T")


class Remembering:
    """Answers of the last moments.

    Args:
        clock: seconds, only ever forward.

    Thread safety: any thread; two that ask for the same at one time may both have to wait for it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._answers: dict[Hashable, tuple[float, Any]] = {}
        """By question: until when it is good, and the answer."""

    def get(self, question: Hashable, ask: Callable[[], _T]) -> _T:
        """Returns the answer to a question, asked anew unless one is still good."""
        began = self._clock()
        with self._lock:
            until, answer = self._answers.get(question, (began, None))
        if until > began:
            return cast("_T", answer)
        fresh = ask()
        ended = self._clock()
        with self._lock:
            self._answers.pop(question, None)
            if ended - began >= SLOW_S:
                while len(self._answers) >= MOST_ANSWERS:
                    del self._answers[next(iter(self._answers))]
                self._answers[question] = (ended + TIMES * (ended - began), fresh)
        return fresh
