"""A store in memory: what the real one must do, in as few lines as say it, and faults on demand."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from functools import partial

import msgspec

from otel_loopguard.scorer.records import (
    Arrival,
    JudgedRun,
    Pending,
    Refusal,
    RefusedError,
    Series,
    Settlement,
    StoredGroup,
)


class MemoryStore:
    """Keeps rows and groups; `refusing` makes what comes next fail."""

    def __init__(self) -> None:
        self.rows: dict[int, Arrival] = {}
        self.groups: dict[int, Settlement] = {}
        self.runs: dict[str, tuple[int, JudgedRun]] = {}
        """Each run with the number of its group."""
        self.totals: dict[Series, float] = {}
        self.outbox: list[tuple[str, int]] = []
        self.judged_rows: list[int] = []
        self.refusing: Refusal | None = None
        self._row = self._group = 0

    def append(self, arrivals: Sequence[Arrival]) -> Future[tuple[int, ...]]:
        """Keeps arrivals at once."""
        done: Future[tuple[int, ...]] = Future()
        if self.refusing is not None:
            done.set_exception(RefusedError(self.refusing))
            return done
        rows = []
        for arrival in arrivals:
            self._row += 1
            self.rows[self._row] = arrival
            rows.append(self._row)
        done.set_result(tuple(rows))
        return done

    def pending(self) -> Iterator[Pending]:
        """All rows, ascending."""
        for row, arrival in sorted(self.rows.items()):
            yield Pending(
                row=row,
                trace_id=arrival.trace_id,
                received_ns=arrival.received_ns,
                spans=arrival.spans,
                names=arrival.names,
                root_ended=arrival.root_ended,
            )

    def read(self, rows: Sequence[int]) -> list[bytes]:
        """The facts of rows."""
        return [self.rows[row].facts for row in rows]

    def groups_with(self, names: Collection[str]) -> list[StoredGroup]:
        """Groups that have any of the names."""
        return [
            StoredGroup(
                group=number,
                facts=group.facts,
                names=group.names,
                runs=tuple(run for owner, run in self.runs.values() if owner == number),
            )
            for number, group in self.groups.items()
            if not set(names).isdisjoint(group.names)
        ]

    def run(self, run_id: str) -> JudgedRun | None:
        """One run."""
        return self.runs[run_id][1] if run_id in self.runs else None

    def next_group(self) -> int:
        """The next number."""
        self._group += 1
        return self._group

    def settle(self, settlement: Settlement) -> Future[None]:
        """All of it or nothing."""
        done: Future[None] = Future()
        if self.refusing is not None:
            done.set_exception(RefusedError(self.refusing))
            return done
        assert self.rows.keys() >= set(settlement.rows)
        assert self.groups.keys() >= set(settlement.merged)
        for row in settlement.rows:
            del self.rows[row]
        self.judged_rows += settlement.rows
        for number in settlement.merged:
            del self.groups[number]
        self.runs = {
            run_id: (settlement.group if owner in settlement.merged else owner, run)
            for run_id, (owner, run) in self.runs.items()
        }
        for run_id in settlement.withdrawn:
            del self.runs[run_id]
        for run in settlement.runs:
            assert self.runs.get(run.run_id, (settlement.group,))[0] == settlement.group
            stored = msgspec.json.decode(msgspec.json.encode(run), type=JudgedRun)
            self.runs[run.run_id] = (settlement.group, stored)
            self.outbox.append((run.run_id, run.verdict.revision))
        for run in settlement.recounted:
            assert self.runs[run.run_id][0] == settlement.group
            self.runs[run.run_id] = (settlement.group, run)
        for names in (group.names for group in self.groups.values()):
            assert set(names).isdisjoint(settlement.names)
        self.groups[settlement.group] = settlement
        for series, value in settlement.totals.items():
            self.totals[series] = self.totals.get(series, 0.0) + value
        done.set_result(None)
        return done


class _Written(Future[None]):
    """Done when somebody waits for it."""

    def __init__(self, write: Callable[[], Future[None]]) -> None:
        super().__init__()
        self._write = write

    def result(self, timeout: float | None = None) -> None:
        """Writes."""
        del timeout
        self._write().result()


class SlowStore(MemoryStore):
    """Settlements are written only when they are waited for, so that several are on their way at once."""

    def settle(self, settlement: Settlement) -> Future[None]:
        """Promises to."""
        return _Written(partial(super().settle, settlement))
