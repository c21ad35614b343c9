"""What every agent of the live tests is scripted to do: its prompt, its tools, and what its model asks for.

Invariants: needs nothing but the standard library. Each kind of content holds a canary of its own, so that a test can
tell which one came out where.
"""

from __future__ import annotations

import itertools
import json
import os
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Final

ARGUMENT: Final = "canary-argument-5d1c"
RESULT: Final = "canary-result-80fe"
ERROR: Final = "canary-error-c3a7"
PROMPT: Final = "Where is the order? canary-prompt-19b2"
ANSWER: Final = "It is on its way. canary-answer-6e4d"
INSTRUCTIONS: Final = "Look after orders. canary-instructions-f208"
AGENT: Final = "Order agent canary-agent-41d7"
"""No name by our rules, so it leaves as a digest; for frameworks that take any text as a name."""
CANARIES: Final = (
    ARGUMENT,
    RESULT,
    ERROR,
    *(text.rpartition(" ")[2] for text in (PROMPT, ANSWER, INSTRUCTIONS, AGENT)),
)

ORDER: Final = {"order_id": f"A12 {ARGUMENT}", "include_items": True}
JOB: Final = {"job_id": f"J7 {ARGUMENT}"}


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call that the model asks for."""

    id: str
    tool: str
    arguments: dict[str, Any]

    @property
    def text(self) -> str:
        """The arguments as a model writes them."""
        return json.dumps(self.arguments)


def _turns() -> tuple[tuple[Call, ...], ...]:
    numbers = itertools.count(1)

    def call(tool: str, arguments: dict[str, Any]) -> Call:
        return Call(f"call_{next(numbers):04}", tool, arguments)

    return (
        *((call("lookup_order", ORDER),) for _ in range(4)),
        *((call("get_export_status", JOB),) for _ in range(3)),
        (call("slow_task", {"n": 1}), call("slow_task", {"n": 2})),
        (call("cancel_order", {"order_id": ORDER["order_id"]}),),
    )


TURNS: Final = _turns()
"""What the model asks for, turn by turn; after the last one it answers with `ANSWER`."""


@dataclass(slots=True)
class Script:
    """Gives the model's next turn: calls, or none where it is time for the answer."""

    _turns: Any = field(default_factory=lambda: iter(TURNS))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def next(self) -> tuple[Call, ...]:
        """The calls of the next turn, in order; empty after the last."""
        with self._lock:
            return next(self._turns, ())


# --- the tools --------------------------------------------------------------------------------------------

_STATES: Final = itertools.count(1)


class CancelError(RuntimeError):
    """What the tool that fails raises; agents tell the model and go on."""


class FatalError(RuntimeError):
    """What it raises where `LIVE_FATAL` is set: no agent's handler knows it, and the run ends with it."""


def lookup_order(order_id: str, include_items: bool) -> dict[str, Any]:  # noqa: FBT001  # the model's argument
    """Look up an order.

    Args:
        order_id: which order.
        include_items: with its items.
    """
    return {"order": order_id[:3], "items": ["chair", "desk"] if include_items else [], "note": RESULT}


def get_export_status(job_id: str) -> dict[str, Any]:
    """Ask how far an export is.

    Args:
        job_id: which export.
    """
    return {"job": job_id[:2], "percent": 30 * next(_STATES), "note": RESULT}


def slow_task(n: int) -> str:
    """Do something slow.

    Args:
        n: how much of it.
    """
    time.sleep(0.03 * n)
    return f"task {n} finished {RESULT}"


def cancel_order(order_id: str) -> str:
    """Cancel an order.

    Args:
        order_id: which order.
    """
    message = f"order {order_id[:3]} cannot be cancelled: {ERROR}"
    raise FatalError(message) if os.environ.get("LIVE_FATAL") else CancelError(message)


TOOLS: Final = (lookup_order, get_export_status, slow_task, cancel_order)
