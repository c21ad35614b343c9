"""pagination_stall: paging that gets nowhere."""

from __future__ import annotations

import json

import pytest

from otel_loopguard import policy
from otel_loopguard.model import Kind, Progress, Severity
from tests.detectors.feeding import Run, cursor_only, page
from tests.detectors.variants import call, check


@pytest.mark.parametrize(("stalled", "expected"), [(1, None), (2, 4), (3, 4)])
def test_threshold_of_pages_without_new_items(stalled: int, expected: int | None) -> None:
    """Fault "threshold off by one": the second page in a row without a new item fires."""
    run = Run()
    run.call("pages", "1", "p1", signals=page("a", "b", leads_to="2"))
    run.call("pages", "2", "p2", signals=page("c", "d", leads_to="3"))
    for number in range(stalled):
        run.call("pages", f"again {number}", "p", signals=page("c", "a", leads_to="4"))
    assert expected == run.first(Kind.PAGINATION_STALL)
    assert [(Severity.LOOP, "new_items", stalled, 3)] * (expected is not None) == [
        (finding.severity, finding.rule, finding.count, finding.first_call) for finding in run.tracker.findings()
    ]


@pytest.mark.parametrize(("stalled", "expected"), [(1, None), (2, 4), (3, 4)])
def test_threshold_of_cursors_that_came_before(stalled: int, expected: int | None) -> None:
    """Where items are unknown, a page that leads to a cursor already led to brings nothing new."""
    run = Run()
    run.call("scroll", "1", "p1", signals=cursor_only("2"))
    run.call("scroll", "2", "p2", signals=cursor_only("3"))
    for number in range(stalled):
        run.call("scroll", f"{number}", "p", signals=cursor_only("2"))
    assert expected == run.first(Kind.PAGINATION_STALL)


def test_paging_is_quiet() -> None:
    """Every page has new items and a new cursor."""
    run = Run()
    for number in range(30):
        run.call("pages", f"{number}", f"{number}", signals=page(f"i{number}", leads_to=f"{number + 1}"))
    assert set() == run.kinds()
    assert run.tracker.new_items_observed
    assert [Progress.FIRST, *[Progress.ADVANCED] * 29] == run.progress()


def test_one_cursor_for_a_whole_scroll_is_quiet() -> None:
    """New items clear a page whatever its cursor."""
    run = Run()
    for number in range(10):
        run.call("pages", "scroll id", f"{number}", signals=page(f"i{number}", leads_to="scroll id"))
    assert set() == run.kinds()


def test_look_back_at_the_first_page_is_quiet() -> None:
    """Fault "dropped cursor": first page, second page, first page again."""
    run = Run()
    run.call("pages", "none", "p1", signals=page("a", leads_to="2"))
    run.call("pages", "2", "p2", signals=page("b", leads_to="3"))
    run.call("pages", "none", "p1", signals=page("a", leads_to="2"))
    assert set() == run.kinds()


def test_new_page_ends_the_stall() -> None:
    """Stalled pages count in a row."""
    run = Run()
    run.call("pages", "0", "p", signals=page("a", leads_to="x0"))
    for number in range(6):
        run.call("pages", "0", "p", signals=page("a", leads_to="x0"))
        run.call("pages", f"n{number}", "p", signals=page(f"b{number}", leads_to=f"x{number}"))
    assert set() == run.kinds()


def test_same_page_again_and_again_is_one_kind() -> None:
    """The same page three times is a stalled pager, not an exact repeat as well."""
    run = Run()
    for _ in range(4):
        run.call("pages", "1", "p1", signals=page("a", leads_to="2"))
    assert {Kind.PAGINATION_STALL} == run.kinds()
    assert 3 == run.first(Kind.PAGINATION_STALL)


def test_reworded_searches_that_end_are_other_listings() -> None:
    """A listing that named no next page is over: another search that lists the same is a search of its own."""
    run = Run()
    for words in range(8):
        run.call("pages", f"search {words}", "same", signals=page("a", "b"))
    assert set() == run.kinds()


def test_paging_through_once_more_is_found() -> None:
    """The second walk through the same pages brings nothing new."""
    run = Run()
    for _ in range(2):
        run.call("pages", "1", "p1", signals=page("a", leads_to="2"))
        run.call("pages", "2", "p2", signals=page("b", leads_to="3"))
        run.call("pages", "3", "p3", signals=page("c"))
    assert 5 == run.first(Kind.PAGINATION_STALL)


def test_pages_by_number_are_judged_by_items() -> None:
    """A pager without cursors: pages past the end are empty."""
    run = Run()
    for number, names in enumerate((("a",), ("b",), (), ())):
        run.call("listing", f"page {number}", f"{names}", signals=page(*names))
    assert 4 == run.first(Kind.PAGINATION_STALL)


def test_unreadable_pages_are_judged_as_plain_calls() -> None:
    """Without items and cursor only equal calls with equal results are a repeat."""
    run = Run()
    for number in range(6):
        run.call("pages", f"{number}", "same")
    assert set() == run.kinds()
    run.repeat(3, "pages", "1", "same")
    assert 9 == run.first(Kind.EXACT_REPEAT)
    assert Kind.PAGINATION_STALL not in run.kinds()


