"""Every captured span of the gen_ai conventions and the native dialects is read as it should be."""

from __future__ import annotations

import pytest

from otel_loopguard import dialects
from otel_loopguard.dialects.reading import Reading
from otel_loopguard.model import Finish, Layer, NotACall, Outcome, Role, TerminationReason, Unknown
from tests.dialects import captures
from tests.dialects.encode_instrumentation import span

MINE = [
    name
    for name in captures.names()
    if ("openinference" not in name or name.startswith("mcp-2"))
    and not any(other in name for other in ("-0.62.4", "+logfire", "+langsmith"))
]

WITH_CONTENT = [
    name
    for name in MINE
    if name.rpartition("+")[2] in ("main-on", "main-content", "main-content-on", "main-withopenai-content")
    or name.rpartition("+")[2] in ("main-handled-content", "main-handled-contentonly", "main-schema1")
    or (name.startswith(("strands", "vercel")) and name.endswith("+main"))
    or ("agents-v2" in name and name.endswith("+main"))
]
WITH_CONTENT = [name for name in WITH_CONTENT if not name.startswith("smolagents")]  # has no tool spans
WITHOUT_CONTENT = [
    name for name in MINE if "+main" in name and name not in WITH_CONTENT and not name.startswith(("smolagents", "mcp"))
]
SILENT = "openai-agents-0.24.0+opentelemetry-instrumentation-genai-openai-agents-1.3b0+main-content"
"""Without the model's own instrumentation no span shows the answer."""


def test_the_lists_hold_every_main_capture() -> None:
    """No main capture falls between the lists."""
    main = {name for name in MINE if "+main" in name and not name.startswith(("smolagents", "mcp"))}
    assert main == {*WITH_CONTENT, *WITHOUT_CONTENT}
    assert (18, 17) == (len(WITH_CONTENT), len(WITHOUT_CONTENT))


@pytest.mark.parametrize("name", MINE)
def test_golden(name: str) -> None:
    """Each span is read as its checked golden says."""
    assert captures.golden(name) == [captures.shown(reading) for reading in captures.readings(name)]


@pytest.mark.parametrize("name", WITH_CONTENT)
def test_main_with_content(name: str) -> None:
    """Nine calls: three equal look-ups with equal results, three polls that move, two siblings, one failure."""
    calls = captures.calls(name)
    assert 9 == len(calls)
    lookups, polls = captures.named(calls, "lookup_order"), captures.named(calls, "get_export_status")
    tasks, cancels = captures.named(calls, "slow_task"), captures.named(calls, "cancel_order")
    assert [captures.LOOKUP] * 3 == [call.arguments.value for call in lookups]
    assert [captures.ORDER] * 3 == [call.result.value for call in lookups]
    assert [{"job_id": "J7"}] * 3 == [call.arguments.value for call in polls]
    assert captures.STATES == [call.result.value for call in polls]
    assert [{"n": 1, "seconds": 0.25}, {"n": 2, "seconds": 0.05}] == sorted(
        (call.arguments.value for call in tasks), key=lambda value: int(value["n"])
    )
    assert {"task 1 finished", "task 2 finished"} == {call.result.value for call in tasks}
    assert [{"order_id": "A12"}] == [call.arguments.value for call in cancels]
    assert [Outcome.OK] * 8 == [call.outcome for call in (*lookups, *polls, *tasks)]
    assert [Outcome.ERROR] == [call.outcome for call in cancels]


@pytest.mark.parametrize("name", WITHOUT_CONTENT)
def test_main_without_content(name: str) -> None:
    """Nine calls by name, one failure, and a reason in place of every value."""
    calls = captures.calls(name)
    tools = ["lookup_order"] * 3 + ["get_export_status"] * 3 + ["slow_task"] * 2 + ["cancel_order"]
    assert tools == [call.tool for call in calls]
    assert {Unknown.NOT_CAPTURED} == {call.arguments.unknown for call in calls}
    assert {Unknown.NOT_CAPTURED} == {call.result.unknown for call in calls}
    assert [Outcome.OK] * 8 + [Outcome.ERROR] == [call.outcome for call in calls]


