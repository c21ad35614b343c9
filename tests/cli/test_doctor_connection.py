"""What `doctor` says of OTLP endpoints: real sockets on the loopback."""

from __future__ import annotations

import socket
from collections.abc import Mapping

import pytest

from otel_loopguard.cli.checkup import Diagnosis, Level
from otel_loopguard.cli.checkup.connection import connection
from tests.cli.doctoring import (
    SECRET,
    free_port,
    server,
)

# --- the connection -------------------------------------------------------------------------------------------


def tried(endpoint: str | None = None, packages: Mapping[str, str] | None = None, **environ: str) -> Diagnosis:
    """What is told of one endpoint."""
    (told,) = connection(environ, packages or {}, endpoint)
    return told


@pytest.mark.parametrize(
    ("status", "level", "expected"),
    [
        (200, Level.OK, "takes spans over HTTP"),
        (202, Level.OK, "takes spans over HTTP"),
        (302, Level.PROBLEM, "points elsewhere (status 302)"),
        (400, Level.NOTE, "refuses an export without spans"),
        (401, Level.PROBLEM, "not authenticated (status 401)"),
        (403, Level.PROBLEM, "not allowed"),
        (404, Level.PROBLEM, "nothing at this path"),
        (415, Level.PROBLEM, "does not take protobuf"),
        (503, Level.PROBLEM, "status 503"),
    ],
)
def test_answers_of_a_receiver(status: int, level: Level, expected: str) -> None:
    """An empty export request is sent as an exporter would send it, and the answer is told in plain words."""
    with server(status) as receiver:
        told = tried(
            OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url,
            OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
            OTEL_EXPORTER_OTLP_HEADERS=f"authorization=Bearer%20{SECRET},x-team=a",
        )
        ((path, headers, body),) = receiver.received
    assert (level, True, False) == (told.level, expected in told.what, SECRET in str(told))
    assert ("/v1/traces", b"", f"Bearer {SECRET}", "a") == (path, body, headers["authorization"], headers["x-team"])
    assert "application/x-protobuf" == headers["content-type"]
    assert level is not Level.PROBLEM or told.remedy


def test_the_endpoint_of_traces_is_used_as_it_stands() -> None:
    """Its path is not added to, and goes before the endpoint of all signals."""
    with server() as receiver:
        tried(
            OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=f"{receiver.url}/own/path",
            OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1",
            OTEL_EXPORTER_OTLP_TRACES_PROTOCOL="http/protobuf",
        )
        assert ["/own/path"] == [path for path, _, _ in receiver.received]


def test_endpoint_option_is_completed_and_wins() -> None:
    """--endpoint with a host and port only means OTLP's own path."""
    with server() as receiver:
        told = tried(
            receiver.url,
            {"opentelemetry-exporter-otlp-proto-http": "1"},
            OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1",
        )
        assert ["/v1/traces"] == [path for path, _, _ in receiver.received]
    assert f"{receiver.url}/v1/traces (--endpoint) takes spans over HTTP" == told.what


def test_grpc_is_tried_with_a_connection() -> None:
    """Nothing is said over gRPC: that something listens is all that is told."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"127.0.0.1:{listening.getsockname()[1]}"
        told = tried(OTEL_EXPORTER_OTLP_ENDPOINT=url, OTEL_EXPORTER_OTLP_PROTOCOL="grpc")
    assert (Level.OK, True) == (told.level, "takes connections" in told.what)


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:{port}", "nothing listens there"),
        ("https://127.0.0.1:{plain}", "does not speak TLS as we do"),
        (f"http://[{SECRET}", "is no URL of a receiver"),
        (f"ftp://{SECRET}", "is no URL of a receiver"),
        ("http://127.0.0.1:99999", "is no URL of a receiver"),
        ("http://:4318", "is no URL of a receiver"),
    ],
)
def test_connections_that_fail(protocol: str, url: str, expected: str) -> None:
    """Each way in which an endpoint cannot be reached has its own words, and shows nothing of a URL that is none."""
    with server() as plain:
        port = plain.server_address[1]
        url = url.replace("{port}", str(free_port())).replace("{plain}", str(port))
        told = tried(OTEL_EXPORTER_OTLP_ENDPOINT=url, OTEL_EXPORTER_OTLP_PROTOCOL=protocol)
    assert (Level.PROBLEM, True, False) == (told.level, expected in told.what, SECRET in str(told))


def test_nothing_is_tried_where_nothing_is_named() -> None:
    """Without an endpoint there is a reason and a way on, and no problem."""
    told = tried()
    assert (Level.SKIPPED, True) == (told.level, "--endpoint" in told.remedy)


def test_an_endpoint_option_that_is_no_url_is_said() -> None:
    """It is taken apart to complete it, which must not fail either."""
    told = tried(f"http://[{SECRET}", OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf")
    assert (True, False) == ("is no URL of a receiver" in told.what, SECRET in str(told))
