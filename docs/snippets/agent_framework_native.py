"""Microsoft Agent Framework with its own spans."""

from agent_framework.observability import enable_instrumentation
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from otel_loopguard import LoopGuardSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
provider.add_span_processor(LoopGuardSpanProcessor())
trace.set_tracer_provider(provider)
enable_instrumentation(enable_sensitive_data=True)  # off by default
