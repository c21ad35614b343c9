"""What lint counts of runs, how it adds up, and what is said of it.

Invariants: adding is commutative and associative, bounds included, so that runs may come in any order; no content.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, TypeAlias, TypeVar

import msgspec

_Key = TypeVar("_Key")

MAX_TOOLS: Final = 64
"""Tools of one run that evidence is kept of: a policy has fewer, and names come from outside."""
MAX_SIGNALS: Final = 8
"""Rules of one tool that evidence is kept of in one run."""
MAX_SETS: Final = 32
"""Sets of fields in which results of one tool differ; with more there is no pattern in it."""
FEW_VALUES: Final = 10
"""A field with fewer values than this is a state, and not an id or a time."""
MAX_VALUES: Final = 256
"""Values kept of a field: more than there are per cents."""


class SignalEvidence(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What one declared rule of one tool said, in all runs looked at."""

    moved: int = 0
    """Equal calls, with nothing done in between, of which it said that they advanced."""
    still: int = 0
    """Equal calls of which it said that they did not."""
    long_runs: int = 0
    """Runs in which it moved `advice.LONG_ROW` times in a row."""
    longest: int = 0
    """The longest such row."""
    looked: int = 0
    """Results with content in which its value was looked for, or, where content was not there, comparisons."""
    found: int = 0
    """Those with a value that the rule can use."""


class FieldEvidence(msgspec.Struct, frozen=True):
    """In which fields the results of equal calls differ."""

    sets: Mapping[tuple[str, ...], int] = {}
    """Pairs by the paths in which they differ, sorted; empty: nothing in them is equal, or they have no fields."""
    values: Mapping[str, tuple[int, ...]] = {}
    """Distinct values of a path that differed, as `fields.Fields` has them: the `MAX_VALUES` smallest, in order."""
    seen: Mapping[str, int] = {}
    """How many distinct values of the path there were in each run and for each call, added up."""
    full: Mapping[str, int] = {}
    """Of how many runs and calls there were `FEW_VALUES` of them or more."""
    again: frozenset[str] = frozenset()
    """Paths of which an earlier value of the same call came back."""
    many: bool = False
    """There were more than `MAX_SETS` sets; none are kept."""


class ToolEvidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of one tool."""

    repeats: int = 0
    """Equal calls with nothing done in between whose results differed, of tools of which nothing says what moves."""
    reads: int = 0
    """Those that are known to be reads."""
    same: int = 0
    """Equal calls of them whose result had come before in their run."""
    signals: Mapping[str, SignalEvidence] = {}
    """By the rule's label, such as `version increases`."""
    fields: FieldEvidence | None = None
    """Only where the content was at hand; never stored."""


Evidence: TypeAlias = Mapping[str, ToolEvidence]
"""By tool."""


class LintCode(StrEnum):
    """What is wrong with a policy, or may be."""

    SIGNAL_ALWAYS_MOVES = "signal_always_moves"
    SIGNAL_NEVER_FOUND = "signal_never_found"
    SAME_FIELD_DIFFERS = "same_field_differs"
    RESULTS_NEVER_EQUAL = "results_never_equal"
    UNUSED_TOOL = "unused_tool"


class Lint(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of advice; `words.lint_sentence` and `words.lint_advice` put it into words."""

    lint: LintCode
    tool: str
    rule: str | None = None
    """Label of the declared rule."""
    key: str | None = None
    """Where the policy declares it, such as `polling.state`."""
    fields: tuple[str, ...] = ()
    """Paths in the result as `ignore_result` takes them; a part that may be content is `_n:` and its digest."""
    evidence: Mapping[str, int] = {}


def summed(parts: Iterable[Evidence]) -> dict[str, ToolEvidence]:
    """Adds up the evidence of runs, in any order; none of it is changed."""
    whole: dict[str, ToolEvidence] = {}
    for part in parts:
        for tool, more in part.items():
            known = whole.get(tool)
            whole[tool] = more if known is None else _added_tool(known, more)
    return whole


def _added_tool(one: ToolEvidence, other: ToolEvidence) -> ToolEvidence:
    signals = dict(one.signals)
    for label, more in other.signals.items():
        known = signals.get(label)
        signals[label] = more if known is None else _added_signal(known, more)
    return ToolEvidence(
        repeats=one.repeats + other.repeats,
        reads=one.reads + other.reads,
        same=one.same + other.same,
        signals=signals,
        fields=other.fields
        if one.fields is None
        else one.fields
        if other.fields is None
        else _added_fields(one.fields, other.fields),
    )


def _added_signal(one: SignalEvidence, other: SignalEvidence) -> SignalEvidence:
    return SignalEvidence(
        moved=one.moved + other.moved,
        still=one.still + other.still,
        long_runs=one.long_runs + other.long_runs,
        longest=max(one.longest, other.longest),
        looked=one.looked + other.looked,
        found=one.found + other.found,
    )


def _added_fields(one: FieldEvidence, other: FieldEvidence) -> FieldEvidence:
    sets = _added_counts(one.sets, other.sets)
    values = dict(one.values)
    for path, more in other.values.items():
        values[path] = tuple(sorted({*values.get(path, ()), *more})[:MAX_VALUES])
    if one.many or other.many:
        return FieldEvidence(many=True)
    return bounded(
        FieldEvidence(
            sets=sets,
            values=values,
            seen=_added_counts(one.seen, other.seen),
            full=_added_counts(one.full, other.full),
            again=one.again | other.again,
        )
    )


def _added_counts(one: Mapping[_Key, int], other: Mapping[_Key, int]) -> dict[_Key, int]:
    whole = dict(one)
    for key, count in other.items():
        whole[key] = whole.get(key, 0) + count
    return whole


def bounded(fields: FieldEvidence) -> FieldEvidence:
    """These, or that there are too many."""
    return fields if len(fields.sets) <= MAX_SETS else FieldEvidence(many=True)
