"""What the spans and calls of a run say about the evidence in them: each flag for its reason, and for no other."""

from __future__ import annotations

from typing import Any

import pytest

from otel_loopguard import policy
from otel_loopguard.assembly import assemble
from otel_loopguard.model import Flag, Outcome, SpanFacts, Unknown
from tests.assembly.build import OTHER_TRACE, agent, tool

ARGUMENTS = {
    Unknown.NOT_CAPTURED: Flag.NO_ARGUMENTS,
    Unknown.NOT_CONFIGURED: Flag.NO_ARGUMENTS,
    Unknown.EXCLUDED: Flag.NO_ARGUMENTS,
    Unknown.REDACTED: Flag.REDACTED_ARGUMENTS,
    Unknown.TRUNCATED: Flag.TRUNCATED_ARGUMENTS,
    Unknown.DROPPED: Flag.DROPPED_ATTRIBUTES,
    Unknown.UNPARSABLE: Flag.UNPARSABLE_ARGUMENTS,
    Unknown.SCHEMA_NOT_ARGUMENTS: Flag.SCHEMA_NOT_ARGUMENTS,
}


def flags(*spans: SpanFacts) -> set[Flag]:
    """The flags of the only run, below an agent of its own."""
    (run,) = assemble([agent("one", 0, 99), *spans], policy.default())
    return set(run.flags)


def test_a_sound_run_has_no_flag() -> None:
    """Ended spans, known arguments and results, one key, one policy."""
    known = {"policy": "p@1"}
    assert set() == flags(tool("a", 1, 2, parent="one", call=known), tool("b", 3, 4, parent="one", call=known))


@pytest.mark.parametrize("reason", list(Unknown))
def test_every_reason_for_a_missing_call_digest_has_a_flag(reason: Unknown) -> None:
    """A reader is told what to set, and told apart from what was cut."""
    assert {ARGUMENTS[reason]} == flags(tool("a", 1, 2, parent="one", args=None, call={"call_unknown": reason}))


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Outcome.OK, {Flag.NO_RESULTS}),
        (Outcome.UNKNOWN, {Flag.NO_RESULTS}),
        (Outcome.ERROR, set()),
        (Outcome.DENIED, set()),
    ],
)
def test_a_result_is_missed_where_there_should_be_one(outcome: Outcome, expected: set[Flag]) -> None:
    """A call that failed or was refused has none to record."""
    call = {"result_unknown": Unknown.NOT_CAPTURED}
    assert expected == flags(tool("a", 1, 2, parent="one", result=None, outcome=outcome, call=call))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"end_ns": None}, Flag.OPEN_SPANS),
        ({"sampled": True}, Flag.SAMPLED),
        ({"bad_attributes": True}, Flag.BAD_ATTRIBUTES),
    ],
)
def test_what_a_span_says_of_itself(fields: dict[str, Any], expected: Flag) -> None:
    """One such span is enough."""
    assert {expected} == flags(tool("a", 1, 2, parent="one"), tool("b", 3, 4, parent="one", **fields))


@pytest.mark.parametrize(("field", "expected"), [("key_id", Flag.KEY_CHANGED), ("policy", Flag.POLICY_MISMATCH)])
def test_two_keys_or_policies_in_one_run(field: str, expected: Flag) -> None:
    """Digests under two keys, or contracts of two policies, are not comparable; one that is not told is no second."""
    one, other, untold = (
        tool(name, at, at + 1, parent="one", call={field: value})
        for name, at, value in (("a", 1, "x"), ("b", 3, "y"), ("c", 5, None))
    )
    assert {expected} == flags(one, other)
    assert set() == flags(one, untold)


def test_versions_are_the_business_of_their_own_run() -> None:
    """A copy that differs, or one that ended later, flags the run it belongs to and no other."""
    spans = [
        tool("a", 1, 2, result="r"),
        tool("a", 1, 2, result="s"),
        tool("b", 3, None, result=None, trace_id=OTHER_TRACE),
        tool("b", 3, 4, trace_id=OTHER_TRACE),
        tool("c", 1, 2, trace_id="0" * 31 + "3"),
    ]
    found = {run.run_id[-1]: set(run.flags) for run in assemble(spans, policy.default())}
    assert {"1": {Flag.CONFLICTING_COPIES}, "2": {Flag.SPAN_REVISED}, "3": set()} == found
