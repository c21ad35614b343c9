"""A small agent that knows nothing of otel-loopguard: the OpenTelemetry API alone, and canaries in all its content.

Run by `test_zero_code.py` in a process of its own; `sys.argv[1:]` says what it does besides. It prints `done` last.
"""

from __future__ import annotations

import json
import sys

from opentelemetry import _logs, trace

CANARY = "canary-7f3e"


def set_provider() -> None:
    """Sets providers as an application does that uses no distribution."""
    from opentelemetry._logs import set_logger_provider  # noqa: PLC0415 - late, as applications do
    from opentelemetry.sdk._logs import LoggerProvider  # noqa: PLC0415
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, ConsoleLogRecordExporter  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter  # noqa: PLC0415
    from opentelemetry.trace import set_tracer_provider  # noqa: PLC0415

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(ConsoleSpanExporter()))
    set_tracer_provider(provider)
    records = LoggerProvider()
    records.add_log_record_processor(BatchLogRecordProcessor(ConsoleLogRecordExporter()))
    set_logger_provider(records)


def fail() -> None:
    """Fails as a tool does, with content in the message."""
    raise ValueError(CANARY)


def run() -> None:
    """Calls one tool three times with the same arguments, and one that fails."""
    tracer = trace.get_tracer("my_agent")
    arguments = json.dumps({"order": CANARY})
    with tracer.start_as_current_span("invoke_agent", attributes={"gen_ai.operation.name": "invoke_agent"}):
        for number in range(3):
            with tracer.start_as_current_span(
                "execute_tool lookup_order",
                attributes={
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": "lookup_order",
                    "gen_ai.tool.call.id": f"call_{number}",
                    "gen_ai.tool.call.arguments": arguments,
                },
            ) as span:
                span.set_attribute("gen_ai.tool.call.result", json.dumps({"note": CANARY}))
        try:
            with tracer.start_as_current_span(
                "execute_tool cancel_order",
                attributes={
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": "cancel_order",
                    "gen_ai.tool.call.arguments": arguments,
                },
            ):
                fail()
        except ValueError:
            pass
        _logs.get_logger("my_agent").emit(
            _logs.LogRecord(
                event_name="gen_ai.client.inference.operation.details",
                attributes={"gen_ai.input.messages": json.dumps([{"content": CANARY}])},
                body=CANARY,
            )
        )


if __name__ == "__main__":
    if "sets-provider" in sys.argv:
        set_provider()
    run()
    trace.get_tracer_provider().force_flush()  # type: ignore[attr-defined]
    print("done")  # noqa: T201
