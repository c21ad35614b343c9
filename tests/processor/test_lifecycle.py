"""Spans that end late, twice, never; that are sampled or not; providers that come, share and go."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import NonRecordingSpan, SpanContext, StatusCode, TraceFlags

from otel_loopguard import policy
from otel_loopguard.policy import ContentRule
from tests.processor.applications import (
    AGENT,
    ARGUMENTS,
    CALLS,
    CHAT,
    DIGEST,
    MESSAGES,
    PRODUCER,
    RESULT,
    SEQUENCE,
    TOOL,
    UNKNOWN,
    Application,
    ByName,
    end_badly,
    held,
    sequences,
    stuck_run,
)
from tests.processor.canaries import CANARY

ROOT: Final = Path(__file__).parents[2]
SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)


def counted(application: Application) -> list[tuple[str, int]]:
    """The closing spans in the order of their ends: name, and how many calls they say there were."""
    return [(span.name, held(span)[CALLS]) for span in application.spans if CALLS in held(span)]


# --- ends ------------------------------------------------------------------------------------------------------


def test_a_call_that_ends_after_its_agent_is_numbered_and_clean() -> None:
    """The agent's span closes with what there was; the call that is late comes with the next number."""
    application = Application()
    agent = application.start("invoke_agent helper", AGENT)
    application.call(agent)
    late = application.start("execute_tool lookup", {**TOOL, ARGUMENTS: '{"a": 1}', RESULT: CANARY}, agent)
    agent.end()
    late.end()
    assert [1, 2] == next(iter(sequences(application.spans).values()))
    assert [("invoke_agent helper", 1)] == counted(application)
    assert CANARY not in application.text()
    assert {} == application.processor.counts.failures


def test_calls_that_start_after_their_agent_ended_are_compared_among_themselves() -> None:
    """Background work under an agent that is over: numbered in its trace, and found stuck by itself."""
    application = Application()
    agent = application.start("invoke_agent helper", AGENT)
    application.call(agent)
    agent.end()
    for _ in range(3):
        application.call(agent)
    assert [1, 2, 3, 4] == next(iter(sequences(application.spans).values()))
    assert {"exact_repeat": 1} == application.processor.counts.findings


def test_a_call_below_a_root_that_is_over_is_numbered() -> None:
    """The root of the application has closed; nothing is lost and nothing is closed twice."""
    application = Application()
    root = application.start("GET /", {})
    agent = application.start("invoke_agent helper", AGENT, root)
    root.end()
    application.call(agent)
    agent.end()
    assert [[1]] == list(sequences(application.spans).values())
    assert [("invoke_agent helper", 1)] == counted(application)


def test_calls_below_a_call_that_is_over_are_calls() -> None:
    """A context that nobody detaches makes each call the parent of the next: nested by id, not in time."""
    application = Application()
    above = application.start("invoke_agent helper", AGENT)
    for _ in range(3):
        above = application.call(above)
    assert 3 == application.processor.counts.tool_calls
    assert {"exact_repeat": 1} == application.processor.counts.findings


def test_a_span_that_is_ended_twice_is_one(caplog: pytest.LogCaptureFixture) -> None:
    """The SDK warns, and we hear of one."""
    application = Application()
    application.call().end()
    assert 1 == application.processor.counts.tool_calls == len(application.spans)
    assert [logging.WARNING] == [record.levelno for record in caplog.records]


def test_a_call_that_never_ends_is_no_gap() -> None:
    """Numbers are given as spans end: one that does not end has none, and holds nobody up."""
    application = Application()
    agent = application.start("invoke_agent helper", AGENT)
    left = application.start("execute_tool lookup", {**TOOL, RESULT: CANARY}, agent)
    application.call(agent)
    application.call(agent)
    agent.end()
    assert [[1, 2]] == list(sequences(application.spans).values())
    assert left.is_recording()
    assert CANARY not in application.text()


