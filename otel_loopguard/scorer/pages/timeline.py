"""One run as a timeline: its turns, in each the sibling calls, and what was found in them.

Invariants: pure; the verdict is the stored one, and only what calls look like is worked out anew from the facts. Equal
digests have equal letters and colours, in the whole run; a digest that comes once has neither.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from otel_loopguard import words
from otel_loopguard.marks import Marks
from otel_loopguard.model import (
    CallFacts,
    ErrorCategory,
    Finding,
    Flag,
    GuardEntry,
    Kind,
    Outcome,
    Progress,
    Run,
    Severity,
    ToolCall,
    Unknown,
    Verdict,
)
from otel_loopguard.observation import Observation
from otel_loopguard.policy import Policy
from otel_loopguard.scorer.pages.addresses import run_path
from otel_loopguard.scorer.pages.views import RunRow, milliseconds, run_row
from otel_loopguard.scorer.records import JudgedRun
from otel_loopguard.tracker import Tracker

PAGE_CALLS: Final = 500
"""Calls on one page of a run."""
COLOURS: Final = 12
"""Colours that the style sheet tells apart; from the 13th repeated digest on they come again, with other letters."""
MARK_HEX: Final = 4
_WORST_FIRST: Final = (
    Severity.LOOP,
    Severity.DUPLICATE_WRITE,
    Severity.INDETERMINATE_WRITE,
    Severity.BUDGET,
    Severity.OUTAGE,
    Severity.SUSPECT,
    Severity.REPORT,
)


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown of one digest."""

    text: str | None
    """Four hex characters, after a letter where the digest comes again; None where there is no digest."""
    digest: str | None = None
    colour: int | None = None
    """From 1 to `COLOURS`; None, and no letter, where the digest comes once in the run."""
    times: int = 0
    """How often it comes in the run."""
    unknown: str | None = None
    """Why there is no digest."""


class CallView(msgspec.Struct, frozen=True, kw_only=True):
    """One call."""

    number: int
    agent: str
    tool: str
    call_id: str | None
    arguments: Mark
    result: Mark
    answer: str
    """What the result amounts to, or how the call failed."""
    failed: bool
    executed: bool
    progress: Progress
    rule: str | None
    repeat_count: int
    kinds: tuple[Kind, ...]
    """Kinds that came true with this call, as worked out anew."""
    findings: tuple[int, ...]
    """Numbers of the findings that name it."""
    certain: tuple[int, ...]
    """Numbers of the findings that came true with it."""
    severity: Severity | None
    """The worst of its findings'."""
    guard: tuple[GuardEntry, ...]
    wasted: bool
    offset_ms: float | None
    """From the run's start."""
    duration_ms: float | None
    tokens: int
    missing_after: bool
    """Whether a numbered call is missing after it."""


class TurnView(msgspec.Struct, frozen=True, kw_only=True):
    """Calls that one answer of the model asked for."""

    number: int
    user_turn: int
    calls: tuple[CallView, ...]


class FindingView(msgspec.Struct, frozen=True, kw_only=True):
    """One finding; `number` counts from 1 in the verdict's order."""

    number: int
    kind: Kind
    severity: Severity
    sentence: str
    calls: tuple[int, ...]
    first_call: int
    at_call: int


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """Something to be known beside the outcome."""

    flag: Flag
    text: str


class RunPage(msgspec.Struct, frozen=True, kw_only=True):
    """One run."""

    run: RunRow
    verdict: Verdict
    outcome_text: str
    ending_text: str
    agents: tuple[str, ...]
    """Of the calls, in order of appearance."""
    turns: tuple[TurnView, ...]
    """Those of this page."""
    assembled_calls: int
    """Calls of the whole run, as assembled anew."""
    first_shown: int
    last_shown: int
    missing_first: bool
    """Whether a numbered call is missing before the first."""
    earlier: str | None
    later: str | None
    """Addresses of the pages before and after."""
    findings: tuple[FindingView, ...]
    """The worst first."""
    decisions: tuple[GuardEntry, ...]
    missing: tuple[str, ...]
    flags: tuple[Note, ...]
    remark: str | None
    """Why the timeline is absent, or differs from the verdict."""
    json_path: str


