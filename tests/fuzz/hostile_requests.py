"""Export requests that nobody should send: real ones, damaged and forged, and some made to hurt.

Invariants: pure; what is large is rare, so that many thousands of inputs take minutes.
"""

from __future__ import annotations

import gzip
import json
import random
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import zstandard
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from otel_loopguard import attributes as attr
from otel_loopguard.scorer.decode import Encoding
from tests.files.convert import to_protobuf
from tests.fuzz.frame import damage
from tests.scorer.exported_runs import made_runs

Make: TypeAlias = Callable[[random.Random], bytes]

_EXAMPLES: Final = Path(__file__).parents[2] / "otel_loopguard" / "examples"
_LONGEST_BYTES: Final = 12_000
_RARE: Final = 0.001
"""Of inputs that take as much as a thousand others."""
_TOKENS: Final = (
    b"\x0a\xff\xff\xff\xff\x0f", b"\x12\x00" * 40, b"\x4a\x04\x0a\x02\xff\xfe", b"\x5a\x00" * 40, b"\x0a\x80\x80\x00",
    b"\xff" * 11, b"\x0b", b"\x0c", b"\x7a\x02\x18\x09", b"\x39" + b"\xff" * 8, b"\x41" + bytes(8), b"\x22\x01\x00",
    b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x0a\x80\x80\x80\x80\x08", b"\x82\x00", b"\x39" + b"\x80" * 8,
    b"{", b"}", b"[" * 300, b'"', b",", b"\\ud800", b"\xff\xfe", b"null", b"1e999", b"9" * 30,
    b'"resourceSpans"', b'"resource_spans"', b'"resourceLogs"', b'"traceId"', b'{"stringValue":1}', b"NaN", b"\x00",
    b'"-9223372036854775809"', b'"startTimeUnixNano":"-1"', b'"endTimeUnixNano":-5', b'"scope_spans"', b'"spans"',
)  # fmt: skip
_KEYS: Final = sorted(
    {
        key
        for name, value in vars(attr).items()
        if name.isupper()
        for key in ((value,) if isinstance(value, str) else value)
    }
    | {"loopguard.", "loopguard.\x00", "", "\u2028", "k" * 300}
)
_OWN: Final = [key for key in _KEYS if key.startswith("loopguard.")]
_TEXTS: Final = (
    "", "x", "x" * 200, "é" * 70_000, "\u2028\x00\U0001f600", '{"a":' * 100, "[" * 3000, '{"x": 1}', "0" * 32, "f" * 32,
    "ok", "error", "denied", "deny", "stop", "advanced", "redacted", "1", "-1", "1e400", "9" * 5000, "execute_tool",
    "__REDACTED__", "\ufeff{}", "true", "a,b,c" * 1000, "1/1/9223372036854775808", "NaN",
)  # fmt: skip
_NUMBERS: Final = (0, 1, -1, 2, 3, 10**15, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63))
_DOUBLES: Final = (0.0, -0.0, 0.5, 1e308, -1e308, 5e-324, float("nan"), float("inf"), float("-inf"))
_TIMES: Final = (0, 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64 - 10**9, 10**18)
"""As the wire has them: those of 2^63 and more are negative to whoever reads them as signed."""
_JSON_TIMES: Final[tuple[Any, ...]] = (
    *map(str, _TIMES),
    *_TIMES,
    "-1",
    -5,
    1.5,
    "1e30",
    "soon",
    None,
    True,
    [],
    "\ud800",
)
_JSON_VALUES: Final[tuple[Any, ...]] = (
    {}, None, {"bytesValue": "AAAA"}, {"bytesValue": "?"}, {"intValue": 2**63}, {"intValue": "x"}, {"boolValue": "no"},
    {"doubleValue": "NaN"}, {"doubleValue": "-Infinity"}, {"arrayValue": {"values": [{}] * 50}}, {"stringValue": 1},
    {"kvlistValue": {"values": [{"key": "k"}] * 50}}, {"stringValue": "a", "intValue": "1"}, [], "x", 7,
    {"arrayValue": {"values": [{"arrayValue": {"values": [{"arrayValue": {}}]}}]}}, {"stringValue": "\ud800"},
)  # fmt: skip

