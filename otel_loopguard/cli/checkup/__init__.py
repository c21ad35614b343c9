"""What `doctor` looks at: one module a part, each of which gives diagnoses.

Invariants: a diagnosis holds no content, no key, no header and no path that a secret may stand in; whatever is not all
right says what to do. What could not be looked at is no clean bill: it is `skipped` with its reason, or a problem.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec


class Check(StrEnum):
    """What was looked at."""

    VERSIONS = "versions"
    REMOVAL = "removal"
    RECORDING = "recording"
    SETTINGS = "settings"
    KEY = "key"
    POLICY = "policy"
    ZERO_CODE = "zero_code"
    SETUP = "setup"
    PROCESSORS = "processors"
    EXPORTERS = "exporters"
    LIMITS = "limits"
    CANARY = "canary"
    LOGS = "logs"
    CONNECTION = "connection"


class Level(StrEnum):
    """How good or bad it is, from best to worst."""

    OK = "ok"
    NOTE = "note"
    SKIPPED = "skipped"
    PROBLEM = "problem"
    LEAK = "leak"


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at, as `doctor --json` prints it."""

    check: Check
    level: Level
    what: str
    """What is so, on one line."""
    remedy: str = ""
    """What to do, on one line; empty where nothing has to be done."""


MEANING: Final = {
    Check.VERSIONS: "OpenTelemetry's packages are installed in versions that the processor is tested with",
    Check.REMOVAL: "the SDK lets content be taken off ended spans, so that no exporter gets it; tried on a provider "
    "of its own",
    Check.RECORDING: "some instrumentation records the arguments of the tool calls of each framework that is "
    "installed; nothing of them is imported",
    Check.SETTINGS: "the environment variables that begin with `OTEL_LOOPGUARD_` can be used",
    Check.KEY: "the digest key can be read; where it comes from, and never what it is",
    Check.POLICY: "the policy file can be read and has no mistakes",
    Check.ZERO_CODE: "what `opentelemetry-instrument` needs to put the processors in place is there",
    Check.SETUP: "your own set-up code ran and left a tracer provider of the SDK behind",
    Check.PROCESSORS: "the processor is in that provider once, and nothing around it hides it from the SDK",
    Check.EXPORTERS: "which exporters that provider has, and how they are fed",
    Check.LIMITS: "no span limit cuts arguments short",
    Check.CANARY: "no made-up content of any dialect comes out at an exporter; it is never sent",
    Check.LOGS: "the same of log records, through the global logger provider",
    Check.CONNECTION: "the OTLP endpoint answers",
}

LEVELS: Final = {
    Level.OK: "as it should be",
    Level.NOTE: "worth knowing; nothing is wrong",
    Level.SKIPPED: "was not looked at, and why",
    Level.PROBLEM: "keeps loops from being found, or content from being removed",
    Level.LEAK: "content would leave the process: it was seen to",
}


def ok(check: Check, what: str) -> Diagnosis:
    """As it should be."""
    return Diagnosis(check=check, level=Level.OK, what=what)


def note(check: Check, what: str, remedy: str = "") -> Diagnosis:
    """Worth knowing."""
    return Diagnosis(check=check, level=Level.NOTE, what=what, remedy=remedy)


def skipped(check: Check, why: str, remedy: str = "") -> Diagnosis:
    """Not looked at."""
    return Diagnosis(check=check, level=Level.SKIPPED, what=why, remedy=remedy)


def problem(check: Check, what: str, remedy: str) -> Diagnosis:
    """Something to mend."""
    return Diagnosis(check=check, level=Level.PROBLEM, what=what, remedy=remedy)


def leak(check: Check, what: str, remedy: str) -> Diagnosis:
    """Content that would leave."""
    return Diagnosis(check=check, level=Level.LEAK, what=what, remedy=remedy)
