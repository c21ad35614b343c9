"""What is old or too much goes, oldest first and counted; nothing else goes; the disk gets its room back."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from otel_loopguard.scorer import retention, schema
from otel_loopguard.scorer.folder import DATABASE, WAL
from otel_loopguard.scorer.store import Store
from tests.scorer.storing import SERIES, arrival, judged, settled

_FOREVER: Final = 2**60


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store in a folder of its own."""
    made = Store(tmp_path)
    yield made
    made.close()


def fill(store: Store, count: int, *, size: int = 100, start: int = 0) -> None:
    """Judged groups of two runs each, one a nanosecond from `start` on."""
    for number in range(start, start + count):
        runs = tuple(judged(f"{number}{part}", judged_ns=number) for part in "ab")
        written = settled(store, (), f"{number}a", f"{number}b", runs=runs, facts=os.urandom(size), judged_ns=number)
        future = store.settle(written)
    future.result()


def test_old_groups_go_with_all_that_is_theirs(store: Store) -> None:
    """Those that were judged before a time, with runs and names; totals and what waits stay."""
    rows = store.append([arrival(1)]).result()
    fill(store, 10)
    assert {"age": 14, "size": 0} == store.evict(before_ns=7, max_bytes=_FOREVER)
    assert [f"{number}{part}" for number in (9, 8, 7) for part in "ba"] == [run.run_id for run in store.runs()]
    assert [] == store.groups_with({f"r:{number}a" for number in range(7)})
    assert 3 == len(store.groups_with({f"r:{number}a" for number in range(7, 10)}))
    assert ({SERIES: 20}, list(rows)) == (store.totals(), [one.row for one in store.pending()])
    assert {"age": 0, "size": 0} == store.evict(before_ns=7, max_bytes=_FOREVER)
    assert 6 == store.backlog("sink")


def test_more_than_one_transaction_takes_go(store: Store) -> None:
    """Eviction goes on until none is left that is old."""
    count = 2 * retention.BATCH_GROUPS + 1
    fill(store, count + 3)
    assert {"age": 2 * count, "size": 0} == store.evict(before_ns=count, max_bytes=_FOREVER)
    assert 6 == len(store.runs(limit=_FOREVER))


