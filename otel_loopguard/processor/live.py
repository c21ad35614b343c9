"""The runs that are going on in this process: follows each call by call as tool spans end.

Invariants: the same rules as `assembly` has for whole traces, with what is known at the end of a span: what stands
above it, and what ended before it. Bounded: runs, traces, turns and agents that were not used lately are forgotten, and
counted. One lock, never held while anything but our own pure code runs.
"""

from __future__ import annotations

import secrets
import threading
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from typing import Final, TypeAlias

import msgspec

from otel_loopguard.assembly.layers import SameCall, one_call, starts_after
from otel_loopguard.assembly.turns import DEFAULT_AGENT
from otel_loopguard.detectors.recent import Recent
from otel_loopguard.dialects.reading import Reading
from otel_loopguard.model import CallFacts, Finding, Layer, Role, SpanFacts, ToolCall
from otel_loopguard.observation import Observation
from otel_loopguard.policy import Policy, Scope
from otel_loopguard.processor.nodes import Node, short
from otel_loopguard.tracker import Tracker

MAX_RUNS: Final = 2_048
"""Runs followed at a time, the half used last for certain."""
MAX_TRACES: Final = 16_384
"""Traces whose calls are numbered, the half used last for certain."""
MAX_AGENTS: Final = 256
MAX_TURNS: Final = 256
MAX_CHATS: Final = 16
"""Model responses of one agent that a call may belong to: it is asked for by one of the last."""
MAX_WAITING: Final = 256
"""Spans that end in the midst of a step and wait until it is whole."""
IDLE_NS: Final = 30 * 60 * 1_000_000_000
"""A run that made no call for so long is over; what comes under its name is another one."""

_AGENT: Final = Role.AGENT
_CHAT: Final = Role.CHAT
_CONTAINERS: Final = (Role.AGENT, Role.WORKFLOW)
_SCOPE_CONVERSATION: Final = Scope.CONVERSATION
_SCOPE_RUN: Final = Scope.RUN
_TOOL: Final = Role.TOOL
_TURN: Final = Role.TURN
RunKey: TypeAlias = tuple[str | int, ...]
TurnKey: TypeAlias = tuple[str | int, ...]


class Above(msgspec.Struct, frozen=True, gc=False):
    """What stands above a span, as `assembly.tree.Above` has it for whole traces."""

    agent: Node | None
    holder: Node | None
    outermost: Node | None
    turn: Node | None
    tool: Node | None
    run_id: str | None
    conversation: str | None
    """Raw, as a dialect reads it; it stays in this process."""


def above(node: Node, reading: Reading, scope: str) -> Above:
    """Looks up from a span: nearest agent, turn and tool span, outermost agent or workflow, names of the run.

    Args:
        node: of the span.
        reading: what it says itself.
        scope: its instrumentation scope: where no agent is known above it, the outermost span of that scope is what
            began the run (frameworks say only at its end what a span is).
    """
    agent = holder = outermost = turn = tool = first = None
    run_id, conversation = None, short(reading.conversation)
    below, asked = True, False
    for one in node.above():
        held = one.held()
        if held is None:
            continue
        role = held.role
        if role in _CONTAINERS:
            below = False
            outermost = one
            if agent is not None:
                holder = holder or one
            elif role is _AGENT:
                agent = one
        elif below:
            if role is _TURN:
                turn = turn or one
            elif role is _TOOL and not asked:
                tool = tool or one
            asked = asked or role is _CHAT
        elif role is _TOOL and agent is not None:
            holder = holder or one
        if held.scope == scope:
            first = one
        run_id = run_id or held.run_id
        conversation = conversation or held.conversation
    return Above(agent, holder, outermost or first, turn, tool, run_id, conversation)


class Numbers:
    """Numbers the calls of one trace."""

    __slots__ = ("calls", "producer")

    def __init__(self, producer: str) -> None:
        self.producer = producer
        self.calls = 0


