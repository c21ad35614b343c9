"""Fuzz the reading of files: whatever the bytes, spans, records and reasons come out, and nothing is raised.

Run as `python tests/fuzz/fuzz_files.py --count 20000 --seed 1`. Inputs are random bytes, and damaged captures, call
records and protobuf messages; each is read under every format, packed or not.
"""

from __future__ import annotations

import copy
import gzip
import io
import json
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[2]))

from otel_loopguard import files
from otel_loopguard.files import Format, explain
from otel_loopguard.model import BadInput, CallRecord, Span
from tests.files.convert import to_protobuf
from tests.fuzz.frame import damage, try_all

_EXAMPLES: Final = Path(__file__).parents[2] / "otel_loopguard" / "examples"
_TOKENS: Final = (
    b"{", b"}", b"[", b"]", b'"', b",", b":", b"\\", b"\n", b"\r\n", b"\x00", b"\xff", b"null", b"true", b"1e999",
    b"NaN", b'"traceId"', b'"trace_id"', b'"resourceSpans"', b'"scope_spans"', b'"intValue"', b'"kvlistValue"', b"{}",
    b'"run_id"', b'"sequence"', b'"arguments"', b'"\\ud800"', b"9" * 30, b"\xef\xbb\xbf", b"\x0a\xff\xff\x7f",
    b"[" * 200, b"-0",
)  # fmt: skip
_WEIRD: Final[tuple[Any, ...]] = (
    None, True, 0, -1, 2**63, 10**40, 0.5, float("nan"), float("inf"), "", "x", "0" * 16, "0" * 32, "A" * 16, "a" * 32,
    "AAECAwQFBgcICQoLDA0ODw==", "\ud800", "\x00", [], {}, [[]], [None], {"key": 1}, {"values": [None]}, {"values": {}},
    {"stringValue": 1}, {"intValue": "x"}, {"arrayValue": {"values": [{"kvlistValue": {"values": [{}]}}]}}, [{}] * 3,
)  # fmt: skip


def _seeds() -> Sequence[bytes]:
    """Sound inputs of every kind, short enough that damage hits what matters."""
    lines = [line for path in sorted(_EXAMPLES.glob("*.jsonl")) for line in path.read_bytes().splitlines(keepends=True)]
    short = sorted(lines, key=len)[:40]
    records = [
        {
            "run_id": "r",
            "sequence": i,
            "turn": i,
            "call_id": f"c{i}",
            "tool": "t",
            "arguments": {"a": [i, None]},
            "result": "x",
        }
        for i in range(4)
    ]
    calls = b"".join(json.dumps(record).encode() + b"\n" for record in records)
    messages = [to_protobuf(line) for line in short[:20]]
    framed = [len(message).to_bytes(4, "big") + message for message in messages]
    documents = [json.dumps(json.loads(line), indent=1).encode() for line in short[:5]]
    return [*short, calls, json.dumps(records, indent=1).encode(), *messages, *framed, b"".join(framed), *documents]


def _reshape(random_: random.Random, line: bytes) -> bytes:
    """The same JSON with one to four values replaced, renamed or taken out."""
    root = json.loads(line)
    for _ in range(random_.randint(1, 4)):
        spot = root
        while isinstance(spot, dict | list) and spot:
            place = random_.choice(list(spot) if isinstance(spot, dict) else range(len(spot)))
            if not isinstance(spot[place], dict | list) or random_.random() < 0.15:
                if random_.random() < 0.3:
                    spot.pop(place)
                else:
                    spot[place] = copy.deepcopy(random_.choice(_WEIRD))
                break
            spot = spot[place]
    return json.dumps(root).encode() + b"\n"


def _makers(seeds: Sequence[bytes]) -> Sequence[Callable[[random.Random], bytes]]:
    lines = [line for seed in seeds if seed.startswith(b"{") for line in seed.splitlines() if line.endswith(b"}")]
    lines = [line for line in lines if line.startswith(b'{"')]
    return (
        lambda random_: _reshape(random_, random_.choice(lines)),
        lambda random_: _reshape(random_, random_.choice(lines)) + random_.choice(seeds),
        lambda random_: random_.randbytes(random_.randint(0, 300)),
        lambda random_: b"".join(random_.choices(_TOKENS, k=random_.randint(1, 60))),
        lambda random_: damage(random_, random_.choice(seeds), _TOKENS),
        lambda random_: damage(random_, random_.choice(seeds), _TOKENS) + random_.choice(seeds),
        lambda random_: damage(random_, gzip.compress(random_.choice(seeds), 1), _TOKENS),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Read `--count` made-up inputs; return 0, or raise what reading raised."""
    makers = _makers(_seeds())

    def attempt(random_: random.Random, _number: int) -> list[str]:
        data = random_.choice(makers)(random_)
        fmt = random_.choice((Format.AUTO, Format.AUTO, Format.OTLP_JSON, Format.OTLP_PROTO, Format.CALLS))
        found = []
        for item in files.read(io.BytesIO(data), name="fuzz", fmt=fmt):
            if isinstance(item, BadInput):
                assert explain(item.reason) != item.reason, item.reason
                found.append(item.reason.partition(":")[0])
            else:
                assert isinstance(item, Span | CallRecord)
                found.append(type(item).__name__)
        return found

    return try_all(__doc__, argv, attempt)


if __name__ == "__main__":
    raise SystemExit(main())
