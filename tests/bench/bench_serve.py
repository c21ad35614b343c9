"""Prints what the real scorer costs: the command in a process of its own, driven over the loopback.

Run: `python tests/bench/bench_serve.py`; 2 to 3 minutes. Requests of 512 spans over connections that are kept, each
answered when its spans are on disk. CPU is that of the server's whole process, user and system, from the kernel; it is
set against parsing the same bytes with protobuf's own types and reading what is wanted, in this process and in turn
with it: a ratio of 1 is as many spans a CPU second. Only ratios are worth comparing. Goals: 0.8 for both streams; p99
of an export under 50 ms at half of the load that saturates; under 150 MB a million open spans; a flat cost per span.
"""

from __future__ import annotations

import argparse
import http.client
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Final, Protocol

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.streams import SPANS, TRACE_SPANS, parse, renamed, request
from tests.scorer.serving import Scorer

OPEN: Final = {"grace_s": "3600", "idle_s": "86400", "max_age_s": "604800", "verdict_file": ""}
"""Nothing is judged while it is measured what receiving costs."""
JUDGED: Final = {"idle_s": "0.5", "grace_s": "0", "verdict_file": ""}
"""All is judged as soon as it may be."""
_ROUNDS: Final = 5
_PARSED: Final = 20
"""Requests that are parsed for comparison in each round."""
_PACED: Final = 500
"""Requests by which the time of an export is measured."""
_CONNECTIONS: Final = 4
_HEADERS: Final = {"Content-Type": "application/x-protobuf"}
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_SAMPLE: Final = 20_480
"""Spans by which the cost at some size of the database is measured."""
_FILLED: Final = 500_000
"""Spans by which the database is filled, before they are waited for."""


class Served(Protocol):
    """Whatever takes OTLP/HTTP."""

    http: str
    """HOST:PORT."""


