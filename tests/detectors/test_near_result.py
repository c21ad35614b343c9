"""near_result: one call that brings nearly the same text each time."""

from __future__ import annotations

import pytest

from otel_loopguard.model import Basis, Kind, Severity
from tests.detectors.variants import Record, call, check

WORDS = [f"{a}{b}word" for a in "abcdefghij" for b in "abcdefghij"]
"""A hundred words."""


def _page(fixed: int, *others: str) -> str:
    return " ".join([*WORDS[:fixed], *others])


def _clicks(*texts: str, **fields: object) -> list[Record]:
    return [call("click", {"on": "CONTINUE"}, text, **fields) for text in texts]


def _very_alike(count: int) -> list[Record]:
    """Pages of 96 words of which one differs from page to page: likeness 95/97."""
    return _clicks(*(_page(95, f"now{'abcdefgh'[n]}") for n in range(count)))


def _alike(count: int, *, fixed: int = 60, other: int = 20) -> list[Record]:
    """Pages of 80 words of which 20 differ from page to page: likeness 0.6."""
    return _clicks(*(_page(fixed, *(f"{'abcdefgh'[n]}{m}th" for m in range(other))) for n in range(count)))


@pytest.mark.parametrize(("count", "expected"), [(2, None), (3, 3), (4, 3)])
def test_threshold_of_very_alike_pages(count: int, expected: int | None) -> None:
    """Fault "threshold off by one": the third page that is the same but for a word is a loop by likeness."""
    findings = check(_very_alike(count), {Kind.NEAR_RESULT: expected})
    assert [(Severity.LOOP, Basis.LIKENESS, count)] * (expected is not None) == [
        (one.severity, one.basis, one.count) for one in findings if one.kind is Kind.NEAR_RESULT
    ]


@pytest.mark.parametrize(("count", "expected"), [(3, None), (4, 4), (5, 4)])
def test_threshold_of_alike_pages(count: int, expected: int | None) -> None:
    """The fourth page that shares six words of ten with the first."""
    check(_alike(count), {Kind.NEAR_RESULT: expected})


@pytest.mark.parametrize(("fixed", "other", "expected"), [(59, 20, None), (60, 20, 4), (61, 20, 4)])
def test_threshold_of_likeness(fixed: int, other: int, expected: int | None) -> None:
    """60 of 100 words are alike, 59 of 99 are not."""
    check(_alike(6, fixed=fixed, other=other), {Kind.NEAR_RESULT: expected})


@pytest.mark.parametrize(("words", "expected"), [(49, None), (50, 3), (51, 3)])
def test_threshold_of_length(words: int, expected: int | None) -> None:
    """A shorter text is no page."""
    check(_clicks(*(_page(words - 1, f"now{letter}") for letter in "abcd")), {Kind.NEAR_RESULT: expected})


@pytest.mark.parametrize(("shared", "expected"), [(94, 4), (95, 3)])
def test_threshold_of_very_alike(shared: int, expected: int) -> None:
    """95 words of 100 are very alike: the third fires; with 94 of 100 the fourth."""
    others = 100 - shared
    texts = [_page(shared, *(f"old{'abcdef'[m]}" for m in range(others)))] + [_page(shared)] * 3
    records = _clicks(*texts[:2], f"{texts[2]}", texts[3])
    check(records, {Kind.NEAR_RESULT: expected})


def test_finding_tells_its_calls() -> None:
    """All calls of the run of pages, from the first."""
    findings = check([call("open", {}, "x"), *_very_alike(4)], {Kind.NEAR_RESULT: 4})
    (finding,) = [one for one in findings if one.kind is Kind.NEAR_RESULT]
    assert ("click", 2, (2, 3, 4, 5), 1) == (finding.tool, finding.first_call, finding.calls, len(finding.digests))


def test_compared_with_the_first() -> None:
    """Fault "compared with the last": a page that wanders away step by step has changed."""
    check(_clicks(*(_page(100)[n * 100 : n * 100 + 500] for n in range(5))), {Kind.NEAR_RESULT: None})


def test_equal_pages_are_another_kind() -> None:
    """Fault "likeness of equal texts": what is equal is `exact_repeat`, or `interleaved_repeat`."""
    check(_clicks(*[_page(100)] * 5), {Kind.NEAR_RESULT: None, Kind.EXACT_REPEAT: 3})


def test_failures_and_denials_do_not_part() -> None:
    """What brought nothing is no reason to click again."""
    records = [
        one for record in _very_alike(3) for one in (record, call("hover", {"on": "x"}, error="no such element"))
    ]
    check(records, {Kind.NEAR_RESULT: 5})


