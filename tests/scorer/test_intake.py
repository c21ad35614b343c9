"""What an intake keeps holds no content, is told of after the commit, and what it cannot keep is refused."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_loopguard import policy
from otel_loopguard.digest import Keyring
from otel_loopguard.facts import FactsReader
from otel_loopguard.model import Span
from otel_loopguard.scorer.group_facts import decode_arrival
from otel_loopguard.scorer.intake import IntakeQueue
from otel_loopguard.scorer.records import Arrival, Pending, Refusal, RefusedError
from otel_loopguard.scorer.settings import Raw
from tests.captures.summary import CAPTURES, POLICY, SPANS
from tests.replaying import DIGESTER, KEY, items_of
from tests.scorer.memory_store import MemoryStore
from tests.scorer.scoring import Clock, without_likeness

DEFAULT: Final = policy.default()
TRACE, OTHER = "1" * 32, "2" * 32
CANARY: Final = "canary-7fd1"


class Slow(MemoryStore):
    """Commits when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[tuple[Sequence[Arrival], Future[tuple[int, ...]]]] = []

    def append(self, arrivals: Sequence[Arrival]) -> Future[tuple[int, ...]]:
        """Waits."""
        done: Future[tuple[int, ...]] = Future()
        self.waiting.append((arrivals, done))
        return done

    def commit(self) -> None:
        """Keeps the oldest of what waits."""
        arrivals, done = self.waiting.pop(0)
        done.set_result(super().append(arrivals).result())


class Queue:
    """An intake with what it told."""

    def __init__(self, store: MemoryStore, **fields: Any) -> None:
        self.learnt: list[Pending] = []
        self.open = 0
        self.queue = IntakeQueue(
            store,
            fields.pop("policy", DEFAULT),
            Keyring(KEY),
            learn=self.learnt.extend,
            load=lambda: self.open,
            clock=Clock(),
            **fields,
        )


def tool_span(span_id: str, trace_id: str = TRACE, **fields: Any) -> Span:
    """A raw tool span as the GenAI conventions have it."""
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "lookup",
        "gen_ai.tool.call.arguments": f'{{"order": "{CANARY}"}}',
        "gen_ai.tool.call.result": f"{CANARY} is on its way to the customer",
        **fields.pop("attributes", {}),
    }
    return Span(trace_id=trace_id, span_id=span_id * 16, end_ns=5, attributes=attributes, **fields)


def spans_of(name: str) -> list[Span]:
    """The spans of one capture."""
    return [item for item in items_of(SPANS / f"{name}.jsonl") if isinstance(item, Span)]


def test_one_row_a_trace_with_what_joins_it() -> None:
    """Conversations of tool spans, run ids, links; and whether a root has ended."""
    store = MemoryStore()
    queue = Queue(store)
    spans = [
        tool_span("a", parent_id="f" * 16, attributes={"gen_ai.conversation.id": "talk"}),
        tool_span("b", OTHER, links=((TRACE, "a" * 16), (OTHER, "c" * 16))),
        tool_span("c", parent_id="f" * 16, attributes={"loopguard.run.id": "job-1"}),
        Span(trace_id=OTHER, span_id="d" * 16, attributes={"gen_ai.conversation.id": "not a tool's"}),
    ]
    assert {} == queue.queue.submit(spans).result()
    conversation = DIGESTER.conversation("talk")
    assert [
        (1, TRACE, 2, (f"c:{conversation}", "r:job-1"), False),
        (2, OTHER, 2, (TRACE,), True),
    ] == [(one.row, one.trace_id, one.spans, one.names, one.root_ended) for one in queue.learnt]
    assert list(store.pending()) == queue.learnt
    assert {Clock()()} == {one.received_ns for one in queue.learnt}


def test_an_open_root_has_not_ended() -> None:
    """Frameworks export spans that are still open."""
    store = MemoryStore()
    queue = Queue(store)
    queue.queue.submit([Span(trace_id=TRACE, span_id="a" * 16)]).result()
    assert [False] == [one.root_ended for one in queue.learnt]


def test_the_facts_of_every_capture_come_back_as_they_are() -> None:
    """All but sketches, which mean something in one process only."""
    reader = FactsReader(POLICY, lambda _: DIGESTER)
    for name in CAPTURES:
        store = MemoryStore()
        Queue(store, policy=POLICY).queue.submit(spans_of(name)).result()
        kept = [span for arrival in store.rows.values() for span in decode_arrival(arrival.facts)]
        expected = [without_likeness(reader.of_span(span)) for span in spans_of(name)]
        assert sorted(expected, key=repr) == sorted(kept, key=repr), name


def test_no_content_is_kept() -> None:
    """Arguments, results and errors of raw spans are digested on arrival; so are names that are no names."""
    store = MemoryStore()
    odd = f"look {CANARY} up"
    spans = [
        tool_span("a"),
        tool_span("b", status_code=2, status_message=CANARY, attributes={"error.type": odd}),
        tool_span("c", name=CANARY, attributes={"gen_ai.tool.name": odd, "gen_ai.tool.call.id": odd}),
        tool_span("d", attributes={"gen_ai.agent.name": odd, "gen_ai.conversation.id": CANARY}),
        Span(trace_id=TRACE, span_id="e" * 16, name=CANARY, attributes={"gen_ai.prompt": CANARY, CANARY: CANARY}),
    ]
    Queue(store).queue.submit(spans).result()
    assert 5 == sum(arrival.spans for arrival in store.rows.values())
    assert CANARY not in repr(store.rows)


