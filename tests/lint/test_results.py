"""Lint on results that are never equal: the field that differs where content is at hand, else the tool alone."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_loopguard import policy as policies
from otel_loopguard.lint import judge_evidence, summed
from otel_loopguard.lint.fields import MAX_FIELDS, differing, fields_of
from otel_loopguard.lint.records import MAX_SETS, Evidence, FieldEvidence, SignalEvidence, ToolEvidence
from otel_loopguard.model import CallRecord
from otel_loopguard.policy.paths import compile_target
from otel_loopguard.words import lint_advice, lint_sentence
from tests.lint.linting import (
    calls_of,
    evidence_from_attributes,
    evidence_with_content,
    lints_of,
    policy_of,
    renumbered,
    shown,
)
from tests.replaying import DIGESTER

DEFAULT = policies.default()
READ = policy_of(effect="read")
NEVER = [("results_never_equal", "")]


def _ids(count: int, **others: Any) -> list[dict[str, Any]]:
    return [{"order": {"status": "late", "items": 3}, "request_id": f"r{n}", **others} for n in range(count)]


# --- the field that differs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("calls", "expected"), [(10, []), (11, ["request_id"]), (12, ["request_id"])])
def test_an_id_that_hides_a_repeat(calls: int, expected: list[str]) -> None:
    """Ten repeats that differ in one field and in nothing else name it, whatever the tool is declared to be."""
    for policy in (DEFAULT, READ):
        assert [("same_field_differs", path) for path in expected] == lints_of(calls_of(_ids(calls)), policy)


def test_repeats_add_up_over_runs_and_arguments() -> None:
    """Repeats of several calls in several runs count together."""
    records = [
        call
        for run, order in itertools.product(range(2), range(3))
        for call in calls_of(
            [{"order": order, "request_id": f"{run}-{order}-{n}"} for n in range(3)],
            run_id=f"run-{run}-{order}",
            arguments={"order_id": order},
        )
    ]
    assert [("same_field_differs", "request_id")] == lints_of(records, DEFAULT)


@pytest.mark.parametrize(
    ("results", "paths"),
    [
        ([{"a": 1, "meta": {"at": f"t{n}", "x": 1}} for n in range(12)], ["meta.at"]),
        (
            [{"a": 1, "rows": [{"id": 1, "etag": f"e{n}"}, {"id": 2, "etag": f"f{n}"}]} for n in range(12)],
            ["rows[*].etag"],
        ),
        ([[{"id": 1, "seen": f"t{n}"}] for n in range(12)], ["[*].seen"]),
        ([{"a": 1, "at": f"t{n}", "id": f"i{n}"} for n in range(12)], ["at", "id"]),
        ([{"a": 1, "b": {"c": {"d": {"e": f"t{n}", "f": 1}}}} for n in range(12)], ["b.c.d.e"]),
        ([{"a": 1, "b": {"c": {"d": {"e": {"f": f"t{n}", "g": 1}}}}} for n in range(12)], ["b.c.d.e"]),
    ],
)
def test_where_a_field_stands(results: list[Any], paths: list[str]) -> None:
    """Fields of inner tables and of the items of a list are named by the path that `ignore_result` takes."""
    assert [("same_field_differs", ", ".join(paths))] == lints_of(calls_of(results), DEFAULT)
    assert paths == [compile_target(path).text for path in paths]
    ignoring = policy_of(ignore_result=paths)
    assert [] == lints_of(calls_of(results), ignoring)
    equal = calls_of(results)[:5]
    assert 4 == evidence_with_content(equal, ignoring)["lookup_order"].same


@pytest.mark.parametrize(
    "results",
    [
        [*_ids(11), {"order": {"status": "late", "items": 3}, "request_id": "r3"}],
        [{"a": 1, "at": f"t{n // 2}", "also": f"t{(n + 1) // 2}"} for n in range(24)],
        [{"a": 1, "state": n % 4, "id": f"i{n}"} for n in range(24)],
        [{"a": 1, "lines": [{"n": m} for m in range(n)]} for n in range(1, 24)],
        [{"a": 1, "lines": list(range(n)), f"k{n}": 1} for n in range(24)],
        [{"at": f"t{n}"} for n in range(24)],
        [{"at": f"t{n}", "id": f"i{n}"} for n in range(24)],
        [[{"id": f"i{n}.{k}", "title": f"t{n}.{k}"} for k in range(10)] for n in range(24)],
        [{"mails": [{"id": f"i{n}.{k}", "title": f"t{n}.{k}"} for k in range(10)]} for n in range(24)],
        [f"late, at 12:00:{n:02}" for n in range(24)],
        list(range(24)),
        [{"same": 1}] * 24,
        [{**{f"f{m}": 1 for m in range(MAX_FIELDS)}, "id": f"i{n}"} for n in range(24)],
    ],
    ids=[
        "one came back",
        "each stands still now and then",
        "another field has few values",
        "a list of tables grows",
        "keys come and go",
        "nothing else is there",
        "nothing else is equal",
        "nothing but the length of a list is equal",
        "nothing but the length of a list within is equal",
        "text",
        "a number",
        "equal",
        "too many fields",
    ],
)
def test_no_field_is_named_where_it_is_not_alone(results: list[Any]) -> None:
    """A field that is equal now and then, takes few values, or is all there is, is not named."""
    assert [] == lints_of(calls_of(results), DEFAULT)


def test_another_field_that_moves_now_and_then_does_not_save_the_id() -> None:
    """The id hides the repeats between two changes of the state."""
    results = [{"id": f"i{n}", "state": n // 4, "x": 1} for n in range(16)]
    assert [("same_field_differs", "id")] == lints_of(calls_of(results), DEFAULT)


def test_a_status_with_few_values_is_no_id() -> None:
    """Polls that each saw another state of a job are quiet, however many jobs there were."""
    records = [
        call
        for run in range(30)
        for call in calls_of([{"job": 1, "state": s} for s in ("queued", "busy", "done")], run_id=f"run-{run}")
    ]
    assert [] == lints_of(records, DEFAULT)


def test_a_percentage_takes_the_same_values_in_each_run() -> None:
    """What every job goes through again is no id."""
    records = [
        call
        for run in range(10)
        for call in calls_of([{"job": 1, "percent": 5 * n + run % 2} for n in range(20)], run_id=f"run-{run}")
    ]
    assert [] == lints_of(records, DEFAULT)


@pytest.mark.parametrize(
    ("starts", "expected"),
    [((0,), []), ((0, 5000), [("same_field_differs", "n")]), ((0, 9), []), ((0, 10), [("same_field_differs", "n")])],
)
def test_a_number_may_be_a_count_or_a_time(starts: tuple[int, ...], expected: list[tuple[str, str]]) -> None:
    """Of one call in one run nobody can tell; in two, a time has values of its own, but for a tenth."""
    records = [
        call
        for start in starts
        for call in calls_of([{"a": 1, "n": start + n} for n in range(12)], run_id=f"run-{start}")
    ]
    assert expected == lints_of(records, DEFAULT)


@pytest.mark.parametrize(
    "tool",
    [
        {"polling": {}},
        {"polling": {"state": "order.status"}},
        {"pagination": {"items": "request_id"}},
        {"progress": [{"path": "order.items", "rule": "increases"}]},
        {"effect": "write"},
        {"ignore_result": ["request_id"]},
    ],
)
def test_tools_of_which_the_owner_has_said_what_moves(tool: dict[str, Any]) -> None:
    """Pollers, pagers, rules, writes and fields that are ignored already are quiet."""
    assert [] == lints_of(calls_of(_ids(24)), policy_of(**tool))
    assert [] == shown(
        judge_evidence(evidence_from_attributes(calls_of(_ids(24)), policy_of(**tool), DEFAULT), DEFAULT)
    )


def test_answers_that_read_like_errors_are_no_repeats() -> None:
    """Whether the call failed or only its answer says so: what differs in an error is its clock or its id."""
    answers = [f"Error: no connection, request {n}" for n in range(20)]
    assert [] == lints_of(calls_of(answers), READ)
    assert NEVER == lints_of(calls_of([f"Order 12 is late, request {n}" for n in range(20)]), READ)


@pytest.mark.parametrize("changes", [{"error": True}, {"denied": True}, {"dispatched": False}])
def test_failures_and_refusals_are_no_repeats(changes: dict[str, Any]) -> None:
    """Their results say nothing."""
    assert [] == lints_of(calls_of(_ids(24), **changes), READ)


def test_what_is_done_between_may_have_changed_the_result() -> None:
    """Calls of unknown effect between two equal ones make no repeat; reads do not matter; user turns do."""
    looks = calls_of(_ids(24))
    for effect, expected in ((None, []), ("write", []), ("read", [("same_field_differs", "request_id")])):
        others = calls_of([{"ok": 1}] * 24, tool="touch", effect=effect)
        assert expected == lints_of(renumbered([c for pair in zip(looks, others, strict=True) for c in pair]), READ)
    turns = [_changed(call, user_turn=call.sequence) for call in looks]
    assert [] == lints_of(turns, READ)


def _changed(call: CallRecord, **changes: Any) -> CallRecord:
    return CallRecord(**{name: getattr(call, name) for name in CallRecord.__struct_fields__} | changes)


# --- without content ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("calls", "expected"), [(10, []), (11, NEVER), (12, NEVER)])
def test_results_that_are_never_equal_by_digest(calls: int, expected: list[tuple[str, str]]) -> None:
    """Ten repeats of a read that never gave a result twice name the tool; attributes tell the same as content."""
    records = calls_of([f"late, at 12:00:{n:02}" for n in range(calls)])
    assert expected == lints_of(records, READ)
    assert expected == lints_of(calls_of(_ids(calls)), READ, fields=False)
    assert expected == shown(judge_evidence(evidence_from_attributes(records, READ, READ), READ))
    told = calls_of([f"late, at 12:00:{n:02}" for n in range(calls)], effect="read")
    assert expected == shown(judge_evidence(evidence_from_attributes(told, DEFAULT, DEFAULT), DEFAULT))


def test_what_may_do_something_each_time_is_not_named_by_digest() -> None:
    """Scrolling shows something else each time; of a tool of unknown effect a digest cannot tell."""
    records = calls_of([f"page {n}" for n in range(24)], tool="scroll_down", arguments={})
    assert [] == lints_of(records, DEFAULT)
    assert [] == shown(judge_evidence(evidence_from_attributes(records, DEFAULT, DEFAULT), DEFAULT))


def test_a_rule_that_attributes_cannot_name_is_a_rule() -> None:
    """Where a producer's contract is another than the scorer's, it may say what moves."""
    policy = policy_of(effect="read", progress=[{"path": '"fetched at"', "rule": "changes"}])
    records = calls_of([{"a": 1, "fetched at": f"t{n}"} for n in range(24)])
    assert [] == shown(judge_evidence(evidence_from_attributes(records, policy, READ), READ))


def test_one_equal_result_is_enough_to_be_quiet() -> None:
    """A result that came back shows that results can be equal."""
    assert [] == lints_of(calls_of([*[f"at {n}" for n in range(24)], "at 3"]), READ)


def test_results_that_are_not_known_are_no_evidence() -> None:
    """Neither are they repeats, nor does a repeat reach across them."""
    records = calls_of([f"at {n}" for n in range(24)])
    gaps = [_changed(call, result_missing=call.sequence % 2 == 0) for call in records]
    assert [] == lints_of(gaps, READ)


# --- content ----------------------------------------------------------------------------------------------------------

KEYS = (
    "canary key",
    "kanarie@example.org",
    "4929123412341234",
    "a12345",
    "_n:canary",
    "k" * 60,
    "ключ",
    "",
    "x.canary",
)


@pytest.mark.parametrize("key", KEYS)
def test_a_key_that_may_be_content_is_not_shown(key: str) -> None:
    """It stands as a digest, and the advice says why; values are shown nowhere."""
    records = calls_of([{"a": 1, key: f"canary{n}", "in": {key: f"i{n}", "b": 1}} for n in range(12)])
    (lint,) = judge_evidence(evidence_with_content(records, DEFAULT), DEFAULT)
    said = lint_sentence(lint) + lint_advice(lint) + repr(lint)
    assert key not in said.replace("canary keys", "") or not key
    assert "canary" not in said
    assert [True, True] == [path.removeprefix("in.").startswith("_n:") for path in lint.fields]
    assert "is not shown" in lint_advice(lint)


_LONG = "a" * 48


@pytest.mark.parametrize("key", ["at", "null", "True", "false", "no", "a-b", "$ref", _LONG])
def test_the_advice_can_be_written_into_a_policy(key: str) -> None:
    """As it stands, in YAML: then the repeats are found."""
    within = {_LONG: {_LONG: {_LONG: {key: 1, "x": 1}}}} if key == _LONG else {key: 1, "x": 1}
    results = [json.loads(json.dumps(within).replace(f'"{key}": 1', f'"{key}": "t{n}"')) for n in range(12)]
    (lint,) = judge_evidence(evidence_with_content(calls_of(results), DEFAULT), DEFAULT)
    advised = lint_advice(lint).partition("`")[2].partition("`")[0]
    head = "version: 1\npolicy: shop\npolicy_version: 1\ntools:\n  lookup_order:\n    "
    policy = policies.load(head + advised + "\n", source="made for the test")
    assert advised.replace('"', "") == f"ignore_result: [{', '.join(lint.fields)}]"
    assert [] == lints_of(calls_of(results), policy)


def test_evidence_holds_no_content() -> None:
    """Neither values nor odd keys stand in what is kept of a run."""
    records = calls_of([{"a": "canary", "canary key": f"canary{n}"} for n in range(12)])
    assert "canary" not in repr(evidence_with_content(records, DEFAULT))


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
        max_leaves=30,
    )
)
def test_any_value_has_few_fields(value: Any) -> None:
    """Nothing is raised, equal values have equal fields, and a value does not differ from itself."""
    found = fields_of(value, DIGESTER)
    assert found == fields_of(json.loads(json.dumps(value)), DIGESTER)
    if found is not None:
        assert 2 * MAX_FIELDS >= len(found)
        assert () == differing(found, found)


# --- adding up --------------------------------------------------------------------------------------------------------

PATHS = st.lists(st.sampled_from("abcdef"), max_size=3, unique=True).map(lambda paths: tuple(sorted(paths)))
FIELDS = st.builds(
    FieldEvidence,
    sets=st.dictionaries(PATHS, st.integers(1, 5), max_size=4),
    values=st.dictionaries(
        st.sampled_from("abcdef"),
        st.lists(st.integers(0, 400), max_size=300, unique=True).map(lambda values: tuple(sorted(values)[:256])),
        max_size=2,
    ),
    seen=st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 300), max_size=2),
    full=st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 300), max_size=2),
    again=st.frozensets(st.sampled_from("abcdef"), max_size=2),
)
COUNTS = st.integers(0, 9)
TOOLS = st.builds(
    ToolEvidence,
    repeats=COUNTS,
    reads=COUNTS,
    same=COUNTS,
    signals=st.dictionaries(st.sampled_from("xyz"), st.builds(SignalEvidence, *[COUNTS] * 6), max_size=3),
    fields=st.none() | FIELDS,
)


@given(st.lists(st.dictionaries(st.sampled_from("tu"), TOOLS, max_size=2), max_size=5), st.randoms())
def test_runs_add_up_in_any_order(parts: list[dict[str, ToolEvidence]], rng: Any) -> None:
    """Any order and any grouping gives the same sum."""
    whole = summed(parts)
    shuffled = rng.sample(parts, len(parts))
    middle = len(parts) // 2
    assert whole == summed(shuffled)
    assert whole == summed([summed(shuffled[:middle]), summed(shuffled[middle:])])
    judge_evidence(whole, DEFAULT)


def test_too_many_sets_of_fields_stay_too_many() -> None:
    """Past the bound nothing is kept, in whatever order they came."""
    one = [FieldEvidence(sets={(f"f{n}",): 1}) for n in range(MAX_SETS + 1)]
    parts: list[Evidence] = [{"t": ToolEvidence(fields=fields)} for fields in one]
    assert summed(parts) == summed(parts[::-1]) == {"t": ToolEvidence(fields=FieldEvidence(many=True))}
    assert summed(parts[1:])["t"].fields != FieldEvidence(many=True)
