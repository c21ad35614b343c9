"""pydantic-ai's own spans, of its instrumentation versions 2 to 6.

Invariants: pure and total on any span. Version 2 has its own names for arguments and results; every version names the
conversation and the agent on every span.
"""

from __future__ import annotations

from typing import Final

import msgspec

from otel_loopguard import attributes as attr
from otel_loopguard.dialects import genai, payload
from otel_loopguard.dialects.reading import Reading
from otel_loopguard.model import ErrorCategory, NotACall, Outcome, Role, Span

NAME: Final = "pydantic_ai"
SCOPE: Final = "pydantic-ai"
CONTENT_KEYS: Final = genai.CONTENT_KEYS | {
    attr.PYDANTIC_ARGUMENTS,
    attr.PYDANTIC_RESULT,
    attr.PYDANTIC_FINAL,
    *attr.PYDANTIC_MESSAGES,
    "events",
    "model_request_parameters",
}

_OUTPUT_TOOL: Final = "final_result"
_OUTPUT_SPAN: Final = "output function"
_OUTPUT_OPERATION: Final = "execute_output_function"
_VALIDATION: Final = frozenset({"validation_error", "validation"})


def read(span: Span) -> Reading | None:
    """Reads a span of this scope; None for its spans that have no operation (`running tools`)."""
    operation = span.attributes.get(attr.OPERATION)
    if not isinstance(operation, str):
        return None
    role = genai.ROLES.get(operation, Role.OTHER)
    if role is Role.TOOL:
        return _tool(span)
    if role is Role.AGENT:
        final = span.attributes.get(attr.PYDANTIC_FINAL)
        return genai.holder(span, role, NAME, answered=None if final is None else final != "")
    return genai.read_as(span, role, NAME)


def _tool(span: Span) -> Reading:
    attributes = span.attributes
    arguments = payload.first(attributes, (attr.TOOL_ARGUMENTS, attr.PYDANTIC_ARGUMENTS))
    result = payload.first(attributes, (attr.TOOL_RESULT, attr.PYDANTIC_RESULT))
    name = attributes.get(attr.TOOL_NAME)
    is_answer = (isinstance(name, str) and name.startswith(_OUTPUT_TOOL)) or _OUTPUT_SPAN in span.name
    reading = genai.tool(
        span,
        NAME,
        arguments=payload.arguments(arguments),
        result=payload.blocks(payload.result(result)),
        not_a_call=NotACall.FINAL_ANSWER if is_answer else None,
    )
    if reading.outcome is Outcome.ERROR and attributes.get(attr.PYDANTIC_RETRY_CAUSE) in _VALIDATION:
        return msgspec.structs.replace(reading, error_category=ErrorCategory.VALIDATION)
    return reading
