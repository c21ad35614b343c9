"""Settings of the scorer: where they are read from, what is refused, and their page."""

from __future__ import annotations

from pathlib import Path

import pytest

from otel_loopguard.scorer.settings import (
    PREFIX,
    SETTINGS,
    Raw,
    ScorerSettings,
    SettingsError,
    is_loopback,
    read_settings,
)
from tools.make_scorer_page import PAGE, page_text

DATA = {"data": "folder"}


def test_the_page_is_made_from_the_table() -> None:
    """docs/scorer.md is what `python -m tools.make_scorer_page` writes."""
    text = PAGE.read_text(encoding="utf-8")
    assert page_text(text) == text


def test_the_table_has_the_fields() -> None:
    """Each field of the record is a setting, in its order."""
    assert ScorerSettings.__struct_fields__ == tuple(setting.name for setting in SETTINGS)


def test_the_command_line_comes_first_then_the_environment() -> None:
    """An empty variable counts as not set."""
    environ = {f"{PREFIX}IDLE_S": "7", f"{PREFIX}GRACE_S": "8", f"{PREFIX}RAW": ""}
    settings = read_settings({**DATA, "idle_s": "9", "grace_s": None}, environ)
    assert (9.0, 8.0, Raw.DIGEST) == (settings.idle_s, settings.grace_s, settings.raw)
    assert (Path("folder"), "127.0.0.1:4318") == (settings.data, settings.http)


def test_a_wrong_variable_is_named_as_such() -> None:
    """Not as the option that nobody gave."""
    with pytest.raises(SettingsError, match=f"^{PREFIX}IDLE_S must be a number"):
        read_settings(DATA, {f"{PREFIX}IDLE_S": "soon"})


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("GRACE", f"did you mean {PREFIX}GRACE_S?"),
        ("TOKENFILE", f"did you mean {PREFIX}TOKEN_FILE?"),
        ("idle_s", "the page of the settings lists all there are"),
        ("", "the page of the settings lists all there are"),
        ("PORT", "the page of the settings lists all there are"),
        ("HTTP_PORT", f"did you mean {PREFIX}HTTP?"),
        ("X" * 1000, "the page of the settings lists all there are"),
    ],
)
def test_a_mistyped_variable_is_refused(name: str, hint: str) -> None:
    """With the nearest that there is; an empty one counts as not set, and those of other programs are none of ours."""
    others = {"OTEL_LOOPGUARD_SCORERX": "1", "OTEL_LOOPGUARD_KEY": "1", f"{PREFIX}OLD": ""}
    assert read_settings(DATA, others) == read_settings(DATA, {})
    with pytest.raises(SettingsError, match=f"^{PREFIX}{name[:20]}") as raised:
        read_settings(DATA, {**others, f"{PREFIX}{name}": "1"})
    assert str(raised.value).endswith(hint)
    assert 300 > len(str(raised.value))


@pytest.mark.parametrize("service", ["", "GRPC_"])
def test_what_kubernetes_sets_of_a_service_is_none_of_ours(service: str) -> None:
    """Services named `otel-loopguard-scorer` or `otel-loopguard-scorer-grpc` leave these in all containers."""
    left = {
        "SERVICE_HOST": "10.0.0.1",
        "SERVICE_PORT": "4318",
        "SERVICE_PORT_OTLP_HTTP": "4318",
        "PORT": "tcp://10.0.0.1:4318",
        "PORT_4318_TCP": "tcp://10.0.0.1:4318",
        "PORT_4318_TCP_PROTO": "tcp",
        "PORT_4318_TCP_PORT": "4318",
        "PORT_4318_TCP_ADDR": "10.0.0.1",
    }
    environ = {f"{PREFIX}{service}{name}": value for name, value in left.items()}
    assert read_settings(DATA, {}) == read_settings(DATA, environ)


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "1e400", "", "5s", "٣x"])
def test_a_number_is_a_number_within_bounds(value: str) -> None:
    """What is no number, or out of bounds, is refused."""
    with pytest.raises(SettingsError, match="grace-s must be a number from 0 to 3,600"):
        read_settings({**DATA, "grace_s": value}, {})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "no data folder"),
        ({**DATA, "http": "off", "grpc": "off"}, "nothing could be received"),
        ({**DATA, "http": "127.0.0.1"}, "HOST:PORT"),
        ({**DATA, "http": "127.0.0.1:65536"}, "HOST:PORT"),
        ({**DATA, "grpc": "[::]:4317"}, "can be reached from other machines"),
        ({**DATA, "http": "scorer.example:4318"}, "can be reached from other machines"),
        ({**DATA, "http": "0.0.0.0:1", "tls_cert": "c", "tls_key": "k"}, "can be reached from other machines"),
        ({**DATA, "tls_key": "k"}, "go together"),
        ({**DATA, "tls_client_ca": "c"}, "needs --tls-cert"),
        ({**DATA, "otlp_endpoint": "collector:4318"}, "must be like http"),
        ({**DATA, "allow_remote": "yes"}, "true or false"),
        ({**DATA, "max_group_spans": "1000.5"}, "whole number"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, str | None], said: str) -> None:
    """Before anything starts, in one line."""
    with pytest.raises(SettingsError, match=said) as raised:
        read_settings(given, {})
    assert 1 == len(str(raised.value).splitlines())


@pytest.mark.parametrize(
    "given",
    [
        {"http": "0.0.0.0:1", "tls_cert": "c", "tls_key": "k", "token_file": "t"},
        {"http": "0.0.0.0:1", "tls_cert": "c", "tls_key": "k", "tls_client_ca": "a"},
        {"grpc": "[::]:1", "allow_remote": "true"},
        {"http": "localhost:1", "grpc": "[::1]:1"},
    ],
)
def test_other_machines_are_served_where_it_is_safe_or_asked_for(given: dict[str, str | None]) -> None:
    """TLS with a token or client certificates, or on the owner's word."""
    settings = read_settings({**DATA, **given}, {})
    assert [given[name] for name in given if name in ("http", "grpc")] == [
        getattr(settings, name) for name in given if name in ("http", "grpc")
    ]


def test_loopback_addresses() -> None:
    """By number, or by the one name that is always this machine."""
    assert [True, True, True, False, False] == [
        is_loopback(one) for one in ("127.8.8.8:1", "localhost:1", "[::1]:1", "0.0.0.0:1", "localhost.example:1")
    ]
