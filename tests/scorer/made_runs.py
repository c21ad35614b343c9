"""Strategies for spans that join, nest, repeat and contradict each other, and for ways in which they come."""

from __future__ import annotations

import random
from typing import Any, Final

import msgspec
from hypothesis import strategies as st

from otel_loopguard.model import Finish, Outcome, SpanFacts
from tests.assembly.build import agent, chat, span, tool

TRACES: Final = tuple(f"{number:032x}" for number in range(1, 6))
_NAMES: Final = "abcdef"
MOST_COPIES: Final = 29


@st.composite
def made_span(draw: st.DrawFn) -> SpanFacts:
    """One span of a small world: few traces, few names, so that spans meet."""
    name = draw(st.sampled_from(_NAMES))
    start = draw(st.integers(0, 12))
    fields: dict[str, Any] = {
        "trace_id": draw(st.sampled_from(TRACES)),
        "parent": draw(st.sampled_from([None, None, *_NAMES])),
        "run_id": draw(st.sampled_from([None] * 8 + ["r1", "r2"])),
        "conversation": draw(st.sampled_from([None] * 8 + ["c" * 32, "d" * 32])),
        "links": draw(
            st.sampled_from([()] * 8 + [((trace_id, name.encode().hex().ljust(16, "0")),) for trace_id in TRACES])
        ),
        "service": draw(st.sampled_from(["shop", "desk"])),
        "sampled": draw(st.booleans()),
    }
    end = start + draw(st.integers(0, 9))
    kind = draw(st.sampled_from(["tool", "tool", "tool", "agent", "chat", "other"]))
    if kind == "agent":
        return agent(name, start, end, **fields)
    if kind == "chat":
        return chat(name, start, end, requested_calls=1, finish=Finish.TOOL_CALLS, **fields)
    if kind == "other":
        return span(name, start, end, **(fields | {"run_id": None, "conversation": None, "links": ()}))
    return tool(
        name,
        start,
        draw(st.sampled_from([end, end, None])),
        args=draw(st.sampled_from(["a", "b"])),
        result=draw(st.sampled_from(["r", "s", None])),
        outcome=draw(st.sampled_from([Outcome.OK, Outcome.ERROR])),
        **fields,
    )


made_spans = st.lists(made_span(), min_size=1, max_size=24)


class Delivery(msgspec.Struct, frozen=True):
    """One way in which spans come: every one at least once, shuffled, in requests with steps between them."""

    seed: int
    most_copies: int
    request: int
    """Spans of a request at most."""

    def requests(self, count: int) -> list[list[int]]:
        """The places of spans that each request holds."""
        chance = random.Random(self.seed)
        places = [place for place in range(count) for _ in range(chance.randint(1, self.most_copies))]
        chance.shuffle(places)
        requests = []
        while places:
            size = chance.randint(1, self.request)
            requests.append(places[:size])
            places = places[size:]
        return requests


deliveries = st.builds(
    Delivery, st.integers(0, 2**32), st.sampled_from([1, 2, MOST_COPIES]), st.sampled_from([1, 3, 50, 10_000])
)
