"""Haystack with opentelemetry-haystack."""

import os

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from otel_loopguard import LoopGuardSpanProcessor

os.environ["HAYSTACK_CONTENT_TRACING_ENABLED"] = "true"  # off by default; it is read when Haystack is imported

from haystack import tracing
from haystack_integrations.tracing.opentelemetry import OpenTelemetryTracer

provider = TracerProvider()
provider.add_span_processor(LoopGuardSpanProcessor())
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
tracing.enable_tracing(OpenTelemetryTracer(provider.get_tracer("haystack")))