@pytest.mark.parametrize("name", [name for name in MINE if "+stuck" in name])
def test_stuck(name: str) -> None:
    """Twelve identical calls, with or without content."""
    calls = captures.calls(name)
    assert 12 == len(calls)
    assert 1 == len({str(captures.content(call.arguments)) for call in calls})
    assert 1 == len({str(captures.content(call.result)) for call in calls})


@pytest.mark.parametrize("name", [name for name in MINE if "+poll-content" in name or "v2-0.1.0+poll" in name])
def test_poll(name: str) -> None:
    """Twelve equal calls whose results all differ."""
    calls = captures.calls(name)
    assert 12 == len(calls)
    assert 1 == len({str(captures.content(call.arguments)) for call in calls})
    assert 12 == len({str(captures.content(call.result)) for call in calls})


LIMITS = {
    "google-adk-2.13.0+native+limit": Role.WORKFLOW,
    "strands-agents-1.62.0+native+limit": Role.AGENT,
    "pydantic-ai-2.68.0+native-v5+toollimit-content-on": Role.AGENT,
    "pydantic-ai-2.68.0+native-v5+usagelimit-content-on": Role.AGENT,
    "openai-agents-0.24.0+opentelemetry-instrumentation-openai-agents-v2-0.1.0+maxturns": Role.AGENT,
    "openai-agents-0.24.0+opentelemetry-instrumentation-genai-openai-agents-1.3b0+maxturns": Role.AGENT,
    "langchain-1.5.0-langgraph-1.2.24+opentelemetry-instrumentation-genai-langchain-1.3b0+recursion": Role.AGENT,
    "llama-index-core-0.14.25+opentelemetry-instrumentation-genai-llama-index-1.3b0+limit": Role.AGENT,
    "smolagents-1.26.0+opentelemetry-instrumentation-genai-smolagents-1.2b0+limit": Role.AGENT,
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits_are_seen(name: str) -> None:
    """Where the framework says that a limit ended the run, the span that says so gives the reason and no answer."""
    held = [reading for reading in captures.readings(name) if reading is not None and reading.role is LIMITS[name]]
    assert [(TerminationReason.TURN_LIMIT, False)] == [(reading.termination, reading.final_answer) for reading in held]


@pytest.mark.parametrize("name", [name for name in MINE if "limit" in name and name not in LIMITS])
def test_silent_limits_are_not_guessed(name: str) -> None:
    """Where a framework stops without a word, no span gives a termination reason, and none an answer."""
    read = [reading for reading in captures.readings(name) if reading is not None]
    assert {None} == {reading.termination for reading in read}
    assert True not in [reading.final_answer for reading in read]


@pytest.mark.parametrize("name", [name for name in WITH_CONTENT if "pydantic" not in name and name != SILENT])
def test_final_answer_with_content(name: str) -> None:
    """A finished run with content shows its answer on the agent, or on the last model response."""
    assert _answers(name)


def test_no_answer_is_made_up() -> None:
    """Where nothing shows an answer, none is claimed and none denied."""
    assert {None} == {reading.final_answer for reading in _read(SILENT)}


@pytest.mark.parametrize("name", [name for name in MINE if "pydantic" in name and "modelretry" in name])
def test_final_answer_of_pydantic_ai(name: str) -> None:
    """`final_result` on the agent's span is the answer."""
    agents = [reading for reading in _read(name) if reading.role is Role.AGENT]
    assert [True] == [reading.final_answer for reading in agents]


def test_adk_stop_without_messages_is_no_answer() -> None:
    """Gemini gives `stop` also where it asks for tools: without content that is no evidence."""
    chats = [reading for reading in _read("google-adk-2.13.0+native+main") if reading.role is Role.CHAT]
    assert [(None, None)] * 9 == [(reading.chat and reading.chat.finish, reading.final_answer) for reading in chats]


def test_adk_merged_tools_are_no_call() -> None:
    """The span that sums up parallel tools is typed as a tool and is none."""
    merged = [reading for reading in _read("google-adk-2.13.0+native+main") if reading.not_a_call is not None]
    assert [NotACall.MERGED] == [reading.not_a_call for reading in merged]


def test_adk_merged_tools_are_no_call_under_openinferences_tracer() -> None:
    """OpenInference makes this one span in its own scope and adds no kind to it."""
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "(merged tools)"}
    reading = dialects.read(span("execute_tool (merged)", "openinference.instrumentation.google_adk", attributes))
    assert reading is not None
    assert NotACall.MERGED is reading.not_a_call


