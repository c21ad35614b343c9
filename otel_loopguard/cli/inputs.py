"""What `replay`, `audit` and `lint` share: their input arguments, reading all sources, and telling what was not read.

Invariant: what could not be read is told by place and reason, never by content; a source that fails does not
keep the others from being read.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from otel_loopguard import files
from otel_loopguard import policy as policies
from otel_loopguard.cli.exit_codes import ExitCode
from otel_loopguard.cli.terminal import Advance, Printer, progress_bar
from otel_loopguard.digest import Digester, Scope
from otel_loopguard.errors import InputError, MissingExtraError
from otel_loopguard.files import Format
from otel_loopguard.keys import load_key
from otel_loopguard.model import BadInput, CallRecord, Span
from otel_loopguard.words import counted, safe

_MAX_TOLD: Final = 20
"""Problems told one by one; the rest are counted. Source: one screen."""
_MAX_PATH_CHARS: Final = 200
STANDARD_INPUT: Final = "-"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments about what is read, and under which policy."""
    parser.add_argument("files", nargs="*", metavar="FILE", help="a file to read; - is standard input")
    parser.add_argument("--examples", action="store_true", help="read the captures that come with this package")
    parser.add_argument("--policy", metavar="FILE", type=Path, help="the policy file; without it, the defaults")
    parser.add_argument(
        "--format",
        choices=[fmt.value for fmt in Format],
        default=Format.AUTO.value,
        help="what the files hold (default: find out; gzip is always unpacked)",
    )
    parser.add_argument("--no-progress", action="store_true", help="no progress bar, even on a terminal")


def load_policy(path: Path | None) -> policies.Policy:
    """The policy file's policy, or the defaults; raises PolicyError."""
    return policies.default() if path is None else policies.load_file(path)


def make_digester() -> Digester:
    """One digester for all traces: under the configured key, else one that is forgotten with this process.

    Raises:
        KeyConfigError: the configured key cannot be used.
    """
    return Digester(load_key(os.environ), scope=Scope.ENVIRONMENT)


class Problems:
    """What could not be read: the first ones told in full, the rest counted."""

    def __init__(self, printer: Printer) -> None:
        """`printer`: where to tell of them."""
        self._printer = printer
        self._held: list[str] = []
        self._skipped: Counter[str] = Counter()
        self.count = 0

    def add(self, bad: BadInput) -> None:
        """Take note of a piece of input that was not read."""
        if files.is_skip(bad.reason):
            self._skipped[bad.reason] += 1
            return
        place = safe(bad.source, limit=_MAX_PATH_CHARS) + (f":{bad.line}" if bad.line is not None else "")
        self.add_text(f"{place}: {files.explain(bad.reason)}")

    def add_text(self, text: str) -> None:
        """Take note of a whole source that could not be read."""
        self.count += 1
        if len(self._held) < _MAX_TOLD:
            self._held.append(text)

    def tell(self) -> None:
        """Print what there is to say."""
        for text in self._held:
            self._printer.line(text)
        if self.count > len(self._held):
            self._printer.line(f"and {counted(self.count - len(self._held), 'more problem')} of this kind")
        for reason, count in sorted(self._skipped.items()):
            self._printer.line(f"passed over {counted(count, 'piece')} of input: {files.explain(reason)}")


class Source(NamedTuple):
    """One thing to read."""

    name: str
    path: Path | None
    """None for standard input."""


def sources(names: Sequence[str], *, examples: bool) -> list[Source]:
    """What the arguments name, in their order, then the packaged captures."""
    found = [Source("standard input", None) if name == STANDARD_INPUT else Source(name, Path(name)) for name in names]
    if examples:
        folder = Path(str(resources.files("otel_loopguard") / "examples"))
        found += [Source(f"examples/{path.name}", path) for path in sorted(folder.glob("*.jsonl"))]
    return found


def read_all(
    named: Sequence[Source],
    options: argparse.Namespace,
    add: Callable[[Span | CallRecord], None],
    problems: Problems,
) -> int:
    """Read every source and hand each span and call record to `add`; return how many there were."""
    count = 0
    with progress_bar(wanted=not options.no_progress, total_bytes=_total_bytes(named)) as advance:
        for source in named:
            try:
                with _opened(source) as stream:
                    counting = _Counting(stream, advance)
                    for item in files.read(counting, name=source.name, fmt=Format(options.format)):
                        if isinstance(item, BadInput):
                            problems.add(item)
                        else:
                            add(item)
                            count += 1
            except (InputError, MissingExtraError) as error:
                problems.add_text(safe(str(error), limit=_MAX_PATH_CHARS))
    return count


def exit_code(read: int, problems: Problems) -> ExitCode:
    """How a command ends that read `read` spans and records."""
    if not problems.count:
        return ExitCode.DONE
    return ExitCode.PARTLY_READ if read else ExitCode.NOTHING_READ


@contextmanager
def _opened(source: Source) -> Iterator[BinaryIO]:
    if source.path is None:
        if sys.stdin is None:  # a parent process closed it
            message = f"{source.name}: cannot be opened: it is closed"
            raise InputError(message)
        yield sys.stdin.buffer
        return
    try:
        stream = source.path.open("rb", buffering=0)
    except (OSError, ValueError) as error:  # ValueError: a name with NUL in it
        reason = getattr(error, "strerror", None) or type(error).__name__
        message = f"{source.name}: cannot be opened: {reason}"
        raise InputError(message) from error
    with stream:
        yield stream


class _Counting:
    """Passes bytes on and tells the progress bar how many."""

    def __init__(self, stream: BinaryIO, advance: Advance) -> None:
        self._stream, self._advance = stream, advance

    def read(self, size: int = -1, /) -> bytes:
        piece = self._stream.read(size)
        self._advance(len(piece))
        return piece


def _total_bytes(named: Sequence[Source]) -> int | None:
    total = 0
    for source in named:
        if source.path is None:
            return None
        try:
            total += source.path.stat().st_size
        except (OSError, ValueError):
            continue
    return total
