"""Calls that the garbage collector ends, wherever in our code it comes. Arguments: file, calls."""

from __future__ import annotations

import gc
import sys

from opentelemetry import trace

from tests.processor.programs.recording import AGENT, below, call, provider, start_call


class Stream:
    """Holds a span, and itself: only the collector ends it, as with a generator that nobody reads to its end."""

    def __init__(self, span: trace.Span) -> None:
        self.span, self.itself = span, self

    def __del__(self) -> None:
        """Ends the span."""
        self.span.end()


def main() -> None:
    """Collects at every few allocations."""
    here = provider()
    tracer = here.get_tracer("collected")
    agent = tracer.start_span("invoke_agent helper", below(None), attributes=AGENT)
    gc.set_threshold(7, 2, 2)
    for _ in range(int(sys.argv[2])):
        Stream(start_call(tracer, agent))
        call(tracer, agent)
    gc.set_threshold(700)
    gc.collect()
    agent.end()
    here.shutdown()


main()