class Seen(msgspec.Struct, frozen=True, gc=False):
    """What one tool call turned out to be in its run."""

    observation: Observation
    agent: str
    call: int
    """Its number in the run, from 1."""
    findings: tuple[Finding, ...] = ()
    """Those that became true with it."""
    waited: tuple[tuple[Finding, SpanFacts], ...] = ()
    """Those that became true with calls that had to wait for this one, and whose they are."""


class _Chat:
    __slots__ = ("end_ns", "key", "latest", "left", "requested")

    def __init__(self, facts: SpanFacts, key: int) -> None:
        chat = facts.chat
        self.key, self.end_ns, self.latest = key, facts.end_ns or 0, 0
        self.requested = () if chat is None else chat.requested or ()
        asked = None if chat is None else chat.requested_calls
        self.left = len(chat.requested) if chat is not None and chat.requested is not None else asked


class _Turns:
    """Tells of one agent's calls which were asked for together."""

    __slots__ = ("_chats", "_extra", "_latest", "_overlap")

    def __init__(self) -> None:
        self._chats: deque[_Chat] = deque(maxlen=MAX_CHATS)
        self._latest = -1
        self._overlap = self._extra = 0

    def answered(self, facts: SpanFacts, key: int) -> None:
        """A model response ended."""
        self._chats.append(_Chat(facts, key))

    def key(self, facts: SpanFacts, call: CallFacts, turn: Node | None) -> TurnKey:
        """Returns the turn of a call; first that applies as in `assembly.turns`."""
        if facts.turn is not None:
            return ("id", facts.turn)
        if turn is not None:
            return ("span", turn.started)
        chat = self._asking(call.call_id, facts.start_ns) if self._chats else None
        end_ns = facts.end_ns or facts.start_ns
        if chat is None:
            if facts.start_ns >= self._latest:
                self._overlap += 1
            self._latest = max(self._latest, end_ns)
            return ("overlap", self._overlap)
        if chat.left is not None:
            if chat.left <= 0 and facts.start_ns >= chat.latest:
                self._extra += 1
                return ("extra", self._extra)
            chat.left -= 1
        chat.latest = max(chat.latest, end_ns)
        return ("chat", chat.key)

    def _asking(self, call_id: str | None, start_ns: int) -> _Chat | None:
        latest = None
        for chat in reversed(self._chats):
            if call_id is not None and call_id in chat.requested:
                return chat
            if latest is None and chat.end_ns <= start_ns:
                latest = chat
        return latest


