"""The scorer's own receivers behind the collector: they understand what it sends, and it what they answer."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from otel_loopguard.scorer.access import Tokens
from otel_loopguard.scorer.grpc_server import GrpcServer
from otel_loopguard.scorer.receiving import Limits, Receiver
from otel_loopguard.scorer.records import Refusal, RefusedError
from tests.captures.summary import CAPTURES
from tests.collector.collectors import CONFIGURATIONS, PATIENCE_S, Collector, running, wait_until
from tests.collector.sending import Application, judged, keys
from tests.scorer.receivers import MemoryIntake, served

pytestmark = pytest.mark.collector

TOKEN: Final = "fixture-token-0001"  # noqa: S105 - no secret
LIMITS: Final = Limits(max_body_bytes=16 * 2**20, max_unpacked_bytes=64 * 2**20)


def assert_all_kept(application: Application, intakes: list[MemoryIntake]) -> None:
    """Fails where a span that was sent is missing, or a run is judged differently."""
    sent = application.sent()
    wait_until(
        lambda: keys(sent) == keys(span for intake in intakes for span in intake.kept),
        "every span is kept",
        seconds=2 * PATIENCE_S,
    )
    assert judged(sent) == judged(span for intake in intakes for span in intake.kept)


def test_over_http(tmp_path: Path) -> None:
    """Application, agent, the scorer's HTTP server, which first is busy: it keeps every span, judged as sent."""
    intake = MemoryIntake()
    intake.refuse = RefusedError(Refusal.BUSY)
    receiver = Receiver(intake, limits=LIMITS)
    with served(receiver, tokens=Tokens([TOKEN])) as port:
        collector = Collector(CONFIGURATIONS / "agent.yaml", tmp_path, f"http://127.0.0.1:{port}")
        collector.environment["LOOPGUARD_SEND_TOKEN"] = TOKEN
        with running(collector):
            app = Application(collector.endpoint, tmp_path, CAPTURES)
            app.finish()
            assert [] == intake.kept
            intake.refuse = None
            assert_all_kept(app, [intake])


def test_over_grpc(tmp_path: Path) -> None:
    """Application, load-balanced tier, two of the scorer's gRPC servers: they keep every span, judged as sent."""
    intakes = [MemoryIntake(), MemoryIntake()]
    with ExitStack() as stack:
        ports = []
        for intake in intakes:
            server = GrpcServer(Receiver(intake, limits=LIMITS), tokens=Tokens([TOKEN]))
            stack.callback(server.stop)
            ports.append(server.start("127.0.0.1:0"))
        send_to = f"[{', '.join(f'127.0.0.1:{port}' for port in ports)}]"
        collector = Collector(CONFIGURATIONS / "load-balanced.yaml", tmp_path, send_to)
        collector.environment |= {"LOOPGUARD_SEND_TOKEN": TOKEN, "LOOPGUARD_SEND_COMPRESSION": "gzip"}
        stack.enter_context(running(collector))
        app = Application(collector.endpoint, tmp_path, CAPTURES)
        app.finish()
        assert_all_kept(app, intakes)
    assert all(intake.kept for intake in intakes)
