"""How alike two texts are, told from bounded sketches of their words instead of the texts.

Invariants: pure, bounded work and memory whatever the text; words are compared as the hashes that Python gives
strings, which are keyed and differ from process to process, and numbers are hidden under such a key, so that a
sketch tells nothing where it is kept and means nothing anywhere else. Only the equality of two hashes decides
anything, and which words a large text is judged by does not depend on them: the same two texts are equally alike
in every process.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from array import array
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache
from itertools import compress, islice
from sys import byteorder
from typing import Final, NamedTuple, TypeAlias

import msgspec

from otel_loopguard.model import Sketch, Value

MAX_KEPT_WORDS: Final = 256
"""Distinct words kept of a text. With more, a sample of 128 to 256 errs by about 0.04 (one standard deviation)."""

MAX_NUMBERS: Final = 16
"""Numbers kept of a text."""

MAX_LOOKED_AT: Final = 16_384
"""Characters looked at from each end of a text; what lies between in a longer one is told by its length alone."""

MAX_PIECES: Final = 4_096
"""Values of one structure looked at for words."""

MAX_VALUES: Final = 32
"""Arguments of one call looked at one by one."""

MAX_DEPTH: Final = 32
"""Levels of one structure looked at for words."""

FREE_TEXT_WORDS: Final = 3
"""Words, parted by white space, that make a string free text: wording, not an id, a path, a date or a name.
Source: titles of three words that a model reworded (complaint C14); addresses and paths have no white space."""

SLOT_WORDS: Final = 2
"""Words of a name that fills a slot of a sentence: "New York"."""

_WORD: Final = re.compile(r"\w+")
_ASCII_WORDS: Final = {
    code: chr(code).lower() if chr(code).isalnum() or chr(code) == "_" else " " for code in range(128)
}
"""Lower case for what `_WORD` takes for a part of a word, space for all else."""
_NO_LETTERS: Final = dict.fromkeys(map(ord, "abcdefghijklmnopqrstuvwxyz_"))
"""Leaves nothing of a word without digits."""
_DIGIT: Final = re.compile(r"\d")
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")
_BITS: Final = 63
_BITS_A_HASH: Final = 64
_BYTES_A_HASH: Final = 8
_LOWEST_BITS: Final = sum(1 << _BITS_A_HASH * n for n in range(MAX_KEPT_WORDS))
_NO_WORDS: Final[frozenset[str]] = frozenset()
_as_json: Final = msgspec.json.Encoder().encode
_MAX_DIGITS: Final = 300
"""Characters of a number that are read: a float holds no more than 308 digits."""
_VEIL_KEY: Final = b"".join(hash(f"numbers {n}").to_bytes(8, "little", signed=True) for n in range(4))
"""Of this process only, as its hashes of words are."""
_FREE_TEXT: Final = "\x7f"
"""Stands in a frame where free text was; shorter than any, so that a frame is never too large to be digested."""

Words: TypeAlias = frozenset[int]
"""The unpacked hashes of a sketch."""


class Framed(NamedTuple):
    """Arguments of which some are free text: `frame` is the rest, `wording` all words."""

    frame: Value
    wording: Sketch


# --- sketches -------------------------------------------------------------------------------------------


def sketch(text: str) -> Sketch:
    """Returns the sketch of a text.

    Args:
        text: of any length; of more than 32,768 characters the first and the last 16,384 are looked at.

    Cost: about 1 µs for 4 words; bounded by `MAX_LOOKED_AT`.
    """
    seen = text if len(text) <= 2 * MAX_LOOKED_AT else f"{text[:MAX_LOOKED_AT]} {text[-MAX_LOOKED_AT:]}"
    # Of ASCII text a table makes the same words, at a tenth of the cost.
    spaced = seen.translate(_ASCII_WORDS) if seen.isascii() else None
    found = _WORD.findall(seen.casefold()) if spaced is None else spaced.split()
    # In the order of the text: what two texts of one template share then lies at both ends of their sketches.
    distinct = list(dict.fromkeys(found))
    level, kept = 0, distinct
    while len(kept) > MAX_KEPT_WORDS:
        # Which words stay is decided by a checksum, not by the hash, or it would differ from process to process.
        level += 1
        mask = (1 << level) - 1
        kept = [word for word in kept if not zlib.crc32(word.encode("utf-8", "surrogatepass")) & mask]
    if _DIGIT.search(seen) is None:
        return Sketch(_packed(kept, _NO_WORDS), level, len(distinct), len(found), len(text))
    if spaced is None:
        with_digits = {word for word in kept if not word.isalpha() and _DIGIT.search(word)}
    else:
        with_digits = set(compress(spaced.split(" "), spaced.translate(_NO_LETTERS).split(" ")))
    numbers = [float(match[0][:_MAX_DIGITS]) for match in islice(_NUMBER.finditer(seen), MAX_NUMBERS)]
    hashes = _packed(kept, with_digits)
    veiled = _veil(array("d", numbers).tobytes(), hashes)
    return Sketch(hashes, level, len(distinct), len(found), len(text), veiled)


def _packed(words: list[str], with_digits: AbstractSet[str]) -> bytes:
    # The lowest bits are set and cleared of all together: that is one operation on one large number.
    hashes = _as_number(array("q", map(hash, words)))
    marks = _as_number(array("q", map(with_digits.__contains__, words))) if with_digits else 0
    return (hashes & ~_LOWEST_BITS | marks).to_bytes(len(words) * _BYTES_A_HASH, byteorder)


def _as_number(hashes: array[int]) -> int:
    return int.from_bytes(hashes.tobytes(), byteorder)


def _veil(numbers: bytes, hashes: bytes) -> bytes:
    """Hides numbers, and gives back hidden ones: they may be put on disk, and one may be a secret."""
    seed = _VEIL_KEY + hash(hashes).to_bytes(8, "little", signed=True)
    stream = hashlib.blake2b(seed).digest()
    if len(numbers) > len(stream):
        stream += hashlib.blake2b(seed + b"on").digest()
    hidden = int.from_bytes(numbers, "little") ^ int.from_bytes(stream[: len(numbers)], "little")
    return hidden.to_bytes(len(numbers), "little")


def numbers_of(one: Sketch) -> tuple[float, ...]:
    """Returns the first numbers of the text, at most `MAX_NUMBERS`, in order."""
    return tuple(array("d", _unveiled(one.numbers, one.hashes))) if one.numbers else ()


_unveiled: Final = lru_cache(maxsize=64)(_veil)


def sketch_of(value: Value) -> Sketch:
    """Returns the sketch of the words in any value: of a text itself, of a structure's names and leaves."""
    if isinstance(value, str):
        return sketch(value)
    pieces: list[str] = []
    _collect(value, pieces, MAX_DEPTH)
    return sketch(" ".join(pieces))


