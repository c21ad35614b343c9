"""OpenInference spans of every framework."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from otel_loopguard import dialects
from otel_loopguard.dialects import openinference
from otel_loopguard.dialects.reading import Content, Reading
from otel_loopguard.model import (
    ChatFacts,
    Finish,
    NotACall,
    Outcome,
    Role,
    Span,
    SpanEvent,
    TerminationReason,
    Unknown,
)
from tests.dialects import captures, encode_instrumentation, main_scenario
from tests.dialects.encode_instrumentation import ENCODERS, SCHEMA, span

OURS = captures.names("+openinference-instrumentation-")
MAIN = [
    name
    for name in captures.names("+openinference-instrumentation-", "+main")
    if "-off" not in name and not name.startswith(("claude", "langchain", "mcp"))
]
OPENAI = "openinference.instrumentation.openai_agents"


def tool_span(framework: str, attributes: dict[str, Any], *, name: str = "lookup_order", status: int = 1) -> Span:
    """Return a TOOL span of one framework's instrumentation."""
    named = {"openinference.span.kind": "TOOL", "tool.name": "lookup_order", **attributes}
    return span(name, f"openinference.instrumentation.{framework}", named, status=status)


def read(given: Span) -> Reading:
    """Read a span that must be known."""
    reading = openinference.read(given)
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


@pytest.mark.parametrize("name", captures.names("langchain", "+openinference-", "+main"))
def test_langchain_main_holds_bare_arguments(name: str) -> None:
    """A lone text argument of LangChain is its bare text: the one documented difference between dialects."""
    main_scenario.check(captures.calls(name), job="J7", cancelled="A12")


def test_claude_main_keeps_server_in_tool_names() -> None:
    """Two MCP servers may have tools of one name: the prefix stays, and the servers' own spans are an inner layer."""
    calls = [
        call for call in captures.calls(captures.names("claude", "+main")[0]) if call.dialect == openinference.NAME
    ]
    main_scenario.check(calls, prefix="mcp__orders__")
    assert [f"toolu_000{number}" for number in range(1, 10)] == sorted(str(call.call_id) for call in calls)


def test_hidden_content_is_redacted_not_equal() -> None:
    """OPENINFERENCE_HIDE_INPUTS and _OUTPUTS write one constant for all: a reason, never a value."""
    (name,) = captures.names("openai-agents", "openinference", "+main-off")
    main_scenario.check_without_content(captures.calls(name), Unknown.REDACTED)


@pytest.mark.parametrize("name", captures.names("+openinference-", "genai-semconv"))
def test_genai_copies_do_not_displace_the_arguments(name: str) -> None:
    """The schema copied into gen_ai.tool.call.arguments is not read where input.value holds the arguments."""
    assert {None} == {call.arguments.unknown for call in captures.calls(name)}


@pytest.mark.parametrize(
    ("parts", "role"),
    [
        (("openai-agents", "openinference", "+maxturns"), Role.AGENT),
        (("langchain", "openinference", "+recursion"), Role.AGENT),
        (("langchain", "openinference", "+calllimit"), Role.AGENT),
        (("llama-index", "openinference", "+limit"), Role.AGENT),
        (("claude", "openinference", "+limit"), Role.AGENT),
    ],
)
def test_stated_limit_is_read(parts: tuple[str, ...], role: Role) -> None:
    """Where spans say that a limit ended the run, exactly the agent's span says so, and no answer is claimed."""
    (name,) = captures.names(*parts)
    said = [reading for reading in captures.readings(name) if reading is not None and reading.termination is not None]
    assert [(role, TerminationReason.TURN_LIMIT)] == [(reading.role, reading.termination) for reading in said]
    assert not any(reading.final_answer for reading in said)


@pytest.mark.parametrize("framework", ["agno", "crewai", "smolagents"])
def test_silent_limit_claims_nothing(framework: str) -> None:
    """Limits that leave no sign leave no termination reason."""
    (name,) = captures.names(framework, "openinference", "+limit")
    assert {None} == {reading and reading.termination for reading in captures.readings(name)}


def test_parallel_calls_share_the_langgraph_step() -> None:
    """The step is the turn: equal for parallel calls, different for all others."""
    (name,) = [name for name in captures.names("langchain", "openinference", "+main") if name.endswith("+main")]
    turns = [call.turn for call in captures.calls(name)]
    assert ["2", "4", "6", "8", "10", "12", "14", "14", "16"] == turns


# --- what is no call ----------------------------------------------------------------------------------------


