"""Prints what the scorer spends on a span after decoding it: facts and rows, the index, judging; as ratios to decoding.

Run as `python tests/bench/bench_judge.py`. For each stream the same requests are decoded, taken in and judged on a
store in memory, so that the disk costs nothing; CPU time, best of some rounds. Streams: tool spans as the span
processor leaves them (with digests, without content); the same with model and HTTP spans around them, nine of ten
spans; and tool spans that still hold content. A ratio to decoding says something; a figure alone does not.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from pathlib import Path
from time import process_time_ns
from typing import Final

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

sys.path.insert(0, str(Path(__file__).parents[2]))

from otel_loopguard import policy
from otel_loopguard.digest import Key, Keyring
from otel_loopguard.processor.span_processor import LoopGuardSpanProcessor
from otel_loopguard.scorer.decode import Encoding, decode
from otel_loopguard.scorer.groups import NS_PER_S, Limits
from otel_loopguard.scorer.intake import IntakeQueue
from otel_loopguard.scorer.judge import Judge
from otel_loopguard.scorer.records import Arrival, Pending, Settlement, StoredGroup
from tests.scorer.memory_store import MemoryStore

RUNS: Final = 400
CALLS: Final = 20
REQUEST_SPANS: Final = 512
ROUNDS: Final = 5
KEY: Final = Key(key_id="bench", secret=bytes(range(32)))
_PROMPT: Final = "Look at the orders of this customer and say what is left of them. " * 30


class Fast(MemoryStore):
    """The store of the tests without its checks, which look at everything that was ever kept."""

    def settle(self, settlement: Settlement) -> Future[None]:
        """Takes it as it is."""
        del settlement
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def groups_with(self, names: Collection[str]) -> list[StoredGroup]:
        """None is ever judged twice here."""
        del names
        return []


def recorded(*, around: bool, digested: bool) -> list[ReadableSpan]:
    """Spans of some runs, in the order in which they ended."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource.create({"service.name": "bench", "service.version": "1.0"}))
    if digested:
        provider.add_span_processor(LoopGuardSpanProcessor(keys=Keyring(KEY)))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("bench")
    for run in range(RUNS):
        with tracer.start_as_current_span(
            "invoke_agent helper", attributes={"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "helper"}
        ):
            for call in range(CALLS // 10 if around else CALLS):
                for _ in range(8 if around else 0):
                    with tracer.start_as_current_span(
                        "POST", attributes={"http.request.method": "POST", "server.address": "model", "body": _PROMPT}
                    ):
                        pass
                if around:
                    chat = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.prompt": _PROMPT}
                    with tracer.start_as_current_span("chat m", attributes=chat):
                        pass
                attributes = {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": f"lookup_{call % 5}",
                    "gen_ai.tool.call.id": f"call_{run}_{call}",
                    "gen_ai.tool.call.arguments": f'{{"order_id": "A{call}", "include_items": true, "limit": 20}}',
                    "gen_ai.tool.call.result": f'{{"id": "A{call}", "state": "shipped", "items": [{run}, 1, 2]}}',
                }
                with tracer.start_as_current_span("execute_tool lookup", attributes=attributes):
                    pass
    provider.force_flush()
    return list(exporter.get_finished_spans())


def requests(spans: Sequence[ReadableSpan]) -> list[bytes]:
    """The bodies of export requests."""
    parts = [spans[first : first + REQUEST_SPANS] for first in range(0, len(spans), REQUEST_SPANS)]
    return [encode_spans(part).SerializeToString() for part in parts]


def best(step: Callable[[], object], spans: int) -> float:
    """Microseconds of CPU a span in the best of the rounds."""
    found = []
    for _ in range(ROUNDS):
        gc.collect()
        begun = process_time_ns()
        step()
        found.append((process_time_ns() - begun) / spans / 1000)
    return min(found)


class Stream:
    """One stream, and the steps that its spans go through."""

    def __init__(self, spans: Sequence[ReadableSpan]) -> None:
        self.spans = len(spans)
        self.bodies = requests(spans)
        self.decoded = [decode(body, Encoding.PROTOBUF).spans for body in self.bodies]
        self.policy = policy.default()
        self.now_ns = 0
        self.arrivals: list[Arrival] = []

    def decode(self) -> None:
        """Bytes to spans."""
        for body in self.bodies:
            decode(body, Encoding.PROTOBUF)

    def digest(self) -> None:
        """Spans to rows."""
        intake = IntakeQueue(MemoryStore(), self.policy, Keyring(KEY), learn=lambda _: None)
        self.arrivals = [arrival for spans in self.decoded for arrival in intake.digest(spans)[0]]

    def judged(self) -> Judge:
        """A judge that knows of all rows."""
        store = Fast()
        store.append(self.arrivals).result()
        judge = Judge(store, self.policy, limits=Limits(), clock=lambda: self.now_ns)
        pendings: list[Pending] = list(store.pending())
        self.now_ns = pendings[-1].received_ns
        judge.learn(pendings)
        return judge

    def index(self) -> None:
        """Rows into the index."""
        self.judged().settle_due()

    def judge(self) -> None:
        """Rows into the index, then all of them judged."""
        judge = self.judged()
        self.now_ns += 100 * NS_PER_S
        while judge.settle_due():
            pass


def main() -> None:
    """Prints one line a stream."""
    streams = {
        "tool spans, digested": recorded(around=False, digested=True),
        "mixed, digested": recorded(around=True, digested=True),
        "tool spans, raw": recorded(around=False, digested=False),
    }
    columns = "".join(f"{name:>9}" for name in ("decode", "digest", "index", "judge", "bytes"))
    print(f"{'us of CPU a span':24}{columns}{'(all - decode)/decode':>24}")
    for name, spans in streams.items():
        stream = Stream(spans)
        decoding, digesting = best(stream.decode, stream.spans), best(stream.digest, stream.spans)
        indexing = best(stream.index, stream.spans)
        judging = best(stream.judge, stream.spans) - indexing
        size = sum(len(arrival.facts) for arrival in stream.arrivals) / stream.spans
        ratio = (digesting + indexing + judging) / decoding
        figures = f"{decoding:9.2f}{digesting:9.2f}{indexing:9.2f}{judging:9.2f}{size:9.0f}{ratio:24.2f}"
        print(f"{name:24}{figures}")


if __name__ == "__main__":
    main()
