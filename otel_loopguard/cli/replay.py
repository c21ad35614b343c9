"""`otel-loopguard replay`: judge the runs in files and print one verdict a run.

Invariant: the exit code says whether the input was read, never what was found in it.
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections import Counter

import msgspec

from otel_loopguard.cli import inputs
from otel_loopguard.cli.exit_codes import ExitCode
from otel_loopguard.cli.runs import Tables, input_line, report_lines, summary_line
from otel_loopguard.cli.terminal import COLOUR_CHOICES, Painter, Printer, wants_colour
from otel_loopguard.model import RunOutcome, Verdict
from otel_loopguard.replay import Replay
from otel_loopguard.words import safe

NAME = "replay"
SUMMARY = "judge the runs in files and print one verdict a run"
DESCRIPTION = """\
Reads OTLP JSON lines (the collector's file exporter), OTLP protobuf and call records, puts the spans of each run
together, and says of each run whether its agent was stuck. The exit code is 0 whatever is found.
"""


def add_parser(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command."""
    inputs.add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object a run and line")
    parser.add_argument("--run", action="append", default=[], metavar="ID", help="only the run whose id begins so")
    parser.add_argument("--only", type=_outcomes, metavar="OUTCOMES", help="only these outcomes: loop,suspect,...")
    tables = parser.add_mutually_exclusive_group()
    tables.add_argument("--calls", action="store_true", help="the table of calls for clean runs too")
    tables.add_argument("--no-calls", action="store_true", help="no tables of calls")
    parser.add_argument("--all-calls", action="store_true", help="every row of long tables")
    parser.add_argument("--color", choices=COLOUR_CHOICES, default="auto", help="colours (default: on a terminal)")


def run(options: argparse.Namespace) -> ExitCode:
    """Carry the command out.

    Raises:
        LoopGuardError: the policy, the key or an optional part cannot be used.
    """
    replay = Replay(inputs.load_policy(options.policy), inputs.make_digester())
    problems = inputs.Problems(Printer(sys.stderr))
    named = inputs.sources(options.files, examples=options.examples)
    read = inputs.read_all(named, options, replay.add, problems)
    printer = Printer(sys.stdout)
    if options.json:
        _print_json(replay, options, printer)
    else:
        _print_text(replay, options, printer)
    printer.flush()
    problems.tell()
    return inputs.exit_code(read, problems)


def _print_json(replay: Replay, options: argparse.Namespace, printer: Printer) -> None:
    encode = msgspec.json.Encoder().encode
    shown = 0
    for report in replay.reports():
        if _wanted(report.verdict, options):
            printer.line(encode(report.verdict).decode())
            shown += 1
    _tell_if_none(shown, options)


def _print_text(replay: Replay, options: argparse.Namespace, printer: Printer) -> None:
    painter = Painter(colour=wants_colour(options.color, sys.stdout, os.environ))
    tables = Tables.NONE if options.no_calls else Tables.ALL if options.calls else Tables.NOT_CLEAN
    outcomes: Counter[RunOutcome] = Counter()
    calls = shown = 0
    for report in replay.reports():
        outcomes[report.verdict.outcome] += 1
        calls += report.verdict.calls
        if _wanted(report.verdict, options):
            shown += 1
            for line in report_lines(report, painter, tables=tables, whole=options.all_calls):
                printer.line(line)
    printer.line(input_line(replay.counts))
    printer.line(summary_line(outcomes, calls))
    _tell_if_none(shown, options)


def _tell_if_none(shown: int, options: argparse.Namespace) -> None:
    if not shown and (options.run or options.only):
        Printer(sys.stderr).line("no run is what --run and --only ask for")


def _wanted(verdict: Verdict, options: argparse.Namespace) -> bool:
    if options.only and verdict.outcome not in options.only:
        return False
    return not options.run or verdict.run_id.startswith(tuple(options.run))


def _outcomes(text: str) -> frozenset[RunOutcome]:
    """The outcomes of a comma-separated list; the error names the nearest one."""
    names = [outcome.value for outcome in RunOutcome]
    for word in text.split(","):
        if word not in names:
            near = difflib.get_close_matches(word, names, n=1, cutoff=0)
            message = f"no outcome {safe(word)!r}; did you mean {near[0]!r}? There are: {', '.join(names)}"
            raise argparse.ArgumentTypeError(message)
    return frozenset(map(RunOutcome, text.split(",")))
