"""What each instrumentation records of tool calls, and what to do where that is not enough to compare them.

Invariants: imports the standard library only, reads no environment of its own accord, and names variables, packages
and values of theirs that are fixed words; nothing that comes from a user. Source: the captures that the dialects are
tested with, and the instrumentations' own code where there is no capture.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

_NONE: Final[Mapping[str, object]] = {}


class Records(Enum):
    """What an instrumentation writes of a tool call's arguments and results."""

    ALWAYS = "records arguments and results"
    SWITCHED = "records arguments and results only where they are switched on"
    NEVER = "never records arguments or results"
    NO_SPANS = "makes no tool spans"


class Switch(NamedTuple):
    """An environment variable that decides whether content is recorded; words are compared in lower case."""

    variable: str
    words: frozenset[str]
    """Values that record, where `default` is False; values that do not, where it is True."""
    default: bool
    """Whether content is recorded while the variable is not set."""
    advice: str
    """What to set."""
    loaded: tuple[str, str] | None = None
    """A module, and the attribute in it that is true where code has switched content on."""

    def records(self, environ: Mapping[str, str], modules: Mapping[str, object]) -> bool:
        """Tells whether content is recorded, as far as this variable has a say.

        Args:
            environ: environment variables.
            modules: those that are imported, by name; may be empty.
        """
        if self.loaded is not None and self.loaded[0] in modules:
            found: object = modules[self.loaded[0]]
            for name in self.loaded[1].split("."):
                found = getattr(found, name, None)
            if found is True:
                return True
        word = environ.get(self.variable, "").strip().lower()
        return (word in self.words) is not self.default if word else self.default


class Source(NamedTuple):
    """One way in which a framework's tool calls become spans."""

    distribution: str
    """The package that makes the spans: an instrumentation's, or the framework's own."""
    framework: str
    """A key of `FRAMEWORKS`."""
    scopes: tuple[str, ...]
    """The instrumentation scopes that its tool spans have; empty where it makes none."""
    records: Records
    switches: tuple[Switch, ...] = ()
    """All of them must record."""
    instead: Switch | None = None
    """Where given and on, it records whatever `switches` say."""
    active: tuple[Switch, ...] = ()
    """Where given, it makes spans only with these on."""
    advice: str = ""
    """What helps where its tool calls have no arguments; empty where the switches' own advice is enough."""
    in_code: str = ""
    """How content is switched off by code, which no environment shows."""

    def recording(self, environ: Mapping[str, str], modules: Mapping[str, object] = _NONE) -> bool:
        """Tells whether tool calls can be compared by what it records in this environment."""
        if self.records in (Records.NEVER, Records.NO_SPANS):
            return False
        if self.instead is not None and self.instead.records(environ, modules):
            return True
        return all(switch.records(environ, modules) for switch in self.switches)

    def is_active(self, environ: Mapping[str, str], modules: Mapping[str, object] = _NONE) -> bool:
        """Tells whether it makes spans at all in this environment."""
        return all(switch.records(environ, modules) for switch in self.active)

    def remedy(self, environ: Mapping[str, str], modules: Mapping[str, object] = _NONE) -> str:
        """Says what to do where `recording` is not given."""
        missing = [switch.advice for switch in self.switches if not switch.records(environ, modules)]
        return "; ".join([*missing, *([self.advice] if self.advice and not missing else [])])


_TRUE: Final = frozenset({"true", "1", "yes", "on"})
_FALSE: Final = frozenset({"false", "0", "no", "off"})
_NOT_TRUE: Final = frozenset({"false", "0", "no", "off", "none"})

