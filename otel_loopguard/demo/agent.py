"""The scripted agent: performs a scene through a tracer provider, by the gen_ai conventions.

Invariants: no clock, no randomness: ids follow from the scene and times from its pauses, so that two performances of
one scene give equal spans. What is recorded is what an instrumentation with content switched on records: messages on
model and agent spans, arguments and results on tool spans.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import count, groupby
from typing import Final, TypeAlias

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import Span, Status, StatusCode

from otel_loopguard import attributes as attr
from otel_loopguard.demo.scenes import Scene, Tools, Turn
from otel_loopguard.model import Value

SCOPE: Final = "demo.scripted_agent"
MODEL: Final = "scripted-model"
START_NS: Final = 1_767_600_000_000_000_000
"""When the first scene begins: 2026-01-05, 8 o'clock UTC."""

_NS_PER_MS: Final = 1_000_000
_MODEL_MS: Final = 350
_TOOL_MS: Final = 40
_CHARS_PER_TOKEN: Final = 4
_Messages: TypeAlias = list[dict[str, Value]]


class SceneIds(IdGenerator):
    """Ids that follow from a scene's name: one trace, and its spans one after the other."""

    def __init__(self, scene: str) -> None:
        self._scene = scene
        self._spans = count(1)

    def generate_trace_id(self) -> int:
        """The scene's trace id."""
        return int(sha256(self._scene.encode()).hexdigest()[:32], 16)

    def generate_span_id(self) -> int:
        """The next span's id."""
        return int(sha256(f"{self._scene} {next(self._spans)}".encode()).hexdigest()[:16], 16)


def perform(scene: Scene, provider: TracerProvider, *, start_ns: int = START_NS) -> int:
    """Performs one scene: the spans of its agents, model and tools start and end through `provider`.

    Args:
        scene: what happens.
        provider: of a real SDK; what its processors do with the spans is their matter.
        start_ns: when it begins, in nanoseconds since 1970.

    Returns:
        When it ended.
    """
    return _Performance(scene, provider, start_ns).run()


class _Performance:
    """One scene that is going on; `_now` is its clock."""

    def __init__(self, scene: Scene, provider: TracerProvider, start_ns: int) -> None:
        self._scene = scene
        self._tracer = provider.get_tracer(SCOPE)
        self._now = start_ns
        self._tools: Tools = scene.tools()
        self._said: _Messages = [_message("user", _text(scene.asks))]
        self._calls = count(1)

    def run(self) -> int:
        agents = list(dict.fromkeys(turn.agent for turn in self._scene.turns))
        if len(agents) == 1:
            self._agent(None, agents[0], self._scene.turns, last=True)
            return self._now
        workflow = {attr.OPERATION: "invoke_workflow", attr.WORKFLOW_NAME: "support_desk"}
        root = self._start(None, "invoke_workflow support_desk", workflow)
        for agent, turns in groupby(self._scene.turns, key=lambda turn: turn.agent):
            self._agent(root, agent, turns, last=False)
        self._conclude(root, None)
        return self._now

    def _agent(self, parent: Span | None, name: str, turns: Iterable[Turn], *, last: bool) -> None:
        span = self._start(parent, f"invoke_agent {name}", {attr.OPERATION: "invoke_agent", attr.AGENT_NAME: name})
        span.set_attribute(attr.INPUT_MESSAGES, json.dumps(self._said))
        for turn in turns:
            call_id = f"call_{next(self._calls)}"
            self._answer(span, turn.says, turn, call_id)
            self._call(span, turn, call_id)
            self._now += self._scene.pause_ms * _NS_PER_MS
        if last and self._scene.answer is not None:
            self._answer(span, self._scene.answer, None, "")
        if last:
            self._conclude(span, self._scene.answer)
        else:
            span.end(self._now)

    def _answer(self, agent: Span, says: str, turn: Turn | None, call_id: str) -> None:
        """One model response."""
        asked = json.dumps(self._said)
        parts = [_text(says)]
        if turn is not None:
            arguments = dict(turn.call.arguments)
            parts.append({"type": "tool_call", "id": call_id, "name": turn.call.tool, "arguments": arguments})
        reply = _message("assistant", *parts)
        self._said.append(reply)
        reason = "stop" if turn is None else "tool_calls"
        told = json.dumps([{**reply, "finish_reason": reason}])
        span = self._start(agent, f"chat {MODEL}", {attr.OPERATION: "chat", attr.MODELS[-1]: MODEL})
        span.set_attributes(
            {
                attr.INPUT_MESSAGES: asked,
                attr.OUTPUT_MESSAGES: told,
                attr.FINISH_REASONS: (reason,),
                attr.INPUT_TOKENS[0]: len(asked) // _CHARS_PER_TOKEN,
                attr.OUTPUT_TOKENS[0]: len(told) // _CHARS_PER_TOKEN,
            }
        )
        self._end(span, _MODEL_MS)

    def _call(self, agent: Span, turn: Turn, call_id: str) -> None:
        """One tool call."""
        named = {attr.OPERATION: "execute_tool", attr.TOOL_NAME: turn.call.tool, attr.TOOL_CALL_ID: call_id}
        span = self._start(agent, f"execute_tool {turn.call.tool}", named)
        span.set_attribute(attr.TOOL_ARGUMENTS, json.dumps(turn.call.arguments))
        result = self._tools[turn.call.tool](turn.call.arguments)
        span.set_attribute(attr.TOOL_RESULT, json.dumps(result))
        self._said.append(_message("tool", {"type": "tool_call_response", "id": call_id, "response": result}))
        self._end(span, _TOOL_MS)

    def _conclude(self, span: Span, answer: str | None) -> None:
        if answer is not None:
            span.set_attribute(attr.OUTPUT_MESSAGES, json.dumps([_message("assistant", _text(answer))]))
        else:
            span.set_attribute(attr.ERROR_TYPE, "MaxTurnsExceeded")
            span.set_status(Status(StatusCode.ERROR, f"max turns exceeded on: {self._scene.asks}"))
        span.end(self._now)

    def _start(self, parent: Span | None, name: str, attributes: Mapping[str, str]) -> Span:
        above = Context() if parent is None else trace.set_span_in_context(parent, Context())
        return self._tracer.start_span(name, above, attributes=attributes, start_time=self._now)

    def _end(self, span: Span, milliseconds: int) -> None:
        self._now += milliseconds * _NS_PER_MS
        span.end(self._now)


def _message(role: str, *parts: Value) -> dict[str, Value]:
    held: Sequence[Value] = list(parts)
    return {"role": role, "parts": held}


def _text(text: str) -> dict[str, Value]:
    return {"type": "text", "content": text}
