"""What is remembered of spans and runs of one process: which stands above which, and what is forgotten."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import Span, TracerProvider

from otel_loopguard import dialects
from otel_loopguard.detectors.recent import Recent
from otel_loopguard.observation import Observation
from otel_loopguard.processor import nodes as nodes_module
from otel_loopguard.processor.live import IDLE_NS, MAX_TRACES, LiveRuns, above
from otel_loopguard.processor.nodes import MAX_DEPTH, Node, Nodes
from otel_loopguard.processor.received import attributes_of, received
from otel_loopguard.tracker import Tracker
from tests.processor.applications import AGENT, ARGUMENTS, CHAT, RESULT, TOOL, Application, sequences

TRACER = TracerProvider(shutdown_on_exit=False).get_tracer("tests.live")
SMALL = 8


def started(
    nodes: Nodes, name: str = "GET", attributes: dict[str, Any] | None = None, parent: Span | None = None
) -> Span:
    """Starts a span that `nodes` takes note of."""
    context = Context() if parent is None else trace.set_span_in_context(parent, Context())
    span = TRACER.start_span(name, context, attributes=attributes)
    assert isinstance(span, Span)
    nodes.start(span)
    return span


def ancestors(node: Node) -> list[int]:
    """The numbers of the starts of all above a node, nearest first."""
    return [one.started for one in node.above()]


def test_ancestors_come_nearest_first() -> None:
    """By the order of starts, whether they are still open or not."""
    nodes = Nodes()
    root = started(nodes)
    middle = started(nodes, parent=root)
    low = started(nodes, parent=middle)
    root.end()
    assert nodes.of(root).started == 1
    nodes.of(root).end(None, None)
    assert [2, 1] == ancestors(nodes.of(low))


def test_a_span_that_is_done_still_joins_its_children_to_what_is_above() -> None:
    """Of most spans only the parent is kept; they are no gap in the line."""
    nodes = Nodes()
    agent = started(nodes, "invoke_agent x", AGENT)
    middle = started(nodes, parent=agent)
    low = started(nodes, "execute_tool x", TOOL, middle)
    middle.end()
    assert nodes.pass_over(middle)
    assert nodes.is_done(middle)
    up = list(nodes.of(low).above())
    assert [0, 1] == [node.started for node in up]
    assert [False, True] == [node.is_known() for node in up]


def test_a_span_of_which_something_was_asked_is_not_passed_over() -> None:
    """Its children rest on its node."""
    nodes = Nodes()
    root = started(nodes)
    low = started(nodes, parent=root)
    nodes.of(low)
    assert not nodes.pass_over(root)
    assert not nodes.is_done(root)


def test_what_is_above_an_unseen_parent_is_taken_for_a_tools() -> None:
    """A span below one that started before we came may be in a tool; one of its own trace is not."""
    nodes = Nodes()
    unseen = TRACER.start_span("execute_tool x", Context())
    assert isinstance(unseen, Span)
    low = started(nodes, parent=unseen)
    assert (True, True) == (nodes.of(low).inside, nodes.of(low).inside_tool)
    assert (True, True) == (nodes.of(unseen).inside, nodes.of(unseen).inside_tool)
    root = started(nodes)
    assert (False, False) == (nodes.of(root).inside, nodes.of(root).inside_tool)


def test_a_tool_marks_all_above_it_and_an_agent_only_as_an_agent() -> None:
    """Errors run up from tools; `drop_tool` asks for those alone."""
    nodes = Nodes()
    root = started(nodes)
    agent = started(nodes, "invoke_agent x", AGENT, root)
    tool = started(nodes, "execute_tool x", TOOL, agent)
    nodes.of(agent).mark(tool=False)
    assert [(True, False)] == [(node.inside, node.inside_tool) for node in nodes.of(agent).above()]
    nodes.of(tool).mark(tool=True)
    assert [(True, True)] * 2 == [(node.inside, node.inside_tool) for node in nodes.of(tool).above()]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for few spans."""
    monkeypatch.setattr(nodes_module, "MAX_NODES", SMALL)