def test_raw_tool_spans_are_rejected_where_the_owner_says_so() -> None:
    """The rest of the request is kept, and how many were not is told."""
    store = MemoryStore()
    queue = Queue(store, raw=Raw.REFUSE)
    digested = Span(
        trace_id=TRACE,
        span_id="b" * 16,
        end_ns=5,
        attributes={
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "lookup",
            "loopguard.schema": 1,
            "loopguard.call.digest": "a" * 32,
            "loopguard.result.digest": "b" * 32,
        },
    )
    failed = msgspec.structs.replace(digested, span_id="d" * 16, status_code=2, status_message=CANARY)
    assert {"raw_content": 2} == queue.queue.submit([tool_span("a"), digested, failed]).result()
    assert [1] == [one.spans for one in queue.learnt]
    assert {"raw_content": 1} == queue.queue.submit([tool_span("a")]).result()
    assert 1 == len(store.rows)


def test_nothing_is_done_or_told_before_the_commit() -> None:
    """In the order of the commits."""
    store = Slow()
    queue = Queue(store)
    first, second = queue.queue.submit([tool_span("a")]), queue.queue.submit([tool_span("b", OTHER)])
    assert (False, False, []) == (first.done(), second.done(), queue.learnt)
    store.commit()
    assert (True, False, [TRACE]) == (first.done(), second.done(), [one.trace_id for one in queue.learnt])
    store.commit()
    assert (True, [1, 2]) == (second.done(), [one.row for one in queue.learnt])


def test_a_caller_that_gives_up_takes_nothing_back() -> None:
    """What was written is judged, whoever waits for it."""
    store = Slow()
    queue = Queue(store)
    done = queue.queue.submit([tool_span("a")])
    assert not done.cancel()
    store.commit()
    assert (True, 1) == (done.done(), len(queue.learnt))


def test_what_the_store_cannot_keep_is_no_success() -> None:
    """The refusal is the store's, and the judge hears nothing."""
    store = MemoryStore()
    queue = Queue(store)
    store.refusing = Refusal.DISK_FULL
    with pytest.raises(RefusedError) as refused:
        queue.queue.submit([tool_span("a")]).result()
    assert (Refusal.DISK_FULL, []) == (refused.value.reason, queue.learnt)


def test_an_intake_that_stops_or_is_full_refuses() -> None:
    """Both may be tried again."""
    store = MemoryStore()
    queue = Queue(store, max_load=10)
    queue.open = 10
    with pytest.raises(RefusedError) as refused:
        queue.queue.submit([tool_span("a")])
    assert Refusal.BUSY is refused.value.reason
    queue.open = 9
    queue.queue.submit([tool_span("a")]).result()
    queue.queue.stop()
    with pytest.raises(RefusedError) as refused:
        queue.queue.submit([tool_span("a")])
    assert (Refusal.STOPPING, 1) == (refused.value.reason, len(store.rows))


def test_a_request_without_spans_is_done_at_once() -> None:
    """It is a success of nothing."""
    store = MemoryStore()
    assert {} == Queue(store).queue.submit([]).result()
    assert {} == store.rows


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_KEYS = st.sampled_from(
    [
        "gen_ai.operation.name",
        "gen_ai.tool.name",
        "gen_ai.tool.call.arguments",
        "gen_ai.tool.call.result",
        "gen_ai.usage.input_tokens",
        "gen_ai.conversation.id",
        "loopguard.schema",
        "loopguard.run.id",
        "loopguard.call.sequence",
        "loopguard.run.calls",
        "loopguard.new_items",
        "openinference.span.kind",
        "llm.token_count.prompt",
        "output.value",
        "langsmith.span.kind",
        "traceloop.span.kind",
    ]
)
_KINDS = st.sampled_from(["execute_tool", "chat", "invoke_agent", "TOOL", "LLM", "tool", "llm"])


@given(
    st.dictionaries(_KEYS, _VALUES | _KINDS | st.sampled_from(['{"n": 1' + "0" * 40 + "}", "\ud800"])),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**64 - 1),
)
def test_whatever_a_span_holds_it_is_kept_and_read_back(attributes: dict[str, Any], start: int, end: int) -> None:
    """Large numbers, odd text, wrong types, times out of range."""
    store = MemoryStore()
    queue = Queue(store, policy=POLICY)
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t"}
    spans = [
        Span(trace_id=TRACE, span_id="a" * 16, start_ns=start, end_ns=end, attributes=attributes),
        Span(trace_id=TRACE, span_id="b" * 16, start_ns=start, attributes={**attributes, **tool}),
    ]
    queue.queue.submit(spans).result()
    (arrival,) = store.rows.values()
    first, second = decode_arrival(arrival.facts)
    assert (start, end, start) == (first.start_ns, first.end_ns, second.start_ns)
