"""Adds the processors to the providers that an application has, wherever those are wrapped.

Invariants: each provider is given one processor of ours, however often it is asked for.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from opentelemetry import _logs, trace
from opentelemetry.sdk.trace import TracerProvider

from otel_loopguard.errors import InstallError
from otel_loopguard.processor.install_logs import install_logs, sdk_logger_provider
from otel_loopguard.processor.span_processor import LoopGuardSpanProcessor
from otel_loopguard.processor.wrapped import inside

_LOGGER: Final = logging.getLogger("otel_loopguard")


def install(provider: trace.TracerProvider | None = None, **options: Any) -> LoopGuardSpanProcessor:
    """Makes a processor and adds it to a provider; and cleans the application's log records, if it has a pipeline.

    GenAI instrumentations send prompts and results as log records, too. The logger provider is the one among
    `options`, or the global one; where that is not the SDK's, or not set, nothing is done about logs.

    Args:
        provider: the application's; None for the global one, which must have been set.
        options: as `LoopGuardSpanProcessor` takes them.

    Returns:
        The span processor. A provider that has one already is given no second one: the first is returned.

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
    processor = _known(found)
    if processor is None:
        processor = LoopGuardSpanProcessor(**options)
        found.add_span_processor(processor)
    logs = sdk_logger_provider(options.get("logger_provider") or _logs.get_logger_provider())
    if logs is not None:
        try:
            install_logs(logs, content=processor.content, keys=processor.keyring)
        except InstallError as error:
            _LOGGER.warning("%s", error)
    return processor


def _known(provider: TracerProvider) -> LoopGuardSpanProcessor | None:
    held = getattr(provider._active_span_processor, "_span_processors", ())  # noqa: SLF001 - nothing public tells
    return next((one for one in held if isinstance(one, LoopGuardSpanProcessor)), None)


def sdk_provider(provider: object) -> TracerProvider | None:
    """Returns the SDK's provider that a provider is, or wraps; None where there is none."""
    for one in inside(provider, trace.TracerProvider):
        if isinstance(one, TracerProvider):
            return one
    return None
