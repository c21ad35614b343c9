"""Every setting of the scorer, as one table; the command line, the environment and the docs are made from it.

Invariants: all of it is checked before anything starts; the defaults are safe on a machine that others share:
loopback only, no content kept.
"""

from __future__ import annotations

import ipaddress
import re
import urllib.parse
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import msgspec

from otel_loopguard.errors import LoopGuardError

PREFIX: Final = "OTEL_LOOPGUARD_SCORER_"
"""Each setting is also read from the environment, under this and its name in capitals."""
MIB: Final = 2**20


class SettingsError(LoopGuardError):
    """A setting of the scorer cannot be used."""


class Raw(StrEnum):
    """What is done with tool spans that still hold content."""

    DIGEST = "digest"
    REFUSE = "refuse"


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One setting as the command line and the reference page show it."""

    name: str
    """As the field of `ScorerSettings`; `--` and dashes on the command line."""
    shape: str
    doc: str
    read: Callable[[str], Any]
    default: str
    """As it would be written; empty for none."""


class ScorerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one scorer; see `SETTINGS` for what each means."""

    data: Path
    http: str | None
    grpc: str | None
    allow_remote: bool
    token_file: Path | None
    tls_cert: Path | None
    tls_key: Path | None
    tls_client_ca: Path | None
    raw: Raw
    policy: Path | None
    grace_s: float
    idle_s: float
    max_age_s: float
    zeros_s: float
    max_group_spans: int
    max_body_bytes: int
    max_unpacked_bytes: int
    max_spans_per_s: int
    retention_days: float
    max_data_bytes: int
    verdict_file: Path | None
    otlp_endpoint: str | None


def _address(text: str) -> str | None:
    """HOST:PORT; `off` for none."""
    if text == "off":
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:  # noqa: PLR2004 - the largest port
        message = "must be HOST:PORT, or off"
        raise ValueError(message)
    return text


def _number(least: float, most: float, *, whole: bool = False) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            number = int(text) if whole else float(text)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            message = f"must be a {'whole ' if whole else ''}number from {least:,} to {most:,}"
            raise ValueError(message)
        return number

    return read


def _path(text: str) -> Path | None:
    return Path(text) if text else None


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        message = "must be true or false"
        raise ValueError(message)
    return text.lower() == "true"


def _raw(text: str) -> Raw:
    try:
        return Raw(text)
    except ValueError:
        message = f"must be {' or '.join(Raw)}"
        raise ValueError(message) from None


def _endpoint(text: str) -> str | None:
    if not text:
        return None
    try:
        split = urllib.parse.urlsplit(text)
        fits = split.scheme in ("http", "https") and split.hostname and (split.port or 1)
    except ValueError:
        fits = False
    if not fits or " " in text or split.username is not None or split.query or split.fragment:
        message = "must be like http://HOST:PORT or https://HOST:PORT/PATH, without a user's name and without a query"
        raise ValueError(message)
    return text.rstrip("/")


SETTINGS: Final = (
    Setting(name="data", shape="folder", doc="Where spans and verdicts are kept.", read=_path, default=""),
    Setting(
        name="http",
        shape="HOST:PORT or `off`",
        doc="Where OTLP/HTTP, the Prometheus endpoint, health and the page are served.",
        read=_address,
        default="127.0.0.1:4318",
    ),
    Setting(
        name="grpc",
        shape="HOST:PORT or `off`",
        doc="Where OTLP/gRPC is served.",
        read=_address,
        default="127.0.0.1:4317",
    ),
    Setting(
        name="allow_remote",
        shape="`true` or `false`",
        doc="Serve other machines without TLS and a token all the same.",
        read=_truth,
        default="false",
    ),
    Setting(
        name="token_file",
        shape="file",
        doc="Holds the bearer token that senders must show.",
        read=_path,
        default="",
    ),
    Setting(name="tls_cert", shape="file", doc="Certificate chain, PEM.", read=_path, default=""),
    Setting(name="tls_key", shape="file", doc="Its private key, PEM.", read=_path, default=""),
    Setting(
        name="tls_client_ca",
        shape="file",
        doc="Authorities, PEM; then senders must show a certificate of one of them.",
        read=_path,
        default="",
    ),
    Setting(
        name="raw",
        shape="`digest` or `refuse`",
        doc="What is done with tool spans that still hold content: digested on arrival, or rejected.",
        read=_raw,
        default="digest",
    ),
    Setting(name="policy", shape="file", doc="The policy file; none: the default policy.", read=_path, default=""),
    Setting(
        name="grace_s",
        shape="seconds, 0 to 3600",
        doc="How long after its root span has ended a run is judged.",
        read=_number(0, 3600),
        default="5",
    ),
    Setting(
        name="idle_s",
        shape="seconds, 0.1 to 86400",
        doc="How long after its last span a run without an ended root is judged.",
        read=_number(0.1, 86_400),
        default="60",
    ),
    Setting(
        name="max_age_s",
        shape="seconds, 1 to 604800",
        doc="A run that goes on for longer is judged so often, and revised.",
        read=_number(1, 604_800),
        default="900",
    ),
    Setting(
        name="zeros_s",
        shape="seconds, 0 to 600",
        doc=(
            "How long the first verdict under new labels waits until its metrics were read at 0, without which no "
            "alert on an increase would see it."
        ),
        read=_number(0, 600),
        default="60",
    ),
    Setting(
        name="max_group_spans",
        shape="spans, 100 to 1000000",
        doc="Spans looked at together at most: with more, a run is judged at once, and what follows is its next part.",
        read=_number(100, 1_000_000, whole=True),
        default="125000",
    ),
    Setting(
        name="max_body_bytes",
        shape="bytes",
        doc="Size of one request at most, as it is sent.",
        read=_number(1024, 2**31 - 1, whole=True),
        default=str(16 * MIB),
    ),
    Setting(
        name="max_unpacked_bytes",
        shape="bytes",
        doc="Size of one request at most, unpacked.",
        read=_number(1024, 2**31 - 1, whole=True),
        default=str(64 * MIB),
    ),
    Setting(
        name="max_spans_per_s",
        shape="spans a second; 0: no limit",
        doc="Above this rate requests are refused, to be repeated.",
        read=_number(0, 10**9, whole=True),
        default="0",
    ),
    Setting(
        name="retention_days",
        shape="days, 0.01 to 3650",
        doc="How long judged runs are kept.",
        read=_number(0.01, 3650),
        default="7",
    ),
    Setting(
        name="max_data_bytes",
        shape="bytes",
        doc="Size of the data folder at most: past it the oldest judged runs go.",
        read=_number(16 * MIB, 2**50, whole=True),
        default=str(10 * 1024 * MIB),
    ),
    Setting(
        name="verdict_file",
        shape="file",
        doc="Verdicts are added to it as JSON lines.",
        read=_path,
        default="",
    ),
    Setting(
        name="otlp_endpoint",
        shape="http:// or https:// address",
        doc="Where metrics and verdict events are sent by OTLP/HTTP, such as `http://127.0.0.1:4320`.",
        read=_endpoint,
        default="",
    ),
)
"""In the order of the fields of `ScorerSettings`."""


