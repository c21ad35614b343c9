"""Writes OTLP JSON lines of made-up agent runs, as large as wanted: `python tests/bench/generate.py --calls 100000`.

The same arguments give the same bytes. Runs are healthy but for one in ten, which repeats a call to its end. Their
spans are as small as spans can be, of one of three dialects (the GenAI conventions, OpenInference, OpenLLMetry), or,
with `--captured`, as large as instrumentations write them with content on: what LangChain's GenAI instrumentation
wrote (tests/fixtures/spans, langchain…genai…content), with the last few messages on each chat span.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

_START_NS: Final = 1_796_000_000_000_000_000
_SPANS_A_LINE: Final = 100
_TOOLS: Final = ("lookup_order", "search_cases", "read_file", "get_weather", "list_pages")
_STUCK_ONE_IN: Final = 10
SHAPES: Final = ("gen_ai", "openinference", "openllmetry")
_MESSAGES_KEPT: Final = 6
"""Messages of the conversation that a captured chat span shows, besides the system's and the user's: a whole
conversation would make spans of long runs as large as one likes."""
_ABOUT_TOOLS: Final = {
    "lookup_order": "Look up an order by its id.",
    "search_cases": "Search closed cases for words.",
    "read_file": "Read a file of the workspace.",
    "get_weather": "Tell the weather of a place.",
    "list_pages": "List the pages of a wiki.",
}
_PARAMETERS: Final = {
    "properties": {
        "id": {"type": "string"},
        "include_items": {"default": False, "type": "boolean"},
        "limit": {"default": 20, "type": "integer"},
    },
    "required": ["id"],
    "type": "object",
}


def _attribute(key: str, value: str | int) -> dict[str, Any]:
    return {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}


def _tool_attributes(shape: str, tool: str, call_id: str, arguments: str, result: str) -> list[dict[str, Any]]:
    if shape == "openinference":
        pairs = {
            "openinference.span.kind": "TOOL",
            "tool.name": tool,
            "tool_call.id": call_id,
            "input.value": arguments,
            "input.mime_type": "application/json",
            "output.value": result,
        }
    elif shape == "openllmetry":
        pairs = {
            "traceloop.span.kind": "tool",
            "traceloop.entity.name": tool,
            "traceloop.entity.input": json.dumps({"tool_input": json.loads(arguments)}),
            "traceloop.entity.output": result,
        }
    else:
        pairs = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": call_id,
            "gen_ai.tool.call.arguments": arguments,
            "gen_ai.tool.call.result": result,
        }
    return [_attribute(key, value) for key, value in pairs.items()]


def _chat_attributes(call: int) -> list[dict[str, Any]]:
    pairs: dict[str, str | int] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "made-up",
        "gen_ai.usage.input_tokens": 900 + call % 100,
        "gen_ai.usage.output_tokens": 40,
    }
    return [_attribute(key, value) for key, value in pairs.items()]


class _Conversation:
    """What a captured run's chat spans show: the messages so far, of which only the last few are kept."""

    def __init__(self, conversation_id: str) -> None:
        self._id = conversation_id
        texts = (("system", "Use the tools, then answer in one sentence."), ("user", "What is left of my orders?"))
        self._first = [{"role": role, "parts": [{"content": text, "type": "text"}]} for role, text in texts]
        self._last: list[dict[str, Any]] = []
        self._tools = json.dumps(
            [
                {"name": name, "description": about, "parameters": _PARAMETERS, "type": "function"}
                for name, about in list(_ABOUT_TOOLS.items())[:3]
            ]
        )

    def chat(self, tool: str, call_id: str, arguments: str) -> list[dict[str, Any]]:
        """The attributes of the chat span that asks for a call."""
        part = {"arguments": json.loads(arguments), "name": tool, "id": call_id, "type": "tool_call"}
        asked = {"role": "assistant", "parts": [part], "finish_reason": "tool_calls"}
        pairs = {
            "gen_ai.conversation.id": self._id,
            "gen_ai.response.model": "made-up",
            "gen_ai.response.id": f"chatcmpl-{call_id}",
            "gen_ai.input.messages": json.dumps([*self._first, *self._last]),
            "gen_ai.output.messages": json.dumps([asked]),
            "gen_ai.tool.definitions": self._tools,
        }
        self._last.append(asked)
        reasons = {"arrayValue": {"values": [{"stringValue": "tool_calls"}]}}
        return [
            *(_attribute(key, value) for key, value in pairs.items()),
            {"key": "gen_ai.response.finish_reasons", "value": reasons},
        ]

    def answer(self, call_id: str, result: str) -> None:
        """Takes in a call's result."""
        part = {"response": result, "id": call_id, "type": "tool_call_response"}
        self._last = [*self._last, {"role": "tool", "parts": [part]}][-_MESSAGES_KEPT:]


