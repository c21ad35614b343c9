"""The store keeps what it acknowledged, settles each row once, and reads back what was written."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import msgspec
import pytest

from otel_loopguard.errors import StaleError, StoreError
from otel_loopguard.model import Duplicates, RunOutcome, TerminationReason
from otel_loopguard.scorer.filters import Filters
from otel_loopguard.scorer.records import Arrival, Pending, Refusal, RefusedError
from otel_loopguard.scorer.store import Store
from tests.captures.summary import POLICY, SPANS
from tests.replaying import items_of, replay_items
from tests.scorer.storing import SERIES, arrival, judged, settled


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store in a folder of its own."""
    made = Store(tmp_path / "data")
    yield made
    made.close()


# --- arrivals ---------------------------------------------------------------------------------------------


def test_an_arrival_reads_back(store: Store) -> None:
    """All of it: its row from 1 on, what is held in memory, and its facts."""
    first, second = arrival(7, facts=b"", names=("r:job", "c:é"), root_ended=True), arrival(2**128 - 1)
    assert (1, 2) == store.append([first, second]).result()
    expected = [
        Pending(
            row=row,
            trace_id=one.trace_id,
            received_ns=one.received_ns,
            spans=3,
            names=one.names,
            root_ended=one.root_ended,
        )
        for row, one in ((1, first), (2, second))
    ]
    assert expected == list(store.pending())
    assert [b"facts", b"", b"facts"] == store.read([2, 1, 2])
    assert [] == store.read([])


def test_what_is_acknowledged_is_there_for_others_at_once(store: Store) -> None:
    """The future is done after the commit: each row can be read by whoever was told of it."""
    seen: list[list[bytes]] = []

    def look(done: Future[tuple[int, ...]]) -> None:
        seen.append(store.read(done.result()))

    for number in range(50):
        store.append([arrival(number, facts=b"%d" % number)]).add_done_callback(look)
    store.append([]).result()
    assert [[b"%d" % number] for number in range(50)] == seen


def test_rows_rise_in_the_order_of_their_futures(store: Store) -> None:
    """From many threads: futures are done in the order of their rows, and no number comes twice."""
    done: list[int] = []

    def send(thread: int) -> None:
        for number in range(40):
            future = store.append([arrival(thread), arrival(number)])
            future.add_done_callback(lambda found: done.extend(found.result()))

    threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.append([]).result()
    assert list(range(1, 4 * 40 * 2 + 1)) == done


def test_what_waits_is_committed_together(tmp_path: Path) -> None:
    """Requests that come while a commit goes on share the next one."""
    store = Store(tmp_path)
    held, go_on = threading.Event(), threading.Event()

    def hold(_: Future[tuple[int, ...]]) -> None:
        held.set()
        go_on.wait(30)

    store.append([arrival(1)]).add_done_callback(hold)
    held.wait(30)
    before = store.counts.commits
    futures = [store.append([arrival(number)]) for number in range(100)]
    assert store.counts.waiting_bytes > 0
    go_on.set()
    assert [(number + 2,) for number in range(100)] == [future.result() for future in futures]
    assert 1 == store.counts.commits - before
    assert 0 == store.counts.waiting_bytes
    store.close()


def test_more_than_may_wait_is_refused(tmp_path: Path) -> None:
    """What waits is bounded by its bytes; one request alone is taken whatever its size."""
    store = Store(tmp_path, max_waiting_bytes=5000)
    held, go_on = threading.Event(), threading.Event()

    def hold(_: Future[tuple[int, ...]]) -> None:
        held.set()
        go_on.wait(30)

    store.append([arrival(1, facts=os.urandom(9000))]).add_done_callback(hold)
    held.wait(30)
    futures = [store.append([arrival(2, facts=os.urandom(2000))]) for _ in range(2)]
    with pytest.raises(RefusedError) as refused:
        store.append([arrival(3, facts=os.urandom(2000))])
    assert Refusal.BUSY is refused.value.reason
    go_on.set()
    assert [(2,), (3,)] == [future.result() for future in futures]
    assert (4,) == store.append([arrival(3, facts=os.urandom(2000))]).result()
    store.close()


