"""Colours only where they are wanted, a progress bar only on a terminal, and streams that cannot encode."""

from __future__ import annotations

import builtins
import io
from typing import Any

import pytest

from otel_loopguard.cli.terminal import Printer, progress_bar, wants_colour


class _Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("choice", "stream", "environ", "expected"),
    [
        ("auto", _Terminal(), {}, True),
        ("auto", io.StringIO(), {}, False),
        ("auto", _Terminal(), {"NO_COLOR": "1"}, False),
        ("auto", _Terminal(), {"NO_COLOR": ""}, True),
        ("auto", _Terminal(), {"TERM": "dumb"}, False),
        ("always", io.StringIO(), {"NO_COLOR": "1"}, True),
        ("never", _Terminal(), {}, False),
    ],
)
def test_colour(choice: str, stream: io.StringIO, environ: dict[str, str], expected: bool) -> None:  # noqa: FBT001
    """A choice wins; else NO_COLOR (when not empty), TERM and the terminal decide."""
    assert expected == wants_colour(choice, stream, environ)


def test_bar_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bar is drawn on standard error if that is a terminal and it is wanted, and never otherwise."""
    drawn = []
    for stream, wanted in ((_Terminal(), True), (_Terminal(), False), (io.StringIO(), True)):
        monkeypatch.setattr("sys.stderr", stream)
        with progress_bar(wanted=wanted, total_bytes=10) as advance:
            advance(10)
        drawn.append(bool(stream.getvalue()))
    assert [True, False, False] == drawn


def test_without_rich_there_is_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where rich is not installed the command works the same, without a bar."""
    real = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name.startswith("rich"):
            raise ImportError(name)
        return real(name, *rest, **named)

    stream = _Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(builtins, "__import__", without)
    with progress_bar(wanted=True, total_bytes=None) as advance:
        advance(1)
    assert not stream.getvalue()


def test_printer_escapes_what_the_stream_lacks() -> None:
    """A character that the stream cannot encode is escaped, and the line is written."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", newline="\n")
    printer = Printer(stream)
    printer.line("sch\u00f6n")
    printer.flush()
    assert b"sch\\xf6n\n" == raw.getvalue()
