"""Facts on disk come back whole, in a fixed order, and a full disk is our own error."""

from __future__ import annotations

import gc
import random
import sqlite3
from functools import partial

import pytest

from otel_loopguard import replay as replaying
from otel_loopguard.assembly import Grouper
from otel_loopguard.cli import main
from otel_loopguard.cli.exit_codes import ExitCode
from otel_loopguard.errors import SpillError
from otel_loopguard.model import CallRecord, SpanFacts
from otel_loopguard.replay import Replay
from otel_loopguard.spill import Spill, cut_order, run_order
from tests.captures.summary import POLICY, SPANS
from tests.replaying import DIGESTER, facts_of

_PAGES = 12
"""Pages of a database that holds its tables and next to nothing more."""
_CAPTURE = SPANS / "strands-agents-1.62.0+native+main.jsonl"


def span(trace: int, *, start_ns: int, sequence: int | None = None) -> SpanFacts:
    """Some span of some trace."""
    return SpanFacts(trace_id=f"{trace:032x}", span_id=f"{start_ns % 2**64:016x}", start_ns=start_ns, sequence=sequence)


def spilled(spans: list[SpanFacts], limit: int, at_once: int = 10) -> list[tuple[list[SpanFacts], bool]]:
    """What comes back after spans were put on disk a few at a time."""
    grouper, spill = Grouper(), Spill()
    for start in range(0, len(spans), at_once):
        held: dict[int, list[SpanFacts]] = {}
        for one in spans[start : start + at_once]:
            held.setdefault(grouper.add(one), []).append(one)
        spill.put(held)
    return list(spill.groups(grouper, limit))


@pytest.mark.parametrize("seed", range(5))
def test_groups_come_back_by_their_first_start(seed: int) -> None:
    """Whatever the order in which spans came; traces that start at once are told apart by their ids."""
    spans = [span(trace, start_ns=trace // 2 * 100 + number) for trace in range(9) for number in range(7)]
    random.Random(seed).shuffle(spans)
    groups = spilled(spans, limit=7)
    assert [False] * 9 == [cut for _, cut in groups]
    assert [f"{trace:032x}" for trace in range(9)] == [group[0].trace_id for group, _ in groups]
    assert sorted(spans, key=run_order) == sorted((one for group, _ in groups for one in group), key=run_order)


@pytest.mark.parametrize("seed", range(5))
def test_a_large_group_comes_back_in_parts_by_time(seed: int) -> None:
    """Two groups over the limit: each in parts of the limit and a rest, in order, with nothing of the other."""
    spans = [span(trace, start_ns=number // 2, sequence=number) for trace in (1, 2) for number in range(25)]
    random.Random(seed).shuffle(spans)
    groups = spilled(spans, limit=10)
    assert [(10, True), (10, True), (5, True)] * 2 == [(len(part), cut) for part, cut in groups]
    assert sorted(spans, key=lambda one: (one.trace_id, one.sequence)) == [one for part, _ in groups for one in part]


def test_order_of_any_times_and_sequences() -> None:
    """Times before 1970 and past 63 bits, and negative sequences, sort as the numbers do."""
    times = [-(2**63), -5, 0, 3, 2**63, 2**64 - 1]
    assert times == [one.start_ns for one in sorted([span(1, start_ns=t) for t in times[::-1]], key=run_order)]
    numbered = [span(1, start_ns=0, sequence=number) for number in (9, -9, 1, -1)]
    assert [-9, -1, 1, 9] == [one.sequence for one in sorted(numbered, key=cut_order)]


def test_a_record_from_the_far_future_can_be_kept() -> None:
    """A time that no 64 bits hold is taken as the last one that they do."""
    replay = Replay(POLICY, DIGESTER, spill_after_spans=1)
    replay.add(CallRecord(run_id="r", sequence=1, tool="t", ts=1e18))
    assert [2**63 - 1] == [report.verdict.started_ns for report in replay.reports()]


def test_a_full_disk_is_our_own_error() -> None:
    """The message says what to do and holds nothing of the spans."""
    spill, grouper = Spill(max_pages=_PAGES), Grouper()
    held: dict[int, list[SpanFacts]] = {}
    for facts in facts_of(_CAPTURE, POLICY) * 50:
        held.setdefault(grouper.add(facts), []).append(facts)
    with pytest.raises(SpillError, match="is full; free space in the folder for temporary files"):
        spill.put(held)


def test_a_disk_that_fills_up_while_reading_back_is_our_own_error() -> None:
    """What is put in order is written, too."""
    spill, grouper = Spill(max_pages=_PAGES), Grouper()
    for number in range(2000):
        one = span(number, start_ns=number)
        try:
            spill.put({grouper.add(one): [one]})
        except SpillError:
            break
    with pytest.raises(SpillError):
        list(spill.groups(grouper, 10))


def test_replay_ends_with_the_code_for_a_full_disk(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line on standard error and exit code 5."""
    monkeypatch.setattr(replaying, "Spill", partial(Spill, max_pages=_PAGES))
    monkeypatch.setattr(Replay.__init__, "__kwdefaults__", {"spill_after_spans": 500, "max_group_spans": 1000})
    assert ExitCode.NO_ROOM == main(["replay", *[str(_CAPTURE)] * 40])
    assert capsys.readouterr().err.startswith("otel-loopguard: error: replay's temporary database cannot be written")


def test_a_replay_that_is_given_up_closes_its_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """An open connection is a file of the disk that nobody can free before the process ends."""
    database = sqlite3.connect("", check_same_thread=False)
    monkeypatch.setattr(sqlite3, "connect", lambda *_, **__: database)
    spill = Spill()
    assert database.execute("SELECT count(*) FROM block").fetchone() == (0,)
    del spill
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        database.execute("SELECT 1")
