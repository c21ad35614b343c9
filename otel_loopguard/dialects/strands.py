"""Strands' own spans: content in span events, or in attributes with the newest conventions switched on.

Invariants: pure and total on any span. One cycle span holds one model response and its tools.
"""

from __future__ import annotations

from typing import Final

import msgspec

from otel_loopguard import attributes as attr
from otel_loopguard.dialects import genai, payload
from otel_loopguard.dialects.reading import Reading
from otel_loopguard.model import Role, Span

NAME: Final = "strands"
SCOPE: Final = "strands.telemetry.tracer"
CONTENT_KEYS: Final = genai.CONTENT_KEYS | {"message", "content", "tool.result", "gen_ai.tool.json_schema"}

_FAILED: Final = "error"


def read(span: Span) -> Reading | None:
    """Reads a span of this scope; None for spans without an operation."""
    operation = span.attributes.get(attr.OPERATION)
    if not isinstance(operation, str):
        return None
    role = genai.ROLES.get(operation, Role.OTHER)
    if role is Role.TOOL:
        return genai.tool(span, NAME, failed=span.attributes.get(attr.STRANDS_STATUS) == _FAILED)
    reading = genai.read_as(span, role, NAME)
    if role is Role.TURN:
        cycle = payload.name_or_none(span.attributes.get(attr.STRANDS_CYCLE))
        return msgspec.structs.replace(reading, turn=cycle)
    return reading
