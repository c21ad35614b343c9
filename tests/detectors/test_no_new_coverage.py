"""no_new_coverage: a ranged reader that reads what it has read before."""

from __future__ import annotations

from typing import Any

import pytest

from otel_loopguard.detectors.coverage import MAX_RANGES, MAX_READ, Reader
from otel_loopguard.model import CallFacts, Extent, Kind, Severity, Signals, ToolCall
from tests.detectors.variants import Record, call, check

KIND = Kind.NO_NEW_COVERAGE
HEAD = "version: 1\npolicy: t\npolicy_version: 1\n"
POLICY = (
    HEAD
    + "tools: {lines: {effect: read, range: {key: path, start: from, length: count}}, edit: {effect: write},"
    + " rest: {effect: read, range: {key: path, start: from}}}\n"
)


def _lines(start: Any, count: Any = 10, path: str = "a.py", tool: str = "lines", **fields: Any) -> Record:
    return call(tool, {"path": path, "from": start, "count": count}, f"lines of {path} from {start}", **fields)


WHOLE = _lines(0, 100)


def _found(records: list[Record], expected: int | None) -> list[tuple[Severity, int]]:
    findings = check(records, {KIND: expected}, policy=POLICY)
    return [(one.severity, one.count) for one in findings if one.kind is KIND]


@pytest.mark.parametrize(("count", "expected"), [(4, None), (5, 6), (6, 6)])
def test_fifth_covered_read(count: int, expected: int | None) -> None:
    """Fault "threshold off by one": parts of what was read whole, one after the other."""
    wanted = [(Severity.SUSPECT, count)] * (expected is not None)
    assert wanted == _found([WHOLE, *[_lines(7 * number) for number in range(count)]], expected)


def test_ranges_read_in_pieces_cover() -> None:
    """Ten pieces that touch are one range, in whatever order they came."""
    pieces = [_lines(start) for start in (0, 20, 40, 30, 10)]
    assert [(Severity.SUSPECT, 5)] == _found([*pieces, *[_lines(3 * n, 17) for n in range(5)]], 10)


def test_anything_new_in_between_is_quiet() -> None:
    """One line more is new."""
    records = [WHOLE]
    for number in range(10):
        records += [_lines(5 * number), _lines(90, 11 + number)]
    assert [] == _found(records, None)


def test_reading_on_is_quiet() -> None:
    """A file in chunks, and the next file in the same chunks."""
    assert [] == _found([_lines(10 * n, path=path) for path in ("a", "b", "c") for n in range(9)], None)


@pytest.mark.parametrize("between", ["write", "user"])
def test_write_and_user_turn_start_over(between: str) -> None:
    """What was read may have changed."""
    write = call("edit", {"n": 1}, "ok", user_turn=1)
    records = [{**WHOLE, "user_turn": 1}, *[_lines(7 * n, user_turn=1) for n in range(4)]]
    records += [write] if between == "write" else []
    records += [_lines(7 * n + 1, user_turn=1 if between == "write" else 2) for n in range(4)]
    assert [] == _found(records, None)


def test_without_a_length_it_is_read_to_the_end() -> None:
    """A later start lies within; so does a null length of a tool that declares one."""
    records = [_lines(0, tool="rest"), *[_lines(7 * n + 1, tool="rest") for n in range(5)]]
    assert [(Severity.SUSPECT, 5)] == _found(records, 6)
    assert [(Severity.SUSPECT, 5)] == _found([_lines(0, None), *[_lines(7 * n, 99) for n in range(5)]], 6)


@pytest.mark.parametrize("start", ["12", None, True, [1]])
def test_starts_that_are_no_numbers_are_unknown(start: object) -> None:
    """They neither count nor cover."""
    assert [] == _found([WHOLE, *[_lines(start, 10 + n) for n in range(9)]], None)


def test_failures_and_other_tools_are_not_reads() -> None:
    """A read that failed brought nothing to cover."""
    failed = [{**_lines(n), "result": None, "error": "gone"} for n in range(6)]
    check([*failed, *[_lines(n) for n in range(5)]], {KIND: None}, policy=POLICY)


def test_siblings_count_once_and_agents_are_apart() -> None:
    """Six parts asked for together are one look."""
    assert [] == _found([WHOLE, *[_lines(7 * n, turn=1) for n in range(6)]], None)
    assert [] == _found([_lines(7 * n, agent=f"a{n}") for n in range(9)], None)


def _read(reader: Reader, number: int, of: str, start: float, end: float | None) -> bool | None:
    facts = CallFacts(tool="t", signals=Signals(extent=Extent(of, start, end)))
    return reader.take(ToolCall(number=number, turn=number, agent="a", facts=facts))[0]


def test_memory_is_bounded() -> None:
    """Past the limits what was read first is new again."""
    reader = Reader(0)
    for number in range(3 * MAX_RANGES):
        assert _read(reader, number, "a", 2 * number, 2 * number + 1) is False
    assert _read(reader, 1, "a", 0, 1) is False
    assert _read(reader, 2, "a", 2 * (3 * MAX_RANGES - 1), None) is False
    for number in range(2 * MAX_READ):
        _read(reader, number, f"{number}", 0, 9)
    assert _read(reader, 3, "0", 0, 9) is False
    assert _read(reader, 4, f"{2 * MAX_READ - 1}", 0, 9) is True
