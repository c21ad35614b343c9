"""near_repeat: one request put again and again in other words."""

from __future__ import annotations

import pytest

from otel_loopguard.likeness import framed
from otel_loopguard.model import Basis, Kind, Likenesses, Severity
from tests.detectors.feeding import UNSEEN, Run
from tests.detectors.variants import Record, call, check

FILLERS = [
    "please",
    "kindly",
    "now",
    "again",
    "really",
    "finally",
    "just",
    "simply",
    "maybe",
    "surely",
    "gladly",
    "soon",
]
FOUND = " ".join(f"row{n} open" for n in range(10))
LONG = " ".join(f"word{'abcdefghijklmnopqrst'[n]}" for n in range(20))
CONTENT = pytest.mark.parametrize(("count", "expected"), [(3, None), (4, 4), (5, 4)])
AS_SPANS_KNOWN = ("spans", "spans shuffled")
"""A span that ended without its result does not say that there was none."""


def _reworded(count: int, result: object, **fields: object) -> list[Record]:
    """Requests of ten words of which three are others each time: likeness 8/14 with the argument's name."""
    fillers = [" ".join(f"{filler}{letter}" for letter in "xyz") for filler in FILLERS[:count]]
    return _requests(fillers, result, **fields)


def _templated(count: int, result: object, **fields: object) -> list[Record]:
    """Requests that differ in one word only: likeness 0.8."""
    return _requests(FILLERS[:count], result, **fields)


def _requests(fillers: list[str], result: object, **fields: object) -> list[Record]:
    return [
        call("ask", {"query": f"{filler} list all open invoices of the customer", "top": 5}, result, **fields)
        for filler in fillers
    ]


@pytest.mark.parametrize(("count", "expected"), [(4, None), (5, 5), (6, 5)])
def test_threshold_of_suspicion(count: int, expected: int | None) -> None:
    """Fault "threshold off by one": the fifth request that finds nothing is suspect."""
    findings = check(_reworded(count, []), {Kind.NEAR_REPEAT: expected})
    assert [(Severity.SUSPECT, Basis.LIKENESS, count)] * (expected is not None) == [
        (one.severity, one.basis, one.count) for one in findings if one.kind is Kind.NEAR_REPEAT
    ]


@CONTENT
@pytest.mark.parametrize("result", [FOUND, LONG, {"rows": LONG.split()}], ids=["text", "words", "structure"])
def test_threshold_with_the_same_long_answer(count: int, expected: int | None, result: object) -> None:
    """Four times in a row the whole answer again: a loop by likeness."""
    findings = check(_reworded(count, result), {Kind.NEAR_REPEAT: expected})
    assert [(Severity.LOOP, Basis.LIKENESS, count)] * (expected is not None) == [
        (one.severity, one.basis, one.count) for one in findings if one.kind is Kind.NEAR_REPEAT
    ]


@CONTENT
def test_threshold_with_alike_failures(count: int, expected: int | None) -> None:
    """Failures are alike though each quotes another part of the request."""
    records = [
        {**record, "error": f"syntax error near {FILLERS[n]} while reading the query"}
        for n, record in enumerate(_reworded(count, None))
    ]
    findings = check(records, {Kind.NEAR_REPEAT: expected})
    assert {Severity.LOOP} == {one.severity for one in findings if one.kind is Kind.NEAR_REPEAT} or expected is None


@pytest.mark.parametrize(("count", "expected"), [(9, None), (10, 10), (11, 10)])
def test_threshold_of_silence(count: int, expected: int | None) -> None:
    """Silence says nothing, so a batch of silent commands may be longer."""
    check(_templated(count, ""), {Kind.NEAR_REPEAT: expected})


def test_silent_requests_must_be_very_alike() -> None:
    """Fault "silence is an answer": with three other words of ten it says nothing at all."""
    check(_reworded(12, ""), {Kind.NEAR_REPEAT: None})


