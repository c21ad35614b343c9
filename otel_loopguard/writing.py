"""Writes what is known of a call as `loopguard.*` attributes: `dialects.own` read the other way round.

Invariants: only fields of the contract are written, so only digests, enumerations, counts and checked names; what is
written reads back as the same facts (property-tested). Nothing is written of what is not known.
"""

from __future__ import annotations

from itertools import compress
from typing import Final, get_args, get_type_hints

import msgspec

from otel_loopguard import attributes as attr
from otel_loopguard.dialects.own import CALL_FIELDS, SCHEMA_VERSION
from otel_loopguard.model import CallFacts, Progress, SpanFacts, Value, Word
from otel_loopguard.observation import FIRST, Observation

_UNKNOWN: Final = Progress.UNKNOWN
_NAMES: Final[dict[str, str]] = {field: name for name, (field, _) in CALL_FIELDS.items()}
_FROM_FACTS: Final = tuple(
    (None if field in Observation.__struct_fields__ or field == "progress_rule" else _NAMES.get(field))
    for field in CallFacts.__struct_fields__
)
"""The attribute of each field of `CallFacts`, None for one that is not written from there."""
_HINTS: Final = get_type_hints(CallFacts)
_IS_WORD: Final = tuple(
    any(isinstance(one, type) and issubclass(one, Word) for one in (_HINTS[field], *get_args(_HINTS[field])))
    for field in CallFacts.__struct_fields__
)
_PLAIN: Final = tuple(name is not None and not word for name, word in zip(_FROM_FACTS, _IS_WORD, strict=True))
_WORDS: Final = tuple(name is not None and word for name, word in zip(_FROM_FACTS, _IS_WORD, strict=True))
_PLAIN_NAMES: Final = [name for name, word in zip(_FROM_FACTS, _IS_WORD, strict=True) if name and not word]
_WORD_NAMES: Final = [name for name, word in zip(_FROM_FACTS, _IS_WORD, strict=True) if name and word]
_MEASURED: Final = tuple(
    (field, name) for field, name in _NAMES.items() if field.startswith(("near_", "result_moving", "same_result"))
)


def of_call(facts: CallFacts, seen: Observation | None) -> dict[str, Value]:
    """Returns the attributes of one tool call.

    Args:
        facts: what is known of it; `signals` and `likenesses` stay behind.
        seen: what it turned out to be in its run; None where it was not looked at there.
    """
    values = msgspec.structs.astuple(facts)
    written: dict[str, Value] = {
        name: value for name, value in zip(_PLAIN_NAMES, compress(values, _PLAIN), strict=True) if value is not None
    }
    written[attr.SCHEMA] = SCHEMA_VERSION
    for name, value in zip(_WORD_NAMES, compress(values, _WORDS), strict=True):
        if value is not None:
            written[name] = value._value_
    if seen is not None:
        _write_observation(seen, written)
    return written


def _write_observation(seen: Observation, written: dict[str, Value]) -> None:
    progress = seen.progress
    written[attr.PROGRESS] = progress._value_
    if seen is FIRST:
        written[attr.REPEAT_COUNT] = 1
        return
    if seen.rule is not None:
        written[attr.PROGRESS_RULE] = seen.rule
    if progress is not _UNKNOWN:
        written[attr.REPEAT_COUNT] = seen.repeat_count
    if seen.kinds:
        written[attr.FINDING] = tuple([kind._value_ for kind in seen.kinds])
    if seen.new_items is not None:
        written[attr.NEW_ITEMS] = seen.new_items
    if seen.terminal is not None:
        written[attr.TERMINAL] = seen.terminal
    if seen.covered is not None:
        written[attr.COVERED] = seen.covered
    if seen.near_repeat_count is not None or seen.near_result_count is not None or seen.same_result_item is not None:
        for field, name in _MEASURED:
            value = getattr(seen, field)
            if value is not None:
                written[name] = value


def of_place(facts: SpanFacts) -> dict[str, Value]:
    """Returns the attributes that say of any span what its content said: turn, requested calls, how the run ended."""
    written: dict[str, Value] = {}
    if facts.run_id is not None:
        written[attr.RUN_ID] = facts.run_id
    if facts.turn is not None:
        written[attr.TURN_ID] = facts.turn
    if facts.agent is not None:
        written[attr.AGENT_ID] = facts.agent
    if facts.not_a_call is not None:
        written[attr.NOT_A_CALL] = facts.not_a_call.value
    if facts.chat is not None:
        if facts.chat.requested is not None:
            written[attr.REQUESTED_CALL_IDS] = facts.chat.requested
        if facts.chat.requested_calls is not None:
            written[attr.REQUESTED_CALLS] = facts.chat.requested_calls
        if facts.chat.finish is not None:
            written[attr.FINISH] = facts.chat.finish.value
    if facts.termination is not None:
        written[attr.TERMINATION_REASON] = facts.termination.value
    if facts.final_answer is not None:
        written[attr.TERMINAL_RESPONSE] = facts.final_answer
    return written
