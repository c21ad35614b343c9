"""Google's Agent Development Kit with a scripted model."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import rig
import scenario

rig.begin()

from google.adk.agents import LlmAgent  # noqa: E402
from google.adk.models import BaseLlm, LlmResponse  # noqa: E402
from google.adk.runners import InMemoryRunner  # noqa: E402
from google.genai import types  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

SCRIPT = scenario.Script()


class ScriptedModel(BaseLlm):
    """Asks for what the script says."""

    async def generate_content_async(self, *_: Any, **__: Any) -> AsyncGenerator[LlmResponse]:
        """The next turn."""
        parts = [
            types.Part(function_call=types.FunctionCall(id=call.id, name=call.tool, args=call.arguments))
            for call in SCRIPT.next()
        ]
        content = types.Content(role="model", parts=parts or [types.Part(text=scenario.ANSWER)])
        yield LlmResponse(content=content)


def tell_the_model(*, error: Exception, **_: Any) -> dict[str, str] | None:
    """Answer the model with the error, so that the run goes on."""
    return {"error": str(error)} if isinstance(error, scenario.CancelError) else None


async def main() -> None:
    """One run."""
    agent = LlmAgent(
        name="OrderAgent",
        model=ScriptedModel(model="scripted"),
        instruction=scenario.INSTRUCTIONS,
        tools=list(scenario.TOOLS),
        on_tool_error_callback=tell_the_model,
    )
    runner = InMemoryRunner(agent=agent, app_name="orders")
    session = await runner.session_service.create_session(app_name="orders", user_id="user")
    message = types.Content(role="user", parts=[types.Part(text=scenario.PROMPT)])
    async for _ in runner.run_async(user_id="user", session_id=session.id, new_message=message):
        pass


with rig.request():
    asyncio.run(main())
rig.finish()
