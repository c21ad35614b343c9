"""Threads that make calls in traces they share, and that fork in between. Arguments: file, threads, spans, forks."""

from __future__ import annotations

import os
import sys
import threading
import warnings

from opentelemetry import trace

from tests.processor.programs.recording import AGENT, below, call, provider, run, start_call

# Python 3.12 and newer say that a fork among threads may hang, which is what this looks for.
warnings.filterwarnings("ignore", category=DeprecationWarning)


def main() -> None:
    """Ends with the number of children that did not end well."""
    number, spans, forks = (int(argument) for argument in sys.argv[2:])
    here = provider()
    tracer = here.get_tracer("forking")
    agents = [tracer.start_span("invoke_agent helper", below(None), attributes=AGENT) for _ in range(8)]
    bad: list[int] = []

    def work(which: int) -> None:
        agent = agents[which % len(agents)]
        for at in range(spans):
            if which < forks and at == spans // 2:
                fork(agent)
            else:
                call(tracer, agent)

    def fork(agent: trace.Span) -> None:
        span = start_call(tracer, agent)
        child = os.fork()
        if child == 0:
            # Of all threads only this one is here.
            try:
                span.end()
                for _ in range(20):
                    call(tracer, agent)
                run(tracer, 3)
                agent.end()
                here.shutdown()
            except BaseException:  # noqa: BLE001 - the test wants to see that there was one
                os._exit(1)
            os._exit(0)
        span.end()
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            bad.append(child)

    threads = [threading.Thread(target=work, args=(which,)) for which in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for agent in agents:
        agent.end()
    here.shutdown()
    sys.exit(len(bad))


main()