def test_a_cancelled_request_is_not_kept(tmp_path: Path) -> None:
    """Where nobody waits for the answer any more before the commit began, nothing is written."""
    store = Store(tmp_path)
    held, go_on = threading.Event(), threading.Event()

    def hold(_: Future[tuple[int, ...]]) -> None:
        held.set()
        go_on.wait(30)

    store.append([arrival(1)]).add_done_callback(hold)
    held.wait(30)
    assert store.append([arrival(2)]).cancel()
    last = store.append([arrival(3)])
    go_on.set()
    last.result()
    assert [f"{trace:032x}" for trace in (1, 3)] == [one.trace_id for one in store.pending()]
    assert 0 == store.counts.waiting_bytes
    store.close()


def test_a_trace_id_that_is_none_fails_alone(store: Store) -> None:
    """The caller is told before anything waits."""
    with pytest.raises(ValueError, match="hex"):
        store.append([Arrival(trace_id="no", received_ns=1, spans=1, facts=b"")])
    assert (1,) == store.append([arrival(1)]).result()


def test_a_number_that_no_column_holds_fails_alone(store: Store) -> None:
    """One request with a time past 64 bits does not fail those that are committed with it."""
    bad = Arrival(trace_id="0" * 32, received_ns=2**70, spans=1, facts=b"")
    futures = [store.append([arrival(1)]), store.append([arrival(5), bad]), store.append([arrival(2)])]
    assert isinstance(futures[1].exception(), StoreError)
    assert [f"{trace:032x}" for trace in (1, 2)] == [one.trace_id for one in store.pending()]
    assert store.counts.trouble is None


def test_many_rows_come_back_in_order(store: Store) -> None:
    """More than are read at once, while others are settled meanwhile."""
    rows = store.append([arrival(number) for number in range(25_000)]).result()
    found = store.pending()
    first = [next(found) for _ in range(10_000)]
    store.settle(settled(store, rows[:15_000], "a")).result()
    rest = [one.row for one in found]
    assert list(rows[:10_000]) == [one.row for one in first]
    assert list(rows[15_000:]) == rest


# --- settling ---------------------------------------------------------------------------------------------


def test_a_settlement_reads_back(store: Store) -> None:
    """Rows out, group in, runs, totals: all after one commit."""
    rows = store.append([arrival(1), arrival(2), arrival(3)]).result()
    written = settled(store, rows[::2], "a", "b", facts=b"both", totals={SERIES: 2, ("ms", ()): 0.5})
    before = store.counts.commits
    store.settle(written).result()
    assert 1 == store.counts.commits - before
    assert [2] == [one.row for one in store.pending()]
    (group,) = store.groups_with({"r:b", "r:elsewhere"})
    assert (written.group, b"both", written.names, written.runs) == (
        group.group,
        group.facts,
        group.names,
        group.runs,
    )
    assert group == store.group_of("a")
    assert (written.runs[0], None) == (store.run("a"), store.run("c"))
    assert ([], None) == (store.groups_with({"r:c"}), store.group_of("c"))
    assert {SERIES: 2, ("ms", ()): 0.5} == store.totals()
    with pytest.raises(StaleError):
        store.read([rows[0]])


@pytest.mark.parametrize("rows", [(1, 2), (1, 99), (2, 2)])
def test_rows_are_settled_once(store: Store, rows: tuple[int, ...]) -> None:
    """A settlement with a row that is gone, never was, or is named twice changes nothing."""
    store.append([arrival(1), arrival(2)]).result()
    store.settle(settled(store, (1,), "a")).result()
    with pytest.raises(StaleError):
        store.settle(settled(store, rows, "b", totals={SERIES: 5, ("more", ()): 1})).result()
    assert [2] == [one.row for one in store.pending()]
    assert ({SERIES: 1}, None, []) == (store.totals(), store.run("b"), store.groups_with({"r:b"}))