def run_page(judged: JudgedRun, run: Run | None, policy: Policy, *, start: int = 1) -> RunPage:
    """Makes the page of one run.

    Args:
        judged: as it is stored.
        run: its calls, assembled anew; None where they are gone.
        policy: by which runs are judged now.
        start: number of the first call that is shown.

    Cost: that of judging the run once more.
    """
    verdict = judged.verdict
    calls = () if run is None else run.calls
    start = min(start, max(1, len(calls)))
    tracker = Tracker(policy)
    observations = [tracker.observe(call) for call in calls]
    maker = _Maker(run, verdict, tracker.wasted_calls)
    last = min(len(calls), start + PAGE_CALLS - 1)
    turns = maker.turns(calls[start - 1 : last], observations[start - 1 : last])
    return RunPage(
        run=run_row(judged),
        verdict=verdict,
        outcome_text=words.OUTCOMES[verdict.outcome],
        ending_text=words.ENDINGS[verdict.termination_reason],
        agents=tuple(dict.fromkeys(call.agent for call in calls)),
        turns=turns,
        assembled_calls=len(calls),
        first_shown=start if calls else 0,
        last_shown=last,
        missing_first=run is not None and 0 in run.gaps,
        earlier=run_path(judged.run_id, start=max(1, start - PAGE_CALLS)) if start > 1 else None,
        later=run_path(judged.run_id, start=last + 1) if last < len(calls) else None,
        findings=_findings(verdict, calls),
        decisions=verdict.guard,
        missing=tuple(_missing(verdict, run)),
        flags=tuple(Note(flag=flag, text=words.FLAGS[flag]) for flag in verdict.flags),
        remark=_remark(verdict, run),
        json_path=run_path(judged.run_id, json=True, start=start),
    )


def _findings(verdict: Verdict, calls: Sequence[ToolCall]) -> tuple[FindingView, ...]:
    made = [_finding(number, one, calls) for number, one in enumerate(verdict.findings, start=1)]
    return tuple(sorted(made, key=lambda one: (_WORST_FIRST.index(one.severity), one.number)))


def _finding(number: int, finding: Finding, calls: Sequence[ToolCall]) -> FindingView:
    return FindingView(
        number=number,
        kind=finding.kind,
        severity=finding.severity,
        sentence=words.finding_sentence(finding, calls),
        calls=finding.calls,
        first_call=finding.first_call,
        at_call=finding.at_call,
    )


def _missing(verdict: Verdict, run: Run | None) -> Iterable[str]:
    """What was not seen, one sentence each."""
    numbers = verdict.missing_sequences
    if numbers:
        shown = ", ".join(map(str, numbers[:10])) + (" and more" if len(numbers) > 10 else "")  # noqa: PLR2004
        yield f"{words.counted(len(numbers), 'numbered call')} never arrived: {shown}"
    if run is not None and run.requested_unseen:
        yield f"{words.counted(run.requested_unseen, 'call')} that the model asked for never seen"
    unknown = words.unknown_sentence(verdict)
    if unknown is not None:
        yield unknown


def _remark(verdict: Verdict, run: Run | None) -> str | None:
    if run is None:
        return "The calls of this run are no longer kept, or belong to another run by now; the verdict stands."
    if len(run.calls) != verdict.calls:
        return (
            f"Spans came, or the policy changed, since the verdict: it counts {words.counted(verdict.calls, 'call')}, "
            f"and {len(run.calls)} are known now."
        )
    return None


