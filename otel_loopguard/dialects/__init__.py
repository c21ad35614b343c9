"""Reads spans of every known dialect: one ordered registry, one function.

Invariants: reading is a pure function of one span and does not raise. A span that no dialect knows costs a few
lookups in dicts and no more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from otel_loopguard import attributes as attr
from otel_loopguard.dialects import (
    genai,
    google_adk,
    haystack,
    langsmith,
    logfire,
    loopguard,
    mcp,
    openai_agents,
    openinference,
    openllmetry,
    payload,
    pydantic_ai,
    strands,
    vercel_legacy,
)
from otel_loopguard.dialects.reading import Dialect, Reading
from otel_loopguard.model import Span

__all__ = [
    "BY_KEY",
    "BY_NAME",
    "BY_SCOPE",
    "PLACEHOLDERS",
    "TELLING_KEYS",
    "Dialect",
    "Reading",
    "content_keys",
    "read",
]

BY_NAME: Final[Mapping[str, Dialect]] = {
    attr.DECISION_SPAN: loopguard.read,
    attr.RUN_END_SPAN: loopguard.read,
    openllmetry.RESPONSE_SPAN: openllmetry.read,  # its scope is another instrumentation's, too
    **dict.fromkeys(haystack.ROLES, haystack.read),
}
"""Dialects whose spans are known by their names: asked first, the names are their own."""

BY_KEY: Final[tuple[tuple[str, Dialect], ...]] = (
    (attr.LOGFIRE_SPAN_TYPE, logfire.read),  # its pending spans are copies of spans of every dialect
    (attr.OPENINFERENCE_KIND, openinference.read),  # also on native spans that its processors complete
    (attr.TRACELOOP_KIND, openllmetry.read),
    (attr.LANGSMITH_KIND, langsmith.read),
    (attr.MCP_METHOD, mcp.read),  # also has an operation: before the conventions
    (attr.VERCEL_OPERATION, vercel_legacy.read),  # model spans carry gen_ai names, too
)
"""Dialects whose spans carry a key of their own, in the order asked: those that add their keys to spans of other
dialects come first, since they carry more than the span they were added to."""

BY_SCOPE: Final[Mapping[str, Dialect]] = {
    **dict.fromkeys(openllmetry.SCOPES, openllmetry.read),
    openai_agents.SCOPE: openai_agents.read,
    pydantic_ai.SCOPE: pydantic_ai.read,
    strands.SCOPE: strands.read,
    **dict.fromkeys(google_adk.SCOPES, google_adk.read),
    vercel_legacy.SCOPE: vercel_legacy.read,
}
"""Frameworks that write the conventions their own way, by instrumentation scope; asked before the conventions."""

_MODULES: Final = (
    genai,
    google_adk,
    haystack,
    langsmith,
    logfire,
    loopguard,
    mcp,
    openai_agents,
    openinference,
    openllmetry,
    pydantic_ai,
    strands,
    vercel_legacy,
)


def read(span: Span) -> Reading | None:
    """Reads one span in the first dialect that knows it.

    Returns:
        None where no dialect knows the span. `Role.OTHER` where one does and the span tells nothing of a run.

    Cost: for a span of no dialect, about a dozen dict lookups.
    """
    dialect = BY_NAME.get(span.name)
    if dialect is not None:
        return dialect(span)
    attributes = span.attributes
    if attributes:
        for key, dialect in BY_KEY:
            if key in attributes:
                reading = dialect(span)
                if reading is not None:
                    return reading
    dialect = BY_SCOPE.get(span.scope)
    if dialect is not None:
        reading = dialect(span)
        if reading is not None:
            return reading
    return genai.read(span) if attributes else None


TELLING_KEYS: Final = frozenset(
    {
        *(key for key, _ in BY_KEY),
        attr.OPERATION,
        attr.TOOL_NAME,
        *attr.MODELS,
        *attr.SYSTEM,
        attr.PROMPT,
        attr.COMPLETION,
    }
)
"""Keys of which a span carries one at least, if any dialect knows it by other than its name or its scope."""


PLACEHOLDERS: Final = payload.PLACEHOLDERS | openinference.PLACEHOLDERS | openllmetry.PLACEHOLDERS
"""Constants in the place of a name: read as no name, so they are shown as they are and never digested."""


def content_keys() -> frozenset[str]:
    """Returns every attribute key that holds content in some dialect; one that ends in `.` stands for a prefix."""
    return frozenset().union(*(module.CONTENT_KEYS for module in _MODULES))
