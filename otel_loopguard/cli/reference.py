"""docs/cli.md, made from the command line itself: `python -m otel_loopguard.cli.reference > docs/cli.md`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from otel_loopguard.cli import COMMANDS, PROGRAM, build_parser
from otel_loopguard.cli.exit_codes import MEANING
from otel_loopguard.files import Reason, calls, explain

_INPUT = """\
Files are read as a stream, so their size does not matter. Each may be packed with gzip. What a file holds is found
out from its first bytes and, in text, line by line:

- **OTLP JSON**: one `ExportTraceServiceRequest` a line, as the collector's file exporter writes it, or one or more
  pretty-printed documents. Names in camelCase or snake_case; ids in hex. Logs and metrics are passed over and counted.
  A line, and everything that does not stand one a line, is read as a whole: at most 64 MiB.
- **OTLP protobuf**: trace messages one after the other, bare or each after its length in four bytes, as the
  collector's file exporter writes them with `format: proto`. Needs the extra `cli`.
- **Call records**: one JSON object a line, or a list of them. Required are {required}. `sequence` is the order of a
  run's calls, whatever `ts` (in seconds) says; it may leave numbers out, and agents, user turns and attempts may each
  number their own. Copies of one call count once. The result stands in `result`
  or `observation`, and without either it counts as missing. Optional are {optional}.

What cannot be read is told on standard error, with its line or message number and one of the reasons below, never with
what it held; the rest is read all the same.
"""

_OUTPUT = """\
`replay` prints text for people: one line a run, and for each run that is not clean also why, what it cost, and the
table of its calls. In the table equal arguments, and equal results, have the same letter, the same two characters of
their digest and the same colour. `--json` prints one verdict a line instead. Digests are made under the key in
`OTEL_LOOPGUARD_KEY` or `OTEL_LOOPGUARD_KEY_FILE` if there is one, else under a key that is forgotten at once, so that
they compare within one command only. Colours follow `--color`, `NO_COLOR` and `TERM=dumb`.
"""


def document() -> Iterator[str]:
    """The lines of docs/cli.md."""
    parser = build_parser()
    yield f"# Command line\n\n<!-- made by {PROGRAM}'s own parser: python -m otel_loopguard.cli.reference -->\n"
    for name, command in _parsers(parser).items():
        yield f"## `{PROGRAM} {name}`\n"
        yield f"{COMMANDS[name].DESCRIPTION}"
        yield "| argument | meaning |\n| --- | --- |"
        yield from (f"| {_argument(action)} | {_cell(action.help or '')} |" for action in _actions(command))
        yield ""
    required, optional = (", ".join(f"`{name}`" for name in names) for names in (calls.REQUIRED, calls.OPTIONAL))
    yield "## Input\n\n" + _INPUT.format(required=required, optional=optional)
    yield "| reason | meaning |\n| --- | --- |"
    yield from (f"| `{reason.value}` | {_cell(explain(reason))} |" for reason in Reason)
    yield f"\n## Output\n\n{_OUTPUT}"
    yield "## Exit codes\n\n| code | meaning |\n| --- | --- |"
    yield from (f"| {code.value} | {_cell(meaning)} |" for code, meaning in MEANING.items())


def _parsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:  # noqa: SLF001 - argparse has no public way to list its arguments
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            return dict(action.choices)
    return {}


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    return (action for action in parser._actions if action.dest != "help")  # noqa: SLF001


def _argument(action: argparse.Action) -> str:
    name = action.option_strings[0] if action.option_strings else f"{action.metavar} ..."
    if action.choices:
        return f"`{name}` " + ", ".join(f"`{choice}`" for choice in action.choices)
    if action.metavar and action.option_strings:
        return f"`{name} {action.metavar}`"
    return ", ".join(f"`{one}`" for one in action.option_strings or [name])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write("\n".join(document()) + "\n")
