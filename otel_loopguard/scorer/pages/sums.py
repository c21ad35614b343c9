"""What runs add up to, by tool and by release.

Invariants: pure; the sums are of the runs given, which are those that the list shows under the same filters. Waste is
known for a run as a whole: for a tool it is that of the runs that were stuck on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from otel_loopguard.lint import Evidence, Lint, LintCode, judge_evidence, summed, unused_tools
from otel_loopguard.model import Effect, Kind, Pattern, RunOutcome, Severity
from otel_loopguard.policy import Policy, ToolContract
from otel_loopguard.scorer.pages.addresses import Query, list_path
from otel_loopguard.scorer.records import JudgedRun
from otel_loopguard.words import lint_advice, lint_sentence

MAX_ROWS: Final = 1000
"""Rows of one table: names come from outside, and one run may call as many tools as it likes."""
SUMMED_RUNS: Final = 5000
"""Newest runs that are added up at most: reading them takes some tenths of a second."""


class ToolRow(msgspec.Struct, frozen=True, kw_only=True):
    """One tool."""

    tool: str
    path: str
    """Of the list of runs that called it."""
    declared: str | None
    """What the policy declares of it; None: nothing."""
    runs: int
    calls: int
    stuck_runs: int
    """Runs with a finding of severity loop that names it."""
    findings: int
    kinds: Mapping[str, int]
    """Findings by kind."""
    wasted_calls: int
    """In the runs that were stuck on it; so are the next two."""
    wasted_ms: float
    wasted_tokens: int


class ReleaseRow(msgspec.Struct, frozen=True, kw_only=True):
    """One release of one service."""

    service: str | None
    release: str | None
    path: str
    runs: int
    outcomes: Mapping[str, int]
    calls: int
    findings: int
    loops: int
    """Runs with the outcome loop."""
    wasted_calls: int
    wasted_ms: float
    wasted_tokens: int
    last_judged_ns: int


class LintRow(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of advice to the owner of the policy."""

    lint: LintCode
    tool: str
    path: str
    """Of the list of runs that called it."""
    rule: str | None
    key: str | None
    """Where the policy declares the rule."""
    evidence: Mapping[str, int]
    said: str
    advice: str


class SumsPage(msgspec.Struct, frozen=True, kw_only=True):
    """Tools or releases; the one that is not asked for is empty."""

    filters: Mapping[str, str]
    runs: int
    """Added up."""
    more: bool
    """Whether there are older ones that were not."""
    tools: tuple[ToolRow, ...] = ()
    releases: tuple[ReleaseRow, ...] = ()
    left_out: int = 0
    """Tools or releases past `MAX_ROWS`, the last in the order of the table."""
    unused: tuple[str, ...] = ()
    """Tools that the policy declares and no run called."""
    lint: tuple[LintRow, ...] = ()
    """Advice on the policy from the runs that were judged under it as it is, but for `unused`."""


