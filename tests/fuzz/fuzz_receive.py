"""Fuzz the receiving of requests: whatever the bytes, spans, reasons or a refusal come out, and none is lost silently.

Run as `python tests/fuzz/fuzz_receive.py --count 20000 --seed 1`. Inputs are sound requests and damaged ones, in both
encodings and every packing, and hostile ones: huge lengths, bombs, deep nesting, invalid UTF-8, very many parts,
times out of range, forged `loopguard.*` values. Each goes the way of a request, from its bytes to the intake; each
thousandth goes over a real connection, too, and is answered the same. Memory is watched: it may not grow.
"""

from __future__ import annotations

import argparse
import collections
import gzip
import http.client
import json
import random
import resource
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[2]))

import zstandard

from otel_loopguard import policy
from otel_loopguard.digest import Digester, Key, Scope
from otel_loopguard.facts import FactsReader
from otel_loopguard.model import Span
from otel_loopguard.scorer.answers import ANSWERS, problem, taken
from otel_loopguard.scorer.counts import Transport
from otel_loopguard.scorer.decode import Encoding
from otel_loopguard.scorer.receiving import Limits, Receiver
from otel_loopguard.scorer.records import RefusedError
from tests.files.convert import to_protobuf
from tests.scorer.receivers import served

_EXAMPLES: Final = Path(__file__).parents[2] / "otel_loopguard" / "examples"
_LIMITS: Final = Limits(max_body_bytes=200_000, max_unpacked_bytes=2_000_000)
_GROWTH_MIB: Final = 400
_OVER_HTTP_ONE_IN: Final = 1000
_TYPES: Final = {Encoding.PROTOBUF: "application/x-protobuf", Encoding.JSON: "application/json"}
_TOKENS: Final = (
    b"\x0a\xff\xff\xff\xff\x0f", b"\x12\x00" * 40, b"\x4a\x04\x0a\x02\xff\xfe", b"\x5a\x00" * 40, b"\x0a\x80\x80\x00",
    b"\xff" * 11, b"\x0b", b"\x0c", b"\x7a\x02\x18\x09", b"\x39" + b"\xff" * 8, b"\x41" + bytes(8), b"\x22\x01\x00",
    b"{", b"}", b"[" * 300, b'"', b",", b"\\ud800", b"\xff\xfe", b"null", b"1e999", b"9" * 30,
    b'"resourceSpans"', b'"resource_spans"', b'"resourceLogs"', b'"traceId"', b'{"stringValue":1}', b"NaN", b"\x00",
    b'"-9223372036854775809"', b'"startTimeUnixNano":"-1"', b'"endTimeUnixNano":-5',
)  # fmt: skip
_FORGED: Final = (
    "loopguard.run.id", "loopguard.sequence", "loopguard.call.digest", "loopguard.call.result_digest",
    "loopguard.run.calls", "loopguard.call.outcome", "loopguard.requested_call_ids", "gen_ai.tool.name",
    "gen_ai.operation.name", "openinference.span.kind", "traceloop.span.kind", "input.value", "\x00", "",
)  # fmt: skip
_VALUES: Final[tuple[Any, ...]] = (
    {"stringValue": "x" * 200}, {"stringValue": ""}, {"stringValue": "\u2028\x00\U0001f600"}, {"intValue": "-1"},
    {"intValue": "9223372036854775807"}, {"doubleValue": "NaN"}, {"doubleValue": -1e308}, {"boolValue": True}, {},
    {"bytesValue": "AAAA"}, {"arrayValue": {"values": [{}] * 50}}, {"kvlistValue": {"values": [{"key": "k"}] * 50}},
    {"arrayValue": {"values": [{"arrayValue": {"values": [{"arrayValue": {}}]}}]}}, {"stringValue": '{"a":' * 100},
)  # fmt: skip