def test_an_agent_that_never_ends_leaves_its_calls() -> None:
    """The loop is found as it happens; only the closing count is missing."""
    application = Application()
    agent = application.start("invoke_agent helper", AGENT)
    for _ in range(3):
        application.call(agent)
    assert {"exact_repeat": 1} == application.processor.counts.findings
    assert [] == counted(application)
    assert agent.is_recording()


# --- parents and roots -------------------------------------------------------------------------------------------


def remote(trace_id: int, span_id: int = 7) -> trace.Span:
    """A parent in another process."""
    return NonRecordingSpan(SpanContext(trace_id, span_id, is_remote=True, trace_flags=SAMPLED))


def test_each_local_root_of_a_trace_closes_with_the_count_so_far() -> None:
    """Two requests of one trace to this process, one after the other: one producer, numbers that go on."""
    application = Application()
    for number in range(2):
        root = application.start("POST /tool", {}, remote(0xABC, number + 1))
        application.call(root)
        application.call(root)
        root.end()
    assert [("POST /tool", 2), ("POST /tool", 4)] == counted(application)
    assert [[1, 2, 3, 4]] == list(sequences(application.spans).values())


def test_a_call_may_be_the_local_root_itself() -> None:
    """A tool server's span under a remote parent: it is numbered, and closes."""
    application = Application()
    application.call(remote(0xABC))
    assert (1, 1) == (held(application.spans[0])[SEQUENCE], held(application.spans[0])[CALLS])


def test_two_agents_of_one_trace_are_two_runs_with_one_numbering() -> None:
    """Numbers are a trace's, so that a gap is a lost span; findings are a run's."""
    application = Application()
    root = application.start("GET /", {})
    agents = [application.start("invoke_agent helper", AGENT, root) for _ in range(2)]
    for agent in agents:
        application.call(agent)
        application.call(agent)
    for agent in agents:
        agent.end()
    root.end()
    assert {} == application.processor.counts.findings
    assert [[1, 2, 3, 4]] == list(sequences(application.spans).values())
    assert [4, 4, 4] == [number for _, number in counted(application)]


class OneSpanId(IdGenerator):
    """Gives every span the same id, in traces of their own."""

    def __init__(self) -> None:
        self._traces = 0

    def generate_span_id(self) -> int:
        """The one."""
        return 5

    def generate_trace_id(self) -> int:
        """The next."""
        self._traces += 1
        return self._traces


def test_equal_span_ids_in_two_traces_are_two_spans() -> None:
    """Ids that collide cost what is known of parents, and nothing else: clean, numbered, no failure, nothing late."""
    application = Application(provider={"id_generator": OneSpanId()})
    open_ones = [application.start("execute_tool lookup", {**TOOL, ARGUMENTS: "{}", RESULT: CANARY}) for _ in range(3)]
    for span in open_ones:
        span.end()
    assert CANARY not in application.text()
    assert [[1], [1], [1]] == list(sequences(application.spans).values())
    assert (0, {}) == (application.processor.counts.late_spans, application.processor.counts.failures)


# --- sampling and limits -------------------------------------------------------------------------------------------


def test_only_sampled_spans_are_numbered() -> None:
    """What is recorded and not sampled is compared and counted here, and leaves no gap; what is dropped is not seen."""
    decisions = {"execute_tool seen": Decision.RECORD_ONLY, "execute_tool dropped": Decision.DROP}
    application = Application(provider={"sampler": ByName(decisions)})
    agent = application.start("invoke_agent helper", AGENT)
    for name in ("lookup", "seen", "dropped", "lookup", "seen", "lookup"):
        attributes = {**TOOL, ARGUMENTS: '{"a": 1}', RESULT: "42"}
        application.start(f"execute_tool {name}", attributes, agent).end()
    agent.end()
    assert [[1, 2, 3]] == list(sequences(application.spans).values())
    assert 5 == application.processor.counts.tool_calls
    assert [("invoke_agent helper", 3)] == counted(application)
    assert {"exact_repeat": 1} == application.processor.counts.findings


