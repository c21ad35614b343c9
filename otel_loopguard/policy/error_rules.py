"""Tells failures apart, and says what a short text result amounts to: an error, nothing found, a bare "ok".

Invariants: built-in lists are narrow, because a text wrongly read as an error makes different results look
equal; a count ("2 failed", "0 errors") or a title ("Error handling guide") is no error. Transient is never
guessed: only the owner's list says so. Only the first line of a text, and at most `MAX_LINE` characters of it,
is looked at. Nothing here raises; no text is kept.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from otel_loopguard.model import ErrorCategory

MAX_LINE: Final = 300
"""Characters of the first line that are read."""
MAX_SAID: Final = 2_000
"""Characters of a whole text whose first line may say that it is an error; longer text is content."""
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
            TRANSIENT if an entry of `transient` matches: digits match the status or type exactly; another entry
            matches a type exactly, or the text that holds it, whatever its letter case. Else what the status, the
            type or the first line of the text says by a narrow list, in this order; else UNKNOWN.
        """
        code = status if status is not None else _code(error_type)
        name = (error_type or "").rpartition(".")[2]
        if self._is_transient(code, error_type or "", name, (text or "").casefold()):
            return ErrorCategory.TRANSIENT
        if code is not None and code in _CODES:
            return _CODES[code]
        for category, pattern in _TYPES:
            if pattern.fullmatch(name):
                return category
        line = first_line(text or "").lower()
        for category, pattern in _TEXTS:
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
        if not line or line[0] in "{[" or _NO_ERROR.search(line):
            return False
        return any(pattern.search(line) for pattern in _ERRORS)

    def is_not_found(self, text: str) -> bool:
        """True if this short text says that nothing was found. Such a text may also be an error text."""
        if len(text) > MAX_NOT_FOUND or text.lstrip()[:1] in {"{", "["}:
            return False
        lowered = text.casefold()
        return any(word in lowered for word in self.not_found) or _NOT_FOUND.search(first_line(text)) is not None

    def is_ack(self, text: str) -> bool:
        """True if this text says no more than that the call was carried out."""
        if len(text) > MAX_ACK:
            return False
        words = _WORD.findall(text.casefold())
        if not words or len(words) > _MAX_ACK_WORDS or not _BARE.fullmatch(text):
            return False
        if " ".join(words) in _ACK_PHRASES:
            return True
        # A subject and a verb: "note stored", "transfer successful", "saved the file successfully".
        return not _NOT_ACK & set(words) and (words[-1] in _ACK_ENDINGS or words[0] == "successfully")


def first_line(text: str) -> str:
    """The first line of a text that is not blank, without space around it, at most `MAX_LINE` characters."""
    stripped = text[: MAX_SAID + MAX_LINE].lstrip()
    return stripped.split("\n", 1)[0][:MAX_LINE].rstrip()


def _code(error_type: str | None) -> int | None:
    return int(error_type) if error_type and len(error_type) == 3 and error_type.isdecimal() else None  # noqa: PLR2004


# --- Categories -----------------------------------------------------------------------------------------

