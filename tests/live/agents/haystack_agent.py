"""Haystack's agent with a scripted model."""

from __future__ import annotations

from typing import Any

import rig
import scenario

rig.begin()

from haystack import component  # noqa: E402
from haystack.components.agents import Agent  # noqa: E402
from haystack.dataclasses import ChatMessage, ToolCall  # noqa: E402
from haystack.tools import create_tool_from_function  # noqa: E402


@component
class ScriptedModel:
    """Asks for what the script says."""

    def __init__(self) -> None:
        self.script = scenario.Script()

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage], tools: Any = None) -> dict[str, Any]:  # noqa: ARG002  # as the agent asks
        """The next turn."""
        calls = [ToolCall(tool_name=call.tool, arguments=call.arguments, id=call.id) for call in self.script.next()]
        return {"replies": [ChatMessage.from_assistant(None if calls else scenario.ANSWER, tool_calls=calls)]}


agent = Agent(
    chat_generator=ScriptedModel(),
    tools=[create_tool_from_function(function) for function in scenario.TOOLS],
    system_prompt=scenario.INSTRUCTIONS,
)
agent.run(messages=[ChatMessage.from_user(scenario.PROMPT)])
rig.finish()
