"""LangChain and LangGraph with LangSmith's OpenTelemetry export."""

import os

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from otel_loopguard import LoopGuardSpanProcessor

os.environ["LANGSMITH_TRACING"] = "true"
os.environ["LANGSMITH_OTEL_ENABLED"] = "true"
os.environ["LANGSMITH_OTEL_ONLY"] = "true"  # else raw runs go to LangSmith beside the spans

provider = TracerProvider()
provider.add_span_processor(LoopGuardSpanProcessor())
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)

# LangSmith makes its spans afterwards. So a span of yours that stood around a run, and recorded the error that ended
# it, has gone by then with the error's text on it.
