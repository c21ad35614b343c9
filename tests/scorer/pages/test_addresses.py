"""Addresses of the pages: reading what was written, and refusing what cannot be read."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from otel_loopguard.model import RunOutcome
from otel_loopguard.scorer.filters import Filters
from otel_loopguard.scorer.pages.addresses import (
    AddressError,
    list_path,
    read_number,
    read_query,
    read_run_path,
    run_path,
)

NOW_NS = 1_790_000_000_000_000_000
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200)


@given(run_id=NAMES, json=st.booleans())
@example(run_id="a/b", json=False)
@example(run_id="a/../b", json=False)
@example(run_id="..", json=False)
@example(run_id="..", json=True)
@example(run_id="%2F", json=False)
@example(run_id="a.json", json=True)
@example(run_id="x?y#z", json=False)
def test_a_run_is_found_by_its_address(*, run_id: str, json: bool) -> None:
    """Whatever a run id holds, its address leads back to it, as JSON or as a page."""
    found = urlsplit(run_path(run_id, json=json))
    if found.path.startswith("/runs/"):
        assert (run_id, json) == read_run_path(found.path)
        # No part of the path is one that a browser resolves before it asks.
        assert not {".", ".."} & set(found.path.split("/"))
    else:
        assert ("/run.json" if json else "/run") == found.path
        assert [run_id] == parse_qs(found.query)["id"]


@given(st.dictionaries(st.sampled_from(["service", "release", "tool", "agent"]), NAMES), st.none() | NAMES)
def test_filters_come_back_from_an_address(names: dict[str, str], before: str | None) -> None:
    """Filters and the place in the list stand in the address and are read from it as they were."""
    place = None if before is None else (NOW_NS, before)
    query = urlsplit(list_path("/", names, before=place)).query
    read = read_query({name: texts[0] for name, texts in parse_qs(query).items()}, NOW_NS)
    assert (msgspec.convert(names, Filters), place, names) == (read.filters, read.before, dict(read.given))


@pytest.mark.parametrize(
    ("text", "since_ns"),
    [
        ("30s", 1_789_999_970 * 10**9),
        ("15m", 1_789_999_095 * 10**9),  # in steps of 15 s
        ("24h", 1_789_912_800 * 10**9),  # of 24 min
        ("7d", 1_789_391_520 * 10**9),  # of 2 h 48 min
        ("2026-01-31T12:00", 1_769_860_800 * 10**9),
        ("2026-01-31T14:00+02:00", 1_769_860_800 * 10**9),
        ("2026-01-31", 1_769_817_600 * 10**9),
    ],
)
def test_since(text: str, since_ns: int) -> None:
    """A time is read as so long before now, or as a date in UTC."""
    assert since_ns == read_query({"since": text}, NOW_NS).filters.since_ns


@pytest.mark.parametrize(
    "query",
    [
        {"since": "soon"},
        {"since": "9999-12-31"},
        {"since": "1600-01-01"},
        {"outcome": "lop"},
        {"before": "1"},
        {"before": "x~y"},
        {"before": "9223372036854775808~y"},
    ],
)
def test_what_cannot_be_read_is_refused(query: dict[str, str]) -> None:
    """A bad value has an error that names its field, and does not repeat the value."""
    (name, value), *_ = query.items()
    with pytest.raises(AddressError, match=f"^{name} must be") as caught:
        read_query(query, NOW_NS)
    assert f" {value}" not in str(caught.value)


def test_empty_filters_are_none() -> None:
    """A form that is sent empty asks for everything."""
    read = read_query({"outcome": "", "service": "", "since": "", "before": "", "other": "x"}, NOW_NS)
    assert (Filters(), None, {}) == (read.filters, read.before, dict(read.given))


def test_outcome() -> None:
    """An outcome is read as its word."""
    assert read_query({"outcome": "loop"}, NOW_NS).filters.outcome is RunOutcome.LOOP


@pytest.mark.parametrize(("text", "number"), [(None, 1), ("", 1), ("1", 1), ("501", 501)])
def test_numbers(text: str | None, number: int) -> None:
    """A number is read; none is 1."""
    assert number == read_number(text, "from")


@pytest.mark.parametrize("text", ["0", "-1", "x", "1e3", "9999999999", "\u0661"])
def test_bad_numbers(text: str) -> None:
    """What is no whole number from 1 is refused."""
    with pytest.raises(AddressError, match=r"^from must be a whole number"):
        read_number(text, "from")
