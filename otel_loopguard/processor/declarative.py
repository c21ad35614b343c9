"""Exporters named `loopguard` in a declarative configuration file, or in `OTEL_TRACES_EXPORTER` and its like.

Each stands around another exporter and hands on what comes, without content:

    processors:
      - batch:
          exporter:
            loopguard:
              content: drop_all
              exporter: {otlp_http: {endpoint: "https://collector:4318/v1/traces"}}

As part of a list of names (`OTEL_TRACES_EXPORTER=console,loopguard`) it stands around the OTLP exporter of the
protocol that the environment names.

Invariants: only entry points and public classes of OpenTelemetry are used; what is declared wrongly is refused with one
line, as any wrong declaration is, and then nothing is exported; a key that cannot be used is no reason to refuse.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Final, NoReturn

from opentelemetry.sdk._logs.export import LogRecordExporter
from opentelemetry.sdk.trace.export import SpanExporter

from otel_loopguard.digest import Key
from otel_loopguard.errors import ExporterConfigError, KeyConfigError
from otel_loopguard.keys import ephemeral_key, load_key
from otel_loopguard.policy import ContentRule
from otel_loopguard.policy.nodes import printable
from otel_loopguard.processor.exporter import LoopGuardSpanExporter
from otel_loopguard.processor.logs import LoopGuardLogRecordExporter

SPANS: Final = "opentelemetry_traces_exporter"
LOGS: Final = "opentelemetry_logs_exporter"

_LOGGER: Final = logging.getLogger("otel_loopguard")
_NAME: Final = "loopguard"
_BUILT_IN: Final = {"otlp_http": "otlp_proto_http", "otlp_grpc": "otlp_proto_grpc", "console": "console"}
"""What a configuration file calls the SDK's own exporters, and what their entry points are called."""
_BY_PROTOCOL: Final = {"grpc": "otlp_grpc", "http/protobuf": "otlp_http"}
_OTLP_KEYS: Final = frozenset({"endpoint", "headers", "headers_list", "timeout", "compression"})


class DeclaredSpanExporter(LoopGuardSpanExporter):
    """The span exporter `loopguard`.

    Args:
        exporter: one exporter by name, as a configuration file declares it; None for OTLP by the environment.
        content: `drop_all`, `drop_tool` or `keep`.

    Raises:
        ExporterConfigError: the declaration cannot be used.
    """

    def __init__(self, exporter: Mapping[str, Any] | None = None, content: str = ContentRule.DROP_ALL) -> None:
        inner = _inner(exporter, SPANS, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
        if not isinstance(inner, SpanExporter):
            _refuse("what it names exports no spans; name a span exporter")
        super().__init__(inner, content=_rule(content), keys=_key())


class DeclaredLogRecordExporter(LoopGuardLogRecordExporter):
    """The log record exporter `loopguard`; as `DeclaredSpanExporter`."""

    def __init__(self, exporter: Mapping[str, Any] | None = None, content: str = ContentRule.DROP_ALL) -> None:
        inner = _inner(exporter, LOGS, "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL")
        if not isinstance(inner, LogRecordExporter):
            _refuse("what it names exports no log records; name a log record exporter")
        super().__init__(inner, content=_rule(content), keys=_key())


def _inner(declared: Mapping[str, Any] | None, group: str, protocol: str) -> object:
    if declared is None:
        text = (os.environ.get(protocol) or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL") or "grpc").strip()
        if text not in _BY_PROTOCOL:
            _refuse(f"{protocol} names no protocol that is known; use one of {', '.join(_BY_PROTOCOL)}")
        declared = {_BY_PROTOCOL[text]: None}
    named: object = declared  # whatever the file says
    if not isinstance(named, Mapping) or len(named) != 1:
        _refuse("`exporter` holds exactly one exporter by name; write for instance `exporter: {console: {}}`")
    name, config = next(iter(named.items()))
    if name == _NAME or not isinstance(config, Mapping | None):
        _refuse("the exporter inside has a name of its own, and a table or nothing behind it")
    config = config or {}
    plugin = _BUILT_IN.get(name, str(name))
    kind = next(iter(entry_points(group=group, name=plugin)), None)
    if kind is None:
        _refuse(f"no exporter `{printable(plugin)}` is installed; install the package that has it")
    return kind.load()(**(otlp_arguments(name, config) if name in _BY_PROTOCOL.values() else config))


def otlp_arguments(name: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a configuration file as the arguments of the OTLP exporters."""
    unknown = sorted(printable(str(key)) for key in config if key not in _OTLP_KEYS)
    if unknown:
        _refuse(f"{name}: {unknown[0]}: not read here; known are {', '.join(sorted(_OTLP_KEYS))}")
    given: dict[str, Any] = {key: config[key] for key in ("endpoint",) if config.get(key) is not None}
    if config.get("timeout") is not None:
        given["timeout"] = config["timeout"] / 1000  # the file has milliseconds, the exporters seconds
    headers = _headers(config)
    if headers:
        given["headers"] = headers
    compression = config.get("compression")
    if compression not in {None, "none", "gzip"}:
        _refuse(f"{name}: compression: not one of gzip, none")
    if compression == "gzip":
        module = "grpc" if name == "otlp_grpc" else "opentelemetry.exporter.otlp.proto.http"
        given["compression"] = import_module(module).Compression.Gzip
    return given


def _headers(config: Mapping[str, Any]) -> dict[str, str]:
    pairs = [item.partition("=") for item in (config.get("headers_list") or "").split(",")]
    found = {name.strip(): value.strip() for name, _, value in pairs if name.strip()}
    return found | {pair["name"]: pair.get("value") or "" for pair in config.get("headers") or ()}


def _rule(content: str) -> ContentRule:
    rule = next((rule for rule in ContentRule if rule.value == content), None)
    return rule or _refuse(f"content: not one of {', '.join(rule.value for rule in ContentRule)}")


def _key() -> Key:
    try:
        return load_key(os.environ)
    except KeyConfigError as error:
        # Only names are digested here, and without the telemetry nobody would see what is wrong.
        _LOGGER.error("%s; the exporter `loopguard` uses a key of its own", error)  # noqa: TRY400 - the line says all
        return ephemeral_key()


def _refuse(what: str) -> NoReturn:
    message = f"exporter `{_NAME}`: {what}"
    raise ExporterConfigError(message)
