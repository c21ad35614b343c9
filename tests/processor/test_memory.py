"""Nothing grows without bound, whatever an application does and for how long; what is forgotten is counted."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any, Final

import pytest

from otel_loopguard.policy import ContentRule
from otel_loopguard.processor.live import MAX_RUNS
from otel_loopguard.processor.nodes import MAX_NODES
from tests.processor.applications import AGENT, CHAT, TOOL, Application

ROOT: Final = Path(__file__).parents[2]
PROGRAM: Final = Path(__file__).parent / "programs" / "lasting.py"


def last(work: str, times: int, content: ContentRule = ContentRule.DROP_ALL) -> dict[str, Any]:
    """Runs the program; returns the processor's counts and by how much memory grew."""
    ended = subprocess.run(  # noqa: S603 - a program of ours
        [sys.executable, str(PROGRAM), work, str(times), content.value],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    assert "" == ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    assert {} == found["failures"]
    return found


def test_runs_without_end() -> None:
    """100,000 runs seen, one after the other: 30 KiB each would be 3 GiB."""
    found = last("runs", 100_000)
    assert found["grown_mib"] < 250
    assert 100_010 == found["tool_calls"]


def test_a_run_without_end() -> None:
    """10,000 calls that differ, of one tool, and as many of tools of other names, in one run."""
    found = last("calls", 10_000)
    assert found["grown_mib"] < 120
    assert 20_010 == found["tool_calls"]


def test_runs_that_are_never_closed() -> None:
    """Agents whose spans nobody ends: the oldest runs are forgotten, and counted."""
    found = last("open runs", 10_000)
    assert found["grown_mib"] < 250
    assert 10_000 - MAX_RUNS <= found["forgotten_runs"] < 10_000


def test_agents_without_end_in_one_trace() -> None:
    """5,000 agents with names and conversations of their own, all open at once."""
    found = last("agents", 5_000)
    assert found["grown_mib"] < 200
    assert 5_010 == found["tool_calls"]


def test_spans_that_are_never_ended() -> None:
    """200,000 open spans of 4 KiB that the application let go are gone; what was forgotten is counted."""
    found = last("open spans", 200_000)
    assert found["grown_mib"] < 120
    assert 200_000 - MAX_NODES <= found["forgotten_spans"] < 200_000


@pytest.mark.parametrize("content", list(ContentRule))
def test_no_content_is_kept_in_memory(content: ContentRule) -> None:
    """30,000 spans of 20 KB each that ended: whatever rule leaves it on them, we do not hold it."""
    found = last("pages", 30_000, content)
    assert found["grown_mib"] < 150


def test_spans_of_no_agent() -> None:
    """200,000 spans of an application without agents, each the parent of the next."""
    found = last("plain", 200_000)
    assert found["grown_mib"] < 120


def test_names_that_are_never_the_same() -> None:
    """Keys, tools and errors made up at run time fill no cache for good."""
    found = last("names", 10_000)
    assert found["grown_mib"] < 200


# --- what is kept alive ---------------------------------------------------------------------------------------


def test_a_span_that_is_let_go_without_an_end_is_gone() -> None:
    """Not even one that calls below it were read from."""
    application = Application()
    agent = application.start("invoke_agent helper", AGENT)
    chat = application.start("chat m", CHAT, agent)
    tool = application.start("execute_tool lookup", TOOL, agent)
    application.call(tool)
    watched = [weakref.ref(span) for span in (agent, chat, tool)]
    del agent, chat, tool
    gc.collect()
    assert [None] * 3 == [one() for one in watched]


def test_an_open_span_is_read_as_long_as_it_is_held() -> None:
    """A weak reference loses nothing that the application still has: names come from attributes set after the start."""
    application = Application()
    agent = application.start("x", {})
    for _ in range(4):
        application.call(agent)
        gc.collect()
        agent.set_attributes(AGENT)
    agent.end()
    assert {"exact_repeat": 1} == application.processor.counts.findings


@pytest.mark.parametrize("ended", [True, False])
def test_a_processor_without_its_provider_is_gone(*, ended: bool) -> None:
    """Fork handlers and instruments of a meter that went with it hold it by no more than a weak reference."""
    application = Application()
    application.call()
    if ended:
        application.provider.shutdown()
    watched = weakref.ref(application.processor)
    del application
    gc.collect()
    assert watched() is None
