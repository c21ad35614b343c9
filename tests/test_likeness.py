"""Likeness: bounded sketches of texts, and what may be concluded from two of them."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_loopguard.canonical import encode
from otel_loopguard.likeness import (
    MAX_KEPT_WORDS,
    MAX_LOOKED_AT,
    MAX_NUMBERS,
    answers_what_is_new,
    count_words,
    direction,
    fills_a_slot,
    framed,
    grew,
    is_free_text,
    is_reordered,
    likeness,
    numbers_of,
    only_numbers_differ,
    per_cent,
    sketch,
    sketch_of,
    values_of,
    words_of,
)
from otel_loopguard.model import Sketch

TEXTS = st.lists(st.sampled_from([*"abcdefghij", "Ä", "12", "7x", "\ud800", "_"]), max_size=30).map(" ".join)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
ROOT = Path(__file__).resolve().parent.parent


def _plainly(one: str, other: str) -> float:
    """Shared distinct words / all distinct words, from the texts themselves."""
    a, b = (set(re.findall(r"\w+", text.casefold())) for text in (one, other))
    return len(a & b) / len(a | b) if a | b else 1.0


def test_ascii_text_has_the_words_that_any_text_has() -> None:
    """A text of ASCII characters alone is parted into the same words as one that holds another character."""
    for code in range(128):
        text = f"One{chr(code)}2two_ x{chr(code)}"
        other = sketch(f"{text} \u00e4")
        assert words_of(sketch("\u00e4")) | words_of(sketch(text)) == words_of(other)
        assert numbers_of(sketch(text)) == numbers_of(other)


@given(TEXTS, TEXTS)
def test_likeness_of_small_texts_is_exact(one: str, other: str) -> None:
    """Up to 256 distinct words nothing is estimated."""
    assert _plainly(one, other) == pytest.approx(likeness(sketch(one), sketch(other)))


@given(TEXTS, TEXTS)
def test_likeness_is_symmetric_and_one_for_equal_texts(one: str, other: str) -> None:
    """Neither text comes first."""
    assert likeness(sketch(one), sketch(other)) == likeness(sketch(other), sketch(one))
    assert 1.0 == likeness(sketch(one), sketch(one))


@pytest.mark.parametrize("shared", [0, 200, 500, 900, 1000])
@pytest.mark.parametrize("others", [100, 700, 1500])
def test_likeness_of_large_texts_is_near(shared: int, others: int) -> None:
    """A sample of at least 128 words errs by a few hundredths, whatever the two sizes."""
    one = " ".join(f"word{n}" for n in range(1000))
    other = " ".join([*(f"word{n}" for n in range(shared)), *(f"other{n}" for n in range(others))])
    assert _plainly(one, other) == pytest.approx(likeness(sketch(one), sketch(other)), abs=0.1)


def test_which_words_are_kept_does_not_depend_on_the_process() -> None:
    """Fault "sampled by hash": a large text's likeness is the same whatever Python's hash key is."""
    code = (
        "from otel_loopguard.likeness import *\n"
        "a, b = (sketch(' '.join(f'w{n}' for n in range(s, s + 900))) for s in (0, 333))\n"
        "print(likeness(a, b), a.level, len(words_of(a)))"
    )
    said = {
        subprocess.run(  # noqa: S603  # our own command line
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert 1 == len(said)


@given(TEXTS)
def test_case_and_punctuation_do_not_matter(text: str) -> None:
    """Words are compared case-folded, and only words."""
    assert 1.0 == likeness(sketch(text), sketch(f"«{text.upper().lower()}»!"))


def test_sketches_are_bounded() -> None:
    """A text of a mebibyte keeps 256 words and 16 numbers, and counts no more than was looked at."""
    text = " ".join(str(n) for n in range(150_000))
    made = sketch(text)
    assert len(text) == made.length > 2**19
    assert 8 * MAX_KEPT_WORDS >= len(made.hashes)
    assert MAX_KEPT_WORDS // 4 <= len(words_of(made)) <= MAX_KEPT_WORDS
    assert tuple(float(n) for n in range(MAX_NUMBERS)) == numbers_of(made)
    assert made.words <= 2 * MAX_LOOKED_AT


def test_both_ends_of_a_long_text_are_looked_at() -> None:
    """A log shows what is new at its end."""
    filler = "x " * MAX_LOOKED_AT
    assert 1.0 > likeness(sketch(f"begin {filler} end"), sketch(f"begin {filler} finish"))
    assert 1.0 > likeness(sketch(f"begin {filler} end"), sketch(f"start {filler} end"))


def test_sketch_survives_being_put_aside() -> None:
    """Replay keeps facts on disk while it runs."""
    made = sketch("It is 12.5 degrees in Oslo")
    assert made == msgspec.msgpack.decode(msgspec.msgpack.encode(made), type=Sketch)


def test_sketch_holds_no_words() -> None:
    """What is kept cannot be read, neither words nor numbers."""
    made = sketch("secretword another 4711")
    held = msgspec.msgpack.encode(made)
    assert b"secretword" not in held
    assert struct.pack("d", 4711.0) not in held
    assert (4711.0,) == numbers_of(made)


@settings(max_examples=200)
@given(VALUES)
def test_any_value_can_be_sketched_and_framed(value: Any) -> None:
    """Arguments come from models: nothing in them may raise."""
    made = sketch_of(value)
    assert 0.0 <= likeness(made, sketch("some words")) <= 1.0
    parts = framed(value)
    assert parts is None or parts.wording == made


def test_huge_numbers_neither_raise_nor_cost() -> None:
    """Digits without end are cut before they are read as a number."""
    assert 1 == len(numbers_of(sketch("9" * 10_000)))
    assert sketch_of([10**5000]).words == 1


def test_deep_structures_end() -> None:
    """A structure deeper than any sensible one is looked at down to a depth."""
    value: Any = "three words here"
    for _ in range(500):
        value = [value]
    assert 0 == sketch_of(value).words
    assert framed(value) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("readiness notes", False),
        ("rent level research", True),
        ("/srv/my/long/path/to/a/file.py", False),
        ("https://shop.example/item?try=1&more=words", False),
        ("  padded   out  ", False),
        ("one\ntwo\nthree", True),
        ("", False),
    ],
)
def test_free_text_is_wording(text: str, *, expected: bool) -> None:
    """Three words parted by white space; ids, paths and addresses are none."""
    assert expected is is_free_text(text)


def test_frame_keeps_what_identifies() -> None:
    """Only the wording may differ between two calls that ask for the same; all else is the action."""
    one = framed({"index": "docs", "top": 5, "query": "rules for a refund", "tags": ["a", "what is it for"]})
    other = framed({"index": "docs", "top": 5, "query": "how refunds work here", "tags": ["a", "and one more thing"]})
    third = framed({"index": "mail", "top": 5, "query": "rules for a refund", "tags": ["a", "what is it for"]})
    assert one is not None
    assert other is not None
    assert third is not None
    assert one.frame == other.frame != third.frame
    assert framed({"index": "docs", "top": 5, "query": "refunds"}) is None
    assert framed(None) is None
    assert framed("a b c") is not None


def test_values_of_arguments() -> None:
    """One hash a name and value, letter case and spaces aside; free text is marked."""
    one, two = values_of({"city": "New  York", "top": 5}), values_of({"top": 5, "city": "new york"})
    assert set(one) == set(two)
    assert [0, 0] == [value & 1 for value in one]
    assert 1 == len(set(values_of({"city": "York", "top": 5})) - set(one))
    assert 1 == len(set(values_of({"town": "New York", "top": 5})) - set(one))
    assert values_of({"path": "a.py"}) != values_of({"path": "./a.py"})
    assert [1, 1] == [value & 1 for value in values_of({"q": "what is it", "more": [{"q": "where is it now"}]})]
    assert () == values_of({}) == values_of(None)
    assert 1 == len(values_of("a"))
    assert 32 == len(values_of({str(n): n for n in range(40)}))


@given(VALUES)
def test_values_of_any_arguments(value: Any) -> None:
    """Whatever the arguments are, there are at most so many hashes, of 64 bits each."""
    found = values_of(value)
    assert len(found) <= 32
    assert all(-(2**63) <= one < 2**63 for one in found)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("refund policy", "Policy: refund!", True),
        ("now", "now now now", True),
        ("", "?", True),
        ("line 3", "line 3", True),
        ("line 3", "line 4", False),
        ("rate 1.5", "rate 5.1", False),
        ("refund policy", "refund policies", False),
        (" ".join(f"w{n}" for n in range(300)), " ".join(f"w{n}" for n in reversed(range(300))), False),
    ],
)
def test_is_reordered(one: str, other: str, *, expected: bool) -> None:
    """The same words and numbers, as far as all of them are known."""
    assert expected is is_reordered(sketch(one), sketch(other))
    assert expected is is_reordered(sketch(other), sketch(one))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("12 % done", "24 % done", True),
        ("sed -n 1,50p file", "sed -n 51,100p file", True),
        ("read item7 of a", "read item8 of a", True),
        ("12 % done", "12 % failed", False),
        ("same", "same", True),
    ],
)
def test_only_numbers_differ(one: str, other: str, *, expected: bool) -> None:
    """A word that holds a digit is a number."""
    assert expected is only_numbers_differ(sketch(one), sketch(other))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("12 % done", "24 % done", 1),
        ("3 left", "2 left", -1),
        ("at 18:06:58", "at 18:07:03", 1),
        ("at 18:07:03", "at 18:07:03", 0),
        ("1.5 of 9", "1.25 of 9", -1),
        ("none", "none", 0),
    ],
)
def test_direction_of_numbers(one: str, other: str, expected: int) -> None:
    """The first number that differs decides, so that a clock goes up when its minute does."""
    assert expected == direction(sketch(one), sketch(other))


def test_growing_text() -> None:
    """A log with lines added has grown; one that only changed, or shrank, has not."""
    log = "boot ok disk ok net ok"
    assert grew(sketch(log), sketch(f"{log} login ok"))
    assert not grew(sketch(f"{log} login ok"), sketch(log))
    assert not grew(sketch(log), sketch("quite another text that is longer than the first"))
    assert not grew(sketch(log), sketch(log))


def test_growing_beyond_what_is_kept() -> None:
    """Fault "growth told from a sample": a coarser sample holds fewer words, and the text has grown all the same."""
    words = [f"word{n}" for n in range(600)]
    assert grew(sketch(" ".join(words[:250])), sketch(" ".join(words)))


def test_growing_beyond_what_is_looked_at() -> None:
    """Of a long text the end moves on; another long text is no growth, nor is one that got no longer."""
    words = [f"word{n}" for n in range(6_000)]
    log = " ".join(words)
    assert grew(sketch(log), sketch(f"{log} {' '.join(words[:100])}"))
    assert not grew(sketch(log), sketch(log))
    assert not grew(sketch(log), sketch(" ".join(f"other{n}" for n in range(9_000))))


def test_template_answers_name_what_was_asked() -> None:
    """Answers that differ in the name that was asked for are answers; an echo of a few words is not."""
    oslo, paris = sketch("What is the weather in Oslo"), sketch("What is the weather in Paris")
    in_oslo, in_paris = sketch("The weather in Oslo is fair"), sketch("The weather in Paris is fair")
    assert answers_what_is_new(paris, in_paris, oslo, in_oslo)
    assert not answers_what_is_new(paris, in_oslo, oslo, in_oslo)
    retry = sketch("sorry let me correct the call to Paris now with care")
    assert not answers_what_is_new(retry, sketch("no such call: Paris"), oslo, sketch("no such call: Oslo"))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("Tell Ana that it is late", "Tell Bo that it is late", True),
        ("The weather in Oslo", "The weather in New York", True),
        ("The weather in New York City", "The weather in Oslo", False),
        ("send it", "please send it", False),
        ("send it", "send it", False),
    ],
)
def test_name_in_a_slot(one: str, other: str, *, expected: bool) -> None:
    """One or two words in the place of others; words that only come are wording."""
    assert expected is fills_a_slot(sketch(one), sketch(other)) is fills_a_slot(sketch(other), sketch(one))


@pytest.mark.parametrize(("shared", "expected"), [(18, 90), (19, 95), (20, 100), (12, 60), (11, 55)])
def test_per_cent_rounds_down(shared: int, expected: int) -> None:
    """Of 20 words 19 are 95 per cent, exactly, and 4 of 7 are 57."""
    assert 57 == per_cent(sketch("a b c d e f g"), sketch("a b c d"))
    words = [f"w{n}" for n in range(20)]
    assert expected == per_cent(sketch(" ".join(words)), sketch(" ".join(words[:shared])))


@pytest.mark.parametrize(("text", "expected"), [("", 0), ("a  b", 2), ("w " * 64, 64), ("w " * 65, 64)])
def test_words_are_counted_up_to_a_bound(text: str, expected: int) -> None:
    """Sixty-four or more is all that any rule asks."""
    assert expected == count_words(text, 64)


def test_frame_is_never_larger_than_the_arguments() -> None:
    """Fault "frame too large": arguments just under the size bound have a frame, and facts of them do not raise."""
    value = {"lines": ["a b c"] * 50_000}
    parts = framed(value)
    assert parts is not None
    assert len(encode(parts.frame)) < len(encode(value))


# --- against a plain reference ---------------------------------------------------------------------------

_PLAIN_WORDS = st.sampled_from([f"w{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(400)] + ["Ärger", "ßo", "é"])
_NUMBERED = st.integers(0, 30).map(str) | st.integers(0, 9).map(lambda n: f"run{n}") | st.just("2.5")
_WORDINGS = st.lists(_PLAIN_WORDS | _NUMBERED, max_size=40)
_LONG = st.integers(0, 400).map(lambda start: [f"word{n}" for n in range(start, start + 300)])
_CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["add", "drop", "replace", "move", "turn"]), st.integers(0, 700), _PLAIN_WORDS | _NUMBERED
    ),
    max_size=6,
)


def _changed(words: list[str], changes: list[tuple[str, int, str]]) -> list[str]:
    """Words after some are added, left out, replaced, moved to the end, or turned round."""
    words = list(words)
    for how, place, word in changes:
        at = place % (len(words) + 1)
        if how == "add":
            words.insert(at, word)
        elif how == "turn":
            words = words[:at] + words[at:][::-1]
        elif at < len(words):
            moved = words.pop(at)
            if how == "replace":
                words.insert(at, word)
            elif how == "move":
                words.append(moved)
    return words


@st.composite
def _pairs(draw: st.DrawFn) -> tuple[str, str]:
    """Two texts: one made of the other by a few changes, or nothing to do with it; some larger than what is kept."""
    one = draw(
        st.lists(_LONG | _WORDINGS, min_size=1, max_size=2).map(lambda parts: [w for part in parts for w in part])
    )
    other = _changed(one, draw(_CHANGES)) if draw(st.booleans()) else draw(_WORDINGS)
    return " ".join(one), " ".join(other)


class _Plain:
    """What the sketch of a text stands for, as sets of words that are there to be read."""

    def __init__(self, text: str) -> None:
        found = re.findall(r"\w+", text.casefold())
        self.distinct, self.count, self.length = len(set(found)), len(found), len(text)
        self.level, self.kept = 0, set(found)
        while len(self.kept) > MAX_KEPT_WORDS:
            self.level += 1
            self.kept = {word for word in self.kept if zlib.crc32(word.encode()) % 2**self.level == 0}
        self.numbers = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", text)[:MAX_NUMBERS]]


def _plain_shared(one: _Plain, other: _Plain) -> float:
    shared = len(one.kept & other.kept)
    if one.level == other.level == 0:
        return shared
    if one.level == other.level:
        return shared * (one.distinct + other.distinct) / max(len(one.kept) + len(other.kept), 1)
    coarse = one if one.level > other.level else other
    return shared * coarse.distinct / max(len(coarse.kept), 1)


def _plain_likeness(one: _Plain, other: _Plain) -> float:
    if one.kept == other.kept and one.distinct == other.distinct:
        return 1.0
    shared = _plain_shared(one, other)
    union = one.distinct + other.distinct - shared
    return min(1.0, shared / union) if union > 0 else 1.0


def _plain_direction(one: _Plain, other: _Plain) -> int:
    for before, after in zip(one.numbers, other.numbers, strict=False):
        if before != after:
            return 1 if after > before else -1
    return 0


def _plain_growth(one: _Plain, later: _Plain) -> bool:
    return later.length > one.length and later.count >= one.count and _plain_shared(one, later) >= 0.95 * one.distinct


@settings(max_examples=400)
@given(_pairs(), st.integers(0, 100))
def test_comparing_is_as_by_sets_of_words(pair: tuple[str, str], enough: int) -> None:
    """Faults "a word is lost where two texts begin or end alike": every answer is what plain sets of words give."""
    (a, b), (one, other) = map(_Plain, pair), map(sketch, pair)
    gone, come, whole = a.kept - b.kept, b.kept - a.kept, a.level == b.level == 0
    wanted = int(_plain_likeness(a, b) * 100 + 1e-9)
    assert _plain_likeness(a, b) == likeness(one, other)
    assert wanted == per_cent(one, other)
    assert per_cent(one, other, enough=enough) in ((wanted,) if wanted >= enough else (0, wanted))
    assert len(gone) == len(words_of(one) - words_of(other))
    assert all(re.search(r"\d", word) for word in gone | come) is only_numbers_differ(one, other)
    same_numbers = set(a.numbers) == set(b.numbers)
    assert (whole and a.kept == b.kept and same_numbers) is is_reordered(one, other)
    assert (whole and 0 < len(gone) <= 2 and 0 < len(come) <= 2) is fills_a_slot(one, other)
    assert _plain_direction(a, b) == direction(one, other)
    assert _plain_growth(a, b) is grew(one, other)


@given(_pairs(), _pairs())
def test_what_is_new_is_as_by_sets_of_words(asked: tuple[str, str], answered: tuple[str, str]) -> None:
    """Half of the words that are new in a question are new in its answer, or they are not."""
    (before, now), (was, said) = map(_Plain, asked), map(_Plain, answered)
    new = now.kept - before.kept
    expected = bool(new) and 2 * len(new & (said.kept - was.kept)) >= len(new)
    (before_made, now_made), (was_made, said_made) = map(sketch, asked), map(sketch, answered)
    assert expected is answers_what_is_new(now_made, said_made, before_made, was_made)
