"""Threads, tasks, pools, signals and the garbage collector: what one process does at the same time."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ConcurrentMultiSpanProcessor

from tests.processor.applications import (
    AGENT,
    ARGUMENTS,
    CALLS,
    CHAT,
    FINDING,
    MESSAGES,
    PRODUCER,
    RESULT,
    SEQUENCE,
    TOOL,
    Application,
    held,
    sequences,
)
from tests.processor.canaries import CANARY


@pytest.fixture
def _hasty() -> Iterator[None]:
    """Threads that are switched as often as Python can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def all_at_once(number: int, work: Callable[[int], object]) -> None:
    """Runs `work` in so many threads, which begin together."""
    barrier = threading.Barrier(number)

    def begin(which: int) -> None:
        barrier.wait()
        work(which)

    threads = [threading.Thread(target=begin, args=(which,)) for which in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def is_gapless(numbers: list[int]) -> bool:
    """Tells whether each number from 1 on is there once, in whatever order."""
    return sorted(numbers) == list(range(1, len(numbers) + 1))


@pytest.mark.usefixtures("_hasty")
def test_calls_of_many_threads_in_one_trace_are_numbered_without_gap() -> None:
    """One trace, sixteen threads: one producer, each number once, and the agent's span says how many."""
    application = Application()
    agent = application.start("invoke_agent helper", AGENT)
    all_at_once(16, lambda _: [application.call(agent) for _ in range(100)])
    agent.end()
    ((_, numbers),) = sequences(application.spans).items()
    assert list(range(1, 1601)) == sorted(numbers)
    assert 1600 == held(application.spans[-1])[CALLS]
    assert 1600 == application.processor.counts.tool_calls
    assert {} == application.processor.counts.failures


@pytest.mark.usefixtures("_hasty")
def test_runs_at_the_same_time_do_not_mix() -> None:
    """Each thread's agent is found stuck by its own calls, at its own third, and numbered by itself."""
    application = Application()

    def work(which: int) -> None:
        for _ in range(20):
            agent = application.start("invoke_agent helper", AGENT)
            for _ in range(3):
                application.call(agent, result=f"answer {which}")
            agent.end()

    all_at_once(8, work)
    assert {"exact_repeat": 160} == application.processor.counts.findings
    assert [[1, 2, 3]] * 160 == list(sequences(application.spans).values())
    assert {3} == {held(span)[SEQUENCE] for span in application.spans if FINDING in held(span)}


@pytest.mark.usefixtures("_hasty")
def test_two_runs_that_take_turns_are_two() -> None:
    """Calls of two agents alternate: neither run sees the other's, and neither breaks the other's stretch."""
    application = Application()
    one, other = (application.start("invoke_agent helper", AGENT) for _ in range(2))
    for _ in range(3):
        application.call(one)
        application.call(other)
    assert {"exact_repeat": 2} == application.processor.counts.findings


@pytest.mark.usefixtures("_hasty")
def test_a_parent_may_be_written_to_while_its_calls_end() -> None:
    """Attributes and events come to an agent's span from one thread while tool spans below it end in others."""
    application = Application()

    def work(which: int) -> None:
        for turn in range(20):
            parent = application.start("x", {"openinference.span.kind": "LLM"})
            writer = threading.Thread(target=write, args=(parent,))
            writer.start()
            for _ in range(5):
                application.call(parent, result=f"{which} {turn}")
            writer.join()
            parent.end()

    def write(parent: trace.Span) -> None:
        for number in range(100):
            parent.set_attribute(f"llm.output_messages.{number}.message.content", CANARY)
            parent.add_event("exception", {"exception.message": CANARY})

    all_at_once(4, work)
    assert {} == application.processor.counts.failures
    assert CANARY not in application.text()
    assert 400 == application.processor.counts.tool_calls


def test_an_attribute_that_comes_while_a_parent_is_read_costs_nothing() -> None:
    """The same in the one order that matters: a key is added while a dialect walks over the keys."""
    application = Application()

    class Growing(str):
        """A key that stands for another thread, which sets an attribute when this one is looked at."""

        __slots__ = ()

        def startswith(self, *arguments: Any) -> bool:
            parent.set_attribute("late", 1)
            return super().startswith(*arguments)

    parent = application.start("x", {"openinference.span.kind": "LLM"})
    parent.set_attribute(Growing("llm.output_messages.0.message.content"), CANARY)
    parent.set_attribute("more", 1)
    application.call(parent)
    assert {} == application.processor.counts.failures
    assert [1] == [held(span)[SEQUENCE] for span in application.spans]


@pytest.mark.usefixtures("_hasty")
def test_the_concurrent_multi_processor_changes_nothing() -> None:
    """Where the SDK runs its processors side by side, spans are still clean and numbered for all exporters."""
    application = Application(provider={"active_span_processor": ConcurrentMultiSpanProcessor(num_threads=3)})

    def work(_: int) -> None:
        agent = application.start("invoke_agent helper", {**AGENT, MESSAGES: CANARY})
        for _ in range(10):
            application.call(agent, result=CANARY)
        agent.end()

    all_at_once(4, work)
    assert CANARY not in application.text()
    assert [list(range(1, 11))] * 4 == [sorted(numbers) for numbers in sequences(application.spans).values()]
    assert {} == application.processor.counts.failures


# --- tasks and pools -----------------------------------------------------------------------------------------


def test_tasks_of_one_loop_keep_their_parents() -> None:
    """Fifty agents as tasks, each with chats and calls that await in between: each run is its own."""
    application = Application()

    async def call(which: int) -> None:
        attributes = {**TOOL, ARGUMENTS: '{"a": 1}', RESULT: f"answer {which}"}
        with application.tracer.start_as_current_span("execute_tool lookup", attributes=attributes):
            await asyncio.sleep(0)

    async def agent(which: int) -> None:
        with application.tracer.start_as_current_span("invoke_agent helper", Context(), attributes=AGENT):
            for _ in range(3):
                with application.tracer.start_as_current_span("chat m", attributes=CHAT):
                    await asyncio.sleep(0)
                await call(which)

    async def main() -> None:
        await asyncio.gather(*(agent(which) for which in range(50)))

    asyncio.run(main())
    assert {"exact_repeat": 50} == application.processor.counts.findings
    assert [[1, 2, 3]] * 50 == list(sequences(application.spans).values())
    agents = [held(span) for span in application.spans if span.name.startswith("invoke_agent")]
    assert [3] * 50 == [attributes[CALLS] for attributes in agents]


def test_calls_gathered_in_one_turn_are_siblings() -> None:
    """Equal calls that one response asked for, and that run at once as tasks, are no loop."""
    application = Application()

    async def call() -> None:
        attributes = {**TOOL, ARGUMENTS: '{"a": 1}', RESULT: "42"}
        with application.tracer.start_as_current_span("execute_tool lookup", attributes=attributes):
            await asyncio.sleep(0)

    async def main() -> None:
        with application.tracer.start_as_current_span("invoke_agent helper", Context(), attributes=AGENT):
            await asyncio.gather(*(call() for _ in range(5)))

    asyncio.run(main())
    assert {"parallel_duplicate": 1} == application.processor.counts.findings
    assert is_gapless(next(iter(sequences(application.spans).values())))


@pytest.mark.parametrize("is_propagated", [True, False])
def test_a_pool_with_and_without_the_callers_context(*, is_propagated: bool) -> None:
    """With the context its calls are the agent's; without it each is a trace of its own, and no loop is made up."""
    application = Application()

    def call(_: int) -> None:
        attributes = {**TOOL, ARGUMENTS: '{"a": 1}', RESULT: "42"}
        application.tracer.start_span("execute_tool lookup", attributes=attributes).end()

    with (
        ThreadPoolExecutor(max_workers=2) as pool,
        application.tracer.start_as_current_span("invoke_agent helper", Context(), attributes=AGENT),
    ):
        for number in range(4):
            if is_propagated:
                pool.submit(contextvars.copy_context().run, call, number).result()
            else:
                pool.submit(call, number).result()
    numbers = list(sequences(application.spans).values())
    assert ([[1, 2, 3, 4]] if is_propagated else [[1]] * 4) == numbers
    assert ({"exact_repeat": 1} if is_propagated else {}) == application.processor.counts.findings


def test_a_span_may_end_in_another_thread_than_it_started_in() -> None:
    """Streaming frameworks end spans wherever the last chunk comes."""
    application = Application()
    agent = application.start("invoke_agent helper", AGENT)
    for _ in range(3):
        tool = application.start("execute_tool lookup", {**TOOL, ARGUMENTS: '{"a": 1}', RESULT: CANARY}, agent)
        all_at_once(1, lambda _, tool=tool: tool.end())  # type: ignore[misc] # mypy does not see the default
    all_at_once(1, lambda _: agent.end())
    assert {"exact_repeat": 1} == application.processor.counts.findings
    assert CANARY not in application.text()


def test_one_span_that_many_threads_end_is_one_call() -> None:
    """The SDK lets one of them through."""
    application = Application()
    for _ in range(20):
        span = application.start("execute_tool lookup", {**TOOL, ARGUMENTS: '{"a": 1}', RESULT: "42"})
        all_at_once(8, lambda _, span=span: span.end())  # type: ignore[misc] # as above
    assert 20 == application.processor.counts.tool_calls == len(application.spans)


# --- interruptions -------------------------------------------------------------------------------------------


def test_a_call_that_ends_while_another_is_taken_in_is_counted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A finaliser or a signal handler ends a span in the middle of a step of ours, lock held: no deadlock, no gap."""
    application = Application()
    agent = application.start("invoke_agent helper", AGENT)
    inner = [application.start("execute_tool lookup", {**TOOL, ARGUMENTS: "{}", RESULT: "1"}, agent) for _ in range(3)]
    live = application.processor._live  # noqa: SLF001 - where the interruption is to come
    run = live._run  # noqa: SLF001 - the same

    def interrupted(*arguments: Any) -> Any:
        while inner:
            inner.pop().end()
        return run(*arguments)

    monkeypatch.setattr(live, "_run", interrupted)
    for _ in range(4):
        application.call(agent)
    ((producer, numbers),) = sequences(application.spans).items()
    assert list(range(1, 8)) == sorted(numbers)
    assert Counter({producer: 7}) == Counter(held(span)[PRODUCER] for span in application.spans)
    assert {} == application.processor.counts.failures
