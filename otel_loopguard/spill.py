"""Keeps facts on disk between reading and judging: a temporary database, written as they come, read run by run.

Invariants: the database has no name and is gone when the process ends however it ends; what comes back does not
depend on the order in which facts came. It holds what facts hold: no content.
"""

from __future__ import annotations

import sqlite3
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from typing import Final

import msgspec

from otel_loopguard.assembly import Grouper
from otel_loopguard.errors import SpillError
from otel_loopguard.facts import RECORD_TRACE
from otel_loopguard.model import SpanFacts

_CACHE_KIB: Final = 65_536
_BLOCK_SPANS: Final = 256
"""Spans of one trace or run that are written as one row; a row costs as much as encoding some ten of them."""
_BIAS: Final = 2**63
_MOST: Final = 2**72 - 1

_SCHEMA: Final = """\
CREATE TABLE block (id INTEGER PRIMARY KEY, node INTEGER NOT NULL, first BLOB NOT NULL, spans INTEGER NOT NULL,
                    facts BLOB NOT NULL);
CREATE TABLE place (id INTEGER PRIMARY KEY, grp INTEGER NOT NULL, first BLOB NOT NULL, spans INTEGER NOT NULL);
CREATE TABLE whole (grp INTEGER PRIMARY KEY, first BLOB NOT NULL, spans INTEGER NOT NULL);
CREATE TABLE piece (place BLOB NOT NULL, facts BLOB NOT NULL);
"""
_PLACES: Final = "INSERT INTO place SELECT id, grp(node), first, spans FROM block"
_WHOLES: Final = "INSERT INTO whole SELECT grp, min(first), sum(spans) FROM place GROUP BY grp"
_IN_ORDER: Final = """\
SELECT place.id, place.grp, whole.spans FROM place CROSS JOIN whole USING (grp)
ORDER BY whole.first, place.grp, place.id
"""


def run_order(span: SpanFacts) -> bytes:
    """Returns what groups are put in order by: the least of their spans'."""
    return _sortable(span.start_ns) + f"{span.trace_id}\0{span.run_id or span.span_id}".encode()


def cut_order(span: SpanFacts) -> bytes:
    """Returns what the spans of one group are put in order by before the group is cut."""
    if span.trace_id == RECORD_TRACE:  # the sequence is their order, whatever their times say
        return f"{span.run_id}\0".encode() + _sortable(span.sequence or 0) + _sortable(span.start_ns)
    names = f"{span.trace_id}\0".encode(), span.span_id.encode()
    return _sortable(span.start_ns) + names[0] + _sortable(span.sequence or 0) + names[1]


def _sortable(number: int) -> bytes:
    """Returns a 64-bit integer, signed or not, as bytes that sort as it does."""
    return max(0, min(_MOST, number + _BIAS)).to_bytes(9, "big")


class Spill:
    """A temporary database of encoded facts.

    Args:
        max_pages: size of the database in pages of 4 KiB at most; None: as much as the disk gives.

    Every method raises `SpillError` where the disk is full or fails. Thread safety: none; one thread.
    """

    def __init__(self, *, max_pages: int | None = None) -> None:
        # An empty name is SQLite's private on-disk database: unlinked at once, never visible to others.
        # Whichever thread collects this may close it; a replay that is given up, or fails, does not come to its end.
        self._db = sqlite3.connect("", check_same_thread=False)
        weakref.finalize(self, self._db.close)
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(list[SpanFacts]).decode
        with _disk_faults():
            self._db.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            self._db.execute("PRAGMA journal_mode = OFF")
            self._db.execute("PRAGMA synchronous = OFF")
            self._db.executescript(_SCHEMA)
            if max_pages is not None:
                self._db.execute(f"PRAGMA max_page_count = {max_pages}")

    def put(self, held: Mapping[int, Sequence[SpanFacts]]) -> None:
        """Writes facts by the node that `Grouper.add` gave for them."""
        with _disk_faults():
            self._db.executemany("INSERT INTO block (node, first, spans, facts) VALUES (?, ?, ?, ?)", self._rows(held))

    def _rows(self, held: Mapping[int, Sequence[SpanFacts]]) -> Iterator[tuple[int, bytes, int, bytes]]:
        for node, spans in held.items():
            for start in range(0, len(spans), _BLOCK_SPANS):
                block = spans[start : start + _BLOCK_SPANS]
                yield node, min(map(run_order, block)), len(block), self._encode(block)

    def groups(self, grouper: Grouper, limit: int) -> Iterator[tuple[list[SpanFacts], bool]]:
        """Reads everything back, group by group in order of `run_order`, and closes the database.

        Yields:
            (spans, cut): a group, or, of one of more than `limit` spans, its parts in order of `cut_order`.
        """
        with _disk_faults():
            self._db.create_function("grp", 1, grouper.group, deterministic=True)
            self._db.execute(_PLACES)
            self._db.execute(_WHOLES)
            # Sorting what says where the facts are, and fetching them one by one, spares SQLite sorting the facts.
            for _, rows in groupby(self._db.execute(_IN_ORDER), key=itemgetter(1)):
                blocks = [(number, total) for number, _, total in rows]
                ids = [number for number, _ in blocks]
                if blocks[0][1] <= limit:
                    yield [span for number in ids for span in self._block(number)], False
                else:
                    for part in self._parts(ids, limit):
                        yield part, True
            self._db.close()

    def _block(self, number: int) -> list[SpanFacts]:
        (facts,) = self._db.execute("SELECT facts FROM block WHERE id = ?", (number,)).fetchone()
        return self._decode(facts)

    def _parts(self, ids: Sequence[int], limit: int) -> Iterator[list[SpanFacts]]:
        pieces = ((cut_order(span), self._encode([span])) for number in ids for span in self._block(number))
        self._db.executemany("INSERT INTO piece VALUES (?, ?)", pieces)
        ordered = self._db.execute("SELECT facts FROM piece ORDER BY place")
        while rows := ordered.fetchmany(limit):
            yield [span for (facts,) in rows for span in self._decode(facts)]
        self._db.execute("DELETE FROM piece")


@contextmanager
def _disk_faults() -> Iterator[None]:
    """Turns the database's faults into ours; nothing but the disk makes it fail."""
    try:
        yield
    except sqlite3.Error as error:
        message = (
            f"replay's temporary database cannot be written or read: {error}; free space in the folder for temporary "
            "files, or name another one in SQLITE_TMPDIR or TMPDIR"
        )
        raise SpillError(message) from error
