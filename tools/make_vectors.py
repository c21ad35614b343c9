"""Write the published test vectors of `lg1` and its digests to `tests/vectors/lg1.json`.

The inputs and the number samples stand here; forms come from the plain encoder, digests from HMAC and HKDF of
the standard library as docs/canonical-form.md describes them, not from the code under test.
Usage: python -m tools.make_vectors
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from otel_loopguard.canonical import CanonicalError, Opaque, encode_slow, parse_json
from tests.lg1_values import Order, Shape

PATH: Final = Path(__file__).resolve().parent.parent / "tests/vectors/lg1.json"

# RFC 8785, appendix B; NaN and Infinity are among the tagged forms.
RFC8785_NUMBERS: Final = """
0000000000000000 0
8000000000000000 0
0000000000000001 5e-324
8000000000000001 -5e-324
7fefffffffffffff 1.7976931348623157e+308
ffefffffffffffff -1.7976931348623157e+308
4340000000000000 9007199254740992
c340000000000000 -9007199254740992
4430000000000000 295147905179352830000
44b52d02c7e14af5 9.999999999999997e+22
44b52d02c7e14af6 1e+23
44b52d02c7e14af7 1.0000000000000001e+23
444b1ae4d6e2ef4e 999999999999999700000
444b1ae4d6e2ef4f 999999999999999900000
444b1ae4d6e2ef50 1e+21
3eb0c6f7a0b5ed8c 9.999999999999997e-7
3eb0c6f7a0b5ed8d 0.000001
41b3de4355555553 333333333.3333332
41b3de4355555554 333333333.33333325
41b3de4355555555 333333333.3333333
41b3de4355555556 333333333.3333334
41b3de4355555557 333333333.33333343
becbf647612f3696 -0.0000033333333333333333
43143ff3c1cb0959 1424953923781206.2
"""

JSON_TEXTS: Final[dict[str, str | bytes]] = {
    "null": "null",
    "true": " true\n",
    "empty_object": "{}",
    "empty_list": "[ ]",
    "empty_text": '""',
    "keys_sorted": '{"b": 1, "a": {"d": [], "c": null}}',
    "keys_sorted_by_utf16_unit": r'{"\u20ac":0,"\r":1,"\ufb33":2,"1":3,"\ud83d\ude00":4,"\u0080":5,"\u00f6":6}',
    "items_in_order": "[2, 1, 2]",
    "escapes": r'"\u0000\u001f\b\t\n\f\r\"\\\/\u007f\u2028\u00e9\u0041"',
    "surrogate_pair": r'"\ud83d\ude00"',
    "lone_surrogate": r'["\ud800", "\udc00\ud83d"]',
    "lone_surrogate_key": r'{"\ud800": 1}',
    "one": '{"level": 1}',
    "one_as_float": '{"level": 1.0}',
    "one_with_exponent": '{"level": 10e-1}',
    "minus_zero": "[-0, -0.0, 0, 0e5]",
    "float_as_javascript_writes_it": "[1e-7, 0.000001, 1e21, 123456789012345680000, 4.50]",
    "largest_exact_integer": "9007199254740991",
    "integers_above_2_53": "[9007199254740992, 9007199254740993, -9007199254740993]",
    "integer_of_30_digits": "123456789012345678901234567890",
    "float_above_2_53": "[1152921504606846976.0, 1.152921504606847e18, 1152921504606847000]",
    "nan_and_infinities": '{"v": [NaN, Infinity, -Infinity]}',
    "byte_order_mark": b"\xef\xbb\xbf{}",
    "depth_64": "[" * 64 + "]" * 64,
    "depth_65": "[" * 65 + "]" * 65,
    "brackets_in_text_are_no_depth": json.dumps({"text": "[{" * 100}),
    "duplicate_key": '{"a": 1, "a": 1}',
    "duplicate_key_escaped": r'{"a": 1, "\u0061": 2}',
    "duplicate_key_with_colons_in_text": r'{"a": ":", "b": {"a": "x", "a": "::"}, "u": "\u003a"}',
    "same_key_in_two_objects": '[{"a": 1}, {"a": {"a": 1}}]',
    "number_out_of_range": "1e400",
    "number_below_range_is_zero": "1e-400",
    "trailing_comma": "[1,]",
    "two_texts": "1 2",
    "unquoted": "{a: 1}",
    "single_quotes": "{'a': 1}",
    "control_character": '"\x01"',
    "not_utf8": b'"\xff"',
    "surrogate_in_utf8": b'"\xed\xa0\x80"',
    "utf16": '"a"'.encode("utf-16"),
    "empty": "",
}

TAGGED: Final[dict[str, tuple[str, Any]]] = {
    "nan": ("not a number", float("nan")),
    "infinity": ("infinity", float("inf")),
    "minus_infinity": ("minus infinity", float("-inf")),
    "nan_in_object": ("members v: not a number, a: 1", {"v": float("nan"), "a": 1}),
    "lone_surrogate": ("UTF-16 units 0061 d800", "a\ud800"),
    "lone_surrogate_key": ("members dc00: 1, a: 2", {"\udc00": 1, "a": 2}),
    "bytes": ("bytes 00 ff 61 62", b"\x00\xffab"),
    "opaque": ("the text x, were it above the size bound", Opaque.of("x")),
    "number_keys": ("a map from 1 to one and from a to null", {1: "one", "a": None}),
    "set": ("the set of 1, 2, 3", {3, 1, 2}),
    "decimal": ("Python Decimal 1.50", Decimal("1.50")),
    "enum": ("Python Enum Shape, member of value (1, round)", Shape.ROUND),
    "record": ("Python dataclass Order, number 7, note n", Order(7, "n")),
}

KEY_HEX: Final = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
TRACE: Final = "4bf92f3577b34da6a3ce929d0e0e4736"
DIGESTS: Final[list[tuple[str, str, str, list[Any]]]] = [
    ("call", "trace", TRACE, ["lookup_order", None, {"order_id": "A-17", "level": 1.0}]),
    ("call", "trace", "another-run", ["lookup_order", None, {"order_id": "A-17", "level": 1.0}]),
    ("call", "environment", "", ["lookup_order", None, {"order_id": "A-17", "level": 1.0}]),
    ("call", "trace", TRACE, ["lookup_order", {"tenant.id": "t1"}, None]),
    ("call", "trace", TRACE, ['tool with, "quotes"]', None, "free text"]),
    ("result", "trace", TRACE, ["lookup_order", {"state": "open"}]),
    ("result", "trace", TRACE, ["lookup_order", None]),
    ("state", "trace", TRACE, [{"step": 4}]),
    ("idempotency", "trace", TRACE, ["issue_refund", "r-1"]),
    ("business", "environment", "", ["issue_refund", {"order_id": "A-17", "amount": 20}]),
    ("item", "trace", TRACE, ["case-9"]),
    ("name", "environment", "", ["a name with spaces"]),
    ("conversation", "environment", "", ["thread-12"]),
]
LENGTHS: Final = {"item": 16, "name": 8}


def _json_row(name: str, text: str | bytes) -> dict[str, str]:
    raw = text.encode() if isinstance(text, str) else text
    row = {"name": name, "text_base64": base64.b64encode(raw).decode()}
    try:
        return {**row, "form_hex": encode_slow(parse_json(raw)).hex()}
    except CanonicalError as error:
        return {**row, "unknown": error.reason.value}


def _digest_row(kind: str, scope: str, scope_value: str, parts: list[Any]) -> dict[str, Any]:
    message = encode_slow(parts)
    root = hmac.new(b"otel-loopguard/lg1", bytes.fromhex(KEY_HEX), hashlib.sha256).digest()
    info = encode_slow([kind, scope, scope_value])
    subkey = hmac.new(root, info + b"\x01", hashlib.sha256).digest()
    digest = hmac.new(subkey, message, hashlib.sha256).hexdigest()[: LENGTHS.get(kind, 32)]
    return {
        "kind": kind,
        "scope": scope,
        "scope_value": scope_value,
        "parts": parts,
        "message_hex": message.hex(),
        "info": info.decode(),
        "subkey_hex": subkey.hex(),
        "digest_hex": digest,
    }


def vectors() -> dict[str, Any]:
    """All vectors, in a fixed order."""
    return {
        "profile": "lg1",
        "about": "Made by tools/make_vectors.py; rules in docs/canonical-form.md. Licence: that of the repository.",
        "rfc8785_numbers": [
            dict(zip(("ieee754", "form"), line.split(), strict=True)) for line in RFC8785_NUMBERS.split("\n") if line
        ],
        "json": [_json_row(name, text) for name, text in JSON_TEXTS.items()],
        "tagged": [
            {"name": name, "value": words, "form_hex": encode_slow(value).hex()}
            for name, (words, value) in TAGGED.items()
        ],
        "key_hex": KEY_HEX,
        "digests": [_digest_row(*row) for row in DIGESTS],
    }


def main() -> None:
    """Write the file."""
    PATH.parent.mkdir(exist_ok=True)
    PATH.write_text(json.dumps(vectors(), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
