"""LlamaIndex's function agent with a scripted model."""

from __future__ import annotations

import asyncio
from typing import Any

import rig
import scenario

rig.begin()

from llama_index.core.agent.workflow import FunctionAgent  # noqa: E402
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, LLMMetadata  # noqa: E402
from llama_index.core.llms.function_calling import FunctionCallingLLM  # noqa: E402
from llama_index.core.llms.llm import ToolSelection  # noqa: E402
from llama_index.core.tools import FunctionTool  # noqa: E402

SCRIPT = scenario.Script()


class ScriptedModel(FunctionCallingLLM):
    """Asks for what the script says."""

    @property
    def metadata(self) -> LLMMetadata:
        """It can ask for tools."""
        return LLMMetadata(is_function_calling_model=True, is_chat_model=True, model_name="scripted")

    def _prepare_chat_with_tools(self, *_: Any, **__: Any) -> dict[str, Any]:
        return {"messages": []}

    async def achat(self, *_: Any, **__: Any) -> ChatResponse:
        """The next turn."""
        calls = [
            ToolSelection(tool_id=call.id, tool_name=call.tool, tool_kwargs=call.arguments) for call in SCRIPT.next()
        ]
        message = ChatMessage(
            role="assistant", content="" if calls else scenario.ANSWER, additional_kwargs={"tool_calls": calls}
        )
        return ChatResponse(message=message)

    async def astream_chat(self, *_: Any, **__: Any) -> Any:
        """The next turn in one piece."""
        answer = await self.achat()

        async def pieces() -> Any:
            yield answer

        return pieces()

    def get_tool_calls_from_response(self, response: ChatResponse, **_: Any) -> list[ToolSelection]:
        """The calls as they are."""
        calls: list[ToolSelection] = response.message.additional_kwargs["tool_calls"]
        return calls

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    chat = complete = stream_chat = stream_complete = acomplete = astream_complete = _refuse


async def main() -> None:
    """One run."""
    agent = FunctionAgent(
        name=scenario.AGENT,
        llm=ScriptedModel(),
        system_prompt=scenario.INSTRUCTIONS,
        tools=[FunctionTool.from_defaults(function) for function in scenario.TOOLS],
    )
    await agent.run(scenario.PROMPT, max_iterations=30)


asyncio.run(main())
rig.finish()
