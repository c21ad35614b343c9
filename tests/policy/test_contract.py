"""What a contract makes of arguments and results."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_loopguard.model import Extent
from otel_loopguard.policy import ErrorRules, default, load
from otel_loopguard.policy.contract import ArgumentRules, Polling, ToolContract, UnknownOutcome, WriteRules
from tests.policy.made import DIGESTS, contract

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "a", "x/./y", "7"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=8,
)


def test_nothing_declared_changes_nothing() -> None:
    """A tool without rules gets its values back, the same objects."""
    plain = default().contract("t")
    value = {"a": None, "path": "a//b"}
    assert value is plain.arguments(value)
    assert value is plain.result(value)
    assert plain.identity(value) is None
    assert plain.business(value) is None
    assert plain.idempotency(value) is None


@pytest.mark.parametrize(
    ("keys", "given_value", "expected"),
    [
        ({"ignore_args": ["thought"]}, {"thought": "x", "n": 1}, {"n": 1}),
        ({"ignore_args": ["thought"]}, {"n": 1}, {"n": 1}),
        ({"ignore_args": ["meta.id"]}, {"meta": {"id": 7, "n": 1}}, {"meta": {"n": 1}}),
        ({"ignore_args": ["meta.id"]}, {"meta": {"id": 7}}, {"meta": {}}),
        ({"ignore_args": ["items[].id"]}, {"items": [{"id": 1, "n": 2}, 3]}, {"items": [{"n": 2}, 3]}),
        ({"ignore_args": ["request-id", "$top"]}, {"request-id": 1, "$top": 2, "n": 3}, {"n": 3}),
        ({"ignore_args": ['"odd name"']}, {"odd name": 1}, {}),
        ({"ignore_args": ["thought"]}, None, {}),
        ({"ignore_args": ["thought"]}, "bare text", "bare text"),
        ({"ignore_args": ["thought"]}, ["thought"], ["thought"]),
        ({"defaults": {"timeout": 30}}, {}, {"timeout": 30}),
        ({"defaults": {"timeout": 30}}, None, {"timeout": 30}),
        ({"defaults": {"timeout": 30}}, {"timeout": 31}, {"timeout": 31}),
        ({"defaults": {"a": 1, "b": 2}}, {"b": 3}, {"a": 1, "b": 3}),
        ({"defaults": {"a": [1, {"b": None}]}}, {}, {"a": [1, {"b": None}]}),
        ({"defaults": {"timeout": 30}}, {"timeout": None}, {"timeout": None}),
        ({"defaults": {"timeout": 30}, "null_is_absent": True}, {"timeout": None}, {"timeout": 30}),
        ({"null_is_absent": True}, {"a": None, "b": 0, "c": ""}, {"b": 0, "c": ""}),
        ({"null_is_absent": True}, {"a": {"b": None}}, {"a": {"b": None}}),
        ({"path_args": ["path"]}, {"path": "./a//b/./c/"}, {"path": "a/b/c"}),
        ({"path_args": ["path"]}, {"path": "/"}, {"path": "/"}),
        ({"path_args": ["path"]}, {"path": "./"}, {"path": "."}),
        ({"path_args": ["path"]}, {"path": ""}, {"path": ""}),
        ({"path_args": ["path"]}, {"path": "a/../b"}, {"path": "a/../b"}),
        ({"path_args": ["path"]}, {"path": "A/b"}, {"path": "A/b"}),
        ({"path_args": ["path"]}, {"path": "https://x//y/"}, {"path": "https://x//y/"}),
        ({"path_args": ["path"]}, {"path": 7}, {"path": 7}),
        ({"path_args": ["paths"]}, {"paths": ["a/", "b"]}, {"paths": ["a", "b"]}),
        ({"path_args": ["paths"]}, {"paths": ["a/", "b/"]}, {"paths": ["a", "b"]}),
        ({"path_args": ["paths"]}, {"paths": ("a/", "b")}, {"paths": ["a", "b"]}),
        ({"path_args": ["files[].path"]}, {"files": [{"path": "./a"}]}, {"files": [{"path": "a"}]}),
        ({"path_args": ["path"], "defaults": {"path": "./"}}, {}, {"path": "."}),
    ],
)
def test_arguments_are_normalised_as_declared(keys: dict[str, Any], given_value: Any, expected: Any) -> None:
    """Each rule, alone and with the ones before it; what it does not name stays."""
    before = copy.deepcopy(given_value)
    assert expected == contract(**keys).arguments(given_value)
    assert before == given_value


def test_what_is_normal_already_stays_the_same_object() -> None:
    """No copy is made of arguments that no rule changes: most calls are of this kind."""
    tidy = contract(null_is_absent=True, defaults={"n": 1}, path_args=["paths"], ignore_args=["thought"])
    value = {"n": 2, "paths": ["a", "b"]}
    assert value is tidy.arguments(value)


@pytest.mark.parametrize("answer", ["deny", "allow_same_key"])
def test_what_may_follow_an_unknown_outcome(answer: str) -> None:
    """As declared for the write; undeclared, a second write is denied."""
    pay = contract(effect="write", idempotency_key="key", unknown_outcome=answer)
    assert answer == pay.unknown_outcome
    assert UnknownOutcome.DENY is contract(effect="write").unknown_outcome


def test_text_deep_inside_a_result() -> None:
    """Patterns reach 64 levels down, as deep as a result can be; deeper text stays, and nothing overflows."""
    tool = contract(ignore_result_regex="b")
    for wrap in (lambda inner: [inner], lambda inner: {"k": inner}):
        deepest: Any = "b"
        for _ in range(64):
            deepest = wrap(deepest)
        assert str(deepest).replace("'b'", "''") == str(tool.result(deepest))
        assert wrap(deepest) == tool.result(wrap(deepest))


def test_the_cursor_stays_in_the_call() -> None:
    """Seeded fault "dropped cursor": two pages must never look like one call."""
    pager = contract(pagination={"cursor": "cursor", "items": "cases[].id"}, ignore_args=["trace"])
    first, second = {"q": "refund", "cursor": None, "trace": 1}, {"q": "refund", "cursor": "p2", "trace": 2}
    assert {"q": "refund", "cursor": None} == pager.arguments(first)
    assert {"q": "refund", "cursor": "p2"} == pager.arguments(second)


def test_an_offset_stays_in_the_call() -> None:
    """Case B07: without a declaration nothing is dropped, so paging by offset makes different calls."""
    value = {"table": "boats", "limit": 50, "offset": 100}
    assert value == default().contract("list_rows").arguments(value)


def test_identity_args_do_not_touch_the_call() -> None:
    """Case C08: they say what near repeats have in common, and change no call."""
    feed = contract(identity_args=["source", "window"])
    value = {"source": "board", "window": "w31", "query": "readiness"}
    assert value is feed.arguments(value)
    assert {"source": "board", "window": "w31"} == feed.identity(value)
    assert {"source": "board", "window": None} == feed.identity({"source": "board"})
    assert feed.identity({"query": "x"}) is None
    assert feed.identity("text") is None
    assert feed.identity(None) is None


def test_a_declared_poller_has_default_bounds() -> None:
    """Case B03: `polling: {}` is enough for nine empty waits, with 60 polls in all and no deadline."""
    polling = contract(polling={}).polling
    assert polling is not None
    assert (60, 10, None, None) == (
        polling.max_polls,
        polling.max_unchanged,
        polling.deadline_s,
        polling.min_interval_s,
    )


@pytest.mark.parametrize(
    ("record", "loaded", "own"),
    [
        (ToolContract(tool="t"), default().contract("t"), {"digest8", "writes"}),
        (WriteRules(), contract(effect="write").writes, set()),
        (Polling(), contract(polling={}).polling, set()),
        (ErrorRules(), load('{"version": 1, "policy": "p", "policy_version": 1, "errors": {}}').errors, {"not_found"}),
        (ArgumentRules(), contract(ignore_args=["a"]).argument_rules, {"ignored"}),
    ],
    ids=lambda record: type(record).__name__,
)
def test_defaults_of_a_record_are_those_of_an_empty_policy(record: Any, loaded: Any, own: set[str]) -> None:
    """A contract made by hand has the thresholds that a file without a word about them has."""
    names = set(record.__struct_fields__) - own
    assert {name: getattr(loaded, name) for name in names} == {name: getattr(record, name) for name in names}


@pytest.mark.parametrize(
    ("arguments", "start", "end"),
    [
        ({"p": "a", "from": 10, "n": 5}, 10, 15),
        ({"p": "a", "from": 0, "n": 0}, 0, 0),
        ({"p": "a", "from": 10}, 10, None),
        ({"p": "a", "from": 10, "n": None}, 10, None),
        ({"p": ["a"], "from": -3, "n": 0.5}, -3, -2.5),
    ],
)
def test_what_part_a_ranged_reader_asks_for(arguments: Any, start: float, end: float | None) -> None:
    """From where, up to where; without a length to the end. What is read is told by its digest."""
    rules: list[dict[str, Any]] = [{}, {"progress": [{"path": "v", "rule": "changes"}]}]
    for more in rules:
        signals = contract(range={"key": "p", "start": "from", "length": "n"}, **more).signals(arguments, {}, DIGESTS)
        assert signals is not None
        assert Extent(DIGESTS.state(arguments["p"]), start, end) == signals.extent


@pytest.mark.parametrize(
    "arguments",
    [
        {"from": 1, "n": 1},
        {"p": "a", "n": 1},
        {"p": "a", "from": "1", "n": 1},
        {"p": "a", "from": True, "n": 1},
        {"p": "a", "from": 1, "n": "1"},
        {"p": "a", "from": 1, "n": -1},
        {"p": "a", "from": 1, "n": True},
        {"p": "a", "from": float("inf")},
        {"p": "a", "from": 10**400},
        None,
        "text",
    ],
    ids=repr,
)
def test_a_range_that_cannot_be_read_is_unknown(arguments: Any) -> None:
    """Text is no number, a bool is none, nothing is read backwards; what is not known covers nothing."""
    signals = contract(range={"key": "p", "start": "from", "length": "n"}).signals(arguments, {}, DIGESTS)
    assert signals is not None
    assert signals.extent is None


def test_a_range_without_a_length() -> None:
    """A reader that always reads to the end declares none."""
    signals = contract(range={"key": "p", "start": "from"}).signals({"p": "a", "from": 2, "n": 1}, {}, DIGESTS)
    assert signals is not None
    assert Extent(DIGESTS.state("a"), 2, None) == signals.extent
    assert contract().signals({"p": "a", "from": 2}, {}, DIGESTS) is None


def test_null_and_number_spellings_are_one_call() -> None:
    """Case C18: the optional null key is gone; 1 and 1.0 are for the canonical form."""
    zoom = contract(null_is_absent=True)
    assert zoom.arguments({"level": 1}) == zoom.arguments({"level": 1.0, "layer": None})


@pytest.mark.parametrize(
    ("keys", "given_value", "expected"),
    [
        ({"ignore_result": ["pid", "ms"]}, {"pid": 1, "ms": 2, "out": "x"}, {"out": "x"}),
        ({"ignore_result": ["rows[].at"]}, {"rows": [{"at": 1, "v": 2}]}, {"rows": [{"v": 2}]}),
        ({"ignore_result": ["[].at"]}, [{"at": 1, "v": 2}], [{"v": 2}]),
        ({"ignore_result": ["[0].at"]}, [{"at": 1}, {"at": 2}], [{}, {"at": 2}]),
        ({"ignore_result": ["pid"]}, "pid", "pid"),
        ({"ignore_result_regex": r"\[seen \d+ times\]$"}, "abc [seen 3 times]", "abc "),
        ({"ignore_result_regex": r"\[seen \d+ times\]$"}, "[seen 3 times] abc", "[seen 3 times] abc"),
        ({"ignore_result_regex": [r"\d+ms", "pid=\\d+"]}, {"o": ["5ms pid=7 x"]}, {"o": ["  x"]}),
        ({"ignore_result_regex": "secret"}, {"secret": "a secret"}, {"secret": "a "}),
        ({"ignore_result_regex": "[0-9]+"}, 7, 7),
        ({"ignore_result_regex": "b+"}, ["ab", {"k": True}], ["a", {"k": True}]),
        ({"ignore_result_regex": "b+"}, "a\ud800bb", "a\ud800"),
        ({"ignore_result": ["pid"]}, None, None),
        ({"ignore_result_regex": "b+"}, ("ab", 1), ["a", 1]),
    ],
)
def test_results_are_normalised_as_declared(keys: dict[str, Any], given_value: Any, expected: Any) -> None:
    """Ignored fields go, ignored text goes from every text, keys and other values stay."""
    before = copy.deepcopy(given_value)
    assert expected == contract(**keys).result(given_value)
    assert before == given_value


def test_business_arguments_of_a_write() -> None:
    """The key's fields where they are there; else all arguments, but never the idempotency key."""
    refund = contract(effect="write", business_key=["order_id", "amount"], idempotency_key="key")
    assert {"order_id": 7, "amount": 5} == refund.business({"order_id": 7, "amount": 5, "key": "k1", "note": "x"})
    assert {"order_id": 7, "amount": None} == refund.business({"order_id": 7})
    assert {"note": "x"} == refund.business({"note": "x", "key": "k1"})
    mail = contract(effect="write", idempotency_key="key", ignore_args=["trace"])
    assert {"to": "a"} == mail.business({"to": "a", "key": "k2", "trace": 1})
    assert {} == mail.business(None)
    assert "text" == mail.business("text")
    assert contract(effect="read").business({"a": 1}) is None


