"""What keeping spans on disk costs: spans a second, latency of a commit, recovery, bytes a span.

Run as `python tests/bench/bench_store.py`; `--spans` and `--folder` say how many and on which disk. Only the ratios
are worth comparing: to a file that the same bytes are written to and flushed as often, in turn with the store.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[2]))

import msgspec
import zstandard

from otel_loopguard.scorer.folder import DATABASE, WAL
from otel_loopguard.scorer.records import Arrival, Settlement
from otel_loopguard.scorer.store import Store
from tests.captures.summary import POLICY, SPANS
from tests.replaying import facts_of
from tests.scorer.storing import judged

_TRACE_SPANS: Final = 10
_REQUEST_TRACES: Final = 51
"""Some 512 spans a request, as the collector sends them."""
_OPEN_REQUESTS: Final = 8
_ROUNDS: Final = 3


def requests(spans: int) -> list[list[Arrival]]:
    """Requests of arrivals whose facts are those of captured spans."""
    facts = [
        msgspec.structs.replace(one, call=one.call and msgspec.structs.replace(one.call, likenesses=None))
        for path in sorted(SPANS.glob("*.jsonl"))
        for one in facts_of(path, POLICY)
    ]
    starts = range(0, len(facts) - _TRACE_SPANS, _TRACE_SPANS)
    blocks = [msgspec.msgpack.encode(facts[start : start + _TRACE_SPANS]) for start in starts]
    made = [
        Arrival(
            trace_id=os.urandom(16).hex(),
            received_ns=time.time_ns(),
            spans=_TRACE_SPANS,
            names=(f"r:{number:016x}",),
            facts=blocks[number % len(blocks)],
        )
        for number in range(spans // _TRACE_SPANS)
    ]
    return [made[start : start + _REQUEST_TRACES] for start in range(0, len(made), _REQUEST_TRACES)]


def appended(store: Store, asked: Sequence[Sequence[Arrival]]) -> tuple[float, float]:
    """Wall and CPU seconds of keeping all requests, a few of them open at a time."""
    wall, cpu = time.perf_counter(), time.process_time()
    futures: list[Future[tuple[int, ...]]] = []
    for number, request in enumerate(asked):
        if number >= _OPEN_REQUESTS:
            futures[number - _OPEN_REQUESTS].result()
        futures.append(store.append(request))
    for future in futures[-_OPEN_REQUESTS:]:
        future.result()
    return time.perf_counter() - wall, time.process_time() - cpu


def flushed(folder: Path, asked: Sequence[Sequence[Arrival]], at_once: int, *, packed: bool) -> tuple[float, float]:
    """Wall and CPU seconds of a file alone, flushed after as many requests as the store committed together."""
    pack = zstandard.ZstdCompressor(level=1).compress if packed else bytes
    wall, cpu = time.perf_counter(), time.process_time()
    with (folder / "file").open("wb", buffering=0) as file:
        for start in range(0, len(asked), at_once):
            some = asked[start : start + at_once]
            file.write(b"".join(pack(one.facts) for request in some for one in request))
            os.fdatasync(file.fileno())
    return time.perf_counter() - wall, time.process_time() - cpu


def paced(store: Store, asked: Sequence[Sequence[Arrival]], every_s: float) -> list[float]:
    """Seconds from each request to its answer, at a steady pace."""
    taken: list[float] = []

    def note(begun: float, _: Future[tuple[int, ...]]) -> None:
        taken.append(time.perf_counter() - begun)

    futures = []
    due = time.perf_counter()
    for request in asked:
        due += every_s
        time.sleep(max(0.0, due - time.perf_counter()))
        begun = time.perf_counter()
        future = store.append(request)
        future.add_done_callback(partial(note, begun))
        futures.append(future)
    for future in futures:
        future.result()
    return sorted(taken)


def settled(store: Store, traces: int) -> tuple[float, float, int]:
    """Wall and CPU seconds of settling so many traces, each as a group of its own, and how many there were."""
    encode = msgspec.msgpack.encode
    waiting = [one for one, _ in zip(store.pending(), range(traces), strict=False)]
    wall, cpu = time.perf_counter(), time.process_time()
    future = None
    for one in waiting:
        number = store.next_group()
        written = Settlement(
            group=number,
            rows=(one.row,),
            names=(one.trace_id, *one.names),
            facts=encode(store.read([one.row])),
            spans=one.spans,
            runs=(judged(f"{number}", judged_ns=number, service="s", release="1"),),
            totals={("runs_total", (("outcome", "clean"), ("service", "s"))): 1, ("tool_calls_total", ()): 7},
            judged_ns=number,
        )
        future = store.settle(written)
    if future is not None:
        future.result()
    return time.perf_counter() - wall, time.process_time() - cpu, len(waiting)


def main() -> None:
    """Prints all measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spans", type=int, default=200_000, help="spans of one round")
    parser.add_argument("--recovered", type=int, default=1_000_000, help="spans that are read back")
    parser.add_argument("--folder", type=Path, help="where; a folder for temporary files otherwise")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bench-store-", dir=options.folder))
    try:
        measure(folder, options.spans, options.recovered)
    finally:
        shutil.rmtree(folder)