def _collect(value: Value, pieces: list[str], depth: int) -> None:
    if len(pieces) >= MAX_PIECES or depth == 0:
        return
    if isinstance(value, str):
        pieces.append(value)
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            pieces.append(str(name))
            _collect(inner, pieces, depth - 1)
    elif isinstance(value, list | tuple):
        for inner in value:
            _collect(inner, pieces, depth - 1)
    elif isinstance(value, bool | int | float):
        pieces.append(str(value) if not isinstance(value, int) or value.bit_length() <= _BITS else "0")


def framed(arguments: Value, form: bytes | None = None) -> Framed | None:
    """Parts arguments into free text and what identifies the action: ids, paths, numbers, short values, names.

    Args:
        arguments: as the call digest sees them.
        form: their canonical form, where it is known: most that has no free text shows by it.

    Returns:
        None where no string in them has `FREE_TEXT_WORDS` words or more.

    Cost: about 0.5 µs for arguments without free text.
    """
    if form is not None and form.isascii() and form.count(b" ") + form.count(b"\\") < FREE_TEXT_WORDS - 1:
        return None  # most calls: only ids, numbers and short words
    if arguments is None or (form is None and not _may_hold_free_text(arguments)):
        return None
    frame = _frame(arguments, MAX_DEPTH)
    return None if frame is arguments else Framed(frame, sketch_of(arguments))


def _may_hold_free_text(value: Value) -> bool:
    """Tells quickly of most structures that no string in them has spaces enough for free text."""
    try:
        text = _as_json(value)
    except (TypeError, ValueError, RecursionError):
        return True
    return not text.isascii() or text.count(b" ") + text.count(b"\\") >= FREE_TEXT_WORDS - 1