def read_settings(given: Mapping[str, str | None], environ: Mapping[str, str]) -> ScorerSettings:
    """Reads all settings: the command line first, then the environment, then the defaults.

    Args:
        given: by name, as the command line has them; None or absent for not given.
        environ: environment variables; empty ones count as not set.

    Raises:
        SettingsError: a value cannot be used, two contradict each other, or a variable is none of ours though it is
            named like one; says which, and where it stands.
    """
    _check_names(environ)
    values: dict[str, Any] = {}
    for setting in SETTINGS:
        text, where = given.get(setting.name), f"--{setting.name.replace('_', '-')}"
        if text is None:
            variable = PREFIX + setting.name.upper()
            text, where = environ.get(variable) or None, variable
        try:
            values[setting.name] = setting.read(setting.default if text is None else text)
        except ValueError as error:
            message = f"{where} {error}"
            raise SettingsError(message) from None
    if values["data"] is None:
        message = f"no data folder: give --data FOLDER, or set {PREFIX}DATA"
        raise SettingsError(message)
    settings = ScorerSettings(**values)
    _check(settings)
    return settings


_OF_A_SERVICE: Final = re.compile(
    r"(?:[A-Z0-9_]+_)?(?:SERVICE_HOST=.*|SERVICE_PORT(?:_[A-Z0-9_]+)?=[0-9]+|PORT=(?:tcp|udp|sctp)://.*"
    r"|PORT_[0-9]+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?=.*)"
)
"""What Kubernetes sets in every container, of a service whose name begins like ours."""


def _check_names(environ: Mapping[str, str]) -> None:
    """Refuses a mistyped variable: what its owner wanted would be left undone without a word."""
    known = [setting.name.upper() for setting in SETTINGS]
    for name, value in sorted(environ.items()):
        rest = name.removeprefix(PREFIX)
        if value and rest != name and rest not in known and not _OF_A_SERVICE.fullmatch(f"{rest}={value}"):
            close = get_close_matches(rest[:64], known, n=1, cutoff=0.6)
            hint = f"did you mean {PREFIX}{close[0]}?" if close else "the page of the settings lists all there are"
            message = f"{name[:100]} is no setting of the scorer; {hint}"
            raise SettingsError(message)


def _check(settings: ScorerSettings) -> None:
    if settings.http is None and settings.grpc is None:
        message = "--http and --grpc are both off: nothing could be received"
        raise SettingsError(message)
    if (settings.tls_cert is None) != (settings.tls_key is None):
        message = "--tls-cert and --tls-key go together: one of them is missing"
        raise SettingsError(message)
    if settings.tls_client_ca is not None and settings.tls_cert is None:
        message = "--tls-client-ca needs --tls-cert and --tls-key"
        raise SettingsError(message)
    guarded = settings.tls_cert is not None and (settings.token_file is not None or settings.tls_client_ca is not None)
    for address in (settings.http, settings.grpc):
        if address is not None and not is_loopback(address) and not guarded and not settings.allow_remote:
            message = (
                f"{address} can be reached from other machines: give --tls-cert, --tls-key and --token-file "
                "(or --tls-client-ca), or say --allow-remote true"
            )
            raise SettingsError(message)


def is_loopback(address: str) -> bool:
    """Tells whether only this machine can reach HOST:PORT."""
    host = address.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