class _Counting:
    """An intake that makes facts of all spans, as the real one does, and remembers how many it was given."""

    def __init__(self) -> None:
        digester = Digester(Key("fuzz", bytes(range(32))), scope=Scope.ENVIRONMENT)
        self._reader = FactsReader(policy.default(), lambda _trace_id: digester)
        self.spans = 0

    def submit(self, spans: Sequence[Span]) -> Future[Mapping[str, int]]:
        """Takes all of them."""
        for span in spans:
            self._reader.of_span(span)
        self.spans += len(spans)
        done: Future[Mapping[str, int]] = Future()
        done.set_result({})
        return done


def _lines() -> Sequence[bytes]:
    """Sound requests in JSON, short enough that damage hits what matters."""
    lines = [line for path in sorted(_EXAMPLES.glob("*.jsonl")) for line in path.read_bytes().splitlines()]
    return sorted(lines, key=len)[:60]


def _damage(random_: random.Random, data: bytes) -> bytes:
    """The same bytes with one to six changes."""
    changed = bytearray(data[:20_000])
    for _ in range(random_.randint(1, 6)):
        place = random_.randrange(len(changed) + 1)
        match random_.randrange(5):
            case 0:
                changed[place:place] = random_.choice(_TOKENS)
            case 1:
                del changed[place : place + random_.randint(1, 50)]
            case 2 if place < len(changed):
                changed[place] = random_.randrange(256)
            case 3:
                changed[place:place] = changed[place : place + random_.randint(1, 200)]
            case _:
                token = random_.choice(_TOKENS)
                changed[place : place + len(token)] = token
    return bytes(changed)


def _forged(random_: random.Random, line: bytes) -> bytes:
    """The same request with attributes that lie, and times that cannot be."""
    root = json.loads(line)
    for group in root["resourceSpans"]:
        for scoped in group["scopeSpans"]:
            for span in scoped["spans"]:
                pairs = span.setdefault("attributes", [])
                for _ in range(random_.randint(0, 5)):
                    pairs.append({"key": random_.choice(_FORGED), "value": random_.choice(_VALUES)})
                if random_.random() < 0.2:
                    span["startTimeUnixNano"] = random_.choice(("0", "1", "18446744073709551615"))
                if random_.random() < 0.1:
                    span["endTimeUnixNano"] = random_.choice(("0", "1", "18446744073709551615"))
    return json.dumps(root).encode()


def _many(random_: random.Random) -> bytes:
    """A message that is small on the wire for the number of its parts."""
    part = random_.choice(
        (b"\x0a\x00", b"\x12\x00", b"\x5a\x00", b"\x6a\x00", b"\x4a\x04\x0a\x02ab", b"\x4a\x02\x12\x00")
    )
    body = part * random_.randint(1, 60_000)
    for number in random_.choice(((1,), (2, 1), (2, 2, 1), (5, 2, 9, 2, 2, 1))):
        body = bytes([number << 3 | 2]) + _length(len(body)) + body
    return body


def _length(size: int) -> bytes:
    taken = b""
    while size > 0x7F:
        taken, size = taken + bytes([size & 0x7F | 0x80]), size >> 7
    return taken + bytes([size])


def _deep(random_: random.Random) -> bytes:
    """JSON of many levels, closed or not."""
    opening, closing = random_.choice(
        ((b"[", b"]"), (b'{"arrayValue":{"values":[', b"]}}"), (b'{"resourceSpans":[', b"]}"), (b'{"a":', b"}"))
    )
    depth = random_.choice((10, 126, 500, 1100, 5000))
    whole = opening * depth + closing * random_.choice((depth, 0))
    return random_.choice((b"", b'{"resource_spans":[{"scopeSpans":[{"spans":[{"attributes":[{"value":')) + whole