def test_a_stale_settlement_fails_alone(store: Store) -> None:
    """Others that are committed with it stand, before it and after it."""
    store.append([arrival(number) for number in range(3)]).result()
    written = [settled(store, rows, name) for rows, name in (((1,), "a"), ((1, 2), "b"), ((2,), "c"))]
    futures = [store.settle(one) for one in written]
    assert [None, StaleError, None] == [type(error) if (error := one.exception()) else None for one in futures]
    assert ({SERIES: 2}, [3]) == (store.totals(), [one.row for one in store.pending()])


def test_late_spans_revise_a_group(store: Store) -> None:
    """The old group goes with its names; its runs stay, are revised or withdrawn; a new one comes."""
    rows = store.append([arrival(1), arrival(2), arrival(3)]).result()
    first, other = settled(store, rows[:1], "stays", "goes", "changes"), settled(store, rows[1:2], "joins")
    store.settle(first).result()
    store.settle(other).result()
    revised = judged("changes", revision=2, outcome=RunOutcome.LOOP)
    more = {"merged": (first.group, other.group), "withdrawn": ("goes",), "runs": (revised,), "names": ("r:all",)}
    merged = settled(store, rows[2:], **more)
    store.settle(merged).result()
    assert [] == store.groups_with({"r:stays", "r:joins", "r:changes", "r:goes"})
    (group,) = store.groups_with({"r:all"})
    assert merged.group == group.group
    assert {"stays": 1, "joins": 1, "changes": 2} == {run.run_id: run.verdict.revision for run in group.runs}
    assert store.run("goes") is None
    assert revised == store.run("changes")
    assert {group.group} == {found.group for run in group.runs if (found := store.group_of(run.run_id))}


def test_a_group_may_keep_its_number(store: Store) -> None:
    """Where it merges itself."""
    rows = store.append([arrival(1), arrival(2)]).result()
    first = settled(store, rows[:1], "a", "b")
    store.settle(first).result()
    store.settle(settled(store, rows[1:], group=first.group, merged=(first.group,), names=("r:a",))).result()
    assert [] == store.groups_with({"r:b"})
    assert [(first.group, ("a", "b"))] == [
        (group.group, tuple(run.run_id for run in group.runs)) for group in store.groups_with({"r:a"})
    ]


def test_what_changed_meanwhile_is_not_settled(store: Store) -> None:
    """A number that is taken, a merged group that is gone, a run that is not the group's: nothing is written."""
    rows = store.append([arrival(1), arrival(2), arrival(3)]).result()
    first, other = settled(store, rows[:1], "a"), settled(store, rows[1:2], "b")
    store.settle(first).result()
    store.settle(other).result()
    state = (store.totals(), store.groups_with({"r:a", "r:b"}), list(store.pending()))
    for more in (
        {"group": first.group},
        {"merged": (99,)},
        {"merged": (first.group, first.group)},
        {"merged": (first.group,), "withdrawn": ("b",)},
        {"merged": (first.group,), "withdrawn": ("unknown",)},
        {"merged": (first.group,), "runs": (judged("b", revision=2),)},
        {"runs": (judged("a", revision=2),)},
    ):
        with pytest.raises(StaleError):
            store.settle(settled(store, rows[2:], **more)).result()
        assert state == (store.totals(), store.groups_with({"r:a", "r:b"}), list(store.pending()))


def test_a_group_without_runs_is_kept(store: Store) -> None:
    """Spans that tell nothing of a run stay findable by their trace."""
    rows = store.append([arrival(1)]).result()
    store.settle(settled(store, rows, names=("0" * 31 + "1",))).result()
    assert [()] == [group.runs for group in store.groups_with({"0" * 31 + "1"})]


