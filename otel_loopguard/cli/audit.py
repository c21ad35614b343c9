"""`otel-loopguard audit`: what exactly was seen of each call, and what is missing, before anything is judged.

Invariant: a call that lacks what judging needs says so in its line and in the exit code; it never passes silently.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from typing import Final

import msgspec

from otel_loopguard.cli import inputs
from otel_loopguard.cli.exit_codes import ExitCode
from otel_loopguard.cli.terminal import Printer
from otel_loopguard.model import CallFacts, Outcome, Unknown
from otel_loopguard.replay import Replay
from otel_loopguard.words import UNKNOWNS, counted, safe

NAME = "audit"
SUMMARY = "print what was seen of each call, and what is missing"
DESCRIPTION = """\
Prints one line a call: run, sequence, turn, call id, tool, and the digests of its arguments and its result. A real
loop shows different call ids beside the same digest; for paging the digests differ. Digests compare within one
audit, or across audits under one key. What a call lacks is named, and the exit code is then 3.
"""
_SHOWN_HEX: Final = 16


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One call as `audit --json` prints it; `missing` names what judging needs and the telemetry lacks."""

    run_id: str
    sequence: int
    turn: int
    call_id: str | None
    tool: str
    call_digest: str | None
    result_digest: str | None
    missing: dict[str, str]
    """Field to reason, such as `{"arguments": "not_captured"}`."""


def add_parser(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command."""
    inputs.add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object a call and line")


def run(options: argparse.Namespace) -> ExitCode:
    """Carry the command out.

    Raises:
        LoopGuardError: the policy, the key or an optional part cannot be used.
    """
    replay = Replay(inputs.load_policy(options.policy), inputs.make_digester())
    problems = inputs.Problems(Printer(sys.stderr))
    named = inputs.sources(options.files, examples=options.examples)
    read = inputs.read_all(named, options, replay.add, problems)
    lacking = _print(replay, Printer(sys.stdout), as_json=options.json)
    problems.tell()
    code = inputs.exit_code(read, problems)
    return ExitCode.PARTLY_READ if code is ExitCode.DONE and lacking else code


def _print(replay: Replay, printer: Printer, *, as_json: bool) -> bool:
    """Print every call and return whether any lacks something."""
    encode = msgspec.json.Encoder().encode
    calls = lacking = runs = empty = 0
    lacks: Counter[str] = Counter()
    for report in replay.reports():
        runs += 1
        empty += not report.calls
        for call in report.calls:
            facts = call.facts
            row = Row(
                run_id=report.verdict.run_id,
                sequence=call.number,
                turn=call.turn,
                call_id=facts.call_id,
                tool=facts.tool,
                call_digest=facts.call_digest,
                result_digest=facts.result_digest,
                missing=_missing(facts),
            )
            calls += 1
            lacking += bool(row.missing.keys() - {"call_id"})
            lacks.update(row.missing.keys())
            printer.line(encode(row).decode() if as_json else _line(row))
    if not as_json:
        printer.line(f"{counted(runs, 'run')}, {counted(calls, 'call')}, {lacking} with something missing")
        if lacks:
            printer.line("MISSING " + ", ".join(f"{name} in {counted(lacks[name], 'call')}" for name in sorted(lacks)))
        if empty:
            printer.line(f"NO TOOL CALLS seen in {counted(empty, 'run')}")
    printer.flush()
    return bool(lacking)


def _missing(facts: CallFacts) -> dict[str, str]:
    """What judging needs and this call lacks. A call that was refused or failed owes no result."""
    missing = {} if facts.call_id is not None else {"call_id": Unknown.NOT_CAPTURED.value}
    if facts.call_digest is None:
        missing["arguments"] = (facts.call_unknown or Unknown.NOT_CAPTURED).value
    if facts.result_digest is None and facts.outcome not in (Outcome.DENIED, Outcome.ERROR):
        missing["result"] = (facts.result_unknown or Unknown.NOT_CAPTURED).value
    return missing


def _line(row: Row) -> str:
    digests = (digest[:_SHOWN_HEX] if digest else "?" * _SHOWN_HEX for digest in (row.call_digest, row.result_digest))
    parts = [
        safe(row.run_id),
        f"{row.sequence:06d}",
        f"turn {row.turn}",
        safe(row.call_id or "?"),
        safe(row.tool),
        *digests,
    ]
    if row.missing:
        lacks = ", ".join(f"{name} ({UNKNOWNS[Unknown(why)]})" for name, why in row.missing.items())
        parts.append(f"MISSING: {lacks}")
    return "  ".join(parts)