_CAPTURE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_SPAN_ONLY: Final = f"set {_CAPTURE}=SPAN_ONLY"
_GENAI: Final = Switch(
    _CAPTURE,
    frozenset({"span_only", "span_and_event"}),
    default=False,
    advice=f"{_SPAN_ONLY} (`true` and EVENT_ONLY put nothing on spans)",
)
_V2: Final = Switch(
    _CAPTURE,
    frozenset({"no_content", "event_only", "event", "false", "0", "no", "none"}),
    default=True,
    advice=_SPAN_ONLY,
)
_HIDE_INPUTS: Final = Switch(
    "OPENINFERENCE_HIDE_INPUTS", frozenset({"true"}), default=True, advice="unset OPENINFERENCE_HIDE_INPUTS"
)
_HIDE_OUTPUTS: Final = Switch(
    "OPENINFERENCE_HIDE_OUTPUTS", frozenset({"true"}), default=True, advice="unset OPENINFERENCE_HIDE_OUTPUTS"
)
_OPENINFERENCE: Final = (_HIDE_INPUTS, _HIDE_OUTPUTS)
_TRACELOOP: Final = Switch(
    "TRACELOOP_TRACE_CONTENT", _NOT_TRUE, default=True, advice="unset TRACELOOP_TRACE_CONTENT, or set it to true"
)
_AGENTS_TRACING: Final = Switch(
    "OPENAI_AGENTS_DISABLE_TRACING", _TRUE, default=True, advice="unset OPENAI_AGENTS_DISABLE_TRACING"
)
_AGENTS_DATA: Final = Switch(
    "OPENAI_AGENTS_TRACE_INCLUDE_SENSITIVE_DATA",
    _FALSE,
    default=True,
    advice="unset OPENAI_AGENTS_TRACE_INCLUDE_SENSITIVE_DATA, or set it to true",
)
_AGENTS: Final = (_AGENTS_TRACING, _AGENTS_DATA)
_SENSITIVE: Final = Switch(
    "ENABLE_SENSITIVE_DATA",
    _TRUE,
    default=False,
    advice="set ENABLE_SENSITIVE_DATA=true, or pass enable_sensitive_data=True",
    loaded=("agent_framework.observability", "OBSERVABILITY_SETTINGS.SENSITIVE_DATA_ENABLED"),
)
_ADK_SCHEMA_1: Final = Switch(
    "ADK_TELEMETRY_SCHEMA_VERSION_OPT_IN", frozenset({"1"}), default=False, advice="set it to 1"
)
_HAYSTACK: Final = Switch(
    "HAYSTACK_CONTENT_TRACING_ENABLED", _TRUE, default=False, advice="set HAYSTACK_CONTENT_TRACING_ENABLED=true"
)
_LANGSMITH: Final = (
    Switch("LANGSMITH_HIDE_INPUTS", frozenset({"true"}), default=True, advice="unset LANGSMITH_HIDE_INPUTS"),
    Switch("LANGSMITH_HIDE_OUTPUTS", frozenset({"true"}), default=True, advice="unset LANGSMITH_HIDE_OUTPUTS"),
)
_LANGSMITH_ACTIVE: Final = (
    Switch("LANGSMITH_TRACING", _TRUE, default=False, advice="set LANGSMITH_TRACING=true"),
    Switch("LANGSMITH_OTEL_ENABLED", _TRUE, default=False, advice="set LANGSMITH_OTEL_ENABLED=true"),
)
_HIDE: Final = "TraceConfig(hide_inputs=True)"

FRAMEWORKS: Final[Mapping[str, tuple[str, ...]]] = {
    "agent-framework": ("agent-framework-core",),
    "agno": ("agno",),
    "autogen": ("autogen-agentchat", "autogen-core"),
    "claude-agent-sdk": ("claude-agent-sdk",),
    "crewai": ("crewai",),
    "dspy": ("dspy", "dspy-ai"),
    "google-adk": ("google-adk",),
    "haystack": ("haystack-ai",),
    "langchain": ("langgraph", "langchain", "langchain-core"),
    "llama-index": ("llama-index-core",),
    "mcp": ("mcp",),
    "openai-agents": ("openai-agents",),
    "pydantic-ai": ("pydantic-ai-slim",),
    "smolagents": ("smolagents",),
    "strands": ("strands-agents",),
}
"""Each framework and the packages that it may be installed as."""

CARRIERS: Final = frozenset({"mcp"})
"""Not agents' frameworks of their own: their spans lie inside another's tool span, which has the arguments."""


def _openinference(name: str, framework: str, *scopes: str, switches: tuple[Switch, ...] = ()) -> Source:
    return Source(
        f"openinference-instrumentation-{name}",
        framework,
        scopes or (f"openinference.instrumentation.{name.replace('-', '_')}",),
        Records.ALWAYS,
        (*switches, *_OPENINFERENCE),
        in_code=_HIDE,
    )


def _genai(name: str, framework: str, *, switches: tuple[Switch, ...] = ()) -> Source:
    scope = f"opentelemetry.instrumentation.genai.{name.replace('-', '_')}"
    distribution = f"opentelemetry-instrumentation-genai-{name}"
    return Source(distribution, framework, (scope,), Records.SWITCHED, (*switches, _GENAI))


def _openllmetry(name: str, framework: str, scope: str, *, switches: tuple[Switch, ...] = ()) -> Source:
    distribution = f"opentelemetry-instrumentation-{name}"
    return Source(distribution, framework, (scope,), Records.ALWAYS, (*switches, _TRACELOOP))


