"""A scorer as users run it: the real command in a process of its own, on free ports of the loopback."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from prometheus_client.parser import text_string_to_metric_families

from otel_loopguard.scorer.settings import PREFIX

ROOT: Final = Path(__file__).parents[2]
KEY_HEX: Final = bytes(range(32)).hex()
PATIENCE_S: Final = 120.0
"""How long anything is waited for before the test fails; nothing is measured by it."""
SOON: Final = {"http": "127.0.0.1:0", "grpc": "127.0.0.1:0", "grace_s": "0.2", "idle_s": "1", "zeros_s": "0"}
"""Settings under which a run is judged as soon as it is over."""
_SERVED: Final = re.compile(r"OTLP/(HTTP|gRPC) is received at (\S+)")


class Scorer:
    """One data folder, and the process that serves it.

    Args:
        folder: for the data and the file of verdicts.
        settings: by name, besides `SOON`.
        key: of the digests.
    """

    def __init__(self, folder: Path, *, key: str = KEY_HEX, **settings: str) -> None:
        self.data, self.verdict_file = folder / "data", folder / "verdicts.jsonl"
        self.log = ""
        given = {**SOON, "data": str(self.data), "verdict_file": str(self.verdict_file), **settings}
        self._command = [sys.executable, "-X", "faulthandler", "-m", "otel_loopguard", "serve"]
        for name, value in given.items():
            self._command += [f"--{name.replace('_', '-')}", value]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._environment = {**kept, "PYTHONPATH": os.pathsep.join(paths), "OTEL_LOOPGUARD_KEY": key}
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self.http = self.grpc = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Starts it and waits until it is ready."""
        self._process = process = subprocess.Popen(  # noqa: S603 - our own command
            self._command, env=self._environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        )
        assert process.stderr is not None
        served: dict[str, str] = {}
        ready = False
        for line in process.stderr:
            self.log += line
            served.update({found[1]: found[2] for found in [_SERVED.search(line)] if found})
            ready = line.startswith("ready")
            if ready:
                break
        assert ready, self.log
        self.http, self.grpc = served.get("HTTP", ""), served.get("gRPC", "")
        self._reader = threading.Thread(target=self._read_on, args=(process,), daemon=True)
        self._reader.start()

    def _read_on(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        for line in process.stderr:
            self.log += line

    def kill(self) -> None:
        """Ends it at once, wherever it is."""
        if self._process is not None:
            self._process.kill()
            self._ended()

    @property
    def pid(self) -> int:
        """Of the process."""
        assert self._process is not None
        return self._process.pid

    def stop(self) -> int:
        """Asks it to end; returns its exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._ended()

    def _ended(self) -> int:
        assert self._process is not None
        assert self._reader is not None
        code = self._process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        assert self._process.stderr is not None
        self._process.stderr.close()
        self._process = None
        return code

    def post(self, body: bytes, *, path: str = "/v1/traces", **headers: str) -> int:
        """Sends one request; returns the status of its answer; see `answer`."""
        return self.answer(body, path=path, **headers)[0]

    def answer(self, body: bytes, *, path: str = "/v1/traces", **headers: str) -> tuple[int, bytes]:
        """Sends one request; returns the status of its answer, and what it says.

        Raises:
            OSError: there was no answer.
            http.client.HTTPException: there was half of one.
        """
        host, _, port = self.http.rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE_S)
        try:
            connection.request("POST", path, body, {"Content-Type": "application/x-protobuf", **headers})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def get(self, path: str) -> str:
        """What stands at a path."""
        host, _, port = self.http.rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE_S)
        try:
            connection.request("GET", path)
            return connection.getresponse().read().decode()
        finally:
            connection.close()

    def metrics(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        """All samples of the Prometheus endpoint, by name and labels."""
        families = text_string_to_metric_families(self.get("/metrics"))
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in families
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that bear these labels."""
        return sum(
            value
            for (found, its), value in self.metrics().items()
            if found == name and labels.items() <= dict(its).items()
        )

    def settled(self) -> None:
        """Waits until all that was received is judged and written out."""
        wait_for(
            lambda: self.value("loopguard_open_spans") == 0 and self.value("loopguard_outbox_verdicts") == 0,
            "all is judged",
        )

    def verdicts(self) -> dict[str, dict[str, Any]]:
        """The last verdict of each run that stands in the file, by run, but for those that were withdrawn.

        On a slow machine a part of a run may be judged alone, and withdrawn later.
        """
        last = {line["run_id"]: line for line in self.lines()}
        return {run_id: line for run_id, line in last.items() if not line["withdrawn"]}

    def lines(self) -> Sequence[dict[str, Any]]:
        """All lines of the file of verdicts."""
        if not self.verdict_file.exists():
            return []
        return [json.loads(line) for line in self.verdict_file.read_text(encoding="utf-8").splitlines()]


def wait_for(holds: Callable[[], bool], what: str) -> None:
    """Waits until something holds; the test fails where it never does."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, f"it never came about that {what}"
        time.sleep(0.05)


def told(verdict: Mapping[str, Any]) -> dict[str, Any]:
    """A verdict without what only a scorer says of it: when and how often it was judged, and copies that came."""
    own = ("revision", "final", "duplicates", "close", "judged", "backfill", "withdrawn")
    return {name: value for name, value in verdict.items() if name not in own}
