"""The built-in lists that tell failures apart and say what a short text amounts to.

Invariants: narrow on purpose, because a text wrongly read as an error makes different results look equal; every
pattern is applied to one line of bounded length.
"""

from __future__ import annotations

import re
from typing import Final

from otel_loopguard.model import ErrorCategory

# --- Categories -----------------------------------------------------------------------------------------

CODES: Final = {
    400: ErrorCategory.VALIDATION,
    401: ErrorCategory.PERMISSION,
    403: ErrorCategory.PERMISSION,
    404: ErrorCategory.NOT_FOUND,
    407: ErrorCategory.PERMISSION,
    410: ErrorCategory.NOT_FOUND,
    422: ErrorCategory.VALIDATION,
}
TYPES: Final = (
    (
        ErrorCategory.PERMISSION,
        re.compile(
            r"permissionerror|permissiondenied\w*|accessdenied\w*|forbidden\w*|unauthori[sz]ed\w*|unauthenticated",
        ),
    ),
    (ErrorCategory.NOT_FOUND, re.compile(r"\w*notfound(?:error|exception)?|nosuch\w+|\w*doesnotexist")),
    (
        ErrorCategory.VALIDATION,
        re.compile(
            r"\w*validationerror|\w*invalid(?:argument|parameter|param|request)\w*|badrequest\w*|unprocessable\w*"
        ),
    ),
)
"""Against the last part of a type's name in lower case without underscores: `NOT_FOUND` is `NotFound`."""
TEXTS: Final = (
    (
        ErrorCategory.PERMISSION,
        re.compile(
            r"\b(?:permission|access|authori[sz]ation) (?:is |was )?denied\b|^denied\b"
            r"|\bforbidden\b|\bunauthori[sz]ed\b"
            r"|\bnot (?:authori[sz]ed|permitted)\b|\boperation not allowed\b|\b(?:needs|requires|awaiting) approval\b"
            r"|\bapproval (?:is )?required\b|\binsufficient (?:permissions?|privileges?|rights|scopes?)\b"
            r"|\bauthentication (?:is )?(?:required|failed)\b|\beacces\b"
            r"|\b(?:token|credentials?|session|certificate|password|licen[cs]e)s? (?:has |have |is |are )?expired\b"
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
            r"\binvalid (?:\w+ )?(?:arguments?|parameters?|params|inputs?|values?|fields?|types?|formats?|options?"
            r"|json|requests?)\b|\bvalidation (?:error|failed|failure)|\bvalidation errors? for\b"
            r"|\bmissing (?:\d+ )?(?:a )?(?:required|mandatory|positional)\b"
            r"|\b(?:argument|parameter|field|property) required\b"
            r"|\brequired (?:argument|parameter|field|property|positional)\b"
            r"|\b(?:unexpected|unknown|unrecognized|unrecognised|extra) (?:keyword )?"
            r"(?:arguments?|parameters?|fields?|property|properties|options?|inputs?)\b"
            r"|\b(?:arguments?|parameters?|inputs?|value|field) must (?:be|have|match|contain)\b"
            r"|\bdoes not match (?:the )?schema\b|\bis not of type\b|\bis a required property\b"
        ),
    ),
)

# --- Texts that say what a result amounts to ------------------------------------------------------------

NO_ERROR: Final = re.compile(
    r"\b(?:no|zero|0|without) (?:\w+ )?(?:errors?|failures?|exceptions?|failed|invalid)\b"
    r"|^\W*(?:errors?|failed|failures?|exceptions?|invalid|refused)\s*(?:count|total|rate)?\s*[:=]?\s*"
    r"(?:(?![45]\d\d\b(?!\.))[0-9]+(?:\.[0-9]+)?\s*%?|none|null|nil|no|false|n/a|-)\s*(?:$|[,;.|)])",
    re.IGNORECASE,
)
"""Counts, summaries and denials that name an error without being one. `Error: 404` is a status code, no count."""

