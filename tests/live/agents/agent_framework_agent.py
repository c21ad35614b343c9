"""Microsoft Agent Framework with a scripted model."""

from __future__ import annotations

import asyncio
from typing import Any

import rig
import scenario

rig.begin()

from agent_framework import (  # noqa: E402
    Agent,
    BaseChatClient,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
    tool,
)
from agent_framework.observability import ChatTelemetryLayer  # noqa: E402


class ScriptedModel(FunctionInvocationLayer, ChatTelemetryLayer, BaseChatClient):
    """Asks for what the script says."""

    OTEL_PROVIDER_NAME = "scripted"

    def __init__(self) -> None:
        super().__init__()
        self.script = scenario.Script()

    async def _inner_get_response(self, **_: Any) -> ChatResponse:
        calls = [
            Content.from_function_call(call_id=call.id, name=call.tool, arguments=call.text)
            for call in self.script.next()
        ]
        contents = calls or [Content.from_text(scenario.ANSWER)]
        return ChatResponse(messages=[Message(role="assistant", contents=contents)], response_id="response")


agent = Agent(
    client=ScriptedModel(),
    name=scenario.AGENT,
    instructions=scenario.INSTRUCTIONS,
    tools=[tool(function, approval_mode="never_require") for function in scenario.TOOLS],
)
asyncio.run(agent.run(scenario.PROMPT))
rig.finish()