def test_handoff_is_not_a_call() -> None:
    """openai-agents types a handoff as a tool without a name."""
    (name,) = captures.names("openai-agents", "openinference", "+handoff")
    handoffs = [reading for reading in captures.readings(name) if reading and reading.role is Role.HANDOFF]
    assert [(NotACall.HANDOFF, "OrderAgent")] == [(reading.not_a_call, reading.agent) for reading in handoffs]


def test_tool_that_lost_its_name_is_still_a_call() -> None:
    """A tool span whose oldest attribute was evicted is named by its span, not taken for a handoff."""
    given = msgspec.structs.replace(
        span("lookup_order", OPENAI, {"openinference.span.kind": "TOOL", "input.value": "{}"}), dropped_attributes=1
    )
    assert (Role.TOOL, "lookup_order") == (read(given).role, read(given).tool)


def test_final_answer_tool_is_the_answer() -> None:
    """Smolagents answers by a tool; ReAct of dspy ends by one; google-adk merges parallel results in one."""
    answer = tool_span("smolagents", {"tool.name": "final_answer", "output.value": "done"}, name="FinalAnswerTool")
    assert (NotACall.FINAL_ANSWER, True) == (read(answer).not_a_call, read(answer).final_answer)
    finish = span("finish.__call__", "openinference.instrumentation.dspy", {"openinference.span.kind": "TOOL"})
    assert (NotACall.FINAL_ANSWER, "finish") == (read(finish).not_a_call, read(finish).tool)
    merged = tool_span("google_adk", {"tool.name": "(merged tools)"}, name="execute_tool (merged)")
    assert NotACall.MERGED is read(merged).not_a_call


def test_adk_agent_with_the_responses_of_a_whole_run_asked_for_no_call() -> None:
    """OpenInference writes one response over the other on ADK's agent span: what is left asked for nothing at once."""
    calls = {f"llm.output_messages.0.message.tool_calls.{at}.tool_call.id": f"call_{at}" for at in range(2)}
    kind = {"openinference.span.kind": "LLM", "llm.model_name": "gemini"}
    reading = read(span("invoke_agent orders", "gcp.vertex.agent", {**kind, **calls}))
    assert ChatFacts(model="gemini") == reading.chat
    one = read(span("call_llm", "gcp.vertex.agent", {**kind, **calls})).chat
    assert one is not None
    assert ("call_0", "call_1") == one.requested


def test_final_answer_of_another_framework_is_a_call() -> None:
    """A tool that happens to be called final_answer is a tool."""
    assert read(tool_span("agno", {"tool.name": "final_answer"})).not_a_call is None


# --- arguments ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("framework", ["openai_agents", "crewai", "smolagents", "llama_index"])
def test_schema_is_never_the_arguments(framework: str) -> None:
    """Without input.value there are no arguments, whatever the schema's shape; a copied schema is called one."""
    for schema in (SCHEMA, '{"order_id": {"title": "Order"}}'):
        assert Unknown.NOT_CAPTURED is read(tool_span(framework, {"tool.parameters": schema})).arguments.unknown
        copied = tool_span(framework, {"tool.parameters": schema, "gen_ai.tool.call.arguments": schema})
        assert Unknown.SCHEMA_NOT_ARGUMENTS is read(copied).arguments.unknown


@pytest.mark.parametrize("framework", ["agno", "autogen_agentchat", "claude_agent_sdk", "google_adk"])
def test_parameters_stand_in_where_they_are_the_arguments(framework: str) -> None:
    """Where tool.parameters is the arguments it serves when input.value is missing or hidden."""
    for hidden in ({}, {"input.value": "__REDACTED__"}):
        given = tool_span(framework, {"tool.parameters": '{"order_id": "A12"}', **hidden})
        assert Content({"order_id": "A12"}) == read(given).arguments


def test_unknown_instrumentation_is_read_with_care() -> None:
    """A scope that is not known may put either in tool.parameters: its schema is seen by its shape."""
    scope = "my.own.tracer"
    attributes = {"openinference.span.kind": "TOOL", "tool.name": "lookup_order"}
    schema = span("lookup_order", scope, {**attributes, "tool.parameters": SCHEMA})
    assert Unknown.SCHEMA_NOT_ARGUMENTS is read(schema).arguments.unknown
    given = span("lookup_order", scope, {**attributes, "tool.parameters": '{"order_id": "A12"}'})
    assert Content({"order_id": "A12"}) == read(given).arguments