def measure(folder: Path, spans: int, recovered: int) -> None:
    """Runs each part in turn."""
    asked = requests(spans)
    raw = sum(len(one.facts) for request in asked for one in request)
    size = _REQUEST_TRACES * _TRACE_SPANS
    print(f"{spans:,} spans a round, {len(asked)} requests of {size}, {raw / spans:.0f} bytes of facts a span")
    rates = []
    for turn in range(_ROUNDS):
        store = Store(folder / f"data{turn}")
        wall, cpu = appended(store, asked)
        commits = store.counts.commits
        at_once = max(1, round(len(asked) / commits))
        file_wall, _ = flushed(folder, asked, at_once, packed=True)
        raw_wall, _ = flushed(folder, asked, at_once, packed=False)
        rates.append(wall)
        print(
            f"append: {spans / wall:,.0f} spans/s, {spans / cpu:,.0f} a CPU second, "
            f"{spans / wall / _TRACE_SPANS:,.0f} rows/s, {at_once} requests a commit; "
            f"{file_wall / wall:.2f} of a flushed file, {raw_wall / wall:.2f} of one with facts as they are"
        )
        store.close()
    size = (folder / "data0" / DATABASE).stat().st_size
    print(f"on disk: {size / spans:.0f} bytes a pending span, {size / raw:.2f} of its facts")
    store = Store(folder / "data0")
    taken = paced(store, asked[: len(asked) // 2], 2 * min(rates) / len(asked))
    quantiles = [taken[min(len(taken) - 1, int(len(taken) * part))] * 1000 for part in (0.5, 0.95, 0.99)]
    print("answer at half that load: median {:.1f} ms, p95 {:.1f} ms, p99 {:.1f} ms".format(*quantiles))
    wall, cpu, groups = settled(store, 5000)
    print(f"settle, one trace a group: {groups / wall:,.0f} groups/s, {groups / cpu:,.0f} a CPU second")
    log = (folder / "data0" / WAL).stat().st_size
    print(f"log: {log / 2**20:.0f} MiB")
    store.close()
    recovery(folder, asked, recovered)


def recovery(folder: Path, asked: Sequence[Sequence[Arrival]], spans: int) -> None:
    """Reads many spans back after the process ended."""
    store = Store(folder / "many")
    for _ in range(max(1, round(spans / (len(asked) * _REQUEST_TRACES * _TRACE_SPANS)))):
        appended(store, asked)
    store.close()
    taken = []
    for _ in range(_ROUNDS):
        begun = time.perf_counter()
        store = Store(folder / "many")
        count = sum(one.spans for one in store.pending())
        taken.append(time.perf_counter() - begun)
        store.close()
    print(f"recovery: {count:,} spans in {statistics.median(taken):.2f} s")


if __name__ == "__main__":
    main()
