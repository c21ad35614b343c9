"""Strands Agents with its own spans."""

from strands.telemetry import StrandsTelemetry

from otel_loopguard import install

telemetry = StrandsTelemetry().setup_otlp_exporter()
install(telemetry.tracer_provider)
