"""Appends and settles under load until it is killed, and says what was acknowledged: for `test_store_kills`.

Run as `python tests/scorer/churn.py FOLDER SEED`. Each line of its output is written after a commit: `A ROW TRACE` for
an arrival, `S GROUP` for a settlement. A group's facts are the numbers of its rows; a settlement adds its new rows,
new runs and withdrawn runs to the totals.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path
from threading import Thread
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[2]))

import msgspec

from otel_loopguard.errors import StaleError
from otel_loopguard.scorer.records import Settlement
from otel_loopguard.scorer.store import Store
from tests.scorer.storing import arrival, judged

ROWS: Final = ("rows", ())
RUNS: Final = ("runs", (("kind", "new"),))
WITHDRAWN: Final = ("runs", (("kind", "withdrawn"),))
TRACES: Final = 40
_OPEN_REQUESTS: Final = 8


def say(line: str) -> None:
    """Tells the parent, in one write."""
    os.write(1, f"{line}\n".encode())


def send(store: Store, seed: int) -> None:
    """Sends requests for ever, some of them at once."""
    chance = random.Random(seed)
    while True:
        sent = []
        for _ in range(chance.randint(1, _OPEN_REQUESTS)):
            traces = [chance.randrange(TRACES) for _ in range(chance.randint(1, 20))]
            made = [arrival(trace, facts=chance.randbytes(chance.randint(0, 3000))) for trace in traces]
            sent.append((made, store.append(made)))
        for made, future in sent:
            for one, row in zip(made, future.result(), strict=True):
                say(f"A {row} {one.trace_id}")


def settle_some(store: Store, chance: random.Random) -> None:
    """Settles all rows of one trace, with the groups that it had before, under a run whose id may change."""
    waiting: dict[str, list[int]] = {}
    for one in store.pending():
        waiting.setdefault(one.trace_id, []).append(one.row)
    if not waiting:
        return
    trace_id = chance.choice(sorted(waiting))
    rows = waiting[trace_id]
    store.read(rows)
    before = store.groups_with({trace_id})
    known = {run.run_id: run for group in before for run in group.runs}
    run_id = f"{trace_id}~{chance.randint(1, 2)}"
    withdrawn = tuple(known) if run_id not in known else ()
    revision = known[run_id].verdict.revision + 1 if run_id in known else 1
    total = [row for group in before for row in msgspec.json.decode(group.facts)] + rows
    written = Settlement(
        group=store.next_group(),
        rows=tuple(rows),
        merged=tuple(group.group for group in before),
        names=(trace_id,),
        facts=msgspec.json.encode(total),
        spans=len(total),
        runs=(judged(run_id, revision=revision),),
        withdrawn=withdrawn,
        totals={ROWS: len(rows), RUNS: int(run_id not in known), WITHDRAWN: len(withdrawn)},
        judged_ns=len(total),
    )
    again = chance.random() < 0.2
    futures = [store.settle(written) for _ in range(1 + again)]  # what is settled twice must count once
    futures[0].result()
    if again and not isinstance(futures[1].exception(), StaleError):
        say("E settled twice")
    say(f"S {written.group}")


def main(folder: str, seed: int) -> None:
    """Runs until it is killed."""
    say("begin")
    store = Store(Path(folder))
    for number in range(3):
        Thread(target=send, args=(store, seed * 10 + number), daemon=True).start()
    chance = random.Random(seed)
    while True:
        settle_some(store, chance)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
