"""OpenLLMetry (Traceloop) spans of every framework."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from otel_loopguard import dialects
from otel_loopguard.dialects import openllmetry
from otel_loopguard.dialects.reading import Content, Reading
from otel_loopguard.model import Finish, Layer, NotACall, Outcome, Role, Span, TerminationReason, Unknown
from tests.dialects import captures, main_scenario
from tests.dialects.encode_instrumentation import ENCODERS, span

OURS = [
    name
    for package in ("openai-agents-0.62", "langchain-0.62", "agno-0.62", "crewai-0.62", "mcp-0.62")
    for name in captures.names(f"+opentelemetry-instrumentation-{package}")
]
MAIN = [name for name in OURS if "+main" in name and "-off" not in name and not name.startswith("crewai")]
LLAMA_INDEX = "opentelemetry.instrumentation.llamaindex"
LANGCHAIN = "opentelemetry.instrumentation.langchain"
AGNO = "opentelemetry.instrumentation.agno"


def tool_span(scope: str, attributes: dict[str, Any], *, name: str = "lookup_order.tool", status: int = 1) -> Span:
    """Return a tool span of one scope."""
    return span(name, scope, {"traceloop.span.kind": "tool", **attributes}, status=status)


def read(given: Span) -> Reading:
    """Read a span that must be known."""
    reading = openllmetry.read(given)
    assert reading is not None
    return reading


# --- captures -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OURS)
def test_capture_gives_its_golden_readings(name: str) -> None:
    """Every span of every capture is read as was checked by hand."""
    assert captures.golden(name) == [captures.shown(reading) for reading in captures.readings(name)]


@pytest.mark.parametrize("name", MAIN)
def test_main_capture_holds_nine_calls(name: str) -> None:
    """Whatever the framework: 3 equal, 3 moving, 2 siblings, 1 failed."""
    main_scenario.check(captures.calls(name))


def test_content_off_leaves_reasons() -> None:
    """TRACELOOP_TRACE_CONTENT=false removes arguments and results; what was asked for is still seen by its finish."""
    (name,) = captures.names("openai-agents-0.62", "+main-off")
    main_scenario.check_without_content(captures.calls(name), Unknown.NOT_CAPTURED)
    finishes = [reading.chat.finish for reading in captures.readings(name) if reading and reading.chat]
    assert [Finish.TOOL_CALLS] * 8 + [Finish.STOP] == finishes


def test_crewai_has_no_calls_at_all() -> None:
    """OpenLLMetry writes no tool spans for crewai: a workflow, its agent, and the answer."""
    (name,) = captures.names("crewai", "opentelemetry")
    assert [] == captures.calls(name)
    roles = [reading.role for reading in captures.readings(name) if reading]
    assert [Role.WORKFLOW, Role.OTHER, Role.AGENT] == roles


@pytest.mark.parametrize(
    "parts", [("openai-agents-0.62", "+maxturns"), ("langchain-0.62", "+recursion"), ("langchain-0.62", "+calllimit")]
)
def test_stated_limit_is_read(parts: tuple[str, ...]) -> None:
    """Where spans say that a limit ended the run, they are read so, and claim no answer."""
    (name,) = captures.names(*parts)
    said = [reading for reading in captures.readings(name) if reading and reading.termination]
    assert {TerminationReason.TURN_LIMIT} == {reading.termination for reading in said}
    assert not any(reading.final_answer for reading in said)


def test_setup_spans_hold_no_run() -> None:
    """`create_agent` makes an agent, in a trace of its own."""
    (name,) = [name for name in captures.names("langchain-0.62", "+main") if name.endswith("+main")]
    assert 1 == sum(reading.role is Role.SETUP for reading in captures.readings(name) if reading)


def test_handoff_is_not_a_call() -> None:
    """The handoff names its origin; `unknown` is no agent."""
    (name,) = captures.names("openai-agents-0.62", "+handoff")
    handoffs = [reading for reading in captures.readings(name) if reading and reading.role is Role.HANDOFF]
    assert [(NotACall.HANDOFF, "OrderAgent")] == [(reading.not_a_call, reading.agent) for reading in handoffs]


def test_mcp_spans_are_the_clients_side() -> None:
    """Each MCP span lies in the host's span of the same call; the writer's noise is nothing."""
    (name,) = captures.names("mcp-1.30")
    inner = [reading for reading in captures.readings(name) if reading and reading.layer is Layer.CLIENT]
    assert 9 == len(inner)
    main_scenario.check(inner)
    noise = [
        reading
        for given, reading in zip(captures.spans(name), captures.readings(name), strict=True)
        if given.name in ("ResponseStreamWriter", "initialize.mcp", "tools/list.mcp")
    ]
    assert len(noise) > 9
    assert {Role.OTHER} == {reading and reading.role for reading in noise}


# --- LangChain ----------------------------------------------------------------------------------------------


def test_langchain_envelope_never_enters_the_arguments() -> None:
    """Step, checkpoint and call id differ in each call: arguments are what stands under `inputs`."""
    encode = ENCODERS["openllmetry.langchain"]
    first, second = (read(encode("lookup_order", {"order_id": "A12"}, "ok", call_id)) for call_id in ("c1", "c2"))
    assert first.arguments == second.arguments == Content({"order_id": "A12"})
    assert ("c1", "c2") == (first.call_id, second.call_id)


def test_langchain_without_inputs_reads_the_repr() -> None:
    """Older callbacks have the repr of the arguments only; a bare text stays text."""
    for text, expected in (("{'a': 1, 'b': True}", {"a": 1, "b": True}), ("J7", "J7")):
        envelope: dict[str, Any] = {"input_str": text, "tags": [], "metadata": {}, "inputs": None, "kwargs": {}}
        given = tool_span(LANGCHAIN, {"gen_ai.tool.call.arguments": json.dumps(envelope)})
        assert Content(expected) == read(given).arguments


def test_langchain_failure_keeps_its_call_id() -> None:
    """A failed call has no result: its id stands in the callback's own arguments."""
    envelope = {"input_str": "{}", "inputs": {}, "kwargs": {"tool_call_id": "c7"}}
    given = tool_span(
        LANGCHAIN, {"gen_ai.tool.call.arguments": json.dumps(envelope), "gen_ai.task.status": "failure"}, status=0
    )
    assert ("c7", Outcome.ERROR) == (read(given).call_id, read(given).outcome)


