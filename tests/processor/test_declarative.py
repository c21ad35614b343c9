"""The exporters named `loopguard`: what a declaration may say, and one clear line for what it may not."""

from __future__ import annotations

import importlib
import logging
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

from otel_loopguard.errors import ExporterConfigError
from otel_loopguard.keys import KEY
from otel_loopguard.policy import ContentRule
from otel_loopguard.processor import declarative
from otel_loopguard.processor.declarative import DeclaredLogRecordExporter, DeclaredSpanExporter
from otel_loopguard.processor.zero_code import pre_instrument

ROOT: Final = Path(__file__).resolve().parents[2]
CANARY = "canary-4f0a"


def test_entry_points_lead_somewhere() -> None:
    """What pyproject.toml declares to OpenTelemetry exists, under the groups that OpenTelemetry looks into."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    found = {}
    for group, names in declared.items():
        for name, place in names.items():
            module, _, attribute = place.partition(":")
            found[group, name] = getattr(importlib.import_module(module), attribute)
    assert {
        ("opentelemetry_pre_instrument", "loopguard"): pre_instrument,
        (declarative.SPANS, "loopguard"): DeclaredSpanExporter,
        (declarative.LOGS, "loopguard"): DeclaredLogRecordExporter,
    } == found


@pytest.mark.parametrize("kind", [DeclaredSpanExporter, DeclaredLogRecordExporter])
@pytest.mark.parametrize("config", [{}, None])
@pytest.mark.parametrize("content", list(ContentRule))
def test_a_console(kind: Any, config: Any, content: ContentRule) -> None:
    """The SDK's own name, with an empty table or nothing behind it."""
    kind(exporter={"console": config}, content=content.value)


def test_a_plugin_gets_its_keys() -> None:
    """Any exporter with an entry point can stand inside; what stands behind its name are its arguments."""
    with pytest.raises(TypeError, match="service"):
        DeclaredSpanExporter(exporter={"console": {"service": "x"}})
    assert isinstance(DeclaredSpanExporter(exporter={"console": {"service_name": "x"}}), DeclaredSpanExporter)


def test_keys_of_otlp() -> None:
    """What the file says becomes what the exporter takes: seconds, a table of headers, its own enumeration."""
    given = declarative.otlp_arguments(
        "otlp_http",
        {
            "endpoint": "http://127.0.0.1:4318/v1/traces",
            "timeout": 2500,
            "headers_list": "a=1, b=2=3,,",
            "headers": [{"name": "b", "value": "4"}, {"name": "c", "value": None}],
            "compression": "gzip",
        },
    )
    assert "gzip" == given.pop("compression").value
    assert {
        "endpoint": "http://127.0.0.1:4318/v1/traces",
        "timeout": 2.5,
        "headers": {"a": "1", "b": "4", "c": ""},
    } == given


@pytest.mark.parametrize("config", [{}, {"compression": "none", "endpoint": None, "headers": None, "timeout": None}])
def test_what_is_not_said_is_left_to_the_exporter(config: dict[str, Any]) -> None:
    """So its environment variables count."""
    assert {} == declarative.otlp_arguments("otlp_http", config)


@pytest.mark.parametrize(
    ("declared", "line"),
    [
        (
            {"exporter": {}},
            "`exporter` holds exactly one exporter by name; write for instance `exporter: {console: {}}`",
        ),
        (
            {"exporter": {"console": {}, "otlp_http": {}}},
            "`exporter` holds exactly one exporter by name; write for instance `exporter: {console: {}}`",
        ),
        (
            {"exporter": "console"},
            "`exporter` holds exactly one exporter by name; write for instance `exporter: {console: {}}`",
        ),
        (
            {"exporter": {"loopguard": {"exporter": {"console": {}}}}},
            "the exporter inside has a name of its own, and a table or nothing behind it",
        ),
        (
            {"exporter": {"console": CANARY}},
            "the exporter inside has a name of its own, and a table or nothing behind it",
        ),
        (
            {"exporter": {"no_such": {}}},
            "no exporter `no_such` is installed; install the package that has it",
        ),
        (
            {"exporter": {"otlp_http": {"tls": {"ca_file": CANARY}}}},
            "otlp_http: tls: not read here; known are compression, endpoint, headers, headers_list, timeout",
        ),
        ({"exporter": {"otlp_http": {"compression": CANARY}}}, "otlp_http: compression: not one of gzip, none"),
        ({"exporter": {"console": {}}, "content": CANARY}, "content: not one of drop_all, drop_tool, keep"),
    ],
)
def test_a_wrong_declaration_is_one_line(declared: dict[str, Any], line: str) -> None:
    """It says what is wrong, without the value."""
    with pytest.raises(ExporterConfigError) as raised:
        DeclaredSpanExporter(**declared)
    assert f"exporter `loopguard`: {line}" == str(raised.value)


def test_an_unknown_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a declaration the environment names the OTLP exporter; what it cannot mean is refused."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", CANARY)
    with pytest.raises(ExporterConfigError) as raised:
        DeclaredSpanExporter()
    assert (
        "exporter `loopguard`: OTEL_EXPORTER_OTLP_TRACES_PROTOCOL names no protocol that is known; "
        "use one of grpc, http/protobuf"
    ) == str(raised.value)


def test_a_wrong_key_is_no_reason_to_refuse(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Without this exporter nothing would be seen at all; names are digested under a key that is made up."""
    monkeypatch.setenv(KEY, CANARY)
    with caplog.at_level(logging.ERROR):
        exporter = DeclaredSpanExporter(exporter={"console": {}})
    line = (
        "OTEL_LOOPGUARD_KEY: neither 64 hex characters nor base64 of 32 bytes; make one with: openssl rand -hex 32; "
        "the exporter `loopguard` uses a key of its own"
    )
    assert ([line], True) == (caplog.messages, isinstance(exporter, DeclaredSpanExporter))


def test_the_wrong_kind_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exporter of spans exports no log records."""
    monkeypatch.setattr(declarative, "LOGS", declarative.SPANS)
    with pytest.raises(ExporterConfigError, match="exports no log records"):
        DeclaredLogRecordExporter(exporter={"console": {}})
