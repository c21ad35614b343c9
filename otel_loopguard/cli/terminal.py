"""What goes to the terminal: safe text, colours where they are wanted, a progress bar.

Invariants: nothing printed holds a control or formatting character that came from outside, and no character that
the stream cannot encode. Colour never carries meaning alone.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Protocol, TextIO

_RESET: Final = "\x1b[0m"
_STYLES: Final = {
    "bad": "\x1b[1;31m",
    "doubt": "\x1b[33m",
    "good": "\x1b[32m",
    "dim": "\x1b[2m",
    "strong": "\x1b[1m",
}
_CUBE_LEVELS: Final = (2, 3, 4, 5)
"""Levels of xterm's colour cube that black text is readable on."""
_CUBE_BASE: Final = 16
COLOUR_CHOICES: Final = ("auto", "always", "never")


def wants_colour(choice: str, stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether to colour what goes to `stream`: `always`, `never`, or `auto` by NO_COLOR, TERM and the terminal."""
    if choice != "auto":
        return choice == "always"
    return not environ.get("NO_COLOR") and environ.get("TERM") != "dumb" and stream.isatty()


class Painter:
    """Puts colours around text, or not."""

    def __init__(self, *, colour: bool) -> None:
        """`colour`: whether to colour at all."""
        self.colour = colour

    def paint(self, text: str, style: str | None) -> str:
        """`text` in one of the styles `bad`, `doubt`, `good`, `dim`, `strong`; None leaves it as it is."""
        return f"{_STYLES[style]}{text}{_RESET}" if self.colour and style and text else text

    def block(self, text: str, digest: str) -> str:
        """`text` on a background that follows from the digest: equal digests, equal colours."""
        if not self.colour:
            return text
        seed, levels = int(digest[-8:], 16), len(_CUBE_LEVELS)
        red, green, blue = (_CUBE_LEVELS[seed // levels**place % levels] for place in range(3))
        return f"\x1b[38;5;16;48;5;{_CUBE_BASE + 36 * red + 6 * green + blue}m{text}{_RESET}"


class Printer:
    """Writes lines to a stream and replaces what the stream's encoding lacks."""

    def __init__(self, stream: TextIO) -> None:
        """`stream`: an open text stream, not closed here."""
        self._stream = stream
        self._encoding = stream.encoding or "utf-8"

    def line(self, text: str = "") -> None:
        """One line; `text` has been made safe."""
        if not text.isascii():
            text = text.encode(self._encoding, "backslashreplace").decode(self._encoding)
        self._stream.write(text + "\n")

    def flush(self) -> None:
        """Hand on what is buffered."""
        self._stream.flush()


class Advance(Protocol):
    """Told how many bytes were read since the last time."""

    def __call__(self, size: int, /) -> None:
        """Advance by `size` bytes."""
        ...


@contextmanager
def progress_bar(*, wanted: bool, total_bytes: int | None) -> Iterator[Advance]:
    """A bar on standard error by bytes read, or nothing where it is not wanted, no terminal, or rich is missing.

    Args:
        wanted: False switches it off.
        total_bytes: None where unknown, as for a pipe.
    """
    if not wanted or not sys.stderr.isatty():
        yield _ignore
        return
    try:
        from rich.console import Console  # noqa: PLC0415 - an optional part
        from rich.progress import (  # noqa: PLC0415 - an optional part
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )
    except ImportError:
        yield _ignore
        return
    columns = (TextColumn("reading"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("reading", total=total_bytes)
        yield lambda size: progress.advance(task, size)


def _ignore(_size: int, /) -> None:
    """Without a bar."""
