"""AutoGen's assistant agent with a scripted model."""

from __future__ import annotations

import asyncio
from typing import Any

import rig
import scenario

rig.begin()

from autogen_agentchat.agents import AssistantAgent  # noqa: E402
from autogen_core import FunctionCall  # noqa: E402
from autogen_core.models import ChatCompletionClient, CreateResult, ModelFamily, ModelInfo, RequestUsage  # noqa: E402

USAGE = RequestUsage(prompt_tokens=1, completion_tokens=1)


class ScriptedModel(ChatCompletionClient):
    """Asks for what the script says."""

    def __init__(self) -> None:
        self.script = scenario.Script()

    @property
    def model_info(self) -> ModelInfo:
        """It can ask for tools."""
        return ModelInfo(
            vision=False,
            function_calling=True,
            json_output=False,
            family=ModelFamily.UNKNOWN,
            structured_output=False,
        )

    capabilities = model_info

    async def create(self, *_: Any, **__: Any) -> CreateResult:
        """The next turn."""
        calls = [FunctionCall(id=call.id, name=call.tool, arguments=call.text) for call in self.script.next()]
        reason = "function_calls" if calls else "stop"
        return CreateResult(finish_reason=reason, content=calls or scenario.ANSWER, usage=USAGE, cached=False)

    async def create_stream(self, *_: Any, **__: Any) -> Any:
        """Not asked for."""
        raise NotImplementedError
        yield

    async def close(self) -> None:
        """Nothing is open."""

    def actual_usage(self) -> RequestUsage:
        """Nothing is counted."""
        return USAGE

    total_usage = actual_usage

    def count_tokens(self, *_: Any, **__: Any) -> int:
        """Nothing is counted."""
        return 1

    remaining_tokens = count_tokens


agent = AssistantAgent(
    "OrderAgent",
    model_client=ScriptedModel(),
    system_message=scenario.INSTRUCTIONS,
    tools=list(scenario.TOOLS),
    max_tool_iterations=20,
)
asyncio.run(agent.run(task=scenario.PROMPT))
rig.finish()