class Load:
    """Requests of one stream, each with traces of its own.

    Args:
        server: that gets them.
        stream: of `streams.STREAMS`.
    """

    def __init__(self, server: Served, stream: str) -> None:
        self._server = server
        self._body = request(stream).SerializeToString()
        self._numbers = count(1)
        self.late: list[float] = []
        """Seconds by which this process was woken late: what is slower than that is the scorer's part."""
        self.bytes_a_span: Final = len(self._body) / SPANS

    def body(self) -> bytes:
        """The next request."""
        return renamed(self._body, next(self._numbers))

    def send(self, spans: int, *, every_s: float = 0.0) -> list[float]:
        """Sends requests, one after the other on each connection.

        Args:
            spans: of all of them together, at least.
            every_s: when each is due after the one before; 0: as soon as a connection is free.

        Returns:
            Seconds from when each was due, or begun, to its answer.
        """
        begun = time.perf_counter()
        due = iter([begun + number * every_s for number in range(-(-spans // SPANS))])
        taken: list[float] = []
        lock = threading.Lock()

        def work() -> None:
            host, _, port = self._server.http.rpartition(":")
            connection = http.client.HTTPConnection(host, int(port))
            while True:
                with lock:
                    at = next(due, None)
                    if at is None:
                        break
                    body = self.body()
                if at > time.perf_counter():
                    time.sleep(max(0.0, at - time.perf_counter()))
                    self.late.append(time.perf_counter() - at)
                at = at if every_s else time.perf_counter()
                connection.request("POST", "/v1/traces", body, _HEADERS)
                answer = connection.getresponse()
                answer.read()
                if answer.status != http.HTTPStatus.OK:
                    break
                taken.append(time.perf_counter() - at)
            connection.close()

        threads = [threading.Thread(target=work) for _ in range(_CONNECTIONS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if len(taken) != -(-spans // SPANS):
            message = "a request was refused: nothing was measured"
            raise RuntimeError(message)
        return taken


def cpu_s(pid: int) -> float:
    """CPU seconds of a process so far, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def rss_mb(pid: int) -> float:
    """Memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")) / 1024


def parsed_us(load: Load) -> float:
    """CPU microseconds a span of parsing and reading, the best of some requests."""
    best = 1e9
    for body in [load.body() for _ in range(_PARSED)]:
        begun = time.thread_time()
        parse(body)
        best = min(best, time.thread_time() - begun)
    return best / SPANS * 1e6


def quantiles(taken: Sequence[float]) -> str:
    """Median, and what 10 and 1 in a hundred are above."""
    found = sorted(taken)
    return ", ".join(f"p{part} {found[len(found) * part // 100] * 1e3:.1f} ms" for part in (50, 90, 99))


def received(folder: Path, stream: str, spans: int) -> None:
    """Receiving alone: the ratio, and how long an export takes at half of the load."""
    with Scorer(folder / stream, **OPEN) as scorer:
        load = Load(scorer, stream)
        load.send(spans // 10)
        costs, ratios, rates = [], [], []
        for _ in range(_ROUNDS):
            base = parsed_us(load)
            cpu, wall = cpu_s(scorer.pid), time.perf_counter()
            sent = len(load.send(spans)) * SPANS
            rates.append(sent / (time.perf_counter() - wall))
            costs.append((cpu_s(scorer.pid) - cpu) / sent * 1e6)
            ratios.append(base / costs[-1])
        rate = statistics.median(rates)
        print(
            f"{stream}: ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}); "
            f"{statistics.median(costs):.1f} us of CPU a span of {load.bytes_a_span:.0f} bytes, received and on disk; "
            f"{rate:,.0f} spans/s over {_CONNECTIONS} connections"
        )
        taken = load.send(_PACED * SPANS, every_s=2 * SPANS / rate)
        print(
            f"{stream}: an export at half of that load, of {_PACED}: {quantiles(taken)}; "
            f"meanwhile this process was woken late by {quantiles(load.late)}"
        )


def opened(folder: Path, spans: int) -> None:
    """What a million open spans would take, scaled from fewer."""
    with Scorer(folder / "open", **OPEN) as scorer:
        load = Load(scorer, "tool")
        idle = rss_mb(scorer.pid)
        load.send(spans // 2)
        half = rss_mb(scorer.pid)
        load.send(spans // 2)
        full = rss_mb(scorer.pid)
        print(
            f"memory: {idle:.0f} MB idle, {full - idle:.0f} MB more with {spans:,} spans open, {TRACE_SPANS} a trace; "
            f"scaled to a million: {(full - idle) * 1e6 / spans:.0f} MB by all of them, "
            f"{(full - half) * 2e6 / spans:.0f} MB by the second half"
        )


def stored(folder: Path, sizes: Sequence[int]) -> None:
    """Cost of a span, received and judged, with so many judged spans in the database."""
    with Scorer(folder / "stored", **JUDGED) as scorer:
        load = Load(scorer, "tool")
        held = 0
        first = 0.0
        for size in sizes:
            while size - held > _SAMPLE:
                # Not all at once: the scorer refuses what comes quicker than it is judged for long.
                held += len(load.send(min(_FILLED, size - held - _SAMPLE // 2))) * SPANS
                scorer.settled()
            base = parsed_us(load)
            cpu = cpu_s(scorer.pid)
            sent = len(load.send(_SAMPLE)) * SPANS
            scorer.settled()
            cost = (cpu_s(scorer.pid) - cpu) / sent * 1e6
            held += sent
            first = first or cost / base
            print(
                f"stored: about {size:,} spans: {cost:.1f} us of CPU a span until its run is judged, "
                f"{base / cost:.2f} of parsing; {cost / base / first:.2f} times as much as first"
            )


def main() -> None:
    """Prints all measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spans", type=int, default=51_200, help="spans of one round")
    parser.add_argument("--open", type=int, default=400_000, help="open spans that memory is measured with")
    parser.add_argument("--stored", type=int, default=100_000, help="judged spans at most, from 10,000 on by tens")
    parser.add_argument("--only", choices=("tool", "mixed", "open", "stored"), help="one part of it")
    parser.add_argument("--folder", type=Path, help="where; a folder for temporary files otherwise")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bench-serve-", dir=options.folder))
    sizes = [10**power for power in range(4, 8) if 10**power <= options.stored]
    try:
        for part in (options.only,) if options.only else ("tool", "mixed", "open", "stored"):
            place = folder / part
            place.mkdir()
            if part == "open":
                opened(place, options.open)
            elif part == "stored":
                stored(place, sizes)
            else:
                received(place, part, options.spans)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