@pytest.mark.parametrize(("shared", "other", "expected"), [(7, 4, None), (4, 2, 5), (5, 2, 5)])
def test_threshold_of_likeness(shared: int, other: int, expected: int | None) -> None:
    """Half of all words must be shared, the argument's name among them: 7 of 15 are too few, 4 of 8 enough."""
    records = [
        call(
            "ask",
            {"q": " ".join(["abcdefgh"[m] for m in range(shared - 1)] + [f"{f}{'xyzw'[m]}" for m in range(other)])},
        )
        for f in FILLERS[:5]
    ]
    check([{**record, "result": []} for record in records], {Kind.NEAR_REPEAT: expected})


@pytest.mark.parametrize(("words", "expected"), [(14, None), (15, 4)])
def test_fifteen_words_tell(words: int, expected: int | None) -> None:
    """A shorter answer may well be right for several questions."""
    check(_reworded(6, " ".join(LONG.split()[:words])), {Kind.NEAR_REPEAT: expected})


def test_declared_identity_decides() -> None:
    """With `identity_args` the wording does not matter at all, and short equal answers count."""
    policy = "version: 1\npolicy: t\npolicy_version: 1\ntools: {feed: {identity_args: [source, window]}}\n"
    queries = ["notes", "readiness", "any items", "evidence of it", "what is new there"]
    records = [call("feed", {"source": "board", "window": "w31", "query": q}, {"ids": [4]}) for q in queries]
    check(records, {Kind.NEAR_REPEAT: 5}, policy=policy)
    others = [call("feed", {"source": f"b{n}", "window": "w", "query": q}, {"ids": [4]}) for n, q in enumerate(queries)]
    check(others, {Kind.NEAR_REPEAT: None}, policy=policy)


def test_calls_that_never_come_back_count() -> None:
    """A child that is started again and again under other titles, without any result."""
    titles = ["rent level data points", "data points on rent levels", "rent level research", "research: rent levels"]
    titles += ["collect rent level data", "rent levels, data points"]
    records = [call("start", {"kind": "research", "title": title}, result_missing=True) for title in titles]
    for record in records:
        del record["result"]
    check(records, {Kind.NEAR_REPEAT: 5}, without=AS_SPANS_KNOWN)


def test_suspicion_becomes_a_loop_of_its_own() -> None:
    """The first call of the loop is the one at which it was one, not that of the suspicion before it."""
    peek, asked = call("peek", {"at": 1}, {"rows": [1, 2, 3]}), _reworded(9, FOUND)
    records = [peek, peek, *(one for record in asked[:5] for one in (record, peek)), *asked[5:]]
    findings = check(records, {})
    assert [(Severity.SUSPECT, 11), (Severity.LOOP, 16)] == [
        (one.severity, one.at_call) for one in findings if one.kind is Kind.NEAR_REPEAT
    ]


def test_exact_repeats_alone_are_another_kind() -> None:
    """Fault "one digest is enough": without other words it is `exact_repeat`."""
    check(_reworded(1, FOUND) * 6, {Kind.NEAR_REPEAT: None, Kind.EXACT_REPEAT: 3})


def test_finding_tells_its_calls() -> None:
    """It lists the calls in a row, from the first of them."""
    (finding,) = [
        one for one in check([call("other", {}, "x"), *_reworded(5, FOUND)], {}) if one.kind is Kind.NEAR_REPEAT
    ]
    assert ("ask", 2, 5, (2, 3, 4, 5, 6), 5) == (
        finding.tool,
        finding.first_call,
        finding.at_call,
        finding.calls,
        len(finding.digests),
    )


# --- quiet ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cities", [["Oslo", "Paris", "Rome", "Bonn", "Nice", "Lima", "Cork", "York"]])
def test_weather_in_many_cities_is_quiet(cities: list[str]) -> None:
    """Structured, as questions with templated answers short and long, and where each sky is clear."""
    template = "The weather in {} is fair today. " + LONG + " " + " ".join(f"more{n}th" for n in range(60))
    for records in (
        [call("weather", {"city": city, "units": "metric"}, {"sky": "clear", "degrees": 21}) for city in cities],
        [call("ask", {"q": f"What is the weather in {city}?"}, f"It is clear in {city}.") for city in cities],
        [call("ask", {"q": f"What is the weather in {city}?"}, template.format(city)) for city in cities],
        [call("ask", {"q": f"Is the sky over {city} clear today?"}, "yes") for city in cities],
    ):
        check(records, {Kind.NEAR_REPEAT: None})


