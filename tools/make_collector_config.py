"""Writes the generated part of collector-config/*.yaml: what the collector drops, empties and lets through.

Run: `python tools/make_collector_config.py` writes the files; with `--check` it says whether they are up to date.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / "collector-config"
BEGIN: Final = "  # --- generated from otel_loopguard by tools/make_collector_config.py; change it there"
END: Final = "  # --- end of what is generated"
WIDTH: Final = 118
sys.path.insert(0, str(ROOT))

from otel_loopguard import attributes as attr  # noqa: E402 - the path comes first
from otel_loopguard.content import KeyKind, kind_of_key  # noqa: E402
from otel_loopguard.dialects import TELLING_KEYS, content_keys, langchain  # noqa: E402
from otel_loopguard.facts import HOST_KEYS  # noqa: E402

_DATABASE: Final = ("db.system.name", "db.system")
_METADATA_HEADS: Final = (attr.LANGSMITH_METADATA, attr.TRACELOOP_PROPERTIES)
_METADATA: Final = (langchain.AGENT, langchain.NAMESPACE, langchain.STEP, langchain.THREAD, "session_id")
_RESOURCE: Final = ("service.name", "service.version", *HOST_KEYS)


def known_keys() -> frozenset[str]:
    """Every attribute key that is read of a span, its events and its resource, and holds no content."""
    named = {
        key
        for name, value in vars(attr).items()
        if name.isupper() and not name.endswith(("_EVENT", "_SPAN"))
        for key in ((value,) if isinstance(value, str) else value)
        if not key.endswith(".")
    }
    named |= {head + name for head in _METADATA_HEADS for name in _METADATA}
    return frozenset(key for key in named | set(_RESOURCE) if not _holds_content(key))


def _holds_content(key: str) -> bool:
    # `llm.prompts` is the head of content keys, and would hold the same if an instrumentation did not flatten it.
    return kind_of_key(key) in (KeyKind.CONTENT, KeyKind.WORD) or f"{key}." in content_keys()


def generated() -> str:
    """The three processors, as the YAML of a collector's configuration has them."""
    return "\n".join((*_filter(), *_transform(), *_redaction(), ""))


def _filter() -> Iterator[str]:
    yield "  # Spans of database clients: nothing that a verdict is made of lies below one. README: Filter."
    yield "  filter/databases:"
    yield "    error_mode: ignore # a span that cannot be looked at is kept, and cleaned below"
    yield "    trace_conditions:"
    yield "      - >-"
    yield "        span.kind == SPAN_KIND_CLIENT"
    yield f"        and ({' or '.join(f'{_attribute(key)} != nil' for key in _DATABASE)})"
    for key in sorted(TELLING_KEYS | {attr.RUN_CALLS}):
        yield f"        and {_attribute(key)} == nil"


def _transform() -> Iterator[str]:
    yield "  # Texts that are no attribute. Whatever fails here fails the whole request: it is refused, not passed on."
    yield "  transform/no_text:"
    yield "    error_mode: propagate"
    yield "    trace_statements:"
    yield '      - set(span.status.message, "")'


def _redaction() -> Iterator[str]:
    yield "  # What the scorer reads of spans, events, scopes and resources, and no more; none of it holds content."
    yield "  redaction/known_keys:"
    yield "    allow_all_keys: false"
    yield "    summary: silent"
    yield "    allowed_keys:"
    yield "      ["
    yield from _lines(sorted(known_keys()))
    yield "      ]"


def _attribute(key: str) -> str:
    return f'span.attributes["{key}"]'


def _lines(keys: Iterable[str]) -> list[str]:
    text = ", ".join(keys) + ","
    indent = " " * 8
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def text_of(current: str, name: str) -> str:
    """A configuration with its generated part made anew."""
    head, begin, rest = current.partition(f"{BEGIN}\n")
    _, end, tail = rest.partition(f"{END}\n")
    if not begin or not end:
        message = f"{name} has lost one of the lines {BEGIN.strip()!r} and {END.strip()!r}"
        raise SystemExit(message)
    return f"{head}{begin}{generated()}{end}{tail}"


def configurations() -> list[Path]:
    """Each configuration that has pipelines of its own."""
    return sorted(path for path in FOLDER.glob("*.yaml") if "pipelines:" in path.read_text(encoding="utf-8"))


def main() -> int:
    """Write or check the files; exit code 1 where one is out of date."""
    stale = []
    for path in configurations():
        current = path.read_text(encoding="utf-8")
        text = text_of(current, path.name)
        if "--check" not in sys.argv[1:]:
            path.write_text(text, encoding="utf-8")
        elif text != current:
            stale.append(path)
    for path in stale:
        print(f"{path.relative_to(ROOT)} is out of date: run tools/make_collector_config.py")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
