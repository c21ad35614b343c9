"""From an application through each configuration to the scorer: verdicts are those of `replay`, whatever breaks."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from otel_loopguard import policy as policies
from otel_loopguard.scorer.counting import net
from tests.captures.summary import CAPTURES
from tests.collector.collectors import CONFIGURATIONS, PATIENCE_S, VARIANTS, Collector, free_ports, running, wait_until
from tests.collector.cutting import ANSWER, CuttingProxy
from tests.collector.sending import Application
from tests.replaying import replay_items
from tests.scorer.serving import Scorer, told

pytestmark = pytest.mark.collector

RUNS: Final = frozenset({"loopguard_runs_total", "loopguard_backfill_runs_total"})
CUTS: Final = [300, ANSWER, 2000, ANSWER, 700]
AWAY_S: Final = 60.0
PACE_S: Final = 3.0


def replayed(application: Application) -> dict[str, dict[str, Any]]:
    """The verdicts of `replay` on what was sent, by run."""
    verdicts = [report.verdict for report in replay_items(application.sent(), policies.default())]
    return {one.run_id: told(msgspec.json.decode(msgspec.json.encode(one))) for one in verdicts}


def assert_judged_as_replayed(application: Application, collector: Collector, scorer: Scorer) -> None:
    """Fails where a run is missing or judged differently once all has arrived; the scorer has stopped then."""
    wait_until(lambda: collector.metric("otelcol_exporter_queue_size") == 0, "the queue is empty", seconds=PATIENCE_S)
    scorer.settled()
    expected = replayed(application)
    assert len(expected) > 10
    counted = net(scorer.metrics())
    assert 0 == scorer.stop()
    assert expected == {run_id: told(verdict) for run_id, verdict in scorer.verdicts().items()}
    assert len(expected) == sum(value for (name, _), value in counted.items() if name in RUNS)


@pytest.mark.parametrize("broken", [False, True], ids=["whole", "broken"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_verdicts_are_those_of_replay(variant: str, tmp_path: Path, *, broken: bool) -> None:
    """Each run is judged as `replay` does; also with the collector and the scorer killed and the scorer away."""
    http, grpc = (f"127.0.0.1:{port}" for port in free_ports(2))
    send_to = f"[{grpc}]" if variant == "load-balanced" else f"http://{http}"
    collector = Collector(CONFIGURATIONS / f"{variant}.yaml", tmp_path, send_to)
    with Scorer(tmp_path, http=http, grpc=grpc) as scorer, running(collector):
        app = Application(collector.endpoint, tmp_path, CAPTURES[::3], pace_s=0.1 if broken else 0)
        try:
            if broken:
                wait_until(lambda: scorer.value("loopguard_received_spans_total") > 50, "spans arrive")
                scorer.kill()
                collector.kill()
                collector.start()
            app.finish()
        finally:
            app.close()
        if broken:
            scorer.start()
        assert_judged_as_replayed(app, collector, scorer)


@pytest.mark.parametrize("variant", VARIANTS)
def test_cut_connections_change_no_verdict(variant: str, tmp_path: Path) -> None:
    """Connections to the scorer cut within requests, and before answers are seen: what came twice counts once."""
    with Scorer(tmp_path) as scorer:
        served = scorer.grpc if variant == "load-balanced" else scorer.http
        proxy = CuttingProxy(int(served.rpartition(":")[2]), list(CUTS))
        address = f"127.0.0.1:{proxy.port}"
        send_to = f"[{address}]" if variant == "load-balanced" else f"http://{address}"
        collector = Collector(CONFIGURATIONS / f"{variant}.yaml", tmp_path, send_to)
        with running(collector):
            app = Application(collector.endpoint, tmp_path, CAPTURES[::4], pace_s=0.1)
            try:
                app.finish()
            finally:
                app.close()
            assert_judged_as_replayed(app, collector, scorer)
        assert proxy.made >= 3
        proxy.close()


def test_a_scorer_that_is_away_for_a_minute_misses_nothing(tmp_path: Path) -> None:
    """Stopped for 60 s while spans come into the collector: each run is judged as `replay` does, and counted once."""
    http = f"127.0.0.1:{free_ports(1)[0]}"
    collector = Collector(CONFIGURATIONS / "gateway.yaml", tmp_path, f"http://{http}")
    with Scorer(tmp_path, http=http, grpc="off") as scorer, running(collector):
        # It sends for longer than the scorer is away.
        app = Application(collector.endpoint, tmp_path, CAPTURES[::4], pace_s=PACE_S)
        try:
            wait_until(lambda: scorer.value("loopguard_received_spans_total") > 50, "spans arrive")
            assert 0 == scorer.stop()
            before = len(app.sent())
            time.sleep(AWAY_S)
            away = len(app.sent())
            assert collector.metric("otelcol_exporter_queue_size") > 0
            scorer.start()
            app.finish()
        finally:
            app.close()
        assert_judged_as_replayed(app, collector, scorer)
        assert away > before + 50
        assert len(app.sent()) > away