def test_totals_add_up(store: Store) -> None:
    """Whole numbers stay whole, parts are added, labels keep series apart; a huge number becomes a float."""
    labels = (("release", "1"), ("tool", 'a"b\\é'))
    for value in (1, 2, 0.25):
        store.settle(settled(store, (), totals={("n", ()): 2, ("n", labels): value, ("big", ()): 2**70})).result()
    assert {("n", ()): 6, ("n", labels): 3.25, ("big", ()): 3.0 * 2**70} == store.totals()
    assert isinstance(store.totals()["n", ()], int)
    for value in (float("nan"), float("inf")):
        with pytest.raises(StoreError):
            store.settle(settled(store, (), totals={("n", ()): value})).result()
    assert 6 == store.totals()["n", ()]


def test_totals_are_dropped_after_the_additions(store: Store) -> None:
    """What a settlement forgets is gone, also what it added to that; a series never known is no fault."""
    old, kept = (("release", "1"),), (("release", "2"),)
    store.settle(settled(store, (), totals={("n", old): 1, ("n", kept): 1})).result()
    forgotten = (("n", old), ("m", old))
    store.settle(settled(store, (), totals={("n", old): 1, ("n", kept): 1}, forgotten=forgotten)).result()
    assert {("n", kept): 2} == store.totals()


# --- verdicts ---------------------------------------------------------------------------------------------


def test_every_captured_verdict_reads_back(store: Store) -> None:
    """Verdicts of real captures come back equal, with every field."""
    reports = [
        report
        for path in sorted(SPANS.glob("*.jsonl"))
        if not path.name.startswith("calls")
        for report in replay_items(items_of(path), POLICY)
    ]
    runs = {
        f"{number}": msgspec.structs.replace(judged(f"{number}"), verdict=report.verdict, tools={"t": number})
        for number, report in enumerate(reports)
    }
    store.settle(settled(store, (), runs=tuple(runs.values()))).result()
    assert runs == {run_id: store.run(run_id) for run_id in runs}
    assert {TerminationReason.UNKNOWN} < {run.verdict.termination_reason for run in runs.values()}


def test_runs_are_found_by_filters(store: Store) -> None:
    """Each filter alone and with others; the last judged first; page by page without a gap or a repeat."""
    outcomes = (RunOutcome.CLEAN, RunOutcome.LOOP)
    runs = [
        judged(
            f"{number:02}",
            outcome=outcomes[number % 2],
            service="ab"[number % 3 == 0],
            release=None if number % 5 else "v5",
            started_ns=None if number == 0 else number,
            judged_ns=number // 4,
        )
        for number in range(40)
    ]
    store.settle(settled(store, (), runs=tuple(runs))).result()
    newest = runs[::-1]
    assert newest == store.runs()
    assert newest[:3] == store.runs(limit=3)
    assert [run for run in newest if run.verdict.service == "b"] == store.runs(Filters(service="b"))
    assert [run for run in newest if run.verdict.release == "v5"] == store.runs(Filters(release="v5"))
    assert Counter(run.verdict.outcome for run in runs) == store.outcomes()
    loops = [run for run in newest if run.verdict.outcome is RunOutcome.LOOP and run.verdict.service == "a"]
    assert loops == store.runs(Filters(outcome=RunOutcome.LOOP, service="a"))
    paged = []
    before = None
    while page := store.runs(Filters(outcome=RunOutcome.LOOP), limit=3, before=before):
        paged += page
        before = (page[-1].judged_ns, page[-1].run_id)
    assert [run for run in newest if run.verdict.outcome is RunOutcome.LOOP] == paged


# --- outbox -----------------------------------------------------------------------------------------------


