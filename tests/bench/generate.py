"""Writes OTLP JSON lines of made-up agent runs, as large as wanted: `python tests/bench/generate.py --calls 100000`.

The same arguments give the same bytes. Runs are healthy but for one in ten, which repeats a call to its end. Their
spans have the shape of one of three dialects: the GenAI conventions, OpenInference, and OpenLLMetry.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final, TextIO

_START_NS: Final = 1_796_000_000_000_000_000
_SPANS_A_LINE: Final = 100
_TOOLS: Final = ("lookup_order", "search_cases", "read_file", "get_weather", "list_pages")
_STUCK_ONE_IN: Final = 10
SHAPES: Final = ("gen_ai", "openinference", "openllmetry")


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


def _run(random_: random.Random, *, length: int, chats: bool, start_ns: int) -> Iterator[dict[str, Any]]:
    """The spans of one run in the order in which they end: chat and tool spans, then the agent span."""
    shape = random_.choice(SHAPES)
    trace_id, root = f"{random_.getrandbits(128) | 1:032x}", f"{random_.getrandbits(64) | 1:016x}"
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
        if chats:
            yield span("chat made-up", _chat_attributes(call), 400_000_000, kind=3)
        tool = _TOOLS[min(call, stuck_from) % len(_TOOLS)]
        wanted = {"id": f"A{min(call, stuck_from)}", "include_items": True, "limit": 20}
        found = {"id": wanted["id"], "state": "shipped", "items": [{"sku": "X-1", "qty": 2}, {"sku": "Y-9", "qty": 1}]}
        attributes = _tool_attributes(shape, tool, f"call_{call:04d}", json.dumps(wanted), json.dumps(found))
        yield span(f"execute_tool {tool}", attributes, 50_000_000)
    agent = [_attribute("gen_ai.operation.name", "invoke_agent"), _attribute("gen_ai.agent.name", "helper")]
    times = {"startTimeUnixNano": str(start_ns), "endTimeUnixNano": str(now + 1)}
    yield {**span("invoke_agent helper", agent, 0), "spanId": root, "parentSpanId": "", **times}


def generate(*, calls: int, run_length: int, chats: bool, seed: int) -> Iterator[str]:
    """Lines of OTLP JSON with `calls` tool calls in runs of `run_length`; with a chat span before each or not."""
    random_ = random.Random(seed)
    resource = {"attributes": [_attribute("service.name", "bench"), _attribute("service.instance.id", "1")]}
    batch: list[dict[str, Any]] = []

    def line() -> str:
        scoped = [{"scope": {"name": "bench"}, "spans": batch}]
        return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": scoped}]}, separators=(",", ":"))

    for number, first in enumerate(range(0, calls, run_length)):
        length = min(run_length, calls - first)
        for span in _run(random_, length=length, chats=chats, start_ns=_START_NS + number * 1_000_000_000):
            batch.append(span)
            if len(batch) == _SPANS_A_LINE:
                yield line()
                batch.clear()
    if batch:
        yield line()


def write(output: TextIO, *, calls: int, run_length: int = 20, chats: bool = True, seed: int = 1) -> None:
    """Write the lines of `generate`."""
    output.writelines(text + "\n" for text in generate(calls=calls, run_length=run_length, chats=chats, seed=seed))


def main(argv: Sequence[str] | None = None) -> int:
    """Write to standard output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--run-length", type=int, default=20)
    parser.add_argument("--no-chats", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    write(
        sys.stdout,
        calls=options.calls,
        run_length=options.run_length,
        chats=not options.no_chats,
        seed=options.seed,
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
