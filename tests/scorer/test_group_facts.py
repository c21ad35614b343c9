"""The facts of a group come back as they were, each span once, however the groups before were put together."""

from __future__ import annotations

from collections import Counter

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from otel_loopguard.model import CallFacts, SpanFacts
from otel_loopguard.scorer.group_facts import BLOCK_SPANS, MAX_COPIES, GroupFacts, combined, cut, decode, encode
from tests.assembly.build import tool
from tests.scorer.made_runs import made_spans


@given(made_spans, st.lists(st.integers(0, 3), min_size=1), st.integers(1, 29))
def test_spans_are_counted_as_they_came(spans: list[SpanFacts], parts: list[int], copies: int) -> None:
    """In portions that were kept, read back and put together."""
    spans = spans * copies
    groups: list[GroupFacts] = []
    for part in parts:
        portion, spans = spans[: part * 10], spans[part * 10 :]
        before = groups if part % 2 else []
        groups = [*([] if part % 2 else groups), combined(before, portion)]
    whole = combined([decode(encode(group)) for group in groups], spans)
    arrived = Counter(whole.arrived())
    given_spans = Counter(one for group in groups for one in group.arrived()) + Counter(spans)
    assert {one: min(MAX_COPIES + 1, times) for one, times in given_spans.items()} == dict(arrived)
    assert len(set(whole.spans)) == len(whole.spans)


def test_a_large_group_is_read_in_blocks() -> None:
    """More spans than one block has, in their order; and everything else of the group."""
    group = GroupFacts(
        spans=[tool(f"{n:08}", n, n + 1) for n in range(BLOCK_SPANS * 2 + 1)],
        copies={3: 2},
        parts=1,
        sealed={"r": 1},
        withdrawn={"s": 4},
        aliases={"t": "t@u"},
    )
    read = decode(encode(group))
    assert [getattr(group, name) for name in group.__struct_fields__] == [
        getattr(read, name) for name in group.__struct_fields__
    ]


def test_copies_without_end_are_not_counted_without_end() -> None:
    """What is judged stays of a bounded size."""
    whole = combined([], [tool("a", 0, 1)] * (MAX_COPIES * 3))
    assert (1, MAX_COPIES + 1) == (len(whole.spans), len(whole.arrived()))


def test_parts_hold_the_copies_of_their_spans() -> None:
    """Cut by an order of places."""
    whole = combined([], [tool(name, 0, 1) for name in "abcabcc"])
    parts = cut(whole, [2, 0, 1], 2)
    assert [["c", "c", "c", "a", "a"], ["b", "b"]] == [
        sorted((bytes.fromhex(span.span_id).strip(b"\0").decode() for span in part.arrived()), reverse=True)
        for part in parts
    ]


def test_what_is_stored_of_a_span_keeps_its_places() -> None:
    """Facts on disk are read by place: a new field goes to the end and has a default, and none goes away."""
    assert [
        "trace_id",
        "span_id",
        "parent_id",
        "start_ns",
        "end_ns",
        "role",
        "dialect",
        "links",
        "service",
        "release",
        "host",
        "layer",
        "not_a_call",
        "agent",
        "run_id",
        "conversation",
        "task",
        "user_turn",
        "attempt",
        "turn",
        "after_compaction",
        "concurrent",
        "producer",
        "sequence",
        "started",
        "call",
        "chat",
        "decision",
        "termination",
        "final_answer",
        "run_calls",
        "failed",
        "sampled",
        "dropped_attributes",
        "bad_attributes",
    ] == list(SpanFacts.__struct_fields__)[:35]
    assert [
        "tool",
        "call_id",
        "call_digest",
        "call_unknown",
        "result_digest",
        "result_unknown",
        "result_class",
        "outcome",
        "error_category",
        "error_type",
        "denied_by",
        "dispatched",
        "effect",
        "pattern",
        "contract",
        "key_id",
        "policy",
        "state_digest",
        "idempotency_digest",
        "business_digest",
        "error_digest",
        "signals",
        "progress",
        "progress_rule",
        "terminal",
        "new_items",
        "covered",
        "repeat_count",
        "result_words",
        "likenesses",
        "near_repeat_count",
        "near_repeat_alike",
        "near_result_count",
        "near_result_alike",
        "result_moving",
        "same_result_item",
    ] == list(CallFacts.__struct_fields__)[:36]
    assert ["spans", "copies", "parts", "sealed", "withdrawn", "aliases"] == list(GroupFacts.__struct_fields__)[:6]
    older = msgspec.msgpack.encode([["1" * 32, "2" * 16]])
    assert [SpanFacts(trace_id="1" * 32, span_id="2" * 16)] == msgspec.msgpack.decode(older, type=list[SpanFacts])