def test_each_sink_gets_each_run_until_it_had_it(store: Store) -> None:
    """In order of judging, at least once, each sink by its own cursor, which never goes back."""
    store.settle(settled(store, (), "a", "b", "c")).result()
    positions, runs = zip(*store.outbox("file", 2), strict=True)
    assert ["a", "b"] == [run.run_id for run in runs]
    assert positions == tuple(position for position, _ in store.outbox("file", 2))
    store.sent("file", positions[1])
    store.sent("file", positions[0])
    assert ["c"] == [run.run_id for _, run in store.outbox("file", 9)]
    assert ["a", "b", "c"] == [run.run_id for _, run in store.outbox("otlp", 9)]
    assert (1, 3) == (store.backlog("file"), store.backlog("otlp"))


def test_a_run_whose_copies_are_counted_is_not_sent_again(store: Store) -> None:
    """It keeps its place in the outbox, past which a sink is; one that is not there makes the settlement fail."""
    first = settled(store, (), "a")
    store.settle(first).result()
    ((position, run),) = store.outbox("file", 5)
    store.sent("file", position)
    verdict = msgspec.structs.replace(run.verdict, duplicates=Duplicates(identical=4))
    counted = msgspec.structs.replace(run, verdict=verdict)
    again = settled(store, (), names=first.names, merged=(first.group,), runs=(), recounted=(counted,))
    store.settle(again).result()
    assert (counted, [], 0) == (store.run("a"), list(store.outbox("file", 5)), store.backlog("file"))
    with pytest.raises(StaleError):
        store.settle(settled(store, (), merged=(again.group,), runs=(), recounted=(judged("b"),))).result()
    assert [again.group] == [group.group for group in store.groups_with(again.names)]


def test_a_revision_comes_again_and_so_does_what_is_withdrawn(store: Store) -> None:
    """A sink gets the newest revision of a run, once, and is told that a run is none any more, under the next one."""
    first = settled(store, (), "a", "b", "c")
    store.settle(first).result()
    store.sent("file", store.outbox("file", 9)[-1][0])
    more = {"merged": (first.group,), "runs": (judged("a", revision=2),), "withdrawn": ("b",)}
    second = settled(store, (), **more)
    store.settle(second).result()
    told = [(run.run_id, run.verdict.revision, run.withdrawn) for _, run in store.outbox("file", 9)]
    assert [("b", 2, True), ("a", 2, False)] == told
    assert ["c", "b", "a"] == [run.run_id for _, run in store.outbox("new", 9)]
    assert (2, 3) == (store.backlog("file"), store.backlog("new"))
    assert [None, ["a", "c"]] == [store.run("b"), sorted(run.run_id for run in store.runs())]
    store.sent("file", store.outbox("file", 9)[-1][0])
    third = settled(store, (), merged=(second.group,), withdrawn=("a", "c"))
    store.settle(third).result()
    assert [("a", 3), ("c", 2)] == [(run.run_id, run.verdict.revision) for _, run in store.outbox("file", 9)]
    back = settled(store, (), merged=(third.group,), runs=(judged("a", revision=4),))
    store.settle(back).result()
    told = [(run.run_id, run.verdict.revision, run.withdrawn) for _, run in store.outbox("file", 9)]
    assert [("c", 2, True), ("a", 4, False)] == told


def test_what_was_withdrawn_long_ago_is_not_kept(store: Store) -> None:
    """It goes with age, as runs do, and for want of room before any of them."""
    first = settled(store, (), "a", "b", "c")
    store.settle(first).result()
    second = settled(store, (), names=("r:a",), merged=(first.group,), withdrawn=("b",), judged_ns=10)
    store.settle(second).result()
    assert ["b"] == [run.run_id for _, run in store.outbox("new", 9) if run.withdrawn]
    assert {"age": 0, "size": 0} == store.evict(before_ns=10, max_bytes=10**9)
    assert 3 == store.backlog("new")
    store.settle(settled(store, (), merged=(second.group,), withdrawn=("c",), judged_ns=20)).result()
    store.evict(before_ns=20, max_bytes=10**9)
    assert ["a", "c"] == [run.run_id for _, run in store.outbox("new", 9)]
    store.evict(before_ns=0, max_bytes=0)
    assert 0 == store.backlog("new")


