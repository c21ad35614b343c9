"""Settings: every variable read as its row says, every wrong one told in one line, and no value in any message."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_loopguard import keys
from otel_loopguard.digest import Scope
from otel_loopguard.policy import ContentRule
from otel_loopguard.processor import settings
from otel_loopguard.processor.settings import MAX_UNKNOWN, VARIABLES, Mode, Settings
from tools.make_settings_page import PAGE, page_text

NAMES = [variable.name for variable in VARIABLES]
CANARY = "canary-5b1f-do-not-show"


def _lines(environ: dict[str, str]) -> list[str]:
    return [problem.line for problem in Settings.from_environ(environ).problems]


def test_nothing_set_is_the_default() -> None:
    """Without a variable nothing is switched on, nothing is wrong, and the defaults are those of the table."""
    assert Settings() == Settings.from_environ({})
    assert [False, Mode.OBSERVE, None, 30.0, None, Scope.TRACE, False] == [
        Settings().enabled,
        Settings().mode,
        Settings().policy_path,
        Settings().policy_reread_s,
        Settings().content,
        Settings().key_scope,
        Settings().sdk_disabled,
    ]


@pytest.mark.parametrize("blank", ["", " ", "\t\n"])
def test_empty_counts_as_not_set(blank: str) -> None:
    """A variable that is set to nothing says nothing."""
    assert Settings() == Settings.from_environ(dict.fromkeys([*NAMES, settings.SDK_DISABLED], blank))


def test_every_setting_is_read() -> None:
    """Each variable of the table that is read here reaches its field."""
    environ = {
        settings.ENABLED: "true",
        settings.MODE: "off",
        settings.POLICY: "/p/policy.yaml",
        settings.POLICY_REREAD_S: "2.5",
        settings.CONTENT: "drop_tool",
        settings.KEY_SCOPE: "environment",
        settings.SDK_DISABLED: "true",
        keys.KEY: "k",
        keys.KEY_FILE: "f",
        keys.KEY_ID: "i",
    }
    assert set(NAMES) == set(environ) - {settings.SDK_DISABLED}
    expected = Settings(
        enabled=True,
        mode=Mode.OFF,
        policy_path="/p/policy.yaml",
        policy_reread_s=2.5,
        content=ContentRule.DROP_TOOL,
        key_scope=Scope.ENVIRONMENT,
        sdk_disabled=True,
    )
    assert expected == Settings.from_environ(environ)


@pytest.mark.parametrize("text", ["TRUE", "True", " true\n"])
def test_booleans_are_read_as_opentelemetry_reads_them(text: str) -> None:
    """The case of the letters and blanks around them mean nothing."""
    found = Settings.from_environ({settings.ENABLED: text, settings.SDK_DISABLED: text})
    assert (True, True, ()) == (found.enabled, found.sdk_disabled, found.problems)


@pytest.mark.parametrize("text", ["1", "yes", "on", "truee"])
def test_other_booleans_are_false_and_told(text: str) -> None:
    """OpenTelemetry knows no other word for true; whoever writes one is told."""
    line = "OTEL_LOOPGUARD_ENABLED: neither `true` nor `false`, so `false` is used; write one of them"
    environ = {settings.ENABLED: text}
    assert (False, [line]) == (Settings.from_environ(environ).enabled, _lines(environ))


@pytest.mark.parametrize("text", ["OFF", "Off", "off "])
def test_words_are_read_without_regard_to_case(text: str) -> None:
    """Nobody who wants to switch off is held up by a letter."""
    assert (Mode.OFF, []) == (Settings.from_environ({settings.MODE: text}).mode, _lines({settings.MODE: text}))


def test_enforce_is_told_apart() -> None:
    """`enforce` is a word of the policy and the guard, and no mode of a processor."""
    line = (
        "OTEL_LOOPGUARD_MODE: a processor only observes and `enforce` belongs to the guard, so observe is used; "
        "write one of off, observe"
    )
    environ = {settings.MODE: "enforce"}
    assert (Mode.OBSERVE, [line]) == (Settings.from_environ(environ).mode, _lines(environ))


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        (settings.MODE, "not one of off, observe, so observe is used; write one of off, observe"),
        (
            settings.CONTENT,
            "not one of drop_all, drop_tool, keep, so drop_all is used; write one of drop_all, drop_tool, keep",
        ),
        (settings.KEY_SCOPE, "not one of trace, environment, so trace is used; write one of trace, environment"),
        (
            settings.POLICY_REREAD_S,
            "not a number from 0 to 86400, so 30 is used; write seconds, or 0 for never",
        ),
    ],
)
def test_a_wrong_value_gives_one_line_without_it(name: str, instead: str) -> None:
    """The line says what is used instead and what to write; the value may be a secret that went astray."""
    assert [f"{name}: {instead}"] == _lines({name: CANARY})


def test_a_wrong_content_rule_removes_all_whatever_the_policy_says() -> None:
    """Whoever set the variable meant to override the policy, which may keep content."""
    assert ContentRule.DROP_ALL is Settings.from_environ({settings.CONTENT: "dropall"}).content


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0.0), ("0.5", 0.5), ("86400", 86400.0), ("1e2", 100.0), (" 5 ", 5.0)],
)
def test_seconds(text: str, seconds: float) -> None:
    """Any number from none to a day."""
    environ = {settings.POLICY_REREAD_S: text}
    assert (seconds, []) == (Settings.from_environ(environ).policy_reread_s, _lines(environ))


@pytest.mark.parametrize("text", ["-1", "86400.1", "nan", "inf", "5s", "1_0", "\u0665", "9" * 5000, "0x10"])
def test_seconds_out_of_range(text: str) -> None:
    """What is no such number leaves the default, and is told."""
    environ = {settings.POLICY_REREAD_S: text}
    assert (30.0, 1) == (Settings.from_environ(environ).policy_reread_s, len(_lines(environ)))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("OTEL_LOOPGUARD_ENABELD", settings.ENABLED),
        ("OTEL_LOOPGUARD_POLICY_FILE", settings.POLICY),
        ("OTEL_LOOPGUARD_KEYFILE", keys.KEY_FILE),
        ("OTEL_LOOPGUARD_REREAD_S", settings.POLICY_REREAD_S),
        ("otel_loopguard_mode", settings.MODE),
    ],
)
def test_an_unknown_variable_names_the_nearest(name: str, meant: str) -> None:
    """A slip of the pen is told with the name that was meant."""
    line = f"{name}: there is no such variable, so it is ignored; did you mean {meant}?"
    assert [line] == _lines({name: CANARY})


def test_an_unknown_variable_that_is_near_to_none() -> None:
    """Where no name is near, all are named."""
    line = f"OTEL_LOOPGUARD_QX: there is no such variable, so it is ignored; known are {', '.join(NAMES)}"
    assert [line] == _lines({"OTEL_LOOPGUARD_QX": CANARY})


def test_unknown_variables_are_bounded() -> None:
    """A hundred of them fill no log."""
    assert MAX_UNKNOWN == len(_lines({f"OTEL_LOOPGUARD_Q{number}": "" for number in range(100)}))


def test_problems_stand_in_the_order_of_the_table() -> None:
    """The same mistakes give the same lines, whatever order the environment has."""
    wrong = dict.fromkeys((settings.MODE, settings.CONTENT, settings.KEY_SCOPE, settings.ENABLED), CANARY)
    assert _lines(wrong) == _lines(dict(reversed(wrong.items())))
    assert [settings.ENABLED, settings.MODE, settings.CONTENT, settings.KEY_SCOPE] == [
        problem.variable for problem in Settings.from_environ(wrong).problems
    ]


@given(
    st.dictionaries(
        st.sampled_from(NAMES) | st.text(max_size=20).map(lambda name: settings.PREFIX + name),
        st.text(max_size=40).map(lambda text: CANARY + text) | st.text(max_size=5),
        max_size=8,
    )
)
def test_no_environment_raises_or_shows_a_value(environ: dict[str, str]) -> None:
    """Whatever stands in the environment: settings, lines without a line break, and no value in them."""
    for line in _lines(environ):
        assert (1, False) == (len(line.splitlines()), CANARY in line)


def test_page_is_in_sync() -> None:
    """docs/settings.md holds the table as the code has it; `python tools/make_settings_page.py` writes it."""
    text = Path(PAGE).read_text(encoding="utf-8")
    assert page_text(text) == text


def test_every_variable_has_a_row_with_all_it_needs() -> None:
    """No name twice, none without our prefix, no empty cell, one sentence each."""
    assert len(set(NAMES)) == len(NAMES)
    for variable in VARIABLES:
        assert variable.name.startswith(settings.PREFIX)
        assert "" not in {variable.shape, variable.default, variable.example}
        assert (variable.name, True) == (variable.name, variable.doc.endswith("."))
