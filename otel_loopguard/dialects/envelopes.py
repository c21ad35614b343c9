"""Takes call and result envelopes apart that more than one library writes.

Invariants: pure and total; an envelope is known by its exact keys, so that a tool's own dict is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from otel_loopguard.dialects import payload
from otel_loopguard.dialects.reading import Content

_CALL: Final = frozenset({"args", "kwargs", "sanitize_inputs_outputs"})
_TOOL_OUTPUT: Final = frozenset({"tool_name", "is_error"})


def kwargs(content: Content) -> Content:
    """Takes a call's arguments out of `{"args": […], "kwargs": {…}, "sanitize_inputs_outputs": …}`."""
    value = content.value
    if content.unknown is not None or not isinstance(value, Mapping) or not value.keys() <= _CALL:
        return content
    named, args = value.get("kwargs"), value.get("args")
    if not args:
        return content if named is None else payload.known(named)
    if not named and isinstance(args, (list, tuple)) and len(args) == 1 and isinstance(args[0], Mapping):
        return payload.known(args[0])
    return payload.known({"args": args, "kwargs": named} if named else {"args": args})


def tool_output(content: Content) -> tuple[Content, bool]:
    """Reads a llama-index ToolOutput: its raw output, else the text of its blocks (a repr); and whether it failed."""
    value = content.value
    if content.unknown is not None or not isinstance(value, Mapping) or not value.keys() >= _TOOL_OUTPUT:
        return content, False
    failed = value.get("is_error") is True
    if not failed and "raw_output" in value:
        raw = value["raw_output"]
        return payload.result(raw, from_repr=True) if raw is not None else Content(), False
    shown = value.get("blocks")
    texts = payload.blocks(Content(shown)) if shown is not None else payload.result(value.get("content"))
    return texts, failed
