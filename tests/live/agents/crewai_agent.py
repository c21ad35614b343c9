"""CrewAI with a scripted model."""

from __future__ import annotations

from typing import Any

import rig
import scenario

rig.begin()

from crewai import Agent, BaseLLM, Crew, Task  # noqa: E402
from crewai.tools import tool  # noqa: E402

SCRIPT = scenario.Script()


class ScriptedModel(BaseLLM):
    """Asks for what the script says."""

    def supports_function_calling(self) -> bool:
        """It asks for tools by itself, not in words."""
        return True

    def call(self, *_: Any, **__: Any) -> Any:
        """The next turn."""
        calls = SCRIPT.next()
        if not calls:
            return scenario.ANSWER
        return [
            {"id": call.id, "type": "function", "function": {"name": call.tool, "arguments": call.text}}
            for call in calls
        ]


agent = Agent(
    role=scenario.AGENT,
    goal=scenario.INSTRUCTIONS,
    backstory=scenario.INSTRUCTIONS,
    llm=ScriptedModel(model="scripted"),
    tools=[tool(function) for function in scenario.TOOLS],
    max_iter=30,
    cache=False,
)
task = Task(description=scenario.PROMPT, expected_output="an answer", agent=agent)
Crew(agents=[agent], tasks=[task], cache=False).kickoff()
rig.finish()