def test_defaults_belong_to_the_business_arguments() -> None:
    """An amount left out equals its declared default."""
    refund = contract(effect="write", business_key=["order", "amount"], defaults={"amount": 5})
    assert refund.business({"order": 1}) == refund.business({"order": 1, "amount": 5})


def test_the_idempotency_key_as_sent() -> None:
    """Read from the arguments as they came, even where the call digest ignores it; an empty key is none."""
    pay = contract(effect="write", idempotency_key="request_key", ignore_args=["request_key"])
    assert "k" == pay.idempotency({"request_key": "k", "n": 1})
    assert {"n": 1} == pay.arguments({"request_key": "k", "n": 1})
    assert pay.idempotency({"request_key": ""}) is None
    assert pay.idempotency({"request_key": None}) is None
    assert pay.idempotency({"n": 1}) is None
    assert pay.idempotency("text") is None


def test_the_contract_digest_covers_what_shapes_digests() -> None:
    """It changes with every rule that changes digests or progress, and with nothing else."""
    base = contract(effect="read").digest8
    shaping: list[dict[str, Any]] = [
        {"ignore_args": ["a"]},
        {"defaults": {"a": 1}},
        {"path_args": ["a"]},
        {"null_is_absent": True},
        {"ignore_result": ["a"]},
        {"ignore_result_regex": "a"},
        {"progress": [{"path": "a", "rule": "changes"}]},
        {"polling": {"state": "a"}},
        {"polling": {"state": "a", "terminal": ["x"]}},
        {"pagination": {"items": "a"}},
    ]
    found = {contract(effect="read", **keys).digest8 for keys in shaping}
    assert len(shaping) == len(found)
    assert base not in found
    for keys in ({"allowed_repeats": 5}, {"max_calls": 3}, {"parallel": "run"}):
        assert base == contract(effect="read", **keys).digest8
    for keys in ({"max_polls": 3}, {"deadline_s": 9}, {"max_unchanged": 2}):
        assert contract(polling={"state": "a"}).digest8 == contract(polling={"state": "a", **keys}).digest8
    head = '{"version": 1, "policy": "p", "policy_version": 1'
    one, other = load(head + "}"), load(head + ', "identity": ["tenant.id"]}')
    assert one.contract("t").digest8 != other.contract("t").digest8
    assert one.digest8 != other.digest8


