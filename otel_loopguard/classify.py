"""The class of a result: whether it is content, an acknowledgement, emptiness, or a failure in disguise.

Source of the rules: DESIGN 6, "Result class". Texts are judged by the policy's lists; structures by shape.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from otel_loopguard.model import Effect, ResultClass, Value
from otel_loopguard.policy import ErrorRules

_ACK_KEYS: Final = frozenset({"ok", "success", "status", "result", "acknowledged", "done"})
_MAX_ACK_FIELDS: Final = 1
_EXIT_STATUS: Final = frozenset({"exit_code", "exitCode", "exit_status", "returncode", "return_code"})


_WAITS: Final = frozenset({"sleep", "wait", "pause", "delay"})
"""Tools that let time pass, by their usual names. What such a tool says about it ("Slept 30 s") says nothing."""
_EFFECT_UNKNOWN: Final = Effect.UNKNOWN
_EFFECT_WRITE: Final = Effect.WRITE
_UNITS: Final = ("_for_seconds", "_seconds", "_minutes", "_ms", "_s")
_NAME_PARTS: Final = re.compile(r"[./:]|__")


def classify(value: Value, *, tool: str, effect: Effect, errors: ErrorRules) -> ResultClass:
    """Returns the class of a result whose call did not fail by status.

    Args:
        value: the unwrapped result.
        tool: the tool's name; one of unknown effect that is named as a wait keeps silent, whatever it says.
        effect: the tool's effect; every success of a declared write is an acknowledgement.
        errors: the policy's word lists.
    """
    if value is None or (isinstance(value, str) and (not value or value.isspace())) or _is_silent_command(value):
        return ResultClass.SILENCE
    if isinstance(value, str):
        if errors.is_error_text(value):
            return ResultClass.ERROR
        if errors.is_not_found(value):
            return ResultClass.NOT_FOUND
    if effect is _EFFECT_UNKNOWN and _is_wait(tool):
        return ResultClass.SILENCE
    if effect is _EFFECT_WRITE or _is_ack(value, errors):
        return ResultClass.ACK
    if isinstance(value, (list, dict, tuple)) and not value:
        return ResultClass.EMPTY
    return ResultClass.CONTENT


def _is_silent_command(value: Value) -> bool:
    """Tells whether this is the record of a command that succeeded and printed nothing, as agents' shells give it."""
    if not isinstance(value, dict) or ("stdout" not in value and "output" not in value):
        return False
    if "stdout" not in value and _EXIT_STATUS.isdisjoint(value):
        return False
    return all(
        inner is None
        or isinstance(inner, bool)
        or (isinstance(inner, int | float) and inner == 0)
        or (isinstance(inner, str) and not inner.strip())
        for inner in value.values()
    )


@lru_cache(maxsize=1024)
def _is_wait(tool: str) -> bool:
    """Tells whether a tool is named `sleep`, `wait` and the like: alone, with a unit, or behind a server's name."""
    name = _NAME_PARTS.split(tool.casefold())[-1]
    for unit in _UNITS:
        name = name.removesuffix(unit)
    return name in _WAITS


def _is_ack(value: Value, errors: ErrorRules) -> bool:
    if value is True:
        return True
    if isinstance(value, str):
        return errors.is_ack(value)
    if isinstance(value, dict) and 0 < len(value) <= _MAX_ACK_FIELDS:
        name, inner = next(iter(value.items()))
        return name in _ACK_KEYS and (inner is True or inner == 1 or (isinstance(inner, str) and errors.is_ack(inner)))
    return False
