"""The page of snippets says what the live tests run, and each pair there has all that it needs."""

from __future__ import annotations

from pathlib import Path

from tests.live import running
from tools.make_frameworks_page import PAGE, page, pairs


def test_the_page_is_made_of_the_snippets() -> None:
    """docs/frameworks.md is what its tool makes."""
    assert page() == PAGE.read_text(encoding="utf-8")


def test_each_pair_has_a_snippet_requirements_and_an_agent() -> None:
    """A snippet that the live tests cannot run is no tested snippet, and no requirement is left over."""
    assert pairs() == running.names()
    folder = running.LIVE / "requirements"
    assert pairs() == sorted(path.stem for path in folder.glob("*.in"))
    assert pairs() == sorted(path.stem for path in folder.glob("*.txt"))
    agents = {running.agent(pair) for pair in pairs()}
    assert sorted(agents) == sorted(Path(running.LIVE / "agents").glob("*.py"))


def test_at_least_eight_frameworks_are_run() -> None:
    """That many the project promises."""
    assert len({running.agent(pair) for pair in pairs()}) >= 8
