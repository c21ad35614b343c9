"""args_repeat: one call that is answered in other words each time."""

from __future__ import annotations

import pytest

from otel_loopguard.model import Basis, Kind, Severity
from tests.detectors.variants import Record, call, check

HEDGES = [
    "Perhaps",
    "Maybe",
    "Likely",
    "Surely",
    "Often",
    "Clearly",
    "Usually",
    "Indeed",
    "Mostly",
    "Again",
    "Still",
    "Possibly",
]


def _asked(count: int, rest: str = "you often read about sailing") -> list[Record]:
    return [call("ask_memory", {"q": "top stories"}, f"{hedge} {rest}.") for hedge in HEDGES[:count]]


@pytest.mark.parametrize(("count", "expected"), [(7, None), (8, 8), (9, 8)])
def test_threshold(count: int, expected: int | None) -> None:
    """Fault "threshold off by one": the eighth answer that says the same in other words is suspect."""
    findings = check(_asked(count), {Kind.ARGS_REPEAT: expected})
    assert [(Severity.SUSPECT, Basis.LIKENESS, count)] * (expected is not None) == [
        (one.severity, one.basis, one.count) for one in findings if one.kind is Kind.ARGS_REPEAT
    ]


@pytest.mark.parametrize(("rest", "expected"), [("read about", None), ("you read about", 8), ("you read about it", 8)])
def test_threshold_of_likeness(rest: str, expected: int | None) -> None:
    """3 words shared of 5 are alike, 2 of 4 are not."""
    check(_asked(9, rest), {Kind.ARGS_REPEAT: expected})


def test_second_way_of_saying_is_enough() -> None:
    """Two answers in turns; neither comes twice running."""
    check(_asked(2) * 5, {Kind.ARGS_REPEAT: 8})


def test_known_answers_between_do_not_part() -> None:
    """What brought nothing new is no reason to ask again."""
    peek = call("peek", {"at": 1}, {"rows": [1, 2, 3]})
    check([peek, *(one for record in _asked(9) for one in (record, peek))], {Kind.ARGS_REPEAT: 16})


def test_whole_pages_are_another_kind() -> None:
    """From 50 words `near_result` says more, and sooner."""
    check(_asked(9, " ".join(f"word{n}" for n in range(60))), {Kind.ARGS_REPEAT: None, Kind.NEAR_RESULT: 3})


# --- quiet ----------------------------------------------------------------------------------------------


def test_equal_answers_are_another_kind() -> None:
    """Fault "equal is alike": what is equal is `exact_repeat`."""
    check(_asked(1) * 9, {Kind.ARGS_REPEAT: None, Kind.EXACT_REPEAT: 3})


@pytest.mark.parametrize(
    "texts",
    [
        [f"The build is {12 * n} % done now" for n in range(1, 9)],
        [f"There are {90 - 7 * n} files left to copy" for n in range(1, 11)],
        [f"The build is {n // 2 * 10} % done now" for n in range(2, 14)],
        [f"It is 12:0{n}:3{n * 7 % 10} and we still wait" for n in range(9)],
    ],
    ids=["per cent", "left", "slow", "clock"],
)
def test_texts_that_move_are_quiet(texts: list[str]) -> None:
    """A number that goes one way is progress, even if it stands for a while."""
    check([call("status", {"job": 7}, text) for text in texts], {Kind.ARGS_REPEAT: None})


def test_dice_are_quiet() -> None:
    """Fault "numbers are wording": where only numbers differ, the number is the answer."""
    records = [call("roll", {"die": "d20"}, f"You rolled a {n} this time") for n in (4, 17, 2, 20, 4, 9, 1, 12, 6, 3)]
    check(records, {Kind.ARGS_REPEAT: None})


def test_growing_list_is_quiet() -> None:
    """Each answer holds the one before, and more."""
    texts = [" ".join(HEDGES[: 4 + n]) for n in range(8)]
    check([call("list", {"of": "names"}, text) for text in texts], {Kind.ARGS_REPEAT: None})


def test_answers_after_news_are_quiet() -> None:
    """Fault "barrier ignored": asked again after something was done."""
    records = [
        one
        for n, record in enumerate(_asked(12))
        for one in (record, call("edit", {"line": n}, f"line {n} is now as it should be"))
    ]
    check(records, {Kind.ARGS_REPEAT: None})


def test_declared_progress_is_quiet() -> None:
    """Where the owner says what progress is, and it is there, likeness says nothing."""
    rules = "tools: {job: {effect: read, progress: [{path: step, rule: changes}]}}"
    policy = f"version: 1\npolicy: t\npolicy_version: 1\n{rules}\n"
    records = [
        call("job", {"id": 1}, {"step": n, "note": f"{hedge} you read about it"}) for n, hedge in enumerate(HEDGES)
    ]
    check(records, {Kind.ARGS_REPEAT: None}, policy=policy)


def test_structures_are_quiet() -> None:
    """Data is compared whole; which fields matter the owner declares."""
    check(
        [call("get", {"id": 1}, {"note": f"{hedge} you read about it"}) for hedge in HEDGES], {Kind.ARGS_REPEAT: None}
    )


def test_user_turn_resets() -> None:
    """The user asked again."""
    check([{**one, "user_turn": n} for n, one in enumerate(_asked(12))], {Kind.ARGS_REPEAT: None})


def test_patience_of_the_contract() -> None:
    """What the owner allows more for a tool, is allowed here too."""
    policy = "version: 1\npolicy: t\npolicy_version: 1\ntools: {ask_memory: {allowed_repeats: 4}}\n"
    check(_asked(11), {Kind.ARGS_REPEAT: 10}, policy=policy)


def test_numbers_in_errors_are_no_progress() -> None:
    """Fault "an error's clock is progress": the time and process id of a failure that says nothing of its kind."""
    records = [call("run", {"command": "make"}, f"Error: lost db-7 at 10:{n:02}, process {n * 7}") for n in range(9)]
    check(records, {Kind.ARGS_REPEAT: 8})
