"""Prints what decoding a request costs, as ratios to parsing it with protobuf's own types and reading what is wanted.

Run: `python tests/bench/bench_decode.py`. The streams of `streams.py` in requests of 512 spans. CPU time of this
thread, the best of several rounds that take turns; a ratio of 1 or more is as many spans a CPU second or more. Where
shapes are known, decoding ends with the facts of a span; otherwise they are to be made yet, which takes as long again.
"""

from __future__ import annotations

import gzip
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

from otel_loopguard.digest import Key, Keyring
from otel_loopguard.facts import FactsReader
from otel_loopguard.policy import default
from otel_loopguard.scorer.decode import Encoding, decode
from otel_loopguard.scorer.shapes import Shapes
from otel_loopguard.scorer.unpacking import unpack
from tests.bench.streams import SPANS, STREAMS, parse, request

_ROUNDS: Final = 25
_LIMIT: Final = 2**26


def _hex(value: Any) -> Any:
    """OTLP's JSON has ids in hex, where protobuf's has base64: any hex of that length does here."""
    if isinstance(value, dict):
        sizes = {"traceId": 32, "spanId": 16, "parentSpanId": 16}
        return {name: "a" * sizes[name] if name in sizes else _hex(entry) for name, entry in value.items()}
    return [_hex(entry) for entry in value] if isinstance(value, list) else value


def _seconds(works: Mapping[str, Callable[[], object]]) -> Mapping[str, float]:
    best = dict.fromkeys(works, 1e9)
    for _ in range(_ROUNDS):
        for name, work in works.items():
            begun = time.thread_time()
            work()
            best[name] = min(best[name], time.thread_time() - begun)
    return best


def _taught(data: bytes) -> Shapes:
    """Shapes as they are after some requests of a stream."""
    environment = Keyring(Key("bench", bytes(32))).environment()
    shapes = Shapes(FactsReader(default(), lambda _: environment, sketches=False), environment.conversation)
    for _ in range(3):
        decode(data, Encoding.PROTOBUF, shapes)
    return shapes


def main() -> None:
    """Print a table a stream."""
    for stream in STREAMS:
        message = request(stream)
        data = message.SerializeToString()
        text = json.encode(_hex(MessageToDict(message)))
        gzipped, zstd = gzip.compress(data, 6), zstandard.ZstdCompressor().compress(data)
        best = _seconds(
            {
                "generated types, wanted keys": partial(parse, data),
                "generated types, all keys": partial(parse, data, every=True),
                "decode protobuf": partial(decode, data, Encoding.PROTOBUF),
                "decode protobuf, shapes known": partial(decode, data, Encoding.PROTOBUF, _taught(data)),
                "decode JSON": partial(decode, text, Encoding.JSON),
                "unpack gzip": partial(unpack, gzipped, "gzip", limit=_LIMIT),
                "unpack zstd": partial(unpack, zstd, "zstd", limit=_LIMIT),
            }
        )
        base = best["generated types, wanted keys"]
        print(f"{stream}: {len(data) // SPANS} bytes a span")
        for name, seconds in best.items():
            print(f"{base / seconds:8.2f}  {seconds / SPANS * 1e6:6.2f} us a span  {name}")


if __name__ == "__main__":
    main()