@pytest.mark.parametrize("name", [name for name in MINE if name.startswith("mcp")])
def test_mcp_layers(name: str) -> None:
    """Of the protocol's spans only tools/call is read as a tool, on the side that its kind gives, without content."""
    layers = [
        (reading.layer, reading.tool, reading.arguments.unknown, reading.result.unknown)
        for reading in _read(name)
        if reading.dialect == "mcp" and reading.role is Role.TOOL
    ]
    tools = ["lookup_order"] * 3 + ["get_export_status"] * 3 + ["slow_task"] * 2 + ["cancel_order"]
    gone = Unknown.NOT_CAPTURED
    for side in (Layer.CLIENT, Layer.SERVER) if name.endswith("stdio") else (Layer.SERVER,):
        assert [(side, tool, gone, gone) for tool in tools] == [layer for layer in layers if layer[0] is side]
    assert 9 == len(captures.calls(name))


def test_mcp_client_says_nothing_of_the_tool() -> None:
    """A client span whose status is unset leaves the outcome open; the server's says error."""
    read = [
        (reading.layer, reading.outcome, reading.error_type)
        for reading in _read("mcp-2.3.0+native+stdio")
        if reading.tool == "cancel_order" and reading.dialect == "mcp"
    ]
    assert [(Layer.CLIENT, Outcome.UNKNOWN, None), (Layer.SERVER, Outcome.ERROR, "tool_error")] == read


def test_parallel_calls_share_one_response() -> None:
    """A response that asks for two calls names both, in its order."""
    chats = [reading.chat for reading in _read("vercel-ai-7.0.173+ai-sdk-otel-1.0.173-gen_ai+main") if reading.chat]
    assert [1, 1, 1, 1, 1, 1, 2, 1, 0] == [chat.requested_calls for chat in chats]
    assert ("call_0007", "call_0008") == chats[6].requested
    assert [Finish.TOOL_CALLS] * 8 + [Finish.STOP] == [chat.finish for chat in chats]


def test_turns_of_strands_and_v2() -> None:
    """Cycle and `unknown` spans are turns; a cycle carries its own id."""
    cycles = [reading for reading in _read("strands-agents-1.62.0+native+main") if reading.role is Role.TURN]
    assert (9, 9) == (len(cycles), len({reading.turn for reading in cycles if reading.turn}))
    name = "openai-agents-0.24.0+opentelemetry-instrumentation-openai-agents-v2-0.1.0+main"
    assert 10 == [reading.role for reading in _read(name)].count(Role.TURN)


def test_placeholders_are_no_names() -> None:
    """What an instrumentation writes where it knows no name is left out."""
    name = "openai-agents-0.24.0+opentelemetry-instrumentation-openai-agents-v2-0.1.0+handoff"
    assert {None, "OrderAgent", "RefundAgent"} == {reading.agent for reading in _read(name)}
    lost = [reading for reading in _read("google-adk-2.13.0+native+errorraise") if reading.tool == "cancel_order"]
    assert [None] == [reading.call_id for reading in lost]


def test_handoff_of_v2() -> None:
    """A handoff is no tool call; it names the agent that gives."""
    name = "openai-agents-0.24.0+opentelemetry-instrumentation-openai-agents-v2-0.1.0+handoff"
    handoffs = [reading for reading in _read(name) if reading.role is Role.HANDOFF]
    assert [("OrderAgent", NotACall.HANDOFF)] == [(reading.agent, reading.not_a_call) for reading in handoffs]


def test_conversations_minted_per_response_are_left_out() -> None:
    """agent-framework gives the id of the response before as a conversation's."""
    read = _read("agent-framework-core-1.23.0+native+main-on")
    assert {None} == {reading.conversation for reading in read}


def _read(name: str) -> list[Reading]:
    return [reading for reading in captures.readings(name) if reading is not None]


def _answers(name: str) -> bool:
    return any(reading.final_answer for reading in _read(name))
