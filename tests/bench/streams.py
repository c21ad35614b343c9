"""The two streams that what receives spans is measured with, and what it is measured against.

`tool`: tool spans of 12 attributes as the span processor leaves them; `mixed`: of which nine in ten are others with a
prompt of 2 KB. Traces of ten spans, each in one request.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, TracesData

from otel_loopguard import attributes as attr

SPANS: Final = 512
"""Of one request."""
TRACE_SPANS: Final = 10
Make: TypeAlias = Callable[[random.Random, int], Mapping[str, str | int]]
_MARK: Final = b"bench\x00\xf1\xf2"
"""What all trace ids of a request begin with; in hex also its run ids and conversations."""
_WANTED: Final = frozenset(
    {attr.OPERATION, attr.TOOL_NAME, attr.TOOL_CALL_ID, attr.CALL_DIGEST, attr.RESULT_DIGEST, attr.RUN_ID}
)


def _pair(key: str, value: str | int) -> KeyValue:
    return KeyValue(
        key=key, value=AnyValue(int_value=value) if isinstance(value, int) else AnyValue(string_value=value)
    )


def _tool(random_: random.Random, number: int) -> Mapping[str, str | int]:
    trace_id = _trace_id(number).hex()
    return {
        attr.OPERATION: "execute_tool",
        attr.TOOL_NAME: "lookup_order",
        attr.TOOL_CALL_ID: f"call_{random_.randbytes(12).hex()}",
        "gen_ai.tool.type": "function",
        "gen_ai.agent.name": "shop",
        "gen_ai.conversation.id": f"conversation-{trace_id}",
        attr.CALL_DIGEST: random_.randbytes(16).hex(),
        attr.RESULT_DIGEST: random_.randbytes(16).hex(),
        attr.RUN_ID: trace_id,
        attr.CALL_SEQUENCE: number % TRACE_SPANS + 1,
        attr.OUTCOME: "ok",
        attr.SCHEMA: 1,
    }


def _chat(random_: random.Random, number: int) -> Mapping[str, str | int]:
    return {
        "http.request.method": "POST",
        "server.address": "localhost",
        "app.request": f"{number}",
        "app.prompt": " ".join(random_.choices(("the", "order", "was", "shipped", "late"), k=400)),
        "http.response.status_code": 200,
    }


STREAMS: Final[Mapping[str, Make]] = {
    "tool": _tool,
    "mixed": lambda random_, number: (_tool if number % TRACE_SPANS == 0 else _chat)(random_, number),
}


def _trace_id(number: int) -> bytes:
    return _MARK + (number // TRACE_SPANS).to_bytes(8, "big")


def request(stream: str) -> TracesData:
    """One request of a stream."""
    random_ = random.Random(1)
    make = STREAMS[stream]
    made = [make(random_, number) for number in range(SPANS)]
    spans = [
        Span(
            trace_id=_trace_id(number),
            span_id=random_.randbytes(8),
            parent_span_id=random_.randbytes(8),
            name="execute_tool lookup_order" if attr.TOOL_NAME in attributes else "POST",
            kind=Span.SPAN_KIND_INTERNAL,
            start_time_unix_nano=2**60 + number,
            end_time_unix_nano=2**60 + number + 1000,
            attributes=[_pair(key, value) for key, value in attributes.items()],
        )
        for number, attributes in enumerate(made)
    ]
    resource = ResourceSpans(scope_spans=[ScopeSpans(spans=spans)])
    resource.resource.attributes.append(_pair("service.name", "shop"))
    return TracesData(resource_spans=[resource])


def renamed(body: bytes, number: int) -> bytes:
    """The same request with other traces, runs and conversations: those of this number alone, which is 1 at least."""
    other = number.to_bytes(len(_MARK), "big")
    return body.replace(_MARK, other).replace(_MARK.hex().encode(), other.hex().encode())


def parse(data: bytes, *, every: bool = False) -> None:
    """Parses with the generated types, and reads ids, names, times, and the attributes that are wanted, or all."""
    for group in TracesData.FromString(data).resource_spans:
        for scoped in group.scope_spans:
            for span in scoped.spans:
                _ = span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex(), span.name
                _ = span.start_time_unix_nano, span.end_time_unix_nano
                found = {}
                for pair in span.attributes:
                    key = pair.key
                    if every or key in _WANTED:
                        value = pair.value
                        found[key] = value.string_value or getattr(value, str(value.WhichOneof("value")))
