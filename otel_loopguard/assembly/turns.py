"""Which calls were asked for by one model response, and which agent asked.

Turn, first that applies (DESIGN 4): the span's own turn id; the nearest turn span above; the model response
that names the call id; the response that ended last before the call started; overlap in time.
Invariants: no result depends on the order in which spans came.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from typing import Final, TypeAlias

import msgspec

from otel_loopguard.assembly.layers import SameCall
from otel_loopguard.assembly.tree import Tree
from otel_loopguard.model import CallFacts, ChatFacts, SpanFacts, SpanKey

DEFAULT_AGENT: Final = "agent"
"""Agent of calls whose spans name none."""

TurnKey: TypeAlias = tuple[str, ...]


class Candidate(msgspec.Struct, kw_only=True, gc=False):
    """One call on its way into a run: its spans, its facts, and its place as far as it is known."""

    same: SameCall
    host: SpanFacts
    """The outermost span of `same`, whose times are the call's."""
    start_ns: int
    end_ns: int | None
    """None while the outermost span is open."""
    facts: CallFacts
    agent: str = DEFAULT_AGENT
    turn: TurnKey = ()
    chat: SpanKey | None = None
    """The model response that asked for it, where one is known."""


def name_agents(spans: Sequence[SpanFacts], tree: Tree) -> dict[SpanKey, str]:
    """Gives every agent span of one run the name its calls go under.

    Two spans of one name are one agent where both are held by the same span, are of the same conversation and follow
    each other (hand-overs); agents of one name that overlap, that different calls started, or that each had a
    conversation of its own (a batch over items), are kept apart as `name#2`, `name#3`…

    Args:
        spans: the run's agent spans, any order.
        tree: the spans above them.

    Returns:
        The name by span key.
    """
    names: dict[SpanKey, str] = {}
    held: dict[tuple[str, str | None, SpanKey | None], list[tuple[int, str]]] = {}
    used: dict[str, int] = {}
    for span in sorted(spans, key=_by_time):
        name = span.agent or DEFAULT_AGENT
        holder = tree.above(span)
        above = holder.tool or holder.agent or holder.outermost
        place = (name, span.conversation, None if above is None else (above.trace_id, above.span_id))
        ends = held.setdefault(place, [])
        if ends and ends[0][0] <= span.start_ns:
            _, given = heappop(ends)
        else:
            used[name] = used.get(name, 0) + 1
            given = name if used[name] == 1 else f"{name}#{used[name]}"
        heappush(ends, (_end(span), given))
        names[(span.trace_id, span.span_id)] = given
    return names


def give_turns(calls: Sequence[Candidate], chats: Sequence[tuple[str, SpanFacts]], tree: Tree) -> None:
    """Sets `turn` (and `chat` where known) on each call of one run.

    Args:
        calls: the run's calls with their agents, ordered by start.
        chats: (agent, model response) of the run, any order.
        tree: the spans above the calls.
    """
    responses: dict[str, _Responses] = {}
    for agent, chat in sorted(chats, key=lambda item: _by_time(item[1])):
        responses.setdefault(agent, _Responses()).add(chat)
    alone: dict[str, list[Candidate]] = {}
    for call in calls:
        host = call.host
        known = responses.get(call.agent)
        if known is not None:
            call.chat = known.asking(call.facts.call_id, call.start_ns)
        turn_span = tree.above(host).turn
        if host.turn is not None:
            call.turn = ("id", call.agent, host.turn)
        elif turn_span is not None:
            call.turn = ("span", turn_span.trace_id, turn_span.span_id)
        elif call.chat is not None:
            call.turn = ("chat", *call.chat)
        else:
            alone.setdefault(call.agent, []).append(call)
    for group in alone.values():
        _by_overlap(group)
    if responses:
        _split_oversubscribed(calls, responses)


class _Responses:
    """The model responses of one agent, ordered by end."""

    def __init__(self) -> None:
        self._ends: list[int] = []
        self._keys: list[SpanKey] = []
        self._by_call_id: dict[str, list[tuple[int, SpanKey]]] = {}
        self.facts: dict[SpanKey, ChatFacts] = {}
        self._sorted = True

    def add(self, chat: SpanFacts) -> None:
        if chat.chat is None:
            return
        key = (chat.trace_id, chat.span_id)
        self.facts[key] = chat.chat
        if chat.end_ns is not None:
            self._sorted = self._sorted and (not self._ends or self._ends[-1] <= chat.end_ns)
            self._ends.append(chat.end_ns)
            self._keys.append(key)
        for call_id in chat.chat.requested or ():
            self._by_call_id.setdefault(call_id, []).append((chat.start_ns, key))

    def asking(self, call_id: str | None, start_ns: int) -> SpanKey | None:
        if not self._sorted:
            order = sorted(zip(self._ends, self._keys, strict=True))
            self._ends, self._keys = [end for end, _ in order], [key for _, key in order]
            self._sorted = True
        if call_id is not None:
            named = [key for chat_start, key in self._by_call_id.get(call_id, ()) if chat_start <= start_ns]
            if named:
                return named[-1]
        place = bisect_right(self._ends, start_ns)
        return self._keys[place - 1] if place else None


def _by_overlap(calls: Sequence[Candidate]) -> None:
    """Calls that overlap in time were asked for together; `calls` are ordered by start."""
    turn, latest = 0, -1
    for call in calls:
        if call.start_ns >= latest:
            turn += 1
        latest = max(latest, _end(call.host))
        call.turn = ("overlap", call.agent, str(turn))


def _split_oversubscribed(calls: Sequence[Candidate], responses: Mapping[str, _Responses]) -> None:
    """A response that asked for n calls has n calls: more of them after each other show that a response is missing."""
    room: dict[SpanKey, int] = {}
    latest: dict[SpanKey, int] = {}
    extra = 0
    for call in calls:
        if call.chat is None or call.turn[0] != "chat":
            continue
        chat = responses[call.agent].facts[call.chat]
        asked = len(chat.requested) if chat.requested is not None else chat.requested_calls
        if asked is None:
            continue
        left = room.get(call.chat, asked)
        if left <= 0 and call.start_ns >= latest.get(call.chat, 0):
            extra += 1
            call.turn = ("extra", call.agent, str(extra))
            call.chat = None
            continue
        room[call.chat] = left - 1
        latest[call.chat] = max(latest.get(call.chat, 0), _end(call.host))


def _by_time(span: SpanFacts) -> tuple[int, int, str, str]:
    return (span.start_ns, _end(span), span.trace_id, span.span_id)


def _end(span: SpanFacts) -> int:
    return span.start_ns if span.end_ns is None else span.end_ns
