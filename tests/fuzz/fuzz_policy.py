"""Feeds random and mutated policies to the loader: each must give a policy or a `PolicyError`, and nothing else.

Run: `python tests/fuzz/fuzz_policy.py --count 20000 [--seed 1]`. Exit code 1 after the first input that gives
anything else or takes longer than `SLOW_S`; its text is printed.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from pathlib import Path
from typing import Any, Final

from otel_loopguard.errors import PolicyError
from otel_loopguard.model import Signals
from otel_loopguard.policy import Policy, load
from otel_loopguard.policy.fields import TABLES

FIXTURES: Final = Path(__file__).resolve().parent.parent / "fixtures" / "policies"
SLOW_S: Final = 10.0
"""A generous bound that tells a hang from a busy machine."""
WORDS: Final = (
    "null", "true", "on", "~", "0", "-1", "1e999", "99999999999999999999", ".inf", "0x1f", "1:30", "''", "[]", "{}",
    "a.b[].c", "max(a)", "a[?b]", "(a)\\1", "[a-", "\\d+", ".*", "&a", "*a", "!!python/object:os.system", "|", ">",
    "# c", "---", "...", "%YAML 1.1", "\t", "\u0000", "\ud800", "\u2028", "\ufeff", "é", "<<: *x", "? [x]", "- - -",
    '"\\UFFFFFFFF"', '"\\uD800"', "version", "2026-01-01", "`{`", "a || b", "@", "to_string(@)", '"odd',
)  # fmt: skip
VALUES: Final[tuple[Any, ...]] = (
    None,
    True,
    0,
    1,
    -1,
    3,
    2.5,
    1e300,
    "",
    "x",
    "read",
    "write",
    [],
    {},
    ["a"],
    ["a", "a"],
    [[1]],
    {"a": 1},
)
SAMPLES: Final[tuple[Any, ...]] = (
    None,
    "text",
    7,
    [],
    {},
    {"a": None, "b": [{"a": 1}]},
    [{"a": [[{"b": "x"}]]}],
    "a\ud800",
)


class _Digests:
    def state(self, value: Any) -> str:
        return f"{len(repr(value)):032x}"

    def item(self, value: Any) -> int:
        return len(repr(value))


def texts(rng: random.Random, seeds: list[str]) -> str:
    """One input: a mutated seed, a random document of known keys, or noise."""
    choice = rng.randrange(10)
    if choice < 4:
        return _mutated(rng, rng.choice(seeds))
    if choice < 9:
        document = _document(rng)
        text = json.dumps(document) if rng.random() < 0.5 else _yaml(document)
        return text if rng.random() < 0.7 else _mutated(rng, text)
    return "".join(
        rng.choice((*WORDS, " ", "\n", ": ", "- ", "{", "}", "[", "]", ",", '"')) for _ in range(rng.randrange(60))
    )


def _mutated(rng: random.Random, text: str) -> str:
    for _ in range(rng.randrange(1, 5)):
        start = rng.randrange(len(text) + 1)
        end = min(len(text), start + rng.randrange(12))
        kind = rng.randrange(4)
        if kind == 0:
            text = text[:start] + text[end:]
        elif kind == 1:
            text = text[:start] + rng.choice(WORDS) + text[end:]
        elif kind == 2:
            text = text[:start] + text[start:end] * rng.randrange(2, 6) + text[end:]
        else:
            text = text[:start] + chr(rng.choice((rng.randrange(128), rng.randrange(0x11000)))) + text[end:]
    return text


def _document(rng: random.Random) -> dict[str, Any]:
    tables = {table.title: list(table.fields) for table in TABLES}

    def value(name: str, depth: int) -> Any:
        if name in tables and depth < 5 and rng.random() < 0.8:
            inner = {
                key: value(key, depth + 1) for key in rng.sample(tables[name], rng.randrange(min(5, len(tables[name]))))
            }
            return [inner] if name == "progress" else inner
        if name == "tools":
            return {rng.choice(("t", "u", "on", "7")): value("tool", depth + 1) for _ in range(rng.randrange(3))}
        return rng.choice((*VALUES, *WORDS[:24]))

    found = {"version": 1, "policy": "p", "policy_version": rng.choice(("1", 7))}
    for key in rng.sample(tables["policy"], rng.randrange(6)):
        if key not in found or rng.random() < 0.1:
            found[key] = value(key, 0)
    return found


def _yaml(document: Any, indent: int = 0) -> str:
    lines = []
    for key, value in document.items():
        if isinstance(value, dict) and value:
            lines.append(f"{' ' * indent}{key}:\n{_yaml(value, indent + 2)}")
        elif isinstance(value, str):
            lines.append(f"{' ' * indent}{key}: {value}\n")
        else:
            lines.append(f"{' ' * indent}{key}: {json.dumps(value)}\n")
    return "".join(lines)


def use(policy: Policy) -> None:
    """Runs every method of every contract over odd values: none may raise."""
    digests = _Digests()
    for tool in [*policy.tools, "undeclared"]:
        contract = policy.contract(tool)
        before: Signals | None = None
        for sample in SAMPLES:
            contract.arguments(sample)
            contract.result(sample)
            contract.identity(sample)
            contract.business(sample)
            contract.idempotency(sample)
            now = contract.signals(sample, sample, digests)
            contract.compare(before, now, frozenset())
            before = now
    for sample in SAMPLES:
        if isinstance(sample, str):
            policy.errors.is_error_text(sample)
            policy.errors.categorise(error_type=sample, text=sample)


def run(count: int, seed: int) -> int:
    """Returns the exit code."""
    rng = random.Random(seed)
    seeds = [path.read_text(encoding="utf-8") for path in sorted(FIXTURES.rglob("*.yaml"))]
    policies = 0
    for number in range(count):
        text = texts(rng, seeds)
        started = time.monotonic()
        try:
            use(load(text, source="fuzz"))
            policies += 1
        except PolicyError as error:
            fault = "" if error.problems and all(line.isprintable() for line in error.problems) else "unclear problems"
        except BaseException as error:  # noqa: BLE001 - finding these is what this script is for
            fault = repr(error)
        else:
            fault = ""
        if time.monotonic() - started > SLOW_S:
            fault = fault or "slow"
        if fault:
            print(f"input {number} of seed {seed}: {fault}\n{text!r}")
            return 1
    print(f"{count} inputs, {policies} policies, {count - policies} refused")
    return 0


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    sys.exit(run(options.count, options.seed))


if __name__ == "__main__":
    main()
