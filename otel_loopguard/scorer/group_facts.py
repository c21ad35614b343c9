"""The facts of one judged group as they are kept, so that spans that come late can be judged with them.

Invariants: a span that was delivered twice is held once, with how often it came; no content. The bytes are the
scorer's own: `decode` reads what `encode` wrote.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from otel_loopguard.model import SpanFacts, SpanKey

MAX_COPIES: Final = 100
"""Copies of one span that are counted: a sender that repeats itself for ever must not make its group grow."""


class GroupFacts(msgspec.Struct, array_like=True, kw_only=True):
    """What is kept of a judged group: its spans, each once, and what of it is closed for good."""

    spans: list[SpanFacts] = []
    copies: dict[int, int] = {}
    """How often a span came again, by its place; for those that did."""
    parts: int = 0
    """Parts of the group that were full and are no longer looked at."""
    sealed: dict[str, int] = {}
    """In how many of these parts each run was, by its id without the part's number."""
    withdrawn: dict[str, int] = {}
    """Revision under which a run was withdrawn: one that comes back goes on from there."""
    aliases: dict[str, str] = {}
    """What runs are called whose own id another run bears."""

    def arrived(self) -> list[SpanFacts]:
        """Returns every span as often as it came."""
        if not self.copies:
            return self.spans
        found = list(self.spans)
        for place, times in self.copies.items():
            found.extend([self.spans[place]] * times)
        return found


class _Stored(GroupFacts, array_like=True, kw_only=True):
    """The same in bytes: `spans` is empty, and they are in blocks."""

    blocks: list[bytes] = []


BLOCK_SPANS: Final = 2048
"""Spans that are encoded or decoded by one call: no other thread runs meanwhile, so it is to take no more than 2 ms."""
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Stored).decode
decode_arrival: Final = msgspec.msgpack.Decoder(list[SpanFacts]).decode
"""Reads the facts of one `records.Arrival`."""


def encode(group: GroupFacts) -> bytes:
    """Returns what `decode` reads."""
    spans = group.spans
    return _encode(
        _Stored(
            copies=group.copies,
            parts=group.parts,
            sealed=group.sealed,
            withdrawn=group.withdrawn,
            aliases=group.aliases,
            blocks=[_encode(spans[first : first + BLOCK_SPANS]) for first in range(0, len(spans), BLOCK_SPANS)],
        )
    )


def decode(stored: bytes) -> GroupFacts:
    """Reads what `encode` wrote.

    Raises:
        msgspec.MsgspecError: it is something else.
    """
    group = _decode(stored)
    for block in group.blocks:
        group.spans.extend(decode_arrival(block))
    return group


def combined(before: Iterable[GroupFacts], arrived: Iterable[SpanFacts]) -> GroupFacts:
    """Puts the facts of groups that were judged and of spans that came since into one.

    Args:
        before: groups that are now one; in any order.
        arrived: any order, any number of copies.

    Returns:
        A new object; `before` is not changed.
    """
    whole = GroupFacts(spans=[], copies={}, sealed={}, withdrawn={}, aliases={})
    gathering = _Gathering(whole)
    for group in before:
        for place, span in enumerate(group.spans):
            gathering.add(span, 1 + group.copies.get(place, 0))
        whole.parts += group.parts
        for run_id, parts in group.sealed.items():
            whole.sealed[run_id] = whole.sealed.get(run_id, 0) + parts
        for run_id, revision in group.withdrawn.items():
            whole.withdrawn[run_id] = max(whole.withdrawn.get(run_id, 0), revision)
        for run_id, alias in group.aliases.items():
            whole.aliases.setdefault(run_id, alias)
    for span in arrived:
        gathering.add(span, 1)
    return whole


class _Gathering:
    def __init__(self, whole: GroupFacts) -> None:
        self._spans, self._copies = whole.spans, whole.copies
        self._first: dict[SpanKey, int] = {}
        self._others: dict[SpanFacts, int] = {}
        """Versions of a span that differ from its first."""

    def add(self, span: SpanFacts, times: int) -> None:
        key = (span.trace_id, span.span_id)
        spans = self._spans
        place = self._first.get(key)
        if place is None:
            place = self._first[key] = len(spans)
            spans.append(span)
            times -= 1
        elif spans[place] != span:
            known = self._others.get(span)
            if known is None:
                known = self._others[span] = len(spans)
                spans.append(span)
                times -= 1
            place = known
        if times:
            self._copies[place] = min(MAX_COPIES, self._copies.get(place, 0) + times)


def cut(whole: GroupFacts, order: Iterable[int], limit: int) -> list[GroupFacts]:
    """Cuts a group into parts of `limit` spans in an order of their places; only the spans are in them."""
    parts: list[GroupFacts] = []
    for place in order:
        if not parts or len(parts[-1].spans) == limit:
            parts.append(GroupFacts(spans=[], copies={}))
        part = parts[-1]
        times = whole.copies.get(place)
        if times:
            part.copies[len(part.spans)] = times
        part.spans.append(whole.spans[place])
    return parts
