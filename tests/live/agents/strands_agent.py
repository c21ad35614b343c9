"""Strands Agents with a scripted model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import rig
import scenario

rig.begin()

from strands import Agent, tool  # noqa: E402
from strands.models import Model  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class ScriptedModel(Model):
    """Asks for what the script says."""

    def __init__(self) -> None:
        self.script = scenario.Script()

    def update_config(self, **_: Any) -> None:
        """Nothing to set."""

    def get_config(self) -> dict[str, Any]:
        """Nothing is set."""
        return {"model_id": "scripted"}

    async def structured_output(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        """Not asked for."""
        raise NotImplementedError
        yield

    async def stream(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        """The next turn, as the events of one message."""
        calls = self.script.next()
        yield {"messageStart": {"role": "assistant"}}
        for call in calls:
            yield {"contentBlockStart": {"start": {"toolUse": {"toolUseId": call.id, "name": call.tool}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": call.text}}}}
            yield {"contentBlockStop": {}}
        if not calls:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": scenario.ANSWER}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if calls else "end_turn"}}


agent = Agent(
    name=scenario.AGENT,
    model=ScriptedModel(),
    system_prompt=scenario.INSTRUCTIONS,
    tools=[tool(function) for function in scenario.TOOLS],
    callback_handler=None,
)
agent(scenario.PROMPT)
rig.finish()
