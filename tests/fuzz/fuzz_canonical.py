"""Fuzz the canonical form: both encoders and both parsers agree on whatever comes, and nothing but our error is raised.

Run as `python tests/fuzz/fuzz_canonical.py --count 100000 --seed 1`. Values are random trees of odd atoms; texts are
what `json.dumps` makes of them, whole or damaged. Where RFC 8785 can write a value, `rfc8785` must agree too.
"""

from __future__ import annotations

import argparse
import json
import random
import struct
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import rfc8785

sys.path.insert(0, str(Path(__file__).parents[2]))

from otel_loopguard.canonical import CanonicalError, encode, encode_slow, parse_json
from otel_loopguard.model import Unknown
from tests.lg1_values import EDGE_FLOATS, EDGE_INTS, ODD_CHARACTERS, read_form
from tests.test_canonical_parse import DuplicateError, plain_reading

_CHARACTERS: Final = ODD_CHARACTERS + 'abc123{}[],:"\\ \ud83d\ude00'
_DAMAGE: Final = (
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '"',
    "\\",
    "\\u003a",
    "\\u0061",
    "1",
    "e9",
    ".",
    "-",
    " ",
    "NaN",
    "\ud800",
)


def _text(chance: random.Random) -> str:
    return "".join(chance.choices(_CHARACTERS, k=chance.choice((0, 1, 1, 2, 5, 20))))


def _atom(chance: random.Random) -> Any:
    makers: list[Callable[[], Any]] = [
        lambda: chance.choice((None, True, False, 0, 1, -1)),
        lambda: chance.choice(EDGE_INTS),
        lambda: chance.randint(-(10**18), 10**18),
        lambda: chance.choice(EDGE_FLOATS),
        lambda: struct.unpack(">d", chance.randbytes(8))[0],
        lambda: round(chance.uniform(-1e6, 1e6), chance.randint(0, 6)),
        lambda: _text(chance),
        lambda: _text(chance).encode("utf-8", "replace").decode(),
    ]
    return chance.choice(makers)()


def _tree(chance: random.Random, depth: int) -> Any:
    kind = chance.random()
    if depth == 0 or kind < 0.3:
        return _atom(chance)
    size = chance.choice((0, 1, 2, 3, 6))
    if kind < 0.6:
        return [_tree(chance, depth - 1) for _ in range(size)]
    return {_text(chance): _tree(chance, depth - 1) for _ in range(size)}


def _outcome(function: Callable[[Any], Any], value: Any) -> Any:
    try:
        return function(value)
    except CanonicalError as error:
        return error.reason


def _check_value(value: Any) -> str:
    fast, slow = _outcome(encode, value), _outcome(encode_slow, value)
    assert slow == fast, ascii(value)
    if isinstance(fast, bytes):
        read_form(fast)
    try:
        expected = rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError):
        return "value beyond RFC 8785"
    if isinstance(fast, bytes) and b"\xff" not in fast:
        assert expected == fast, ascii(value)
    return "value"


def _check_text(text: str) -> str:
    try:
        expected: Any = plain_reading(text)
    except (ValueError, DuplicateError):
        expected = Unknown.UNPARSABLE
    read = _outcome(parse_json, text)
    if expected is Unknown.UNPARSABLE:
        assert read is Unknown.UNPARSABLE or text.startswith("\ufeff"), ascii(text)
        return "bad text"
    assert _outcome(encode, expected) == _outcome(encode, read), ascii(text)
    return "text"


def _damaged(chance: random.Random, text: str) -> str:
    for _ in range(chance.randint(1, 3)):
        at = chance.randint(0, len(text))
        text = text[:at] + chance.choice(_DAMAGE) + text[at + chance.choice((0, 0, 1, 2)) :]
    return text


def main() -> None:
    """Fuzz, then print how often each way was taken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    ways: Counter[str] = Counter()
    for _ in range(options.count):
        value = _tree(chance, chance.randint(0, 5))
        ways[_check_value(value)] += 1
        text = json.dumps(value, ensure_ascii=chance.random() < 0.5)
        ways[_check_text(text)] += 1
        ways[_check_text(_damaged(chance, text))] += 1
    print(dict(sorted(ways.items())))


if __name__ == "__main__":
    main()