# --- opening again ----------------------------------------------------------------------------------------


def test_all_is_there_after_opening_again(tmp_path: Path) -> None:
    """Also the numbers that were used and are gone: none comes twice."""
    store = Store(tmp_path)
    rows = store.append([arrival(1), arrival(2)]).result()
    first = settled(store, rows, "a")
    store.settle(first).result()
    (position,) = [position for position, _ in store.outbox("file", 9)]
    store.sent("file", position)
    store.settle(settled(store, (), group=first.group, merged=(first.group,), withdrawn=("a",))).result()
    store.evict(before_ns=10, max_bytes=10**9)
    store.close()
    store = Store(tmp_path)
    assert (3,) == store.append([arrival(3)]).result()
    assert first.group < store.next_group()
    store.settle(settled(store, (3,), "b")).result()
    ((newest, run),) = store.outbox("file", 9)
    assert ("b", True) == (run.run_id, newest > position)
    assert {SERIES: 2} == store.totals()
    store.close()


def test_a_closed_store_refuses(tmp_path: Path) -> None:
    """What waits is committed first; after that nothing is taken or read, and closing again does nothing."""
    store = Store(tmp_path)
    waiting = [store.append([arrival(number)]) for number in range(20)]
    store.close()
    store.close()
    assert [(number + 1,) for number in range(20)] == [future.result() for future in waiting]
    acts = (
        lambda: store.append([arrival(1)]),
        lambda: store.settle(settled(store, ())),
        lambda: store.sent("file", 1),
    )
    for act in acts:
        with pytest.raises(RefusedError) as refused:
            act()
        assert Refusal.STOPPING is refused.value.reason
    with pytest.raises(StoreError):
        store.totals()


def test_all_files_are_the_owners_alone(tmp_path: Path) -> None:
    """0600, and 0700 for the folder that was made, whatever the umask; also the log while it is open."""
    before = os.umask(0)
    try:
        store = Store(tmp_path / "a/data")
        store.append([arrival(1)]).result()
        store.backup(tmp_path / "copy")
    finally:
        os.umask(before)
    for folder in (tmp_path / "a/data", tmp_path / "copy"):
        assert 0o700 == folder.stat().st_mode & 0o777
        modes = {file.name: file.stat().st_mode & 0o777 for file in folder.iterdir()}
        assert {0o600} == set(modes.values()), modes
    assert {"scorer.sqlite3-wal", "scorer.sqlite3-shm"} < {file.name for file in (tmp_path / "a/data").iterdir()}
    store.close()


def test_a_backup_while_running_opens(store: Store, tmp_path: Path) -> None:
    """It has what was acknowledged before it began, and the store goes on meanwhile and after."""
    rows = store.append([arrival(number) for number in range(2000)]).result()
    store.settle(settled(store, rows[:5], "a")).result()
    stop = threading.Event()

    def send() -> None:
        while not stop.is_set():
            store.append([arrival(1)]).result()

    sender = threading.Thread(target=send)
    sender.start()
    try:
        store.backup(tmp_path / "copy")
    finally:
        stop.set()
        sender.join()
    copy = Store(tmp_path / "copy")
    found = [one.row for one in copy.pending()]
    assert list(rows[5:]) == found[: len(rows) - 5]
    assert list(range(6, found[-1] + 1)) == found
    assert (judged("a"), {SERIES: 1}) == (copy.run("a"), copy.totals())
    assert copy.append([arrival(1)]).result()[0] == found[-1] + 1
    copy.close()
    with pytest.raises(StoreError, match="not empty"):
        store.backup(tmp_path / "copy")
