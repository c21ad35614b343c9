"""The scorer killed at random points while spans come: nothing that was acknowledged is lost, nothing counts twice.

`LOOPGUARD_KILLS` says how often it is killed: `.ci/run kills` does so two hundred times.
"""

from __future__ import annotations

import http.client
import json
import os
import queue
import random
import socket
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan

from otel_loopguard import policy as policies
from otel_loopguard.scorer.store import Store
from otel_loopguard.scorer.totals import Accumulated
from tests.processor.setups import read_back
from tests.replaying import replay_items
from tests.scorer.exported_runs import made_runs
from tests.scorer.serving import Scorer, told

KILLS: Final = int(os.environ.get("LOOPGUARD_KILLS", "5"))
RUNS_A_KILL: Final = 12
SENDERS: Final = 4
LONGEST_LIFE_S: Final = 0.8


def bodies_of(runs: Sequence[Sequence[ReadableSpan]], rng: random.Random) -> list[bytes]:
    """Requests that together hold all spans, each those of a few runs, in no order."""
    pieces: list[list[ReadableSpan]] = []
    for spans in runs:
        cut = rng.randint(0, len(spans))
        pieces += [list(part) for part in (spans[:cut], spans[cut:]) if part]
    rng.shuffle(pieces)
    return [
        encode_spans([span for piece in pieces[at : at + 3] for span in piece]).SerializeToString()
        for at in range(0, len(pieces), 3)
    ]


class Senders:
    """Threads that send requests until each is acknowledged, and no more then."""

    def __init__(self, scorer: Scorer, bodies: Sequence[bytes]) -> None:
        self._scorer = scorer
        self._left: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        for body in bodies:
            self._left.put(body)
        self.going = threading.Event()
        self.broken = 0
        self._threads = [threading.Thread(target=self._run) for _ in range(SENDERS)]
        for thread in self._threads:
            thread.start()

    def _run(self) -> None:
        while True:
            self.going.wait()
            try:
                body = self._left.get_nowait()
            except queue.Empty:
                return
            try:
                status = self._scorer.post(body)
            except (OSError, http.client.HTTPException):
                status = 0
            if status != 200:
                self.broken += 1
                self._left.put(body)
                time.sleep(0.01)

    def finish(self) -> None:
        """Waits until all is sent."""
        self.going.set()
        for thread in self._threads:
            thread.join()


def free_port() -> int:
    """A port that nobody serves at the moment."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_kills_lose_nothing_and_count_nothing_twice(tmp_path: Path) -> None:
    """After all kills each run's verdict is the one of `replay`, and the metrics count what the database holds."""
    rng = random.Random(9)
    runs = made_runs(RUNS_A_KILL * KILLS, rng)
    scorer = Scorer(tmp_path, http=f"127.0.0.1:{free_port()}", grpc="off", grace_s="0.1", idle_s="0.3")
    senders = None
    with scorer:
        senders = Senders(scorer, bodies_of(runs, rng))
        for _ in range(KILLS):
            senders.going.set()
            time.sleep(rng.uniform(0.02, LONGEST_LIFE_S))
            senders.going.clear()
            scorer.kill()
            scorer.start()
        senders.finish()
        scorer.settled()
        counted = scorer.value("loopguard_runs_total") + scorer.value("loopguard_backfill_runs_total")
        assert 0 == scorer.stop()
    items = [span for spans in runs for span in read_back(spans)]
    verdicts = [report.verdict for report in replay_items(items, policies.default())]
    expected = {one.run_id: told(msgspec.json.decode(msgspec.json.encode(one))) for one in verdicts}
    assert expected == {run_id: told(verdict) for run_id, verdict in scorer.verdicts().items()}
    assert len(runs) == counted
    assert {} == contradictions(scorer.lines())
    assert_totals_are_those_of_the_runs(scorer.data, len(runs))


def contradictions(lines: Sequence[dict[str, Any]]) -> dict[tuple[str, int], int]:
    """Verdicts that stand in the file with one revision and several contents."""
    told_of: dict[tuple[str, int], set[str]] = {}
    for line in lines:
        told_of.setdefault((line["run_id"], line["revision"]), set()).add(json.dumps(told(line), sort_keys=True))
    return {key: len(contents) for key, contents in told_of.items() if len(contents) > 1}


def assert_totals_are_those_of_the_runs(data: Path, count: int) -> None:
    """What is stored of the metrics is what counting all stored runs anew gives."""
    store = Store(data)
    try:
        kept = store.runs(limit=count + 1)
        assert count == len(kept)
        assert [] == list(store.pending())
        totals = Accumulated(store.totals(), now_ns=time.time_ns())
        # Sums of fractions depend on the order in which they were added.
        assert pytest.approx(totals.recount(kept)) == totals.net()
    finally:
        store.close()
