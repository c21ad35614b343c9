"""Agno with a scripted model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import rig
import scenario

rig.begin()

from agno.agent import Agent  # noqa: E402
from agno.models.base import Model  # noqa: E402
from agno.models.response import ModelResponse  # noqa: E402


@dataclass
class ScriptedModel(Model):
    """Asks for what the script says."""

    id: str = "scripted"
    name: str = "Scripted"
    provider: str = "scripted"
    script: scenario.Script = field(default_factory=scenario.Script)

    def invoke(self, *_: Any, **__: Any) -> ModelResponse:
        """The next turn."""
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.tool, "arguments": call.text}}
            for call in self.script.next()
        ]
        return ModelResponse(role="assistant", content=None if calls else scenario.ANSWER, tool_calls=calls)

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    ainvoke = invoke_stream = ainvoke_stream = _parse_provider_response = _parse_provider_response_delta = _refuse


agent = Agent(
    name="OrderAgent",  # of any text it makes what looks like a name, in the span's name and the agent's id
    model=ScriptedModel(),
    instructions=scenario.INSTRUCTIONS,
    tools=list(scenario.TOOLS),
    telemetry=False,
)
agent.run(scenario.PROMPT)
rig.finish()
