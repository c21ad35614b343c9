"""LangChain's agent (a LangGraph graph) with a scripted model."""

from __future__ import annotations

from typing import Any

import rig
import scenario

rig.begin()

from langchain.agents import create_agent  # noqa: E402
from langchain.agents.middleware import wrap_tool_call  # noqa: E402
from langchain_core.language_models import BaseChatModel  # noqa: E402
from langchain_core.messages import AIMessage, ToolCall, ToolMessage  # noqa: E402
from langchain_core.outputs import ChatGeneration, ChatResult  # noqa: E402
from langchain_core.tools import tool  # noqa: E402
from langchain_core.tracers.langchain import wait_for_all_tracers  # noqa: E402

SCRIPT = scenario.Script()


class ScriptedModel(BaseChatModel):
    """Asks for what the script says."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, *_: Any, **__: Any) -> ScriptedModel:
        """The script knows the tools."""
        return self

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        calls = [ToolCall(name=call.tool, args=call.arguments, id=call.id) for call in SCRIPT.next()]
        message = AIMessage(content="" if calls else scenario.ANSWER, tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])


@wrap_tool_call
def tell_the_model(request: Any, handler: Any) -> Any:
    """Answer the model with the error, so that the run goes on."""
    try:
        return handler(request)
    except scenario.CancelError as error:
        return ToolMessage(content=str(error), tool_call_id=request.tool_call["id"], status="error")


agent = create_agent(
    ScriptedModel(),
    tools=[tool(function, parse_docstring=True) for function in scenario.TOOLS],
    system_prompt=scenario.INSTRUCTIONS,
    middleware=[tell_the_model],
    name=scenario.AGENT,
)
with rig.request():
    agent.invoke({"messages": [{"role": "user", "content": scenario.PROMPT}]}, {"recursion_limit": 60})
wait_for_all_tracers()  # LangSmith makes its spans on a thread of its own
rig.finish()