def test_too_much_goes_oldest_first(store: Store, tmp_path: Path) -> None:
    """Until what is in use fits, and not much more; the file becomes smaller."""
    fill(store, 300, size=20_000)
    store.evict(before_ns=0, max_bytes=_FOREVER)
    before = (tmp_path / DATABASE).stat().st_size
    limit = before // 2
    counts = store.evict(before_ns=0, max_bytes=limit)
    left = [int(run.run_id[:-1]) for run in store.runs(limit=_FOREVER)]
    assert sorted(range(300), reverse=True)[: len(left) // 2] == left[::2]
    assert {"age": 0, "size": 600 - len(left)} == counts
    after = (tmp_path / DATABASE).stat().st_size
    assert limit * 0.9 < after <= limit
    assert {"age": 0, "size": 0} == store.evict(before_ns=0, max_bytes=limit)


def test_what_waits_never_goes(store: Store) -> None:
    """However little room there is: it has been acknowledged."""
    store.append([arrival(number, facts=os.urandom(2000)) for number in range(500)]).result()
    fill(store, 3)
    assert {"age": 0, "size": 6} == store.evict(before_ns=0, max_bytes=0)
    assert 500 == len(list(store.pending()))
    assert {"age": 0, "size": 0} == store.evict(before_ns=0, max_bytes=0)


def test_a_group_that_was_evicted_while_it_was_judged(store: Store) -> None:
    """Its settlement fails, so that its runs are judged from what is there: nothing comes back by half."""
    fill(store, 1)
    (group,) = store.groups_with({"r:0a"})
    store.evict(before_ns=1, max_bytes=_FOREVER)
    error = store.settle(settled(store, (), "0a", merged=(group.group,))).exception()
    assert "a group that it merges is not there" in str(error)


def test_the_database_does_not_grow_without_end(store: Store, tmp_path: Path) -> None:
    """Arrivals that come and are settled, groups that come and go: the room of what is gone is used again."""
    sizes = []
    for turn in range(12):
        for number in range(4):
            rows = store.append([arrival(number, facts=os.urandom(3000)) for _ in range(100)]).result()
            run_id = f"{turn}-{number}"
            facts = os.urandom(20_000)
            store.settle(settled(store, rows, run_id, facts=facts, judged_ns=turn)).result()
        store.evict(before_ns=turn - 2, max_bytes=_FOREVER)
        sizes.append((tmp_path / DATABASE).stat().st_size)
    # Rows fall on pages as they do: a few pages more are no growth, where each turn brings three hundred.
    assert max(sizes[6:]) <= max(sizes[:6]) + 4 * 4096


def _load(store: Store, log: Path, megabytes: int) -> int:
    """Writes so much, and gives the largest size of the log meanwhile."""
    largest = 0
    for _ in range(megabytes):
        rows = store.append([arrival(1, facts=os.urandom(10_000)) for _ in range(100)]).result()
        store.settle(settled(store, rows)).result()
        largest = max(largest, log.stat().st_size)
    return largest


def test_the_log_does_not_grow_without_end(store: Store, tmp_path: Path) -> None:
    """Under load it stays near where it is copied back."""
    assert schema.CHECKPOINT_PAGES * schema.PAGE_BYTES < _load(store, tmp_path / WAL, 30) < schema.LOG_BYTES


def test_readers_that_relieve_each_other_do_not_let_the_log_grow(store: Store, tmp_path: Path) -> None:
    """Where there is never a moment without one, the log could not be used again, and would grow for ever."""
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            with store._readers.snapshot() as db:  # noqa: SLF001 - the worst that our own reads do, made long
                db.execute("SELECT count(*) FROM pending").fetchone()
                stop.wait(0.02)

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    try:
        largest = _load(store, tmp_path / WAL, 80)
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    assert schema.LOG_BYTES < largest < 3 * schema.LOG_BYTES


def test_nobody_begins_to_read_while_the_log_is_emptied(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who comes then waits until it is done: a row of readers could keep it from ever being so."""
    done = threading.Event()
    waited = []

    def read() -> None:
        store.totals()
        done.set()

    reader = threading.Thread(target=read)

    def empty(_: sqlite3.Connection) -> None:
        reader.start()
        waited.append(not done.wait(0.3))

    monkeypatch.setattr("otel_loopguard.scorer.store.empty_log", empty)
    store.evict(before_ns=0, max_bytes=_FOREVER)
    reader.join(30)
    assert ([True], True) == (waited, done.is_set())


def test_a_long_reader_does_not_hold_up_every_commit(store: Store, tmp_path: Path) -> None:
    """While a snapshot is read the log grows, and is short again soon after it."""
    before = store.counts.failed_commits
    with store._readers.snapshot() as db:  # noqa: SLF001 - as a backup has one
        db.execute("SELECT count(*) FROM pending").fetchone()
        assert _load(store, tmp_path / WAL, 40) > 3 * schema.LOG_BYTES
    _load(store, tmp_path / WAL, 5)
    store.evict(before_ns=0, max_bytes=_FOREVER)
    assert (tmp_path / WAL).stat().st_size < schema.LOG_BYTES
    assert before == store.counts.failed_commits


def test_a_reader_that_stops_in_the_middle_holds_nothing(store: Store, tmp_path: Path) -> None:
    """Recovery that is given up half way must not keep the log from being used again."""
    store.append([arrival(number) for number in range(20_000)]).result()
    half = store.pending()
    next(half)
    assert _load(store, tmp_path / WAL, 30) < schema.LOG_BYTES
    assert 2 == next(half).row
