"""`otel-loopguard demo`: a scripted agent, what its spans would have held, what left instead, and the verdicts.

Invariants: what is shown was recorded and exported by the real SDK in this process, a moment ago, and judged by a real
scorer where one is installed; the only content that is shown is that of the made-up customer. The same output each
time, but for the width of a terminal and the port of the page. It ends by itself unless somebody can end it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Final

import msgspec

from otel_loopguard import attributes as attr
from otel_loopguard.cli.exit_codes import ExitCode
from otel_loopguard.cli.runs import Tables, input_line, report_lines, summary_line
from otel_loopguard.cli.serve import is_of_the_scorer
from otel_loopguard.cli.terminal import COLOUR_CHOICES, Painter, Printer, wants_colour
from otel_loopguard.errors import MissingExtraError, SdkError, ServeError
from otel_loopguard.model import RunOutcome, Value
from otel_loopguard.words import counted, safe

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

    from otel_loopguard.demo.scoring import DemoScorer
    from otel_loopguard.demo.watch import Demo, Watched

NAME = "demo"
SUMMARY = "show on a scripted agent what leaves a process, and what is found"
DESCRIPTION = """\
Lets a scripted agent of a made-up shop run five times through the OpenTelemetry SDK and this package's span processor:
a stuck run, a poll, a pager, a refund made twice, and two agents in a circle. Shows for each what its spans would have
held, what left instead, and the verdict of a scorer of its own, to which the spans are sent; on a terminal the page of
that scorer is served until Ctrl-C. Without the extra `scorer`, `replay` judges, and there is no page. No model, no
network but the loopback, no policy or key of yours.
"""

WIDTH_CHARS: Final = 120
"""Where the output is no terminal."""
_MIN_WIDTH_CHARS: Final = 60
_OWN: Final = "loopguard."
_RANDOM: Final = "(random)"
_ABOUT: Final = """\
A scripted agent, run through the OpenTelemetry SDK twice: without and with LoopGuardSpanProcessor.
In the spans below - is what an exporter would have got, + what it got instead; the rest it gets either way.
"""
_NEXT: Final = """\
What to do next
  your application   provider.add_span_processor(LoopGuardSpanProcessor()), with
                     `from otel_loopguard import LoopGuardSpanProcessor`; README shows it whole, in ten lines
  without code       OTEL_LOOPGUARD_ENABLED=true opentelemetry-instrument python your_app.py
  your traces        otel-loopguard replay traces.jsonl
  what is recorded   otel-loopguard doctor: most instrumentations leave arguments out unless told otherwise
  all your agents    otel-loopguard serve: takes OTLP, serves verdicts, metrics and a page
"""
_INSTALL: Final = 'pip install "otel-loopguard[scorer]"'
_WATCH_EVERY_S: Final = 0.5


def add_parser(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one verdict a run and line, as `replay --json` prints it")
    form.add_argument(
        "--serve",
        action=argparse.BooleanOptionalAction,
        help="serve the page of the demo's scorer until Ctrl-C, or end at once (default: serve on a terminal)",
    )
    parser.add_argument("--color", choices=COLOUR_CHOICES, default="auto", help="colours (default: on a terminal)")


def run(options: argparse.Namespace) -> ExitCode:
    """Carry the command out.

    Raises:
        LoopGuardError: the SDK is switched off, or does not do what the processor needs.
    """
    try:
        from otel_loopguard.demo.watch import watch  # noqa: PLC0415 - the other commands do without the SDK
    except ValueError:
        # The SDK reads its limits as it is imported.
        message = "the OpenTelemetry SDK refuses one of its own variables (OTEL_*_LIMIT): correct or unset it"
        raise SdkError(message) from None

    scoring = _scoring()
    if scoring is None:
        if options.serve:
            message = f"the page is the scorer's, which is not installed: {_INSTALL}"
            raise MissingExtraError(message)
        _show(watch(), options)
        return ExitCode.DONE
    # Only where somebody is there to end it: whatever reads or feeds a pipe may wait for the end.
    on_terminal = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    serves = on_terminal and not options.json if options.serve is None else options.serve
    # The page tells how long ago a run was; what is printed tells no time, and `--json` the same one each time.
    demo = watch(start_ns=time.time_ns() - scoring.SCENES_NS) if serves else watch()
    with scoring.demo_scorer() as scorer:
        _show(scoring.scored(demo, scorer), options)
        if serves:
            _serve(scorer)
    return ExitCode.DONE


def _scoring() -> ModuleType | None:
    """The module that runs a scorer; None where the extra is not installed."""
    try:
        return importlib.import_module("otel_loopguard.demo.scoring")
    except ModuleNotFoundError as error:
        if not is_of_the_scorer(error):
            raise
        return None


def _show(demo: Demo, options: argparse.Namespace) -> None:
    printer = Printer(sys.stdout)
    if options.json:
        for watched in demo.watched:
            printer.line(msgspec.json.encode(watched.report.verdict).decode())
    else:
        painter = Painter(colour=wants_colour(options.color, sys.stdout, os.environ))
        for line in lines(demo, painter, width=_width()):
            printer.line(line)
    printer.flush()


def _serve(scorer: DemoScorer) -> None:
    """Keeps the page there until Ctrl-C or SIGTERM."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        printer = Printer(sys.stdout)
        printer.line(f"\npage: {scorer.page} (Ctrl-C ends it)")
        printer.flush()
        while scorer.is_well():
            time.sleep(_WATCH_EVERY_S)
    except KeyboardInterrupt:
        return
    finally:
        signal.signal(signal.SIGTERM, before)
    message = "a part of the demo's scorer died: report what stands above"
    raise ServeError(message)


