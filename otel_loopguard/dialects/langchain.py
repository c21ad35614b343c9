"""What LangChain and LangGraph write alike whichever library traces them: tool messages, steps, final messages.

Invariants: pure and total; a tool message's ids never get into a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from otel_loopguard.dialects import evidence, payload
from otel_loopguard.dialects.reading import Content
from otel_loopguard.model import TerminationReason, Value

AGENT: Final = "lc_agent_name"
THREAD: Final = "thread_id"
STEP: Final = "langgraph_step"
NAMESPACE: Final = "langgraph_checkpoint_ns"


def tool_message(value: Value, *, default: str | None = None) -> tuple[Content, str | None, bool | None]:
    """Reads a tool's result as traced: a ToolMessage in any of its forms, `{"type": "tool", "data": {…}}` among them.

    Args:
        value: the attribute's value.
        default: the envelope's name for what the tool gave, used where that is no ToolMessage.

    Returns:
        The message's content decoded, its tool_call_id, whether its status is `error` (None: not a ToolMessage).
    """
    # Only the message's content is judged: text withheld elsewhere in the envelope hides neither it nor the call id.
    output = payload.parsed(value)
    if isinstance(output, Mapping):
        message = _of_output(output)
        inner = message.get("data")
        if message.get("type") == "tool" and isinstance(inner, Mapping):
            output = inner
        read = payload.tool_message(Content(output))
        if read[2] is not None:
            return read
        if default is not None and output.keys() <= {default, "kwargs"}:
            return payload.unwrap(Content(output), default), None, None
    return payload.result(value), None, None


def turn(metadata: Mapping[str, Value]) -> str | None:
    """Returns the id of the step a tool call belongs to: equal for the parallel calls of one model response.

    Step numbers start afresh in each subgraph, so its place (the namespace without the task's own part) goes before.
    """
    step = metadata.get(STEP)
    if isinstance(step, str) and step.isdecimal() and step.isascii():
        step = int(step[:18])
    if not isinstance(step, int) or isinstance(step, bool) or not -1 << 31 < step < 1 << 31:
        return None
    namespace = metadata.get(NAMESPACE)
    outer = namespace.rpartition("|")[0] if isinstance(namespace, str) else ""
    return f"{outer}|{step}" if outer else str(step)


def answer(output: Value) -> tuple[bool | None, TerminationReason | None]:
    """Reads an agent's final state: whether its last message answers, or names a limit instead.

    Args:
        output: the parsed output, `{"messages": […]}` or an envelope of it (`outputs`).

    Returns:
        (True: an answer; False: the last message is none; None: not said), and the limit if the last message is the
        fixed text of a call limit's middleware.
    """
    if isinstance(output, Mapping) and isinstance(output.get("outputs"), Mapping):
        output = output["outputs"]
    if not isinstance(output, Mapping):
        return (None if output is None or isinstance(output, (list, tuple)) else True), None
    messages = output.get("messages")
    if not isinstance(messages, (list, tuple)):
        return (True if output else None), None
    last = _fields(messages[-1]) if messages else {}
    if last.get("type") not in ("ai", "AIMessageChunk"):
        return False, None
    text = _text(last.get("content"))
    if last.get("tool_calls") or not text.strip():
        return False, None
    # A middleware's message names no model: a model that quotes one does.
    reason = None if last.get("response_metadata") else evidence.limit(text)
    return (False, reason) if reason is not None else (True, None)


def _of_output(message: Mapping[str, Value]) -> Mapping[str, Value]:
    inner = message.get("output")
    return inner if isinstance(inner, Mapping) and "type" not in message else message


def _fields(message: Value) -> Mapping[str, Value]:
    """Returns the fields of a message written plain, under `data`, or as `lc` constructor JSON."""
    if not isinstance(message, Mapping):
        return {}
    for name in ("data", "kwargs"):
        inner = message.get(name)
        if isinstance(inner, Mapping):
            return inner
    return message


def _text(content: Value) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, (list, tuple)):
        texts = (block.get("text") if isinstance(block, Mapping) else block for block in content)
        return "".join(text for text in texts if isinstance(text, str))
    return ""
