"""Pydantic AI with a scripted model."""

from __future__ import annotations

from typing import Any

import rig
import scenario

rig.begin()

from pydantic_ai import Agent  # noqa: E402
from pydantic_ai.exceptions import ModelRetry  # noqa: E402
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart  # noqa: E402
from pydantic_ai.models.function import AgentInfo, FunctionModel  # noqa: E402

SCRIPT = scenario.Script()


def answer(_messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
    """What the script says."""
    calls = SCRIPT.next()
    parts: list[Any] = [ToolCallPart(call.tool, call.text, tool_call_id=call.id) for call in calls]
    return ModelResponse(parts=parts or [TextPart(scenario.ANSWER)])


def cancel_order(order_id: str) -> str:
    """Cancel an order; only a retry lets a run of this framework go on after a tool's failure."""
    try:
        return scenario.cancel_order(order_id)
    except scenario.CancelError as error:
        raise ModelRetry(str(error)) from error


agent = Agent(
    FunctionModel(answer),
    name=scenario.AGENT,
    instructions=scenario.INSTRUCTIONS,
    tools=[scenario.lookup_order, scenario.get_export_status, scenario.slow_task, cancel_order],
)
with rig.request():
    agent.run_sync(scenario.PROMPT)
rig.finish()