_KINDS: Final = (
    "api|application|attribute|authentication|authorization|client|command|compilation|compiler|config|configuration"
    "|connection|critical|database|db|dns|execution|fatal|file|http|import|index|input|internal|internal server|io|key"
    "|name|network|os|parse|parser|parsing|permission|processing|programming|query|request|runtime|script|server|shell"
    "|socket|sql|ssl|syntax|system|timeout|tls|tool|type|unexpected|unhandled|unknown|user|validation|value"
)
"""What may stand before `error:`; a standard error or a rounding error is a number."""
_DOING: Final = (
    "accessing|applying|at line|at position|calling|compiling|connecting|converting|creating|decoding|deleting"
    "|downloading|during|editing|evaluating|executing|fetching|finding|from server|from tool|getting|importing|in"
    "|inserting|invoking|listing|loading|locating|making|moving|occurred|opening|parsing|performing|processing"
    "|querying|reading|receiving|removing|rendering|resolving|response|retrieving|running|saving|searching|sending"
    "|setting|starting|updating|uploading|using|validating|when|while|writing"
)
_FAILING: Final = (
    "action|api|assignment|authentication|authorization|call|command|connection|copy|creation|deletion|delivery"
    "|download|edit|evaluation|execution|fetch|function|handshake|import|insert|installation|job|load|login|lookup"
    "|move|operation|parsing|payment|process|query|read|request|retrieval|script|search|step|subprocess|task|tool"
    "|transaction|transfer|update|upload|validation|write"
)
"""What fails as a call. Tests, builds and checks are not here: that they fail is their answer, and a moving one."""
_PROGRAM: Final = r"^[^\s:]{1,120}: (?:line \d+: |\d+: )?(?:[^:]{1,200}: )?"
"""How command line tools begin a complaint: `program: `, `program: line 3: `, `program: file: `."""
_COMPLAINT: Final = (
    r"no such (?:file|device|process|user|group|host)|command not found|permission denied|syntax error"
    r"|(?:invalid|unrecognized|unknown|illegal) (?:argument|character|date|group|mode|number"
    r"|option|regular|syntax|user)"
    r"|(?:cannot|can't|can not) (?:access|allocate|cd|change|connect|copy|create|execute|find|load|locate|move|open"
    r"|overwrite|read|remove|resolve|run|stat|touch|write)"
)


