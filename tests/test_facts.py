"""Calls whose content was taken off before they came are read by a way of their own, which says the same."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Final

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from otel_loopguard import attributes as attr
from otel_loopguard import dialects
from otel_loopguard import policy as policies
from otel_loopguard.dialects.own import CALL_FIELDS, fits, read_own
from otel_loopguard.dialects.reading import Reading
from otel_loopguard.digest import Digester, Key, Scope
from otel_loopguard.facts import FactsReader
from otel_loopguard.model import Effect, Layer, Role, Span, SpanFacts, TerminationReason, Value

POLICY: Final = policies.load(
    '{"version": 1, "policy": "p", "policy_version": "1", "tools": {"refund": {"effect": "write",'
    ' "business_key": ["order"], "idempotency_key": "request"}, "status": {"effect": "read",'
    ' "polling": {"state": "state", "terminal": ["done"]}}}}',
    source="the test's policy",
)
KEY: Final = Key(key_id="test", secret=bytes(range(32)))
DIGESTS: Final = {name: "ab" * 16 for name, (field, _) in CALL_FIELDS.items() if field.endswith("_digest")}
SOUND: Final[Mapping[str, Value]] = {
    **DIGESTS,
    attr.SCHEMA: 1,
    attr.RUN_ID: "run-1",
    attr.PRODUCER_ID: "0123456789ab.1",
    attr.CALL_SEQUENCE: 3,
    attr.CALL_STARTED: 7,
    attr.TURN_ID: "turn-1",
    attr.AGENT_ID: "agent-1",
    attr.RUN_CALLS: 4,
    attr.TERMINATION_REASON: "turn_limit",
    attr.TERMINAL_RESPONSE: False,
    attr.REQUESTED_CALL_IDS: ["call_1"],
    attr.TOOL: "other_tool",
    attr.CALL_ID: "call_2",
    attr.OWN_ERROR_TYPE: "TimeoutError",
    attr.CALL_UNKNOWN: "dropped",
    attr.RESULT_UNKNOWN: "redacted",
    attr.KEY_ID: "other-key",
    attr.CONTRACT: "01234567",
    attr.POLICY: "q@2",
    attr.TOOL_EFFECT: "write",
    attr.TOOL_PATTERN: "polling",
    attr.OUTCOME: "denied",
    attr.ERROR_CATEGORY: "transient",
    attr.RESULT_CLASS: "empty",
    attr.DENIED_BY: "guard",
    attr.PROGRESS: "unchanged",
    attr.REPEAT_COUNT: 2,
    attr.RESULT_WORDS: 5,
    attr.NEAR_REPEAT_COUNT: 2,
    attr.NEAR_REPEAT_ALIKE: 2,
    attr.NEAR_RESULT_COUNT: 2,
    attr.NEAR_RESULT_ALIKE: 90,
    attr.RESULT_MOVING: True,
    attr.SAME_RESULT_ITEM: True,
    attr.PROGRESS_RULE: "rows increases",
    attr.TERMINAL: False,
    attr.NEW_ITEMS: 0,
    attr.COVERED: True,
}
"""One value of each kind that the contract allows."""
UNSOUND: Final[tuple[Value, ...]] = (None, "", "not a name", True, -1, 2**63, [1], {"a": 1}, 1.5)
NATIVE: Final[Mapping[str, Value]] = {
    attr.TOOL_NAME: "refund",
    attr.TOOL_CALL_ID: "call_1",
    attr.AGENT_NAME: "helper",
    attr.CONVERSATION_ID: "conversation-1",
    attr.ERROR_TYPE: "ValueError",
    attr.TOOL_ARGUMENTS: '{"order": 1, "request": "r"}',
    attr.TOOL_RESULT: '{"state": "done"}',
    "loopguard.unknown": 1,
    "app.loopguard.name": 1,
}


@st.composite
def spans(draw: st.DrawFn) -> Span:
    """A tool span with any of the attributes, most of them as they should be."""
    attributes: dict[str, Value] = {attr.OPERATION: "execute_tool"}
    attributes.update({name: NATIVE[name] for name in draw(st.sets(st.sampled_from(sorted(NATIVE))))})
    if attr.TOOL_NAME in attributes:
        attributes[attr.TOOL_NAME] = draw(st.sampled_from(("refund", "status", "lookup", "no name at all")))
    attributes.update({name: SOUND[name] for name in draw(st.sets(st.sampled_from(sorted(SOUND))))})
    for name in draw(st.sets(st.sampled_from(sorted(SOUND)), max_size=2)):
        attributes[name] = draw(st.sampled_from(UNSOUND))
    return Span(
        trace_id="1" * 32,
        span_id="2" * 16,
        parent_id="3" * 16,
        name="execute_tool refund",
        start_ns=5,
        end_ns=draw(st.sampled_from((None, 9))),
        status_code=draw(st.sampled_from((0, 1, 2))),
        attributes=attributes,
        links=draw(st.sampled_from(((), (("4" * 32, "5" * 16),)))),
        resource=draw(st.sampled_from(({}, {"service.name": "shop", "service.version": "1", "host.name": "h"}))),
        trace_state=draw(st.sampled_from(("", "ot=th:8"))),
        dropped_attributes=draw(st.sampled_from((0, 1))),
    )


@st.composite
def readings(draw: st.DrawFn) -> tuple[Span, Reading]:
    """Such a span as its dialect reads it, with what other dialects may find besides."""
    span = draw(spans())
    reading = dialects.read(span)
    assert reading is not None
    besides = {
        "denied": True,
        "turn": "turn-2",
        "effect": draw(st.sampled_from(("read", "write", "other"))),
        "error_type": "KeyError",
        "layer": Layer.CLIENT,
        "final_answer": True,
        "termination": TerminationReason.TURN_LIMIT,
    }
    names = draw(st.sets(st.sampled_from(sorted(besides))))
    return span, msgspec.structs.replace(reading, **{name: besides[name] for name in names})


@given(read=st.lists(readings(), min_size=1, max_size=3))
def test_the_quick_way_says_the_same(read: list[tuple[Span, Reading]]) -> None:
    """A reader without sketches, which takes it, says of each call what one with sketches does, but for these."""
    digester = Digester(KEY, scope=Scope.ENVIRONMENT)
    quick = FactsReader(POLICY, lambda _: digester, sketches=False)
    whole = FactsReader(POLICY, lambda _: digester)
    for span, reading in read:
        assert _without_likenesses(whole.of_reading(span, reading)) == quick.of_reading(span, reading)


def test_all_of_a_span_is_in_its_facts() -> None:
    """Where a call stands, and what became of its run, is as its producer said."""
    span = Span(
        trace_id="1" * 32,
        span_id="2" * 16,
        parent_id="3" * 16,
        name="execute_tool refund",
        start_ns=5,
        end_ns=9,
        status_code=2,
        attributes={attr.OPERATION: "execute_tool", attr.CONVERSATION_ID: "conversation-1", **SOUND},
        links=(("4" * 32, "5" * 16),),
        resource={"service.name": "shop", "service.version": "1"},
        trace_state="ot=th:8",
        dropped_attributes=1,
    )
    digester = Digester(KEY, scope=Scope.ENVIRONMENT)
    found = FactsReader(POLICY, lambda _: digester, sketches=False).of_span(span)
    assert (
        SpanFacts(
            trace_id="1" * 32,
            span_id="2" * 16,
            parent_id="3" * 16,
            start_ns=5,
            end_ns=9,
            role=Role.TOOL,
            dialect="gen_ai",
            links=(("4" * 32, "5" * 16),),
            service="shop",
            release="1",
            agent="agent-1",
            run_id="run-1",
            conversation=digester.conversation("conversation-1"),
            turn="turn-1",
            producer="0123456789ab.1",
            sequence=3,
            started=7,
            call=found.call,
            termination=TerminationReason.TURN_LIMIT,
            final_answer=False,
            run_calls=4,
            failed=True,
            sampled=True,
            dropped_attributes=True,
        )
        == found
    )


def _without_likenesses(facts: SpanFacts) -> SpanFacts:
    assert facts.call is not None
    return msgspec.structs.replace(facts, call=msgspec.structs.replace(facts.call, likenesses=None))


def test_the_values_are_sound() -> None:
    """Each value is of the contract, and every attribute of a call has one."""
    assert [] == [name for name, value in SOUND.items() if not fits(name, value)]
    assert set() == set(CALL_FIELDS) - set(SOUND)


def test_names_that_are_none_are_digested_for_each_key() -> None:
    """What calls of a tool have in common is remembered for names only: under another key a digest is another."""
    keys = {run: Key(key_id="test", secret=bytes([number] * 32)) for number, run in enumerate(("run-1", "run-2"))}
    digesters = {run: Digester(key, scope=Scope.ENVIRONMENT) for run, key in keys.items()}
    reader = FactsReader(POLICY, digesters.__getitem__, sketches=False)
    tools = []
    for run in digesters:
        attributes = {attr.OPERATION: "execute_tool", attr.TOOL_NAME: "no name", attr.SCHEMA: 1, attr.RUN_ID: run}
        facts = reader.of_span(Span(trace_id="1" * 32, span_id="2" * 16, name="t", start_ns=1, attributes=attributes))
        tools.append(None if facts.call is None else facts.call.tool)
    assert [f"_n:{digester.name('no name')}" for digester in digesters.values()] == tools
    assert tools[0] != tools[1]


def test_effects_are_those_of_each_call() -> None:
    """What one span says of its tool's effect is not said of the next one's."""
    digester = Digester(KEY, scope=Scope.ENVIRONMENT)
    reader = FactsReader(POLICY, lambda _: digester, sketches=False)
    attributes = {attr.OPERATION: "execute_tool", attr.TOOL_NAME: "lookup", attr.SCHEMA: 1}
    span = Span(trace_id="1" * 32, span_id="2" * 16, name="t", start_ns=1, attributes=attributes)
    reading = dialects.read(span)
    assert reading is not None
    told = [msgspec.structs.replace(reading, effect=effect) for effect in ("read", "write", None)]
    calls = [reader.of_reading(span, one).call for one in told]
    assert [Effect.READ, Effect.WRITE, Effect.UNKNOWN] == [call and call.effect for call in calls]


def test_conversations_are_digested_for_each_key() -> None:
    """The last one is remembered with whose digest it is."""
    one, other = (Digester(Key(key_id="test", secret=bytes([n] * 32)), scope=Scope.ENVIRONMENT) for n in (1, 2))
    digesters = iter((one, one, other, other))
    reader = FactsReader(POLICY, lambda _: next(digesters), sketches=False)
    found = []
    for conversation in ("first", "second", "second", "first"):
        attributes = {attr.OPERATION: "execute_tool", attr.TOOL_NAME: "t", attr.CONVERSATION_ID: conversation}
        span = Span(trace_id="1" * 32, span_id="2" * 16, name="t", start_ns=1, attributes=attributes)
        found.append(reader.of_span(span).conversation)
    expected = [one.conversation("first"), one.conversation("second")]
    assert [*expected, other.conversation("second"), other.conversation("first")] == found


class _Resource(dict[str, Value]):
    """A resource that can be watched going."""


def test_resources_do_not_stay_in_memory() -> None:
    """Of the resources of spans that came before nothing is kept: their senders may have written anything into them."""
    reader = FactsReader(POLICY, lambda _: Digester(KEY, scope=Scope.ENVIRONMENT))
    services, gone = [], []
    for number in range(3):
        resource = _Resource({"service.name": f"shop-{number}"})
        gone.append(weakref.ref(resource))
        services += [reader.origin(resource)[0] for _ in range(2)]
        del resource
    assert ["shop-0", "shop-0", "shop-1", "shop-1", "shop-2", "shop-2"] == services
    assert [True, True, False] == [one() is None for one in gone]


def test_other_names_are_not_ours() -> None:
    """A name that holds ours in its middle makes no span one of ours, and one of ours that nobody knows does."""
    assert [False, True, True] == [
        read_own(attributes).present
        for attributes in ({"app.loopguard.name": 1}, {"loopguard.unknown": 1}, {attr.SCHEMA: 1})
    ]
