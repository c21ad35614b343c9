"""`otel-loopguard serve`: the scorer, until it is told to stop.

Invariants: everything is checked before the first span is taken; what is said on standard error names settings and
reasons, never what a span held.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Final

from otel_loopguard.cli.exit_codes import ExitCode
from otel_loopguard.cli.terminal import Printer
from otel_loopguard.errors import MissingExtraError
from otel_loopguard.scorer.settings import PREFIX, SETTINGS, read_settings
from otel_loopguard.words import safe

NAME = "serve"
SUMMARY = "receive spans, judge runs, and serve metrics and verdicts"
DESCRIPTION = f"""\
Receives OTLP over HTTP and gRPC, keeps what it acknowledges in the data folder, judges each run when it is over, and
serves metrics for Prometheus. Stops on SIGTERM or SIGINT; what is still open then is judged after the next start.
Each setting may also stand in the environment, as {PREFIX} and its name in capitals. Needs the extra `scorer`.
"""
_MODULES: Final = ("aiohttp", "google", "grpc", "isal", "jinja2", "opentelemetry.proto", "zstandard")
"""What the extra brings."""


def add_parser(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command."""
    for setting in SETTINGS:
        default = f" (default: {setting.default})" if setting.default else ""
        parser.add_argument(
            f"--{setting.name.replace('_', '-')}",
            metavar=setting.name.upper(),
            help=f"{setting.doc} {setting.shape[0].upper()}{setting.shape[1:]}{default}".replace("%", "%%"),
        )


def is_of_the_scorer(error: ModuleNotFoundError) -> bool:
    """Tells whether a part is missing that the extra `scorer` brings."""
    return error.name is not None and error.name.startswith(_MODULES)


def run(options: argparse.Namespace) -> ExitCode:
    """Carry the command out.

    Raises:
        LoopGuardError: a setting, the key, the policy or the data folder cannot be used, or a part is not installed.
    """
    settings = read_settings({setting.name: getattr(options, setting.name) for setting in SETTINGS}, os.environ)
    try:
        from otel_loopguard.scorer.app import serve  # noqa: PLC0415 - the other commands do without a server
    except ModuleNotFoundError as error:
        if not is_of_the_scorer(error):
            raise
        message = 'serving needs its parts: pip install "otel-loopguard[scorer]"'
        raise MissingExtraError(message) from error
    printer = Printer(sys.stderr)
    serve(settings, os.environ, say=lambda line: printer.line(safe(line, limit=500)))
    return ExitCode.DONE
