"""Decodes the content that spans carry into the one value it stands for, or says why there is none.

Invariants: pure; never raises on any value and never hangs (text is bounded in size and depth before it is parsed);
one call's arguments and results come out equal whatever dialect, encoding or key order carried them; ids that
differ between equal calls never get into a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from otel_loopguard.canonical import MAX_DEPTH, MAX_TEXT_BYTES, CanonicalError, Opaque, parse_with_form
from otel_loopguard.dialects import pyrepr, withheld
from otel_loopguard.dialects.reading import NOT_CAPTURED, Content
from otel_loopguard.model import Span, Unknown, Value

ROUNDS: Final = 24
"""How often text inside text is decoded at top level. JSON in JSON doubles its escapes each time, so text under the
size bound of 1 MiB holds no more levels than this, and decoding always comes to its end."""

MAX_VALUES: Final = 600_000
"""Most values that are searched for redacted leaves: more than text of 1 MiB can hold."""

DROPPED: Final = Content(unknown=Unknown.DROPPED)
REDACTED: Final = Content(unknown=Unknown.REDACTED)
TRUNCATED: Final = Content(unknown=Unknown.TRUNCATED)
UNPARSABLE: Final = Content(unknown=Unknown.UNPARSABLE)
SCHEMA: Final = Content(unknown=Unknown.SCHEMA_NOT_ARGUMENTS)

_JSON_STARTS: Final = frozenset('{["-0123456789tfnNI')
_REPR_STARTS: Final = frozenset("{[(")
_REPR_WORDS: Final = {"None": None, "True": True, "False": False}

# --- arguments and results ------------------------------------------------------------------------------


def arguments(value: Value, *, bare: bool = False) -> Content:
    """Decodes a call's arguments as an attribute carries them: JSON text, Python repr, dict or list.

    Args:
        value: the attribute's value; None and empty text mean that the span did not carry it (instrumentations
            write empty text where content is off, and a digest of that would make all calls equal).
        bare: text that is no JSON and no repr is itself the value (a one-argument tool), not UNPARSABLE.

    Returns:
        The value, which may be any JSON value where the text was JSON, or the reason why there is none.
    """
    if isinstance(value, str):
        return _arguments(value, bare=bare) if value else NOT_CAPTURED
    value = _text_of_bytes(value)
    if value is None or value == "":
        return NOT_CAPTURED
    return _arguments(value, bare=bare)


def result(value: Value, *, from_repr: bool = False) -> Content:
    """Decodes a call's result: JSON text (also JSON in JSON), the repr of a container, or the text itself.

    Args:
        value: the attribute's value; None means that the span did not carry it. Empty text is an empty result.
        from_repr: the dialect writes `str(result)`, so that `None`, `True` and `False` are those values.
    """
    if value is None:
        return NOT_CAPTURED
    if isinstance(value, str) or isinstance(value := _text_of_bytes(value), str):
        return _text_result(value, from_repr=from_repr)
    return known(value)


def content(value: Value, *, arguments: bool = False) -> Content:
    """Decodes what a call record carries, where null is a value: `null` arguments are none, a null result is null.

    An application wrote it down, so no attribute limit has cut it: text that is no JSON and no repr, though it may
    look like the beginning of one, is what the model wrote or the tool gave.
    """
    value = _text_of_bytes(value)
    if value is None or (arguments and value == ""):
        return Content()
    if isinstance(value, str):
        if withheld.is_redacted(value):
            return REDACTED
        text, (value, _, form) = value, _decode(value)
        return _without_redaction(value) if withheld.hints_at_redaction(text) else Content(value, None, form)
    return _without_redaction(value)


def known(value: Value) -> Content:
    """Wraps a value that is already decoded (a result that was null is `known(None)`); redaction is still seen."""
    if value is None:
        return Content()
    return _without_redaction(value)


def value_of(value: Value) -> Content:
    """Decodes what stands at an envelope's key that is there: null is a null result, text may be JSON in JSON."""
    return Content() if value is None else result(value)


def missing(span: Span) -> Content:
    """Says why an attribute is absent: DROPPED where the span lost attributes, else NOT_CAPTURED."""
    return DROPPED if span.dropped_attributes else NOT_CAPTURED


def or_missing(content: Content, span: Span) -> Content:
    """Returns the content, with NOT_CAPTURED turned into DROPPED where the span lost attributes."""
    return DROPPED if content.unknown is Unknown.NOT_CAPTURED and span.dropped_attributes else content


