"""Greenlets in a process that gevent patched before all else. Arguments: file, greenlets, calls of each."""

from __future__ import annotations

from gevent import monkey

monkey.patch_all()

import os  # noqa: E402 - after the patch, as applications have it
import sys  # noqa: E402

import gevent  # noqa: E402

from tests.processor.programs.recording import AGENT, TOOL, below, call, provider, run  # noqa: E402


def main() -> None:
    """Lets greenlets take turns inside their spans, then forks."""
    here = provider()
    tracer = here.get_tracer("greenlets")
    shared = tracer.start_span("invoke_agent helper", below(None), attributes=AGENT)

    def work(_: int) -> None:
        with tracer.start_as_current_span("invoke_agent helper", below(None), attributes=AGENT):
            for _ in range(int(sys.argv[3])):
                with tracer.start_as_current_span("execute_tool lookup", attributes=TOOL):
                    gevent.sleep(0)
                call(tracer, shared)
                gevent.sleep(0)

    gevent.joinall([gevent.spawn(work, which) for which in range(int(sys.argv[2]))], raise_error=True)
    child = os.fork()
    if child == 0:
        call(tracer, shared)
        run(tracer, 3)
        os._exit(0)
    os.waitpid(child, 0)
    shared.end()
    here.shutdown()


main()
