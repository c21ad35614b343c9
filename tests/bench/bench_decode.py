"""Prints what decoding a request costs, as ratios to parsing it with protobuf's own types and reading what is wanted.

Run: `python tests/bench/bench_decode.py`. Two streams in requests of 512 spans: `tool`, tool spans of 12 attributes as
the span processor leaves them, and `mixed`, of which nine in ten are others with a prompt of 2 KB. CPU time of this
thread, the best of several rounds that take turns; a ratio of 1 or more is as many spans a CPU second or more.
"""

from __future__ import annotations

import gzip
import random
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[2]))

import zstandard
from google.protobuf.json_format import MessageToDict
from msgspec import json
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, TracesData

from otel_loopguard import attributes as attr
from otel_loopguard.scorer.decode import Encoding, decode
from otel_loopguard.scorer.unpacking import unpack

_SPANS: Final = 512
_ROUNDS: Final = 25
_LIMIT: Final = 2**26
_WANTED: Final = frozenset(
    {attr.OPERATION, attr.TOOL_NAME, attr.TOOL_CALL_ID, attr.CALL_DIGEST, attr.RESULT_DIGEST, attr.RUN_ID}
)


def _pair(key: str, value: str | int) -> KeyValue:
    return KeyValue(
        key=key, value=AnyValue(int_value=value) if isinstance(value, int) else AnyValue(string_value=value)
    )


def _tool(random_: random.Random, number: int) -> Mapping[str, str | int]:
    return {
        attr.OPERATION: "execute_tool",
        attr.TOOL_NAME: "lookup_order",
        attr.TOOL_CALL_ID: f"call_{random_.randbytes(12).hex()}",
        "gen_ai.tool.type": "function",
        "gen_ai.agent.name": "shop",
        "gen_ai.conversation.id": f"conversation-{number // 10}",
        attr.CALL_DIGEST: random_.randbytes(16).hex(),
        attr.RESULT_DIGEST: random_.randbytes(16).hex(),
        attr.RUN_ID: f"{number // 10:032x}",
        attr.CALL_SEQUENCE: number % 10,
        "loopguard.call.outcome": "ok",
        "thread.id": 140_213,
    }


def _chat(random_: random.Random, number: int) -> Mapping[str, str | int]:
    return {
        "http.request.method": "POST",
        "server.address": "localhost",
        "app.request": f"{number}",
        "app.prompt": " ".join(random_.choices(("the", "order", "was", "shipped", "late"), k=400)),
        "http.response.status_code": 200,
    }


def _request(make: Callable[[random.Random, int], Mapping[str, str | int]]) -> TracesData:
    random_ = random.Random(1)
    spans = [
        Span(
            trace_id=random_.randbytes(16),
            span_id=random_.randbytes(8),
            parent_span_id=random_.randbytes(8),
            name="execute_tool lookup_order",
            kind=Span.SPAN_KIND_INTERNAL,
            start_time_unix_nano=2**60 + number,
            end_time_unix_nano=2**60 + number + 1000,
            attributes=[_pair(key, value) for key, value in make(random_, number).items()],
        )
        for number in range(_SPANS)
    ]
    resource = ResourceSpans(scope_spans=[ScopeSpans(spans=spans)])
    resource.resource.attributes.append(_pair("service.name", "shop"))
    return TracesData(resource_spans=[resource])


def _hex(value: Any) -> Any:
    """OTLP's JSON has ids in hex, where protobuf's has base64: any hex of that length does here."""
    if isinstance(value, dict):
        sizes = {"traceId": 32, "spanId": 16, "parentSpanId": 16}
        return {name: "a" * sizes[name] if name in sizes else _hex(entry) for name, entry in value.items()}
    return [_hex(entry) for entry in value] if isinstance(value, list) else value


def _baseline(data: bytes, *, every: bool = False) -> None:
    """Parses with the generated types, and reads ids, names, times, and the attributes that are wanted, or all."""
    for group in TracesData.FromString(data).resource_spans:
        for scoped in group.scope_spans:
            for span in scoped.spans:
                _ = span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex(), span.name
                _ = span.start_time_unix_nano, span.end_time_unix_nano
                found = {}
                for pair in span.attributes:
                    key = pair.key
                    if every or key in _WANTED:
                        value = pair.value
                        found[key] = value.string_value or getattr(value, str(value.WhichOneof("value")))


def _seconds(works: Mapping[str, Callable[[], object]]) -> Mapping[str, float]:
    best = dict.fromkeys(works, 1e9)
    for _ in range(_ROUNDS):
        for name, work in works.items():
            begun = time.thread_time()
            work()
            best[name] = min(best[name], time.thread_time() - begun)
    return best


def main() -> None:
    """Print a table a stream."""
    for stream, make in (("tool", _tool), ("mixed", lambda r, n: _tool(r, n) if n % 10 == 0 else _chat(r, n))):
        message = _request(make)
        data = message.SerializeToString()
        text = json.encode(_hex(MessageToDict(message)))
        gzipped, zstd = gzip.compress(data, 6), zstandard.ZstdCompressor().compress(data)
        best = _seconds(
            {
                "generated types, wanted keys": partial(_baseline, data),
                "generated types, all keys": partial(_baseline, data, every=True),
                "decode protobuf": partial(decode, data, Encoding.PROTOBUF),
                "decode JSON": partial(decode, text, Encoding.JSON),
                "unpack gzip": partial(unpack, gzipped, "gzip", limit=_LIMIT),
                "unpack zstd": partial(unpack, zstd, "zstd", limit=_LIMIT),
            }
        )
        base = best["generated types, wanted keys"]
        print(f"{stream}: {len(data) // _SPANS} bytes a span")
        for name, seconds in best.items():
            print(f"{base / seconds:8.2f}  {seconds / _SPANS * 1e6:6.2f} us a span  {name}")


if __name__ == "__main__":
    main()
