"""same_result: one tool that gives the same answer whatever it is asked."""

from __future__ import annotations

import pytest

from otel_loopguard.model import Basis, Kind, Severity
from tests.detectors.variants import Record, call, check

BLOCKED = "Access denied by shield. Reference hidden."
LICENCE = " ".join(f"clause{n}" for n in range(200))


def _pages(count: int, result: object = BLOCKED, tool: str = "get_url") -> list[Record]:
    return [call(tool, {"url": f"https://shop.example/{'abcdefghijklmnop'[n]}"}, result) for n in range(count)]


def _lookups(count: int, **fields: object) -> list[Record]:
    return [call("find_user", {"email": f"{'abcdefghij'[n]}@x.example"}, **fields) for n in range(count)]


@pytest.mark.parametrize(("count", "expected"), [(3, None), (4, 4), (5, 4)])
def test_threshold_of_set_phrases(count: int, expected: int | None) -> None:
    """Fault "threshold off by one": the fourth equal phrase is suspect; it may be right, so no more than that."""
    findings = check(_pages(count), {Kind.SAME_RESULT: expected})
    assert [(Severity.SUSPECT, Basis.DIGEST, count)] * (expected is not None) == [
        (one.severity, one.basis, one.count) for one in findings if one.kind is Kind.SAME_RESULT
    ]


@pytest.mark.parametrize(
    "fields",
    [{"result": "Error: user not found"}, {"result": "No results"}, {"error": "no such user"}],
    ids=["in band", "not found", "failed"],
)
@pytest.mark.parametrize(("count", "expected"), [(3, None), (4, 4), (5, 4)])
def test_threshold_where_nothing_was_to_be_had(fields: dict[str, object], count: int, expected: int | None) -> None:
    """The same failure four times, whatever was asked, is a loop."""
    findings = check(_lookups(count, **fields), {Kind.SAME_RESULT: expected})
    assert [Severity.LOOP] * (expected is not None) == [
        one.severity for one in findings if one.kind is Kind.SAME_RESULT
    ]


@pytest.mark.parametrize(("count", "expected"), [(7, None), (8, 8), (9, 8)])
def test_threshold_of_long_texts(count: int, expected: int | None) -> None:
    """Equal documents in several places exist; eight in a row are suspect, never a loop."""
    findings = check(_pages(count, LICENCE, "read_file"), {Kind.SAME_RESULT: expected})
    assert Severity.LOOP not in {one.severity for one in findings}


@pytest.mark.parametrize(("words", "expected"), [(14, 4), (15, None)])
def test_fifteen_words_are_a_long_text(words: int, expected: int | None) -> None:
    """Fewer are a set phrase."""
    check(_pages(5, " ".join(f"w{n}" for n in range(words))), {Kind.SAME_RESULT: expected})


def test_finding_tells_its_calls() -> None:
    """It names the calls, their digests, and how often the answer came."""
    (finding,) = check([call("other", {}, "x"), *_pages(5)], {Kind.SAME_RESULT: 5})
    assert ("get_url", 5, 2, (2, 3, 4, 5, 6), 5) == (
        finding.tool,
        finding.count,
        finding.first_call,
        finding.calls,
        len(finding.digests),
    )


def test_refusals_are_suspect() -> None:
    """Asking for what is not allowed, one thing after the other, is a question of rights before it is a loop."""
    findings = check(_lookups(4, error="permission denied"), {Kind.SAME_RESULT: 4})
    assert [Severity.SUSPECT] == [one.severity for one in findings if one.kind is Kind.SAME_RESULT]


def test_repeats_among_them_count() -> None:
    """Two argument sets are enough: asking a, b, a, b is no better than asking a, b, c, d."""
    check(_lookups(2, result="No results") * 2, {Kind.SAME_RESULT: 4})


def test_one_call_alone_is_another_kind() -> None:
    """Fault "one argument set is enough": the same call with the same answer is `exact_repeat`."""
    check(_lookups(1, result="No results") * 6, {Kind.SAME_RESULT: None, Kind.EXACT_REPEAT: 3})


