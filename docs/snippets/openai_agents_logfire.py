"""OpenAI Agents SDK with Logfire, its spans sent by OTLP."""

import logfire

from otel_loopguard import install

logfire.configure(send_to_logfire=False)  # it sends to OTEL_EXPORTER_OTLP_ENDPOINT
logfire.instrument_openai_agents()
install()
