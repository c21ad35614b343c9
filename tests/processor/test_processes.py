"""Processes that fork, spawn, are recycled and replaced, and threads, signals and greenlets in them.

Each program runs by itself and writes what left its processes to a file; `programs/` has them.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from tests.processor.applications import AGENT, Application, sequences
from tests.processor.canaries import CANARY

ROOT: Final = Path(__file__).parents[2]
PROGRAMS: Final = Path(__file__).parent / "programs"
PATIENCE_S: Final = 300
CALLS, PRODUCER, SEQUENCE = "loopguard.run.calls", "loopguard.producer.id", "loopguard.call.sequence"


class Recorded:
    """What left all processes of one run of a program."""

    def __init__(self, file: Path) -> None:
        self.lines: list[dict[str, Any]] = [json.loads(line) for line in file.read_text().splitlines()]
        self.calls = [line for line in self.lines if line["name"] == "execute_tool lookup"]
        self.pids = {line["pid"] for line in self.lines}
        self.producers: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for line in self.calls:
            self.producers[line["attributes"][PRODUCER]].append(line)

    def check(self) -> None:
        """Each call is numbered; a producer is one process and one trace, and has no gap and no number twice."""
        for producer, lines in self.producers.items():
            numbers = [line["attributes"][SEQUENCE] for line in lines]
            assert list(range(1, len(numbers) + 1)) == sorted(numbers), producer
            assert 1 == len({(line["pid"], line["trace"]) for line in lines}), producer
        assert not [line for line in self.lines if CANARY in line["text"]]

    def closed(self) -> Counter[int]:
        """How often a closing span says that its producer made so many calls; each as many as there are."""
        found: Counter[int] = Counter()
        for line in self.lines:
            attributes = line["attributes"]
            if CALLS in attributes:
                assert len(self.producers[attributes[PRODUCER]]) == attributes[CALLS]
                found[attributes[CALLS]] += 1
        return found


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., Recorded]:
    """Runs a program to its end and returns what left it; a program that hangs shows where, and fails."""

    def run(program: str, *arguments: object) -> Recorded:
        file = tmp_path / "spans.jsonl"
        command = [sys.executable, "-X", "faulthandler", *map(str, (PROGRAMS / program, file, *arguments))]
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        with subprocess.Popen(  # noqa: S603 - programs of ours
            command,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OTEL_LOOPGUARD_KEY": bytes(range(32)).hex()},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                said, _ = process.communicate(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGABRT)
                said, _ = process.communicate()
        assert (0, "") == (process.returncode, said)
        return Recorded(file)

    return run


def test_threads_that_fork_leave_no_gap(play: Callable[..., Recorded]) -> None:
    """64 threads of 1,000 calls in 8 traces, 16 forks among them: parent and children number for themselves."""
    recorded = play("forking_threads.py", 64, 1000, 16)
    recorded.check()
    assert 17 == len(recorded.pids)
    assert 64_000 + 16 * 24 == len(recorded.calls)
    # The parent's eight traces, and in each child one that it shares with them and one of its own.
    assert Counter({8_000: 8, 21: 16, 3: 16}) == recorded.closed()
    ended = Counter((line["trace"], line["span"]) for line in recorded.calls)
    assert Counter({1: 64_000 - 16 + 16 * 23, 2: 16}) == Counter(ended.values())


@pytest.mark.parametrize("way", ["spawn", "forkserver", "fork"])
def test_workers_of_multiprocessing_are_producers_of_their_own(way: str, play: Callable[..., Recorded]) -> None:
    """Four workers, three runs each: twelve traces, twelve producers, however the workers came to be."""
    recorded = play("workers.py", way, 4, 3)
    recorded.check()
    assert 4 == len(recorded.pids)
    assert Counter({3: 12}) == recorded.closed()


def test_recycled_workers_are_producers_of_their_own(play: Callable[..., Recorded]) -> None:
    """Workers that take five tasks and go, every other one by `os._exit`, while the parent works on."""
    recorded = play("workers.py", "recycled", 10, 5)
    recorded.check()
    assert 11 == len(recorded.pids)
    assert Counter({3: 60}) == recorded.closed()


def test_a_process_that_becomes_another_program_starts_anew(play: Callable[..., Recorded]) -> None:
    """`exec` with and without a fork before it, five programs one after the other."""
    recorded = play("executing.py", 4)
    recorded.check()
    assert Counter({3: 5, 1: 5}) == recorded.closed()


def test_calls_that_the_garbage_collector_ends_are_numbered(play: Callable[..., Recorded]) -> None:
    """The collector comes every few allocations, in the midst of our steps: no deadlock, no gap."""
    recorded = play("collected.py", 2000)
    recorded.check()
    assert Counter({4000: 1}) == recorded.closed()


def test_calls_that_a_signal_handler_makes_are_numbered(play: Callable[..., Recorded]) -> None:
    """Five hundred signals in the midst of calls and of writes to the agent's span."""
    recorded = play("signalled.py", 500)
    recorded.check()
    assert len(recorded.calls) > 500
    assert Counter({len(recorded.calls): 1}) == recorded.closed()


