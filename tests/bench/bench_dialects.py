"""Prints what reading a span costs, as a ratio to making a bare SDK span (start, 5 attributes, end; no processor).

Run: `python tests/bench/bench_dialects.py`. A span that is no agent's must cost next to nothing: the processor sees
every span of an application.
"""

from __future__ import annotations

import sys
import timeit
from pathlib import Path
from typing import TYPE_CHECKING, Final

sys.path.insert(0, str(Path(__file__).parents[2]))

from opentelemetry.sdk.trace import TracerProvider

from otel_loopguard import dialects
from otel_loopguard.model import Span
from tests.dialects.encode import ENCODERS

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS: Final = 9
CALLS: Final = 5_000

HTTP: Final = Span(
    trace_id="1" * 32,
    span_id="2" * 16,
    name="GET /orders",
    kind=3,
    scope="opentelemetry.instrumentation.httpx",
    start_ns=1,
    end_ns=2,
    attributes={
        "http.request.method": "GET",
        "url.full": "http://localhost/orders",
        "server.address": "localhost",
        "server.port": 80,
        "http.response.status_code": 200,
    },
)
RESULT: Final = {"order_id": "A12", "status": "shipped", "items": [{"sku": "X-1", "qty": 2}, {"sku": "Y-9", "qty": 1}]}


def _seconds(work: Callable[[], object]) -> float:
    return min(timeit.repeat(work, number=CALLS, repeat=ROUNDS)) / CALLS


def main() -> None:
    """Print one line a shape."""
    tracer = TracerProvider().get_tracer("bench")

    def bare_span() -> None:
        span = tracer.start_span("x")
        for name in ("a", "b", "c", "d", "e"):
            span.set_attribute(name, 1)
        span.end()

    base = _seconds(bare_span)
    print(f"bare SDK span: {base * 1e6:.1f} us")
    spans = {"no agent's span (HTTP)": HTTP}
    spans |= {name: make("lookup_order", {"order_id": "A12"}, RESULT, "call_1") for name, make in ENCODERS.items()}
    for name, span in spans.items():
        cost = _seconds(lambda span=span: dialects.read(span))  # type: ignore[misc]
        print(f"{cost / base:6.2f}  {cost * 1e6:6.1f} us  {name}")


if __name__ == "__main__":
    main()
