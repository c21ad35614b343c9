"""The class of a result, shape by shape."""

from __future__ import annotations

from typing import Any

import pytest

from otel_loopguard.classify import classify
from otel_loopguard.model import Effect, ResultClass
from otel_loopguard.policy import ErrorRules

RULES = ErrorRules()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, ResultClass.SILENCE),
        ("", ResultClass.SILENCE),
        (" \n", ResultClass.SILENCE),
        ({"stdout": "", "stderr": " \n", "exit_code": 0, "interrupted": False, "signal": None}, ResultClass.SILENCE),
        ({"stdout": "", "ok": True, "took": 0.0}, ResultClass.SILENCE),
        *(({"output": "", key: 0}, ResultClass.SILENCE) for key in ("exit_code", "exitCode", "exit_status")),
        *(({"output": "", key: 0}, ResultClass.SILENCE) for key in ("returncode", "return_code")),
        ({"stdout": "1 failed", "exit_code": 0}, ResultClass.CONTENT),
        ({"stdout": "", "stderr": "no such file", "exit_code": 0}, ResultClass.CONTENT),
        ({"stdout": "", "exit_code": 1}, ResultClass.CONTENT),
        ({"stdout": [], "exit_code": 0}, ResultClass.CONTENT),
        ({"output": ""}, ResultClass.CONTENT),
        ({"count": 0, "next": None}, ResultClass.CONTENT),
        ({"exit_code": 0}, ResultClass.CONTENT),
        ("Error: no such order", ResultClass.ERROR),
        ("Error: not found", ResultClass.ERROR),
        ("no results", ResultClass.NOT_FOUND),
        ("ok", ResultClass.ACK),
        ("note stored", ResultClass.ACK),
        ("the note", ResultClass.CONTENT),
        (True, ResultClass.ACK),
        (False, ResultClass.CONTENT),
        (1, ResultClass.CONTENT),
        (0, ResultClass.CONTENT),
        (0.0, ResultClass.CONTENT),
        ([], ResultClass.EMPTY),
        ({}, ResultClass.EMPTY),
        ((), ResultClass.EMPTY),
        ([None], ResultClass.CONTENT),
        (["ok"], ResultClass.CONTENT),
        ({"ok": True}, ResultClass.ACK),
        ({"ok": 1}, ResultClass.ACK),
        ({"ok": False}, ResultClass.CONTENT),
        ({"ok": 0}, ResultClass.CONTENT),
        ({"ok": 2}, ResultClass.CONTENT),
        ({"ok": None}, ResultClass.CONTENT),
        ({"ok": ["ok"]}, ResultClass.CONTENT),
        ({"count": True}, ResultClass.CONTENT),
        ({"note": "stored"}, ResultClass.CONTENT),
        ({"status": "running"}, ResultClass.CONTENT),
        ({"status": "ok", "id": 7}, ResultClass.CONTENT),
        *(({key: "ok"}, ResultClass.ACK) for key in ("ok", "success", "status", "result", "acknowledged", "done")),
    ],
    ids=repr,
)
def test_class_of_a_result(value: Any, expected: ResultClass) -> None:
    """Silence, a failure in words, nothing found, a bare acknowledgement, an empty answer; all else is content."""
    assert expected is classify(value, tool="look", effect=Effect.READ, errors=RULES)
    assert expected is classify(value, tool="look", effect=Effect.UNKNOWN, errors=RULES)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, ResultClass.SILENCE),
        ("Error: no such order", ResultClass.ERROR),
        ("no results", ResultClass.NOT_FOUND),
        ("ok", ResultClass.ACK),
        ({"id": 7}, ResultClass.ACK),
        ([], ResultClass.ACK),
        (17, ResultClass.ACK),
    ],
    ids=repr,
)
def test_class_of_the_result_of_a_declared_write(value: Any, expected: ResultClass) -> None:
    """Whatever a write gives back that is no failure acknowledges it; silence and failures stay what they are."""
    assert expected is classify(value, tool="look", effect=Effect.WRITE, errors=RULES)


@pytest.mark.parametrize(
    "tool",
    [
        "sleep",
        "Wait",
        "wait_seconds",
        "sleep_ms",
        "sleep_s",
        "wait_minutes",
        "pause_for_seconds",
        "computer.wait",
        "mcp__timer__pause",
        "delay",
    ],
)
@pytest.mark.parametrize(
    "value", ["Slept for 30 seconds", "ok", {"slept": 30}, True, "a page as it was after the wait", []]
)
def test_a_wait_says_nothing(tool: str, value: Any) -> None:
    """What a tool says that lets time pass answers nothing; a failure is one; the owner knows better."""
    assert ResultClass.SILENCE is classify(value, tool=tool, effect=Effect.UNKNOWN, errors=RULES)
    assert ResultClass.SILENCE is not classify(value, tool=tool, effect=Effect.READ, errors=RULES)
    assert ResultClass.ACK is classify(value, tool=tool, effect=Effect.WRITE, errors=RULES)
    assert ResultClass.ERROR is classify("Error: too long", tool=tool, effect=Effect.UNKNOWN, errors=RULES)


@pytest.mark.parametrize(
    "tool", ["get_wait_times", "wait_for_text", "waiter", "await_approval", "delayed_flights", "", "s"]
)
def test_other_tools_are_no_waits(tool: str) -> None:
    """A name that only has to do with waiting."""
    assert ResultClass.CONTENT is classify("30 minutes", tool=tool, effect=Effect.UNKNOWN, errors=RULES)


def test_the_owner_s_words_count() -> None:
    """Texts that the policy calls `not_found` are."""
    assert ResultClass.NOT_FOUND is classify(
        "leer", tool="look", effect=Effect.READ, errors=ErrorRules(not_found=("leer",))
    )
