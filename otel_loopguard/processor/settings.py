"""Every environment variable of the part that runs inside an application, and how their texts are read.

Invariants: reading never raises, and does no I/O; a text that cannot be used counts as not set, except that content is
then removed whole; no message shows a value, because a secret may stand in the wrong variable. As everywhere in
OpenTelemetry an empty variable is not set, and words are read without regard to case.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from enum import StrEnum
from typing import Final, TypeVar

import msgspec

from otel_loopguard import keys
from otel_loopguard.digest import Scope
from otel_loopguard.policy.document import ContentRule
from otel_loopguard.policy.nodes import printable

PREFIX: Final = "OTEL_LOOPGUARD_"
ENABLED: Final = "OTEL_LOOPGUARD_ENABLED"
MODE: Final = "OTEL_LOOPGUARD_MODE"
POLICY: Final = "OTEL_LOOPGUARD_POLICY"
POLICY_REREAD_S: Final = "OTEL_LOOPGUARD_POLICY_REREAD_S"
CONTENT: Final = "OTEL_LOOPGUARD_CONTENT"
KEY_SCOPE: Final = "OTEL_LOOPGUARD_KEY_SCOPE"
SDK_DISABLED: Final = "OTEL_SDK_DISABLED"
"""OpenTelemetry's own; what it switches off, we do not switch on."""

DEFAULT_REREAD_S: Final = 30.0
MAX_REREAD_S: Final = 86_400.0
"""A day: a longer wait is as good as none, and `0` says none."""
MAX_UNKNOWN: Final = 10
"""Unknown variables that are named; more would fill a log."""

_NUMBER_CHARS: Final = 32
_W = TypeVar("_W", bound=StrEnum)


class Mode(StrEnum):
    """What the processor does at all."""

    OFF = "off"
    OBSERVE = "observe"


class Variable(msgspec.Struct, frozen=True, kw_only=True):
    """One variable as the reference page shows it."""

    name: str
    shape: str
    default: str
    doc: str
    """What it is for, in one sentence."""
    example: str


def _words(kind: type[StrEnum]) -> str:
    return " or ".join(f"`{word.value}`" for word in kind)


VARIABLES: Final = (
    Variable(
        name=ENABLED,
        shape="`true` or `false`",
        default="`false`",
        doc="Puts the processors in place under `opentelemetry-instrument`, without a line of code.",
        example="true",
    ),
    Variable(
        name=MODE,
        shape=_words(Mode),
        default=f"`{Mode.OBSERVE}`",
        doc="The kill switch: with `off` nothing is put in place, no digest is made and **no content is removed**.",
        example="off",
    ),
    Variable(
        name=POLICY,
        shape="path of a file",
        default="none: the default policy",
        doc='The policy file; YAML needs `pip install "otel-loopguard[policy]"`, JSON needs nothing.',
        example="/etc/loopguard/policy.yaml",
    ),
    Variable(
        name=POLICY_REREAD_S,
        shape=f"seconds, 0 to {MAX_REREAD_S:.0f}",
        default=f"`{DEFAULT_REREAD_S:.0f}`",
        doc="How often, at most, it is looked whether the policy file has changed; `0`: never.",
        example="5",
    ),
    Variable(
        name=CONTENT,
        shape=_words(ContentRule),
        default="what the policy says",
        doc="What is removed from spans and log records, whatever the policy says: all, that of tools, or none.",
        example="drop_tool",
    ),
    Variable(
        name=keys.KEY,
        shape="64 hex characters, or base64 of 32 bytes",
        default="none: a random key that no other process knows",
        doc="The key that digests are made with.",
        example="the output of `openssl rand -hex 32`",
    ),
    Variable(
        name=keys.KEY_FILE,
        shape="path of a file",
        default="none",
        doc=f"The file that holds the key, as text or as 32 raw bytes; not together with `{keys.KEY}`.",
        example="/run/secrets/loopguard-key",
    ),
    Variable(
        name=keys.KEY_ID,
        shape="1 to 64 of `A-Z a-z 0-9 _ . : / -`",
        default="a fingerprint of the key",
        doc="The key's name, which stands beside every digest; a new key needs a new one.",
        example="2026-11",
    ),
    Variable(
        name=KEY_SCOPE,
        shape=_words(Scope),
        default=f"`{Scope.TRACE}`",
        doc="Within what equal arguments have equal digests: one trace or named run, or everything under one key.",
        example="environment",
    ),
)


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong with the settings, or with what they name."""

    variable: str
    line: str
    """What is wrong, where, what is done instead, and what to do about it."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the environment says."""

    enabled: bool = False
    mode: Mode = Mode.OBSERVE
    policy_path: str | None = None
    policy_reread_s: float = DEFAULT_REREAD_S
    """Seconds between two looks at the policy file; 0: it is read once."""
    content: ContentRule | None = None
    """None: the policy decides."""
    key_scope: Scope = Scope.TRACE
    sdk_disabled: bool = False
    problems: tuple[Problem, ...] = ()
    """In the order of `VARIABLES`, then unknown variables by name; may be empty."""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Settings:
        """Reads the variables; it never raises.

        Args:
            environ: environment variables, such as `os.environ`. The variables of the key are only known here by name:
                `keys.load_key` reads them.

        Returns:
            The settings, with what is wrong with them in `problems`.
        """
        read = _Reader(environ)
        path, named = read.text(POLICY), CONTENT in environ and bool(environ[CONTENT].strip())
        content = read.word(CONTENT, ContentRule, f"{ContentRule.DROP_ALL} is used")
        return cls(
            enabled=read.flag(ENABLED),
            mode=read.word(MODE, Mode, f"{Mode.OBSERVE} is used", hint=_enforce) or Mode.OBSERVE,
            policy_path=path or None,
            policy_reread_s=read.seconds(POLICY_REREAD_S, DEFAULT_REREAD_S, MAX_REREAD_S),
            content=content or (ContentRule.DROP_ALL if named else None),
            key_scope=read.word(KEY_SCOPE, Scope, f"{Scope.TRACE} is used") or Scope.TRACE,
            sdk_disabled=environ.get(SDK_DISABLED, "").strip().lower() == "true",
            problems=(*sorted(read.problems, key=_place), *unknown(environ)),
        )