# --- quiet ----------------------------------------------------------------------------------------------


def test_other_news_parts() -> None:
    """Fault "barrier ignored": pages looked at again after something else was done and learnt."""
    records = [
        one
        for n, record in enumerate(_very_alike(6))
        for one in (record, call("fill", {"field": n}, f"field {n} now holds what was typed"))
    ]
    check(records, {Kind.NEAR_RESULT: None})


@pytest.mark.parametrize("step", [1, -1, 17])
def test_numbers_that_go_one_way_are_progress(step: int) -> None:
    """A counter, a clock, a percentage or what is left, in a page that is the same otherwise."""
    check(_clicks(*(f"{500 + n * step} {_page(90)}" for n in range(8))), {Kind.NEAR_RESULT: None})


def test_numbers_that_jump_are_no_progress() -> None:
    """Fault "any number is progress": ids that differ each time do not make a page another one."""
    check(_clicks(*(f"id {n} {_page(90)}" for n in (7, 3, 9, 1))), {Kind.NEAR_RESULT: 3})


def test_moving_log_is_quiet() -> None:
    """The end of a log: other lines, later times."""
    texts = []
    for n in range(8):
        lines = [
            f"12:{m // 6:02}:{m % 6}0 INFO worker served the request of {WORDS[m % 7]} well" for m in range(n, n + 9)
        ]
        texts.append("\n".join(lines))
    check([call("tail", {"file": "app.log"}, text) for text in texts], {Kind.NEAR_RESULT: None})


def test_growing_log_is_quiet() -> None:
    """`tail -f`, a transcript: the old lines and a few new ones."""
    check(_clicks(*(_page(80 + 2 * n) for n in range(8))), {Kind.NEAR_RESULT: None})


@pytest.mark.parametrize("lines", [600, 720, 800, 1_500])
def test_growing_log_that_is_looked_at_in_part_is_quiet(lines: int) -> None:
    """Past 32,768 characters the end that is looked at moves on, while most words of the log stay the same."""
    log = [f"{n:05} worker {WORDS[n % 7]} served the request in {n * 37 % 900} ms" for n in range(lines + 40)]
    check(_clicks(*("\n".join(log[: lines + 5 * n]) for n in range(8))), {Kind.NEAR_RESULT: None})


def test_structures_are_quiet() -> None:
    """Data has fields that mean something; which of them matter the owner declares."""
    records = [call("get", {"id": 1}, dict.fromkeys(WORDS, n % 3)) for n in range(8)]
    check(records, {Kind.NEAR_RESULT: None})


def test_other_pages_of_one_site_are_quiet() -> None:
    """Other calls have other pages."""
    records = [call("open", {"url": f"https://x.example/{n}"}, one["result"]) for n, one in enumerate(_very_alike(6))]
    check(records, {Kind.NEAR_RESULT: None})


def test_declared_poller_and_pager_are_quiet() -> None:
    """They have kinds of their own."""
    for pattern in ("polling: {}", "pagination: {cursor: next}"):
        policy = f"version: 1\npolicy: t\npolicy_version: 1\ntools: {{click: {{effect: read, {pattern}}}}}\n"
        check(_very_alike(6), {Kind.NEAR_RESULT: None}, policy=policy)


def test_siblings_are_asked_at_one_time() -> None:
    """Equal calls of one turn are `parallel_duplicate`."""
    check([{**one, "turn": 1} for one in _very_alike(6)], {Kind.NEAR_RESULT: None})


def test_three_agents_reading_one_page_are_quiet() -> None:
    """Each agent looks for itself."""
    check([{**one, "agent": f"a{n}"} for n, one in enumerate(_very_alike(6))], {Kind.NEAR_RESULT: None})


def test_user_turn_resets() -> None:
    """The user wants to see the page again."""
    check([{**one, "user_turn": n} for n, one in enumerate(_very_alike(6))], {Kind.NEAR_RESULT: None})


def test_patience_of_the_contract() -> None:
    """What the owner allows more for a tool, is allowed here too."""
    for allowed, very_alike, alike in ((1, 2, 3), (2, 3, 4), (4, 5, 6)):
        policy = f"version: 1\npolicy: t\npolicy_version: 1\ntools: {{click: {{allowed_repeats: {allowed}}}}}\n"
        check(_very_alike(8), {Kind.NEAR_RESULT: very_alike}, policy=policy)
        check(_alike(8), {Kind.NEAR_RESULT: alike}, policy=policy)
