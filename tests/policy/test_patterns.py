"""Patterns of a policy: compiled in linear time or refused with a reason, and quiet about it."""

from __future__ import annotations

import sys

import pytest

from otel_loopguard.errors import MissingExtraError
from otel_loopguard.policy.patterns import MAX_PATTERN, PatternError, compile_pattern


@pytest.mark.parametrize("text", ["X", "a", "a" * MAX_PATTERN, r"\d+ms$"])
def test_a_pattern_is_compiled(text: str) -> None:
    """One to 500 characters of RE2's syntax."""
    assert text == compile_pattern(text).text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "1 to 500 characters"),
        ("a" * (MAX_PATTERN + 1), "1 to 500 characters"),
        ("(a", "missing \\)"),
        (r"(a)\1", "invalid escape sequence"),
        ("a(?=b)", "invalid perl operator|invalid"),
        ("a*", "also matches empty text"),
        ("\ud800", "the pattern is not valid"),
        ("((a{50}){50}){50}", "linear time"),
    ],
)
def test_a_pattern_is_refused_with_the_reason(text: str, why: str, capfd: pytest.CaptureFixture[str]) -> None:
    """What RE2 says of it stands in the error, and nothing is printed past us."""
    with pytest.raises(PatternError, match=why) as caught:
        compile_pattern(text)
    assert text not in str(caught.value) or len(text) < 3
    assert ("", "") == tuple(capfd.readouterr())


@pytest.mark.parametrize("text", ["(J7-shipped", "[J7-shipped", "J7-shipped)", "(?P<J7-shipped", "a{1,9999}J7"])
def test_a_pattern_is_not_quoted(text: str) -> None:
    """It may name what an owner wants to stay inside."""
    with pytest.raises(PatternError) as caught:
        compile_pattern(text)
    assert "J7" not in str(caught.value)
    assert "9999" not in str(caught.value)


def test_a_pattern_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install."""
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(MissingExtraError, match="otel-loopguard"):
        compile_pattern("a")