def _any_case(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


ERROR_HINTS: Final = (
    "error", "exception", "traceback", "fatal", "panic", "fail", "refuse", "timed out", "cannot", "can't", "can not",
    "could", "unable", "no such", "denied", "invalid", "not found", "unrecognized", "unknown", "illegal",
)  # fmt: skip
"""What every pattern of `ERRORS` and `ERRORS_IN_SHORT` needs: most results hold none of it and are done with."""
NOT_FOUND_HINTS: Final = ("not found", "no ", "none ", "nothing", "nobody", "0 ", "zero", "find", "locate", "exist")
"""What `NOT_FOUND` needs."""
ERRORS: Final = (
    _any_case(rf"^\W*(?:an? )?(?:(?:{_KINDS}) )?(?:error|exception)\s*(?:\[[^\]]{{0,40}}\]|\([^)]{{0,40}}\))?\s*:"),
    _any_case(rf"^\W*(?:an? )?(?:(?:{_KINDS}) )?(?:error|exception) (?:{_DOING})\b"),
    _any_case(r"^\W*(?:http )?error (?:code )?[1-5]\d\d\b(?!\.\d)"),
    _any_case(r"^\W*(?:error|exception|failed|failure|invalid|refused)\W*$"),
    re.compile(r"^\W*(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception)(?:\s*[:(]|$)"),
    _any_case(r"^Traceback \(most recent call last\)|^\W*(?:fatal|panic|failed|failure|refused)\s*:"),
    _any_case(r"^\W*failed (?:to|with|while|when|because|due to)\b"),
    _any_case(rf"^\W*(?:the )?(?:\w+ )?(?:{_FAILING}) (?:has )?(?:failed|timed out)\b"),
    _any_case(r"^\W*(?:cannot|can't|could not|couldn't|unable to) (?!find\b|locate\b)\w+"),
    _any_case(r"^\W*cannot (?:find|locate)\b|^\W*no such \w+|^\W*refused (?:to|by)\b"),
    _any_case(_PROGRAM + rf"(?:{_COMPLAINT})\b"),
)
ERRORS_IN_SHORT: Final = (
    _any_case(r"^\W*invalid (?!\w+\s*[:=]\s*\d)\w[^.!?]*[.!]?$"),
    _any_case(r"\bconnection (?:was )?refused\b|\bno such (?:file or directory|table|column|host)\b"),
    _any_case(r"\bgenerated an exception\b|\b(?:raised|threw) an? (?:\w+ )?(?:exception|error)\b"),
)
"""What says an error only where little else is said."""

NOT_FOUND: Final = re.compile(
    r"\bnot found\b|\bno (?:\w+ ){0,2}(?:results?|match(?:es)?|hits?|records?|rows|entries|documents?|items?|files?)"
    r"(?: (?:were |was )?(?:found|returned|available|matched?)\b| for\b|\W*$)"
    r"|^\W*(?:nothing|none|no one|nobody) (?:was |were )?found\b"
    r"|^\W*(?:0|zero) (?:results?|matches|hits|rows|records)\W*$"
    r"|^\W*(?:could not|couldn't|cannot|can't|unable to|did not|didn't) (?:find|locate)\b"
    r"|\b(?:does not|doesn't) exist\b",
    re.IGNORECASE,
)

WORD: Final = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
BARE: Final = re.compile(r"[\s\w.,!:;'\"()✓✔✅👍-]*")
"""Words and light punctuation: `status=ok; id=7` or a path says more than a bare acknowledgement."""
MAX_ACK_WORDS: Final = 6
ACK_PHRASES: Final = frozenset({
    "200 ok", "201 created", "202 accepted", "204 no content", "accepted", "ack", "acknowledged", "added", "all done",
    "applied", "cancelled", "canceled", "complete", "completed", "confirmed", "created", "deleted", "done", "executed",
    "finished", "got it", "inserted", "logged", "moved", "noted", "ok", "ok done", "okay", "posted", "received",
    "recorded", "removed", "renamed", "saved", "sent", "set", "status ok", "stored", "submitted", "success",
    "successful", "successfully", "succeeded", "true", "updated", "written", "wrote",
})  # fmt: skip
ACK_ENDINGS: Final = frozenset({
    "added", "applied", "created", "deleted", "inserted", "logged", "noted", "posted", "recorded", "removed", "renamed",
    "saved", "sent", "stored", "submitted", "succeeded", "successful", "successfully", "updated", "written",
})  # fmt: skip
NOT_ACK: Final = frozenset({
    "already", "but", "can't", "cannot", "could", "couldn't", "didn't", "error", "errors", "fail", "failed", "if",
    "isn't", "never", "no", "none", "not", "nothing", "or", "partially", "unless", "wasn't", "were", "weren't", "when",
    "where", "who", "won't",
})  # fmt: skip

# --- Echoes: the action in the past tense, and no more --------------------------------------------------

ECHO: Final = re.compile(
    r"\s*(?:(?:done|ok|okay|success)[,:!.]\s+)?[^\W\d](?:[\w \t'\"()\[\]#/%+✓✔✅-]|\.(?=\w))*[.!]?\s*", re.IGNORECASE
)
"""One sentence of one line, "Done: " before it perhaps, without any other sign behind which data would stand."""
MAX_ECHO_WORDS: Final = 8
ECHO_PREFIXES: Final = frozenset({"done", "ok", "okay", "success", "successfully"})
ACTS: Final = frozenset({
    "clicked", "dragged", "hovered", "navigated", "pasted", "pressed", "redid", "scrolled", "slept", "swiped",
    "tapped", "toggled", "typed", "undid", "waited", "zoomed",
})  # fmt: skip
"""What is done and is never the state of a thing."""
ACTS_ON_THINGS: Final = frozenset({
    "added", "appended", "closed", "copied", "created", "deleted", "dropped", "edited", "entered", "executed", "filled",
    "focused", "handed", "inserted", "launched", "moved", "opened", "placed", "played", "put", "refreshed", "reloaded",
    "removed", "renamed", "replaced", "restarted", "rotated", "saved", "selected", "sent", "set", "started", "stopped",
    "submitted", "switched", "transferred", "turned", "undone", "updated", "wrote",
})  # fmt: skip
"""What may be a state as well: "closed", "Sent to Ana", "Updated 5 minutes ago"."""
TURNS: Final = frozenset({"moved", "rotated", "turned"})
DIRECTIONS: Final = frozenset({
    "ahead", "back", "backward", "backwards", "down", "east", "forward", "forwards", "left", "north", "right", "south",
    "up", "west",
})  # fmt: skip
NOT_ECHO: Final = frozenset({
    "ago", "and", "are", "because", "by", "found", "has", "have", "is", "now", "of", "pending", "returned", "shows",
    "still", "times", "until", "was", "which", "with", "yesterday", "today",
})  # fmt: skip
"""What brings more than the action: a count, an author, a time, what came of it."""
