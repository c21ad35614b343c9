"""`otel-loopguard doctor`: what in this environment keeps loops from being found, or content from being removed.

Invariants: nothing is sent but an export request without spans; nothing that is printed holds content, a key, a header,
or what the application's own code printed.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from otel_loopguard.cli import checkup
from otel_loopguard.cli.checkup import Check, Diagnosis, Level, configuration, connection, installed, trial
from otel_loopguard.cli.exit_codes import ExitCode
from otel_loopguard.cli.terminal import COLOUR_CHOICES, Painter, Printer, wants_colour
from otel_loopguard.processor.settings import Mode, Settings
from otel_loopguard.words import counted

NAME = "doctor"
SUMMARY = "look for what keeps loops from being found, or content from being removed"
DESCRIPTION = """\
Run it where the application runs, with the same virtual environment and the same environment variables. It looks at
versions, at what the installed frameworks record, at settings, key and policy, at the processors and exporters that
your set-up code makes, at what of a made-up secret would leave, and at the OTLP endpoint. Every fault comes with its
remedy. Your code runs in a process of its own, and nothing of the made-up secret is sent.
"""
TIMEOUT_S: Final = 60.0
_STYLES: Final[Mapping[Level, str | None]] = {
    Level.OK: "good",
    Level.NOTE: None,
    Level.SKIPPED: "dim",
    Level.PROBLEM: "bad",
    Level.LEAK: "bad",
}


def add_parser(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command."""
    code = parser.add_mutually_exclusive_group()
    code.add_argument(
        "--app",
        metavar="MODULE[:NAME]",
        help="your set-up code: a module that sets the tracer provider, or a function or provider in it",
    )
    code.add_argument("--script", metavar="FILE", help="your set-up code as a file; it is not run as `__main__`")
    parser.add_argument(
        "--endpoint", metavar="URL", help="the OTLP endpoint; without it, what OTEL_EXPORTER_OTLP_* say"
    )
    parser.add_argument("--no-connection", action="store_true", help="leave endpoints alone")
    parser.add_argument(
        "--all-processors",
        action="store_true",
        help="let the made-up secret pass through processors that may send it by themselves, too",
    )
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=_seconds,
        default=TIMEOUT_S,
        help=f"how long your set-up code may take (default: {TIMEOUT_S:.0f})",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a diagnosis and line")
    parser.add_argument("--color", choices=COLOUR_CHOICES, default="auto", help="colours (default: on a terminal)")


def run(options: argparse.Namespace) -> ExitCode:
    """Carry the command out."""
    printer = Printer(sys.stdout)
    painter = Painter(colour=wants_colour(options.color, sys.stdout, os.environ))
    encode = msgspec.json.Encoder().encode
    levels: Counter[Level] = Counter()
    for one in diagnoses(options, os.environ):
        levels[one.level] += 1
        for line in [encode(one).decode()] if options.json else _lines(one, painter):
            printer.line(line)
        printer.flush()
    if not options.json:
        printer.line()
        printer.line(", ".join(counted(levels[level], level.value, level.value) for level in Level if levels[level]))
    printer.flush()
    if levels[Level.LEAK]:
        return ExitCode.LEAK
    return ExitCode.UNWELL if levels[Level.PROBLEM] else ExitCode.DONE


def diagnoses(options: argparse.Namespace, environ: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Gives everything that is found, in the order of `Check`."""
    packages = installed.installed()
    settings = Settings.from_environ(environ)
    yield from installed.versions(packages)
    yield from installed.switched_off(settings)
    yield from configuration.settings(settings, environ)
    yield from configuration.key(environ)
    yield from configuration.policy_file(settings)
    yield from installed.zero_code(settings, environ)
    seen: set[Check] = set()
    for one in _trial(options, settings, environ):
        seen.add(one.check)
        yield one
    if Check.RECORDING not in seen:  # the code of the application did not let it come to that
        yield from installed.recording(installed.Here(packages, environ))
    if options.no_connection:
        yield checkup.skipped(Check.CONNECTION, "--no-connection was given")
    elif Check.CONNECTION not in seen:
        yield from connection.connection(environ, packages, options.endpoint)


def _trial(options: argparse.Namespace, settings: Settings, environ: Mapping[str, str]) -> Iterator[Diagnosis]:
    if settings.sdk_disabled:
        yield checkup.skipped(Check.CANARY, "the SDK is disabled, so no provider would make spans")
        return
    zero_code = settings.enabled and settings.mode is not Mode.OFF
    command = installed.instrument_command(environ) if zero_code else None
    request = trial.Request(
        app=options.app,
        script=options.script,
        zero_code=command is not None,
        all_processors=options.all_processors,
        endpoints=not options.no_connection and not _names_endpoint(options, environ),
    )
    yield from trial.trial(request, environ, command=command, timeout_s=options.timeout)


def _names_endpoint(options: argparse.Namespace, environ: Mapping[str, str]) -> bool:
    return bool(options.endpoint) or any(
        environ.get(name, "").strip() for name in (connection.ENDPOINT, connection.TRACES_ENDPOINT)
    )


def _lines(one: Diagnosis, painter: Painter) -> Iterator[str]:
    level = painter.paint(f"{one.level.value:8}", _STYLES[one.level])
    yield f"{level} {one.check.value:11} {one.what}"
    if one.remedy:
        yield f"{'':20} -> {one.remedy}"


def _seconds(text: str) -> float:
    number = float(text)
    if not math.isfinite(number) or number <= 0:
        raise ValueError
    return number
