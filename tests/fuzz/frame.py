"""What the fuzz scripts share: the loop over made-up inputs, damage to bytes, and how much memory is taken.

Invariants: an input depends on the seed and its number alone, so that one that failed is made again by its number.
"""

from __future__ import annotations

import argparse
import collections
import random
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

_STEPS: Final = 10
"""How often a long run says how far it is."""
_STEP_INPUTS: Final = 100_000
_MAX_BYTES: Final = 20_000


def try_all(
    doc: str | None,
    argv: Sequence[str] | None,
    attempt: Callable[[random.Random, int], Iterable[str]],
    *,
    state: Callable[[], str] = lambda: "",
) -> int:
    """Tries the inputs that the command line asks for, and prints what came of them.

    Args:
        doc: of the script.
        argv: arguments; None: the process's.
        attempt: makes and tries one input, given its chances and its number; says in words what came of it.
        state: said along with how far a long run is.

    Returns:
        0: nothing was raised.
    """
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first input; makes one again that failed")
    options = parser.parse_args(argv)
    seen: collections.Counter[str] = collections.Counter()
    begun, step = time.monotonic(), max(_STEP_INPUTS, options.count // _STEPS)
    for number in range(options.first, options.first + options.count):
        try:
            seen.update(attempt(random.Random(options.seed * 1_000_003 + number), number))
        except BaseException:
            print(f"failed: make it again with --seed {options.seed} --first {number} --count 1", flush=True)
            raise
        if (number + 1) % step == 0:
            print(f"{number + 1:9} inputs after {time.monotonic() - begun:.0f} s; {state()}", flush=True)
    for word, count in sorted(seen.items(), key=lambda entry: -entry[1]):
        print(f"{count:9} {word}")
    print(f"{options.count} inputs in {time.monotonic() - begun:.0f} s, nothing raised")
    return 0


def damage(random_: random.Random, data: bytes, tokens: Sequence[bytes]) -> bytes:
    """The same bytes, or their beginning, with one to six changes.

    Args:
        random_: says which.
        data: sound.
        tokens: that may come in between.
    """
    changed = bytearray(data[:_MAX_BYTES])
    for _ in range(random_.randint(1, 6)):
        place = random_.randrange(len(changed) + 1)
        match random_.randrange(5):
            case 0:
                changed[place:place] = random_.choice(tokens)
            case 1:
                del changed[place : place + random_.randint(1, 50)]
            case 2 if place < len(changed):
                changed[place] = random_.randrange(256)
            case 3:
                changed[place:place] = changed[place : place + random_.randint(1, 200)]
            case _:
                token = random_.choice(tokens)
                changed[place : place + len(token)] = token
    return bytes(changed)


def memory_mib(pid: int | str = "self", *, peak: bool = False) -> float:
    """Memory of a process in MiB: resident now, or the most that it ever was."""
    wanted = "VmHWM:" if peak else "VmRSS:"
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(wanted)) / 1024
