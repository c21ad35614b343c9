"""Reads OpenInference spans, whichever framework's instrumentation wrote them.

Also reads native spans to which an OpenInference span processor added its attributes (pydantic-ai, Strands,
agent-framework, google-adk): its own keys first, gen_ai keys where they are missing. So this dialect must be
asked before the native ones. Tool spans are read in `openinference_tools`.
Invariants: a span without `openinference.span.kind` costs one lookup.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from otel_loopguard import attributes as attr
from otel_loopguard.dialects import evidence, langchain, payload, responses
from otel_loopguard.dialects import openinference_tools as tools
from otel_loopguard.dialects.openinference_tools import NAME, Framework
from otel_loopguard.dialects.reading import Reading
from otel_loopguard.model import ChatFacts, Finish, Outcome, Role, Span, TerminationReason, Value

__all__ = ["CONTENT_KEYS", "NAME", "read"]

CONTENT_KEYS: Final[frozenset[str]] = frozenset(
    {
        attr.OPENINFERENCE_INPUT,
        attr.OPENINFERENCE_OUTPUT,
        attr.OPENINFERENCE_PARAMETERS,
        f"{attr.OPENINFERENCE_INPUT_MESSAGES}.",
        f"{attr.OPENINFERENCE_OUTPUT_MESSAGES}.",
        f"{attr.OPENINFERENCE_PROMPTS}.",
        f"{attr.OPENINFERENCE_CHOICES}.",
        "retrieval.documents.",
        "reranker.",
        "embedding.embeddings.",
        "llm.prompt_template.",
        "llm.invocation_parameters",  # openai-agents: the instructions are among them
        "llm.tools.",
        "tool.description",
        "agno.tools",
        "crew_agents",
        "crew_inputs",
        "crew_tasks",
        "embedding.text",
        "input.documents.",
        "input.images.",
        "llm.function_call",
        "output.documents.",
        "output.images.",
    }
)
"""Attribute names that hold content; a name that ends in a dot is the head of names."""

_OUTPUT_HEAD: Final = f"{attr.OPENINFERENCE_OUTPUT_MESSAGES}."
_REQUESTED: Final = re.compile(
    re.escape(_OUTPUT_HEAD) + r"(\d{1,6})\.message\.tool_calls\.(\d{1,6})\.tool_call\.(id|function\.name)\Z", re.ASCII
)
_TEXT: Final = re.compile(
    re.escape(_OUTPUT_HEAD) + r"\d{1,6}\.message\.(?:content(?:\.\d{1,6})?|contents\.\d{1,6}\.message_content\.text)\Z",
    re.ASCII,
)
_NO_ANSWER: Final = frozenset({"", "null", "{}", "[]", '""', "None", "__REDACTED__"})
PLACEHOLDERS: Final = frozenset({"Agent workflow", "unknown_agent"})
"""Names that the frameworks and instrumentations read here give where they know none."""


def read(span: Span) -> Reading | None:
    """Reads one span.

    Returns:
        None where the span carries no OpenInference kind. Kinds that say nothing of a run (RETRIEVER, EMBEDDING…)
        have the role OTHER.
    """
    kind = span.attributes.get(attr.OPENINFERENCE_KIND)
    if kind is None:
        return None
    framework = tools.framework(span.scope)
    if kind == "TOOL":
        return tools.read(span, framework)
    role = _role(span, kind, framework)
    if role is Role.OTHER:
        return Reading(role=role, dialect=NAME)
    if role is Role.CHAT:
        return _chat(span, framework)
    return _holder(span, role, framework)


# --- roles ------------------------------------------------------------------------------------------------


def _role(span: Span, kind: Value, framework: Framework) -> Role:
    if kind == "LLM":
        return Role.OTHER if framework is Framework.LLAMA_INDEX and _is_outer_call(span) else Role.CHAT
    if kind == "AGENT":
        # openai-agents types the whole trace as an agent, too.
        nameless = framework is Framework.OPENAI_AGENTS and attr.OPENINFERENCE_AGENT not in span.attributes
        return Role.WORKFLOW if nameless else Role.AGENT
    return _chain_role(span, framework) if kind == "CHAIN" else Role.OTHER


def _chain_role(span: Span, framework: Framework) -> Role:
    name = span.name
    if (
        (framework is Framework.OPENAI_AGENTS and name == "turn")
        or (framework is Framework.SMOLAGENTS and name.startswith("Step "))
        or (framework is Framework.STRANDS and name == "execute_event_loop_cycle")
    ):
        return Role.TURN
    if (framework is Framework.LLAMA_INDEX and name.endswith("Agent.run")) or (
        framework is Framework.HAYSTACK and name == "Agent.run"
    ):
        return Role.AGENT
    nested_workflow = framework is Framework.CREWAI and name.endswith(".kickoff")
    return Role.WORKFLOW if span.parent_id is None or nested_workflow else Role.OTHER


def _is_outer_call(span: Span) -> bool:
    """Tells whether a llama-index model span shows no response: a preparation, or the call around the real one."""
    attributes = span.attributes
    if attr.OPENINFERENCE_FINISH in attributes or attr.OPENINFERENCE_OUTPUT_TOKENS in attributes:
        return False
    if span.name.endswith("._prepare_chat_with_tools"):
        return True
    return attr.OPENINFERENCE_OUTPUT not in attributes and span.status_code != evidence.ERROR_STATUS


# --- agents, workflows, turns -----------------------------------------------------------------------------


def _holder(span: Span, role: Role, framework: Framework) -> Reading:
    outcome = evidence.outcome(span)
    error_type, error_text = evidence.failure(span) if outcome is Outcome.ERROR else (None, None)
    termination: TerminationReason | None = None
    answer: bool | None = None
    if role is not Role.TURN:
        if outcome is Outcome.ERROR:
            termination = evidence.termination(error_type, error_text)
        elif outcome is Outcome.OK:
            answer, termination = _answer(span, framework)
    metadata = tools.metadata(span, framework)
    return Reading(
        role=role,
        dialect=NAME,
        outcome=outcome,
        error_type=error_type,
        error_text=error_text,
        agent=_agent(span, role, framework, metadata),
        turn=_turn(span, framework) if role is Role.TURN else None,
        conversation=tools.conversation(span, metadata),
        termination=termination,
        final_answer=answer,
    )


def _turn(span: Span, framework: Framework) -> str | None:
    if framework is Framework.SMOLAGENTS:
        return payload.text_or_none(span.name.removeprefix("Step ").strip())
    return payload.text_or_none(span.attributes.get(attr.STRANDS_CYCLE))


def _agent(span: Span, role: Role, framework: Framework, metadata: Mapping[str, Value]) -> str | None:
    attributes = span.attributes
    candidates = [attributes.get(attr.OPENINFERENCE_AGENT)]
    if role is Role.AGENT:
        candidates.append(attributes.get(attr.OPENINFERENCE_NODE_NAME))
        if framework in (Framework.CREWAI, Framework.AUTOGEN):
            candidates.append(attributes.get(attr.OPENINFERENCE_NODE))
    candidates += [attributes.get(attr.AGENT_NAME), metadata.get(langchain.AGENT)]
    if role is Role.AGENT and framework in (Framework.SMOLAGENTS, Framework.LANGCHAIN):
        candidates.append(span.name.removesuffix(".run"))
    if role is Role.WORKFLOW and framework is Framework.OPENAI_AGENTS:
        candidates.append(span.name)
    names = (payload.name_or_none(name) for name in candidates)
    return next((name for name in names if name is not None and name not in PLACEHOLDERS), None)


def _answer(span: Span, framework: Framework) -> tuple[bool | None, TerminationReason | None]:
    """Returns whether an ended agent shows an answer (None: it does not say), and the limit that it names instead."""
    value = span.attributes.get(attr.OPENINFERENCE_OUTPUT)
    if value is None:
        return None, None
    if isinstance(value, str) and value.strip() in _NO_ANSWER:
        return None, None
    if framework is Framework.LANGCHAIN:
        return langchain.answer(payload.parsed(value))
    if framework is Framework.HAYSTACK:
        return _haystack_answer(value), None
    return True, None


def _haystack_answer(value: Value) -> bool | None:
    """Reads the last of the messages, each a repr; a pipeline holds them under its component's name."""
    messages = payload.as_dict(value)
    if "messages" not in messages and len(messages) == 1:
        messages = payload.as_dict(next(iter(messages.values())))
    shown = messages.get("messages")
    last = shown[-1] if isinstance(shown, list) and shown else None
    if not isinstance(last, str):
        return None
    return "ChatRole.ASSISTANT" in last[:64] and "TextContent(" in last and "ToolCall(" not in last