# --- forged values ------------------------------------------------------------------------------------


def _text(random_: random.Random) -> str:
    return random_.choice(_TEXTS) if random_.random() < 0.7 else "".join(random_.choices('01af{}"\\, ', k=40))


def _value(random_: random.Random, depth: int = 0) -> AnyValue:
    """A value of any type and size, for a key that ours or others trust."""
    kind = random_.randrange(9)
    if kind <= 2:
        return AnyValue(string_value=_text(random_))
    if kind == 3:
        return AnyValue(int_value=random_.choice(_NUMBERS))
    if kind == 4:
        return AnyValue(double_value=random_.choice(_DOUBLES))
    if kind == 5:
        return AnyValue(bool_value=random_.random() < 0.5)
    if kind == 6:
        return AnyValue(bytes_value=random_.randbytes(random_.choice((0, 1, 16, 300))))
    if depth > 3:
        return AnyValue()
    inner = [_value(random_, depth + 1) for _ in range(random_.randrange(4))]
    if kind == 7:
        return AnyValue(array_value=ArrayValue(values=inner))
    return AnyValue(kvlist_value=KeyValueList(values=[KeyValue(key=random_.choice(_KEYS), value=one) for one in inner]))


def _key(random_: random.Random) -> str:
    return random_.choice(_OWN if random_.random() < 0.7 else _KEYS)


def _forged(random_: random.Random, message: bytes) -> bytes:
    """The same request, or that of other traces, with attributes that lie, impossible times, and ids of any length."""
    request = TracesData.FromString(message)
    other = random_.choice((0, random_.getrandbits(128)))
    for group in request.resource_spans:
        if random_.random() < 0.1:
            key = random_.choice((_key(random_), "service.name", "service.version"))
            group.resource.attributes.append(KeyValue(key=key, value=_value(random_)))
        for scoped in group.scope_spans:
            for span in scoped.spans:
                span.trace_id = (int.from_bytes(span.trace_id, "big") ^ other).to_bytes(16, "big")
                for _ in range(random_.randint(0, 4)):
                    span.attributes.append(KeyValue(key=_key(random_), value=_value(random_)))
                if random_.random() < 0.2:
                    span.start_time_unix_nano = random_.choice(_TIMES)
                    span.end_time_unix_nano = random_.choice(_TIMES)
                if random_.random() < 0.05:
                    span.trace_id = random_.randbytes(random_.choice((0, 8, 15, 17, 300))) or bytes(16)
                if random_.random() < 0.05:
                    span.span_id = random_.randbytes(random_.choice((0, 7, 9, 300))) or bytes(8)
                if random_.random() < 0.05:
                    span.parent_span_id = random_.choice((span.span_id, bytes(8), b"x"))
    return bytes(request.SerializeToString())


def _forged_json(random_: random.Random, line: bytes) -> bytes:
    """The same in JSON, where anything may stand in the place of anything."""
    root = json.loads(line)
    for group in root["resourceSpans"]:
        for scoped in group["scopeSpans"]:
            for span in scoped["spans"]:
                pairs = span.setdefault("attributes", [])
                for _ in range(random_.randint(0, 4)):
                    value = random_.choice((*_JSON_VALUES, {"stringValue": _text(random_)}))
                    pairs.append({"key": _key(random_), "value": value})
                if random_.random() < 0.2:
                    name = random_.choice(("startTimeUnixNano", "endTimeUnixNano", "traceId", "spanId", "parentSpanId"))
                    span[name] = random_.choice(_JSON_TIMES)
            if random_.random() < 0.02:
                group["scope_spans"] = [{"spans": random_.choice((scoped["spans"], None, [], [{}]))}]
            if random_.random() < 0.05:
                scoped["spans"].insert(0, random_.choice((None, 1, "x", [], {}, {"traceId": 5})))
    return json.dumps(root).encode("utf-8", "surrogatepass")