_CODES: Final = {
    400: ErrorCategory.VALIDATION,
    401: ErrorCategory.PERMISSION,
    403: ErrorCategory.PERMISSION,
    404: ErrorCategory.NOT_FOUND,
    407: ErrorCategory.PERMISSION,
    410: ErrorCategory.NOT_FOUND,
    422: ErrorCategory.VALIDATION,
}
_TYPES: Final = (
    (
        ErrorCategory.PERMISSION,
        re.compile(r"PermissionError|PermissionDenied\w*|AccessDenied\w*|Forbidden\w*|Unauthori[sz]ed\w*|Unauthenticated"),
    ),
    (ErrorCategory.NOT_FOUND, re.compile(r"\w*NotFound(?:Error|Exception)?|NoSuch\w+|\w*DoesNotExist")),
    (
        ErrorCategory.VALIDATION,
        re.compile(r"\w*ValidationError|\w*InvalidArgument\w*|InvalidParameter\w*|BadRequest\w*|UnprocessableEntity\w*"),
    ),
)
_TEXTS: Final = (
    (
        ErrorCategory.PERMISSION,
        re.compile(
            r"\b(?:permission|access|authori[sz]ation) (?:is |was )?denied\b|^denied\b|\bforbidden\b|\bunauthori[sz]ed\b"
            r"|\bnot (?:authori[sz]ed|permitted)\b|\boperation not allowed\b|\b(?:needs|requires|awaiting) approval\b"
            r"|\bapproval (?:is )?required\b|\binsufficient (?:permissions?|privileges?|rights|scopes?)\b"
            r"|\bauthentication (?:is )?(?:required|failed)\b|\beacces\b"
        ),
    ),
    (
        ErrorCategory.NOT_FOUND,
        re.compile(
            r"\b(?:is |was |were )?not found\b|\bno such (?!luck\b)\w|\b(?:does not|doesn't|do not|don't) exist\b"
            r"|\b(?:could not|couldn't|cannot|can't|unable to|failed to) (?:find|locate)\b|\benoent\b"
            r"|\bno (?:results?|matches|match|records?|rows?|entries|documents?) (?:found|for)\b"
        ),
    ),
    (
        ErrorCategory.VALIDATION,
        re.compile(
            r"\binvalid (?:\w+ )?(?:arguments?|parameters?|params|inputs?|values?|fields?|types?|formats?|options?|json"
            r"|requests?)\b|\bvalidation (?:error|failed|failure)|\bvalidation errors? for\b"
            r"|\bmissing (?:\d+ )?(?:a )?(?:required|mandatory|positional)\b|\b(?:argument|parameter|field|property) required\b"
            r"|\brequired (?:argument|parameter|field|property|positional)\b"
            r"|\b(?:unexpected|unknown|unrecognized|unrecognised|extra) (?:keyword )?"
            r"(?:arguments?|parameters?|fields?|property|properties|options?|inputs?)\b"
            r"|\b(?:arguments?|parameters?|inputs?|value|field) must (?:be|have|match|contain)\b"
            r"|\bdoes not match (?:the )?schema\b|\bis not of type\b|\bis a required property\b"
        ),
    ),
)

# --- Texts that say what a result amounts to ------------------------------------------------------------

_NO_ERROR: Final = re.compile(
    r"\b(?:no|zero|0|without|any) (?:\w+ )?(?:errors?|failures?|exceptions?|failed|invalid)\b"
    r"|^\W*(?:errors?|failed|failures?|exceptions?|invalid|refused)\s*(?:count|total|rate)?\s*[:=]?\s*"
    r"(?:[0-9]+(?:\.[0-9]+)?\s*%?|none|null|nil|no|false|n/a|-)\s*(?:$|[,;.|)])",
    re.IGNORECASE,
)
"""Counts, summaries and denials that name an error without being one."""