class _Maker:
    """Makes the views of one run's calls."""

    def __init__(self, run: Run | None, verdict: Verdict, wasted: frozenset[int]) -> None:
        calls = () if run is None else run.calls
        self._arguments = _Colours([call.facts.call_digest for call in calls], lower=False)
        self._results = _Colours([call.facts.result_digest for call in calls], lower=True)
        self._wasted = wasted
        self._started = None if run is None else run.started_ns
        self._gaps = frozenset(() if run is None else run.gaps)
        self._named: dict[int, list[int]] = {}
        self._certain: dict[int, list[int]] = {}
        self._guard: dict[int, list[GuardEntry]] = {}
        self._severities = [finding.severity for finding in verdict.findings]
        for number, finding in enumerate(verdict.findings, start=1):
            self._certain.setdefault(finding.at_call, []).append(number)
            for call in finding.calls:
                self._named.setdefault(call, []).append(number)
        for entry in verdict.guard:
            if entry.call is not None:
                self._guard.setdefault(entry.call, []).append(entry)

    def turns(self, calls: Sequence[ToolCall], observations: Sequence[Observation]) -> tuple[TurnView, ...]:
        made: dict[int, tuple[int, list[CallView]]] = {}
        for call, seen in zip(calls, observations, strict=True):
            made.setdefault(call.turn, (call.user_turn, []))[1].append(self._call(call, seen))
        return tuple(
            TurnView(number=number, user_turn=user_turn, calls=tuple(siblings))
            for number, (user_turn, siblings) in made.items()
        )

    def _call(self, call: ToolCall, seen: Observation) -> CallView:
        facts, number = call.facts, call.number
        named = tuple(sorted({*self._named.get(number, ()), *self._certain.get(number, ())}))
        severities = {self._severities[one - 1] for one in named}
        started = self._started
        return CallView(
            number=number,
            agent=call.agent,
            tool=facts.tool,
            call_id=facts.call_id,
            arguments=self._arguments.mark(facts.call_digest, facts.call_unknown),
            result=self._results.mark(facts.result_digest, facts.result_unknown),
            answer=_answer(facts),
            failed=facts.outcome in (Outcome.ERROR, Outcome.DENIED),
            executed=call.executed,
            progress=seen.progress,
            rule=seen.rule,
            repeat_count=seen.repeat_count,
            kinds=seen.kinds,
            findings=named,
            certain=tuple(self._certain.get(number, ())),
            severity=next((severity for severity in _WORST_FIRST if severity in severities), None),
            guard=tuple(self._guard.get(number, ())),
            wasted=number in self._wasted,
            offset_ms=milliseconds(started, call.start_ns) if started and call.start_ns else None,
            duration_ms=milliseconds(call.start_ns, call.end_ns) if call.end_ns and call.start_ns else None,
            tokens=call.tokens,
            missing_after=number in self._gaps,
        )


class _Colours:
    """Gives the digests of one run, in order, their letters and, where they come again, their colours."""

    def __init__(self, digests: Sequence[str | None], *, lower: bool) -> None:
        self._times = Counter(digest for digest in digests if digest is not None)
        repeated = [digest for digest, times in self._times.items() if times > 1]
        self._colours: Mapping[str, int] = {digest: place % COLOURS + 1 for place, digest in enumerate(repeated)}
        marks = Marks(lower=lower, hex_chars=MARK_HEX)
        self._texts = {digest: marks.of(digest) for digest in repeated}

    def mark(self, digest: str | None, unknown: Unknown | None) -> Mark:
        if digest is None:
            return Mark(text=None, unknown=words.UNKNOWNS[unknown] if unknown is not None else "none recorded")
        return Mark(
            text=self._texts.get(digest, digest[:MARK_HEX]),
            digest=digest,
            colour=self._colours.get(digest),
            times=self._times[digest],
        )


def _answer(facts: CallFacts) -> str:
    if facts.outcome is Outcome.DENIED:
        return f"denied by {facts.denied_by}" if facts.denied_by else "denied"
    if facts.outcome is Outcome.ERROR:
        known = facts.error_category not in (None, ErrorCategory.UNKNOWN)
        return f"error: {facts.error_category}" if known else "error"
    return "unknown" if facts.result_class is None else facts.result_class.value