def test_reading_in_chunks_is_quiet() -> None:
    """Commands that differ in numbers only neither count nor reset."""
    records = [call("shell", {"line": f"sed -n {n}1,{n}9p of the file"}, LONG) for n in range(12)]
    check(records, {Kind.NEAR_REPEAT: None})


def test_numbers_do_not_reset() -> None:
    """A page number among reworded requests changes nothing."""
    records = _reworded(4, FOUND)
    asked = records[1]["arguments"]["query"]
    records[2:2] = [call("ask", {"query": f"{asked} {n}", "top": 5}, FOUND) for n in (2, 3)]
    check(records, {Kind.NEAR_REPEAT: 6})


def test_other_identifiers_are_other_actions() -> None:
    """Fault "frame ignored": a structured value that differs makes it another request, however alike the words."""
    records = [{**one, "arguments": {**one["arguments"], "top": n}} for n, one in enumerate(_reworded(8, FOUND))]
    check(records, {Kind.NEAR_REPEAT: None})


@pytest.mark.parametrize(("names", "expected"), [(1, 5), (2, 5), (3, 4)])
def test_requests_that_differ_in_a_name_are_no_loop(names: int, expected: int) -> None:
    """Fault "slot ignored": "Tell Ana …", "Tell Bo …" with one long answer may be work on many items: suspect."""
    fillers = [" ".join(f"{filler}{'xyz'[n]}" for n in range(names)) for filler in FILLERS[:8]]
    findings = check(_requests(fillers, FOUND), {Kind.NEAR_REPEAT: expected})
    severity = Severity.LOOP if names == 3 else Severity.SUSPECT
    assert {severity} == {one.severity for one in findings if one.kind is Kind.NEAR_REPEAT}


@pytest.mark.parametrize(
    ("queries", "expected"),
    [
        (["find the refund policy", "policy refund the find", "the policy find refund", "refund find the policy"], 4),
        (["find refund policy", "Find refund policy?", '"find, refund" policy', "find REFUND policy"], 4),
        ([f"find refund policy{' now' * n}" for n in range(1, 5)], 4),
        (["find rule 4 now", "Now find rule 4", "rule 4, find now", "now: rule 4 find"], 4),
        ([f"find rule {n} now" for n in range(4)], None),
    ],
    ids=["order", "case and signs", "twice", "same number", "other number"],
)
def test_the_same_words_are_the_same_request(queries: list[str], expected: int | None) -> None:
    """Fault "no word differs, so only numbers do": order, case and punctuation are wording."""
    check([call("search", {"q": query}, LONG) for query in queries], {Kind.NEAR_REPEAT: expected})


def test_the_same_words_without_an_answer_are_suspect() -> None:
    """Nobody knows what came of it, but it was asked five times."""
    orders = ["a b c d", "b a c d", "c b a d", "d b c a", "a c b d"]
    check([call("search", {"q": words}, []) for words in orders], {Kind.NEAR_REPEAT: 5})


@pytest.mark.parametrize(("named", "severity"), [(True, Severity.SUSPECT), (False, Severity.LOOP)])
def test_failures_that_name_what_is_new_are_no_loop(*, named: bool, severity: Severity) -> None:
    """Fault "every alike failure tells": a column that is not there is an answer about that column."""
    columns = ["total", "amount", "price", "sum", "cost", "value"]
    records = [
        call(
            "sql",
            {"q": f"show {column} of all orders joined with users"},
            None,
            error=f"ERROR: column {column if named else 'that was asked for'} does not exist, see the manual",
        )
        for column in columns
    ]
    findings = check(records, {Kind.NEAR_REPEAT: 5 if named else 4})
    assert [severity] == [one.severity for one in findings if one.kind is Kind.NEAR_REPEAT]


def test_words_that_only_come_are_wording() -> None:
    """A request that grows by a "please" is the same request."""
    records = _requests(["please", "please do", "please do it", "please do it now"], FOUND)
    check(records, {Kind.NEAR_REPEAT: 4})
    records = _requests(["please", "could you please", "kindly please", "please do"], FOUND)
    check(records, {Kind.NEAR_REPEAT: 4})


