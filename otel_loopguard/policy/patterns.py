"""Regular expressions of a policy: linear time or refused.

Invariants: a pattern is compiled by RE2, which has no backtracking; removing matches never raises and keeps
every other value of the result as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from otel_loopguard.errors import MissingExtraError

if TYPE_CHECKING:
    from otel_loopguard.model import Value

MAX_PATTERN: Final = 500
"""Characters of one pattern."""
_MAX_MEMORY_BYTES: Final = 8_388_608
_MAX_DEPTH: Final = 64
"""Text deeper inside a result is left alone; parsed results are no deeper (canonical form)."""


class PatternError(ValueError):
    """The pattern cannot be used; the text says why and what to do."""


class Pattern(msgspec.Struct, frozen=True, eq=False):
    """A compiled pattern."""

    text: str
    substitute: Callable[[str, str], str]
    substitute_bytes: Callable[[bytes, bytes], bytes]

    def remove(self, text: str) -> str:
        """`text` without what the pattern matches."""
        try:
            return self.substitute("", text)
        except UnicodeEncodeError:
            # Half a surrogate pair has no UTF-8; RE2 takes its bytes for characters that match nothing.
            kept = self.substitute_bytes(b"", text.encode("utf-8", "surrogatepass"))
            return kept.decode("utf-8", "surrogatepass")


def compile_pattern(text: str) -> Pattern:
    """Compiles one pattern.

    Raises:
        PatternError: RE2 refuses it (back references, lookaround, bad syntax, too large) or it matches nothing
            at all, so that it would match everywhere.
        MissingExtraError: google-re2 is not installed.
    """
    if not 1 <= len(text) <= MAX_PATTERN:
        message = f"a pattern has 1 to {MAX_PATTERN} characters"
        raise PatternError(message)
    try:
        import re2  # type: ignore[import-untyped, unused-ignore]  # noqa: PLC0415 - optional
    except ImportError:
        message = 'a pattern needs google-re2; install it with: pip install "otel-loopguard[policy]"'
        raise MissingExtraError(message) from None
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY_BYTES
    try:
        compiled = re2.compile(text, options)
        compiled_bytes = re2.compile(text.encode(), options)
        empty = compiled.search("") is not None
    except (re2.error, UnicodeError) as error:
        message = f"{_reason(error)}; patterns run in linear time (RE2): no back references, no lookaround"
        raise PatternError(message) from None
    if empty:
        message = "the pattern also matches empty text, so it matches everywhere; use + instead of * or ?"
        raise PatternError(message)
    return Pattern(text, compiled.sub, compiled_bytes.sub)


def _reason(error: Any) -> str:
    given = error.args[0] if error.args else ""
    if not isinstance(given, bytes):
        return "the pattern is not valid"
    # Behind a colon RE2 quotes what of the pattern it means: names of customers may stand there.
    return given.decode("utf-8", "replace").partition(": ")[0] or "the pattern is not valid"


def remove_everywhere(value: Value, patterns: tuple[Pattern, ...], depth: int = 0) -> Value:
    """`value` with the patterns' matches removed from every text in it, at any depth; keys are left alone."""
    if isinstance(value, str):
        for pattern in patterns:
            value = pattern.remove(value)
        return value
    if depth >= _MAX_DEPTH:
        return value
    if isinstance(value, Mapping):
        return {key: remove_everywhere(item, patterns, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [remove_everywhere(item, patterns, depth + 1) for item in value]
    return value