@pytest.mark.usefixtures("few")
def test_spans_that_were_not_used_lately_are_forgotten_and_counted() -> None:
    """The half used last is there for certain; never more than all of it."""
    nodes = Nodes()
    spans = [started(nodes) for _ in range(30)]
    assert 30 - SMALL <= nodes.forgotten < 30
    assert [27, 28, 29, 30] == [nodes.of(span).started for span in spans[-SMALL // 2 :]]
    assert nodes.of(spans[0]).started > 30


@pytest.mark.usefixtures("few")
def test_a_parent_in_use_is_not_forgotten() -> None:
    """A root that lives as long as the process keeps its place by its children's calls."""
    nodes = Nodes()
    root = started(nodes, "invoke_agent x", AGENT)
    for _ in range(30):
        low = started(nodes, "execute_tool x", TOOL, root)
        assert [1] == ancestors(nodes.of(low))


@pytest.mark.usefixtures("few")
def test_spans_of_which_only_the_end_is_seen_are_bounded_too() -> None:
    """Something hides the starts from us."""
    nodes = Nodes()
    for _ in range(30):
        span = TRACER.start_span("execute_tool x", Context())
        assert isinstance(span, Span)
        nodes.of(span)
    assert 30 - SMALL <= nodes.forgotten < 30


def test_an_endless_chain_of_parents_is_cut() -> None:
    """Each call under the one before: as many are held as may be looked at, and not all of them."""
    nodes, span = Nodes(), None
    for _ in range(10 * MAX_DEPTH):
        span = started(nodes, "execute_tool x", TOOL, span)
        node: Node | None = nodes.of(span)
        assert MAX_DEPTH >= len(ancestors(nodes.of(span)))
    length = 0
    while node is not None:
        node, length = node.parent, length + 1
    assert MAX_DEPTH < length <= 2 * MAX_DEPTH + 1


def test_a_chain_that_is_asked_about_once_at_its_end_is_no_deep_recursion() -> None:
    """Only as many as may be looked at are made."""
    nodes, span = Nodes(), None
    for _ in range(5_000):
        span = started(nodes, parent=span)
    assert span is not None
    assert MAX_DEPTH >= len(ancestors(nodes.of(span)))


def test_two_threads_that_make_room_at_once_drop_the_old_once() -> None:
    """The one that looked first and came last finds it done: what is new is not dropped with what is old."""
    recent: Recent[str, int] = Recent(4)

    class Crowded(dict[str, int]):
        """Lets another thread in between the look at its size and what follows from it."""

        def __len__(self) -> int:
            size = super().__len__()
            if size == 2 and recent.latest is self:
                recent.latest = dict(self)
                recent.add("theirs", 3)
            return size

    recent.latest = Crowded({"one": 1, "two": 2})
    recent.add("ours", 4)
    assert [1, 2, 3, 4] == [recent.peek(key) for key in ("one", "two", "theirs", "ours")]
    assert 0 == recent.evicted


# --- runs ------------------------------------------------------------------------------------------------------


def test_numbers_begin_anew_for_a_trace_that_was_forgotten() -> None:
    """Under another producer's name, so that no number is given twice."""
    live = LiveRuns()
    first = live.number(0)
    for trace_id in range(1, MAX_TRACES + 1):
        live.number(trace_id)
    again = live.number(0)
    assert (1, 1) == (first[1], again[1])
    assert first[0] != again[0]


def test_a_fork_gives_another_name_and_no_number_twice() -> None:
    """`renew` is what a child calls."""
    live = LiveRuns()
    before = live.number(7)
    live.renew()
    after = live.number(7)
    assert (1, 1) == (before[1], after[1])
    assert before[0] != after[0]
    assert after == live.numbers(7)
    assert live.numbers(8) is None


def test_names_of_producers_are_never_equal() -> None:
    """Each process, generation and trace has its own."""
    found = [LiveRuns().number(trace_id)[0] for trace_id in range(200)]
    live = LiveRuns()
    found += [live.number(trace_id)[0] for trace_id in range(200)]
    assert 400 == len(set(found))


def test_a_run_that_made_no_call_for_long_is_over() -> None:
    """Half an hour by the spans' own times: what comes under its name is another run, and it is counted."""
    application = Application()
    agent = application.start("invoke_agent helper", AGENT)
    for start in (0, 1, IDLE_NS + 10, IDLE_NS + 11):
        span = application.tracer.start_span(
            "execute_tool lookup",
            trace.set_span_in_context(agent, Context()),
            attributes={**TOOL, ARGUMENTS: "{}", RESULT: "1"},
            start_time=1_000 + start,
        )
        span.end(1_000 + start + 1)
    assert {} == application.processor.counts.findings
    assert 1 == application.processor.counts.forgotten_runs
    assert [[1, 2, 3, 4]] == list(sequences(application.spans).values())


def test_what_stands_above_a_call() -> None:
    """Nearest agent, outermost agent, the tool it lies in; a model's span in between hides the tool."""
    nodes = Nodes()
    outer = started(nodes, "invoke_agent outer", {**AGENT, "gen_ai.agent.name": "outer"})
    tool = started(nodes, "execute_tool ask", TOOL, outer)
    inner = started(nodes, "invoke_agent inner", {**AGENT, "gen_ai.agent.name": "inner"}, tool)
    chat = started(nodes, "chat m", CHAT, inner)
    deep = started(nodes, "execute_tool lookup", TOOL, inner)
    below_chat = started(nodes, "execute_tool lookup", TOOL, chat)
    found = []
    for span in (deep, below_chat):
        told = received(span, attributes_of(span))
        reading = dialects.read(told)
        assert reading is not None
        up = above(nodes.of(span), reading, told.scope)
        found.append([one and one.started for one in (up.agent, up.outermost, up.tool)])
    assert [[3, 1, None], [3, 1, None]] == found


def test_a_call_that_ends_in_the_midst_of_another_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal's handler ends one while the last one is weighed: the tracker takes both, one after the other."""
    told: list[str] = []
    application = Application(on_finding=lambda event: told.append(event.kind))
    agent = application.start("invoke_agent helper", AGENT)
    inside, deepest = [0], [0]
    weigh = Tracker._weigh  # noqa: SLF001 - the midst of a step

    def weigh_and_be_disturbed(tracker: Tracker, *arguments: Any) -> Observation:
        inside[0] += 1
        deepest[0] = max(deepest[0], inside[0])
        if 3 == len(application.spans) + inside[0]:
            application.call(agent)
            application.start("chat m", CHAT, agent).end()
        observation = weigh(tracker, *arguments)
        inside[0] -= 1
        return observation

    monkeypatch.setattr(Tracker, "_weigh", weigh_and_be_disturbed)
    application.call(agent)
    application.call(agent)
    application.call(agent)
    agent.end()
    assert 1 == deepest[0]
    assert ["exact_repeat"] == told
    assert {} == application.processor.counts.failures
    assert [[1, 2, 3, 4]] == [sorted(numbers) for numbers in sequences(application.spans).values()]


def test_of_an_ended_span_no_long_name_is_held() -> None:
    """Frameworks take prompts for names, and 65,536 spans are remembered."""
    nodes = Nodes()
    long = "a sentence " * 1_000
    span = started(nodes, "invoke_agent", {**AGENT, "gen_ai.agent.name": long, "gen_ai.conversation.id": long})
    node = nodes.of(span)
    told = received(span, attributes_of(span))
    reading = dialects.read(told)
    assert reading is not None
    node.settle(reading, told.scope, lambda name, _: name[:9])
    held = node.held()
    assert held is not None
    assert ("a sentenc", 32) == (held.agent, len(held.conversation or ""))
    assert held.conversation == above(Node(None, node, node.trace_id, 2), reading, "").conversation
