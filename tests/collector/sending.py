"""Sends spans to a collector, and compares what arrived behind it with what was sent."""

from __future__ import annotations

import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from otel_loopguard.model import Span
from otel_loopguard.replay import RunReport
from tests.captures.summary import POLICY
from tests.collector.collectors import PATIENCE_S, wait_until
from tests.collector.sinks import Sink, spans_in
from tests.replaying import replay_items

_APPLICATION: Final = Path(__file__).with_name("sending_app.py")


class Application:
    """An application in a process of its own, which plays captures.

    Args:
        endpoint: of the collector.
        folder: for what it sends.
        captures: what it plays, in this order.
        pace_s: how long it rests between two.
    """

    def __init__(self, endpoint: str, folder: Path, captures: Sequence[str], *, pace_s: float = 0.0) -> None:
        self._file = folder / "sent.binpb"
        self._process = subprocess.Popen(  # noqa: S603 - our own command line
            [sys.executable, _APPLICATION, endpoint, self._file, str(pace_s), *captures],
            stdout=subprocess.PIPE,
            text=True,
        )

    def finish(self) -> None:
        """Waits until all that it sends was taken."""
        out, _ = self._process.communicate(timeout=3 * PATIENCE_S)
        assert (0, "done") == (self._process.returncode, out.strip())

    def sent(self) -> list[Span]:
        """All that was sent up to now, each span once."""
        return spans_in([self._file.read_bytes()])

    def close(self) -> None:
        """End it if it still runs."""
        self._process.kill()
        self._process.communicate()


def post(endpoint: str, body: bytes) -> int:
    """Sends one export request as it is; returns the answer's status."""
    request = urllib.request.Request(  # noqa: S310 - our own address
        f"{endpoint}/v1/traces", data=body, headers={"Content-Type": "application/x-protobuf"}
    )
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:  # noqa: S310 - our own address
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def arrived(sinks: Iterable[Sink]) -> list[Span]:
    """All that arrived, in order; what arrived more than once is there more than once."""
    return [span for sink in sinks for span in spans_in(list(sink.received))]


def wait_for(spans: Iterable[Span], sinks: Sequence[Sink]) -> None:
    """Waits until each of some spans has arrived."""
    wanted = keys(spans)
    wait_until(lambda: wanted <= keys(arrived(sinks)), "every span arrives", seconds=2 * PATIENCE_S)


def keys(spans: Iterable[Span]) -> set[tuple[str, str]]:
    """Which spans these are."""
    return {(span.trace_id, span.span_id) for span in spans}


def judged(spans: Iterable[Span]) -> dict[str, RunReport]:
    """What replay says of spans, by run; spans that were delivered more than once count once."""
    once = {msgspec.msgpack.encode(span): span for span in spans}
    return {report.verdict.run_id: report for report in replay_items(once.values(), POLICY)}
