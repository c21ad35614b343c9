"""What the settings name: a sound key and policy are used, an unusable one leaves removal alone and gives one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from otel_loopguard import keys
from otel_loopguard.digest import Scope
from otel_loopguard.policy import ContentRule
from otel_loopguard.processor.configured import Configured, configured
from otel_loopguard.processor.settings import CONTENT, KEY_SCOPE, POLICY, POLICY_REREAD_S, Settings

KEY = bytes(range(32)).hex()
CANARY = "canary-9d4e"


def _configured(**environ: str) -> Configured:
    return configured(Settings.from_environ(environ), environ)


def _lines(**environ: str) -> list[str]:
    return [problem.line for problem in _configured(**environ).problems]


def _policy(tmp_path: Path, text: str) -> str:
    path = tmp_path / CANARY
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_nothing_set() -> None:
    """The default policy, a key made up on the spot, and nothing to look at again."""
    found = _configured()
    assert found.keyring is not None
    assert (None, None, False, None, ()) == (
        found.policy,
        found.content,
        found.remove_only,
        found.watch,
        found.problems,
    )
    assert found.keyring.key_id.startswith("eph-")


def test_everything_set(tmp_path: Path) -> None:
    """Each setting reaches what it is for."""
    environ = {
        keys.KEY: KEY,
        keys.KEY_ID: "k7",
        KEY_SCOPE: "environment",
        CONTENT: "keep",
        POLICY: _policy(tmp_path, "version: 1\npolicy: p\npolicy_version: 3\n"),
        POLICY_REREAD_S: "0",
    }
    found = _configured(**environ)
    assert found.policy is not None
    assert found.keyring is not None
    assert ("p@3", "k7", Scope.ENVIRONMENT, ContentRule.KEEP, False, ()) == (
        found.policy.label,
        found.keyring.key_id,
        found.keyring.scope,
        found.content,
        found.remove_only,
        found.problems,
    )
    assert found.watch is not None


INSTEAD = "; no digest is made, and content is removed all the same"


@pytest.mark.parametrize(
    ("environ", "line"),
    [
        (
            {keys.KEY: CANARY},
            "OTEL_LOOPGUARD_KEY: neither 64 hex characters nor base64 of 32 bytes; make one with: openssl rand -hex 32",
        ),
        (
            {keys.KEY_FILE: f"/nowhere/{CANARY}"},
            (
                "the file named by OTEL_LOOPGUARD_KEY_FILE cannot be read (FileNotFoundError): "
                "check that it exists and its permissions"
            ),
        ),
        (
            {keys.KEY: KEY, keys.KEY_FILE: CANARY},
            "OTEL_LOOPGUARD_KEY and OTEL_LOOPGUARD_KEY_FILE are both set: unset one of them",
        ),
        (
            {POLICY: f"/nowhere/{CANARY}"},
            (
                "OTEL_LOOPGUARD_POLICY: policy file: cannot be read (No such file or directory); "
                "check the path and its permissions"
            ),
        ),
    ],
)
def test_what_cannot_be_used_leaves_removal_alone(environ: dict[str, str], line: str) -> None:
    """One line that says what is wrong and what follows, without the value or the path."""
    assert (True, [line + INSTEAD]) == (_configured(**environ).remove_only, _lines(**environ))


def test_a_wrong_policy_gives_its_first_problem(tmp_path: Path) -> None:
    """Place and key of the first problem, and how many more; not the file's path."""
    path = _policy(tmp_path, "version: 1\npolicy: p\npolicy_version: 3\nmodus: observe\nscoop: run\n")
    line = "OTEL_LOOPGUARD_POLICY: policy file:4:1: modus: unknown key; did you mean `mode`? (and 1 more problem)"
    assert [line + INSTEAD] == _lines(**{POLICY: path})
    assert None is _configured(**{POLICY: path}).watch


@pytest.mark.parametrize("text", [KEY, bytes(range(32, 64)).decode(), f"{CANARY} {CANARY}"])
def test_a_policy_that_is_another_file_is_not_quoted(tmp_path: Path, text: str) -> None:
    """Where the variable names the key's file, the message holds nothing of it."""
    lines = _lines(**{POLICY: _policy(tmp_path, text)})
    assert [1, False, False] == [len(lines), text[:8] in lines[0], CANARY in lines[0]]


def test_both_wrong_are_two_lines(tmp_path: Path) -> None:
    """Each has its own."""
    assert 2 == len(_lines(**{keys.KEY: CANARY, POLICY: _policy(tmp_path, "")}))
