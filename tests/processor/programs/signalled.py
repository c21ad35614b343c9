"""Calls that a signal handler makes in the midst of others. Arguments: file, signals."""

from __future__ import annotations

import signal
import sys

from tests.processor.programs.recording import AGENT, below, call, provider


def main() -> None:
    """Makes calls until so many signals came."""
    here = provider()
    tracer = here.get_tracer("signalled")
    agent = tracer.start_span("invoke_agent helper", below(None), attributes=AGENT)
    left = int(sys.argv[2])

    def handle(*_: object) -> None:
        nonlocal left
        left -= 1
        call(tracer, agent)

    signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.0007, 0.0007)
    while left > 0:
        agent.set_attribute(f"turn.{left % 100}", left)
        agent.add_event("exception", {"exception.message": "text"})
        call(tracer, agent)
    signal.setitimer(signal.ITIMER_REAL, 0)
    agent.end()
    here.shutdown()


main()
