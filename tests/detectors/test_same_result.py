"""same_result: one tool that gives the same answer whatever it is asked."""

from __future__ import annotations

import pytest

from otel_loopguard.model import Basis, Kind, ResultClass, Severity
from tests.detectors.feeding import Run
from tests.detectors.variants import Record, call, check

BLOCKED = "Access denied by shield. Reference hidden."
LICENCE = " ".join(f"clause{n}" for n in range(200))


def _pages(count: int, result: object = BLOCKED, tool: str = "get_url") -> list[Record]:
    return [call(tool, {"url": f"https://shop.example/{'abcdefghijklmnop'[n]}"}, result) for n in range(count)]


def _lookups(count: int, **fields: object) -> list[Record]:
    return [call("find_user", {"email": f"{'abcdefghij'[n]}@x.example"}, **fields) for n in range(count)]


def _asked(count: int, **fields: object) -> list[Record]:
    """The same in words, each time other ones."""
    words = [" ".join(f"{letter}{n}" for letter in "xyz") for n in "abcdefghij"[:count]]
    return [call("find_user", {"who": f"the user with {asked}"}, **fields) for asked in words]


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
    """The same failure four times, in whatever words it was asked, is a loop."""
    findings = check(_asked(count, **fields), {Kind.SAME_RESULT: expected})
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
    for records in (_lookups(4, error="permission denied"), _asked(4, error="permission denied")):
        findings = check(records, {Kind.SAME_RESULT: 4})
        assert [Severity.SUSPECT] == [one.severity for one in findings if one.kind is Kind.SAME_RESULT]


def test_repeats_among_them_count() -> None:
    """Two argument sets are enough: asking a, b, a, b is no better than asking a, b, c, d."""
    check(_lookups(2, result="No results") * 2, {Kind.SAME_RESULT: 4})


def test_one_call_alone_is_another_kind() -> None:
    """Fault "one argument set is enough": the same call with the same answer is `exact_repeat`."""
    check(_lookups(1, result="No results") * 6, {Kind.SAME_RESULT: None, Kind.EXACT_REPEAT: 3})


def test_failures_and_known_answers_of_others_do_not_part() -> None:
    """What brought nothing new in between is no reason to ask again."""
    records = _asked(4, result="No results")
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
        check(_asked(8, result="No results"), {Kind.SAME_RESULT: expected}, policy=policy)


# --- one thing after the other ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [{"result": "Error: user not found"}, {"result": "No match for user."}, {"error": "404 not found"}],
    ids=["in band", "not found", "failed"],
)
@pytest.mark.parametrize(("count", "expected"), [(7, None), (8, 8), (9, 8)])
def test_threshold_of_things_that_are_not_there(fields: dict[str, object], count: int, expected: int | None) -> None:
    """Fault "not there is no answer": names looked up one by one are a search, and suspect from the eighth."""
    findings = check(_lookups(count, **fields), {Kind.SAME_RESULT: expected})
    assert Severity.LOOP not in {one.severity for one in findings}


@pytest.mark.parametrize(("count", "expected"), [(3, None), (4, 4), (9, 4)])
def test_threshold_of_things_that_fail(count: int, expected: int | None) -> None:
    """Hosts that do not answer, one after the other: worth a look, and no loop."""
    records = [call("ssh", {"host": f"h{n}", "cmd": "uptime"}, error="connection timed out") for n in range(count)]
    findings = check(records, {Kind.SAME_RESULT: expected})
    assert [Severity.SUSPECT] * (expected is not None) == [
        one.severity for one in findings if one.kind is Kind.SAME_RESULT
    ]


@pytest.mark.parametrize(
    "asked",
    [
        [{"q": "Refund  policy"}, {"q": "refund policy"}, {"q": "REFUND policy "}, {"q": "Refund Policy"}],
        [{"q": "a", "top": 5}, {"q": "b", "top": 5}, {"q": "c", "top": 6}, {"q": "d", "top": 7}],
        [{"q": "a"}, {"q": "b"}, {"q": "c"}, {"q": "c", "top": 5}],
        [{"q": "a"}, {"q": "b"}, {"q": "c"}, {"q": "a"}],
        [{"q": "a"}, {"q": "b"}, {"q": "c"}, {"q": "what is d"}],
        [{}, {"q": "b"}, {"q": "c"}, {"q": "d"}],
    ],
    ids=["spelling", "two arguments", "one more argument", "asked before", "in words", "none at first"],
)
def test_asking_otherwise_is_no_batch(asked: list[dict[str, object]]) -> None:
    """Fault "any other call is another thing": all but one new short value is another try for the same."""
    findings = check([call("find", one, "No results") for one in asked], {Kind.SAME_RESULT: 4})
    assert [Severity.LOOP] == [one.severity for one in findings if one.kind is Kind.SAME_RESULT]


def test_complaints_about_the_request_are_no_batch() -> None:
    """The thing was never looked for."""
    records = _lookups(4, error="validation error: field zip is missing")
    findings = check(records, {Kind.SAME_RESULT: 4})
    assert [Severity.LOOP] == [one.severity for one in findings if one.kind is Kind.SAME_RESULT]


def test_a_batch_that_begins_again_is_a_row_of_its_own() -> None:
    """What is asked again after a search has been found is a loop of its own, four calls later."""
    findings = check(_lookups(8, result="No results") + _lookups(4, result="No results"), {Kind.SAME_RESULT: 8})
    assert [(Severity.SUSPECT, 8, 8), (Severity.LOOP, 12, 4)] == [
        (one.severity, one.at_call, one.count) for one in findings if one.kind is Kind.SAME_RESULT
    ]


def test_items_are_told_by_their_attribute() -> None:
    """A scorer that sees no content believes the producer; without a word from it, the calls are no batch."""
    for item, kinds in ((True, set()), (None, {Kind.SAME_RESULT}), (False, {Kind.SAME_RESULT})):
        run = Run()
        for number in range(4):
            run.call("find", f"{number}", "gone", result_class=ResultClass.NOT_FOUND, same_result_item=item)
        assert kinds == run.kinds() & {Kind.SAME_RESULT}


@pytest.mark.parametrize("pattern", ["polling: {}", "pagination: {cursor: next}"])
def test_declared_pollers_and_pagers_are_quiet(pattern: str) -> None:
    """Many jobs that are all pending, and pages without anything, have kinds of their own."""
    policy = f"version: 1\npolicy: t\npolicy_version: 1\ntools: {{get_url: {{effect: read, {pattern}}}}}\n"
    check(_pages(6, "still pending"), {Kind.SAME_RESULT: None}, policy=policy)