def _run(
    random_: random.Random, *, length: int, chats: bool, captured: bool, start_ns: int
) -> Iterator[dict[str, Any]]:
    """The spans of one run in the order in which they end: chat and tool spans, then the agent span."""
    shape = "gen_ai" if captured else random_.choice(SHAPES)
    trace_id, root = f"{random_.getrandbits(128) | 1:032x}", f"{random_.getrandbits(64) | 1:016x}"
    conversation = _Conversation(f"conv-{trace_id[:8]}") if captured else None
    stuck_from = random_.randrange(length) if random_.randrange(_STUCK_ONE_IN) == 0 else length
    now = start_ns

    def span(name: str, attributes: list[dict[str, Any]], took_ns: int, **more: Any) -> dict[str, Any]:
        nonlocal now
        begun, now = now, now + took_ns
        fields: dict[str, Any] = {
            "traceId": trace_id,
            "spanId": f"{random_.getrandbits(64) | 1:016x}",
            "parentSpanId": root,
            "name": name,
        }
        fields |= {"kind": 1, "startTimeUnixNano": str(begun), "endTimeUnixNano": str(now), **more}
        return {**fields, "attributes": attributes, "status": {}, "flags": 256}

    for call in range(length):
        tool = _TOOLS[min(call, stuck_from) % len(_TOOLS)]
        wanted = {"id": f"A{min(call, stuck_from)}", "include_items": True, "limit": 20}
        found = {"id": wanted["id"], "state": "shipped", "items": [{"sku": "X-1", "qty": 2}, {"sku": "Y-9", "qty": 1}]}
        call_id, arguments, result = f"call_{call:04d}", json.dumps(wanted), json.dumps(found)
        chat = _chat_attributes(call)
        attributes = _tool_attributes(shape, tool, call_id, arguments, result)
        if conversation is not None:
            chat += conversation.chat(tool, call_id, arguments)
            conversation.answer(call_id, result)
            about = {"gen_ai.tool.description": _ABOUT_TOOLS[tool], "gen_ai.agent.name": "helper"}
            attributes += [_attribute(key, value) for key, value in about.items()]
        if chats or captured:
            yield span("chat made-up", chat, 400_000_000, kind=3)
        yield span(f"execute_tool {tool}", attributes, 50_000_000)
    agent = [_attribute("gen_ai.operation.name", "invoke_agent"), _attribute("gen_ai.agent.name", "helper")]
    times = {"startTimeUnixNano": str(start_ns), "endTimeUnixNano": str(now + 1)}
    yield {**span("invoke_agent helper", agent, 0), "spanId": root, "parentSpanId": "", **times}


def generate(*, calls: int, run_length: int, chats: bool, captured: bool, seed: int) -> Iterator[str]:
    """Lines of OTLP JSON with `calls` tool calls in runs of `run_length`.

    `chats`: with a small chat span before each; `captured`: with a chat span that carries the conversation.
    """
    random_ = random.Random(seed)
    resource = {"attributes": [_attribute("service.name", "bench"), _attribute("service.instance.id", "1")]}
    batch: list[dict[str, Any]] = []

    def line() -> str:
        scoped = [{"scope": {"name": "bench"}, "spans": batch}]
        return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": scoped}]}, separators=(",", ":"))

    for number, first in enumerate(range(0, calls, run_length)):
        length = min(run_length, calls - first)
        for span in _run(random_, length=length, chats=chats, captured=captured, start_ns=_START_NS + number * 10**9):
            batch.append(span)
            if len(batch) == _SPANS_A_LINE:
                yield line()
                batch.clear()
    if batch:
        yield line()


def main(argv: Sequence[str] | None = None) -> int:
    """Write to standard output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--run-length", type=int, default=20)
    parser.add_argument("--no-chats", action="store_true")
    parser.add_argument("--captured", action="store_true", help="spans as large as instrumentations write them")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    lines = generate(
        calls=options.calls,
        run_length=options.run_length,
        chats=not options.no_chats,
        captured=options.captured,
        seed=options.seed,
    )
    sys.stdout.writelines(line + "\n" for line in lines)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
