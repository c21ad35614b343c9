"""What is said of each instrumentation agrees with what the captures of it hold."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from otel_loopguard import dialects
from otel_loopguard.files import read
from otel_loopguard.model import BadInput, Layer, Role, Span
from otel_loopguard.processor import remedies
from otel_loopguard.processor.remedies import FRAMEWORKS, SOURCES, Records, Source, remedy_for
from tests.captures.summary import CAPTURES, SPANS

CAPTURE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
BY_NAME: Final = {one.distribution: one for one in SOURCES}
HOSTS: Final = frozenset({"host", "gen_ai", "mcp-python-sdk"})
"""Scopes of the captures' own host spans, of another language's SDK, and of servers below another's tool span."""


def source(distribution: str, framework: str | None = None) -> Source:
    """The source of that package."""
    return next(one for one in SOURCES if one.distribution == distribution and framework in (None, one.framework))


def _tool_spans(capture: str) -> list[tuple[Span, bool]]:
    """The tool spans of a capture, and whether each carries arguments."""
    found = []
    with (SPANS / f"{capture}.jsonl").open("rb") as file:
        for item in read(file, name=capture):
            assert not isinstance(item, BadInput)
            reading = dialects.read(item) if isinstance(item, Span) else None
            if reading is not None and reading.role is Role.TOOL and reading.layer is not Layer.CLIENT:
                assert isinstance(item, Span)
                found.append((item, reading.not_a_call is not None or reading.arguments.unknown is None))
    return found


@pytest.mark.parametrize("capture", CAPTURES)
def test_every_scope_whose_calls_have_no_arguments_has_a_remedy(capture: str) -> None:
    """Where a capture shows tool calls without arguments, its scope's line says what to do."""
    without = {span.scope for span, known in _tool_spans(capture) if not known} - {"host", "gen_ai"}
    assert {} == {scope: None for scope in without if not remedy_for(scope)}


def test_every_scope_of_the_captures_tool_spans_is_known() -> None:
    """No pair that was captured is missing from the table."""
    scopes = {span.scope for capture in CAPTURES for span, _ in _tool_spans(capture)}
    known = {scope for one in SOURCES for scope in one.scopes}
    assert set() == scopes - known - HOSTS


def test_every_captured_package_is_known() -> None:
    """Each instrumentation that a capture is named by stands in the table, or its framework's own spans do."""
    missing = []
    for capture in CAPTURES:
        framework, instrumentation = capture.split("+")[:2]
        name = instrumentation if not instrumentation.startswith("native") else framework.split("-langgraph")[0]
        if framework.startswith("vercel"):
            continue
        known = {one.distribution for one in SOURCES} | set(FRAMEWORKS)
        missing += [] if name.startswith(tuple(known)) else [capture]
    assert [] == missing


@pytest.mark.parametrize(
    ("distribution", "environ", "expected"),
    [
        ("opentelemetry-instrumentation-genai-langchain", {}, False),
        ("opentelemetry-instrumentation-genai-langchain", {CAPTURE: "SPAN_ONLY"}, True),
        ("opentelemetry-instrumentation-genai-langchain", {CAPTURE: " span_and_event "}, True),
        ("opentelemetry-instrumentation-genai-langchain", {CAPTURE: "EVENT_ONLY"}, False),
        ("opentelemetry-instrumentation-genai-langchain", {CAPTURE: "true"}, False),
        ("opentelemetry-instrumentation-openai-agents-v2", {}, True),
        ("opentelemetry-instrumentation-openai-agents-v2", {CAPTURE: "true"}, True),
        ("opentelemetry-instrumentation-openai-agents-v2", {CAPTURE: "no_content"}, False),
        ("google-adk", {}, False),
        ("google-adk", {CAPTURE: "true"}, False),
        ("google-adk", {CAPTURE: "SPAN_AND_EVENT"}, True),
        ("google-adk", {"ADK_TELEMETRY_SCHEMA_VERSION_OPT_IN": "1"}, True),
        ("agent-framework-core", {}, False),
        ("agent-framework-core", {"ENABLE_SENSITIVE_DATA": "true"}, True),
        ("openinference-instrumentation-langchain", {}, True),
        ("openinference-instrumentation-langchain", {"OPENINFERENCE_HIDE_INPUTS": "true"}, False),
        ("openinference-instrumentation-langchain", {"OPENINFERENCE_HIDE_INPUTS": "false"}, True),
        ("openinference-instrumentation-openai-agents", {"OPENAI_AGENTS_DISABLE_TRACING": "1"}, False),
        ("logfire", {"OPENAI_AGENTS_TRACE_INCLUDE_SENSITIVE_DATA": "false"}, False),
        ("opentelemetry-instrumentation-langchain", {"TRACELOOP_TRACE_CONTENT": "false"}, False),
        ("opentelemetry-haystack", {"HAYSTACK_CONTENT_TRACING_ENABLED": "true"}, True),
        ("autogen-core", {CAPTURE: "SPAN_ONLY"}, False),
        ("opentelemetry-instrumentation-crewai", {}, False),
    ],
)
def test_switches(distribution: str, environ: dict[str, str], expected: bool) -> None:  # noqa: FBT001 - a parameter
    """Each switch is read as the instrumentation itself reads it, and what is off has a remedy."""
    one = source(distribution)
    assert expected == one.recording(environ)
    assert expected or one.remedy(environ)