def test_greenlets_are_like_threads(play: Callable[..., Recorded]) -> None:
    """Fifty greenlets take turns inside their spans, and share one more; then the process forks."""
    pytest.importorskip("gevent", reason="install gevent")
    recorded = play("greenlets.py", 50, 20)
    recorded.check()
    assert Counter({20: 50, 1000: 1, 3: 1}) == recorded.closed()


# --- forks at the worst moment ---------------------------------------------------------------------------------


@pytest.fixture
def fork() -> Callable[[Callable[[], object]], int]:
    """Runs something in a child; returns its exit code: 1 where it raised, -14 where it hung."""

    def run(work: Callable[[], object]) -> int:
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(30)
            try:
                work()
            except BaseException:  # noqa: BLE001 - told by the exit code
                os._exit(1)
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    return run


@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_a_fork_while_every_lock_is_held_does_not_hang_the_child(
    fork: Callable[[Callable[[], object]], int],
) -> None:
    """Other threads were in the midst of a call, a count, a failure and a write to the agent's span, and are gone."""
    application = Application()
    agent: Any = application.start("invoke_agent helper", AGENT)
    application.call(agent)
    processor = application.processor
    locks = (processor._live._lock, processor._lock, processor.boundary._lock, agent._events._lock)  # noqa: SLF001
    taken, release = threading.Event(), threading.Event()

    def hold() -> None:
        with ExitStack() as stack:
            for lock in locks:
                stack.enter_context(lock)
            taken.set()
            release.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    taken.wait()

    def child() -> None:
        application.after.clear()
        agent.set_attribute("turn", 1)  # so it is read again
        for _ in range(3):
            application.call(agent)
        processor.boundary.caught("child", ValueError())
        assert [[1, 2, 3]] == list(sequences(application.spans).values())
        assert {"exact_repeat": 1} == processor.counts.findings
        assert {"child": 1} == processor.counts.failures
        application.provider.shutdown()

    try:
        assert 0 == fork(child)
    finally:
        release.set()
        holder.join()


def test_a_span_that_is_open_at_a_fork_is_ended_by_both(fork: Callable[[Callable[[], object]], int]) -> None:
    """Each process numbers it for itself, and closes its own count on the agent's span."""
    application = Application()
    agent = application.start("invoke_agent helper", AGENT)
    application.call(agent)
    application.call(agent)
    span = application.start("execute_tool lookup", {"gen_ai.operation.name": "execute_tool"}, agent)
    before = set(sequences(application.spans))

    def child() -> None:
        application.after.clear()
        span.end()
        agent.end()
        ((producer, numbers),) = sequences(application.spans).items()
        assert [1] == numbers
        assert producer not in before
        assert 1 == (application.spans[-1].attributes or {})[CALLS]

    assert 0 == fork(child)
    span.end()
    agent.end()
    assert {next(iter(before)): [1, 2, 3]} == sequences(application.spans)
    assert 3 == (application.spans[-1].attributes or {})[CALLS]


def test_what_a_run_did_before_a_fork_is_the_parents(fork: Callable[[Callable[[], object]], int]) -> None:
    """A child that goes on with the agent's calls begins its own stretch: two before and one after are no loop."""
    application = Application()
    agent = application.start("invoke_agent helper", AGENT)
    application.call(agent)
    application.call(agent)

    def child() -> None:
        application.call(agent)
        assert {} == application.processor.counts.findings

    assert 0 == fork(child)
    application.call(agent)
    assert {"exact_repeat": 1} == application.processor.counts.findings
