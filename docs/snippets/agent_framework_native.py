"""Microsoft Agent Framework with its own spans and log records."""

from agent_framework.observability import enable_instrumentation
from opentelemetry import _logs, trace
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from otel_loopguard import LoopGuardLogRecordProcessor, LoopGuardSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
provider.add_span_processor(LoopGuardSpanProcessor())
trace.set_tracer_provider(provider)

logs = LoggerProvider()
logs.add_log_record_processor(LoopGuardLogRecordProcessor())  # before what sends
logs.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
_logs.set_logger_provider(logs)

enable_instrumentation(enable_sensitive_data=True)  # off by default
