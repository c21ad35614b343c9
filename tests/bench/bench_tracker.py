"""Prints what the tracker costs: its time against one bare SDK span, and its memory for a long run.

Goal: one `observe` with all detectors costs at most one span (start, 5 attributes, end, no processor),
whatever the length of the run. What likeness adds where calls give texts is shown apart: it grows with the words that
are compared, of which no text has more than 256. Ratios inside one output mean something; absolute figures do not.
"""

from __future__ import annotations

import gc
import statistics
import tracemalloc
import zlib
from collections.abc import Callable, Sequence
from time import process_time
from typing import Final

from msgspec import structs
from opentelemetry.sdk.trace import TracerProvider

from otel_loopguard.likeness import sketch
from otel_loopguard.model import CallFacts, Likenesses, Outcome, ResultClass, ToolCall
from otel_loopguard.policy import Policy, default
from otel_loopguard.tracker import Tracker

LENGTHS: Final = (10, 100, 1_000, 10_000)
CALLS_A_SAMPLE: Final = 10_000
SAMPLES: Final = 7


def make_call(number: int, digest: int, *, turn: int | None = None, agent: str = "agent") -> ToolCall:
    """Builds one successful call of one of ten tools."""
    facts = CallFacts(
        tool=f"tool_{digest % 10}",
        call_id=f"call-{number}",
        call_digest=f"{digest:032x}",
        result_digest=f"{digest * 7:032x}",
        result_class=ResultClass.CONTENT,
        outcome=Outcome.OK,
        contract="0a1b2c3d",
        key_id="k1",
    )
    return ToolCall(number=number, turn=turn or number, agent=agent, facts=facts)


SHAPES: Final[dict[str, Callable[[int], ToolCall]]] = {
    "all different": lambda n: make_call(n, n),
    "all equal": lambda n: make_call(n, 1),
    "cycle of five": lambda n: make_call(n, n % 5),
    "one of 50 again": lambda n: make_call(n, n * n % 50),
    "four siblings": lambda n: make_call(n, n, turn=n // 4 + 1),
    "two agents": lambda n: make_call(n, n % 7, agent="ab"[n % 2]),
}


PAGE: Final = " ".join(f"word{number}" for number in range(200))


def make_text_call(number: int, digest: int, asked: str, answer: str) -> ToolCall:
    """Builds one call that was asked and answered in words, with the sketches that a processor makes of both."""
    call = make_call(number, digest)
    known = Likenesses(arguments=sketch(asked), frame="f", result=sketch(answer), result_is_text=True)
    told = {"result_digest": f"{zlib.crc32(answer.encode()):032x}", "result_words": len(answer.split())}
    return structs.replace(call, facts=structs.replace(call.facts, likenesses=known, **told))


TEXTS: Final[dict[str, Callable[[int], ToolCall]]] = {
    "60 words, all new": lambda n: make_text_call(n, n, f"find {n}", " ".join(f"{n}w{k}" for k in range(60))),
    "asked in other words": lambda n: make_text_call(n, n, f"please look up customer w{n % 7} now", PAGE[:400]),
    "failures alike": lambda n: make_text_call(n, n % 3, "look", f"cannot find thing w{n % 5} in the store of things"),
    "200 words, one new": lambda n: make_text_call(n, 1, "look", f"{PAGE} t{n}"),
}


def span_cost() -> float:
    """Returns seconds for one bare span; best of the samples."""
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("bench")
    best = float("inf")
    for _ in range(SAMPLES):
        began = process_time()
        for number in range(CALLS_A_SAMPLE // 5):
            span = tracer.start_span("execute_tool lookup")
            span.set_attribute("gen_ai.operation.name", "execute_tool")
            span.set_attribute("gen_ai.tool.name", "lookup")
            span.set_attribute("gen_ai.tool.call.id", "call-1")
            span.set_attribute("gen_ai.tool.call.arguments", '{"order_id":"A12"}')
            span.set_attribute("number", number)
            span.end()
        best = min(best, (process_time() - began) / (CALLS_A_SAMPLE // 5))
    return best


def observe_cost(policy: Policy, calls: Sequence[ToolCall]) -> float:
    """Returns seconds for one `observe` in runs of this length; best of the samples."""
    runs = max(1, CALLS_A_SAMPLE // len(calls))
    best = float("inf")
    for _ in range(SAMPLES):
        spent = 0.0
        for _ in range(runs):
            tracker = Tracker(policy)
            began = process_time()
            for call in calls:
                tracker.observe(call)
            spent += process_time() - began
        best = min(best, spent / (runs * len(calls)))
    return best


def memory_of(policy: Policy, count: int) -> tuple[int, int]:
    """Returns bytes that one run of `count` different calls keeps, without and with the calls it still refers to."""
    gc.collect()
    tracemalloc.start()
    tracker = Tracker(policy)
    for number in range(1, count + 1):
        tracker.observe(make_call(number, number))
    gc.collect()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    calls = [make_call(number, number) for number in range(1, count + 1)]
    tracemalloc.start()
    tracker = Tracker(policy)
    for call in calls:
        tracker.observe(call)
    gc.collect()
    own, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return own, kept


def main() -> None:
    """Prints the tables."""
    policy = default()
    span = span_cost()
    print(f"one bare span: {span * 1e6:.2f} us (no processor)")
    for title, shapes in {"observe / span": SHAPES, "with texts compared": TEXTS}.items():
        print(f"{title:<22}" + "".join(f"{length:>9}" for length in LENGTHS))
        for name, shape in shapes.items():
            runs = [[shape(number) for number in range(1, length + 1)] for length in LENGTHS]
            ratios = [observe_cost(policy, calls) / span for calls in runs]
            shown = "".join(f"{ratio:>9.2f}" for ratio in ratios)
            print(f"{name:<22}{shown}   mean {statistics.mean(ratios):.2f}")
    for count in (1_000, 10_000, 50_000):
        own, kept = memory_of(policy, count)
        print(f"memory, {count} different calls: {own / 1024:.0f} KiB own, {kept / 1024:.0f} KiB with calls kept alive")


if __name__ == "__main__":
    main()
