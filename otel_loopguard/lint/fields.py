"""The fields of results, as digests by path: read where content is at hand and somebody asks, which is on files only.

Invariants: a path holds names that look like field names; any other key stands in it as `_n:` and its digest. Values
are kept as keyed digests of 64 bits, in this process, and no more of them than `MAX_ENTRIES`. Nothing here raises on
any value, and none of it is on the way of a processor or a scorer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from otel_loopguard import dialects
from otel_loopguard.canonical import CanonicalError
from otel_loopguard.dialects import payload
from otel_loopguard.digest import NAME_PREFIX, Digester
from otel_loopguard.facts import FactsReader
from otel_loopguard.model import CallFacts, CallRecord, Effect, Pattern, Span, SpanFacts, Value
from otel_loopguard.policy import Policy, ToolContract

MAX_FIELDS: Final = 64
"""Fields of one result; one with more is not looked at by field."""
MAX_DEPTH: Final = 4
"""Names of one path; what lies deeper is part of the field above."""
MAX_LISTED: Final = 1000
"""Items of a list that are looked into; a longer one is one field."""
MAX_ENTRIES: Final = 1_000_000
"""Fields kept in all, some 100 bytes each."""

Fields: TypeAlias = Mapping[str, int]
"""Digests by path, with 1 as the lowest bit for a number; of a list that was looked into, its length stands under its
path and `LENGTH`."""
LENGTH: Final = "#"
_EACH: Final = "[*]"
_SHOWN: Final = re.compile(r"(?!.*[0-9]{4})[A-Za-z_$][A-Za-z0-9_$-]{0,47}")
"""How a field is named. A key with more digits in a row may be a number that somebody has: an order's, a phone's."""


class FieldReader:
    """Reads spans and call records as `FactsReader` does, and remembers the fields of results beside.

    Args:
        policy: the owner's policy.
        digester: one for everything.
    """

    def __init__(self, policy: Policy, digester: Digester) -> None:
        self._policy, self._digester = policy, digester
        self._reader = FactsReader(policy, lambda _: digester)
        self._known: dict[str, Fields | None] = {}
        self._entries = 0
        self.left_out = 0
        """Results that there was no room for."""

    def facts(self, item: Span | CallRecord) -> SpanFacts:
        """Returns the facts of one item."""
        if isinstance(item, Span):
            reading = dialects.read(item)
            facts = self._reader.of_reading(item, reading)
            if facts.call is not None and reading is not None and reading.result.unknown is None:
                self._note(facts.call, reading.result.value)
            return facts
        facts = self._reader.of_record(item)
        if facts.call is not None and not item.result_missing:
            self._note(facts.call, payload.content(item.result).value)
        return facts

    def of_result(self, digest: str) -> Fields | None:
        """The fields of a result; None where it has none, or they were not read."""
        return self._known.get(digest)

    def _note(self, call: CallFacts, value: Value) -> None:
        digest = call.result_digest
        contract = self._policy.contract(call.tool)
        if digest is None or digest in self._known or not may_hide_repeats(call, contract):
            return
        if self._entries >= MAX_ENTRIES:
            self.left_out += 1
            return
        found = fields_of(contract.result(value), self._digester)
        self._known[digest] = found
        self._entries += 1 + len(found or ())


def may_hide_repeats(call: CallFacts, contract: ToolContract) -> bool:
    """Tells whether nothing but a differing result keeps a repeat of this call from being one.

    A declared write's result does not count; of a poller, a pager or a tool with a rule its owner has said what moves,
    and under another contract than this one that may be so.
    """
    if call.contract is not None and call.contract != contract.digest8:
        return False
    plain = call.pattern is Pattern.PLAIN and contract.pattern is Pattern.PLAIN
    return plain and call.effect is not Effect.WRITE and not (contract.has_progress or contract.noop)


def fields_of(value: Value, digester: Digester) -> Fields | None:
    """Reads the fields of one result.

    Args:
        value: after the contract's `ignore_result`.
        digester: makes the digests.

    Returns:
        At most `MAX_FIELDS` and a few lengths; None for a result that is no table and no list of tables, or has more.
    """
    found: dict[str, int] = {}
    try:
        if isinstance(value, Mapping):
            entries = _within("", [value], digester, depth=0, listed=False)
        elif _is_tables(value):
            found[LENGTH] = len(value)
            entries = _within(_EACH, value, digester, depth=0, listed=True)
        else:
            return None
        for path, digest in entries:
            found[path] = digest
            if len(found) > MAX_FIELDS:
                return None
    except CanonicalError:
        return None
    return found or None


def differing(before: Fields, now: Fields) -> tuple[str, ...]:
    """The paths in which two results differ, sorted; empty where nothing in them is equal but the length of lists.

    A list that got longer or shorter differs as a whole.
    """
    every = before.keys() | now.keys()
    paths = {path for path in every if before.get(path) != now.get(path)}
    if all(path.endswith(LENGTH) for path in every - paths):
        return ()
    for path in [path for path in paths if path.endswith(LENGTH)]:
        whole = path.removesuffix(LENGTH)
        paths = {one for one in paths if one != path and not one.startswith(whole + _EACH)}
        paths.add(whole)
    return () if "" in paths else tuple(sorted(paths))


def _within(
    above: str, tables: Sequence[Mapping[str, Value]], digester: Digester, *, depth: int, listed: bool
) -> Iterator[tuple[str, int]]:
    """Yields the fields of one table, or of each table of a list, whose values then count as one."""
    for key in dict.fromkeys(key for table in tables for key in table):
        path = f"{above}.{_name(key, digester)}" if above else _name(key, digester)
        values: list[Any] = [table.get(key) for table in tables]
        deeper = depth + 1 < MAX_DEPTH
        if deeper and all(isinstance(value, Mapping) and value for value in values):
            yield from _within(path, values, digester, depth=depth + 1, listed=listed)
        elif deeper and not listed and _is_tables(values[0]):
            yield path + LENGTH, len(values[0])
            yield from _within(path + _EACH, values[0], digester, depth=depth + 1, listed=True)
        else:
            digest = digester.item(values if listed else values[0])
            yield path, digest | 1 if all(map(_is_number, values)) else digest & ~1


def _is_tables(value: Value) -> bool:
    if not isinstance(value, list | tuple) or not 0 < len(value) <= MAX_LISTED:
        return False
    return all(isinstance(item, Mapping) and item for item in value)


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _name(key: Value, digester: Digester) -> str:
    text = str(key)
    return text if _SHOWN.fullmatch(text) else NAME_PREFIX + digester.name(text)
