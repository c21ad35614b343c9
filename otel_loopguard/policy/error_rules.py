"""Tells failures apart, and says what a short text result amounts to: an error, nothing found, a bare "ok".

Invariants: built-in lists are narrow, because a text wrongly read as an error makes different results look
equal; a count ("2 failed", "0 errors") or a title ("Error handling guide") is no error. Transient is never
guessed: only the owner's list says so. Only the first line of a text, and at most `MAX_LINE` characters of it,
is looked at. Nothing here raises; no text is kept.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from otel_loopguard.model import ErrorCategory
from otel_loopguard.policy.texts import (
    ACK_ENDINGS,
    ACK_PHRASES,
    ACTS,
    ACTS_ON_THINGS,
    BARE,
    CODES,
    DIRECTIONS,
    ECHO,
    ECHO_PREFIXES,
    ERROR_HINTS,
    ERRORS,
    ERRORS_IN_SHORT,
    MAX_ACK_WORDS,
    MAX_ECHO_WORDS,
    NO_ERROR,
    NOT_ACK,
    NOT_ECHO,
    NOT_FOUND,
    NOT_FOUND_HINTS,
    TEXTS,
    TURNS,
    TYPES,
    WORD,
)

_CODE_IN_TEXT: Final = re.compile(
    r"\A(?P<first>[45]\d\d)(?=\s*(?:\Z|[:;,-]|too many|not found|unauthorized|forbidden|bad |service|gateway"
    r"|internal|request|conflict|gone|error|timeout))"
    r"|\b(?:http(?:/\d(?:\.\d)?)?|status|code)[ :=#]{1,3}(?P<named>[45]\d\d)(?![\w.])",
    re.IGNORECASE,
)
"""A status code as texts give it; a number that only begins a sentence ("429 rows were invalid") is none."""
MAX_LINE: Final = 300
"""Characters of the first line that are read."""
MAX_SAID: Final = 2_000
"""Characters of a whole text whose first line may say that it is an error; longer text is content."""
MAX_SHORT: Final = 300
"""Characters of a whole text that may name its error in the middle."""
MAX_NOT_FOUND: Final = 200
"""Characters of a whole text that may say that nothing was found."""
MAX_ACK: Final = 48
"""Characters of a whole text that may be a bare acknowledgement."""


class ErrorRules(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """The owner's error rules together with the built-in lists; the default knows the built-in lists only."""

    transient: tuple[str, ...] = ()
    in_band: bool = False
    """True: a result that reads like an error makes the call a failed call."""
    not_found: tuple[str, ...] = ()
    """More texts, lower case, that mean that nothing was found."""

    def categorise(self, *, error_type: str | None, text: str | None, status: int | None = None) -> ErrorCategory:
        """The kind of a failure.

        Args:
            error_type: exception class (with or without its module), status code, or the source's own type.
            text: the error's message.
            status: status code, where one is known apart from the type.

        Returns:
            TRANSIENT if an entry of `transient` matches: digits match the status or type exactly, or the status code
            that the text begins with or names ("429 Too Many", "status code 503"); another entry matches a type
            exactly, or the text that holds it, whatever its letter case. Else what the status, the type or the first
            line of the text says by a narrow list, in this order; else UNKNOWN.
        """
        code = status if status is not None else _code(error_type)
        if code is None and text:
            code = _code_in(first_line(text))
        name = (error_type or "").rpartition(".")[2]
        if self._is_transient(code, error_type or "", name, (text or "").casefold()):
            return ErrorCategory.TRANSIENT
        if code is not None and code in CODES:
            return CODES[code]
        plain = name.replace("_", "").lower()
        for category, pattern in TYPES:
            if pattern.fullmatch(plain):
                return category
        line = first_line(text or "").lower()
        for category, pattern in TEXTS:
            if pattern.search(line):
                return category
        return ErrorCategory.UNKNOWN

    def _is_transient(self, code: int | None, error_type: str, name: str, text: str) -> bool:
        for entry in self.transient:
            if entry.isdecimal():
                if entry in (str(code), error_type):
                    return True
            elif entry in (error_type, name) or entry.casefold() in text:
                return True
        return False

    def is_error_text(self, text: str) -> bool:
        """True if the first line of this text says that a call failed. JSON and long text never do."""
        if len(text) > MAX_SAID:
            return False
        line = first_line(text)
        if not line or line[0] in "{[" or not _holds(line, ERROR_HINTS) or NO_ERROR.search(line):
            return False
        patterns = ERRORS + ERRORS_IN_SHORT if len(text) <= MAX_SHORT else ERRORS
        return any(pattern.search(line) for pattern in patterns)

    def is_not_found(self, text: str) -> bool:
        """True if this short text says that nothing was found. Such a text may also be an error text."""
        if len(text) > MAX_NOT_FOUND or text.lstrip()[:1] in {"{", "["}:
            return False
        if self.not_found and any(word in text.casefold() for word in self.not_found):
            return True
        line = first_line(text)
        return _holds(line, NOT_FOUND_HINTS) and NOT_FOUND.search(line) is not None

    def is_ack(self, text: str) -> bool:
        """True if this text says no more than that the call was carried out."""
        if len(text) > MAX_ACK:
            return False
        words = WORD.findall(text.casefold())
        if is_echo(text, words):
            return True
        if not words or len(words) > MAX_ACK_WORDS or not BARE.fullmatch(text):
            return False
        if " ".join(words) in ACK_PHRASES:
            return True
        # A subject and a verb: "note stored", "transfer successful", "saved the file successfully".
        return not NOT_ACK & set(words) and (words[-1] in ACK_ENDINGS or words[0] == "successfully")


def is_echo(text: str, words: Sequence[str]) -> bool:
    """True if a short text repeats the action in the past tense and no more: "Clicked Next", "slept 10 s".

    Args:
        text: the whole text.
        words: its words, lower case.

    Verbs that may as well be the state of a thing asked about ("shipped", "closed", "set to 5") are no echo unless
    "the", a direction or a word such as "done" says that something was done.
    """
    done = bool(words) and words[0] in ECHO_PREFIXES
    said = words[1:] if done else words
    if not said or len(words) > MAX_ECHO_WORDS or not ECHO.fullmatch(text) or (NOT_ACK | NOT_ECHO) & set(words):
        return False
    if sum(any(sign.isdigit() for sign in word) for word in said) > 1:
        return False
    verb, rest = said[0], said[1:]
    if verb in ACTS:
        return True
    if verb not in ACTS_ON_THINGS or not rest:
        return False
    return done or rest[0] == "the" or (verb in TURNS and rest[0] in DIRECTIONS)


def first_line(text: str) -> str:
    """The first line of a text that is not blank, without space around it, at most `MAX_LINE` characters."""
    stripped = text[: MAX_SAID + MAX_LINE].lstrip()
    return stripped.split("\n", 1)[0][:MAX_LINE].rstrip()


def _holds(line: str, words: tuple[str, ...]) -> bool:
    lowered = line.lower()
    for word in words:  # noqa: SIM110 - a generator would cost three times as much
        if word in lowered:
            return True
    return False


def _code_in(line: str) -> int | None:
    """The status code that an error's text begins with or names as such: `429 Too Many`, `status code 503`."""
    found = _CODE_IN_TEXT.search(line)
    return None if found is None else int(found["first"] or found["named"])


def _code(error_type: str | None) -> int | None:
    return int(error_type) if error_type and len(error_type) == 3 and error_type.isdecimal() else None  # noqa: PLR2004
