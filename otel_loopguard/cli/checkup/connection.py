"""Looks whether the OTLP endpoint answers: a connection and, over HTTP, an export request without a span.

Invariants: of an endpoint only scheme, host, port and path are shown, and the path only where it is OTLP's own; headers
are sent as an exporter sends them, and never shown. What goes wrong is told by its kind, never by a server's words.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from typing import IO, Final, NamedTuple

from otel_loopguard.cli import checkup
from otel_loopguard.cli.checkup import Check, Diagnosis
from otel_loopguard.cli.checkup.installed import Installed
from otel_loopguard.words import safe

ENDPOINT, TRACES_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
PATH: Final = "/v1/traces"
GRPC: Final = "grpc"
TIMEOUT_S: Final = 5.0
"""Long enough for a slow network, short enough to wait for."""
_HTTP_PORT, _GRPC_PORT, _TLS_PORT = 4318, 4317, 443
_HTTP_EXPORTER: Final = "opentelemetry-exporter-otlp-proto-http"
_PROBLEMS: Final[Mapping[int, tuple[str, str]]] = {
    401: ("refuses us: not authenticated", "give the credentials in OTEL_EXPORTER_OTLP_HEADERS"),
    403: ("refuses us: not allowed", "check the credentials in OTEL_EXPORTER_OTLP_HEADERS"),
    404: ("has nothing at this path", f"OTLP over HTTP is received at {PATH}; {TRACES_ENDPOINT} is used as it stands"),
    405: ("takes no export at this path", f"OTLP over HTTP is received at {PATH}"),
    415: ("does not take protobuf over HTTP", "check that OTEL_EXPORTER_OTLP_PROTOCOL is what the receiver speaks"),
}
_LISTEN: Final = "start the receiver, or mend the host and port"
_FAILURES: Final[tuple[tuple[type[Exception], str, str], ...]] = (
    (socket.gaierror, "its host has no address", "mend the host's name, or the name service"),
    (ConnectionRefusedError, "nothing listens there", _LISTEN),
    (TimeoutError, f"no answer within {TIMEOUT_S:.0f} s", f"{_LISTEN}; look for a firewall between"),
    (
        ssl.SSLCertVerificationError,
        "its certificate is not trusted",
        "name its authority in OTEL_EXPORTER_OTLP_CERTIFICATE",
    ),
    (ssl.SSLError, "it does not speak TLS as we do", "write http:// if the receiver has no TLS"),
)


class Target(NamedTuple):
    """Where spans would be sent."""

    url: str
    source: str
    """What named it."""
    protocol: str
    headers: Mapping[str, str]
    certificate: str | None = None
    """A file of certificates to trust, by its path."""


def connection(environ: Mapping[str, str], packages: Installed, endpoint: str | None) -> Iterator[Diagnosis]:
    """Says whether the endpoint answers.

    Args:
        environ: environment variables, as an exporter reads them.
        packages: what is installed: it tells which protocol an exporter would speak.
        endpoint: asked for outright; None for what the environment says.
    """
    target = _target(environ, packages, endpoint)
    if target is None:
        yield checkup.skipped(
            Check.CONNECTION,
            f"neither {TRACES_ENDPOINT} nor {ENDPOINT} is set",
            "give --endpoint URL to look at one, or --app to look at those that your code names",
        )
        return
    yield _try(target)


def reachable(url: str, source: str) -> Diagnosis:
    """Says whether something listens where an exporter that was made in code sends to.

    Args:
        url: the exporter's; with or without a scheme.
        source: what it is called in the diagnosis.
    """
    return _try(Target(url, source, GRPC, {}))


def _target(environ: Mapping[str, str], packages: Installed, endpoint: str | None) -> Target | None:
    def named(name: str) -> str:
        return environ.get(f"OTEL_EXPORTER_OTLP_TRACES_{name}", environ.get(f"OTEL_EXPORTER_OTLP_{name}", "")).strip()

    url, source, complete = endpoint or "", "--endpoint", True
    if not url:
        url, source = environ.get(TRACES_ENDPOINT, "").strip(), TRACES_ENDPOINT
    if not url:
        url, source, complete = environ.get(ENDPOINT, "").strip(), ENDPOINT, False
    if not url:
        return None
    protocol = named("PROTOCOL").lower() or _guess(url, packages)
    if protocol != GRPC and (not complete or (source == "--endpoint" and not _path(url))):
        url = url.rstrip("/") + PATH
    pairs = [item.partition("=") for item in named("HEADERS").split(",")]
    headers = {name.strip(): urllib.parse.unquote(value.strip()) for name, _, value in pairs if name.strip()}
    return Target(url, source, protocol, headers, named("CERTIFICATE") or None)


def _path(url: str) -> str:
    """The path of a URL without slashes around it; empty, too, where it is no URL, which is said later."""
    try:
        return urllib.parse.urlsplit(url).path.strip("/")
    except ValueError:
        return ""


def _guess(url: str, packages: Installed) -> str:
    """The protocol that an exporter speaks where none is set: by the well-known ports, else by what is installed."""
    try:
        split = urllib.parse.urlsplit(url)
        port = split.port
    except ValueError:
        return "http/protobuf"
    if port == _HTTP_PORT or split.path.endswith(PATH):
        return "http/protobuf"
    if port == _GRPC_PORT:
        return GRPC
    return "http/protobuf" if _HTTP_EXPORTER in packages else GRPC


def _try(target: Target) -> Diagnosis:
    place = _Place.of(target)
    if place is None:
        return checkup.problem(
            Check.CONNECTION, f"{target.source} is no URL of a receiver", "write it like http://collector:4318"
        )
    try:
        trusted = ssl.create_default_context(cafile=target.certificate) if place.tls else None
        if target.protocol == GRPC:
            _connect(place, trusted)
            return checkup.ok(Check.CONNECTION, f"{place.shown} ({target.source}) takes connections")
        return _judged(target, place, _post(target, trusted))
    except (OSError, http.client.HTTPException, ValueError) as error:
        for kind, what, remedy in _FAILURES:
            if isinstance(error, kind):
                return _bad(target, place, what, remedy)
        return _bad(target, place, f"the connection failed ({type(error).__name__})", _LISTEN)


def _judged(target: Target, place: _Place, status: int) -> Diagnosis:
    if status in range(200, 300):
        return checkup.ok(Check.CONNECTION, f"{place.shown} ({target.source}) takes spans over HTTP")
    if status in _PROBLEMS:
        what, remedy = _PROBLEMS[status]
        return _bad(target, place, f"{what} (status {status})", remedy)
    if status in range(300, 400):
        return _bad(target, place, f"it points elsewhere (status {status})", "name the place itself that it points to")
    if status == http.client.BAD_REQUEST:
        return checkup.note(
            Check.CONNECTION, f"{place.shown} ({target.source}) answers, and refuses an export without spans"
        )
    return _bad(target, place, f"it answers with status {status}", "look into the receiver's own log")


def _bad(target: Target, place: _Place, what: str, remedy: str) -> Diagnosis:
    return checkup.problem(Check.CONNECTION, f"{place.shown} ({target.source}): {what}", remedy)


class _Place(NamedTuple):
    """Host and port of a URL."""

    host: str
    port: int
    tls: bool
    shown: str

    @classmethod
    def of(cls, target: Target) -> _Place | None:
        text = target.url if "://" in target.url else f"http://{target.url}"
        try:
            split = urllib.parse.urlsplit(text)
            host, port = split.hostname, split.port
        except ValueError:
            return None
        if not host or split.scheme not in {"http", "https"}:
            return None
        tls = split.scheme == "https"
        port = port or (_TLS_PORT if tls else _GRPC_PORT if target.protocol == GRPC else 80)
        path = PATH if split.path == PATH else "/…" if split.path.strip("/") else ""
        name = f"[{host}]" if ":" in host else host
        return cls(host, port, tls, f"{split.scheme}://{safe(name)}:{port}{path}")


def _connect(place: _Place, trusted: ssl.SSLContext | None) -> None:
    with socket.create_connection((place.host, place.port), timeout=TIMEOUT_S) as connected:
        if trusted is not None:
            trusted.set_alpn_protocols(["h2"])
            trusted.wrap_socket(connected, server_hostname=place.host).close()


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: an exporter's POST would not be one any more."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> None:
        """Says that there is nothing to follow."""


def _post(target: Target, trusted: ssl.SSLContext | None) -> int:
    """Sends an `ExportTraceServiceRequest` without spans, which is no bytes at all, and returns the status."""
    request = urllib.request.Request(  # noqa: S310 - `_Place` has looked at the scheme
        target.url, data=b"", method="POST", headers={**target.headers, "Content-Type": "application/x-protobuf"}
    )
    handlers: list[urllib.request.BaseHandler] = [_Stay()]
    if trusted is not None:
        handlers.append(urllib.request.HTTPSHandler(context=trusted))
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=TIMEOUT_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
    except urllib.error.URLError as error:
        if isinstance(error.reason, OSError):
            raise error.reason from None
        raise ConnectionError from None