def _frame(value: Value, depth: int) -> Value:
    if isinstance(value, str):
        return _FREE_TEXT if is_free_text(value) else value
    if depth == 0:
        return value
    if isinstance(value, dict):
        changed = None
        for name, inner in value.items():
            new = _frame(inner, depth - 1)
            if new is not inner:
                changed = dict(value) if changed is None else changed
                changed[name] = new
        return value if changed is None else changed
    if isinstance(value, list | tuple):
        items = [_frame(inner, depth - 1) for inner in value]
        return value if all(new is inner for new, inner in zip(items, value, strict=True)) else items
    return value


def values_of(arguments: Value) -> tuple[int, ...]:
    """Returns a hash of each argument: its name and its value, letter case and the width of spaces aside.

    The lowest bit is 1 for a value that is free text, or holds some. Of more than `MAX_VALUES` arguments the first
    are looked at, of a long value its beginning.
    """
    if not isinstance(arguments, Mapping):
        return () if arguments is None else values_of({"": arguments})
    hashes = []
    for name, value in islice(arguments.items(), MAX_VALUES):
        pieces: list[str] = []
        _collect(value, pieces, MAX_DEPTH)
        told = hash((name, *" ".join(pieces)[:MAX_LOOKED_AT].casefold().split()))
        hashes.append(told & ~1 if _frame(value, MAX_DEPTH) is value else told | 1)
    return tuple(hashes)


def is_free_text(text: str) -> bool:
    """Tells whether a string is wording: at least `FREE_TEXT_WORDS` words parted by white space."""
    return len(text.split(None, FREE_TEXT_WORDS - 1)) == FREE_TEXT_WORDS


def count_words(text: str, most: int) -> int:
    """Returns how many words, parted by white space, a text has; `most` for any more. Cost: by `most`."""
    return min(most, len(text[: most * _LONG_WORD].split(None, most)))


_LONG_WORD: Final = 64
"""Characters a word may have on average before counting stops short of the end of a text."""

# --- comparing ------------------------------------------------------------------------------------------


def words_of(one: Sketch) -> Words:
    """Unpacks a sketch. Cost: about 4 µs for 256 words, once for those that were in use last."""
    return _unpacked(one.hashes)


@lru_cache(maxsize=64)
def _unpacked(hashes: bytes) -> Words:
    return frozenset(array("q", hashes))


