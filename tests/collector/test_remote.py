"""Senders on other machines: they need TLS and a token, and with both an agent's spans arrive."""

from __future__ import annotations

import ssl
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Final

import pytest

from tests.captures.summary import CAPTURES
from tests.collector.collectors import CONFIGURATIONS, Collector, running
from tests.collector.sending import Application, arrived, judged, keys, wait_for
from tests.collector.sinks import HttpSink, listening

pytestmark = pytest.mark.collector

TOKEN: Final = "fixture-token"  # noqa: S105 - no secret
REMOTE: Final = CONFIGURATIONS / "remote.yaml"


@pytest.fixture
def gateway(tmp_path: Path) -> Collector:
    """A gateway for other machines, not started."""
    folder = tmp_path / "gateway"
    folder.mkdir()
    (folder / "tokens").write_text(f"{TOKEN}\n", encoding="utf-8")
    subprocess.run(  # noqa: S603 - our own command line
        [  # noqa: S607 - the machine's own
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
            "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
            "-keyout", folder / "key.pem", "-out", folder / "cert.pem",
        ],
        check=True,
        capture_output=True,
    )  # fmt: skip
    collector = Collector(CONFIGURATIONS / "gateway.yaml", folder, HttpSink().send_to, overlays=[REMOTE])
    collector.environment |= {
        "LOOPGUARD_LISTEN_CERT": str(folder / "cert.pem"),
        "LOOPGUARD_LISTEN_KEY": str(folder / "key.pem"),
        "LOOPGUARD_LISTEN_TOKEN_FILE": str(folder / "tokens"),
    }
    return collector


def _status(gateway: Collector, token: str | None) -> int:
    """What a request of no spans is answered, over TLS."""
    trusted = ssl.create_default_context(cafile=gateway.environment["LOOPGUARD_LISTEN_CERT"])
    headers = {"Content-Type": "application/x-protobuf"} | ({} if token is None else {"Authorization": token})
    address = gateway.endpoint.replace("http://", "https://")
    request = urllib.request.Request(f"{address}/v1/traces", data=b"", headers=headers)  # noqa: S310 - our own address
    try:
        with urllib.request.urlopen(request, context=trusted, timeout=30) as answer:  # noqa: S310 - our own address
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_without_its_settings_it_does_not_start(tmp_path: Path) -> None:
    """With no token file named, the collector refuses the files instead of letting everyone in."""
    collector = Collector(CONFIGURATIONS / "gateway.yaml", tmp_path, HttpSink().send_to, overlays=[REMOTE])
    found = collector.validate()
    assert 0 != found.returncode
    assert "bearertokenauth/senders" in found.stderr


def test_senders_need_the_token(gateway: Collector) -> None:
    """Over TLS: without a token and with another one 401, with it 200."""
    with running(gateway):
        assert [401, 401, 200] == [_status(gateway, one) for one in (None, "Bearer other", f"Bearer {TOKEN}")]
    assert TOKEN not in gateway.logged()


def test_an_agent_sends_over_tls(gateway: Collector, tmp_path: Path) -> None:
    """Application, agent, TLS, gateway, receiver: every span arrives and is judged as it was sent."""
    sink = HttpSink()
    gateway.environment["LOOPGUARD_SEND_TO"] = sink.send_to
    agent = Collector(CONFIGURATIONS / "agent.yaml", tmp_path, gateway.endpoint.replace("http://", "https://"))
    agent.environment |= {
        "LOOPGUARD_SEND_TOKEN": TOKEN,
        "LOOPGUARD_SEND_CA": gateway.environment["LOOPGUARD_LISTEN_CERT"],
    }
    with listening(sink), running(gateway), running(agent):
        app = Application(agent.endpoint, tmp_path, CAPTURES[::4])
        app.finish()
        wait_for(app.sent(), [sink])
    assert keys(app.sent()) == keys(arrived([sink]))
    assert judged(app.sent()) == judged(arrived([sink]))