def _width() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH_CHARS


def lines(demo: Demo, painter: Painter, *, width: int) -> Iterator[str]:
    """The lines of the demo.

    Args:
        demo: the scenes from both sides.
        painter: colours or not.
        width: characters of a line that holds attributes; lines of verdicts may be longer.
    """
    width = max(width, _MIN_WIDTH_CHARS)
    yield from _ABOUT.splitlines()
    yield ""
    for number, watched in enumerate(demo.watched, start=1):
        yield painter.paint(f"{number}. {watched.scene.title}", "strong")
        yield from _scene(watched, painter, width)
    yield from _sums(demo)
    yield ""
    yield from _NEXT.splitlines()


def _scene(watched: Watched, painter: Painter, width: int) -> Iterator[str]:
    scene = watched.scene
    for tool, declared in _declared(watched):
        yield from _wrapped(f"the policy says of {tool}: {declared}".split(" "), "   ", width, painter, None, gap=" ")
    pairs = list(zip(watched.raw, watched.left, strict=True))
    tools = [place for place, span in enumerate(watched.raw) if attr.TOOL_NAME in (span.attributes or {})]
    for number in scene.shown:
        place = tools[number - 1]
        if scene.shows_chat:
            yield from _span(*pairs[place - 1], "the model's answer before", painter, width)
        yield from _span(*pairs[place], f"call {number} of {len(tools)}", painter, width)
    if watched.told:
        told = ", ".join(f"{event.kind} at call {event.call}" for event in watched.told)
        yield f"   what on_finding was told while it ran: {painter.paint(told, 'bad')}"
    yield ""
    yield from report_lines(watched.report, painter, tables=Tables.ALL, whole=True)


def _declared(watched: Watched) -> Iterator[tuple[str, str]]:
    from otel_loopguard.demo.scenes import POLICY  # noqa: PLC0415 - see `run`

    tools = POLICY["tools"]
    for tool in dict.fromkeys(turn.call.tool for turn in watched.scene.turns):
        if isinstance(tools, Mapping) and tool in tools:
            yield tool, json.dumps(tools[tool]).replace('"', "")


def _span(raw: ReadableSpan, left: ReadableSpan, what: str, painter: Painter, width: int) -> Iterator[str]:
    """One span from both sides."""
    before, after = raw.attributes or {}, left.attributes or {}
    yield f"   {what}: span {painter.paint(safe(raw.name), 'strong')}"
    same = [f"{key}={_text(value)}" for key, value in before.items() if after.get(key) == value]
    yield from _wrapped(same, "       ", width, painter, None)
    for key, value in before.items():
        if after.get(key) != value:
            yield painter.paint(_cut(f"     - {key}={_text(value)}", width), "bad")
    # Each without what all of them begin with.
    own = [
        f"{key.removeprefix(_OWN)}={_RANDOM if key == attr.PRODUCER_ID else _text(value)}"
        for key, value in after.items()
        if before.get(key) != value
    ]
    yield from _wrapped([f"{_OWN}*:", *own], "     + ", width, painter, "good")


def _wrapped(
    words: Sequence[str], head: str, width: int, painter: Painter, style: str | None, *, gap: str = "  "
) -> Iterator[str]:
    line = ""
    for word in words:
        if line and len(head) + len(line) + len(gap) + len(word) > width:
            yield painter.paint(head + line, style)
            line = ""
        line = f"{line}{gap}{word}" if line else word
    if line:
        yield painter.paint(head + line, style)


def _cut(line: str, width: int) -> str:
    """A line of at most `width` characters, which says how long it was."""
    if len(line) <= width:
        return line
    told = f" ... ({len(line)} characters)"
    return line[: width - len(told)] + told


def _text(value: Value) -> str:
    text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return safe(text, limit=len(text))


def _sums(demo: Demo) -> Iterator[str]:
    outcomes: Counter[RunOutcome] = Counter(one.report.verdict.outcome for one in demo.watched)
    counts = demo.counts
    yield input_line(demo.read)
    yield summary_line(outcomes, demo.read.calls)
    runs = counted(len(demo.watched), "run")
    if demo.same_replayed is None:
        yield f"judged by replay; to have a scorer judge them and serve a page of them: {_INSTALL}"
    else:
        yield f"judged by a scorer that got them by OTLP; replay's verdict: the same in {demo.same_replayed} of {runs}"
    alike = sum(one.same_raw for one in demo.watched)
    yield f"judged from what an exporter would have got: the same in {alike} of {runs}"
    yield (
        f"the processor: {counted(counts.tool_calls, 'tool call')}, {sum(counts.unreadable.values())} of them not "
        f"readable; {counted(sum(counts.findings.values()), 'finding')}; content taken off "
        f"{counted(counts.cleaned_spans, 'span')}; {counted(sum(counts.failures.values()), 'failure')}"
    )
    found = ", ".join(demo.leaked) or "none"
    yield f"made-up values that were looked for in what left: {demo.sought}; found: {found}"
