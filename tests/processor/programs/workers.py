"""Worker processes that make a few runs each and go. Arguments: file, way of starting, workers, runs of each.

Ways: `spawn`, `forkserver` and `fork` of multiprocessing, and `recycled`: a parent that forks, as pre-forking task
queues do, where every other worker ends without any shutdown.
"""

from __future__ import annotations

import multiprocessing
import os
import sys

from tests.processor.programs.recording import provider, run

HERE = None if multiprocessing.parent_process() and "spawn" in sys.argv else provider()
"""Made in the parent, and in the server that forks, before there are children; anew where they are spawned."""


def work(runs: int) -> None:
    """One worker."""
    tracer = (HERE or provider()).get_tracer("workers")
    for _ in range(runs):
        run(tracer, 3)


def recycle(workers: int, runs: int) -> None:
    """Forks one worker after the other; the parent makes calls of its own in between."""
    for number in range(workers):
        child = os.fork()
        if child == 0:
            work(runs)
            if number % 2:
                sys.exit(0)
            os._exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            sys.exit(1)
        work(1)


def main() -> None:
    """Ends with 1 where a worker did not end well."""
    way, workers, runs = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    if way == "recycled":
        recycle(workers, runs)
        return
    multiprocessing.set_start_method(way)
    if way == "forkserver":
        multiprocessing.set_forkserver_preload(["__main__"])
    processes = [multiprocessing.Process(target=work, args=(runs,)) for _ in range(workers)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    sys.exit(any(process.exitcode for process in processes))


if __name__ == "__main__":
    main()
