"""Whatever the text: a policy or a policy error, the same from both YAML readers, and functions from packages."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from otel_loopguard.errors import PolicyError
from otel_loopguard.model import Progress
from otel_loopguard.policy import Policy, load, load_file
from otel_loopguard.policy.fields import TABLES
from tests.policy.made import DIGESTS

POLICIES = sorted((Path(__file__).resolve().parent.parent / "fixtures" / "policies").rglob("*.yaml"))
HEAD = "version: 1\npolicy: p\npolicy_version: 1\n"
KEYS = st.sampled_from(sorted({name for table in TABLES for name in table.fields}))
PARTS = st.sampled_from(
    [": ", "\n", "\n  ", "- ", "{", "}", "[", "]", ", ", '"', "'", "#", "|", "&a", "*a", "!b", "\t"]
)
TEXTS = st.lists(KEYS | PARTS | st.text(max_size=3) | st.integers().map(str), max_size=30).map("".join)


def outcome(text: str) -> str:
    """The label of the policy, or that there is none; anything else is an exception and fails the test."""
    try:
        return load(text).digest8
    except PolicyError as error:
        problems = error.problems
    assert problems
    assert all(line.startswith("<policy>") and line.isprintable() for line in problems)
    return "refused"


@given(TEXTS, st.sampled_from(["", HEAD, HEAD + "tools:\n  t:\n    ", "{"]))
def test_any_text_is_a_policy_or_a_policy_error(text: str, head: str) -> None:
    """No other exception, and problems that can be shown."""
    assert outcome(head + text)


@given(TEXTS)
def test_text_in_quotes_never_breaks_the_document(text: str) -> None:
    """A tool may be named anything that JSON can hold."""
    name = "".join(char for char in text if char.isprintable() and char not in '"\\')[:200]
    policy = load(f'{{"version": 1, "policy": "p", "policy_version": 1, "tools": {{"t{name}": {{}}}}}}')
    assert policy.contract(f"t{name}").declared


def test_both_yaml_readers_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without libyaml every policy of the tests is the same policy."""
    texts = [path.read_text(encoding="utf-8") for path in POLICIES]
    fast = [load(text).digest8 for text in texts]
    monkeypatch.delattr(yaml, "CSafeLoader")
    assert fast == [load(text).digest8 for text in texts]
    for text in (
        "a:\n\t- b",
        HEAD + "x: &a 1",
        HEAD + 'x: "\\UFFFFFFFF"',
        HEAD + 'x: "\\uD800"',
        "\x00",
        "%YAML 9.9\n---\na",
    ):
        assert "refused" == outcome(text)


def test_no_problem_holds_what_a_call_held() -> None:
    """A policy error speaks of the policy alone; a loaded policy keeps nothing of the values it saw."""
    policy = load(HEAD + "tools: {t: {ignore_args: [a], progress: [{path: v, rule: changes}]}}")
    contract = policy.contract("t")
    contract.arguments({"a": "canary"})
    contract.signals({"a": "canary"}, {"v": "canary"}, DIGESTS)
    assert "canary" not in repr(policy)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package with progress functions, one of which does not import."""
    (tmp_path / "shop_progress.py").write_text("def version(arguments, result):\n    return result['v']\nnumber = 7\n")
    (tmp_path / "shop_broken.py").write_text("raise RuntimeError('canary')\n")
    info = tmp_path / "shop-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shop\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[otel_loopguard.progress]\nshop.version = shop_progress:version\nshop.number = shop_progress:number\n"
        "shop.broken = shop_broken:version\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("shop_progress", "shop_broken"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def _with_function(folder: Path, name: str) -> Policy:
    path = folder / "p.yaml"
    path.write_text(HEAD + f"tools: {{t: {{progress: [{{callable: {name}, rule: increases}}]}}}}\n")
    return load_file(path)


def test_a_function_comes_from_an_installed_package(package: Path) -> None:
    """`load_file` finds it by its entry point; `load` alone does no look-up."""
    contract = _with_function(package, "shop.version").contract("t")
    one, two = (contract.signals({}, {"v": version}, DIGESTS) for version in (1, 2))
    assert (Progress.ADVANCED, "shop.version increases") == contract.compare(one, two)


@pytest.mark.parametrize("name", ["shop.number", "shop.broken", "shop.missing"])
def test_a_function_that_cannot_be_had_is_a_policy_error(package: Path, name: str) -> None:
    """Not a function, not importable, not there: each is told with its place, and without foreign text."""
    with pytest.raises(PolicyError, match="no usable function") as caught:
        _with_function(package, name)
    assert "canary" not in str(caught.value)


def test_a_resolver_may_be_any_mapping() -> None:
    """Pure code hands its own functions to `load`."""

    def version(_arguments: Any, result: Any) -> Any:
        return result["v"]

    text = HEAD + "tools: {t: {progress: [{callable: v, rule: changes}]}}"
    assert load(text, resolver={"v": version}.get).contract("t").has_progress