def test_failed_and_refused_pages_neither_count_nor_reset() -> None:
    """A page that did not come tells nothing."""
    run = Run()
    run.call("pages", "1", "p1", signals=page("a", leads_to="2"))
    run.call("pages", "1", "p1", signals=page("a", leads_to="2"))
    run.fail("pages", "2")
    run.refuse("pages", "2")
    assert Kind.PAGINATION_STALL not in run.kinds()
    run.call("pages", "1", "p1", signals=page("a", leads_to="2"))
    assert 5 == run.first(Kind.PAGINATION_STALL)


def test_pages_of_one_turn_are_no_sequence() -> None:
    """Fault "sibling as sequence": pages asked for at one time are stalled together or not at all."""
    run = Run()
    run.call("listing", "page 1", "p1", signals=page("a"))
    run.call("listing", "page 2", "p2", signals=page("a"))
    for number in range(3, 9):
        run.call("listing", f"page {number}", f"{number}", signals=page(), sibling=True)
    run.call("listing", "page 9", "p9", signals=page())
    assert 9 == run.first(Kind.PAGINATION_STALL)
    assert 2 == run.found(Kind.PAGINATION_STALL)[0].count


def test_equal_siblings_are_one_page() -> None:
    """The same page asked for five times at once is a parallel duplicate."""
    run = Run()
    for _ in range(5):
        run.call("pages", "1", "p1", signals=page("a", leads_to="2"), sibling=True)
    assert {Kind.PARALLEL_DUPLICATE} == run.kinds()


def test_one_new_page_of_a_turn_clears_the_turn() -> None:
    """A turn that brought something new has moved, whatever its other pages held."""
    run = Run()
    for number in range(6):
        run.call("listing", f"new {number}", f"{number}", signals=page(f"i{number}"))
        run.call("listing", f"old {number}", "old", signals=page("i0"), sibling=True)
    assert set() == run.kinds()


def test_user_turn_resets() -> None:
    """Asked again, an agent pages again."""
    run = Run()
    for turn in (1, 2, 3, 4):
        run.user_turn = turn
        run.call("pages", "1", "p1", signals=page("a", leads_to="2"))
    assert set() == run.kinds()
    assert [Progress.FIRST] * 4 == run.progress()


def test_write_resets() -> None:
    """After a write the listing may be another."""
    run = Run()
    for number in range(5):
        run.call("pages", "1", "p1", signals=page("a", leads_to="2"))
        run.call("write", f"{number}", "ok")
    assert set() == run.kinds()


def test_agents_page_apart() -> None:
    """What one agent saw is new to another."""
    run = Run()
    for agent in "abcd":
        run.call("pages", "1", "p1", agent=agent, signals=page("a", leads_to="2"))
    assert set() == run.kinds()


def test_producers_pages_without_content() -> None:
    """A scorer has progress, its rule and the number of new items, and comes to the same finding."""
    run = Run()
    run.call("pages", "1", "p1", progress=Progress.FIRST, new_items=2)
    run.call("pages", "2", "p2", progress=Progress.UNCHANGED, progress_rule="new_items", new_items=0)
    run.call("pages", "3", "p3", progress=Progress.UNCHANGED, progress_rule="new_items", new_items=0)
    assert 3 == run.first(Kind.PAGINATION_STALL)
    assert run.tracker.new_items_observed


def test_no_items_known() -> None:
    """Whether new items were seen is unknown where no page told; False where all told of none."""
    run = Run()
    run.call()
    assert run.tracker.new_items_observed is None
    run.call("pages", "1", "p1", signals=page())
    assert run.tracker.new_items_observed is False


@pytest.mark.parametrize("pagination", [{"cursor": "next", "items": "rows[].id"}, {"cursor": "next"}])
def test_pages_are_told_apart_from_their_attributes_too(pagination: dict[str, str]) -> None:
    """A scorer that gets no content must find what replay finds, and must not take our own rules for forged ones."""
    document = {"version": 1, "policy": "p", "policy_version": "1", "tools": {"page": {"pagination": pagination}}}
    under = policy.load(json.dumps(document))
    stalls = [2, 2] if "items" not in pagination else [3, 4]
    records = [
        call("page", {"p": n}, {"rows": [{"id": 1}], "next": f"c{leads}"}) for n, leads in enumerate([1, 2, *stalls])
    ]
    check(records, {Kind.PAGINATION_STALL: 3 if "items" in pagination else 4}, policy=under)


@pytest.mark.parametrize(
    "pages",
    [
        [(1, {"next": "n1"}), (2, {"next": "n3"}), (3, {"next": "n1"}), (4, None), (5, {"next": "n3"})],
        [(1, {"next": "n1"}), (2, {"next": "n1"}), (2, {"next": None}), (1, {"next": "n1"})],
    ],
)
def test_an_unreadable_page_says_nothing_to_a_scorer_either(
    pages: list[tuple[int, dict[str, str | None] | None]],
) -> None:
    """A page without items or a cursor, or without any result, neither counts nor resets, told or seen."""
    policy = "version: 1\npolicy: t\npolicy_version: '1'\ntools: {scroll: {effect: read, pagination: {cursor: next}}}"
    rows = [
        call("scroll", {"c": number}, **({"result_missing": True} if result is None else {"result": result}))
        for number, result in pages
    ]
    check(rows, {Kind.PAGINATION_STALL: len(pages)}, policy=policy)
