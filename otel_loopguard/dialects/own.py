"""Reads the `loopguard.*` attributes that our processor put on a span of any dialect, checking each one's shape.

Invariants: nothing but digests, enumerations, counts, booleans and checked names comes out; a value that has not
its contract's shape is left out, and `malformed` says so. The names come from the network: nobody's word is taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

import msgspec

from otel_loopguard import attributes as attr
from otel_loopguard.model import (
    Action,
    CallFacts,
    DeniedBy,
    Effect,
    ErrorCategory,
    Kind,
    Outcome,
    Pattern,
    Progress,
    ResultClass,
    TerminationReason,
    Unknown,
    Value,
)

PREFIX: Final = "loopguard."
VERSION: Final = 1
"""The contract version that is read; spans of another one are left out whole."""

MAX_CALL_IDS: Final = 512
MAX_COUNT: Final = 2**53
MAX_RULE_CHARS: Final = 128

_DIGEST: Final = re.compile(r"[0-9a-f]{32}")
_CONTRACT: Final = re.compile(r"[0-9a-f]{8}")
_NAME: Final = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")
_LABEL: Final = re.compile(r"[A-Za-z0-9_.:/@+-]{1,128}")
_RULE: Final = re.compile(r"[ -~]{1,128}")


class OwnAttributes(msgspec.Struct, frozen=True, kw_only=True):
    """The checked `loopguard.*` attributes of one span; None where absent or not of the contract's shape."""

    present: bool = False
    """Some attribute about the call itself was there and well formed."""
    malformed: bool = False
    run_id: str | None = None
    producer: str | None = None
    sequence: int | None = None
    started: int | None = None
    turn_id: str | None = None
    agent_id: str | None = None
    call_digest: str | None = None
    call_unknown: Unknown | None = None
    result_digest: str | None = None
    result_unknown: Unknown | None = None
    state_digest: str | None = None
    idempotency_digest: str | None = None
    business_digest: str | None = None
    key_id: str | None = None
    contract: str | None = None
    policy: str | None = None
    effect: Effect | None = None
    pattern: Pattern | None = None
    outcome: Outcome | None = None
    error_category: ErrorCategory | None = None
    result_class: ResultClass | None = None
    denied_by: DeniedBy | None = None
    progress: Progress | None = None
    progress_rule: str | None = None
    terminal: bool | None = None
    new_items: int | None = None
    repeat_count: int | None = None
    findings: tuple[Kind, ...] | None = None
    requested_call_ids: tuple[str, ...] | None = None
    run_calls: int | None = None
    termination: TerminationReason | None = None
    terminal_response: bool | None = None
    action: Action | None = None
    enforced: bool | None = None
    reason: str | None = None

    def over(self, facts: CallFacts) -> CallFacts:
        """Returns the facts as the producer stated them, filled up with what was read from the span itself.

        The producer saw the content that may since have been removed, so its word stands. Digests come as one
        family of one key: where the producer gave the call's digest, or the reason why there is none, none of
        ours, made with another key, stays beside it.
        """
        stated = {
            "effect": self.effect,
            "pattern": self.pattern,
            "outcome": self.outcome,
            "error_category": self.error_category,
            "result_class": self.result_class,
            "denied_by": self.denied_by,
            "progress": self.progress,
            "progress_rule": self.progress_rule,
            "terminal": self.terminal,
            "new_items": self.new_items,
            "repeat_count": self.repeat_count,
        }
        changed: dict[str, Value] = {name: value for name, value in stated.items() if value is not None}
        if self.outcome is Outcome.DENIED and self.denied_by is None and facts.denied_by is None:
            changed["denied_by"] = DeniedBy.OTHER
        if self.call_digest is not None or self.call_unknown is not None:
            lost = Unknown.NOT_CAPTURED
            changed |= {
                "call_digest": self.call_digest,
                "call_unknown": None if self.call_digest is not None else self.call_unknown,
                "result_digest": self.result_digest,
                "result_unknown": None if self.result_digest is not None else self.result_unknown or lost,
                "state_digest": self.state_digest,
                "idempotency_digest": self.idempotency_digest,
                "business_digest": self.business_digest,
                "key_id": self.key_id,
                "contract": self.contract,
                "policy": self.policy,
                "signals": None,
            }
        return msgspec.structs.replace(facts, **changed)


_ABSENT: Final = OwnAttributes()


def read_own(attributes: Mapping[str, Value]) -> OwnAttributes:
    """Reads a span's `loopguard.*` attributes.

    Cost: one look at each key of a span that has none of them.
    """
    names = [name for name in attributes if isinstance(name, str) and name.startswith(PREFIX)]
    if not names:
        return _ABSENT
    schema = attributes.get(attr.SCHEMA, VERSION)
    if schema != VERSION or isinstance(schema, bool):
        return OwnAttributes(malformed=True)
    found: dict[str, Value] = {}
    malformed = False
    for name in names:
        reader = _READERS.get(name)
        if reader is None:
            continue
        field, check = reader
        value = check(attributes[name])
        if value is None:
            malformed = True
        else:
            found[field] = value
    if "call_digest" in found and "call_unknown" in found:
        # They exclude each other, so one of them is wrong and a digest must not be trusted.
        malformed = True
        del found["call_digest"]
    about_call = not _ABOUT_CALL.isdisjoint(found)
    return OwnAttributes(present=about_call, malformed=malformed, **found)


