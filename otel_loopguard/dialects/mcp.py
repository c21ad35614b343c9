"""MCP's own spans: the client's and the server's side of one `tools/call`.

Invariants: pure and total on any span. Only `tools/call` is a tool call; the protocol's other methods are part of no
run. The client's status says nothing of the tool, so its outcome is unknown unless it failed itself.
"""

from __future__ import annotations

from typing import Final

from otel_loopguard import attributes as attr
from otel_loopguard.dialects import genai, payload
from otel_loopguard.dialects.reading import Reading
from otel_loopguard.model import Layer, Outcome, Role, Span

NAME: Final = "mcp"
CONTENT_KEYS: Final = genai.CONTENT_KEYS | {"mcp.resource.uri"}

_CALL: Final = "tools/call"
_SERVER_KIND: Final = 2


def read(span: Span) -> Reading | None:
    """Reads a span that names an MCP method; None for any other."""
    method = span.attributes.get(attr.MCP_METHOD)
    if not isinstance(method, str):
        return None
    if method != _CALL:
        return Reading(role=Role.OTHER, dialect=NAME)
    outcome, error_type, error_text = genai.ending(span)
    layer = Layer.SERVER if span.kind == _SERVER_KIND else Layer.CLIENT
    if layer is Layer.CLIENT and outcome is Outcome.OK:
        outcome = Outcome.UNKNOWN
    result, failed = payload.mcp_result(payload.result(span.attributes.get(attr.TOOL_RESULT)))
    return Reading(
        role=Role.TOOL,
        dialect=NAME,
        tool=_tool_name(span),
        arguments=payload.or_missing(payload.arguments(span.attributes.get(attr.TOOL_ARGUMENTS)), span),
        result=payload.or_missing(result, span),
        call_id=_request_id(span),
        layer=layer,
        outcome=Outcome.ERROR if failed else outcome,
        error_type=error_type,
        error_text=error_text,
        agent=genai.agent_of(span),
    )


def _tool_name(span: Span) -> str | None:
    name = payload.name_or_none(span.attributes.get(attr.TOOL_NAME))
    if name is not None:
        return name
    _, found, rest = span.name.partition(_CALL + " ")
    return payload.name_or_none(rest) if found else None


def _request_id(span: Span) -> str | None:
    value = span.attributes.get(attr.JSONRPC_ID)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if abs(value) < 1 << 63 else None
    return payload.name_or_none(value)
