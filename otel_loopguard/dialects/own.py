"""Reads the `loopguard.*` attributes (contract version 1, DESIGN 2) that our span processor left on a span.

Invariants: each value's shape is checked; one that does not fit is left out and reported as malformed, never
trusted. Values hold no content by contract, and the shapes leave no room for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final, TypeVar

import msgspec

from otel_loopguard import attributes as attr
from otel_loopguard.model import (
    Action,
    CallFacts,
    DeniedBy,
    Effect,
    ErrorCategory,
    Finish,
    NotACall,
    Outcome,
    Pattern,
    Progress,
    ResultClass,
    TerminationReason,
    Unknown,
    Value,
)

PREFIX: Final = "loopguard."
SCHEMA_VERSION: Final = 1
MAX_REQUESTED: Final = 1024
"""Call ids of one model response that are read; more than this is malformed."""

_WHOLE: Final = 100
_HEX32: Final = re.compile(r"[0-9a-f]{32}")
_HEX8: Final = re.compile(r"[0-9a-f]{8}")
_NAME: Final = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")
_POLICY: Final = re.compile(r"[A-Za-z0-9_.:/-]{1,128}@[A-Za-z0-9_.:/-]{1,128}")
_RULE: Final = re.compile(
    r"[A-Za-z0-9_.:/\[\]*-]{1,128} (?:increases|changes|shrinks|new_items|in_order|reaches)|new_items|cursor"
)
"""A declared rule's label, or what a pager was judged by."""
_E = TypeVar("_E", bound=StrEnum)


class OwnAttributes(msgspec.Struct, kw_only=True):
    """What the attributes said; None where absent or malformed."""

    present: bool = False
    malformed: bool = False
    run_id: str | None = None
    producer: str | None = None
    sequence: int | None = None
    started: int | None = None
    turn_id: str | None = None
    agent_id: str | None = None
    run_calls: int | None = None
    requested_call_ids: tuple[str, ...] | None = None
    requested_calls: int | None = None
    finish: Finish | None = None
    not_a_call: NotACall | None = None
    termination: TerminationReason | None = None
    terminal_response: bool | None = None
    action: Action | None = None
    enforced: bool | None = None
    reason: str | None = None
    call: dict[str, Value] = {}
    """Values by `CallFacts` field."""

    @property
    def call_digest(self) -> str | None:
        """The call digest that the producer made."""
        digest = self.call.get("call_digest")
        return digest if isinstance(digest, str) else None

    def over(self, facts: CallFacts) -> CallFacts:
        """Returns the call's facts with what the producer said put over what the span's content says.

        The producer saw the whole content; what is left on the span may be cut or removed.
        """
        return msgspec.structs.replace(facts, **self.changes()) if self.call else facts

    def changes(self) -> dict[str, Value]:
        """Returns what `over` puts over, by `CallFacts` field; a dict of the caller's own."""
        changes = dict(self.call)
        if "call_unknown" in changes:
            changes["call_digest"] = None  # they exclude each other: a stated reason outweighs a digest
        elif "call_digest" in changes:
            changes["call_unknown"] = None
        if "result_digest" in changes:
            changes["result_unknown"] = None
        if "contract" in changes or "key_id" in changes:
            # Digests made here, with another key or contract, cannot stand beside the producer's.
            for name in ("call_digest", "result_digest", "business_digest", "idempotency_digest", "error_digest"):
                changes.setdefault(name, None)
            if changes["call_digest"] is None:
                changes.setdefault("call_unknown", Unknown.NOT_CAPTURED)
            if changes["result_digest"] is None:
                changes.setdefault("result_unknown", Unknown.NOT_CAPTURED)
            changes["signals"] = None
        return changes


ABSENT: Final = OwnAttributes()
"""What a span without any says."""


def read_own(attributes: Mapping[str, Value]) -> OwnAttributes:
    """Returns what a span's `loopguard.*` attributes say.

    Args:
        attributes: all attributes of the span.

    Returns:
        An object with `present` False where there are none. Never raises.
    """
    # One search in place of one a name, for the usual case in an application; what left it says its schema.
    if attr.SCHEMA not in attributes and PREFIX not in " ".join(attributes):
        return ABSENT
    schema = attributes.get(attr.SCHEMA, SCHEMA_VERSION)
    if schema != SCHEMA_VERSION or isinstance(schema, bool):
        return OwnAttributes(malformed=True)  # another contract: nothing in it can be taken at this one's word
    own = OwnAttributes(present=True, call={})
    call = own.call
    read = 0
    # A span of ours bears some twenty: each is looked up once, and checked by one call into C for most.
    for name, value in attributes.items():
        known = _KNOWN.get(name)
        if known is None:
            continue
        read += 1
        field, shape, is_call = known
        try:
            checked = shape(value)
        except TypeError:  # of another type than the shape is for, or without a hash
            checked = None
        if checked is None:
            own.malformed = True
        elif is_call:
            call[field] = checked
        else:
            setattr(own, field, checked)
    if not read and not any(name.startswith(PREFIX) for name in attributes):
        return ABSENT
    return own


