"""What the scripted agent does, as data: five runs of a made-up shop, its tools, and the policy that describes them.

Invariants: every value is made up; the same scene gives the same calls and results each time it is performed, because
its tools are made anew for each performance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Final, TypeAlias

import msgspec

from otel_loopguard.model import Value

Tool: TypeAlias = Callable[[Mapping[str, Value]], Value]
Tools: TypeAlias = Mapping[str, Tool]

CUSTOMER: Final = "Ann Example"
EMAIL: Final = "ann@example.com"
STREET: Final = "12 Sample Street"
ORDER: Final = "A-1042"
MADE_UP: Final = (CUSTOMER, EMAIL, STREET, ORDER, "EX-77", "case-1", "late parcel", "rk-1", "rk-2", "RF-1", "INV-9")
"""Values of the customer's and the shop's that must not leave; each stands in some span of some scene."""

POLICY: Final[Mapping[str, Value]] = {
    "version": 1,
    "policy": "demo-shop",
    "policy_version": "1",
    "tools": {
        "get_export_status": {
            "effect": "read",
            "polling": {"state": "status", "terminal": ["complete", "failed"]},
            "progress": [{"path": "rows", "rule": "increases"}],
        },
        "search_cases": {"effect": "read", "pagination": {"cursor": "cursor", "items": "cases[].id"}},
        "issue_refund": {"effect": "write", "business_key": ["order_id", "amount"], "idempotency_key": "request_key"},
    },
}
"""The owner's policy, as its file would have it: what no telemetry can tell about a tool."""


class Call(msgspec.Struct, frozen=True):
    """One tool call that the script asks for."""

    tool: str
    arguments: Mapping[str, Value]


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One scripted answer of the model: what it says and the one call it asks for."""

    says: str
    call: Call
    agent: str = "support"


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """One run.

    `tools` makes the run's tools. `answer` is the last thing said; None: the turn limit ends the run. `pause_ms` lies
    between two turns. `shown` are the numbers of the calls, from 1, whose spans the demo shows; with `shows_chat` also
    what the model's span before the first of them held.
    """

    name: str
    title: str
    asks: str
    turns: tuple[Turn, ...]
    tools: Callable[[], Tools]
    shown: tuple[int, ...]
    answer: str | None = None
    pause_ms: int = 400
    shows_chat: bool = False


def _desk() -> Tools:
    return {"lookup_order": lambda given: {"order": given["order_id"], "status": "in transit", "to": STREET}}


_POLLS: Final = 5


def _export() -> Tools:
    polls = count(1)

    def status(given: Mapping[str, Value]) -> Value:
        done = next(polls)
        state = "complete" if done == _POLLS else "running"
        return {"export": given["export_id"], "status": state, "rows": 900 * done}

    return {"get_export_status": status}


def _cases() -> Tools:
    pages = count()

    def search(_: Mapping[str, Value]) -> Value:
        first = 2 * next(pages) + 1
        cases = [{"id": f"case-{number}", "customer": CUSTOMER} for number in (first, first + 1)]
        return {"cursor": "scroll-1", "cases": cases}

    return {"search_cases": search}


def _till() -> Tools:
    refunds = count(1)
    return {
        "issue_refund": lambda _: {"refund_id": f"RF-{next(refunds)}", "state": "accepted"},
        "get_balance": lambda given: {"customer": given["customer"], "balance": "0.00"},
    }


def _desks() -> Tools:
    return {
        "find_account": lambda given: {"account": given["email"], "note": "open invoice INV-9, ask billing"},
        "get_invoice": lambda given: {"invoice": given["invoice"], "note": "address unclear, ask triage"},
    }


def _refund(request_key: str) -> Call:
    return Call("issue_refund", {"order_id": ORDER, "amount": 49.9, "request_key": request_key})


SCENES: Final = (
    Scene(
        name="stuck",
        title="The agent looks up one order again and again, until its turn limit.",
        asks=f"I am {CUSTOMER}. Where is my order {ORDER}?",
        turns=tuple(
            Turn(says=says, call=Call("lookup_order", {"order_id": ORDER, "email": EMAIL}))
            for says in (
                "I look up the order.",
                "Let me check once more.",
                "I check again whether it moved.",
                "Maybe it was updated by now.",
                "I look it up again.",
            )
        ),
        tools=_desk,
        shown=(3,),
        shows_chat=True,
    ),
    Scene(
        name="poll",
        title="It asks for one export again and again, and the export gets on.",
        asks="Export my orders.",
        turns=(Turn(says="I wait for the export.", call=Call("get_export_status", {"export_id": "EX-77"})),) * _POLLS,
        tools=_export,
        shown=(3,),
        answer="Your export is ready.",
        pause_ms=20_000,
    ),
    Scene(
        name="pager",
        title="It turns pages: one call, word for word, and new cases each time.",
        asks=f"List the complaints of {CUSTOMER}.",
        turns=(Turn(says="Next page.", call=Call("search_cases", {"query": "late parcel"})),) * 5,
        tools=_cases,
        shown=(3,),
        answer="Those are all.",
    ),
    Scene(
        name="refund",
        title="It refunds one order twice: a new idempotency key makes the second look like another write.",
        asks=f"Refund my order {ORDER}.",
        turns=(
            Turn(says="I refund it.", call=_refund("rk-1")),
            Turn(says="Did the money arrive?", call=Call("get_balance", {"customer": CUSTOMER})),
            Turn(says="It did not, I refund it again.", call=_refund("rk-2")),
        ),
        tools=_till,
        shown=(1, 3),
        answer="I refunded your order.",
    ),
    Scene(
        name="circle",
        title="Two agents hand the work to each other in a circle.",
        asks=f"Why was {EMAIL} charged twice?",
        turns=(
            Turn(says="Billing must look.", call=Call("find_account", {"email": EMAIL}), agent="triage"),
            Turn(says="Triage must look.", call=Call("get_invoice", {"invoice": "INV-9"}), agent="billing"),
        )
        * 3,
        tools=_desks,
        shown=(5, 6),
    ),
)
"""In the order in which the demo shows them."""
