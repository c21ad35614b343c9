"""Prints what the real scorer costs beside the real OpenTelemetry Collector, which only passes the same spans on.

Run: `LOOPGUARD_OTELCOL=…/otelcol python tests/bench/bench_collector.py`, with a collector that `.ci/run services` has
built; 5 minutes. Each gets the same requests of 512 spans, unpacked, by OTLP/HTTP over four kept connections, in turn
with the others. CPU is that of the whole process, user and system, from the kernel, until all has left it. The
collector passes on to a process that reads and drops, with its receiver otlp, and

- cheapest: exporter otlp_http without queue and without compression, no processor; logs and metrics off;
- defaults: the same with the exporter's defaults, which are a queue in memory and gzip;
- durable: `collector-config/gateway.yaml`, whose queue is on disk, each request synced, and which drops and cleans.

The scorer answers each request when it is on disk: once with nothing judged meanwhile, once until every run is judged
and counted. Only ratios are worth comparing: above 1 the scorer takes more spans a CPU second than that collector
passes on. Goal: above 1, received and on disk, on both streams.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.bench_serve import JUDGED, OPEN, Load, cpu_s
from tests.bench.streams import SPANS, STREAMS
from tests.collector.collectors import BINARY, CONFIGURATIONS, PATIENCE_S, Collector, running, wait_until
from tests.scorer.serving import Scorer

_ROUNDS: Final = int(os.environ.get("LOOPGUARD_BENCH_ROUNDS", "5"))
_SINK: Final = "--sink"
_CONFIGURATION: Final = """\
extensions:
  health_check:
    endpoint: ${{env:LOOPGUARD_HEALTH}}
receivers:
  otlp:
    protocols:
      http:
        endpoint: ${{env:LOOPGUARD_LISTEN_HTTP}}
exporters:
  otlp_http:
    endpoint: ${{env:LOOPGUARD_SEND_TO}}
{exporter}
service:
  extensions: [health_check]
  telemetry:
    metrics:
      level: none
    logs:
      level: error
  pipelines:
    traces:
      receivers: [otlp]
      exporters: [otlp_http]
"""
_EXPORTERS: Final[Mapping[str, str]] = {
    "cheapest": "    compression: none\n    sending_queue:\n      enabled: false",
    "defaults": "",
}
_DURABLE: Final = "durable"


class _Passing:
    """A collector as something that a load is sent to."""

    def __init__(self, collector: Collector) -> None:
        self.http = collector.endpoint.removeprefix("http://")


class _Dropping:
    """Takes requests of known length and forgets them; whoever gets anything is told how many they were."""

    def __init__(self) -> None:
        self._taken = 0

    async def serve(self) -> None:
        """Says on which port, and goes on for ever."""
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=2**22)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                said = b"%d" % self._taken if head.startswith(b"get") else b""
                if head.startswith(b"post"):
                    await reader.readexactly(int(head.partition(b"content-length:")[2].split(b"\r\n", 1)[0]))
                    self._taken += 1
                kind = b"application/x-protobuf"
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n%b" % (kind, len(said), said)
                )
        writer.close()


def _taken(port: int) -> int:
    """How many requests have come to the other end of the collectors."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=PATIENCE_S) as answer:
        return int(answer.read())


def _passed(load: Load, pid: int, spans: int, port: int) -> float:
    """CPU microseconds a span of a collector, until all was passed on."""
    before, came = cpu_s(pid), _taken(port)
    sent = len(load.send(spans))
    wait_until(lambda: _taken(port) >= came + sent, "all is passed on")
    return (cpu_s(pid) - before) / (sent * SPANS) * 1e6


def _scored(load: Load, pid: int, spans: int, settled: Callable[[], None]) -> float:
    """CPU microseconds a span of a scorer, until it is settled."""
    before = cpu_s(pid)
    sent = len(load.send(spans)) * SPANS
    settled()
    return (cpu_s(pid) - before) / sent * 1e6


def _nothing() -> None:
    """Waits for nothing."""


def _configurations(folder: Path) -> dict[str, Path]:
    """The collectors' files, by name."""
    found = {}
    for name, exporter in _EXPORTERS.items():
        found[name] = folder / f"{name}.yaml"
        found[name].write_text(_CONFIGURATION.format(exporter=exporter), encoding="utf-8")
    return {**found, _DURABLE: CONFIGURATIONS / "gateway.yaml"}


def compared(folder: Path, stream: str, spans: int, port: int) -> None:
    """Prints what each costs on one stream, and the ratios."""
    theirs = {f"collector, {name}": file for name, file in _configurations(folder).items()}
    ours = {"scorer, on disk": OPEN, "scorer, judged": JUDGED}
    runs: dict[str, Callable[[], float]] = {}
    costs: dict[str, list[float]] = {name: [] for name in (*theirs, *ours)}
    with ExitStack() as stack:
        for name in costs:
            place = folder / stream / name
            place.mkdir(parents=True)
            if name in theirs:
                collector = stack.enter_context(running(Collector(theirs[name], place, f"http://127.0.0.1:{port}")))
                runs[name] = partial(_passed, Load(_Passing(collector), stream), collector.pid, spans, port)
            else:
                scorer = stack.enter_context(Scorer(place, **ours[name]))
                settled = scorer.settled if ours[name] is JUDGED else _nothing
                runs[name] = partial(_scored, Load(scorer, stream), scorer.pid, spans, settled)
            runs[name]()
        for _ in range(_ROUNDS):
            for name, run in runs.items():
                costs[name].append(run())
    for name, found in costs.items():
        middle = statistics.median(found)
        print(f"{stream}: {name}: {middle:.1f} us of CPU a span, {1e6 / middle:,.0f} spans a CPU second")
    for mine in ours:
        for other in theirs:
            ratios = [their / our for their, our in zip(costs[other], costs[mine], strict=True)]
            print(
                f"{stream}: {mine}, against {other}: ratio {statistics.median(ratios):.2f} "
                f"({min(ratios):.2f} to {max(ratios):.2f})"
            )


def main() -> None:
    """Prints all measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spans", type=int, default=102_400, help="spans of one round")
    parser.add_argument(_SINK, action="store_true", help="be the process that reads and drops")
    options = parser.parse_args()
    if options.sink:
        asyncio.run(_Dropping().serve())
        return
    if not os.environ.get(BINARY):
        print(f"set {BINARY} to a collector built from tests/collector/builder.yaml: .ci/run services builds one")
        return
    with tempfile.TemporaryDirectory(prefix="bench-collector-") as folder:
        sink = subprocess.Popen([sys.executable, __file__, _SINK], stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own
        try:
            assert sink.stdout is not None
            port = int(sink.stdout.readline())
            for stream in STREAMS:
                compared(Path(folder), stream, options.spans, port)
        finally:
            sink.kill()
            sink.communicate()


if __name__ == "__main__":
    main()
