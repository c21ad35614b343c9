"""Prints what the span processor adds to a span, against a bare span of the SDK in the same run.

Goals: a span that is no agent's at most +0.15; a tool span with arguments and a result of 500 bytes at most +1.0
(wished: +0.5), whatever the length of the run and however many runs were seen; p99 at most 5 times the median.
Ratios inside one output mean something; absolute figures do not.
"""

from __future__ import annotations

import gc
import hmac
import json
import os
import random
import statistics
import tracemalloc
from collections.abc import Callable
from time import perf_counter_ns, thread_time_ns
from typing import Final

import msgspec
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

from otel_loopguard.digest import Key
from otel_loopguard.processor.span_processor import LoopGuardSpanProcessor

SPANS: Final = 4_000
ROUNDS: Final = int(os.environ.get("LOOPGUARD_BENCH_ROUNDS", "5"))
LENGTHS: Final = (0, 10, 100, 4_000)
"""Calls of one agent in one trace; 0 for spans that are roots of traces of their own."""
KEY: Final = Key(key_id="bench", secret=bytes(range(32)))
Attributes = dict[str, object]


def value_of(size: int, seed: int) -> str:
    """JSON text of an object with some nesting, of about so many bytes."""
    rng = random.Random(seed)
    made: dict[str, object] = {"id": seed}
    while len(json.dumps(made)) < size - 24:
        made[f"field_{len(made)}"] = rng.choice(
            [
                f"v{rng.randrange(10**9)}",
                rng.randrange(10**6),
                True,
                None,
                [1, 2, 3],
                {"id": f"A{rng.randrange(99999)}"},
            ]
        )
    return json.dumps(made)


ARGUMENTS: Final = [value_of(500, n) for n in range(256)]
RESULTS: Final = [value_of(500, 1_000 + n) for n in range(256)]
SMALL: Final = [json.dumps({"order_id": f"A{n}", "include_items": True}) for n in range(256)]
PROSE: Final = [" ".join(f"word{(n * 7 + k) % 400}" for k in range(70)) for n in range(256)]


def tool(arguments: list[str], results: list[str], *, same: bool = False) -> Callable[[int], Attributes]:
    """Attributes of a tool span by number."""

    def of(number: int) -> Attributes:
        place = 0 if same else number % 256
        return {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "lookup_order",
            "gen_ai.tool.call.id": f"call_{number}",
            "gen_ai.tool.call.arguments": arguments[place],
            "gen_ai.tool.call.result": results[place],
        }

    return of


def http(number: int) -> Attributes:
    """Attributes of a span of no agent."""
    return {
        "http.request.method": "GET",
        "url.path": "/orders",
        "http.response.status_code": 200,
        "server.address": "orders",
        "number": number,
    }


SHAPES: Final[dict[str, Callable[[int], Attributes]]] = {
    "no agent's": http,
    "tool, small": tool(SMALL, SMALL),
    "tool, 500 B + 500 B": tool(ARGUMENTS, RESULTS),
    "the same again": tool(ARGUMENTS, RESULTS, same=True),
    "500 B of prose": tool(SMALL, PROSE),
}


def times(
    provider: TracerProvider,
    attributes: Callable[[int], Attributes],
    calls: int,
    clock: Callable[[], int] = perf_counter_ns,
) -> list[int]:
    """Nanoseconds of each of `SPANS` spans, in traces of so many calls under one agent span; 0: each its own trace."""
    tracer = provider.get_tracer("bench")
    spent: list[int] = []
    made = [attributes(number) for number in range(SPANS)]
    for first in range(0, SPANS, calls or SPANS):
        root = tracer.start_span("invoke_agent a", Context(), attributes={"gen_ai.operation.name": "invoke_agent"})
        context = trace.set_span_in_context(root, Context()) if calls else Context()
        for one in made[first : first + (calls or SPANS)]:
            began = clock()
            span = tracer.start_span("execute_tool lookup_order", context)
            for key, value in one.items():
                span.set_attribute(key, value)  # type: ignore[arg-type]
            span.end()
            spent.append(clock() - began)
        root.end()
    return spent


def least(span_ns: float) -> float:
    """What no way of digesting can go below: both texts decoded, encoded with sorted keys, and hashed under a key."""
    decode, encode = msgspec.json.Decoder().decode, msgspec.json.Encoder(order="sorted").encode
    best = float("inf")
    for _ in range(ROUNDS):
        began = perf_counter_ns()
        for arguments, result in zip(ARGUMENTS, RESULTS, strict=True):
            hmac.digest(KEY.secret, encode(decode(arguments)), "sha256")
            hmac.digest(KEY.secret, encode(decode(result)), "sha256")
        best = min(best, (perf_counter_ns() - began) / len(ARGUMENTS))
    return best / span_ns


def provider_with(processor: SpanProcessor | None) -> TracerProvider:
    """A provider with this processor alone, or with none."""
    provider = TracerProvider(shutdown_on_exit=False)
    if processor is not None:
        provider.add_span_processor(processor)
    return provider


def main() -> None:
    """Prints the tables."""
    bare = provider_with(None)
    span = min(statistics.median(times(bare, http, 10)) for _ in range(ROUNDS))
    print(f"one bare span: {span / 1000:.2f} us (no processor, 5 attributes)")
    print(f"{'added / bare span':<22}{'alone':>9}{'10 calls':>9}{'100':>9}{'4000':>9}{'p99/median':>12}")
    for name, attributes in SHAPES.items():
        row, tail = [], 0.0
        for calls in LENGTHS:
            added, ratios = [], []
            for _ in range(ROUNDS):
                without = statistics.median(times(bare, attributes, calls))
                processor = LoopGuardSpanProcessor(keys=KEY)
                spent = times(provider_with(processor), attributes, calls)
                added.append((statistics.median(spent) - without) / span)
                # The tail by the thread's own time: on a busy machine the other one shows who else runs there.
                tailed = sorted(times(provider_with(processor), attributes, calls, thread_time_ns))
                ratios.append(tailed[int(len(tailed) * 0.99)] / statistics.median(tailed))
            row.append(min(added))
            tail = max(tail, min(ratios))
        print(f"{name:<22}" + "".join(f"{ratio:>+9.2f}" for ratio in row) + f"{tail:>12.1f}")
    print(f"decoding, sorting and hashing 500 B + 500 B in C, nothing else: +{least(span):.2f}")
    runs = 100_000
    processor = LoopGuardSpanProcessor(keys=KEY)
    provider, attributes = provider_with(processor), tool(SMALL, SMALL)
    gc.collect()
    tracemalloc.start()
    tracer = provider.get_tracer("bench")
    marks = []
    for number in range(1, runs + 1):
        span_ = tracer.start_span("execute_tool lookup_order", Context(), attributes=attributes(number))  # type: ignore[arg-type]
        span_.end()
        if number in (runs // 10, runs // 2, runs):
            marks.append(tracemalloc.get_traced_memory()[0] / 2**20)
    tracemalloc.stop()
    print(
        f"memory after {runs // 10}, {runs // 2}, {runs} runs of one call: " + ", ".join(f"{m:.1f} MiB" for m in marks)
    )


if __name__ == "__main__":
    os.environ.pop("OTEL_SDK_DISABLED", None)
    main()