def test_a_switch_in_code_counts_where_the_module_is_imported() -> None:
    """agent-framework's switch is seen in the module that holds it; a module without it changes nothing."""
    one = source("agent-framework-core")
    on = SimpleNamespace(OBSERVABILITY_SETTINGS=SimpleNamespace(SENSITIVE_DATA_ENABLED=True))
    name = "agent_framework.observability"
    assert [True, False, False] == [one.recording({}, {name: held}) for held in (on, SimpleNamespace(), None)]


def test_langsmith_makes_spans_only_where_asked() -> None:
    """Its package comes with every LangChain, so being installed says nothing."""
    one = source("langsmith")
    assert not one.is_active({"LANGSMITH_TRACING": "true"})
    assert one.is_active({"LANGSMITH_TRACING": "true", "LANGSMITH_OTEL_ENABLED": "true"})


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("gcp.vertex.agent", f"set {CAPTURE}=SPAN_ONLY"),
        ("agent_framework", "set ENABLE_SENSITIVE_DATA=true"),
        ("autogen-core", "install openinference-instrumentation-autogen-agentchat"),
        ("mcp-python-sdk", "instrument the agent that calls the server"),
        ("pydantic-ai", "include_content=True"),
    ],
)
def test_remedy_for_a_scope(scope: str, expected: str) -> None:
    """The line for a scope names the switch or the package that helps."""
    assert expected in (remedy_for(scope) or "")


def test_an_unknown_scope_has_no_remedy_and_is_not_repeated() -> None:
    """A scope is a name from outside: it is looked up and never shown."""
    assert None is remedy_for("my own")
    scopes = {scope for one in SOURCES for scope in one.scopes}
    assert [] == [scope for scope in scopes if "\n" in str(remedy_for(scope))]


def test_the_table_is_whole() -> None:
    """Every source has a framework that is known; what records too little says what helps; no pair stands twice."""
    assert set() == {one.framework for one in SOURCES} ^ set(FRAMEWORKS)
    lacking = [one for one in SOURCES if one.records in (Records.NEVER, Records.NO_SPANS)]
    assert [] == [one.distribution for one in lacking if not one.advice]
    assert [] == [one.distribution for one in SOURCES if one.records is Records.SWITCHED and not one.switches]
    assert [] == [one.distribution for one in SOURCES if one.records is Records.NO_SPANS and one.scopes]
    assert len(SOURCES) == len({(one.distribution, one.framework) for one in SOURCES})


def test_it_imports_the_standard_library_only() -> None:
    """The processor asks for a remedy while the interpreter is going down."""
    tree = ast.parse(Path(remedies.__file__).read_text(encoding="utf-8"))
    names: set[str] = set()
    for node in ast.walk(tree):
        given: Any = node
        names |= {given.module} if isinstance(node, ast.ImportFrom) else set()
        names |= {one.name for one in node.names} if isinstance(node, ast.Import) else set()
    assert set() == {name.partition(".")[0] for name in names} - set(sys.stdlib_module_names) - {"__future__"}


def test_the_advice_can_be_written_as_json_on_one_line() -> None:
    """No remedy breaks a line."""
    assert [] == [one for one in SOURCES if "\n" in json.loads(json.dumps(one.remedy({})))]
