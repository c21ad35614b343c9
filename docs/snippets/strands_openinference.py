"""Strands Agents with OpenInference's processor."""

from openinference.instrumentation.strands_agents import StrandsAgentsToOpenInferenceProcessor
from strands.telemetry import StrandsTelemetry

from otel_loopguard import install

telemetry = StrandsTelemetry()
telemetry.tracer_provider.add_span_processor(StrandsAgentsToOpenInferenceProcessor())
telemetry.setup_otlp_exporter()
install(telemetry.tracer_provider)