def test_failures_and_known_answers_of_others_do_not_part() -> None:
    """What brought nothing new in between is no reason to ask again."""
    records = _lookups(4, result="No results")
    peek = call("peek", {"at": 1}, {"rows": [1, 2, 3]})
    check([peek, *(one for record in records for one in (record, peek))], {Kind.SAME_RESULT: 8})


def test_other_answer_of_the_tool_parts() -> None:
    """The tool can say something else, so what it says means something."""
    records = _lookups(6, result="No results")
    records[3]["result"] = "user_4711"
    check(records, {Kind.SAME_RESULT: None})


def test_news_from_another_tool_parts() -> None:
    """Fault "barrier ignored": with something learnt in between, asking further is work."""
    records = [
        one
        for n, record in enumerate(_lookups(8, result="No results"))
        for one in (record, call("read", {"page": n}, f"page {n} of the list of names"))
    ]
    check(records, {Kind.SAME_RESULT: None})


@pytest.mark.parametrize(
    "result", ["ok", True, [], {}, "", None, {"status": "active"}, {"sky": "clear", "degrees": 21}]
)
def test_answers_that_say_little_or_are_data_are_quiet(result: object) -> None:
    """Batch writes that all answer True, silence, and equal data about different things."""
    check(_pages(12, result), {Kind.SAME_RESULT: None})


def test_declared_writes_are_quiet() -> None:
    """A write's success is an acknowledgement, in whatever words."""
    policy = "version: 1\npolicy: t\npolicy_version: 1\ntools: {get_url: {effect: write}}\n"
    check(_pages(12), {Kind.SAME_RESULT: None}, policy=policy)


def test_siblings_are_asked_at_one_time() -> None:
    """Twelve lookups of one turn were planned before the first answer came."""
    check([{**record, "turn": 1} for record in _lookups(10, result="No results")], {Kind.SAME_RESULT: None})


def test_three_agents_reading_one_file_are_quiet() -> None:
    """Each agent's questions are its own."""
    records = [
        {**call("read_file", {"path": f"a{n}"}, "short note"), "agent": agent} for n in range(3) for agent in "abc"
    ]
    check(records, {Kind.SAME_RESULT: None})


def test_edit_test_edit_with_constant_output_is_quiet() -> None:
    """A confirmation that is always the same stands between tests, and tests between edits."""
    records = [
        one
        for n in range(8)
        for one in (
            call("edit", {"path": "a.py", "line": n}, "The file has been edited."),
            call("test", {"filter": f"case{n}"}, "1 failed, 3 passed"),
        )
    ]
    check(records, {Kind.SAME_RESULT: None})


def test_weather_in_many_cities_is_quiet() -> None:
    """Each answer names its city."""
    records = [call("weather", {"city": city}, f"In {city} it is clear.") for city in ("Oslo", "Rome", "Bonn", "Nice")]
    check(records * 2, {Kind.SAME_RESULT: None})


def test_user_turn_resets() -> None:
    """A user who asks for the next one asked for it."""
    check(
        [{**record, "user_turn": n} for n, record in enumerate(_lookups(8, result="No results"))],
        {Kind.SAME_RESULT: None},
    )


def test_patience_of_the_contract() -> None:
    """What the owner allows more for a tool, is allowed here too."""
    for allowed, expected in ((1, 3), (2, 4), (5, 7)):
        policy = f"version: 1\npolicy: t\npolicy_version: 1\ntools: {{find_user: {{allowed_repeats: {allowed}}}}}\n"
        check(_lookups(8, result="No results"), {Kind.SAME_RESULT: expected}, policy=policy)


@pytest.mark.parametrize("pattern", ["polling: {}", "pagination: {cursor: next}"])
def test_declared_pollers_and_pagers_are_quiet(pattern: str) -> None:
    """Many jobs that are all pending, and pages without anything, have kinds of their own."""
    policy = f"version: 1\npolicy: t\npolicy_version: 1\ntools: {{get_url: {{effect: read, {pattern}}}}}\n"
    check(_pages(6, "still pending"), {Kind.SAME_RESULT: None}, policy=policy)