def test_own_kwargs_of_other_frameworks_stay() -> None:
    """`kwargs` is an envelope only where the framework writes it: elsewhere it is a tool's own argument."""
    given = {"input.value": '{"kwargs": {"a": 1}}'}
    assert Content({"a": 1}) == read(tool_span("llama_index", given)).arguments
    assert Content({"kwargs": {"a": 1}}) == read(tool_span("agno", given)).arguments


@pytest.mark.parametrize(
    ("envelope", "expected"),
    [
        ({"args": [], "sanitize_inputs_outputs": True, "kwargs": {"q": 1}}, {"q": 1}),
        ({"args": [{"q": 1}], "sanitize_inputs_outputs": True, "kwargs": {}}, {"q": 1}),
        ({"args": ["reef"], "kwargs": {"q": 1}}, {"args": ["reef"], "kwargs": {"q": 1}}),
        ({"args": ["reef"]}, {"args": ["reef"]}),
        ({"kwargs": {}}, {}),
        ({"q": 1}, {"q": 1}),
    ],
)
def test_positional_arguments_are_not_lost(envelope: dict[str, Any], expected: dict[str, Any]) -> None:
    """What stands beside `kwargs` still tells calls apart."""
    assert Content(expected) == read(tool_span("smolagents", {"input.value": json.dumps(envelope)})).arguments


def test_bare_arguments_are_exact() -> None:
    """LangChain's bare text is not decoded: "1" and "1.0" are different requests, and empty text is one, too."""
    bare = [read(tool_span("langchain", {"input.value": text})).arguments for text in ("1", "1.0", "", '{"a": 1}')]
    assert [Content("1"), Content("1.0"), Content(""), Content('{"a": 1}')] == bare
    typed = {"input.value": '{"a": 1}', "input.mime_type": "application/json"}
    assert Content({"a": 1}) == read(tool_span("langchain", typed)).arguments
    assert Unknown.REDACTED is read(tool_span("langchain", {"input.value": "__REDACTED__"})).arguments.unknown


def test_strands_text_argument_does_not_hide_the_others() -> None:
    """Strands' processor keeps of `{"text": …}` only the text in input.value: tool.parameters has it all."""
    encode = ENCODERS["openinference.strands"]
    first, second = ({"text": "hello", "to": to} for to in ("ann", "bob"))
    assert Content(first) == read(encode("say", first, "ok", "c")).arguments
    assert Content(second) == read(encode("say", second, "ok", "c")).arguments


def test_lost_and_cut_arguments_say_why() -> None:
    """Evicted and truncated attributes have reasons of their own."""
    lost = msgspec.structs.replace(tool_span("agno", {}), dropped_attributes=2)
    assert (Unknown.DROPPED, Unknown.DROPPED) == (read(lost).arguments.unknown, read(lost).result.unknown)
    cut = tool_span("agno", {"input.value": '{"doc": "report", "body": "xxxx'})
    assert Unknown.TRUNCATED is read(cut).arguments.unknown


# --- results and endings ------------------------------------------------------------------------------------


def test_langchain_tool_message_may_be_an_error() -> None:
    """A handled tool error has status OK on its span and `error` in its message."""
    message = {"type": "tool", "data": {"content": "no such order", "tool_call_id": "c1", "status": "error"}}
    reading = read(tool_span("langchain", {"output.value": json.dumps(message)}))
    assert (Outcome.ERROR, "no such order", "c1") == (reading.outcome, reading.error_text, reading.call_id)
    assert Content("no such order") == reading.result


def test_langchain_result_may_be_no_tool_message() -> None:
    """A tool that is invoked directly gives its own value."""
    assert Content({"content": 1}) == read(tool_span("langchain", {"output.value": '{"content": 1}'})).result


def test_llama_index_output_may_be_an_error() -> None:
    """ToolOutput says `is_error` on a span that ended well; its text is the error."""
    output = {"blocks": [{"text": "no such order"}], "tool_name": "x", "raw_output": "E()", "is_error": True}
    reading = read(tool_span("llama_index", {"output.value": json.dumps(output)}))
    assert (Outcome.ERROR, Content("no such order")) == (reading.outcome, reading.result)


def test_autogen_wrapper_does_not_vouch_for_its_call() -> None:
    """Autogen's outer span says OK before it looks: unknown there, so that the span nested in it decides."""
    given = encode_instrumentation.openinference_autogen("lookup_order", {"a": 1}, "boom", "c")
    assert (Outcome.UNKNOWN, True, "lookup_order") == (
        read(given).outcome,
        read(given).tool_like_parent,
        read(given).tool,
    )
    failed = msgspec.structs.replace(given, status_code=2, status_message="Tool execution failed")
    assert Outcome.ERROR is read(failed).outcome