def fits(name: str, value: Value) -> bool:
    """Tells whether an attribute named as ours is of the contract, and its value of the shape given there."""
    known = _FIELDS.get(name) or CALL_FIELDS.get(name)
    if known is not None:
        return known[1](value) is not None
    return (name == attr.SCHEMA and _count(value) is not None) or (name == attr.FINDING and _names(value) is not None)


def _matching(pattern: re.Pattern[str]) -> Callable[[Value], str | None]:
    fullmatch = pattern.fullmatch

    def shape(value: Value) -> str | None:
        return value if fullmatch(value) else None

    return shape


def _one_of(enumeration: type[_E]) -> Callable[[Value], _E | None]:
    return {member.value: member for member in enumeration}.get


def _count(value: Value) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None


def _positive(value: Value) -> int | None:
    return _count(value) or None


def _per_cent(value: Value) -> int | None:
    count = _count(value)
    return count if count is not None and count <= _WHOLE else None


def _flag(value: Value) -> bool | None:
    return value if isinstance(value, bool) else None


def _names(value: Value) -> tuple[str, ...] | None:
    if not isinstance(value, (list, tuple)) or len(value) > MAX_REQUESTED:
        return None
    return tuple(value) if all(isinstance(item, str) and _NAME.fullmatch(item) for item in value) else None


_name: Final = _matching(_NAME)
_digest: Final = _matching(_HEX32)

_FIELDS: Final[Mapping[str, tuple[str, Callable[[Value], Value]]]] = {
    attr.RUN_ID: ("run_id", _name),
    attr.PRODUCER_ID: ("producer", _name),
    attr.CALL_SEQUENCE: ("sequence", _positive),
    attr.CALL_STARTED: ("started", _positive),
    attr.TURN_ID: ("turn_id", _name),
    attr.AGENT_ID: ("agent_id", _name),
    attr.RUN_CALLS: ("run_calls", _count),
    attr.REQUESTED_CALL_IDS: ("requested_call_ids", _names),
    attr.REQUESTED_CALLS: ("requested_calls", _count),
    attr.FINISH: ("finish", _one_of(Finish)),
    attr.NOT_A_CALL: ("not_a_call", _one_of(NotACall)),
    attr.TERMINATION_REASON: ("termination", _one_of(TerminationReason)),
    attr.TERMINAL_RESPONSE: ("terminal_response", _flag),
    attr.DECISION_ACTION: ("action", _one_of(Action)),
    attr.DECISION_ENFORCED: ("enforced", _flag),
    attr.DECISION_REASON: ("reason", _name),
}
CALL_FIELDS: Final[Mapping[str, tuple[str, Callable[[Value], Value]]]] = {
    attr.TOOL: ("tool", _name),
    attr.CALL_ID: ("call_id", _name),
    attr.OWN_ERROR_TYPE: ("error_type", _name),
    attr.CALL_DIGEST: ("call_digest", _digest),
    attr.RESULT_DIGEST: ("result_digest", _digest),
    attr.STATE_DIGEST: ("state_digest", _digest),
    attr.IDEMPOTENCY_DIGEST: ("idempotency_digest", _digest),
    attr.BUSINESS_DIGEST: ("business_digest", _digest),
    attr.ERROR_DIGEST: ("error_digest", _digest),
    attr.CALL_UNKNOWN: ("call_unknown", _one_of(Unknown)),
    attr.RESULT_UNKNOWN: ("result_unknown", _one_of(Unknown)),
    attr.KEY_ID: ("key_id", _name),
    attr.CONTRACT: ("contract", _matching(_HEX8)),
    attr.POLICY: ("policy", _matching(_POLICY)),
    attr.TOOL_EFFECT: ("effect", _one_of(Effect)),
    attr.TOOL_PATTERN: ("pattern", _one_of(Pattern)),
    attr.OUTCOME: ("outcome", _one_of(Outcome)),
    attr.ERROR_CATEGORY: ("error_category", _one_of(ErrorCategory)),
    attr.RESULT_CLASS: ("result_class", _one_of(ResultClass)),
    attr.DENIED_BY: ("denied_by", _one_of(DeniedBy)),
    attr.PROGRESS: ("progress", _one_of(Progress)),
    attr.PROGRESS_RULE: ("progress_rule", _matching(_RULE)),
    attr.TERMINAL: ("terminal", _flag),
    attr.NEW_ITEMS: ("new_items", _count),
    attr.COVERED: ("covered", _flag),
    attr.REPEAT_COUNT: ("repeat_count", _count),
    attr.RESULT_WORDS: ("result_words", _count),
    attr.NEAR_REPEAT_COUNT: ("near_repeat_count", _positive),
    attr.NEAR_REPEAT_ALIKE: ("near_repeat_alike", _positive),
    attr.NEAR_RESULT_COUNT: ("near_result_count", _positive),
    attr.NEAR_RESULT_ALIKE: ("near_result_alike", _per_cent),
    attr.RESULT_MOVING: ("result_moving", _flag),
    attr.SAME_RESULT_ITEM: ("same_result_item", _flag),
}
_KNOWN: Final[Mapping[str, tuple[str, Callable[[Value], Value], bool]]] = {
    **{name: (*known, False) for name, known in _FIELDS.items()},
    **{name: (*known, True) for name, known in CALL_FIELDS.items()},
}
"""Field, shape, and whether it is of the call; a shape may raise TypeError."""