def test_a_trace_that_is_recorded_only_is_still_watched() -> None:
    """A finding needs no exporter."""
    told: list[Any] = []
    application = Application(provider={"sampler": ByName({"": Decision.RECORD_ONLY})}, on_finding=told.append)
    stuck_run(application)
    assert () == application.spans
    assert 1 == len(told)


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 5, 100])
def test_no_limit_of_attributes_lets_content_through(limit: int) -> None:
    """Whatever the SDK dropped: what it dropped is still counted, and what it left is clean."""
    bare = TracerProvider(shutdown_on_exit=False, span_limits=SpanLimits(max_span_attributes=limit))
    memory = InMemorySpanExporter()
    bare.add_span_processor(SimpleSpanProcessor(memory))
    application = Application(provider={"span_limits": SpanLimits(max_span_attributes=limit)})
    ours = application.tracer
    for application.tracer in (bare.get_tracer("bare"), ours):
        stuck_run(application)
    assert CANARY not in application.text()
    dropped = [span.dropped_attributes for span in memory.get_finished_spans()]
    assert dropped == [span.dropped_attributes for span in application.spans]
    assert {} == application.processor.counts.failures


def test_a_span_whose_kind_was_dropped_is_still_an_agents() -> None:
    """The kind is set first, a flood of messages drops it: what is left under messages' keys tells, errors go too."""
    application = Application(provider={"span_limits": SpanLimits(max_span_attributes=50)})
    root = application.start("agent", {"openinference.span.kind": "AGENT"})
    application.call(root)
    for number in range(60):
        root.set_attribute(f"llm.input_messages.{number}.message.content", CANARY)
    root.set_attribute("output", CANARY)
    end_badly(root)
    assert CANARY not in application.text()
    assert 1 == held(application.spans[-1])[CALLS]


@pytest.mark.parametrize("content", [ContentRule.DROP_ALL, ContentRule.DROP_TOOL])
@pytest.mark.parametrize(
    "limits", [{"max_span_attributes": 0}, {"max_span_attributes": 1}, {"max_attribute_length": 3}]
)
def test_a_tool_that_lost_what_tells_it_keeps_nothing(content: ContentRule, limits: dict[str, int]) -> None:
    """Whether its kind was dropped or cut: it may be a tool's, so neither arguments nor errors stay."""
    application = Application(provider={"span_limits": SpanLimits(**limits)}, content=content)
    tool = application.start("execute_tool lookup", {**TOOL, RESULT: CANARY, ARGUMENTS: CANARY})
    end_badly(tool)
    assert CANARY not in application.text()


@pytest.mark.parametrize("content", [ContentRule.DROP_ALL, ContentRule.DROP_TOOL])
def test_below_a_span_that_lost_its_kind_no_error_text_stays(content: ContentRule) -> None:
    """It may be a tool that is still going on."""
    application = Application(provider={"span_limits": SpanLimits(max_span_attributes=1)}, content=content)
    tool = application.start("execute_tool lookup", {**TOOL, "a": 1})
    work = application.start("work", {}, tool)
    work.record_exception(ValueError(CANARY))
    work.set_status(StatusCode.ERROR, CANARY)
    work.end()
    assert CANARY not in application.text()


def test_a_flood_of_messages_makes_no_tool_of_a_chat() -> None:
    """Under `drop_tool` a conversation stays, however long it is."""
    application = Application(
        provider={"span_limits": SpanLimits(max_span_attributes=5)}, content=ContentRule.DROP_TOOL
    )
    chat = application.start("llm", {"openinference.span.kind": "LLM"})
    for number in range(9):
        chat.set_attribute(f"llm.input_messages.{number}.message.content", CANARY)
    chat.end()
    assert CANARY in application.text()


