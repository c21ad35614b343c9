"""logfire's spans of openai-agents, and its pending spans of everything."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from otel_loopguard import dialects
from otel_loopguard.content import KeyKind, kind_of_key
from otel_loopguard.dialects import logfire
from otel_loopguard.dialects.reading import Content, Reading
from otel_loopguard.model import ChatFacts, Finish, NotACall, Outcome, Role, Span, TerminationReason, Unknown
from tests.dialects import captures, main_scenario
from tests.dialects.encode_instrumentation import ENCODERS, span

OURS = captures.names("+logfire-")
SCOPE = "logfire.openai_agents"


def read(given: Span) -> Reading:
    """Read a span that must be known."""
    reading = logfire.read(given)
    assert reading is not None
    return reading


def function(attributes: dict[str, Any]) -> Reading:
    """Read a function span."""
    named = {"logfire.msg_template": "Function: {name}", "name": "lookup_order", **attributes}
    return read(span("Function: {name}", SCOPE, named, status=0))


@pytest.mark.parametrize("name", OURS)
def test_capture_gives_its_golden_readings(name: str) -> None:
    """Every span of every capture is read as was checked by hand."""
    assert captures.golden(name) == [captures.shown(reading) for reading in captures.readings(name)]


@pytest.mark.parametrize("name", captures.names("+logfire-", "+main") + captures.names("+logfire-", "+stream"))
def test_main_capture_holds_nine_calls(name: str) -> None:
    """3 equal, 3 moving, 2 siblings, 1 failed."""
    main_scenario.check(captures.calls(name))


def test_turns_are_numbered() -> None:
    """Each turn span has the number that openai-agents gave it, going on after a handoff."""
    (name,) = captures.names("+logfire-", "+handoff")
    turns = [
        (reading.turn, reading.agent) for reading in captures.readings(name) if reading and reading.role is Role.TURN
    ]
    assert [("1", "OrderAgent"), ("2", "OrderAgent"), ("3", "RefundAgent"), ("4", "RefundAgent")] == turns


def test_handoff_is_not_a_call() -> None:
    """The handoff names its origin."""
    (name,) = captures.names("+logfire-", "+handoff")
    handoffs = [reading for reading in captures.readings(name) if reading and reading.role is Role.HANDOFF]
    assert [(NotACall.HANDOFF, "OrderAgent")] == [(reading.not_a_call, reading.agent) for reading in handoffs]


def test_limit_is_in_the_error_attribute() -> None:
    """The agent's span alone says that the turns ran out."""
    (name,) = captures.names("+logfire-", "+maxturns")
    said = [reading for reading in captures.readings(name) if reading and reading.termination]
    assert [(Role.AGENT, TerminationReason.TURN_LIMIT)] == [(reading.role, reading.termination) for reading in said]


def test_conversation_is_on_the_root() -> None:
    """The group id of both runs of a session."""
    (name,) = captures.names("+logfire-", "+session")
    assert {"conv-123", None} == {reading and reading.conversation for reading in captures.readings(name)}


@pytest.mark.parametrize("shape", sorted(ENCODERS))
def test_pending_span_of_any_dialect_is_no_call(shape: str) -> None:
    """A pending span has the attributes of the real one, and its own id: it would count each call twice."""
    given = ENCODERS[shape]("lookup_order", {"a": 1}, "ok", "call_0001")
    pending = msgspec.structs.replace(given, attributes={**given.attributes, "logfire.span_type": "pending_span"})
    reading = dialects.read(pending)
    assert reading is not None
    assert Role.OTHER is reading.role


def test_content_off_is_null_and_not_a_value() -> None:
    """With sensitive data off both are null, which is neither "no arguments" nor a result."""
    reading = function({"input": "null", "output": "null"})
    assert (Unknown.NOT_CAPTURED, Unknown.NOT_CAPTURED) == (reading.arguments.unknown, reading.result.unknown)
    assert Content(None) == function({"input": "{}", "output": "null"}).result


def test_scrubbed_arguments_are_redacted() -> None:
    """Logfire replaces what looks like a secret, also within arguments."""
    for text in ("[Scrubbed due to 'password']", '{"user": "ann", "password": "[Scrubbed due to \'password\']"}'):
        assert Unknown.REDACTED is function({"input": text, "output": "ok"}).arguments.unknown


def test_error_attribute_is_an_error() -> None:
    """An error counts whatever the status says; its text is the tool's error, else the message."""
    reading = function({"input": "{}", "error": '{"message": "Error running tool", "data": {"error": "locked"}}'})
    assert (Outcome.ERROR, "locked") == (reading.outcome, reading.error_text)
    assert "Max turns exceeded" == function({"error": '{"message": "Max turns exceeded", "data": {}}'}).error_text
    assert Outcome.OK is function({"input": "{}", "error": "null"}).outcome


def test_call_id_of_a_response_is_not_its_items_id() -> None:
    """A function call has two ids: the item's and the call's."""
    items = [
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I will look."}]},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "lookup_order", "arguments": "{}"},
    ]
    attributes = {
        "logfire.msg_template": "Responses API with {gen_ai.request.model!r}",
        "response": json.dumps({"output": items}),
    }
    reading = read(span("Responses API", SCOPE, attributes))
    assert (ChatFacts(requested=("call_1",), requested_calls=1, finish=Finish.TOOL_CALLS), False) == (
        reading.chat,
        reading.final_answer,
    )


def test_foreign_span_is_none() -> None:
    """Other scopes of logfire are read by the dialects of what they trace."""
    assert logfire.read(span("execute_tool x", "pydantic-ai", {"logfire.span_type": "span"})) is None


def test_other_spans_of_the_scope_say_nothing() -> None:
    """Guardrails and custom spans are neither turns nor calls."""
    for template in ("Guardrail {name!r}", "Custom span: {name}", 5):
        assert Role.OTHER is read(span("x", SCOPE, {"logfire.msg_template": template})).role


@pytest.mark.parametrize("key", ["request_data", "response_data"])
def test_what_a_model_was_asked_and_said_is_content(key: str) -> None:
    """Logfire's spans of chat completions hold all messages under these names."""
    assert kind_of_key(key) is KeyKind.CONTENT
