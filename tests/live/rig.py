"""Sets up tracing for an agent of the live tests by its pair's snippet, and looks that it stays off the network.

Invariants: needs nothing but the standard library, OpenTelemetry and what a pair's requirements bring.

An agent's script is run as `python <framework>_agent.py <pair>`; the pair's snippet of `docs/snippets` sets up tracing
just as a user's code would. Environment: `LIVE_SIDE` is `raw` (our processor does nothing) or `digests`;
`OTEL_EXPORTER_OTLP_ENDPOINT` is the loopback receiver that the snippet's own exporter sends to.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import scenario
from opentelemetry import _logs, metrics, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LogRecordProcessor
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

import otel_loopguard

if TYPE_CHECKING:
    from collections.abc import Generator

_LIVE: Final = Path(__file__).resolve().parent
_SNIPPETS: Final = (_LIVE.parents[1] / "docs/snippets", _LIVE / "variants")


class NetworkUsedError(RuntimeError):
    """Something reached for an address that is not on this machine."""


def _refuse_network(event: str, arguments: tuple[Any, ...]) -> None:
    """Audit hook: connect on the loopback only."""
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        host = str(arguments[1][0])
        if host not in {"localhost", "::1"} and not host.startswith("127."):
            message = "live agents use the loopback only"
            raise NetworkUsedError(message)


class _Inert(SpanProcessor):
    """Stands in for our processor on the raw side."""

    def _on_ending(self, span: Any) -> None:
        """Leave the span as it is."""


class _InertLogs(LogRecordProcessor):
    """Stands in for our processor of log records on the raw side."""

    def on_emit(self, log_record: Any) -> None:
        """Leave the record as it is."""

    def shutdown(self) -> None:
        """Nothing is open."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:  # noqa: ARG002  # the SDK's
        """Nothing is held."""
        return True


def begin() -> None:
    """Set up tracing by the pair's snippet, with two more exporters: one registered before all others, one after.

    They export at once; the snippet's own exports in batches. So each run shows what reaches exporters that
    stand before and after our processor.
    """
    sys.addaudithook(_refuse_network)
    if os.environ["LIVE_SIDE"] == "raw":
        otel_loopguard.LoopGuardSpanProcessor = _Inert  # type: ignore[attr-defined]
        otel_loopguard.LoopGuardLogRecordProcessor = _InertLogs  # type: ignore[attr-defined]
        otel_loopguard.install = lambda *_, **__: _Inert()  # type: ignore[attr-defined]
    snippet = next(path for folder in _SNIPPETS if (path := folder / f"{sys.argv[1]}.py").exists())
    runpy.run_path(str(snippet), run_name="snippet")
    base = os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"]
    early, late = (
        SimpleSpanProcessor(OTLPSpanExporter(endpoint=f"{base}/{place}/v1/traces")) for place in ("early", "late")
    )
    several = provider()._active_span_processor  # noqa: SLF001  # the SDK has no public way to register first
    several._span_processors = (early, *several._span_processors, late)  # noqa: SLF001


def provider() -> Any:
    """The SDK's provider, taken out of what is wrapped around it."""
    found: Any = trace.get_tracer_provider()
    while hasattr(found, "provider"):
        found = found.provider
    return found


@contextmanager
def request() -> Generator[None]:
    """The application's own span around a run, which records the error that ends the run; none without `LIVE_FATAL`."""
    if not os.environ.get("LIVE_FATAL"):
        yield
        return
    with (
        suppress(scenario.FatalError),
        trace.get_tracer("application").start_as_current_span("handle_request", attributes={"application.kept": "yes"}),
    ):
        yield


def finish() -> None:
    """Send what is left and print what our processor counted."""
    found = provider()
    found.force_flush()
    # Whatever is wrapped around it, it is somewhere; `type`, as lazy objects answer `isinstance` by importing.
    for processor in [one for one in gc.get_objects() if type(one).__name__ == "LoopGuardSpanProcessor"]:
        counts = processor.counts
        print("counts", json.dumps({name: getattr(counts, name) for name in counts.__struct_fields__}))  # noqa: T201  # to the test
    found.shutdown()
    for other in (_logs.get_logger_provider(), metrics.get_meter_provider()):
        if hasattr(other, "shutdown"):
            other.shutdown()
