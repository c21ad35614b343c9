"""A full, read-only or damaged disk, a folder in use, a database of another kind: said clearly, and nothing is lost."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from otel_loopguard.errors import StoreError
from otel_loopguard.scorer import schema
from otel_loopguard.scorer.folder import DATABASE, LOCK, MARK, WAL
from otel_loopguard.scorer.records import Refusal, RefusedError
from otel_loopguard.scorer.store import Store
from otel_loopguard.scorer.writer import Writer
from tests.scorer.storing import arrival, settled

ROOT: Final = Path(__file__).resolve().parents[2]
_NOBODY: Final = 65_534
_KIB: Final = 1024


def refusal(store: Store, size: int) -> Refusal | None:
    """Why an arrival of so many bytes is not kept; None where it is."""
    try:
        store.append([arrival(1, facts=os.urandom(size))]).result()
    except RefusedError as error:
        return error.reason
    return None


def rows_of(store: Store) -> list[int]:
    """The rows that wait to be judged."""
    return [one.row for one in store.pending()]


def complaint(folder: Path) -> str:
    """What is said of a folder that no store can be opened on."""
    with pytest.raises(StoreError) as refused:
        Store(folder)
    return str(refused.value)


@contextmanager
def disk(folder: Path, *options: str) -> Iterator[None]:
    """A disk of its own in memory, mounted on a folder."""
    folder.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(folder)]
    made = subprocess.run(command, capture_output=True, check=False)  # noqa: S603 - our own words
    if made.returncode:
        pytest.skip("needs to mount a tmpfs: run as root, in a container with --cap-add SYS_ADMIN")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)  # noqa: S603, S607 - our own words


# --- full disks -------------------------------------------------------------------------------------------


def test_a_full_database_refuses_and_goes_on_by_itself(tmp_path: Path) -> None:
    """No room: refused and nothing kept of it. Settling makes room, and arrivals are taken again."""
    store = Store(tmp_path, max_pages=80)
    kept: list[int] = []
    while refusal(store, 20 * _KIB) is None:
        kept.append(len(kept) + 1)
    assert len(kept) > 5
    assert [Refusal.DISK_FULL] * 3 == [refusal(store, 20 * _KIB) for _ in range(3)]
    assert Refusal.DISK_FULL is store.counts.trouble
    assert kept == rows_of(store)
    store.settle(settled(store, tuple(kept[2:]), "a")).result()
    assert refusal(store, 20 * _KIB) is None
    assert store.counts.trouble is None
    newest = rows_of(store)[-1]
    store.close()
    store = Store(tmp_path)
    assert [*kept[:2], newest] == rows_of(store)
    store.close()


def test_what_makes_room_is_not_refused_with_what_needs_it(tmp_path: Path) -> None:
    """A settlement that shares its commit with an arrival that finds no room is written all the same."""
    store = Store(tmp_path, max_pages=80)
    while refusal(store, 20 * _KIB) is None:
        pass
    held, go_on = threading.Event(), threading.Event()

    def hold(_: object) -> None:
        held.set()
        go_on.wait(30)

    store.append([]).add_done_callback(hold)
    held.wait(30)
    too_large = store.append([arrival(1, facts=os.urandom(900 * _KIB))])
    settling = store.settle(settled(store, (1, 2, 3), "a"))
    go_on.set()
    error = too_large.exception()
    assert isinstance(error, RefusedError)
    assert Refusal.DISK_FULL is error.reason
    assert settling.exception() is None
    assert store.run("a") is not None
    store.close()


def test_a_full_disk_refuses_and_goes_on_by_itself(tmp_path: Path) -> None:
    """A real disk that somebody else fills, and then frees: all that was acknowledged is there, nothing else."""
    with disk(tmp_path / "disk", "size=4m"):
        folder, filler = tmp_path / "disk/data", tmp_path / "disk/filler"
        store = Store(folder)
        assert refusal(store, 40 * _KIB) is None
        with pytest.raises(OSError, match="space"):
            filler.write_bytes(bytes(4096 * _KIB))
        kept = [1]
        while (reason := refusal(store, 40 * _KIB)) is None:  # the log may have room left
            kept.append(kept[-1] + 1)
        assert Refusal.DISK_FULL is reason
        assert kept == rows_of(store)
        filler.unlink()
        assert refusal(store, 40 * _KIB) is None
        kept.append(rows_of(store)[-1])
        store.close()
        store = Store(folder)
        assert kept == rows_of(store)
        store.close()


def test_a_full_disk_at_the_start(tmp_path: Path) -> None:
    """Says so, and leaves nothing that hinders the next start."""
    with disk(tmp_path / "disk", "size=64k"):
        folder, filler = tmp_path / "disk/data", tmp_path / "disk/filler"
        filler.write_bytes(bytes(20 * _KIB))
        assert "full: free some space" in complaint(folder)
    with disk(tmp_path / "disk", "size=4m"):
        Store(folder).close()


def test_a_backup_that_finds_no_room_leaves_nothing_that_opens(tmp_path: Path) -> None:
    """It says so, the store goes on, and half a copy is not taken for one."""
    store = Store(tmp_path / "data")
    store.append([arrival(number, facts=os.urandom(4 * _KIB)) for number in range(400)]).result()
    with disk(tmp_path / "disk", "size=256k"):
        with pytest.raises(StoreError, match="full: free some space"):
            store.backup(tmp_path / "disk/copy")
        assert not (tmp_path / "disk/copy" / DATABASE).exists()
        assert not (tmp_path / "disk/copy" / MARK).exists()
    assert (401,) == store.append([arrival(1)]).result()
    store.close()


def test_a_failing_disk_refuses_and_goes_on_by_itself(tmp_path: Path) -> None:
    """Another fault than a full disk: the connection is made anew, and nothing acknowledged is lost."""
    store = Store(tmp_path)
    assert refusal(store, 40 * _KIB) is None
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 * _KIB, limits[1]))
    try:
        reasons = [refusal(store, 200 * _KIB) for _ in range(3)]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [Refusal.STORE_FAILED] * 3 == reasons
    assert refusal(store, 200 * _KIB) is None
    rows = rows_of(store)
    assert (1, 2) == (rows[0], len(rows))
    store.close()
    store = Store(tmp_path)
    assert rows == rows_of(store)
    store.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_nobody_waits_for_a_writer_that_is_gone(tmp_path: Path) -> None:
    """After a fault that nobody foresaw everything is refused, what waits and what comes."""
    connect = partial(sqlite3.connect, tmp_path / "x", check_same_thread=False)
    writer = Writer(
        connect(), connect, check=lambda: None, log=tmp_path / WAL, empty_log=schema.empty_log, max_waiting_bytes=1
    )
    held, go_on = threading.Event(), threading.Event()

    def fail(_: sqlite3.Connection) -> None:
        held.set()
        go_on.wait(30)
        raise RuntimeError

    first = writer.put(fail)
    held.wait(30)
    second = writer.put(lambda _: None)
    go_on.set()
    for future in (first, second):
        error = future.exception()
        assert isinstance(error, RefusedError)
        assert Refusal.STORE_FAILED is error.reason
    writer.close()
    with pytest.raises(RefusedError) as refused:
        writer.put(lambda _: None)
    assert Refusal.STORE_FAILED is refused.value.reason


def test_a_database_that_was_moved_away_takes_nothing(tmp_path: Path) -> None:
    """Nor does another in its place; put back, it goes on."""
    folder, away = tmp_path / "data", tmp_path / "away"
    store = Store(folder)
    assert refusal(store, _KIB) is None
    folder.rename(away)
    assert Refusal.STORE_FAILED is refusal(store, _KIB)
    other = Store(folder)
    assert Refusal.STORE_FAILED is refusal(store, _KIB)
    assert [] == rows_of(other)
    other.close()
    shutil.rmtree(folder)
    away.rename(folder)
    assert refusal(store, _KIB) is None
    assert 2 == len(rows_of(store))
    store.close()


# --- folders that cannot be used --------------------------------------------------------------------------


def test_a_read_only_disk_is_refused(tmp_path: Path) -> None:
    """With what to do; also where a database stands on it."""
    with disk(tmp_path / "disk", "size=4m"):
        Store(tmp_path / "disk/data").close()
        remount = ["mount", "-o", "remount,ro", str(tmp_path / "disk")]
        subprocess.run(remount, check=True)  # noqa: S603 - our own words
        for folder in ("data", "new"):
            said = complaint(tmp_path / "disk" / folder)
            assert "its disk is read-only: mount it for writing" in said
            assert str(tmp_path / "disk" / folder) in said


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    """A file, and a folder in a file."""
    (tmp_path / "file").write_bytes(b"")
    assert "is not a folder: name one with --data" in complaint(tmp_path / "file")
    assert "not a folder" in complaint(tmp_path / "file/below")


def test_a_folder_that_everybody_may_write_is_refused(tmp_path: Path) -> None:
    """Others could put a database of theirs in the place of ours; not where the sticky bit hinders them."""
    tmp_path.chmod(0o777)
    assert f"run chmod o-w {tmp_path}" in complaint(tmp_path)
    tmp_path.chmod(0o777 | stat.S_ISVTX)
    Store(tmp_path).close()


def test_wide_modes_of_our_files_are_narrowed(tmp_path: Path) -> None:
    """Such as after a copy by hand."""
    Store(tmp_path).close()
    for name in (DATABASE, MARK, LOCK):
        (tmp_path / name).chmod(0o644)
    Store(tmp_path).close()
    assert {0o600} == {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}


def _in_child(act: Callable[[], str], *, user: int | None = None) -> str:
    """What `act` returns in a forked child, which runs as another user where that can be."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads do not matter to the child
        child = os.fork()
    if child == 0:
        try:
            if user is not None and os.geteuid() == 0:
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
            os.write(writing, act().encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


def _complaint_of(folder: Path) -> str:
    try:
        Store(folder).close()
    except StoreError as error:
        return str(error)
    return "none"


def test_missing_permissions_are_said() -> None:
    """A folder, a lock or a database of somebody else, or a folder that we may only read."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "data").mkdir(mode=0o500)
        said = [_in_child(lambda: _complaint_of(folder / "data"), user=_NOBODY)]
        (folder / "data").chmod(0o700)
        Store(folder / "data").close()
        if os.geteuid() == 0:
            said += [_in_child(lambda: _complaint_of(folder / "data"), user=_NOBODY)]
            for file in ((), ("data",), ("data", LOCK)):
                os.chown(folder.joinpath(*file), _NOBODY, _NOBODY)
            said += [_in_child(lambda: _complaint_of(folder / "data"), user=_NOBODY)]
        else:
            (folder / "data" / DATABASE).chmod(0o400)
            said += [_complaint_of(folder / "data")]
        assert [True] * len(said) == [f"{folder / 'data'} cannot be used: no permission" in one for one in said], said


def test_links_are_not_followed(tmp_path: Path) -> None:
    """A link in the place of the lock or the database could have us write elsewhere."""
    for name in (LOCK, DATABASE):
        folder = tmp_path / f"of-{name}"
        folder.mkdir()
        (folder / name).symlink_to(tmp_path / "elsewhere")
        assert "symbolic link" in complaint(folder)
    assert not (tmp_path / "elsewhere").exists()


# --- two processes ----------------------------------------------------------------------------------------


def test_two_stores_on_one_folder(tmp_path: Path) -> None:
    """The second is refused with the folder's name and the first one's process; the first goes on."""
    store = Store(tmp_path)
    said = complaint(tmp_path)
    assert f"the data folder {tmp_path} is in use by another scorer (process {os.getpid()})" in said
    assert refusal(store, 1) is None
    store.close()
    Store(tmp_path).close()


def test_two_processes_on_one_folder(tmp_path: Path) -> None:
    """As long as the other lives; after its death, however it came, the folder is free."""
    code = "import pathlib, time; from otel_loopguard.scorer.store import Store; "
    code += f"s = Store(pathlib.Path({str(tmp_path)!r})); print('open', flush=True); time.sleep(600)"
    with subprocess.Popen(  # noqa: S603 - our own words
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    ) as other:
        assert other.stdout is not None
        assert "open\n" == other.stdout.readline()
        assert f"(process {other.pid})" in complaint(tmp_path)
        other.send_signal(signal.SIGKILL)
    Store(tmp_path).close()


def test_a_forked_child_neither_uses_nor_holds_the_folder(tmp_path: Path) -> None:
    """It is refused at once; the parent goes on, and when that has closed, the folder is free while the child lives."""
    store = Store(tmp_path)
    store.append([arrival(1)]).result()
    go_on, told = os.pipe(), os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        said = "nothing"
        try:
            os.close(go_on[1])
            try:
                store.append([arrival(2)])
            except RefusedError as error:
                said = error.reason.value
            try:
                store.totals()
            except StoreError:
                said += " unread"
            store.close()
            os.write(told[1], said.encode())
            os.read(go_on[0], 1)
        finally:
            os._exit(0)
    assert b"stopping unread" == os.read(told[0], 100)
    assert (2,) == store.append([arrival(3)]).result()
    store.close()
    store = Store(tmp_path)
    assert [1, 2] == rows_of(store)
    store.close()
    for end in (*go_on, *told):
        os.close(end)
    os.waitpid(child, 0)


# --- damage -----------------------------------------------------------------------------------------------


def crashed(store: Store, folder: Path) -> Path:
    """A copy of the database and its log as a crash at this moment would leave them."""
    folder.mkdir()
    for name in (DATABASE, WAL, MARK):
        shutil.copy(store._folder.path / name, folder)  # noqa: SLF001 - where it stands
    return folder


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A folder with 300 arrivals, settled in part, that nobody uses."""
    store = Store(tmp_path / "data")
    rows = store.append([arrival(number, facts=os.urandom(500)) for number in range(300)]).result()
    store.settle(settled(store, rows[:50], "a")).result()
    store.close()
    return tmp_path / "data"


def test_no_damage_is_taken_for_an_empty_folder(filled: Path) -> None:
    """A lost, empty, foreign or emptied database is refused with how to go on, and left as it is."""
    database = filled / DATABASE
    whole = database.read_bytes()
    with sqlite3.connect(filled / "empty") as empty:
        empty.execute("PRAGMA journal_mode = WAL")
    empty.close()
    for damage in (b"", b"no database " * 500, bytes(len(whole)), (filled / "empty").read_bytes(), whole[:5000]):
        database.write_bytes(damage)
        said = complaint(filled)
        assert str(database) in said
        assert "backup, or" in said
        assert "to begin with an empty one" in said
        assert damage == database.read_bytes()
    database.unlink()
    assert "is missing or empty" in complaint(filled)
    assert not database.exists()
    database.write_bytes(whole)
    store = Store(filled)
    assert 250 == len(rows_of(store))
    store.close()


def test_a_log_without_its_database_is_not_thrown_away(tmp_path: Path) -> None:
    """Also where nothing else says that a database stood there; SQLite itself would delete it."""
    store = Store(tmp_path / "data")
    store.append([arrival(1)]).result()
    folder = crashed(store, tmp_path / "crashed")
    store.close()
    (folder / MARK).unlink()
    (folder / DATABASE).write_bytes(b"")
    log = (folder / WAL).read_bytes()
    assert "is missing or empty" in complaint(folder)
    assert log == (folder / WAL).read_bytes()


def test_a_damaged_page_is_said_where_it_is_read(filled: Path) -> None:
    """A store that opens with damage somewhere says so when it comes there, and never makes anything up."""
    database = filled / DATABASE
    content = bytearray(database.read_bytes())
    pages = len(content) // schema.PAGE_BYTES
    content[schema.PAGE_BYTES * 3 :] = os.urandom(schema.PAGE_BYTES * (pages - 3))
    database.write_bytes(content)
    with pytest.raises(StoreError, match=r"is damaged .* restore the folder from a backup"):
        list(_opened(filled))


def _opened(folder: Path) -> Iterator[object]:
    store = Store(folder)
    try:
        yield from store.pending()
        yield store.groups_with({"r:a"})
        yield store.run("a")
    finally:
        store.close()


def test_facts_that_do_not_unpack_are_said(filled: Path) -> None:
    """Not an exception of somebody else's."""
    with sqlite3.connect(filled / DATABASE) as db:
        db.execute("UPDATE pending SET facts = x'00' WHERE row = 100")
        db.execute("UPDATE run SET record = '{}'")
    db.close()
    store = Store(filled)
    for read in (lambda: store.read([100]), lambda: store.run("a"), store.runs):
        with pytest.raises(StoreError, match="does not read back"):
            read()
    assert 1 == len(store.read([101]))
    store.close()


def test_a_torn_log_gives_what_was_committed_before(tmp_path: Path) -> None:
    """Cut or overwritten anywhere: the rows before that point, without a gap; junk behind it harms nothing."""
    store = Store(tmp_path / "data")
    for number in range(40):
        store.append([arrival(number, facts=os.urandom(300))]).result()
    folder = crashed(store, tmp_path / "crashed")
    store.close()
    log = (folder / WAL).read_bytes()
    images = {len(log) + 100: log + os.urandom(100)}
    for cut in range(0, len(log), len(log) // 25):
        images[cut] = log[:cut]
        images[cut + 1] = log[:cut] + bytes([log[cut] ^ 1]) + log[cut + 1 :]
    counts = []
    whole = (folder / DATABASE).read_bytes()
    for cut in sorted(images):
        (folder / DATABASE).write_bytes(whole)
        (folder / WAL).write_bytes(images[cut])
        found = Store(folder)
        rows = rows_of(found)
        assert list(range(1, len(rows) + 1)) == rows
        assert (len(rows) + 1,) == found.append([arrival(1)]).result()
        found.close()
        counts.append(len(rows))
    assert (0, 40) == (counts[0], counts[-1])
    assert sorted(counts) == counts


# --- other formats ----------------------------------------------------------------------------------------


def _tell(folder: Path, statement: str) -> None:
    with sqlite3.connect(folder / DATABASE) as db:
        db.execute(statement)
    db.close()


def test_a_newer_format_is_refused(filled: Path) -> None:
    """And left as it is."""
    _tell(filled, "PRAGMA user_version = 99")
    content = (filled / DATABASE).read_bytes()
    said = complaint(filled)
    knows = f"has format 99 of a newer otel-loopguard, this one knows up to {schema.VERSION}"
    assert f"{knows}: install the newer version again" in said
    assert content == (filled / DATABASE).read_bytes()


def test_a_database_of_another_program_is_refused(filled: Path) -> None:
    """It would be changed."""
    _tell(filled, "PRAGMA application_id = 7")
    assert "is a database of another program: give another folder with --data" in complaint(filled)


def test_an_older_format_is_migrated(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A made-up format 0 had another name for a column; all of it is there afterwards."""
    _tell(filled, "ALTER TABLE pending RENAME COLUMN spans TO span_count")
    _tell(filled, "PRAGMA user_version = 0")
    said = complaint(filled)
    assert f"has format 0, from which no way leads to {schema.VERSION}" in said
    monkeypatch.setitem(schema.MIGRATIONS, 0, "ALTER TABLE pending RENAME COLUMN span_count TO spans")
    store = Store(filled)
    assert [3] * 250 == [one.spans for one in store.pending()]
    store.close()
    monkeypatch.delitem(schema.MIGRATIONS, 0)
    Store(filled).close()


def test_the_first_format_is_migrated(filled: Path) -> None:
    """It had no place for runs that are withdrawn."""
    _tell(filled, "DROP TABLE withdrawn")
    _tell(filled, "PRAGMA user_version = 1")
    store = Store(filled)
    first = settled(store, (), "of the first format")
    store.settle(first).result()
    store.settle(settled(store, (), names=("r:x",), merged=(first.group,), withdrawn=("of the first format",))).result()
    assert [True] == [run.withdrawn for _, run in store.outbox("new", 999) if run.run_id == "of the first format"]
    store.close()
    Store(filled).close()


def test_a_migration_that_fails_changes_nothing(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first half is undone, and the folder opens with the version that it is of."""
    _tell(filled, "PRAGMA user_version = 0")
    monkeypatch.setitem(schema.MIGRATIONS, 0, "DELETE FROM pending; DROP TABLE absent")
    assert "cannot be read or written (no such table: absent)" in complaint(filled)
    monkeypatch.setitem(schema.MIGRATIONS, 0, "")
    store = Store(filled)
    assert 250 == len(rows_of(store))
    store.close()


def test_commits_are_flushed_to_the_disk(filled: Path) -> None:
    """A commit survives a loss of power (FULL), and only the writer ever copies the log back."""
    writer, reader = schema.connect_writer(filled / DATABASE), schema.connect_reader(filled / DATABASE)
    asked = {
        (name, db.execute(f"PRAGMA {name}").fetchone()[0])
        for db, names in ((writer, ("synchronous", "journal_mode", "auto_vacuum")), (reader, ("query_only",)))
        for name in names
    }
    assert {("synchronous", 2), ("journal_mode", "wal"), ("auto_vacuum", 2), ("query_only", 1)} == asked
    assert 0 == reader.execute("PRAGMA wal_autocheckpoint").fetchone()[0]
    reader.close()
    writer.close()


def test_unknown_faults_of_the_system_are_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the system answers, a store that does not open says which folder."""

    def fail(*_: object, **__: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("otel_loopguard.scorer.folder.fcntl.flock", fail)
    assert f"the data folder {tmp_path} cannot be used: Input/output error" in complaint(tmp_path)
