"""`otel-loopguard lint`: what the owner of a policy should look at, told from what the calls in files turned out to be.

Invariant: advice, never a finding: no verdict and, without `--strict`, no exit code depends on it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

import msgspec

from otel_loopguard.cli import inputs
from otel_loopguard.cli.exit_codes import ExitCode
from otel_loopguard.cli.terminal import Printer
from otel_loopguard.lint import Evidence, FieldReader, Lint, LintCode, evidence_of, judge_evidence, summed
from otel_loopguard.policy import Policy
from otel_loopguard.replay import Replay
from otel_loopguard.words import counted, lint_advice, lint_sentence, safe

NAME = "lint"
SUMMARY = "print advice on the policy, told from the calls in files"
DESCRIPTION = """\
Judges the runs in files as `replay` does, and says what of the policy looks wrong: a progress signal that moves on
every call, one that is never found, a field that differs each time and so hides repeats, a tool that is never called.
It is advice: the exit code is 0 whatever is said, and with --strict 1 if anything is.
"""


class Row(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One lint as `lint --json` prints it."""

    lint: LintCode
    tool: str
    rule: str | None = None
    key: str | None = None
    fields: tuple[str, ...] = ()
    evidence: dict[str, int] = {}
    said: str
    advice: str


def add_parser(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command."""
    inputs.add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object a lint and line")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if there is anything to say")


def run(options: argparse.Namespace) -> ExitCode:
    """Carry the command out.

    Raises:
        LoopGuardError: the policy, the key or an optional part cannot be used.
    """
    policy, digester = inputs.load_policy(options.policy), inputs.make_digester()
    replay, reader = Replay(policy, digester), FieldReader(policy, digester)
    problems = inputs.Problems(Printer(sys.stderr))
    named = inputs.sources(options.files, examples=options.examples)
    read = inputs.read_all(named, options, lambda item: replay.add(reader.facts(item)), problems)
    lints = _lints(replay, reader, policy)
    printer = Printer(sys.stdout)
    for line in _json(lints) if options.json else _text(lints, replay, policy):
        printer.line(line)
    printer.flush()
    if reader.left_out:
        problems.add_text(f"{counted(reader.left_out, 'result')} not looked at by field: there were too many")
    problems.tell()
    code = inputs.exit_code(read, problems)
    return ExitCode.ADVICE if code is ExitCode.DONE and options.strict and lints else code


def _lints(replay: Replay, reader: FieldReader, policy: Policy) -> tuple[Lint, ...]:
    called: set[str] = set()

    def of_runs() -> Iterator[Evidence]:
        for report in replay.reports():
            called.update([call.facts.tool for call in report.calls])
            yield evidence_of(report.calls, report.observations, policy, fields=reader)

    evidence = summed(of_runs())
    # Where nothing was called, nothing is known of what is not.
    return judge_evidence(evidence, policy, called=called or None)


def _json(lints: Sequence[Lint]) -> Iterator[str]:
    encode = msgspec.json.Encoder().encode
    for lint in lints:
        row = Row(
            lint=lint.lint,
            tool=lint.tool,
            rule=lint.rule,
            key=lint.key,
            fields=lint.fields,
            evidence=dict(lint.evidence),
            said=lint_sentence(lint),
            advice=lint_advice(lint),
        )
        yield encode(row).decode()


def _text(lints: Sequence[Lint], replay: Replay, policy: Policy) -> Iterator[str]:
    unused = [lint for lint in lints if lint.lint is LintCode.UNUSED_TOOL]
    for lint in lints:
        if lint.lint is not LintCode.UNUSED_TOOL:
            yield f"{lint.lint}  {safe(lint.tool)}: {lint_sentence(lint)}"
            yield f"  {lint_advice(lint)}"
            yield ""
    if unused:
        names = ", ".join(safe(lint.tool) for lint in unused)
        yield f"{LintCode.UNUSED_TOOL}  {names}: {lint_sentence(unused[0])}"
        yield f"  {lint_advice(unused[0])}"
        yield ""
    counts = replay.counts
    said = counted(len(lints), "lint") if lints else "nothing to say"
    seen = f"{counted(counts.runs, 'run')} with {counted(counts.calls, 'call')}"
    yield f"policy {safe(policy.label)}, {seen}: {said}"