# --- shapes: each returns the checked value, or None -------------------------------------------------------


def _matching(pattern: re.Pattern[str]) -> Callable[[Value], Value]:
    def check(value: Value) -> Value:
        return value if isinstance(value, str) and pattern.fullmatch(value) else None

    return check


def _member(enumeration: type[StrEnum]) -> Callable[[Value], Value]:
    members = {member.value: member for member in enumeration}

    def check(value: Value) -> Value:
        return members.get(value) if isinstance(value, str) else None

    return check


def _at_least(lowest: int) -> Callable[[Value], Value]:
    def check(value: Value) -> Value:
        is_count = isinstance(value, int) and not isinstance(value, bool)
        return value if is_count and lowest <= value <= MAX_COUNT else None

    return check


def _boolean(value: Value) -> Value:
    return value if isinstance(value, bool) else None


def _names(value: Value) -> Value:
    if not isinstance(value, list | tuple) or len(value) > MAX_CALL_IDS:
        return None
    return tuple(value) if all(isinstance(item, str) and _NAME.fullmatch(item) for item in value) else None


def _kinds(value: Value) -> Value:
    members = {member.value: member for member in Kind}
    if not isinstance(value, list | tuple) or len(value) > len(members):
        return None
    kinds = [members.get(item) if isinstance(item, str) else None for item in value]
    return None if None in kinds else tuple(kinds)


_digest, _name, _label = _matching(_DIGEST), _matching(_NAME), _matching(_LABEL)

_READERS: Final[Mapping[str, tuple[str, Callable[[Value], Value]]]] = {
    attr.RUN_ID: ("run_id", _name),
    attr.PRODUCER_ID: ("producer", _name),
    attr.CALL_SEQUENCE: ("sequence", _at_least(1)),
    attr.CALL_STARTED: ("started", _at_least(1)),
    attr.TURN_ID: ("turn_id", _name),
    attr.AGENT_ID: ("agent_id", _name),
    attr.CALL_DIGEST: ("call_digest", _digest),
    attr.CALL_UNKNOWN: ("call_unknown", _member(Unknown)),
    attr.RESULT_DIGEST: ("result_digest", _digest),
    attr.RESULT_UNKNOWN: ("result_unknown", _member(Unknown)),
    attr.STATE_DIGEST: ("state_digest", _digest),
    attr.IDEMPOTENCY_DIGEST: ("idempotency_digest", _digest),
    attr.BUSINESS_DIGEST: ("business_digest", _digest),
    attr.KEY_ID: ("key_id", _name),
    attr.CONTRACT: ("contract", _matching(_CONTRACT)),
    attr.POLICY: ("policy", _label),
    attr.TOOL_EFFECT: ("effect", _member(Effect)),
    attr.TOOL_PATTERN: ("pattern", _member(Pattern)),
    attr.OUTCOME: ("outcome", _member(Outcome)),
    attr.ERROR_CATEGORY: ("error_category", _member(ErrorCategory)),
    attr.RESULT_CLASS: ("result_class", _member(ResultClass)),
    attr.DENIED_BY: ("denied_by", _member(DeniedBy)),
    attr.PROGRESS: ("progress", _member(Progress)),
    attr.PROGRESS_RULE: ("progress_rule", _matching(_RULE)),
    attr.TERMINAL: ("terminal", _boolean),
    attr.NEW_ITEMS: ("new_items", _at_least(0)),
    attr.REPEAT_COUNT: ("repeat_count", _at_least(0)),
    attr.FINDING: ("findings", _kinds),
    attr.REQUESTED_CALL_IDS: ("requested_call_ids", _names),
    attr.RUN_CALLS: ("run_calls", _at_least(0)),
    attr.TERMINATION_REASON: ("termination", _member(TerminationReason)),
    attr.TERMINAL_RESPONSE: ("terminal_response", _boolean),
    attr.DECISION_ACTION: ("action", _member(Action)),
    attr.DECISION_ENFORCED: ("enforced", _boolean),
    attr.DECISION_REASON: ("reason", _name),
}
_ABOUT_CALL: Final = frozenset(
    {
        "call_digest",
        "call_unknown",
        "result_digest",
        "result_unknown",
        "effect",
        "pattern",
        "outcome",
        "error_category",
        "result_class",
        "denied_by",
        "progress",
        "terminal",
        "new_items",
        "repeat_count",
    }
)
