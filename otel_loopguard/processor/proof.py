"""Proves, before anything is promised, that with the installed SDK no exporter gets what the processor took off.

Invariants: a private provider with its own sampler, limits and resource, and no meter: nothing of the application's is
touched, and no setting of its own hides a leak. The proof is of the very way that spans are changed (`sdk`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.environment_variables import OTEL_SDK_DISABLED
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, SpanProcessor, TracerProvider, sampling
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.version import __version__ as SDK_VERSION  # noqa: N812 - a constant

from otel_loopguard import attributes as attr
from otel_loopguard.errors import SdkError

_CANARY: Final = "a canary that must not be exported"
_EVENTS: Final = 3
_KEPT: Final = 2
_COUNT: Final = 64
_LIMITS: Final = SpanLimits(  # all of them: one that is left out is the application's, from the environment
    max_attributes=_COUNT,
    max_events=_KEPT,
    max_links=_COUNT,
    max_span_attributes=_COUNT,
    max_event_attributes=_COUNT,
    max_link_attributes=_COUNT,
    max_attribute_length=1_000,
    max_span_attribute_length=1_000,
)


class _Exported(NamedTuple):
    text: str
    is_written: bool
    dropped_events: int


class _Recorder(SpanExporter):
    """Looks at spans when it gets them, as an exporter does that sends at once: later is too late to clean them."""

    def __init__(self) -> None:
        self.spans: list[_Exported] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.spans += [
            _Exported(span.to_json(), attr.SCHEMA in (span.attributes or {}), span.dropped_events) for span in spans
        ]
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        pass


def is_disabled() -> bool:
    """Tells whether the SDK is switched off, so that there is nothing to clean."""
    return os.environ.get(OTEL_SDK_DISABLED, "").strip().lower() == "true"


def prove(processor: Callable[[], SpanProcessor]) -> None:
    """Sends a span through a processor between two exporters, and looks at what both got.

    Args:
        processor: makes a processor that removes all content.

    Raises:
        SdkError: content came through, or nothing did, or the SDK's count of what it dropped was lost.
    """
    if is_disabled():
        return
    before, after = _Recorder(), _Recorder()
    provider = TracerProvider(
        sampler=sampling.ALWAYS_ON,
        resource=Resource({}),
        shutdown_on_exit=False,
        span_limits=_LIMITS,
    )
    provider.add_span_processor(SimpleSpanProcessor(before))
    provider.add_span_processor(processor())
    provider.add_span_processor(SimpleSpanProcessor(after))
    span = provider.get_tracer("otel_loopguard.proof").start_span("execute_tool probe", Context())
    span.set_attribute(attr.OPERATION, "execute_tool")
    span.set_attribute(attr.TOOL_NAME, "probe")
    for key in (attr.TOOL_ARGUMENTS, attr.TOOL_RESULT, attr.INPUT_MESSAGES, attr.OUTPUT_MESSAGES):
        span.set_attribute(key, _CANARY)
    for _ in range(_EVENTS):
        span.add_event(attr.EXCEPTION_EVENT, {attr.EXCEPTION_MESSAGE: _CANARY, attr.EXCEPTION_TYPE: "ValueError"})
    span.set_status(trace.StatusCode.ERROR, _CANARY)
    span.end()
    for recorder in (before, after):
        _look_at(recorder.spans)


def _look_at(spans: Sequence[_Exported]) -> None:
    if len(spans) != 1:
        _fail(f"{len(spans)} spans were exported in place of one")
    (span,) = spans
    if _CANARY in span.text:
        _fail("content was exported")
    if not span.is_written:
        _fail("what was put on the span was not exported")
    if span.dropped_events != _EVENTS - _KEPT:
        _fail("the count of dropped events was lost")


def _fail(what: str) -> None:
    message = (
        f"with opentelemetry-sdk {SDK_VERSION} {what}, so the processor refuses to start: "
        "install a version that this package is tested with (1.40 and newer), or report this one"
    )
    raise SdkError(message)