class _Run:
    """One run as far as it has come."""

    def __init__(self, policy: Policy, named: Callable[[str], str]) -> None:
        self._policy, self._named = policy, named
        self._tracker: Tracker | None = None
        """None until it makes a call: most traces that hold a model's response never do."""
        self.calls = 0
        self.last_ns = 0
        self._turns: Recent[TurnKey, int] = Recent(MAX_TURNS)
        self._turn = 0
        self._by_agent: Recent[str, _Turns] = Recent(MAX_AGENTS)
        self._names: Recent[int, str] = Recent(MAX_AGENTS)
        """Names of agents by the number of their span's start."""
        self._places: Recent[tuple[str, str | None, int], list[tuple[Node, str]]] = Recent(MAX_AGENTS)
        self._used: dict[str, int] = {}
        self._outermost: Node | None = None
        self._user_turn = 1

    def agent_of(self, facts: SpanFacts, up: Above) -> str:
        """Names the calling agent, apart from others of its name that are at work beside it."""
        node = up.agent
        if node is None:
            return facts.agent or DEFAULT_AGENT
        known = self._names.latest.get(node.started) or self._names.promote(node.started)
        if known is not None:
            return known
        held = node.held()
        name = DEFAULT_AGENT if held is None or not held.agent else self._named(held.agent)
        place = (name, up.conversation, 0 if up.holder is None else up.holder.started)
        mates = self._places.peek(place)
        if mates is None:
            mates = []
            self._places.add(place, mates)
        for at, (mate, given) in enumerate(mates):
            if mate.span is None:  # it is over: this one carries on
                mates[at] = (node, given)
                self._names.add(node.started, given)
                return given
        self._used[name] = number = self._used.get(name, 0) + 1
        if len(self._used) > MAX_AGENTS:
            self._used.clear()
        given = name if number == 1 else f"{name}#{number}"
        mates.append((node, given))
        del mates[:-MAX_AGENTS]
        self._names.add(node.started, given)
        return given

    def turns_of(self, agent: str) -> _Turns:
        turns = self._by_agent.latest.get(agent) or self._by_agent.promote(agent)
        if turns is None:
            turns = _Turns()
            self._by_agent.add(agent, turns)
        return turns

    def observe(self, facts: SpanFacts, call: CallFacts, up: Above, *, named: bool) -> Seen:
        """Takes in the next call."""
        if named and up.outermost is not self._outermost:
            # A name of its own joins what users asked for one after the other.
            if self._outermost is not None and self._outermost.span is None:
                self._user_turn += 1
            self._outermost = up.outermost
        agent = None if up.agent is None else self._names.latest.get(up.agent.started)
        if agent is None:
            agent = self.agent_of(facts, up)
        turns = self._by_agent.latest.get(agent) or self.turns_of(agent)
        key = (agent, *turns.key(facts, call, up.turn))
        turn = self._turns.latest.get(key) or self._turns.promote(key)
        if turn is None:
            self._turn = turn = self._turn + 1
            self._turns.add(key, turn)
        self.calls += 1
        self.last_ns = facts.end_ns or facts.start_ns
        one = ToolCall(
            number=self.calls,
            turn=turn,
            agent=agent,
            user_turn=self._user_turn,
            facts=call,
            start_ns=facts.start_ns,
            end_ns=facts.end_ns,
        )
        if self._tracker is None:
            self._tracker = Tracker(self._policy)
        seen = self._tracker.observe(one)
        if not seen.kinds:
            return Seen(seen, agent, self.calls)
        found = [
            found for found in self._tracker.findings() if found.at_call == self.calls and found.kind in seen.kinds
        ]
        return Seen(seen, agent, self.calls, tuple(found))