# --- model responses --------------------------------------------------------------------------------------


def _chat(span: Span, framework: Framework) -> Reading:
    attributes = span.attributes
    outcome = evidence.outcome(span)
    error_type, error_text = evidence.failure(span) if outcome is Outcome.ERROR else (None, None)
    calls, shown, text = ({}, False, False) if _holds_all_responses(span) else _output_messages(attributes)
    ids = [calls[place] for place in sorted(calls)]
    named = tuple(call_id for call_id in ids if call_id is not None)
    finish = _finish(attributes, framework, asked=bool(calls), shown=shown)
    metadata = tools.metadata(span, framework)
    answer: bool | None = None
    if outcome is Outcome.OK:
        if shown:
            answer = text and not calls
        elif finish is not None:
            answer = finish is Finish.STOP
    return Reading(
        role=Role.CHAT,
        dialect=NAME,
        outcome=outcome,
        error_type=error_type,
        error_text=error_text,
        agent=_agent(span, Role.CHAT, framework, metadata),
        conversation=tools.conversation(span, metadata),
        chat=ChatFacts(
            requested=named if shown and len(named) == len(ids) else None,
            requested_calls=len(ids) if shown else None,
            finish=finish,
            input_tokens=evidence.count(payload.first(attributes, _INPUT_TOKENS)),
            output_tokens=evidence.count(payload.first(attributes, _OUTPUT_TOKENS)),
            model=payload.name_or_none(payload.first(attributes, _MODELS)),
        ),
        final_answer=answer,
    )