class _Reader:
    """Reads texts one by one and notes what is wrong."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.problems: list[Problem] = []

    def text(self, name: str) -> str:
        return self._environ.get(name, "").strip()

    def flag(self, name: str) -> bool:
        word = self.text(name).lower()
        if word not in {"", "true", "false"}:
            self._note(name, "neither `true` nor `false`, so `false` is used; write one of them")
        return word == "true"

    def word(self, name: str, kind: type[_W], instead: str, *, hint: Callable[[str], str] | None = None) -> _W | None:
        word = self.text(name).lower()
        found = next((member for member in kind if member.value == word), None)
        if word and found is None:
            known = ", ".join(member.value for member in kind)
            said = (hint(word) if hint is not None else "") or f"not one of {known}"
            self._note(name, f"{said}, so {instead}; write one of {known}")
        return found

    def seconds(self, name: str, default: float, most: float) -> float:
        text = self.text(name)
        number = _number(text)
        if number is not None and 0 <= number <= most:
            return number
        if text:
            self._note(
                name, f"not a number from 0 to {most:.0f}, so {default:.0f} is used; write seconds, or 0 for never"
            )
        return default

    def _note(self, name: str, what: str) -> None:
        self.problems.append(Problem(name, f"{name}: {what}"))


def unknown(environ: Mapping[str, str]) -> Iterator[Problem]:
    """Gives one problem for each variable of ours that does not exist, by name; at most `MAX_UNKNOWN` of them."""
    known = {variable.name.removeprefix(PREFIX): variable.name for variable in VARIABLES}
    found = sorted(name for name in environ if name.upper().startswith(PREFIX) and name not in known.values())
    for name in found[:MAX_UNKNOWN]:
        close = get_close_matches(name[len(PREFIX) :][:64].upper(), known, n=1, cutoff=0.6)
        hint = f"did you mean {known[close[0]]}?" if close else f"known are {', '.join(known.values())}"
        shown = printable(name, limit=80)
        yield Problem(shown, f"{shown}: there is no such variable, so it is ignored; {hint}")


def _enforce(word: str) -> str:
    return "a processor only observes and `enforce` belongs to the guard" if word == "enforce" else ""


def _number(text: str) -> float | None:
    if not text.isascii() or len(text) > _NUMBER_CHARS or "_" in text:
        return None
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _place(problem: Problem) -> int:
    return next(place for place, variable in enumerate(VARIABLES) if variable.name == problem.variable)