@pytest.mark.parametrize("length", [0, 1, 4, 12])
def test_a_value_that_was_cut_gets_no_digest(length: int) -> None:
    """A prefix is no call: no digest, no loop of it, no content."""
    limits = SpanLimits(max_span_attribute_length=length, max_attribute_length=length)
    application = Application(provider={"span_limits": limits})
    agent = application.start("invoke_agent helper", AGENT)
    for number in range(4):
        span = application.start(
            "execute_tool lookup", {ARGUMENTS: f'{{"a": "{CANARY}{number}"}}', RESULT: CANARY}, agent
        )
        span.set_attributes(TOOL)
        span.end()
    agent.end()
    assert CANARY not in application.text()
    assert [False] * 5 == [DIGEST in held(span) for span in application.spans]
    assert {} == application.processor.counts.findings


def test_events_and_links_that_were_dropped_stay_counted() -> None:
    """Our removing is no dropping, and the SDK's is not forgotten."""
    limits = SpanLimits(max_events=1, max_links=0)
    application = Application(provider={"span_limits": limits})
    end_badly(application.start("execute_tool lookup", TOOL))
    (span,) = application.spans
    assert (1, 1) == (span.dropped_events, span.dropped_links)
    assert CANARY not in span.to_json()


@pytest.mark.parametrize(
    "value",
    [1, 1.5, True, ["a", CANARY], [1, 2], b"kNrY7x", {"a": {"b": [CANARY]}}, [{"a": CANARY}], None, [[1], [2]]],
    ids=str,
)
def test_a_value_of_any_type_is_taken_as_it_is(value: Any) -> None:
    """Numbers, lists, bytes and, on newer SDKs, nested values: equal ones are a loop, and none is exported."""
    application = Application()
    agent = application.start("invoke_agent helper", AGENT)
    for _ in range(3):
        span = application.start("execute_tool lookup", TOOL, agent)
        span.set_attribute(ARGUMENTS, value)
        span.set_attribute(RESULT, "42")
        span.end()
    assert CANARY not in application.text()
    assert {} == application.processor.counts.failures
    assert [False] * 3 == [RESULT in held(span) for span in application.spans]
    assert [True] * 3 == [DIGEST in held(span) or UNKNOWN in held(span) for span in application.spans]


# --- providers ---------------------------------------------------------------------------------------------------


def test_several_providers_share_one_processor() -> None:
    """Parents are known across them: an agent of one provider, calls of the other."""
    application, other = Application(), TracerProvider(shutdown_on_exit=False)
    other.add_span_processor(application.processor)
    other.add_span_processor(SimpleSpanProcessor(application.after))
    agent = application.start("invoke_agent helper", AGENT)
    application.tracer = other.get_tracer("other")
    for _ in range(3):
        application.call(agent, result=CANARY)
    agent.end()
    assert {"exact_repeat": 1} == application.processor.counts.findings
    assert [("invoke_agent helper", 3)] == counted(application)
    assert CANARY not in application.text()
    other.shutdown()
    application.tracer = application.provider.get_tracer("again")
    application.call(result=CANARY)
    assert CANARY not in application.text()


def test_spans_that_were_open_before_the_processor_came_are_clean() -> None:
    """Added late, as `install` is after an import that started a span: all that ends from then on is clean."""
    application = Application()
    provider = TracerProvider(shutdown_on_exit=False)
    tracer = provider.get_tracer("late")
    agent = tracer.start_span("invoke_agent helper", attributes={**AGENT, MESSAGES: CANARY})
    below = trace.set_span_in_context(agent, Context())
    tool = tracer.start_span("execute_tool lookup", below, attributes={**TOOL, ARGUMENTS: "{}", RESULT: CANARY})
    inner = tracer.start_span("GET", trace.set_span_in_context(tool, Context()))
    provider.add_span_processor(application.processor)
    provider.add_span_processor(SimpleSpanProcessor(application.after))
    lower = tracer.start_span("SELECT", trace.set_span_in_context(inner, Context()))
    for span in (lower, inner, tool, agent):
        end_badly(span)
    assert CANARY not in application.text()
    assert [[1]] == list(sequences(application.spans).values())
    assert [("invoke_agent helper", 1)] == counted(application)