class LiveRuns:
    """All runs of one process.

    Thread safety: any thread; and a child after a fork that calls `renew`.
    """

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Begins anew under another producer's name: after a fork, the parent's runs are the parent's."""
        # Re-entered where the garbage collector, or a signal's handler, ends a span in the midst of a step of ours.
        self._lock = threading.RLock()
        self._producer = secrets.token_hex(6)
        self._generations = count(1)
        self._traces: Recent[int, Numbers] = Recent(MAX_TRACES)
        self._runs: Recent[RunKey, _Run] = Recent(MAX_RUNS)
        self._idle = 0
        self._steps = False
        self._waiting: deque[Callable[[], tuple[tuple[Finding, SpanFacts], ...]]] = deque(maxlen=MAX_WAITING)

    @property
    def evicted(self) -> int:
        """Runs that were forgotten for want of room, or because they made no call for long."""
        return self._runs.evicted + self._idle

    def observe(
        self, node: Node, facts: SpanFacts, up: Above, policy: Policy, named: Callable[[str], str]
    ) -> Seen | None:
        """Takes in a tool call that ended; it is not the inner side of one that is still open (`is_layer`).

        What ends in the midst of another step of this thread waits until that is whole, and is told with it.

        Args:
            node: of its span.
            facts: of its span, with `call`.
            up: what stands above it.
            policy: for a run that begins with it.
            named: gives agents' names as they may be shown, for a run that begins with it.
        """
        call = facts.call
        if call is None:
            return None
        with self._lock:
            if self._steps:
                self._waiting.append(lambda: self._late(node, facts, up, policy, named))
                return None
            self._steps = True
            try:
                seen = self._observe(node, facts, call, up, policy, named)
                if not self._waiting:
                    return seen
                late: list[tuple[Finding, SpanFacts]] = []
                while self._waiting:
                    late += self._waiting.popleft()()
                return msgspec.structs.replace(seen, waited=tuple(late))
            finally:
                self._steps = False

    def answer(self, node: Node, facts: SpanFacts, up: Above, policy: Policy, named: Callable[[str], str]) -> None:
        """Takes in a model response that ended; arguments as for `observe`."""
        key = _run_key(node, facts, up, policy.scope)

        def take() -> tuple[()]:
            run = self._run(key, facts.start_ns, policy, named)
            run.turns_of(run.agent_of(facts, up)).answered(facts, node.started)
            return ()

        self._step(take)

    def end(self, node: Node) -> None:
        """The span from which a run was named ended, and the run with it."""

        def take() -> tuple[()]:
            self._runs.drop(("agent", node.started))
            return ()

        self._step(take)

    def _step(self, take: Callable[[], tuple[()]]) -> None:
        """Does one thing whole, or leaves it to the step that it would break into."""
        with self._lock:
            if self._steps:
                self._waiting.append(take)
                return
            self._steps = True
            try:
                take()
            finally:
                self._steps = False

    def _observe(
        self, node: Node, facts: SpanFacts, call: CallFacts, up: Above, policy: Policy, named: Callable[[str], str]
    ) -> Seen:
        key = _run_key(node, facts, up, policy.scope)
        run = self._runs.latest.get(key)
        if run is None or facts.start_ns - run.last_ns > IDLE_NS:
            run = self._run(key, facts.start_ns, policy, named)
        return run.observe(facts, call, up, named=key[0] == "run" and policy.scope is _SCOPE_RUN)

    def _late(
        self, node: Node, facts: SpanFacts, up: Above, policy: Policy, named: Callable[[str], str]
    ) -> tuple[tuple[Finding, SpanFacts], ...]:
        call = facts.call
        if call is None:
            return ()
        return tuple([(found, facts) for found in self._observe(node, facts, call, up, policy, named).findings])

    def number(self, trace_id: int) -> tuple[str, int]:
        """Gives the next number of a trace; returns the producer and the number, from 1."""
        with self._lock:
            numbers = self._traces.latest.get(trace_id) or self._traces.promote(trace_id)
            if numbers is None:
                # A trace that comes back after it was forgotten is numbered anew, so under another name.
                numbers = Numbers(f"{self._producer}.{next(self._generations)}")
                self._traces.add(trace_id, numbers)
            numbers.calls += 1
            return numbers.producer, numbers.calls

    def numbers(self, trace_id: int) -> tuple[str, int] | None:
        """Returns the producer and how many calls it has numbered of a trace; None for none."""
        numbers = self._traces.peek(trace_id)
        return None if numbers is None else (numbers.producer, numbers.calls)

    def _run(self, key: RunKey, start_ns: int, policy: Policy, named: Callable[[str], str]) -> _Run:
        run = self._runs.latest.get(key) or self._runs.promote(key)
        if run is not None and start_ns - run.last_ns > IDLE_NS and run.last_ns:
            self._idle += 1
            self._runs.drop(key)
            run = None
        if run is None:
            run = _Run(policy, named)
            self._runs.add(key, run)
        return run


def is_layer(facts: SpanFacts, tool: Node | None) -> bool:
    """Tells whether a tool span lies within another one of the same call, which is counted when that ends."""
    if tool is None or facts.call is None or starts_after(facts, tool.ended_ns):
        return False
    held = tool.held()
    outer = None if held is None else held.tool
    return facts.layer is not Layer.HOST or outer is None or _last_name(outer) == _last_name(facts.call.tool)


def with_layers(facts: SpanFacts, layers: Sequence[SpanFacts]) -> SpanFacts:
    """Returns the facts of a call's outermost span, gaps filled from the spans of the same call within it."""
    if not layers or facts.call is None:
        return facts
    return msgspec.structs.replace(facts, call=one_call(SameCall(facts, (facts, *layers))))


def _last_name(name: str) -> str:
    for separator in ("__", ".", "/", ":"):
        name = name.rpartition(separator)[2] or name
    return name


def _run_key(node: Node, facts: SpanFacts, up: Above, scope: Scope) -> RunKey:
    run_id = facts.run_id or up.run_id
    if run_id is not None:
        return ("run", run_id)
    if scope is _SCOPE_CONVERSATION and up.conversation is not None:
        return ("conversation", up.conversation)
    if up.outermost is not None:
        return ("agent", up.outermost.started)
    return ("trace", node.trace_id)