def test_settings_of_a_tool_and_of_all() -> None:
    """A tool's own setting wins over `defaults`, which win over the built-in ones."""
    head = '{"version": 1, "policy": "p", "policy_version": 1, "defaults": {"allowed_repeats": 4, "max_calls": 9},'
    policy = load(head + '"tools": {"t": {"allowed_repeats": 1}, "u": {}}}')
    assert [1, 4, 4] == [policy.contract(name).allowed_repeats for name in ("t", "u", "else")]
    assert [9, 9, 9] == [policy.contract(name).max_calls for name in ("t", "u", "else")]
    assert [True, True, False] == [policy.contract(name).declared for name in ("t", "u", "else")]


@given(JSON, JSON)
def test_no_value_makes_a_contract_raise_or_change_it(arguments: Any, result: Any) -> None:
    """Any JSON value in, a value out; the given one stays as it was; doing it twice changes nothing more."""
    busy = contract(
        effect="write",
        ignore_args=["a.b", "c[].d"],
        defaults={"d": 1},
        path_args=["b", "e[0].x"],
        null_is_absent=True,
        ignore_result=["a", "[].b", "c[0].d"],
        ignore_result_regex="x+",
        business_key=["a", "d"],
        idempotency_key="c",
    )
    before = copy.deepcopy((arguments, result))
    once = busy.arguments(arguments)
    assert once == busy.arguments(once)
    assert busy.result(result) == busy.result(busy.result(result))
    busy.business(arguments)
    busy.idempotency(arguments)
    busy.identity(arguments)
    assert before == (arguments, result)