_DOING: Final = (
    "accessing|applying|calling|compiling|connecting|converting|creating|decoding|deleting|downloading|editing"
    "|evaluating|executing|fetching|finding|getting|importing|in|inserting|invoking|listing|loading|locating|making"
    "|moving|opening|parsing|performing|processing|querying|reading|receiving|removing|rendering|resolving|retrieving"
    "|running|saving|searching|sending|setting|starting|updating|uploading|using|validating|when|while|writing"
    "|at line|at position|during|occurred|from server|from tool|calling tool|response"
)
_FAILING: Final = (
    "action|api|assignment|authentication|authorization|call|command|connection|copy|creation|deletion|delivery"
    "|download|edit|evaluation|execution|fetch|function|handshake|import|insert|installation|job|load|login|lookup"
    "|move|operation|parsing|payment|process|query|read|request|retrieval|script|search|step|subprocess|task|tool"
    "|transaction|transfer|update|upload|validation|write"
)
_PROGRAM: Final = r"^(?:[\w./+-]{1,64}: )(?:line \d+: |\d+: )?"
"""The `program: ` or `program: line 3: ` with which command line tools begin a complaint."""
_ERRORS: Final = (
    re.compile(r"^\W*(?:\w+ ){0,2}(?:error|exception)\s*(?:\[[^\]]{0,40}\]|\([^)]{0,40}\))?\s*:", re.IGNORECASE),
    re.compile(rf"^\W*(?:an? )?(?:\w+ )?(?:error|exception) (?:{_DOING})\b", re.IGNORECASE),
    re.compile(r"^\W*(?:http )?error (?:code )?[1-5]\d\d\b(?!\.\d)", re.IGNORECASE),
    re.compile(r"^\W*error\W*$|^\W*(?:failed|failure|invalid|refused|exception)\W*$", re.IGNORECASE),
    re.compile(r"^\W*(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception)(?:\s*[:(]|$)"),
    re.compile(r"^Traceback \(most recent call last\)|^\W*(?:fatal|panic|failed|failure|refused)\s*:", re.IGNORECASE),
    re.compile(r"^\W*failed (?:to|with|while|when|because|due to)\b", re.IGNORECASE),
    re.compile(rf"^\W*(?:the )?(?:\w+ )?(?:{_FAILING}) (?:has )?failed\b(?!\s*[:=]?\s*\d+\b(?!\d*\s*$)[^.]*pass)", re.IGNORECASE),
    re.compile(r"^\W*invalid \w[^.!?]{0,120}[.!]?$", re.IGNORECASE),
    re.compile(r"\bconnection (?:was )?refused\b|^\W*refused (?:to|by)\b", re.IGNORECASE),
    re.compile(r"^\W*(?:cannot|can't|could not|couldn't|unable to) (?!find\b|locate\b)\w+", re.IGNORECASE),
    re.compile(r"^\W*cannot (?:find|locate)\b", re.IGNORECASE),
    re.compile(r"^\W*no such \w+|: no such (?:file|device|process|container|host|table|column)\b", re.IGNORECASE),
    re.compile(rf"{_PROGRAM}.*(?:no such \w+|command not found|invalid \w+|cannot \w+|can't \w+)", re.IGNORECASE),
    re.compile(r"\bgenerated an exception\b|\b(?:raised|threw) (?:an? )?\w*(?:exception|error)\b", re.IGNORECASE),
)
_NOT_FOUND: Final = re.compile(
    r"\bnot found\b|\bno (?:\w+ ){0,2}(?:results?|match(?:es)?|hits?|records?|rows|entries|documents?|items?|files?)"
    r"(?: (?:were |was )?(?:found|returned|available|matched?)\b| for\b|\W*$)"
    r"|^\W*(?:nothing|none|no one|nobody) (?:was |were )?found\b|^\W*(?:0|zero) (?:results?|matches|hits|rows|records)\W*$"
    r"|^\W*(?:could not|couldn't|cannot|can't|unable to|did not|didn't) (?:find|locate)\b|\b(?:does not|doesn't) exist\b",
    re.IGNORECASE,
)

_WORD: Final = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
_BARE: Final = re.compile(r"[\s\w.,!:;'\"()✓✔✅👍-]*")
"""Words and light punctuation: `status=ok; id=7` or a path says more than a bare acknowledgement."""
_MAX_ACK_WORDS: Final = 6
_ACK_PHRASES: Final = frozenset({
    "200 ok", "201 created", "202 accepted", "204 no content", "accepted", "ack", "acknowledged", "added", "all done",
    "applied", "cancelled", "canceled", "complete", "completed", "confirmed", "created", "deleted", "done", "executed",
    "finished", "got it", "inserted", "logged", "moved", "noted", "ok", "ok done", "okay", "posted", "received",
    "recorded", "removed", "renamed", "saved", "sent", "set", "status ok", "stored", "submitted", "success",
    "successful", "successfully", "succeeded", "true", "updated", "written", "wrote",
})  # fmt: skip
_ACK_ENDINGS: Final = frozenset({
    "added", "applied", "created", "deleted", "inserted", "logged", "noted", "posted", "recorded", "removed", "renamed",
    "saved", "sent", "stored", "submitted", "succeeded", "successful", "successfully", "updated", "written",
})  # fmt: skip
_NOT_ACK: Final = frozenset({
    "already", "but", "can't", "cannot", "could", "couldn't", "didn't", "error", "errors", "fail", "failed", "if",
    "isn't", "never", "no", "none", "not", "nothing", "or", "partially", "unless", "wasn't", "were", "weren't", "when",
    "where", "who", "won't",
})  # fmt: skip
