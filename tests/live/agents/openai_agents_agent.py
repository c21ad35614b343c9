"""OpenAI Agents SDK with a scripted model."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import rig
import scenario

rig.begin()

from agents import Agent, Model, ModelResponse, Runner, Usage, function_tool, generation_span  # noqa: E402
from openai.types.responses import (  # noqa: E402
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class ScriptedModel(Model):
    """Asks for what the script says."""

    def __init__(self) -> None:
        self.script = scenario.Script()

    async def get_response(self, **given: Any) -> ModelResponse:
        """The next turn, under the span that the SDK's own models make."""
        asked = given["input"]
        system = {"role": "system", "content": given["system_instructions"]}
        messages = [{"role": "user", "content": asked}] if isinstance(asked, str) else asked
        with generation_span(input=[system, *messages], model="scripted") as span:
            output = self._output()
            span.span_data.output = [item.model_dump() for item in output]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def _output(self) -> list[Any]:
        output: list[Any] = [
            ResponseFunctionToolCall(
                id=call.id, call_id=call.id, name=call.tool, arguments=call.text, type="function_call"
            )
            for call in self.script.next()
        ]
        if not output:
            text = ResponseOutputText(text=scenario.ANSWER, type="output_text", annotations=[])
            output = [
                ResponseOutputMessage(
                    id="message", content=[text], role="assistant", status="completed", type="message"
                )
            ]
        return output

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        """Not asked for."""
        raise NotImplementedError


agent = Agent(
    name=scenario.AGENT,
    instructions=scenario.INSTRUCTIONS,
    model=ScriptedModel(),
    tools=[function_tool(tool) for tool in scenario.TOOLS],
)
asyncio.run(Runner.run(agent, scenario.PROMPT, max_turns=20))
rig.finish()
