"""What lies above each span: its agent, its turn, the tool span it is nested in, and its run's outermost agent.

Invariants: one climb per span however deep the tree (memo); parents may be missing, or form a ring.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from otel_loopguard.model import Role, SpanFacts, SpanKey


class Above(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the ancestors of a span say; None where there is no such ancestor.

    `turn` and `tool` lie below `agent`: an agent inside a tool starts afresh. `complete` is False where the
    climb ended at a parent that was never seen.
    """

    agent: SpanFacts | None = None
    holder: SpanFacts | None = None
    """The nearest agent, workflow or tool span above `agent`, of whatever kind is nearest."""
    outermost: SpanFacts | None = None
    turn: SpanFacts | None = None
    tool: SpanFacts | None = None
    inside_tool: bool = False
    run_id: str | None = None
    conversation: str | None = None
    complete: bool = True


_NOTHING = Above()
_LOST = Above(complete=False)


class Tree:
    """The spans of a set of traces, and what lies above each.

    Args:
        spans: one version of each span, by key.

    Cost: linear in the number of spans.
    """

    def __init__(self, spans: Mapping[SpanKey, SpanFacts]) -> None:
        self._spans = spans
        self._inside: dict[SpanKey, Above] = {}

    def above(self, span: SpanFacts) -> Above:
        """Returns what lies above `span`."""
        if span.parent_id is None:
            return _NOTHING
        key = (span.trace_id, span.parent_id)
        inside = self._inside.get(key)
        return self._climb(key) if inside is None else inside

    def _climb(self, key: SpanKey) -> Above:
        path: list[SpanFacts] = []
        on_path: set[SpanKey] = set()
        inside: Above | None = None
        while inside is None:
            span = self._spans.get(key)
            if span is None or key in on_path:
                inside = _LOST
                break
            on_path.add(key)
            path.append(span)
            if span.parent_id is None:
                inside = _NOTHING
                break
            key = (span.trace_id, span.parent_id)
            inside = self._inside.get(key)
        for span in reversed(path):
            inside = _within(span, inside)
            self._inside[(span.trace_id, span.span_id)] = inside
        return inside


def _within(span: SpanFacts, above: Above) -> Above:
    """Returns what the children of `span` have above them."""
    role = span.role
    run_id = span.run_id or above.run_id
    conversation = span.conversation or above.conversation
    if role in (Role.AGENT, Role.WORKFLOW):
        return Above(
            agent=span if role is Role.AGENT else above.agent,
            holder=_holder(above) if role is Role.AGENT else above.holder,
            outermost=above.outermost or span,
            turn=None,
            tool=None,
            inside_tool=above.inside_tool or above.tool is not None,
            run_id=run_id,
            conversation=conversation,
            complete=above.complete,
        )
    turn = span if role is Role.TURN else above.turn
    tool = span if role is Role.TOOL and span.call is not None else None if role is Role.CHAT else above.tool
    if turn is above.turn and tool is above.tool and run_id is above.run_id and conversation is above.conversation:
        return above
    return msgspec.structs.replace(above, turn=turn, tool=tool, run_id=run_id, conversation=conversation)


def _holder(above: Above) -> SpanFacts | None:
    return above.tool or above.agent or above.outermost
