"""Canonical form `lg1`: the bytes that stand for a value, and JSON text read without losing anything.

Invariants: equal values give equal bytes and different values different bytes, on every platform and version;
whatever RFC 8785 can write is written as RFC 8785 writes it; nothing is dropped, rounded or cut. No input
gives another exception than `CanonicalError`, and none makes this package run without bound.
The rules in full, with test vectors, are in `docs/canonical-form.md`.
"""

from __future__ import annotations

from otel_loopguard.canonical._encode import at_top, encode
from otel_loopguard.canonical._form import (
    MAX_DEPTH,
    MAX_FORM_BYTES,
    MAX_INT_DIGITS,
    MAX_TEXT_BYTES,
    MAX_VALUES,
    CanonicalError,
    Opaque,
    encode_slow,
)
from otel_loopguard.canonical._parse import parse_json, parse_with_form

__all__ = [
    "MAX_DEPTH",
    "MAX_FORM_BYTES",
    "MAX_INT_DIGITS",
    "MAX_TEXT_BYTES",
    "MAX_VALUES",
    "CanonicalError",
    "Opaque",
    "at_top",
    "encode",
    "encode_slow",
    "parse_json",
    "parse_with_form",
]
