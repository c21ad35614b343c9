"""What a call digest costs, as a ratio to sorted `json.dumps` and `hmac.new` in the same run.

Run as `python tests/bench/bench_canonical.py`. Only the ratios are worth comparing; both sides of one are timed in
turn, the best of many rounds each. The goal is 0.5 for the parsed value at 500 bytes.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import sys
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[2]))

from otel_loopguard.canonical import encode_slow, parse_json
from otel_loopguard.digest import Digester, Key

_SECRET: Final = bytes(range(32))
_SIZES: Final = (50, 500, 5_000)
_ROUNDS: Final = 15
_ROUND_BYTES: Final = 500_000
"""Each round digests about this much, so that all sizes run equally long."""


def _text(size: int) -> dict[str, Any]:
    """Few keys, long text: an edit of a file."""
    half = (size - 40) // 2
    return {"path": "src/app.py", "old": "x" * half, "new": "y" * half}


def _flat(size: int) -> dict[str, Any]:
    """Keys with short values: a query."""
    value: dict[str, Any] = {"query": "refund", "limit": 10}
    while len(json.dumps(value)) < size:
        number = len(value)
        value[f"field_{number * 7919 % 1000}"] = number if number % 3 == 0 else f"a value of some length {number}"
    return value


def _nested(size: int) -> dict[str, Any]:
    """Many small objects: a batch."""
    items: list[dict[str, Any]] = []
    while not items or len(json.dumps({"items": items})) < size:
        items.append({"id": len(items), "ok": True, "name": f"n{len(items)}"})
    return {"page": 1, "items": items}


def _numbers(size: int) -> dict[str, Any]:
    """Floats, every other one whole: coordinates."""
    points: list[list[float]] = []
    while not points or len(json.dumps({"points": points})) < size:
        points.append([59.329323 + len(points), 18.0, 0.5 * len(points)])
    return {"zoom": 3.0, "points": points}


_SHAPES: Final[dict[str, Callable[[int], dict[str, Any]]]] = {
    "text": _text,
    "flat": _flat,
    "nested": _nested,
    "numbers": _numbers,
}


def _best(first: Callable[[], object], second: Callable[[], object], runs: int) -> tuple[float, float]:
    """The best time a run of both, in seconds, timed in turn so that both see the same machine."""
    times = [(timeit.timeit(first, number=runs), timeit.timeit(second, number=runs)) for _ in range(_ROUNDS)]
    return min(one for one, _ in times) / runs, min(two for _, two in times) / runs


def _row(shape: str, size: int) -> str:
    value = _SHAPES[shape](size)
    text = json.dumps(value)
    digester = Digester(Key("bench", _SECRET), scope_value="0" * 32)
    runs = max(20, _ROUND_BYTES // len(text) // 5)

    def ours() -> object:
        return digester.call("lookup_order", value)

    def theirs() -> object:
        return hmac.new(_SECRET, json.dumps(value, sort_keys=True).encode(), hashlib.sha256).hexdigest()

    def ours_from_text() -> object:
        return digester.call("lookup_order", parse_json(text))

    def theirs_from_text() -> object:
        dumped = json.dumps(json.loads(text), sort_keys=True).encode()
        return hmac.new(_SECRET, dumped, hashlib.sha256).hexdigest()

    one, two = _best(ours, theirs, runs)
    three, four = _best(ours_from_text, theirs_from_text, runs)
    slow = timeit.timeit(lambda: encode_slow(value), number=20) / 20
    return (
        f"{shape:8} {len(text):6} {one * 1e6:8.1f} {two * 1e6:8.1f} {one / two:6.2f}"
        f" {three * 1e6:10.1f} {four * 1e6:8.1f} {three / four:6.2f} {slow * 1e6:10.1f}"
    )


def main() -> None:
    """Print one line a shape and size."""
    print("                µs, from the parsed value     µs, from JSON text        µs, form only")
    print("shape     bytes     ours   stdlib  ratio       ours   stdlib  ratio  encode_slow")
    for shape in _SHAPES:
        for size in _SIZES:
            print(_row(shape, size))


if __name__ == "__main__":
    main()