def _renewed(random_: random.Random, message: bytes) -> bytes:
    """The same request as of other calls: all that differs from call to call is different."""
    request = TracesData.FromString(message)
    trace_id, start = random_.randbytes(16), random_.randrange(2**60, 2**61)
    for span in (one for group in request.resource_spans for scoped in group.scope_spans for one in scoped.spans):
        span.trace_id, span.span_id = trace_id, random_.randbytes(8)
        span.start_time_unix_nano, span.end_time_unix_nano = start, start + random_.randrange(10**9)
        for pair in span.attributes:
            if pair.key.endswith("digest"):
                pair.value.string_value = random_.randbytes(16).hex()
            elif pair.value.HasField("int_value") and pair.key != attr.SCHEMA:
                pair.value.int_value = random_.choice((1, 2, 127, 128, 300, 16_383))
    return bytes(request.SerializeToString())


def _overwritten(random_: random.Random, message: bytes) -> bytes:
    """The same bytes, a few of which are others: all lengths stay."""
    changed = bytearray(message)
    for _ in range(random_.randint(1, 3)):
        changed[random_.randrange(len(changed))] = random_.choice(
            (*b"\x00\x01\x7f\x80\xff aA0%{", random_.randrange(256))
        )
    return bytes(changed)


def _not_text(random_: random.Random, message: bytes) -> bytes:
    """The same bytes, some letters of which are no UTF-8: lengths stay right."""
    old = random_.choice((b"execute_tool", b"gen_ai", b"service.name", b"tool", b"e"))
    return message.replace(old, random_.randbytes(1) * len(old), random_.choice((1, -1)))


# --- shapes that hurt ---------------------------------------------------------------------------------


def _length(size: int) -> bytes:
    taken = b""
    while size > 0x7F:
        taken, size = taken + bytes([size & 0x7F | 0x80]), size >> 7
    return taken + bytes([size])


def _within(body: bytes, numbers: Sequence[int]) -> bytes:
    for number in numbers:
        body = bytes([number << 3 | 2]) + _length(len(body)) + body
    return body


def _deep_values(random_: random.Random) -> bytes:
    """A span with a value of many levels."""
    depth = random_.choice((10, 90, 101, 1000, 5000))
    value = b"\x0a\x01x"
    for _ in range(depth):
        value = _within(value, random_.choice(((1, 5), (2, 1, 6))))
    ids = b"\x0a\x10" + random_.randbytes(16) + b"\x12\x08" + random_.randbytes(8)
    return _within(ids + _within(b"\x0a\x01k" + _within(value, (2,)), (9,)), (2, 2, 1))


def _deep_json(random_: random.Random) -> bytes:
    """JSON of many levels, closed or not."""
    opening, closing = random_.choice(
        ((b"[", b"]"), (b'{"arrayValue":{"values":[', b"]}}"), (b'{"resourceSpans":[', b"]}"), (b'{"a":', b"}"))
    )
    depth = random_.choice((10, 126, 500, 1100, 5000))
    whole = opening * depth + closing * random_.choice((depth, 0))
    return random_.choice((b"", b'{"resource_spans":[{"scopeSpans":[{"spans":[{"attributes":[{"value":')) + whole


