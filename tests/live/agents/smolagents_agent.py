"""smolagents' tool-calling agent with a scripted model."""

from __future__ import annotations

from typing import Any

import rig
import scenario

rig.begin()

from smolagents import ToolCallingAgent, tool  # noqa: E402
from smolagents.models import (  # noqa: E402
    ChatMessage,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    MessageRole,
    Model,
)


class ScriptedModel(Model):
    """Asks for what the script says."""

    def __init__(self) -> None:
        super().__init__(model_id="scripted")
        self.script = scenario.Script()

    def generate(self, *_: Any, **__: Any) -> ChatMessage:
        """The next turn; the answer is a tool here."""
        calls = self.script.next() or (scenario.Call("call_answer", "final_answer", {"answer": scenario.ANSWER}),)
        asked = [
            ChatMessageToolCall(
                id=call.id,
                type="function",
                function=ChatMessageToolCallFunction(name=call.tool, arguments=call.arguments),
            )
            for call in calls
        ]
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=asked)


agent = ToolCallingAgent(
    tools=[tool(function) for function in scenario.TOOLS],
    model=ScriptedModel(),
    instructions=scenario.INSTRUCTIONS,
    max_steps=20,
    verbosity_level=0,
)
agent.run(scenario.PROMPT)
rig.finish()