class _Sum(msgspec.Struct):
    runs: int = 0
    calls: int = 0
    stuck: int = 0
    findings: int = 0
    counts: dict[str, int] = msgspec.field(default_factory=dict)
    wasted_calls: int = 0
    wasted_ms: float = 0.0
    wasted_tokens: int = 0
    last_ns: int = 0

    def waste(self, run: JudgedRun) -> None:
        verdict = run.verdict
        self.wasted_calls += verdict.wasted_calls
        self.wasted_ms += verdict.wasted_ms
        self.wasted_tokens += verdict.wasted_tokens

    def count(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1


def tools_page(runs: Iterable[JudgedRun], query: Query, policy: Policy, *, more: bool) -> SumsPage:
    """Adds runs up by tool, those with the most stuck runs first.

    Args:
        runs: at most `SUMMED_RUNS`.
        query: by which they were chosen.
        policy: says what is declared.
        more: whether there are older ones.
    """
    sums: dict[str, _Sum] = {}
    number = 0
    evidence: list[Evidence] = []
    for run in runs:
        number += 1
        if run.lint and run.verdict.policy == policy.label:
            evidence.append(run.lint)
        for tool, calls in run.tools.items():
            one = sums.setdefault(tool, _Sum())
            one.runs += 1
            one.calls += calls
        for finding in run.verdict.findings:
            one = sums.setdefault(finding.tool, _Sum())
            one.findings += 1
            one.count(finding.kind)
        for tool in {one.tool for one in run.verdict.findings if one.severity is Severity.LOOP}:
            sums[tool].stuck += 1
            sums[tool].waste(run)
    ordered = sorted(sums.items(), key=lambda item: (-item[1].stuck, -item[1].calls, item[0]))
    return SumsPage(
        filters=query.given,
        runs=number,
        more=more,
        left_out=max(0, len(ordered) - MAX_ROWS),
        tools=tuple(
            ToolRow(
                tool=tool,
                path=list_path("/", {**query.given, "tool": tool}),
                declared=_declared(policy.tools.get(tool)),
                runs=one.runs,
                calls=one.calls,
                stuck_runs=one.stuck,
                findings=one.findings,
                kinds=_sorted(one.counts, Kind),
                wasted_calls=one.wasted_calls,
                wasted_ms=round(one.wasted_ms, 3),
                wasted_tokens=one.wasted_tokens,
            )
            for tool, one in ordered[:MAX_ROWS]
        ),
        unused=unused_tools(policy, sums),
        lint=tuple([_lint_row(one, query) for one in judge_evidence(summed(evidence), policy)[:MAX_ROWS]]),
    )


def _lint_row(lint: Lint, query: Query) -> LintRow:
    return LintRow(
        lint=lint.lint,
        tool=lint.tool,
        path=list_path("/", {**query.given, "tool": lint.tool}),
        rule=lint.rule,
        key=lint.key,
        evidence=lint.evidence,
        said=lint_sentence(lint),
        advice=lint_advice(lint),
    )


def _declared(contract: ToolContract | None) -> str | None:
    if contract is None:
        return None
    said = [] if contract.effect is Effect.UNKNOWN else [contract.effect.value]
    said += [] if contract.pattern is Pattern.PLAIN else [contract.pattern.value]
    return ", ".join(said) or "declared"


def releases_page(runs: Iterable[JudgedRun], query: Query, *, more: bool) -> SumsPage:
    """Adds runs up by service and release, the one that was judged last first."""
    sums: dict[tuple[str | None, str | None], _Sum] = {}
    number = 0
    for run in runs:
        number += 1
        verdict = run.verdict
        one = sums.setdefault((verdict.service, verdict.release), _Sum())
        one.runs += 1
        one.calls += verdict.calls
        one.findings += len(verdict.findings)
        one.count(verdict.outcome)
        one.last_ns = max(one.last_ns, run.judged_ns)
        one.waste(run)
    ordered = sorted(sums.items(), key=lambda item: -item[1].last_ns)
    return SumsPage(
        filters=query.given,
        runs=number,
        more=more,
        left_out=max(0, len(ordered) - MAX_ROWS),
        releases=tuple(
            ReleaseRow(
                service=service,
                release=release,
                path=list_path("/", {**query.given, "service": service or "", "release": release or ""}),
                runs=one.runs,
                outcomes=_sorted(one.counts, RunOutcome),
                calls=one.calls,
                findings=one.findings,
                loops=one.counts.get(RunOutcome.LOOP, 0),
                wasted_calls=one.wasted_calls,
                wasted_ms=round(one.wasted_ms, 3),
                wasted_tokens=one.wasted_tokens,
                last_judged_ns=one.last_ns,
            )
            for (service, release), one in ordered[:MAX_ROWS]
        ),
    )


def _sorted(counts: Mapping[str, int], order: type[Kind | RunOutcome]) -> dict[str, int]:
    return {one.value: counts[one] for one in order if one in counts}
