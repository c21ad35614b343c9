"""docs/content.md names the keys that the code knows."""

from __future__ import annotations

from otel_loopguard.dialects import content_keys
from tools.make_content_page import PAGE, generated, page_text


def test_the_page_is_up_to_date() -> None:
    """Its tables are what `tools/make_content_page.py` writes."""
    current = PAGE.read_text(encoding="utf-8")
    assert current == page_text(current)


def test_every_key_is_in_a_table() -> None:
    """No key that holds content is left out."""
    assert set() == {key for key in content_keys() if f"| `{key}` |" not in generated()}
