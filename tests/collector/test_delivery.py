"""Each configuration, run by the real collector: what arrives is judged as what was sent, whatever breaks between."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Final

import pytest

from tests.captures.summary import CAPTURES
from tests.collector.collectors import CONFIGURATIONS, VARIANTS, Collector, running, wait_until
from tests.collector.cutting import ANSWER, CuttingProxy
from tests.collector.sending import Application, arrived, judged, keys, wait_for
from tests.collector.sinks import GrpcSink, HttpSink, Sink, listening

pytestmark = pytest.mark.collector

SOME: Final = CAPTURES[::4]
PACE_S: Final = 0.1

Run = Callable[..., Application]


def sinks_for(variant: str) -> list[Sink]:
    """Receivers of the kind and number that a configuration sends to."""
    return [GrpcSink(), GrpcSink()] if variant == "load-balanced" else [HttpSink()]


def address_of(sinks: list[Sink]) -> str:
    """All of them, as the configuration takes them."""
    return sinks[0].send_to if len(sinks) == 1 else f"[{', '.join(sink.send_to for sink in sinks)}]"


@pytest.fixture(params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> str:
    """Name of a configuration."""
    name: str = request.param
    return name


@pytest.fixture
def sinks(variant: str) -> list[Sink]:
    """What it sends to."""
    return sinks_for(variant)


@pytest.fixture
def collector(variant: str, sinks: list[Sink], tmp_path: Path) -> Collector:
    """A collector of that configuration, not started."""
    return Collector(CONFIGURATIONS / f"{variant}.yaml", tmp_path, address_of(sinks))


@pytest.fixture
def application(tmp_path: Path) -> Generator[Run]:
    """Starts an application, which ends with the test."""
    started: list[Application] = []

    def start(collector: Collector, captures: list[str] = SOME, *, pace_s: float = PACE_S) -> Application:
        started.append(Application(collector.endpoint, tmp_path, captures, pace_s=pace_s))
        return started[-1]

    yield start
    for one in started:
        one.close()


def assert_all_arrived(application: Application, sinks: list[Sink]) -> None:
    """Fails where a span is missing, or one that was not sent is there, or a run is judged differently."""
    sent = application.sent()
    wait_for(sent, sinks)
    received = arrived(sinks)
    assert keys(sent) == keys(received)
    assert judged(sent) == judged(received)


def wait_for_some(sinks: list[Sink], requests: int) -> None:
    """Waits until the stream is under way."""
    wait_until(lambda: sum(len(sink.received) for sink in sinks) >= requests, f"{requests} requests arrive")


def test_it_is_valid(collector: Collector) -> None:
    """The collector accepts the file, and all its components are in the tests' build."""
    found = collector.validate()
    assert (0, "") == (found.returncode, found.stderr)


def test_verdicts_are_those_of_what_was_sent(collector: Collector, sinks: list[Sink], application: Run) -> None:
    """Every capture, through our processor and the collector: each run is judged as before the collector."""
    with listening(*sinks), running(collector):
        app = application(collector, CAPTURES, pace_s=0)
        app.finish()
        assert_all_arrived(app, sinks)
    assert all(sink.received for sink in sinks)


def test_a_killed_collector_loses_nothing(collector: Collector, sinks: list[Sink], application: Run) -> None:
    """Three times killed while spans come in, and started again on the same folder: every span arrives."""
    with listening(*sinks), running(collector):
        app = application(collector)
        for requests in (2, 4, 6):
            wait_for_some(sinks, requests)
            collector.kill()
            collector.start()
        app.finish()
        assert_all_arrived(app, sinks)


def test_an_outage_loses_nothing(collector: Collector, sinks: list[Sink], application: Run) -> None:
    """The receiver away, all spans taken meanwhile, the collector killed: with both back every span arrives."""
    with listening(*sinks), running(collector):
        app = application(collector)
        wait_for_some(sinks, 2)
        for sink in sinks:
            sink.down()
        app.finish()
        assert keys(arrived(sinks)) < keys(app.sent())
        collector.kill()
        collector.start()
        for sink in sinks:
            sink.up()
        assert_all_arrived(app, sinks)


def test_a_stopped_collector_loses_nothing(collector: Collector, sinks: list[Sink], application: Run) -> None:
    """Stopped as an operator does, with the receiver there and with it away, and started again: every span arrives."""
    with listening(*sinks), running(collector):
        app = application(collector)
        wait_for_some(sinks, 2)
        collector.stop()
        collector.start()
        wait_for_some(sinks, 4)
        for sink in sinks:
            sink.down()
        for _ in range(2):
            collector.stop()
            collector.start()
        app.finish()
        collector.stop()
        assert keys(arrived(sinks)) < keys(app.sent())
        for sink in sinks:
            sink.up()
        collector.start()
        assert_all_arrived(app, sinks)


def test_cut_connections_lose_nothing(variant: str, tmp_path: Path, application: Run) -> None:
    """Connections cut in the middle of a request, and before its answer is seen: every span arrives."""
    sinks = sinks_for(variant)
    ports = [int(sink.send_to.rpartition(":")[2]) for sink in sinks]
    proxies = [CuttingProxy(port, [300, ANSWER, 2000, ANSWER, 700]) for port in ports]
    scheme = "" if variant == "load-balanced" else "http://"
    addresses = [f"{scheme}127.0.0.1:{proxy.port}" for proxy in proxies]
    send_to = addresses[0] if len(addresses) == 1 else f"[{', '.join(addresses)}]"
    collector = Collector(CONFIGURATIONS / f"{variant}.yaml", tmp_path, send_to)
    with listening(*sinks), running(collector):
        app = application(collector)
        app.finish()
        assert_all_arrived(app, sinks)
    assert all(proxy.made >= 3 for proxy in proxies)
    for proxy in proxies:
        proxy.close()