def _arguments(value: Value, *, bare: bool) -> Content:
    if isinstance(value, str):
        text = value
        suspicious = withheld.hints_at_redaction(text)
        if suspicious and withheld.is_redacted(text):
            return REDACTED
        value, decoded, form = found = _decode_once(text)
        if decoded and isinstance(value, str):
            value, decoded, form = _decode_further(found)
        if not decoded:
            if withheld.is_cut(text) or withheld.ends_in_ellipsis(text):
                return TRUNCATED
            return _without_redaction(text) if bare else UNPARSABLE
        if isinstance(value, str) and withheld.ends_in_ellipsis(value) and not bare:
            return TRUNCATED
        if not suspicious:
            return SCHEMA if withheld.is_schema(value) else Content(value, None, form)
    elif withheld.is_schema(value):
        return SCHEMA
    return _without_redaction(value)


def _text_result(text: str, *, from_repr: bool) -> Content:
    suspicious = withheld.hints_at_redaction(text)
    if suspicious and withheld.is_redacted(text):
        return REDACTED
    value, decoded, form = found = _decode_once(text)
    if decoded and isinstance(value, str):
        value, decoded, form = _decode_further(found)
    if not decoded:
        if from_repr and text in _REPR_WORDS:
            return Content(_REPR_WORDS[text])
        if withheld.is_cut(text):
            return TRUNCATED
    return _without_redaction(value) if suspicious else Content(value, None, form)


def _text_of_bytes(value: Value) -> Value:
    if isinstance(value, (bytes, bytearray)):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            return bytes(value)
    return value


# --- decoding text ----------------------------------------------------------------------------------------


def parsed(value: Value) -> Value:
    """Parses JSON text, or the repr of a container, without judging it; all else passes unchanged."""
    value = _text_of_bytes(value)
    return _decode(value)[0] if isinstance(value, str) else value


def as_dict(value: Value) -> Mapping[str, Value]:
    """Returns a dict, parsed from text where needed; an empty one for all else."""
    value = parsed(value)
    return value if isinstance(value, Mapping) else {}


def as_list(value: Value) -> list[Value] | tuple[Value, ...]:
    """Returns a list, parsed from text where needed; an empty one for all else."""
    value = parsed(value)
    return value if isinstance(value, (list, tuple)) else []


_Decoded: TypeAlias = "tuple[Value, bool, bytes | None]"
"""What a text stands for, whether it stands for other than itself, and its canonical form where that is known."""


def _decode(text: str) -> _Decoded:
    found = _decode_once(text)
    return _decode_further(found) if found[1] and isinstance(found[0], str) else found


def _decode_further(found: _Decoded) -> _Decoded:
    """Decodes text that was decoded from text."""
    for _ in range(ROUNDS):
        inner = _decode_once(found[0])
        if not inner[1]:
            return found
        found = inner
        if not isinstance(found[0], str):
            break
    return found


def _decode_once(text: str) -> _Decoded:
    start = text[:1]
    if start.isspace():
        start = text.lstrip()[:1]
    if start in _JSON_STARTS:
        try:
            value, form = parse_with_form(text)
        except CanonicalError:
            pass
        else:
            return value, True, form
    if start in _REPR_STARTS:
        if len(text) > MAX_TEXT_BYTES:
            return Opaque.of(text), True, None  # as JSON of that size: a whole it stands for, never a part
        try:
            return pyrepr.read(text), True, None
        except pyrepr.NotAReprError:
            pass
    return text, False, None


# --- what a value says about itself -----------------------------------------------------------------------


def _without_redaction(value: Value) -> Content:
    """Returns the value, unless a text in it stands for withheld content or it is too deep to have come by JSON."""
    level: list[Value] = [value]
    left = MAX_VALUES
    for _ in range(MAX_DEPTH + 1):
        below: list[Value] = []
        left -= len(level)
        if left < 0:
            return UNPARSABLE
        for item in level:
            if isinstance(item, str):
                if withheld.holds_redaction(item):
                    return REDACTED
            elif isinstance(item, Mapping):
                below.extend(item.values())
            elif isinstance(item, (list, tuple)):
                below.extend(item)
        if not below:
            return Content(value)
        if len(below) > left:
            return UNPARSABLE
        level = below
    return UNPARSABLE


# --- envelopes --------------------------------------------------------------------------------------------


def first(attributes: Mapping[str, Value], keys: Iterable[str]) -> Value:
    """Returns the first value of `keys` that is there and is not None, else None."""
    for key in keys:
        value = attributes.get(key)
        if value is not None:
            return value
    return None


