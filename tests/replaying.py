"""Replays fixture files with a fixed key, as the tests need it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from otel_loopguard import files
from otel_loopguard.digest import Digester, Key, Scope
from otel_loopguard.facts import FactsReader
from otel_loopguard.model import BadInput, CallRecord, Span, SpanFacts
from otel_loopguard.policy import Policy
from otel_loopguard.replay import Replay, RunReport

KEY = Key("test", bytes(range(32)))
DIGESTER = Digester(KEY, scope=Scope.ENVIRONMENT)


@cache
def items_of(path: Path) -> tuple[Span | CallRecord, ...]:
    """Every item of one file; bad input fails the test."""
    found: list[Span | CallRecord] = []
    with path.open("rb") as source:
        for item in files.read(source, name=path.name):
            assert not isinstance(item, BadInput), item
            found.append(item)
    return tuple(found)


def facts_of(path: Path, policy: Policy) -> list[SpanFacts]:
    """The facts of every item of one file."""
    reader = FactsReader(policy, lambda _: DIGESTER)
    return [reader.of_span(item) if isinstance(item, Span) else reader.of_record(item) for item in items_of(path)]


def replay_items(items: Iterable[Span | CallRecord | SpanFacts], policy: Policy) -> list[RunReport]:
    """The reports on some items."""
    replay = Replay(policy, DIGESTER)
    for item in items:
        replay.add(item)
    return list(replay.reports())


def replay_files(paths: Iterable[Path], policy: Policy) -> list[RunReport]:
    """The reports on some files."""
    return replay_items((item for path in paths for item in items_of(path)), policy)
