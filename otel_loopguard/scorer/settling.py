"""What the writer does in one transaction: keep arrivals, settle a group, note what a sink has had.

Invariants: a settlement changes all it says or nothing: it fails where a row, a merged group or a withdrawn run of
it is not there any more, or a run of it belongs to a group that it does not name. So a row is judged once, and a
run has one verdict.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import msgspec

from otel_loopguard.errors import StaleError
from otel_loopguard.scorer.records import Arrival, Close, JudgedRun, Labels, Pending, Series, Settlement, Totals

PendingRow: TypeAlias = tuple[bytes, int, int, int, str | None, bytes]

encode_json: Final = msgspec.json.Encoder().encode
decode_names: Final = msgspec.json.Decoder(tuple[str, ...]).decode
decode_labels: Final = msgspec.json.Decoder(Labels).decode
decode_run: Final = msgspec.json.Decoder(JudgedRun).decode

_KEEP: Final = (
    "INSERT INTO pending (row, trace_id, received_ns, spans, root_ended, names, facts) VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_ADD_TOTAL: Final = (
    "INSERT INTO total (name, labels, value) VALUES (?, ?, ?) "
    "ON CONFLICT (name, labels) DO UPDATE SET value = value + excluded.value"
)
_PUT_RUN: Final = (
    "INSERT INTO run (run_id, grp, judged_ns, outcome, service, release, record) VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_RECOUNT_RUN: Final = "UPDATE run SET record = ? WHERE run_id = ? AND grp = ?"
_MOST: Final = 2**63


def names_text(names: Sequence[str]) -> str:
    """Returns names as JSON."""
    return encode_json(names).decode()


def arrival_row(arrival: Arrival, packed: bytes) -> PendingRow:
    """Returns what is stored of an arrival; `packed` are its facts, compressed.

    Raises:
        ValueError: the trace id is not one.
    """
    trace_id = bytes.fromhex(arrival.trace_id)
    names = names_text(arrival.names) if arrival.names else None
    return trace_id, arrival.received_ns, arrival.spans, int(arrival.root_ended), names, packed


def keep(db: sqlite3.Connection, rows: Sequence[PendingRow], first: int) -> tuple[int, ...]:
    """Stores arrivals under the numbers from `first` on, and returns these."""
    numbers = tuple(range(first, first + len(rows)))
    db.executemany(_KEEP, [(number, *row) for number, row in zip(numbers, rows, strict=True)])
    return numbers


def read_pending(row: tuple[int, bytes, int, int, int, str | None]) -> Pending:
    """Returns what a row of `pending` says but for its facts."""
    number, trace_id, received_ns, spans, root_ended, names = row
    return Pending(
        row=number,
        trace_id=trace_id.hex(),
        received_ns=received_ns,
        spans=spans,
        names=() if names is None else decode_names(names),
        root_ended=bool(root_ended),
    )


def settle(db: sqlite3.Connection, settlement: Settlement, packed: bytes) -> None:
    """Writes one settlement; `packed` are its facts, compressed.

    Raises:
        StaleError: what it settles is not there as it says; the transaction must be undone.
    """
    if settlement.rows:
        gone = db.executemany("DELETE FROM pending WHERE row = ?", [(row,) for row in settlement.rows]).rowcount
        _expect(len(settlement.rows), gone, "rows that it settles were settled before")
    group = settlement.group
    for merged in settlement.merged:
        take_group(db, merged)
    for run_id in settlement.withdrawn:
        found = db.execute("DELETE FROM run WHERE run_id = ? RETURNING grp, record", (run_id,)).fetchall()
        _expect([True], [grp in settlement.merged for grp, _ in found], "a run that it withdraws is not there")
        _put_withdrawn(db, decode_run(found[0][1]), settlement.judged_ns)
    moved = [(group, merged) for merged in settlement.merged if merged != group]
    db.executemany("UPDATE run SET grp = ? WHERE grp = ?", moved)
    names = names_text(settlement.names)
    put = "INSERT OR IGNORE INTO judged (grp, judged_ns, spans, names, facts) VALUES (?, ?, ?, ?, ?)"
    stored = db.execute(put, (group, settlement.judged_ns, settlement.spans, names, packed)).rowcount
    _expect(1, stored, "its number is taken by a group that it does not merge")
    db.executemany("INSERT OR IGNORE INTO name (name, grp) VALUES (?, ?)", [(name, group) for name in settlement.names])
    for run in settlement.runs:
        _put_run(db, group, run)
    for run in settlement.recounted:
        changed = db.execute(_RECOUNT_RUN, (encode_json(run).decode(), run.run_id, group)).rowcount
        _expect(1, changed, "a run whose copies it counts is not there")
    _add_totals(db, settlement.totals)
    forgotten = [(name, _labels_text(labels)) for name, labels in settlement.forgotten]
    db.executemany("DELETE FROM total WHERE name = ? AND labels = ?", forgotten)


def take_group(db: sqlite3.Connection, group: int) -> None:
    """Deletes a judged group and its names; its runs stay.

    Raises:
        StaleError: there is none of this number.
    """
    found = db.execute("DELETE FROM judged WHERE grp = ? RETURNING names", (group,)).fetchall()
    _expect(1, len(found), "a group that it merges is not there")
    names = decode_names(found[0][0])
    db.executemany("DELETE FROM name WHERE name = ? AND grp = ?", [(name, group) for name in names])


def _put_run(db: sqlite3.Connection, group: int, run: JudgedRun) -> None:
    """Stores a run in place of what was known of it, under a new position: each sink is to get it."""
    before = db.execute("DELETE FROM run WHERE run_id = ? RETURNING grp", (run.run_id,)).fetchall()
    _expect([], [grp for (grp,) in before if grp != group], "a run of it belongs to another group")
    db.execute("DELETE FROM withdrawn WHERE run_id = ?", (run.run_id,))  # it is back
    verdict = run.verdict
    db.execute(
        _PUT_RUN,
        (
            run.run_id,
            group,
            run.judged_ns,
            verdict.outcome.value,
            verdict.service,
            verdict.release,
            encode_json(run).decode(),
        ),
    )


def _put_withdrawn(db: sqlite3.Connection, run: JudgedRun, judged_ns: int) -> None:
    """Notes that a run is none any more, under a position of its own among those of runs: each sink is to be told."""
    verdict = msgspec.structs.replace(run.verdict, revision=run.verdict.revision + 1, final=True)
    told = msgspec.structs.replace(run, verdict=verdict, close=Close.LATE, judged_ns=judged_ns, withdrawn=True)
    (position,) = db.execute("UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'run' RETURNING seq").fetchall()[0]
    db.execute(
        "INSERT OR REPLACE INTO withdrawn (position, run_id, judged_ns, record) VALUES (?, ?, ?, ?)",
        (position, run.run_id, judged_ns, encode_json(told).decode()),
    )


def _add_totals(db: sqlite3.Connection, totals: Totals) -> None:
    rows = []
    for (name, labels), value in totals.items():
        if not math.isfinite(value):
            message = "a total must be a number, and finite"
            raise ValueError(message)
        fits = not isinstance(value, int) or -_MOST <= value < _MOST
        rows.append((name, _labels_text(labels), value if fits else float(value)))
    db.executemany(_ADD_TOTAL, rows)


def _labels_text(labels: Labels) -> str:
    return encode_json(labels).decode()


def read_totals(rows: Iterable[tuple[str, str, float]]) -> dict[Series, float]:
    """Returns rows of `total` by their series."""
    return {(name, decode_labels(labels)): value for name, labels, value in rows}


def note_sent(db: sqlite3.Connection, sink: str, position: int) -> None:
    """Notes how far a sink has come; never backwards."""
    db.execute(
        "INSERT INTO sink (name, position) VALUES (?, ?) "
        "ON CONFLICT (name) DO UPDATE SET position = max(position, excluded.position)",
        (sink, position),
    )


def _expect(expected: object, actual: object, otherwise: str) -> None:
    if expected != actual:
        message = f"a settlement was not written: {otherwise}"
        raise StaleError(message)