def test_strands_status_attribute_is_an_error() -> None:
    """Strands says `error` in an attribute that its processor keeps."""
    given = encode_instrumentation.openinference_strands("lookup_order", {}, "Error: no", "c")
    failed = msgspec.structs.replace(given, attributes={**given.attributes, "gen_ai.tool.status": "error"})
    assert Outcome.ERROR is read(failed).outcome


def test_open_span_has_no_outcome() -> None:
    """A span that has not ended is neither good nor bad."""
    assert Outcome.UNKNOWN is read(msgspec.structs.replace(tool_span("agno", {}), end_ns=None)).outcome


def test_error_type_and_text_come_from_the_exception() -> None:
    """The event's class and message, without the traceback that LangChain puts in the status."""
    event = SpanEvent("exception", {"exception.type": "ValueError", "exception.message": "locked"})
    given = msgspec.structs.replace(
        tool_span("langchain", {}, status=2),
        status_message="ValueError('locked')Traceback (most recent call last):\n  File",
        events=(event,),
    )
    assert ("ValueError", "locked") == (read(given).error_type, read(given).error_text)
    without = msgspec.structs.replace(given, events=())
    assert ("ValueError", "locked") == (read(without).error_type, read(without).error_text)


def test_subgraph_steps_are_kept_apart() -> None:
    """Steps count afresh in each subgraph: two visits to one agent do not share turns."""
    turns = []
    for visit in ("1111", "2222"):
        namespace = f"researcher:{visit}|tools:abcd"
        metadata = json.dumps({"langgraph_step": 2, "langgraph_checkpoint_ns": namespace})
        turns.append(read(tool_span("langchain", {"metadata": metadata})).turn)
    assert ["researcher:1111|2", "researcher:2222|2"] == turns


# --- model responses ----------------------------------------------------------------------------------------


def llm_span(scope: str, attributes: dict[str, Any]) -> Span:
    """Return an LLM span."""
    return span("response", scope, {"openinference.span.kind": "LLM", **attributes})


def test_stop_on_a_tool_calling_response_is_no_stop() -> None:
    """openai-agents says `stop` on every response: asked-for calls outweigh it, and without output it says nothing."""
    call = {"llm.output_messages.1.message.tool_calls.0.tool_call.id": "c1"}
    asking = read(llm_span(OPENAI, {"llm.finish_reason": "stop", **call}))
    assert (ChatFacts(requested=("c1",), requested_calls=1, finish=Finish.TOOL_CALLS), False) == (
        asking.chat,
        asking.final_answer,
    )
    hidden = read(llm_span(OPENAI, {"llm.finish_reason": "stop", "output.value": "__REDACTED__"}))
    assert (ChatFacts(), None) == (hidden.chat, hidden.final_answer)
    other = read(llm_span("openinference.instrumentation.langchain", {"llm.finish_reason": "stop"}))
    assert (ChatFacts(finish=Finish.STOP), True) == (other.chat, other.final_answer)


def test_requested_ids_are_in_the_order_of_the_response() -> None:
    """Calls are ordered by message and place, not by the order of the attributes; a call without id is counted."""
    head = "llm.output_messages.0.message.tool_calls"
    both = {f"{head}.10.tool_call.id": "c10", f"{head}.9.tool_call.id": "c9"}
    assert ("c9", "c10") == (read(llm_span("x", both)).chat or ChatFacts()).requested
    nameless = {**both, f"{head}.11.tool_call.function.name": "lookup_order"}
    chat = read(llm_span("x", nameless)).chat or ChatFacts()
    assert (None, 3) == (chat.requested, chat.requested_calls)


def test_foreign_span_is_none() -> None:
    """A span without OpenInference's kind is not read, whatever else it carries."""
    assert openinference.read(span("lookup_order", OPENAI, {"tool.name": "lookup_order"})) is None


def test_kinds_that_say_nothing_are_other() -> None:
    """Retrievers, embeddings and kinds of a wrong type tell nothing of a run."""
    for kind in ("RETRIEVER", "EMBEDDING", "GUARDRAIL", 5, ["TOOL"], b"TOOL"):
        assert Role.OTHER is read(span("x", "y", {"openinference.span.kind": kind})).role


def test_openinference_goes_before_the_native_dialect() -> None:
    """Native spans that a processor completed are read once, with both sets of names."""
    reading = dialects.read(ENCODERS["openinference.pydantic_ai"]("lookup_order", {"a": 1}, "ok", "call_0001"))
    assert reading is not None
    assert ("openinference", "call_0001", "conv-123") == (reading.dialect, reading.call_id, reading.conversation)