@lru_cache(maxsize=64)
def _apart(one: bytes, other: bytes) -> tuple[Words, Words]:
    """Returns what words only the one holds, and what only the other; kept, since several rules ask of one pair.

    Words are in the order of the text and each is there once. So no word that both begin or end with can be in what
    lies between, the two ends cannot overlap, and only what lies between is unpacked. Where it lies, the lowest and
    the highest bit that differs tell.
    """
    if one == other:
        return _NOTHING, _NOTHING
    begins, ends = one[:_BYTES_A_HASH] == other[:_BYTES_A_HASH], one[-_BYTES_A_HASH:] == other[-_BYTES_A_HASH:]
    if begins or ends:
        short, longer = (one, other) if len(one) <= len(other) else (other, one)
        number, further = _number(short), _number(longer)
        begin = end = 0
        if begins:
            differs = number ^ further
            begin = ((differs & -differs).bit_length() - 1) // _BITS_A_HASH * _BYTES_A_HASH
        if ends:
            differs = number << 8 * (len(longer) - len(short)) ^ further
            end = len(longer) - -(-differs.bit_length() // _BITS_A_HASH) * _BYTES_A_HASH
        only = frozenset(array("q", one[begin : len(one) - end]))
        others = frozenset(array("q", other[begin : len(other) - end]))
    else:
        only, others = _unpacked(one), _unpacked(other)
    return (only, others) if only.isdisjoint(others) else (only - others, others - only)


@lru_cache(maxsize=64)
def _number(hashes: bytes) -> int:
    return int.from_bytes(hashes, "little")


_NOTHING: Final[Words] = frozenset()


def likeness(one: Sketch, other: Sketch) -> float:
    """Returns how alike two texts are: shared distinct words / all distinct words, case aside.

    Returns:
        0 to 1, exactly so where neither has more than 256 distinct words, else by a sample; 1 for two empty texts.
    """
    if one.hashes == other.hashes and one.distinct == other.distinct:
        return 1.0
    shared = _shared(one, other)
    union = one.distinct + other.distinct - shared
    return min(1.0, shared / union) if union > 0 else 1.0


def per_cent(one: Sketch, other: Sketch, *, enough: int = 0) -> int:
    """Returns the likeness in whole per cent, rounded down, so that 95 means at least 0.95.

    Args:
        one: of the earlier text.
        other: of the later one.
        enough: any likeness below this may be returned as 0, which is cheaper: the numbers of words may tell.
    """
    if one.level == other.level == 0:
        fewer, more = one.distinct, other.distinct
        if fewer > more:
            fewer, more = more, fewer
        if 100 * fewer < enough * more:
            return 0
        shared = len(one.hashes) // _BYTES_A_HASH - len(_apart(one.hashes, other.hashes)[0])
        union = fewer + more - shared
        return int(shared / union * 100 + _LITTLE) if union else 100
    return int(likeness(one, other) * 100 + _LITTLE)


_LITTLE: Final = 1e-9
"""0.57 * 100 is a little less than 57."""


def _shared(one: Sketch, other: Sketch) -> float:
    """How many distinct words both texts hold; exact where all are kept, else estimated from the coarser sample."""
    words, others = len(one.hashes) // _BYTES_A_HASH, len(other.hashes) // _BYTES_A_HASH
    shared = words - len(_apart(one.hashes, other.hashes)[0])
    if one.level == other.level == 0:
        return shared
    if one.level == other.level:
        return shared * (one.distinct + other.distinct) / max(words + others, 1)
    # The finer sample holds every word of its text that the coarser one could, so what part of the coarser it
    # holds is what part of that text the other shares.
    coarse, sample = (one, words) if one.level > other.level else (other, others)
    return shared * coarse.distinct / max(sample, 1)


def is_reordered(one: Sketch, other: Sketch) -> bool:
    """Tells whether two texts hold the same words and numbers: only their order, case, signs or repeats differ.

    False for texts of which only a sample of the words was kept.
    """
    if one.level or other.level or one.distinct != other.distinct or _apart(one.hashes, other.hashes)[0]:
        return False
    return one == other or sorted(set(numbers_of(one))) == sorted(set(numbers_of(other)))


def only_numbers_differ(one: Sketch, other: Sketch) -> bool:
    """Tells whether two texts have the same words, but for those that hold a digit."""
    only, others = _apart(one.hashes, other.hashes)
    return all(word & 1 for word in only) and all(word & 1 for word in others)


def answers_what_is_new(question: Sketch, answer: Sketch, other_question: Sketch, other_answer: Sketch) -> bool:
    """Tells whether an answer names what its question holds and the other did not: then it answers that question.

    Templates give answers that are much alike and still each the right one: "In Oslo it is 12 degrees". Half of the
    new words are enough; fewer are an echo, as of the line that an error complains about.
    """
    new_words = _apart(other_question.hashes, question.hashes)[1]
    if not new_words:
        return False
    named = new_words & _apart(other_answer.hashes, answer.hashes)[1]
    return 2 * len(named) >= len(new_words)


def fills_a_slot(one: Sketch, other: Sketch) -> bool:
    """Tells whether two texts differ in a name: each holds one or two words in the place of the other's.

    Where sentences are all that a tool takes, this is how work on many items looks: "Tell Ana that it is late".
    Words that only come or go ("please") are wording.
    """
    if one.level or other.level:
        return False  # no sentence has so many words
    only, others = _apart(one.hashes, other.hashes)
    return 0 < len(only) <= SLOT_WORDS and 0 < len(others) <= SLOT_WORDS


def direction(one: Sketch, later: Sketch) -> int:
    """Returns where the numbers went, 1 up or -1 down, by the first that differs, as in a clock; 0 if none does."""
    if not (one.numbers and later.numbers) or (one.numbers == later.numbers and one.hashes == later.hashes):
        return 0
    befores, afters = _unveiled(one.numbers, one.hashes), _unveiled(later.numbers, later.hashes)
    if befores == afters:
        return 0
    for before, after in zip(array("d", befores), array("d", afters), strict=False):
        if before != after:
            return 1 if after > before else -1
    return 0


def grew(one: Sketch, later: Sketch) -> bool:
    """Tells whether a text is an earlier one with more added: longer, with nearly all of its words.

    Of a text that is looked at in part only, the end moves on as it grows: then its length decides, and half the words,
    as the beginning is what stays.
    """
    if later.length <= one.length:
        return False
    if later.length > 2 * MAX_LOOKED_AT:
        return _shared(one, later) >= one.distinct / 2
    return later.words >= one.words and _shared(one, later) >= _HELD * one.distinct


_HELD: Final = 0.95
"""Part of an earlier text's distinct words that a text it has grown into still holds; a cursor line may change."""