def test_langchain_result_may_be_no_tool_message() -> None:
    """What is no ToolMessage stands under `output` as it is."""
    given = tool_span(LANGCHAIN, {"gen_ai.tool.call.result": '{"output": {"a": 1}, "kwargs": {"tags": []}}'})
    assert Content({"a": 1}) == read(given).result


# --- agno ---------------------------------------------------------------------------------------------------


def agno_result(text: str) -> Reading:
    """Read a call of agno with this result object's repr."""
    return read(tool_span(AGNO, {"traceloop.entity.input": "{}", "traceloop.entity.output": text}))


def test_agno_failure_is_in_the_text_only() -> None:
    """The span's status is OK on failures."""
    failed = agno_result("status='failure' result=None error='order A12 is locked' updated_session_state=None")
    assert (Outcome.ERROR, "order A12 is locked") == (failed.outcome, failed.error_text)
    assert Content("order A12 is locked") == failed.result


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ("None", None),
        ("'task 1 finished'", "task 1 finished"),
        ("[1, 2.5, True]", [1, 2.5, True]),
        ("{'note': \"it's error=None here\"}", {"note": "it's error=None here"}),
        ("Order(id='A12')", "Order(id='A12')"),
    ],
)
def test_agno_result_is_read_from_its_repr(result: str, expected: object) -> None:
    """Whatever value the result's repr stands for; an object's repr stays text."""
    reading = agno_result(f"status='success' result={result} error=None updated_session_state=None images=None")
    assert (Outcome.OK, Content(expected)) == (reading.outcome, reading.result)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("status='success' result=<generator object f at 0x7f00aa> error=None images=None", Unknown.UNPARSABLE),
        ("status='success' result={'order_id': 'A1", Unknown.TRUNCATED),
    ],
)
def test_agno_result_that_is_no_value_says_why(text: str, reason: Unknown) -> None:
    """An address differs in each call and a cut text is no result: both are unknown."""
    assert reason is agno_result(text).result.unknown


# --- llama-index and the SDK's decorators ----------------------------------------------------------------------


