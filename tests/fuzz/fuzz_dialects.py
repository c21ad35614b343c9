"""Fuzz the reading of spans: captured spans with damaged attributes, and payload text that was cut, nested or broken.

Run as `python tests/fuzz/fuzz_dialects.py --count 20000 --seed 1`. Each input must give a reading or None, values that
have a canonical form or a reason, and must not take longer than `SLOW_S`.
"""

from __future__ import annotations

import argparse
import collections
import json
import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

sys.path.insert(0, str(Path(__file__).parents[2]))

import msgspec

from otel_loopguard import attributes as attr
from otel_loopguard import dialects
from otel_loopguard.canonical import CanonicalError, encode
from otel_loopguard.dialects import own, payload
from otel_loopguard.dialects.reading import Content, Reading
from otel_loopguard.model import Span, SpanEvent, Unknown
from tests.dialects import captures

if TYPE_CHECKING:
    from collections.abc import Sequence

SLOW_S: Final = 5.0
"""A generous bound that tells a hang from a busy machine."""

_KEYS: Final = sorted(
    {
        key
        for name, value in vars(attr).items()
        if name.isupper()
        for key in ((value,) if isinstance(value, str) else value)
    }
)
_PIECES: Final = (
    "{", "}", "[", "]", "(", ")", '"', "'", "\\", ",", ":", " ", "\n", "null", "true", "None", "True", "nan", "1e999",
    "-", "0", "12", "a", "é", "\ud800", "\x00", "...", "…", "[REDACTED]", "__REDACTED__", "***", "[truncated", "b'",
    "{}", '"kwargs"', '"output"', '"content"', '"tool_call_id"', '"text"', '"type"', '"result"', '"response"',
    "status='",
)  # fmt: skip
_WEIRD: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 2**70, 0.5, float("nan"), float("inf"), "", "x", b"\xff", b'{"a": 1}', [], {}, [[]],
    [None], {"a": None}, {"content": [{"text": 1}]}, [{"text": "x"}],
    [{"role": "assistant", "parts": [None, {"type": "tool_call"}]}],
)  # fmt: skip


def _text(random_: random.Random) -> str:
    return "".join(random_.choices(_PIECES, k=random_.randint(0, 30)))


def _value(random_: random.Random, seed: Any) -> Any:
    kind = random_.randrange(8)
    if kind == 0:
        return random_.choice(_WEIRD)
    if kind == 1 or not isinstance(seed, str):
        return _text(random_)
    at = random_.randint(0, len(seed))
    if kind == 2:
        return seed[:at]
    if kind == 3:
        return seed[:at] + _text(random_) + seed[at:]
    if kind == 4:
        return json.dumps(seed)
    if kind == 5:
        return seed.encode("utf-8", "surrogatepass")
    if kind == 6:
        return payload.parsed(seed)
    return "[" * random_.randint(0, 300) + seed


def _span(random_: random.Random, span: Span) -> Span:
    attributes = dict(span.attributes)
    for _ in range(random_.randint(1, 4)):
        key = random_.choice([*attributes, random_.choice(_KEYS)])
        if random_.random() < 0.2:
            attributes.pop(key, None)
        else:
            attributes[key] = _value(random_, attributes.get(key))
    events = [
        SpanEvent(event.name, {key: _value(random_, value) for key, value in event.attributes.items()})
        if random_.random() < 0.3
        else event
        for event in span.events
    ]
    return msgspec.structs.replace(
        span,
        attributes=attributes,
        events=events,
        scope=random_.choice((span.scope, span.scope, *dialects.BY_SCOPE)),
        status_code=random_.randrange(3),
        dropped_attributes=random_.randrange(2),
    )


def _checked(read: Content) -> str:
    if read.unknown is not None:
        return str(read.unknown)
    try:
        encode(read.value)
    except CanonicalError as error:
        return f"no form: {error.reason}"
    return "value"


def _try_span(random_: random.Random, spans: Sequence[Span]) -> str:
    span = _span(random_, random_.choice(spans))
    own.read_own(span.attributes)
    reading = dialects.read(span)
    if reading is None:
        return "no dialect"
    assert isinstance(reading, Reading)
    return f"{reading.role}: {_checked(reading.arguments)}, {_checked(reading.result)}"


def _try_text(random_: random.Random) -> str:
    text = _text(random_)
    for read in (payload.arguments(text), payload.result(text), payload.result(text, from_repr=True)):
        for unwrapped in (read, payload.blocks(read), payload.tool_message(read)[0], payload.mcp_result(read)[0]):
            _checked(unwrapped)
    return f"text: {_checked(payload.arguments(text))}"


def _try_cut(random_: random.Random) -> str:
    whole = json.dumps({_text(random_): random_.choice((_text(random_), [1, _text(random_)], {"k": None}, 1.5, True))})
    cut = payload.arguments(whole[: random_.randint(1, len(whole) - 1)])
    assert cut.unknown is Unknown.TRUNCATED, cut.unknown
    return "cut"


def main(argv: Sequence[str] | None = None) -> int:
    """Read `--count` made-up inputs; return 0, or raise what reading raised."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    random_ = random.Random(options.seed)
    spans = [span for name in captures.names() for span in captures.spans(name)]
    seen: collections.Counter[str] = collections.Counter()
    for number in range(options.count):
        began = time.perf_counter()
        kind = random_.randrange(4)
        try:
            what = _try_text(random_) if kind == 0 else _try_cut(random_) if kind == 1 else _try_span(random_, spans)
            assert time.perf_counter() - began < SLOW_S, "too slow"
        except BaseException:
            print(f"failed on input {number} of seed {options.seed}")
            raise
        seen[what] += 1
    for word, count in seen.most_common(30):
        print(f"{count:9} {word}")
    print(f"{options.count} inputs, nothing raised")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
