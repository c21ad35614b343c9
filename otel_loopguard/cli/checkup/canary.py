"""The canary: text that stands for content, and where it is found again.

Invariants: the canary is random text of our own and names nobody; what is told of a span is the place where the canary
stood, never what stood there. Values that look like names pass by design, so the canary does not look like one.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from opentelemetry.sdk.trace import ReadableSpan

from otel_loopguard.words import safe

HERE: Final = "CANARY"
"""Stands for the canary in made-up spans and records."""
_MAX_DEPTH: Final = 20


class Place(NamedTuple):
    """Where a canary was found again."""

    dialect: str
    role: str
    where: str
    crowded: bool = False
    early: bool = False
    """On a span that had only started."""


class Canary:
    """One random text, and how to find it."""

    def __init__(self) -> None:
        self.token = f"canary{secrets.token_hex(8)}"
        self.text = f"{self.token} is made up"

    def fill(self, value: Any) -> Any:
        """Puts the canary where a shape says so."""
        if isinstance(value, str):
            return value.replace(HERE, self.text)
        if isinstance(value, Mapping):
            return {key: self.fill(item) for key, item in value.items()}
        return [self.fill(item) for item in value] if isinstance(value, list | tuple) else value

    def holds(self, value: Any, depth: int = 0) -> bool:
        """Tells whether the canary stands somewhere in a value."""
        if isinstance(value, str):
            return self.token in value
        if isinstance(value, bytes):
            return self.token.encode() in value
        if depth >= _MAX_DEPTH:
            return False
        if isinstance(value, Mapping):
            return any(self.holds(key, depth + 1) or self.holds(item, depth + 1) for key, item in value.items())
        return isinstance(value, Sequence) and any(self.holds(item, depth + 1) for item in value)

    def found_in(self, span: ReadableSpan) -> Iterator[str]:
        """Gives each place of a span in which the canary stands, as words that hold none of it."""
        if self.holds(span.name):
            yield "the span's name"
        if self.holds(span.status.description):
            yield "the status description"
        for key in self.keys_of(span.attributes):
            yield f"attribute {key}"
        for event in span.events:
            name = "an event" if self.holds(event.name) else f"event {safe(event.name)}"
            if self.holds(event.name):
                yield "an event's name"
            for key in self.keys_of(event.attributes):
                yield f"{name}, attribute {key}"
        for link in span.links:
            for key in self.keys_of(link.attributes):
                yield f"a link's attribute {key}"
        scope = span.instrumentation_scope
        if scope is not None and (self.holds(scope.name) or self.holds(scope.attributes)):
            yield "the instrumentation scope"

    def keys_of(self, attributes: Mapping[str, Any] | None) -> Iterator[str]:
        """Gives the keys of attributes under which the canary stands."""
        for key, value in (attributes or {}).items():
            if self.holds(key):
                yield "(a key that holds it)"
            elif self.holds(value):
                yield safe(key)