SOURCES: Final[tuple[Source, ...]] = (
    Source("agent-framework-core", "agent-framework", ("agent_framework",), Records.SWITCHED, (_SENSITIVE,)),
    _openinference("agent-framework", "agent-framework", "agent_framework", switches=(_SENSITIVE,)),
    _openinference("agno", "agno"),
    _genai("agno", "agno"),
    _openllmetry("agno", "agno", "opentelemetry.instrumentation.agno"),
    Source(
        "autogen-core",
        "autogen",
        ("autogen-core",),
        Records.NEVER,
        advice="install openinference-instrumentation-autogen-agentchat, which records them",
    ),
    _openinference("autogen-agentchat", "autogen"),
    _openinference("claude-agent-sdk", "claude-agent-sdk"),
    _openinference("crewai", "crewai"),
    Source(
        "opentelemetry-instrumentation-crewai",
        "crewai",
        (),
        Records.NO_SPANS,
        advice="install openinference-instrumentation-crewai, which makes them",
    ),
    _openinference("dspy", "dspy"),
    _genai("dspy", "dspy"),
    Source("google-adk", "google-adk", ("gcp.vertex.agent",), Records.SWITCHED, (_GENAI,), _ADK_SCHEMA_1),
    _openinference("google-adk", "google-adk"),
    Source(
        "opentelemetry-haystack",
        "haystack",
        ("haystack", "opentelemetry.instrumentation.haystack"),
        Records.SWITCHED,
        (_HAYSTACK,),
    ),
    Source(
        "openinference-instrumentation-haystack",
        "haystack",
        (),
        Records.NO_SPANS,
        advice="install opentelemetry-haystack, which makes them, and set HAYSTACK_CONTENT_TRACING_ENABLED=true",
    ),
    _openinference("langchain", "langchain"),
    _genai("langchain", "langchain"),
    _openllmetry("langchain", "langchain", "opentelemetry.instrumentation.langchain"),
    Source("langsmith", "langchain", ("langsmith",), Records.ALWAYS, _LANGSMITH, active=_LANGSMITH_ACTIVE),
    _openinference("llama-index", "llama-index"),
    _genai("llama-index", "llama-index"),
    _openllmetry("llamaindex", "llama-index", "opentelemetry.instrumentation.llamaindex"),
    Source(
        "mcp",
        "mcp",
        ("mcp-python-sdk",),
        Records.NEVER,
        advice="instrument the agent that calls the server, whose tool span has the arguments, or install "
        "opentelemetry-instrumentation-mcp (OpenLLMetry's)",
    ),
    Source(
        "openinference-instrumentation-mcp",
        "mcp",
        (),
        Records.NEVER,
        advice="it only joins traces: instrument the agent that calls the server",
    ),
    _openllmetry("mcp", "mcp", "opentelemetry.instrumentation.mcp.instrumentation"),
    _openinference("openai-agents", "openai-agents", switches=_AGENTS),
    _genai("openai-agents", "openai-agents", switches=_AGENTS),
    _openllmetry("openai-agents", "openai-agents", "opentelemetry.instrumentation.openai_agents", switches=_AGENTS),
    Source(
        "opentelemetry-instrumentation-openai-agents-v2",
        "openai-agents",
        ("opentelemetry.instrumentation.openai_agents",),
        Records.ALWAYS,
        (*_AGENTS, _V2),
        in_code="capture_message_content",
    ),
    Source("logfire", "openai-agents", ("logfire.openai_agents",), Records.ALWAYS, _AGENTS, in_code="its scrubbing"),
    Source(
        "pydantic-ai-slim",
        "pydantic-ai",
        ("pydantic-ai",),
        Records.ALWAYS,
        advice="pass InstrumentationSettings(include_content=True), which is its default",
        in_code="InstrumentationSettings(include_content=False)",
    ),
    _openinference("pydantic-ai", "pydantic-ai", "pydantic-ai"),
    _openinference("smolagents", "smolagents"),
    Source(
        "opentelemetry-instrumentation-genai-smolagents",
        "smolagents",
        (),
        Records.NO_SPANS,
        advice="install openinference-instrumentation-smolagents, which makes them",
    ),
    Source(
        "strands-agents",
        "strands",
        ("strands.telemetry.tracer",),
        Records.ALWAYS,
        advice="take gen_ai_unredacted_attributes out of OTEL_SEMCONV_STABILITY_OPT_IN, or let it name "
        "gen_ai.tool.call.*",
    ),
    _openinference("strands-agents", "strands", "strands.telemetry.tracer"),
)
"""Every pair that is known, frameworks in the order of their names; own spans before instrumentations'."""


def remedy_for(scope: str) -> str | None:
    """Says what to do where tool spans of an instrumentation scope carry no readable arguments.

    Args:
        scope: the name of the instrumentation scope, as spans carry it.

    Returns:
        One line, in which nothing of `scope` stands; None where the scope is not known.
    """
    advice: list[str] = []
    for source in SOURCES:
        if scope in source.scopes:
            given = [switch.advice for switch in source.switches]
            advice += [source.advice] if source.advice else given
            if source.in_code and not source.advice:
                advice.append(f"do not switch it off in code ({source.in_code})")
    return "; ".join(dict.fromkeys(advice)) or None
