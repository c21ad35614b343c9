"""DSPy's ReAct with a scripted model; it asks for one tool at a time."""

from __future__ import annotations

import rig
import scenario

rig.begin()

import dspy  # noqa: E402
from dspy.utils import DummyLM  # noqa: E402

steps = [
    {"next_thought": "go on", "next_tool_name": call.tool, "next_tool_args": call.text}
    for turn in scenario.TURNS
    for call in turn
]
steps.append({"next_thought": "done", "next_tool_name": "finish", "next_tool_args": "{}"})
dspy.configure(lm=DummyLM([*steps, {"reasoning": "done", "answer": scenario.ANSWER}]))
signature = dspy.Signature("question -> answer", scenario.INSTRUCTIONS)
dspy.ReAct(signature, tools=list(scenario.TOOLS), max_iters=20)(question=scenario.PROMPT)
rig.finish()
