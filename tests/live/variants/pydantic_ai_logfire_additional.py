"""Pydantic AI with Logfire, ours among its additional processors, where `_on_ending` is not passed on."""

import logfire

from otel_loopguard import LoopGuardSpanProcessor

logfire.configure(send_to_logfire=False, additional_span_processors=[LoopGuardSpanProcessor()])
logfire.instrument_pydantic_ai()