def _many(random_: random.Random) -> bytes:
    """A message that is small on the wire for the number of its parts: up to a million attributes."""
    part = random_.choice(
        (b"\x0a\x00", b"\x12\x00", b"\x5a\x00", b"\x6a\x00", b"\x4a\x00", b"\x4a\x04\x0a\x02ab", b"\x4a\x02\x12\x00")
    )
    body = part * (random_.choice((60_000, 200_000, 1_000_000)) // (len(part) // 2))
    return _within(body, random_.choice(((1,), (2, 1), (2, 2, 1), (5, 2, 9, 2, 2, 1))))


def _many_json(random_: random.Random) -> bytes:
    part = random_.choice((b"{},", b"[],", b"1,", b'{"key":"k"},', b'{"traceId":"1"},', b'"",'))
    inside = random_.choice((b'"attributes":', b'"events":', b'"links":', b'"a":'))
    body = part * random_.choice((20_000, 100_000))
    return b'{"resourceSpans":[{"scopeSpans":[{"spans":[{' + inside + b"[" + body + b"0]}]}]}]}"


class Corpus:
    """Makes requests from those of the examples."""

    def __init__(self) -> None:
        lines = [line for path in sorted(_EXAMPLES.glob("*.jsonl")) for line in path.read_bytes().splitlines()]
        lines = sorted(line for line in lines if len(line) <= _LONGEST_BYTES)
        messages = [to_protobuf(line) for line in lines]
        ours = [bytes(encode_spans(run).SerializeToString()) for run in made_runs(12, random.Random(1))]
        json_, protobuf = Encoding.JSON, Encoding.PROTOBUF
        self._rare: tuple[tuple[Encoding, Make], ...] = ((protobuf, _many), (json_, _many_json))
        self._makers: tuple[tuple[Encoding, Make], ...] = (
            (json_, lambda random_: random_.choice(lines)),
            (protobuf, lambda random_: random_.choice(messages)),
            (protobuf, lambda random_: _forged(random_, random_.choice(messages))),
            (protobuf, lambda random_: _forged(random_, random_.choice(messages))),
            (protobuf, lambda random_: _forged(random_, random_.choice(messages))),
            (protobuf, lambda random_: damage(random_, _forged(random_, random_.choice(messages)), _TOKENS)),
            (json_, lambda random_: _forged_json(random_, random_.choice(lines))),
            (json_, lambda random_: _forged_json(random_, random_.choice(lines))),
            (json_, lambda random_: damage(random_, random_.choice(lines), _TOKENS)),
            (protobuf, lambda random_: damage(random_, random_.choice(messages), _TOKENS)),
            (protobuf, lambda random_: damage(random_, random_.choice(messages), _TOKENS)),
            (protobuf, lambda random_: _renewed(random_, random_.choice(ours))),
            (protobuf, lambda random_: _overwritten(random_, _renewed(random_, random_.choice(ours)))),
            (protobuf, lambda random_: _overwritten(random_, _renewed(random_, random_.choice(ours)))),
            (protobuf, lambda random_: _not_text(random_, random_.choice(messages))),
            (json_, lambda random_: _not_text(random_, random_.choice(lines))),
            (protobuf, lambda random_: random_.choice(messages) + random_.choice(messages)),
            (protobuf, lambda random_: random_.randbytes(random_.randint(0, 200))),
            (protobuf, lambda random_: b"".join(random_.choices(_TOKENS, k=random_.randint(1, 40)))),
            (json_, lambda random_: b"".join(random_.choices(_TOKENS, k=random_.randint(1, 40)))),
            (protobuf, _deep_values),
            (json_, _deep_json),
        )

    def request(self, random_: random.Random) -> tuple[Encoding, bytes]:
        """One request, and how it is written, if it is."""
        encoding, make = random_.choice(self._rare if random_.random() < _RARE else self._makers)
        return encoding, make(random_)


# --- packing ------------------------------------------------------------------------------------------

_ZEROS: Final = bytes(64 * 2**20)
_PACKERS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "": bytes,
    "identity": bytes,
    "gzip": lambda body: gzip.compress(body, 1),
    "deflate": lambda body: zlib.compress(body, 1),
    "zstd": zstandard.ZstdCompressor(level=1).compress,
}
_BOMBS: Final = {
    coding: [pack(_ZEROS[:size]) for size in (1_999_999, 4_000_001, len(_ZEROS))]
    for coding, pack in _PACKERS.items()
    if coding not in ("", "identity")
}


def packed(random_: random.Random, body: bytes) -> tuple[str, bytes, bytes | None]:
    """A body and its coding: sound, damaged, of another coding, or a bomb.

    Returns:
        The coding, the body as it is sent, and as it is once unpacked; None where nobody needs to know.
    """
    coding = random_.choice(tuple(_PACKERS))
    chance = random_.random()
    if chance < _RARE and coding in _BOMBS:
        whole = random_.choice(_BOMBS[coding])
        return coding, whole * random_.choice((1, 1, 3, 200 if len(whole) < _LONGEST_BYTES else 2)), None
    sent = _PACKERS[coding](body)
    if coding in _BOMBS and chance < 0.05:
        return coding, damage(random_, sent, _TOKENS), None
    if coding in _BOMBS and chance < 0.06:
        return coding, sent * 2, None
    if chance > 0.98:
        return random_.choice((*_PACKERS, "br", "gzip, gzip")), sent, None
    return coding, sent, body
