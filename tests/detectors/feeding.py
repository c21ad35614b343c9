"""Writes short runs of tool calls as records, feeds them call by call, and says at which call a kind first appears.

Digests here are plain hashes of readable words: the tracker only ever compares them.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

from otel_loopguard.model import (
    CallFacts,
    DeniedBy,
    ErrorCategory,
    Finding,
    Kind,
    Outcome,
    Progress,
    ResultClass,
    Signals,
    ToolCall,
    Unknown,
)
from otel_loopguard.observation import Observation
from otel_loopguard.policy import load
from otel_loopguard.tracker import Tracker

UNSEEN: Final = None
"""Arguments or a result that were not captured."""

POLICY: Final = """
version: 1
policy: tests
policy_version: "1"
noop_tools: [think]
tools:
  write: {effect: write}
  read: {effect: read}
  poll: {effect: read, polling: {}}
  export: {effect: read, polling: {state: status, terminal: [complete], max_polls: 6, max_unchanged: 3}}
  timed: {effect: read, polling: {deadline_s: 60, min_interval_s: 5}}
  pages: {effect: read, pagination: {cursor: next, items: "rows[].id"}}
  scroll: {effect: read, pagination: {cursor: next}}
  listing: {effect: read, pagination: {items: "rows[].id"}}
  order: {effect: read, progress: [{path: version, rule: increases}]}
  strict: {effect: read, allowed_repeats: 1}
  patient: {effect: read, allowed_repeats: 4}
  dice: {parallel: run}
  lines: {effect: read, range: {key: path, start: from, length: count}}
  paid: {max_calls: 4}
  send: {effect: write, business_key: [to]}
"""


def digest(*words: object) -> str:
    """32 hex characters that stand for some words."""
    return hashlib.sha256(repr(words).encode()).hexdigest()[:32]


def item(name: str) -> int:
    """64 bits that stand for an item."""
    return int(digest("item", name)[:16], 16)


class Run:
    """One run on its way: each `call` is the next call, in a turn of its own unless `sibling` is set."""

    def __init__(self, policy: str = POLICY) -> None:
        self.policy = load(policy)
        self.tracker = Tracker(self.policy)
        self.calls: list[ToolCall] = []
        self.seen: list[Observation] = []
        self.user_turn = 1
        self.attempt: str | None = None
        self._turn = 0

    def call(
        self,
        tool: str = "tool",
        arguments: str | None = "a",
        result: str | None = "r",
        *,
        agent: str = "agent",
        sibling: bool = False,
        at_s: float = 0.0,
        **facts: Any,
    ) -> Observation:
        """Feeds one call; `arguments` and `result` are any words, `facts` replace what follows from them."""
        self._turn += not (sibling and self.calls)
        contract = self.policy.contract(tool)
        known: dict[str, Any] = {
            "tool": tool,
            "call_id": f"c{len(self.calls) + 1}",
            "call_digest": None if arguments is None else digest(tool, arguments),
            "call_unknown": Unknown.NOT_CAPTURED if arguments is None else None,
            "result_digest": None if result is None else digest("result", result),
            "result_unknown": Unknown.NOT_CAPTURED if result is None else None,
            "result_class": None if result is None else ResultClass.CONTENT,
            "result_words": None if result is None else 1,
            "outcome": Outcome.OK,
            "effect": contract.effect,
            "pattern": contract.pattern,
            "contract": contract.digest8,
            "key_id": "k1",
        }
        call = ToolCall(
            number=len(self.calls) + 1,
            turn=self._turn,
            agent=agent,
            user_turn=self.user_turn,
            attempt=self.attempt,
            facts=CallFacts(**{**known, **facts}),
            start_ns=int(at_s * 1e9),
        )
        self.calls.append(call)
        self.seen.append(self.tracker.observe(call))
        return self.seen[-1]

    def repeat(
        self, count: int, tool: str = "tool", arguments: str | None = "a", result: str | None = "r", **how: Any
    ) -> None:
        """Feeds equal calls, each in a turn of its own."""
        for _ in range(count):
            self.call(tool, arguments, result, **how)

    def fail(self, tool: str = "tool", arguments: str | None = "a", text: str = "boom", **how: Any) -> Observation:
        """Feeds one failing call; `text` is what its message said, which must not matter."""
        how.setdefault("error_category", ErrorCategory.UNKNOWN)
        return self.call(tool, arguments, text, outcome=Outcome.ERROR, result_class=ResultClass.ERROR, **how)

    def refuse(
        self, tool: str = "tool", arguments: str | None = "a", *, by: DeniedBy = DeniedBy.OTHER, **how: Any
    ) -> Observation:
        """Feeds one call that was not dispatched because someone refused it."""
        return self.call(tool, arguments, None, outcome=Outcome.DENIED, denied_by=by, result_unknown=None, **how)

    def first(self, kind: Kind) -> int | None:
        """Number of the first call at which `kind` became true, as seen call by call."""
        return next((number for number, seen in enumerate(self.seen, start=1) if kind in seen.kinds), None)

    def kinds(self) -> set[Kind]:
        """Every kind that became true."""
        return {kind for seen in self.seen for kind in seen.kinds}

    def found(self, kind: Kind) -> tuple[Finding, ...]:
        """The findings of one kind."""
        return tuple(finding for finding in self.tracker.findings() if finding.kind is kind)

    def progress(self) -> list[Progress]:
        """The progress of each call."""
        return [seen.progress for seen in self.seen]


def state(name: str, *, terminal: bool | None = None) -> Signals:
    """Signals of a poller in a state."""
    return Signals(state=digest("state", name), terminal=terminal)


def page(*names: str, leads_to: str | None = None) -> Signals:
    """Signals of a page with these items that names this next cursor."""
    cursor = None if leads_to is None else digest("cursor", leads_to)
    return Signals(items=tuple(item(name) for name in names), cursor=cursor)


def cursor_only(leads_to: str | None) -> Signals:
    """Signals of a page whose items are unknown."""
    return Signals(cursor=None if leads_to is None else digest("cursor", leads_to))
