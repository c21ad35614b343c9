"""Python's garbage collector does not stop a scorer again and again, and what is garbage is collected all the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from tests.scorer.serving import PATIENCE_S, ROOT

_SERVING: Final = """\
import gc, json, os, signal, sys
from otel_loopguard.scorer.app import serve
from otel_loopguard.scorer.settings import read_settings

full = []
gc.callbacks.append(lambda phase, info: full.append(phase) if info["generation"] == 2 else None)

def say(line):
    if line.startswith("ready"):
        begun = len(full)
        kept = [[{}] for _ in range(300_000)]  # as open spans are
        print(json.dumps({"full": len(full) - begun, "frozen": gc.get_freeze_count() > 10_000}))
        os.kill(os.getpid(), signal.SIGTERM)

serve(read_settings({"data": sys.argv[1], "http": "127.0.0.1:0", "grpc": "off"}, {}), {}, say=say)
"""
_COLLECTING: Final = """\
import asyncio, gc, json, weakref
from otel_loopguard.scorer import collecting

class Circle:
    def __init__(self):
        self.own = self

async def main():
    collecting.EVERY_S = 0.01
    circle = Circle()
    gone = weakref.ref(circle)
    collecting.collect_seldom(asyncio.get_running_loop())
    other = Circle()
    other_gone = weakref.ref(other)
    gc.collect(1)  # it is old now
    del circle, other
    kept = 0
    while other_gone() is not None or kept < 3:
        kept += other_gone() is None
        await asyncio.sleep(0.01)
    print(json.dumps({"what lived before stays": gone() is not None}))

asyncio.run(main())
"""


def _told(code: str, *arguments: str) -> dict[str, Any]:
    """What a process of its own prints, as JSON."""
    done = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-W", "error", "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_no_full_collection_while_open_spans_grow_in_number(tmp_path: Path) -> None:
    """As many objects as 100,000 open spans and more make no full collection, and modules are left out of all."""
    assert {"full": 0, "frozen": True} == _told(_SERVING, str(tmp_path / "data"))


def test_old_circles_are_collected_in_time() -> None:
    """What young collections have passed over is collected by the loop."""
    assert {"what lived before stays": True} == _told(_COLLECTING)
