"""LangSmith's OpenTelemetry spans of LangChain and LangGraph."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_loopguard.dialects import langsmith
from otel_loopguard.dialects.reading import Content, Reading
from otel_loopguard.model import Outcome, Role, Span, SpanEvent, TerminationReason, Unknown
from tests.dialects import captures, main_scenario
from tests.dialects.encode_instrumentation import span

OURS = captures.names("+langsmith-")


def read(given: Span) -> Reading:
    """Read a span that must be known."""
    reading = langsmith.read(given)
    assert reading is not None
    return reading


def tool(attributes: dict[str, Any], *, status: int = 1) -> Reading:
    """Read a tool span."""
    return read(span("lookup_order", "langsmith", {"langsmith.span.kind": "tool", **attributes}, status=status))


@pytest.mark.parametrize("name", OURS)
def test_capture_gives_its_golden_readings(name: str) -> None:
    """Every span of every capture is read as was checked by hand."""
    assert captures.golden(name) == [captures.shown(reading) for reading in captures.readings(name)]


@pytest.mark.parametrize("name", captures.names("+langsmith-", "+main"))
def test_main_capture_holds_nine_calls(name: str) -> None:
    """3 equal, 3 moving, 2 siblings, 1 failed; every call has its id, its step and its conversation."""
    calls = captures.calls(name)
    main_scenario.check(calls)
    assert [f"call_000{number}" for number in range(1, 10)] == sorted(str(call.call_id) for call in calls)
    assert {"conv-123"} == {call.conversation for call in calls}
    assert len({call.turn for call in calls}) == 8


@pytest.mark.parametrize("scenario", ["+recursion", "+calllimit"])
def test_stated_limit_is_read(scenario: str) -> None:
    """The class in the exception's text, or the middleware's fixed words, say that a limit ended the run."""
    (name,) = captures.names("+langsmith-", scenario)
    said = [reading for reading in captures.readings(name) if reading and reading.termination]
    assert [(Role.AGENT, TerminationReason.TURN_LIMIT)] == [(reading.role, reading.termination) for reading in said]


def test_agent_that_failed_with_status_ok_is_failed() -> None:
    """The exception event outweighs the status."""
    (name,) = [name for name in captures.names("+langsmith-", "+main") if name.endswith("+main")]
    agents = [
        (given.status_code, reading)
        for given, reading in zip(captures.spans(name), captures.readings(name), strict=True)
        if reading and reading.role is Role.AGENT
    ]
    assert [(1, Outcome.ERROR, "ValueError", "order A12 is locked by another user", None)] == [
        (code, agent.outcome, agent.error_type, agent.error_text, agent.final_answer) for code, agent in agents
    ]


def test_answer_that_quotes_a_limit_is_an_answer() -> None:
    """Only a message that no model wrote is the middleware's."""
    for about, expected in (({"model_name": "gpt-fake"}, (True, None)), ({}, (False, TerminationReason.TURN_LIMIT))):
        message = {"type": "ai", "content": "Model call limits exceeded: run limit (4/4)", "response_metadata": about}
        attributes = {
            "langsmith.span.kind": "chain",
            "gen_ai.completion": json.dumps({"messages": [message]}),
        }
        root = Span(trace_id="0" * 32, span_id="1" * 16, name="agent", end_ns=1, status_code=1, attributes=attributes)
        assert expected == (read(root).final_answer, read(root).termination)


def test_inputs_of_older_tools_are_a_repr() -> None:
    """Tools called with text have it under `input`; only a dict's repr stands for arguments."""
    assert Content({"a": 1}) == tool({"gen_ai.prompt": '{"input": "{\'a\': 1}"}'}).arguments
    assert Content({"input": "J7"}) == tool({"gen_ai.prompt": '{"input": "J7"}'}).arguments


def test_no_outputs_are_no_result() -> None:
    """A failed run has `{}` for its outputs: that is not an empty result."""
    assert Unknown.NOT_CAPTURED is tool({"gen_ai.completion": "{}"}, status=2).result.unknown


def test_tool_message_may_be_an_error() -> None:
    """A handled tool error has status OK on its span and `error` in its message."""
    message = {"type": "tool", "content": "no such order", "tool_call_id": "c1", "status": "error"}
    reading = tool({"gen_ai.completion": json.dumps({"output": message})})
    assert (Outcome.ERROR, "no such order", "c1") == (reading.outcome, reading.error_text, reading.call_id)


def test_plain_output_is_unwrapped() -> None:
    """What is no ToolMessage stands under `output` as it is."""
    assert Content({"a": 1}) == tool({"gen_ai.completion": '{"output": {"a": 1}}'}).result
    assert Content(None) == tool({"gen_ai.completion": '{"output": null}'}).result


def test_nodes_are_not_agents() -> None:
    """A chain is an agent's run only if it bears the agent's name."""
    attributes = {"langsmith.span.kind": "chain", "langsmith.metadata.lc_agent_name": "OrderAgent"}
    roles = [read(span(name, "langsmith", attributes)).role for name in ("OrderAgent", "model", "tools")]
    assert [Role.AGENT, Role.OTHER, Role.OTHER] == roles


def test_exception_text_is_content_and_kept_short() -> None:
    """A traceback is no part of an error's text."""
    event = SpanEvent(
        "exception",
        {"exception.type": "Exception", "exception.message": "KeyError('x')Traceback (most recent call last):\n  File"},
    )
    given = Span(
        trace_id="0" * 32,
        span_id="1" * 16,
        name="x",
        end_ns=1,
        attributes={"langsmith.span.kind": "tool"},
        events=(event,),
    )
    assert ("KeyError", "x") == (read(given).error_type, read(given).error_text)


def test_foreign_span_is_none() -> None:
    """A span without LangSmith's kind is not read."""
    assert langsmith.read(span("x", "langsmith", {"gen_ai.operation.name": "execute_tool"})) is None


def test_kinds_that_say_nothing_are_other() -> None:
    """Retrievers, parsers and kinds of a wrong type tell nothing of a run."""
    for kind in ("retriever", "parser", 5, ["tool"]):
        assert Role.OTHER is read(span("x", "langsmith", {"langsmith.span.kind": kind})).role
