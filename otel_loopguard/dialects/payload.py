"""Decodes the content that spans carry into the one value it stands for, or says why there is none.

Invariants: pure; never raises on any value and never hangs (text is bounded in size and depth before it is parsed);
one call's arguments and results come out equal whatever dialect, encoding or key order carried them; ids that
differ between equal calls never get into a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from otel_loopguard.dialects.reading import NOT_CAPTURED, Content
from otel_loopguard.model import Span, Unknown, Value

ROUNDS: Final = 3
"""How often text inside text is decoded at top level: JSON of JSON of JSON, which no capture exceeds."""

DROPPED: Final = Content(unknown=Unknown.DROPPED)
REDACTED: Final = Content(unknown=Unknown.REDACTED)
TRUNCATED: Final = Content(unknown=Unknown.TRUNCATED)
UNPARSABLE: Final = Content(unknown=Unknown.UNPARSABLE)
SCHEMA: Final = Content(unknown=Unknown.SCHEMA_NOT_ARGUMENTS)


def arguments(value: Value, *, bare: bool = False) -> Content:
    """Decode a call's arguments as an attribute carries them: JSON text, Python repr, dict or list.

    Args:
        value: the attribute's value; None means that the span did not carry it.
        bare: text that is no JSON and no repr is itself the value (a one-argument tool), not UNPARSABLE.
    """
    raise NotImplementedError


def result(value: Value, *, from_repr: bool = False) -> Content:
    """Decode a call's result: JSON text (also JSON in JSON), the repr of a container, or the text itself.

    Args:
        value: the attribute's value; None means that the span did not carry it.
        from_repr: the dialect writes `str(result)`, so that `None`, `True` and `False` are those values.
    """
    raise NotImplementedError


def known(value: Value) -> Content:
    """Wrap a value that is already decoded and unwrapped (a result that was null is `known(None)`)."""
    raise NotImplementedError


def first(span: Span, keys: Iterable[str]) -> Value:
    """Return the first attribute of `keys` that the span carries with a value, else None."""
    raise NotImplementedError


def missing(span: Span) -> Content:
    """Say why an attribute is absent: DROPPED where the span lost attributes, else NOT_CAPTURED."""
    return DROPPED if span.dropped_attributes else NOT_CAPTURED


def parsed(value: Value) -> Value:
    """Parse JSON text (or a container's repr) without judging it; other values and other text pass unchanged."""
    raise NotImplementedError


def as_dict(value: Value) -> Mapping[str, Value]:
    """Return a dict, parsed from text where needed; an empty one for all else."""
    raise NotImplementedError


def text_or_none(value: Value) -> str | None:
    """Return a non-empty string, else None."""
    raise NotImplementedError


def unwrap(content: Content, *names: str) -> Content:
    """Take the value under the first of `names` that a dict content has, decoded again; else the content as it is."""
    raise NotImplementedError


def blocks(content: Content) -> Content:
    """Turn content blocks (`[{"text": …}]`, `[{"type": "text", "text": …}]`) into the text they hold, decoded."""
    raise NotImplementedError


def tool_message(content: Content) -> tuple[Content, str | None, bool | None]:
    """Read a LangChain ToolMessage (also in `{"output": …}` or as `lc` constructor JSON).

    Returns:
        The message's content decoded, its tool_call_id, and whether its status is `error` (None: not a ToolMessage).
    """
    raise NotImplementedError


def is_schema(value: Value) -> bool:
    """Tell whether a value is a tool's JSON schema rather than arguments to the tool."""
    raise NotImplementedError