def _makers(lines: Sequence[bytes]) -> Sequence[tuple[Encoding, Callable[[random.Random], bytes]]]:
    messages = [to_protobuf(line) for line in lines]
    json_, protobuf = Encoding.JSON, Encoding.PROTOBUF
    return (
        (json_, lambda random_: random_.choice(lines)),
        (protobuf, lambda random_: random_.choice(messages)),
        (protobuf, lambda random_: to_protobuf(_forged(random_, random_.choice(lines)))),
        (json_, lambda random_: _forged(random_, random_.choice(lines))),
        (json_, lambda random_: _damage(random_, random_.choice(lines))),
        (protobuf, lambda random_: _damage(random_, random_.choice(messages))),
        (protobuf, lambda random_: _damage(random_, random_.choice(messages))),
        (protobuf, lambda random_: random_.choice(messages) + random_.choice(messages)),
        (protobuf, lambda random_: random_.randbytes(random_.randint(0, 200))),
        (protobuf, lambda random_: b"".join(random_.choices(_TOKENS, k=random_.randint(1, 40)))),
        (json_, lambda random_: b"".join(random_.choices(_TOKENS, k=random_.randint(1, 40)))),
        (json_, _deep),
    )


_PACKERS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "": bytes,
    "identity": bytes,
    "gzip": lambda body: gzip.compress(body, 1),
    "deflate": lambda body: zlib.compress(body, 1),
    "zstd": zstandard.ZstdCompressor().compress,
}


def _packed(random_: random.Random, body: bytes) -> tuple[str, bytes]:
    """A body and its coding: sound, damaged, of another coding, or a bomb."""
    coding = random_.choice(tuple(_PACKERS))
    if random_.random() < 0.01:
        body = bytes(random_.choice((1_999_999, 2_000_001, 8_000_000)))
    packed = _PACKERS[coding](body)
    if coding and random_.random() < 0.1:
        packed = _damage(random_, packed)
    if random_.random() < 0.02:
        coding = random_.choice((*_PACKERS, "br", "gzip, gzip"))
    return coding, packed


def _taken(receiver: Receiver, intake: _Counting, body: bytes, coding: str, encoding: Encoding) -> tuple[int, bytes]:
    """The status and the body that a request is answered with; all spans of a success were given to the intake."""
    before = intake.spans
    try:
        accepted = receiver.accept(body, coding, encoding, Transport.HTTP)
        rejected = receiver.finish(accepted, Transport.HTTP)
    except RefusedError as refused:
        assert before == intake.spans
        return ANSWERS[refused.reason].http, problem(refused, encoding)
    assert len(accepted.decoded.spans) == intake.spans - before
    return 200, taken(rejected, encoding)


def _posted(port: int, body: bytes, coding: str, encoding: Encoding) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Content-Type": _TYPES[encoding], **({"Content-Encoding": coding} if coding else {})}
    try:
        connection.request("POST", "/v1/traces", body, headers)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def _memory_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main(argv: Sequence[str] | None = None) -> int:
    """Receive `--count` made-up requests; return 0, or raise what receiving raised, with the input in hex."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    random_ = random.Random(options.seed)
    makers = _makers(_lines())
    intake = _Counting()
    receiver = Receiver(intake, limits=_LIMITS)
    seen: collections.Counter[str] = collections.Counter()
    before = _memory_mib()
    with served(receiver) as port:
        for number in range(options.count):
            if random_.random() < 0.01:
                encoding, body = Encoding.PROTOBUF, _many(random_)
            else:
                encoding, make = random_.choice(makers)
                body = make(random_)
            coding, packed = _packed(random_, body)
            try:
                status, said = _taken(receiver, intake, packed, coding, encoding)
                if number % _OVER_HTTP_ONE_IN == 0 and len(packed) <= _LIMITS.max_body_bytes:
                    assert (status, said) == _posted(port, packed, coding, encoding)
            except BaseException:
                print(f"failed on input {number} of seed {options.seed}, {encoding} {coding}: {packed[:200].hex()}")
                raise
            seen[f"{status}{' in part' if status == 200 and said not in (b'', b'{}') else ''}"] += 1
    grown = _memory_mib() - before
    for word, count in seen.most_common():
        print(f"{count:9} {word}")
    print(f"{intake.spans:9} spans; memory grew by {grown} MiB at most")
    assert grown < _GROWTH_MIB
    print(f"{options.count} inputs, nothing raised")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