def test_alike_failures_are_telling_whatever_the_name() -> None:
    """A refusal of each name in the same words is a refusal of them all."""
    check(_templated(4, None, error="syntax error near the word list"), {Kind.NEAR_REPEAT: 4})


def test_patience_of_the_contract() -> None:
    """What the owner allows more for a tool, is allowed here too."""
    for allowed, expected in ((1, 3), (2, 4), (4, 6)):
        policy = f"version: 1\npolicy: t\npolicy_version: 1\ntools: {{ask: {{allowed_repeats: {allowed}}}}}\n"
        check(_reworded(8, FOUND), {Kind.NEAR_REPEAT: expected}, policy=policy)


def test_refinement_that_brings_news_is_quiet() -> None:
    """A search that finds something else each time is a search."""
    records = [
        {**one, "result": " ".join(f"{FILLERS[n]}{m}th row" for m in range(20))}
        for n, one in enumerate(_reworded(10, ""))
    ]
    check(records, {Kind.NEAR_REPEAT: None})


@pytest.mark.parametrize("result", ["ok", True, {"status": "stored"}])
def test_batch_writes_are_quiet(result: object) -> None:
    """Notes stored one after the other, each acknowledged."""
    check(_reworded(12, result), {Kind.NEAR_REPEAT: None})


def test_silent_commands_on_many_files_are_quiet() -> None:
    """Of a short command most words are what it works on."""
    records = [call("shell", {"line": f"mv {name}.txt to old/{name}.txt"}, "") for name in FILLERS]
    check(records, {Kind.NEAR_REPEAT: None})


def test_edits_between_are_a_reason_to_ask_again() -> None:
    """Fault "barrier ignored": after something new has come from elsewhere, asking again is no repeat."""
    records = [
        one
        for n, record in enumerate(_reworded(8, FOUND))
        for one in (record, call("edit", {"line": n}, f"line {n} is now as it should be"))
    ]
    check(records, {Kind.NEAR_REPEAT: None})


def test_other_calls_between_leave_a_suspicion() -> None:
    """Not in a row is no loop by likeness, however long the answer; with nothing new between, it stays suspect."""
    peek = call("peek", {"at": 1}, {"rows": [1, 2, 3]})
    records = [peek, peek, *(one for record in _reworded(6, FOUND) for one in (record, peek))]
    findings = check(records, {Kind.NEAR_REPEAT: 11})
    assert [Severity.SUSPECT] == [one.severity for one in findings if one.kind is Kind.NEAR_REPEAT]


def test_fan_out_is_quiet() -> None:
    """Siblings were asked for at one time."""
    check([{**record, "turn": 1} for record in _reworded(10, FOUND)], {Kind.NEAR_REPEAT: None})


def test_transient_failures_are_quiet() -> None:
    """A service that is down is not the agent's loop."""
    policy = "version: 1\npolicy: t\npolicy_version: 1\nerrors: {transient: [service unavailable]}\n"
    check(_reworded(10, None, error="503 service unavailable, try later"), {Kind.NEAR_REPEAT: None}, policy=policy)


def test_user_turn_resets() -> None:
    """The user may ask the same in other words."""
    check([{**one, "user_turn": n} for n, one in enumerate(_reworded(10, FOUND))], {Kind.NEAR_REPEAT: None})


def test_agents_ask_for_themselves() -> None:
    """Three agents with one question each ask nothing twice."""
    check([{**one, "agent": f"a{n}"} for n, one in enumerate(_reworded(10, FOUND))], {Kind.NEAR_REPEAT: None})


def test_results_that_nobody_saw_are_no_evidence() -> None:
    """Where results were not captured, templated questions must not look stuck."""
    run = Run()
    for name in FILLERS:
        parts = framed({"q": f"What is the weather in {name}?"})
        assert parts is not None
        run.call("ask", name, UNSEEN, likenesses=Likenesses(arguments=parts.wording, frame="f" * 32))
    assert Kind.NEAR_REPEAT not in run.kinds()
