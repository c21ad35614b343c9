"""Prometheus itself: its own checks of the files, and every query asked of a Prometheus that scrapes a real scorer.

Needs Debian's `prometheus`, and `grafana-foundation-sdk` of the extra `dev`; `-m prometheus` runs it.
"""

from __future__ import annotations

import json
import math
import random
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan

from otel_loopguard.model import RunOutcome
from otel_loopguard.scorer import metrics
from tests.collector.collectors import free_ports
from tests.deploy.queries import (
    DASHBOARD_FILE,
    DEPLOY,
    PROMETHEUS_FILE,
    RULES_FILE,
    RULES_TEST_FILE,
    alerts,
    dashboard_queries,
    read,
    records,
    selectors,
)
from tests.scorer.exported_runs import made_runs
from tests.scorer.serving import PATIENCE_S, Scorer, wait_for

pytestmark = pytest.mark.prometheus

RUNS: Final = 300
"""Of 3 services and 4 releases: more than 20 of each release, which the rules ask for."""
LATE_RUNS: Final = 30
HOUR_NS: Final = 3600 * 10**9
NO_DATA: Final = {
    metrics.UNKNOWN_CALLS.sample: "every call has a digest",
    metrics.RETRACTED[metrics.UNKNOWN_CALLS.name].sample: "so nothing is taken back of it",
    metrics.DUPLICATES.sample: "no span comes twice",
    metrics.RETRACTED[metrics.DUPLICATES.name].sample: "so nothing is taken back of it",
}
"""Metrics without series in this run, and why; a query that fails for another reason is none of these."""


def program(name: str) -> str:
    """One of Prometheus' programs; a test that has none is skipped, which CI counts as a failure."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"needs {name}: apt-get install --no-install-recommends prometheus")
    return found


def promtool(*arguments: str | Path) -> tuple[int, str]:
    """Its exit code, and all that it said."""
    ended = subprocess.run(  # noqa: S603 - our own command line
        [program("promtool"), *arguments], capture_output=True, text=True, check=False
    )
    return ended.returncode, ended.stdout + ended.stderr


def test_the_dashboard_is_up_to_date() -> None:
    """It is what `tools/make_dashboard.py` writes."""
    pytest.importorskip("grafana_foundation_sdk", reason="needs grafana-foundation-sdk: pip install -e '.[dev]'")
    from tools.make_dashboard import dashboard_text  # noqa: PLC0415 - needs what may be missing

    assert dashboard_text() == DASHBOARD_FILE.read_text(encoding="utf-8")


def test_promtool_takes_the_configuration() -> None:
    """The configuration, and the rules that it names, with all of promtool's lints."""
    assert 0 == promtool("check", "config", "--lint=all", "--lint-fatal", PROMETHEUS_FILE)[0]
    assert 0 == promtool("check", "rules", "--lint=all", "--lint-fatal", RULES_FILE)[0]


def test_alerts_fire_and_stay_quiet() -> None:
    """Promtool's tests of the rules hold."""
    code, said = promtool("test", "rules", RULES_TEST_FILE)
    assert 0 == code, said


