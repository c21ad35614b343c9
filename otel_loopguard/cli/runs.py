"""One run's report as text for people, and the line that sums all runs up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from otel_loopguard import words
from otel_loopguard.cli.table import table
from otel_loopguard.cli.terminal import Painter
from otel_loopguard.model import GuardEntry, RunOutcome, Verdict
from otel_loopguard.replay import Counts, RunReport
from otel_loopguard.words import safe

_STYLES: Final = {RunOutcome.CLEAN: "good", RunOutcome.LOOP: "bad", RunOutcome.DUPLICATE_WRITE: "bad"}
_OUTCOME_CHARS: Final = max(len(outcome) for outcome in RunOutcome)


class Tables(StrEnum):
    """For which runs the table of calls is shown."""

    NONE = "none"
    NOT_CLEAN = "not_clean"
    ALL = "all"


def report_lines(report: RunReport, painter: Painter, *, tables: Tables, whole: bool) -> Iterator[str]:
    """The lines of one run: one for a clean run, else also why, what it cost, and the table of its calls.

    Args:
        report: the judged run.
        painter: colours or not.
        tables: for which runs the table is shown.
        whole: show every row of long tables.
    """
    verdict = report.verdict
    clean = verdict.outcome is RunOutcome.CLEAN
    yield _heading(verdict, painter)
    if not clean or tables is Tables.ALL:
        yield from ("  " + line for line in _reasons(report, painter))
    if tables is Tables.ALL or (tables is Tables.NOT_CLEAN and not clean):
        yield from table(report.calls, report.observations, painter, whole=whole)
        yield ""


def _heading(verdict: Verdict, painter: Painter) -> str:
    style = _STYLES.get(verdict.outcome, "doubt")
    word = painter.paint(f"{verdict.outcome.value:<{_OUTCOME_CHARS}}", style)
    parts = [f"run {safe(verdict.run_id)}"]
    parts += [f"service {safe(verdict.service)}"] if verdict.service else []
    parts += [f"agent {safe(verdict.agent)}"] if verdict.agent else []
    parts.append(f"{words.counted(verdict.calls, 'call')} in {words.counted(verdict.turns, 'turn')}")
    parts.append(words.ENDINGS[verdict.termination_reason])
    return f"{word}  {', '.join(parts)}"


def _reasons(report: RunReport, painter: Painter) -> Iterator[str]:
    """Why the run was judged so: one sentence a finding, then what is to be known beside."""
    verdict = report.verdict
    yield painter.paint(words.OUTCOMES[verdict.outcome], "strong")
    for finding in verdict.findings:
        yield words.finding_sentence(finding, report.calls)
    yield from filter(None, (words.wasted_sentence(verdict), words.unknown_sentence(verdict)))
    yield from map(_guard, verdict.guard)
    for flag in verdict.flags:
        yield painter.paint(words.FLAGS[flag], "dim")


def _guard(entry: GuardEntry) -> str:
    place = f" at call {entry.call}" if entry.call is not None else ""
    why = f", {safe(entry.reason)}" if entry.reason else ""
    return f"guard: {entry.action.value}{place}{'' if entry.enforced else ' (not enforced)'}{why}"


def input_line(counts: Counts) -> str:
    """What was read, and in which dialects: where nothing is found, the first thing to look at."""
    parts = []
    if counts.spans or not counts.records:
        dialects = ", ".join(f"{safe(name)} {number}" for name, number in counts.dialects.most_common())
        parts.append(words.counted(counts.spans, "span") + (f" ({dialects})" if dialects else ""))
    parts += [words.counted(counts.records, "call record")] if counts.records else []
    return f"read {' and '.join(parts)}"


def summary_line(outcomes: Counter[RunOutcome], calls: int) -> str:
    """All runs by outcome, the worst first."""
    total = sum(outcomes.values())
    parts = ", ".join(f"{outcomes[outcome]} {outcome.value}" for outcome in RunOutcome if outcomes[outcome])
    return f"{words.counted(total, 'run')} with {words.counted(calls, 'call')}" + (f": {parts}" if parts else "")