def text_or_none(value: Value) -> str | None:
    """Returns a non-empty string, else None."""
    return value if isinstance(value, str) and value else None


PLACEHOLDERS: Final = frozenset({"", "unknown", "OpenAI Agent", "<not specified>", "None", "null"})
"""What frameworks write in a name's place where they have none."""


def name_or_none(value: Value) -> str | None:
    """Returns a name, or None for what frameworks write where they have none (`OpenAI Agent`, `unknown`)."""
    return value if isinstance(value, str) and value not in PLACEHOLDERS else None


def unwrap(content: Content, *names: str) -> Content:
    """Takes the value under the first of `names` that a dict content has, decoded again; else the content as it is."""
    value = content.value
    if content.unknown is None and isinstance(value, Mapping):
        for name in names:
            if name in value:
                return value_of(value[name])
    return content


def unwrap_arguments(content: Content, *names: str) -> Content:
    """Takes the arguments under the first of `names` that a dict content has (`kwargs`, `inputs`), decoded again."""
    value = content.value
    if content.unknown is None and isinstance(value, Mapping):
        for name in names:
            if name in value:
                inner = value[name]
                return Content() if inner is None or inner == "" else _arguments(inner, bare=False)
    return content


def blocks(content: Content) -> Content:
    """Turns content blocks into what they hold, decoded: `[{"text": …}]`, `[{"type": "text", "text": …}]`.

    Several text blocks become one text, joined by a newline as the model is shown them; `{"json": …}` is its
    value. A list with any other block stays as it is, `{"toolResult": …}` around it is taken off.
    """
    value = content.value
    if content.unknown is not None:
        return content
    if isinstance(value, (list, tuple)) and len(value) == 1 and isinstance(value[0], Mapping) and len(value[0]) == 1:
        inner = value[0].get("toolResult")
        value = inner.get("content") if isinstance(inner, Mapping) else value
    if not isinstance(value, (list, tuple)) or not value:
        return content
    texts: list[str] = []
    for block in value:
        text = _block_text(block)
        if text is None:
            json_block = len(value) == 1 and isinstance(block, Mapping) and set(block) == {"json"}
            return value_of(block["json"]) if json_block else content
        texts.append(text)
    return result("\n".join(texts))


def _block_text(block: Value) -> str | None:
    if not isinstance(block, Mapping) or block.get("type", "text") not in ("text", "output_text", "input_text"):
        return None
    if any(key not in ("type", "text", "annotations", "meta", "_meta") for key in block):
        return None
    text = block.get("text")
    return text if isinstance(text, str) else None


def tool_message(content: Content) -> tuple[Content, str | None, bool | None]:
    """Reads a LangChain ToolMessage: plain, in `{"output": …}`, or as `lc` constructor JSON (`kwargs`).

    Returns:
        The message's content decoded, its tool_call_id, and whether its status is `error` (None: not a ToolMessage).
    """
    message = content.value
    if content.unknown is not None:
        return content, None, None
    for name in ("output", "kwargs"):
        if isinstance(message, Mapping) and "tool_call_id" not in message and isinstance(message.get(name), Mapping):
            message = message[name]
    if isinstance(message, Mapping) and isinstance(message.get("kwargs"), Mapping) and "lc" in message:
        message = message["kwargs"]
    if not isinstance(message, Mapping) or "content" not in message:
        return content, None, None
    if "tool_call_id" not in message and message.get("type") != "tool":
        return content, None, None
    return (
        blocks(value_of(message["content"])),
        text_or_none(message.get("tool_call_id")),
        message.get("status") == "error",
    )


def mcp_result(content: Content) -> tuple[Content, bool]:
    """Reads an MCP tool result: `{"result" | "content" | "structuredContent": …, "isError" | "is_error": …}`.

    Returns:
        What the tool gave, decoded (structured content first), and whether it is marked as an error.
    """
    value = content.value
    if content.unknown is not None or not isinstance(value, Mapping):
        return blocks(content), False
    failed = value.get("isError") is True or value.get("is_error") is True
    for name in ("structuredContent", "structured_content"):
        if isinstance(value.get(name), Mapping):
            return known(value[name]), failed
    marked = any(name in value for name in ("isError", "is_error"))
    for name in ("content", "result"):
        if name in value and (marked or name == "content"):
            return blocks(value_of(value[name])), failed
    return content, failed
