"""The command line `otel-loopguard`: one module a command, one table of exit codes.

Invariants: `main` returns an exit code of `exit_codes` and raises nothing of ours; no output, on whatever stream,
holds content of a span or a call record, but for the made-up customer of `demo`.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import os
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Final, NoReturn

from otel_loopguard.cli import audit, demo, doctor, lint, replay, serve
from otel_loopguard.cli.exit_codes import ExitCode
from otel_loopguard.cli.terminal import Printer
from otel_loopguard.errors import LoopGuardError, SpillError
from otel_loopguard.words import safe

PROGRAM: Final = "otel-loopguard"
COMMANDS: Final[dict[str, ModuleType]] = {module.NAME: module for module in (replay, audit, lint, serve, doctor, demo)}
_DESCRIPTION: Final = "Finds out from OpenTelemetry spans that an AI agent is stuck repeating tool calls."


class _Parser(argparse.ArgumentParser):
    """Says what is wrong on one safe line, and where help is."""

    def error(self, message: str) -> NoReturn:
        Printer(sys.stderr).line(f"{self.prog}: error: {safe(message, limit=500)}; see {self.prog} --help")
        raise SystemExit(ExitCode.USAGE)


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = _Parser(prog=PROGRAM, description=_DESCRIPTION, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {_version()}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, module in COMMANDS.items():
        module.add_parser(
            commands.add_parser(name, help=module.SUMMARY, description=module.DESCRIPTION, allow_abbrev=False)
        )
    return parser


def _version() -> str:
    try:
        return metadata.version(PROGRAM)
    except metadata.PackageNotFoundError:
        return "(run from its source folder, not installed)"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the arguments without the program's name; None means the process's own.

    Returns:
        An exit code of `exit_codes.ExitCode`.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - for as long as the process lives
    if sys.stdout is None:
        _complain("standard output is closed")
        return ExitCode.NO_OUTPUT
    try:
        return int(_run(arguments))
    except SystemExit as ended:  # argparse: after --help, --version or a usage error
        return ended.code if isinstance(ended.code, int) else ExitCode.USAGE
    except LoopGuardError as error:
        _complain(*str(error).splitlines())
        return ExitCode.NO_ROOM if isinstance(error, SpillError) else ExitCode.USAGE
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        _let_go_of_output()
        return ExitCode.DONE
    except OSError as error:  # files are read with errors of our own: what is left is the output
        _let_go_of_output()
        _complain(f"the output cannot be written: {error.strerror or type(error).__name__}")
        return ExitCode.NO_OUTPUT


def _complain(*lines: str) -> None:
    """Says what is wrong on standard error, if that can be written."""
    with contextlib.suppress(OSError):
        for line in lines:
            Printer(sys.stderr).line(f"{PROGRAM}: error: {safe(line, limit=500)}")


def _run(arguments: Sequence[str]) -> ExitCode:
    parser = build_parser()
    if arguments and not arguments[0].startswith("-") and arguments[0] not in COMMANDS:
        near = difflib.get_close_matches(arguments[0], COMMANDS, n=1, cutoff=0)[0]
        parser.error(f"no command {safe(arguments[0])!r}; did you mean {near!r}?")
    options = parser.parse_args(arguments)
    if "files" in options and not options.files and not options.examples:
        parser.error(f"{options.command} needs a FILE, - for standard input, or --examples")
    code: ExitCode = COMMANDS[options.command].run(options)
    return code


def _let_go_of_output() -> None:
    """The reader of our output is gone: send what is still buffered nowhere, so that closing it stays quiet."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # no such file descriptor: nothing to keep quiet
        return