def _holds_all_responses(span: Span) -> bool:
    """Tells whether a span was given every response of a run, one over the other, calls of several among them.

    OpenInference's ADK instrumentation makes no spans of model calls, and writes what it has on the agent's.
    """
    return span.scope == _ADK_SCOPE and span.name.startswith("invoke_agent ")


_ADK_SCOPE: Final = "gcp.vertex.agent"
_MODELS: Final = (attr.OPENINFERENCE_MODEL, *attr.MODELS)
_INPUT_TOKENS: Final = (attr.OPENINFERENCE_INPUT_TOKENS, *attr.INPUT_TOKENS)
_OUTPUT_TOKENS: Final = (attr.OPENINFERENCE_OUTPUT_TOKENS, *attr.OUTPUT_TOKENS)


def _output_messages(attributes: Mapping[str, Value]) -> tuple[dict[tuple[int, int], str | None], bool, bool]:
    """Returns the calls asked for (id by place), whether any output is shown, and whether it holds text."""
    calls: dict[tuple[int, int], str | None] = {}
    shown = text = False
    for key, value in attributes.items():
        if not key.startswith(_OUTPUT_HEAD):
            continue
        shown = True
        match = _REQUESTED.match(key)
        if match is not None:
            place = (int(match[1]), int(match[2]))
            is_id = match[3] == "id" and isinstance(value, str) and bool(value)
            calls[place] = value if is_id else calls.get(place)
        elif isinstance(value, str) and value.strip() and _TEXT.match(key):
            text = True
    return calls, shown, text


def _finish(attributes: Mapping[str, Value], framework: Framework, *, asked: bool, shown: bool) -> Finish | None:
    if asked:
        return Finish.TOOL_CALLS
    if framework is Framework.OPENAI_AGENTS and not shown:
        return None  # it says `stop` on responses that ask for tools, too
    return responses.finish(payload.first(attributes, (attr.OPENINFERENCE_FINISH, attr.FINISH_REASONS)))