def test_promtool_takes_what_the_scorer_shows(watching: Watching) -> None:
    """Names, help texts and types are as promtool's linter of metrics wants them."""
    ended = subprocess.run(  # noqa: S603 - our own command line
        [program("promtool"), "check", "metrics"],
        input=watching.scorer.get("/metrics"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (0, "") == (ended.returncode, ended.stdout + ended.stderr)


# --- a scorer, and a Prometheus that scrapes it ------------------------------------------------------------------


class Watching:
    """A scorer, and a Prometheus that runs the very files, with the scorer's address and a short interval."""

    def __init__(self, folder: Path) -> None:
        # The first verdicts wait until they were scraped at 0, as everywhere: an increase sees them.
        self.scorer = Scorer(folder, zeros_s="60")
        self._folder, self._port = folder, free_ports(1)[0]
        self._process: subprocess.Popen[bytes] | None = None
        self._sent = 0

    def start(self) -> None:
        """Starts both; returns when Prometheus answers."""
        binary = program("prometheus")
        self.scorer.start()
        [job] = read(PROMETHEUS_FILE)["scrape_configs"]
        [target] = job["static_configs"][0]["targets"]
        text = PROMETHEUS_FILE.read_text(encoding="utf-8")
        assert (1, 2) == (text.count(target), text.count("_interval: 15s"))
        configuration = self._folder / PROMETHEUS_FILE.name
        configuration.write_text(text.replace(target, self.scorer.http).replace("_interval: 15s", "_interval: 1s"))
        shutil.copy(RULES_FILE, self._folder)
        places = {
            "--config.file": str(configuration),
            "--storage.tsdb.path": str(self._folder / "tsdb"),
            "--web.listen-address": f"127.0.0.1:{self._port}",
        }
        command = read(DEPLOY / "compose.yaml")["services"]["prometheus"]["command"]
        assert list(places) == [one.partition("=")[0] for one in command]
        with (self._folder / "prometheus.log").open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own command line
                [binary, *(f"{name}={place}" for name, place in places.items())], stdout=log, stderr=log
            )
        wait_for(self._scrapes, "Prometheus scrapes the scorer")

    def _scrapes(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "prometheus.log").read_text(encoding="utf-8")
        try:
            return self.ask('up{job="loopguard"} == 1') != []
        except OSError:
            return False

    def stop(self) -> None:
        """Ends both."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE_S)
        self.scorer.kill()

    def ask(self, expr: str) -> list[dict[str, Any]]:
        """The series that answer a query now."""
        query = urllib.parse.urlencode({"query": expr})
        address = f"http://127.0.0.1:{self._port}/api/v1/query?{query}"
        try:
            with urllib.request.urlopen(address, timeout=PATIENCE_S) as answer:
                found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
                return found
        except urllib.error.HTTPError as error:
            with error:
                if error.code == HTTPStatus.SERVICE_UNAVAILABLE:
                    return []  # it answers that it is ready and still reads its own log, a moment longer
                pytest.fail(f"Prometheus refuses {expr}: {error.read().decode()}")

    def answers(self, expr: str) -> bool:
        """Tells whether a query gives data: a series whose value is a number."""
        return any(not math.isnan(float(series["value"][1])) for series in self.ask(expr))

    def unanswered(self, queries: Sequence[str]) -> list[str]:
        """The queries that give no data, though they are asked again until the patience ends."""
        left, end = list(queries), time.monotonic() + PATIENCE_S
        while left and time.monotonic() < end:
            left = [expr for expr in left if not self.answers(expr)]
            time.sleep(0.2)
        return left

    def send(self, spans: Sequence[ReadableSpan], *, earlier_ns: int = 0) -> None:
        """Sends spans in requests of some size, as if they had been made earlier, and waits for the verdicts."""
        for first in range(0, len(spans), 500):
            request = encode_spans(spans[first : first + 500])
            for group in request.resource_spans:
                for scoped in group.scope_spans:
                    for span in scoped.spans:
                        span.start_time_unix_nano -= earlier_ns
                        span.end_time_unix_nano -= earlier_ns
            assert 200 == self.scorer.post(request.SerializeToString())
        self._sent += len(spans)
        # By what Prometheus knows: whoever reads the scorer's metrics counts as one that has seen the zeros.
        settled = f"sum(loopguard_received_spans_total) == {self._sent} and sum(loopguard_open_spans) == 0"
        wait_for(lambda: self.ask(settled) != [], "all is judged")


@pytest.fixture(scope="module")
def watching(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watching]:
    """Everything that the metrics tell has happened: loops, late spans, backfill, more than one batch of runs."""
    pair = Watching(tmp_path_factory.mktemp("watching"))
    try:
        pair.start()
        rng = random.Random(7)
        flat = [span for run in made_runs(RUNS, rng) for span in run]
        pair.send(flat)
        for earlier_ns in (0, HOUR_NS):
            for _ in range(2):
                late = made_runs(LATE_RUNS, rng)
                # The root is the last; without most of its calls a run is judged, and then revised.
                pair.send([span for run in late for span in (run[0], run[-1])], earlier_ns=earlier_ns)
                pair.send([span for run in late for span in run[1:-1]], earlier_ns=earlier_ns)
        yield pair
    finally:
        pair.stop()


def excused(expr: str) -> bool:
    """Tells whether a query reads nothing but what has no data for a declared reason."""
    return {one.name for one in selectors(expr)} <= set(NO_DATA)


def test_every_query_of_the_dashboard_gives_data(watching: Watching) -> None:
    """Each query is answered with a number, but for those whose metrics have none for a declared reason."""
    assert [] == watching.unanswered([expr for _, expr in dashboard_queries() if not excused(expr)])


def test_every_query_of_the_rules_gives_data(watching: Watching) -> None:
    """What is recorded has data; of alerts, which are to be empty, everything that they read has."""
    assert [] == watching.unanswered([*records(), *records().values()])
    read_by_alerts = sorted({one.text for rule in alerts().values() for one in selectors(rule["expr"])})
    assert [] == watching.unanswered(read_by_alerts)
    for rule in alerts().values():
        watching.ask(rule["expr"])


def test_what_is_declared_to_have_no_data_has_none(watching: Watching) -> None:
    """The list of reasons is not longer than it must be, and excuses one panel for each metric at most."""
    assert [] == [name for name in NO_DATA if watching.answers(name)]
    assert sum(excused(expr) for _, expr in dashboard_queries()) <= len(NO_DATA)


def test_loops_fire_the_alert(watching: Watching) -> None:
    """Loops of every service that has any alert by name, and nothing about the scorer itself does."""
    loops = {
        dict(labels)["service_name"]
        for (name, labels), value in watching.scorer.metrics().items()
        if name == metrics.AGENT_RUNS.sample and dict(labels)["outcome"] == RunOutcome.LOOP and value
    }
    assert loops
    firing = 'ALERTS{alertstate="firing"}'
    wait_for(lambda: loops == _services(watching, "LoopguardLoopRuns"), "the alert fires for each service")
    about_runs = {name for name, rule in alerts().items() if "service_name" in rule["annotations"]["summary"]}
    assert set() == {series["metric"]["alertname"] for series in watching.ask(firing)} - about_runs


def test_the_dashboard_counts_what_the_scorer_counts(watching: Watching) -> None:
    """Loop runs in the range: what the totals have, within what an extrapolated increase may be off."""
    [expr] = [expr for title, expr in dashboard_queries() if title == "Loop runs"]
    scorer = watching.scorer
    loops = scorer.value(metrics.AGENT_RUNS.sample, outcome=RunOutcome.LOOP) - scorer.value(
        metrics.RETRACTED[metrics.AGENT_RUNS.name].sample, outcome=RunOutcome.LOOP
    )
    [series] = watching.ask(expr)
    assert pytest.approx(loops, rel=0.25) == float(series["value"][1])


def _services(watching: Watching, alert: str) -> set[str]:
    firing = watching.ask(f'ALERTS{{alertname="{alert}", alertstate="firing"}}')
    return {series["metric"]["service_name"] for series in firing}