def test_it_goes_on_cleaning_after_shutdown() -> None:
    """Spans that end while or after an application closes down are as clean as any; the summary comes once."""
    application = Application()
    application.call(result=CANARY)
    assert application.processor.force_flush()
    assert application.provider.force_flush()
    for _ in range(2):
        application.processor.shutdown()
    application.call(result=CANARY)
    assert 2 == application.processor.counts.tool_calls
    assert CANARY not in application.text()
    assert [[1], [1]] == list(sequences(application.spans).values())


def test_a_batch_gets_clean_spans_at_shutdown() -> None:
    """Spans wait in a batch processor that was there first, and leave as the provider closes."""
    application, memory = Application(), InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(memory, schedule_delay_millis=60_000))
    provider.add_span_processor(application.processor)
    application.tracer = provider.get_tracer("batch")
    stuck_run(application)
    provider.shutdown()
    spans = memory.get_finished_spans()
    assert 10 == len(spans)
    assert CANARY not in "".join(span.to_json() for span in spans)
    assert [[1, 2, 3]] == list(sequences(spans).values())


def test_a_switched_off_sdk_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No spans, no proof, no work."""
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    application = Application()
    stuck_run(application)
    assert () == application.spans
    assert 0 == application.processor.counts.tool_calls


PROGRAM: Final = """
import json
import logging
logging.basicConfig(level=logging.INFO)
from opentelemetry.sdk.trace import TracerProvider
from otel_loopguard import LoopGuardSpanProcessor
provider = TracerProvider()
provider.add_span_processor(LoopGuardSpanProcessor())
tracer = provider.get_tracer("openinference.instrumentation.crewai")
for _ in range(12):
    tracer.start_span("execute_tool x", attributes={"gen_ai.operation.name": "execute_tool"}).end()
"""


def test_at_exit_one_line_says_what_could_not_be_compared() -> None:
    """Nobody called shutdown: the provider's own exit handler brings the summary, once."""
    ended = subprocess.run(  # noqa: S603 - a program of ours
        [sys.executable, "-c", PROGRAM],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    lines = [line for line in ended.stderr.splitlines() if "readable arguments" in line]
    assert 1 == len(lines)
    assert lines[0].startswith(
        "WARNING:otel_loopguard:12 tool calls, 12 without readable arguments (mostly not_captured)"
    )


def test_a_processor_without_a_provider_takes_what_it_is_given() -> None:
    """Ended spans made by hand, with no context, no parent, no scope, no attributes: it does not raise."""
    application = Application()
    application.processor.on_end(ReadableSpan("execute_tool x"))
    application.processor.on_end(ReadableSpan("execute_tool x", attributes={**TOOL, RESULT: CANARY}))
    application.call()
    assert {} == application.processor.counts.failures
    assert PRODUCER in held(application.spans[0])


def test_chat_spans_alone_make_no_run() -> None:
    """An application without tools: clean, and nothing is said of calls."""
    application = Application()
    for _ in range(3):
        application.start("chat m", {**CHAT, MESSAGES: CANARY}).end()
    assert CANARY not in application.text()
    assert [] == counted(application)
    assert (0, {}) == (application.processor.counts.tool_calls, application.processor.counts.findings)


# --- another policy ----------------------------------------------------------------------------------------------


def test_a_trace_keeps_the_policy_that_it_began_with() -> None:
    """A policy that comes in its midst lets none of its content go, and changes no digest; the next trace has it."""
    application = Application()
    root = application.start("GET /orders", {})
    agent = application.start("invoke_agent helper", AGENT, root)
    application.call(agent, CANARY)
    changed = {"version": 1, "policy": "p", "policy_version": "2", "content": "keep"}
    application.processor.set_policy(policy.load(json.dumps(changed)))
    application.call(agent, CANARY)
    end_badly(application.start("work", {}, agent))
    end_badly(agent)
    end_badly(root)
    assert CANARY not in application.text()
    assert ["default@1"] * 2 == [held(span)["loopguard.policy"] for span in application.spans if DIGEST in held(span)]
    application.call(None, CANARY)
    assert (CANARY in application.text(), "p@2") == (True, held(application.spans[-1])["loopguard.policy"])
