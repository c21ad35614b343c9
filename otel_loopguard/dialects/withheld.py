"""Tells content that was withheld or cut, and a tool's schema, from content.

Invariants: pure, linear in the text, and never raising. What is told here has no digest: different calls would look
equal by it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from otel_loopguard.model import Value

# --- redaction --------------------------------------------------------------------------------------------

# What exporters, processors and frameworks write in place of content: OpenInference (__REDACTED__), Strands
# ([REDACTED]), logfire ([Scrubbed due to 'password']), Sentry ([Filtered]), collector processors (****).
_REDACTED_WHOLE: Final = re.compile(
    r"\s*(?:__REDACTED__|[\[<({]{1,2}(?:filtered|masked|(?:redacted|scrubbed)(?:[ :][^\])}>]{0,200})?)[\])}>]{1,2}"
    r"|REDACTED|\*{3,})\s*",
    re.IGNORECASE,
)
_REDACTED_WITHIN: Final = re.compile(
    r"__REDACTED__|[\[<](?:redacted|filtered|masked|scrubbed)[\]>]|\[Scrubbed due to ", re.IGNORECASE
)
# Every mark that these two expressions find holds one of the words of `hints_at_redaction`.


def hints_at_redaction(text: str) -> bool:
    """Tells cheaply whether text may hold a mark of redaction: five plain searches, ten times a regex's speed."""
    lowered = text.lower()
    if "ed" in lowered and (
        "redacted" in lowered or "filtered" in lowered or "masked" in lowered or "scrubbed" in lowered
    ):
        return True
    return "***" in lowered


def is_redacted(text: str) -> bool:
    """Tells whether text is nothing but a mark of redaction."""
    return _REDACTED_WHOLE.fullmatch(text) is not None


def holds_redaction(text: str) -> bool:
    """Tells whether text is, or has in it, a mark of redaction."""
    return hints_at_redaction(text) and (is_redacted(text) or _REDACTED_WITHIN.search(text) is not None)


# --- truncation -------------------------------------------------------------------------------------------

_ELLIPSIS: Final = re.compile(
    r"(?:\.\.\.|…) ?(?:[\[(<]?truncated[^\])>]{0,40}[\])>]?)?\Z|[\[(<]truncated[^\])>]{0,40}[\])>]\Z", re.IGNORECASE
)
_TAIL: Final = 80
"""Characters at the end of text in which a mark of having been cut is looked for."""
_STARTS: Final = frozenset('{[("')
_PLAIN_WORDS: Final = ("true", "false", "null", "True", "False", "None", "NaN", "Infinity", "nan", "inf")
_CUT_TOKEN: Final = re.compile(
    r"""[ \t\r\n]*(?:(?P<string>"[^"\\]*(?:\\.[^"\\]*)*"|'[^'\\]*(?:\\.[^'\\]*)*')|(?P<open_string>["'])"""
    r"""|(?P<opener>[\[{(])|(?P<closer>[\]})])|(?P<mark>[,:])|(?P<word>[-+.\w]+)|(?P<end>\Z))""",
    re.DOTALL,
)


def is_cut(text: str) -> bool:
    """Tells whether text is the beginning of a JSON or repr container, or of a JSON string, whose rest is missing.

    Every token must be one that JSON or a repr has, and a container or the string must still be open where the text
    ends: text such as `[INFO] started`, `{x} is empty` or `(see below` is not cut.
    """
    if text.lstrip()[:1] not in _STARTS:
        return False
    depth, at, previous, seen = 0, 0, "", 0
    while match := _CUT_TOKEN.match(text, at):
        at, kind = match.end(), match.lastgroup or ""
        if kind in ("open_string", "end"):
            return depth > 0 or (kind == "open_string" and seen == 0)
        if kind == "word" and (previous == "word" or not _is_plain_word(match.group("word"), last=at == len(text))):
            return False
        if kind == "opener":
            depth += 1
        elif kind == "closer":
            depth -= 1
            if depth <= 0:
                return False
        previous, seen = kind, seen + 1
    return False


def _is_plain_word(word: str, *, last: bool) -> bool:
    if word[:1] in "-0123456789":
        return True
    return any(whole.startswith(word) for whole in _PLAIN_WORDS) if last else word in _PLAIN_WORDS


def ends_in_ellipsis(text: str) -> bool:
    """Tells whether text ends in a mark of having been cut: `…`, `...`, `[truncated 900 chars]`."""
    return _ELLIPSIS.search(text[-_TAIL:].rstrip()) is not None


# --- schemas ----------------------------------------------------------------------------------------------

_JSON_TYPES: Final = frozenset({"object", "array", "string", "number", "integer", "boolean", "null", "any"})


def is_schema(value: Value) -> bool:
    """Tells whether a value is a tool's JSON schema rather than arguments to the tool.

    True for `{"type": "object", "properties": {name: {schema}, …}}`, for a dict with `$schema`, and for bare
    properties: `{name: {"type": a JSON type, "description": …}, …}`.
    """
    if not (type(value) is dict or isinstance(value, Mapping)) or not value:
        return False
    if "$schema" in value:
        return True
    properties = value.get("properties")
    if (
        properties is not None
        and isinstance(properties, Mapping)
        and (value.get("type") == "object" or "required" in value)
    ):
        return all(isinstance(item, Mapping) for item in properties.values())
    for item in value.values():
        # The usual arguments are told first: asking an abstract class about them takes ten times as long.
        if item is None or isinstance(item, (str, int, float, list)) or not isinstance(item, Mapping):
            return False
        if "description" not in item or item.get("type") not in _JSON_TYPES:
            return False
    return True