def test_llama_index_task_is_a_tool_by_its_output() -> None:
    """The tool is named in the output only; without one the call stays a call without a name."""
    given = ENCODERS["openllmetry.llama_index"]("lookup_order", {"a": 1}, {"b": 2}, "c")
    assert (Role.TOOL, "lookup_order") == (read(given).role, read(given).tool)
    attributes = {key: value for key, value in given.attributes.items() if key != "traceloop.entity.output"}
    nameless = read(msgspec.structs.replace(given, attributes=attributes))
    assert (Role.TOOL, None, Content({"a": 1})) == (nameless.role, nameless.tool, nameless.arguments)


def test_llama_index_name_survives_withheld_content() -> None:
    """A redacted result hides the result, not the tool."""
    reading = read(ENCODERS["openllmetry.llama_index"]("lookup_order", {"a": 1}, "[REDACTED]", "c"))
    assert ("lookup_order", Unknown.REDACTED) == (reading.tool, reading.result.unknown)


def test_llama_index_step_wraps_its_tool() -> None:
    """The workflow's step around a tool names it, too: one call in two spans, and the only one left if it fails."""
    output = {
        "tool_name": "cancel_order",
        "tool_kwargs": {"order_id": "A12"},
        "tool_id": "call_0009",
        "tool_output": {"blocks": [{"text": "locked"}], "tool_name": "cancel_order", "is_error": True},
        "return_direct": False,
    }
    attributes = {
        "traceloop.span.kind": "task",
        "tool.name": "cancel_order",
        "tool.arguments": '{"order_id": "A12"}',
        "traceloop.entity.output": json.dumps(output),
    }
    reading = read(span("call_tool.task", LLAMA_INDEX, attributes, status=0))
    assert ("cancel_order", "call_0009", Outcome.ERROR) == (reading.tool, reading.call_id, reading.outcome)
    assert (Content({"order_id": "A12"}), Content("locked")) == (reading.arguments, reading.result)
    assert reading.tool_like_parent


def test_other_tasks_are_no_tools() -> None:
    """Steps of a workflow and retrievers are tasks, too."""
    for name in ("setup_agent.task", "call_tool.task", "RetrieverQueryEngine.task", "Toolbox.task"):
        assert Role.OTHER is read(span(name, LLAMA_INDEX, {"traceloop.span.kind": "task"})).role


def test_decorated_tool_keeps_its_own_dict() -> None:
    """The decorators' envelope is taken off only where it is whole."""
    for given, expected in (
        ({"args": [], "kwargs": {"q": 1}}, {"q": 1}),
        ({"args": ["reef"], "kwargs": {}}, {"args": ["reef"]}),
        ({"kwargs": {"q": 1}}, {"kwargs": {"q": 1}}),
    ):
        attributes = {"traceloop.entity.name": "seek", "traceloop.entity.input": json.dumps(given)}
        reading = read(tool_span("traceloop.tracer", attributes, name="seek.tool"))
        assert ("seek", Content(expected)) == (reading.tool, reading.arguments)


# --- recognising --------------------------------------------------------------------------------------------


def test_foreign_span_is_none() -> None:
    """Spans of other scopes are left to others, also those of the scope that two instrumentations share."""
    attributes = {"gen_ai.operation.name": "chat"}
    for scope in ("opentelemetry.instrumentation.openai_agents", "opentelemetry.instrumentation.genai.langchain", ""):
        assert openllmetry.read(span("chat gpt-fake", scope, attributes)) is None


def test_response_of_the_shared_scope_is_read_by_its_name() -> None:
    """`openai.response` shows its calls in messages, where the other instrumentation of that scope hides them."""
    (name,) = [name for name in captures.names("openai-agents-0.62", "+main") if name.endswith("+main")]
    dialect = {
        reading.dialect
        for given, reading in zip(captures.spans(name), captures.readings(name), strict=True)
        if reading and given.name == "openai.response"
    }
    assert {openllmetry.NAME} == dialect


def test_kind_of_a_wrong_type_is_other() -> None:
    """A kind that is no text says nothing."""
    for kind in (5, ["tool"], {"a": 1}, b"tool"):
        reading = dialects.read(span("x", "y", {"traceloop.span.kind": kind}))
        assert reading is not None
        assert Role.OTHER is reading.role
