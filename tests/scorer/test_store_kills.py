"""A process that is killed at any point loses nothing that it acknowledged and counts nothing twice.

`STORE_KILLS` says how often it is killed.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Final

import msgspec

from otel_loopguard.scorer.store import Store
from tests.scorer import churn

KILLS: Final = int(os.environ.get("STORE_KILLS", "30"))
_LONGEST_S: Final = 0.6
_SAME_FOLDER: Final = 10
"""Kills in a row on one folder; it grows, and what is checked with it."""


def said_until_killed(folder: Path, seed: int) -> list[str]:
    """All that a process said that was killed at some point."""
    command = [sys.executable, churn.__file__, str(folder), str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:  # noqa: S603 - our own words
        assert child.stdout is not None
        lines = [child.stdout.readline()]
        longest = 0.01 if seed % 5 == 0 else _LONGEST_S  # sometimes while it is opening what the last one left
        ends = time.monotonic() + random.Random(seed).uniform(0, longest)
        os.set_blocking(child.stdout.fileno(), False)
        rest = b""
        while time.monotonic() < ends:
            rest += child.stdout.read() or b""
            time.sleep(0.002)
        child.send_signal(signal.SIGKILL)
        child.wait()
        os.set_blocking(child.stdout.fileno(), True)
        rest += child.stdout.read() or b""
    assert [b"begin\n"] == lines
    return rest.decode().splitlines()


def test_kills_under_load(tmp_path: Path) -> None:
    """After each kill: each acknowledged row once, each run once, totals as the groups say."""
    acknowledged: dict[int, str] = {}
    settled = 0
    for seed in range(KILLS):
        folder = tmp_path / str(seed // _SAME_FOLDER)
        if not folder.exists():
            acknowledged.clear()
        for line in said_until_killed(folder, seed):
            match line.split():
                case ["A", row, trace_id]:
                    acknowledged[int(row)] = trace_id
                case ["S", _]:
                    settled += 1
                case other:
                    raise AssertionError(other)
        store = Store(folder)
        check(store, acknowledged)
        store.close()
    assert settled > KILLS
    assert acknowledged


def check(store: Store, acknowledged: dict[int, str]) -> None:
    """Compares what is stored with what was said, and with itself."""
    waiting = {one.row: one.trace_id for one in store.pending()}
    groups = store.groups_with({f"{number:032x}" for number in range(churn.TRACES)})
    judged = Counter(row for group in groups for row in msgspec.json.decode(group.facts))
    found = waiting | {row: group.names[0] for group in groups for row in msgspec.json.decode(group.facts)}
    assert acknowledged.items() <= found.items()
    assert set() == waiting.keys() & judged.keys()
    assert {1} >= set(judged.values())
    runs = [run.run_id for run in store.runs(limit=10**6)]
    assert sorted(run.run_id for group in groups for run in group.runs) == sorted(runs)
    assert len(set(runs)) == len(runs)
    totals = store.totals()
    assert len(judged) == totals.get(churn.ROWS, 0)
    assert len(runs) == totals.get(churn.RUNS, 0) - totals.get(churn.WITHDRAWN, 0)
    assert len(waiting) == len(store.read(list(waiting)))
