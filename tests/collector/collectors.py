"""Runs the real OpenTelemetry Collector with the files of collector-config/, on free ports of the loopback.

Environment: `LOOPGUARD_OTELCOL` is the path of a collector built from builder.yaml (`.ci/run services` builds one).
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

BINARY: Final = "LOOPGUARD_OTELCOL"
CONFIGURATIONS: Final = Path(__file__).resolve().parents[2] / "collector-config"
VARIANTS: Final = ("agent", "gateway", "load-balanced")
PATIENCE_S: Final = 60.0
"""How long something may take that is bound to happen, on a machine that does much else."""


def binary() -> Path:
    """The collector to run; a test that has none is skipped, which CI counts as a failure."""
    named = os.environ.get(BINARY)
    if not named:
        pytest.skip(f"set {BINARY} to a collector built from tests/collector/builder.yaml: .ci/run services builds one")
    return Path(named)


def free_ports(count: int) -> list[int]:
    """Ports of the loopback that nothing listens on."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def wait_until(true: Callable[[], bool], what: str, *, seconds: float = PATIENCE_S) -> None:
    """Waits for something that is bound to happen; what never does fails the test by name."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            pytest.fail(f"waited {seconds:.0f} s in vain: {what}")
        time.sleep(0.05)


class Collector:
    """One collector, which can be killed and started again on the same ports and the same queue.

    Args:
        configuration: the file that it runs.
        folder: for its queue and its log.
        send_to: what it sends to, as the configuration takes it.
        overlays: files laid over the configuration.
    """

    def __init__(self, configuration: Path, folder: Path, send_to: str, *, overlays: Sequence[Path] = ()) -> None:
        grpc, http, self.health, self.metrics = free_ports(4)
        self.grpc, self.endpoint = f"127.0.0.1:{grpc}", f"http://127.0.0.1:{http}"
        self.queue, self.log = folder / "queue", folder / "log.txt"
        self.environment = {
            "LOOPGUARD_LISTEN_GRPC": self.grpc,
            "LOOPGUARD_LISTEN_HTTP": f"127.0.0.1:{http}",
            "LOOPGUARD_HEALTH": f"127.0.0.1:{self.health}",
            "LOOPGUARD_METRICS_PORT": str(self.metrics),
            "LOOPGUARD_QUEUE": str(self.queue),
            "LOOPGUARD_SEND_TO": send_to,
        }
        self._configurations = [f"--config={path}" for path in (configuration, *overlays)]
        self._process: subprocess.Popen[bytes] | None = None

    def validate(self) -> subprocess.CompletedProcess[str]:
        """What the collector says of its files without running them."""
        return subprocess.run(  # noqa: S603 - our own command line
            [binary(), "validate", *self._configurations],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def start(self) -> None:
        """Starts it, and waits until it takes spans."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own command line
                [binary(), *self._configurations], env=self.environment, stdout=log, stderr=log
            )
        wait_until(self._is_ready, "the collector is up")

    @property
    def pid(self) -> int:
        """Of the process."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """Ends it as a crash does."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ends it as an operator does; what is in its queue stays there."""
        self._end(signal.SIGTERM)

    def logged(self) -> str:
        """All that it said."""
        return self.log.read_text(encoding="utf-8") if self.log.exists() else ""

    def stored(self) -> bytes:
        """All that is in its queue's files."""
        return b"".join(path.read_bytes() for path in sorted(self.queue.rglob("*")) if path.is_file())

    def metric(self, name: str) -> float:
        """One of its own metrics, summed over all labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}/metrics", timeout=PATIENCE_S) as answer:
            lines = answer.read().decode().splitlines()
        found = [float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name}{{")]
        assert found, f"the collector has no metric {name}"
        return sum(found)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(PATIENCE_S)
            self._process = None

    def _is_ready(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            pytest.fail(f"the collector ended:\n{self.logged()[-2000:]}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.health}/", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False


@contextmanager
def running(collector: Collector) -> Generator[Collector]:
    """A collector that runs until the block ends."""
    try:
        collector.start()
        yield collector
    finally:
        collector.kill()
