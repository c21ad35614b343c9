"""Adds the processor to the provider that an application has, wherever that is wrapped.

Invariants: behind a wrapper the SDK's own provider is looked for by its type, never by a vendor's name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from otel_loopguard.errors import InstallError
from otel_loopguard.processor.span_processor import LoopGuardSpanProcessor

MAX_WRAPPERS: Final = 8
"""Wrappers looked through, one inside the other."""


def install(provider: trace.TracerProvider | None = None, **options: Any) -> LoopGuardSpanProcessor:
    """Makes a processor and adds it to a provider.

    Args:
        provider: the application's; None for the global one, which must have been set.
        options: as `LoopGuardSpanProcessor` takes them.

    Returns:
        The processor. A provider that has one already is given no second one: the first is returned.

    Raises:
        InstallError: there is no provider of the SDK behind what was given.
        KeyConfigError: the key that is configured cannot be used.
    """
    given = trace.get_tracer_provider() if provider is None else provider
    found = sdk_provider(given)
    if found is None:
        where = "no tracer provider is set" if provider is None else f"{type(given).__name__} holds none"
        message = (
            f"a tracer provider of the OpenTelemetry SDK is needed, and {where}: "
            "call install() after trace.set_tracer_provider(), or pass the provider"
        )
        raise InstallError(message)
    for one in getattr(found._active_span_processor, "_span_processors", ()):  # noqa: SLF001 - nothing public tells
        if isinstance(one, LoopGuardSpanProcessor):
            return one
    processor = LoopGuardSpanProcessor(**options)
    found.add_span_processor(processor)
    return processor


def sdk_provider(provider: object) -> TracerProvider | None:
    """Returns the SDK's provider that a provider is, or wraps; None where there is none."""
    for one in inside(provider, trace.TracerProvider):
        if isinstance(one, TracerProvider):
            return one
    return None


def inside(provider: object, kind: type) -> Iterator[object]:
    """Gives a provider, then what it wraps of a kind, then what that wraps; each once."""
    level: list[object] = [provider]
    seen: set[int] = set()
    for _ in range(MAX_WRAPPERS):
        inner: list[object] = []
        for one in level:
            if id(one) in seen:
                continue
            seen.add(id(one))
            yield one
            inner += [held for held in getattr(one, "__dict__", {}).values() if isinstance(held, kind)]
        level = inner
