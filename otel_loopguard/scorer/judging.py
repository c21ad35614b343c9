"""Judges one group: what its runs are now, and what changed since they were judged before.

Invariants: the core's own assembly and verdict, and nothing beside them; pure. The same spans give the same verdicts,
in whatever portions and however often they came, but for how often that was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from otel_loopguard.assembly import assemble
from otel_loopguard.detectors.writes import BusinessMemory
from otel_loopguard.lint import evidence_of
from otel_loopguard.model import Flag, Role, Run, SpanFacts, Verdict
from otel_loopguard.observation import Observation
from otel_loopguard.policy import Policy
from otel_loopguard.scorer.group_facts import GroupFacts, cut
from otel_loopguard.scorer.records import Close, JudgedRun
from otel_loopguard.spill import cut_order
from otel_loopguard.verdict import judge

BACKFILL_AFTER_NS: Final = 900 * 1_000_000_000
"""A run that ended longer than this before its first span came is old: nobody is to be woken for it."""
PART_MARK: Final = "~"
"""Stands between a run's id and the number of its part, from the second part on; no run id holds one."""

ALIAS_MARK: Final = "@"
"""Stands between a run's id and its first trace, where the id is another run's already; no run id holds one."""

Pairs: TypeAlias = tuple[tuple[JudgedRun | None, JudgedRun | None], ...]
_OTHER: Final = Role.OTHER
_GOING_ON: Final = (Close.AGE_LIMIT, Close.SPAN_LIMIT)


class Circumstances(msgspec.Struct, frozen=True, kw_only=True):
    """When and why a group is judged."""

    close: Close
    received: Mapping[str, int]
    """When the first span of each trace came, of those that have come since."""
    now_ns: int
    max_spans: int


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What judging one group came to."""

    kept: GroupFacts
    """What late spans are judged with."""
    spans: int
    """Distinct spans that were looked at."""
    pairs: Pairs
    """Runs that are new, changed or withdrawn, each as it was and as it is."""
    withdrawn: tuple[str, ...]


def judge_group(
    whole: GroupFacts,
    before: Mapping[str, JudgedRun],
    policy: Policy,
    circumstances: Circumstances,
    *,
    is_taken: Callable[[str], bool] = lambda _: False,
) -> Judgement:
    """Judges all spans of one group.

    Args:
        whole: what came of it (`group_facts.combined`); it is taken over.
        before: the runs that were judged of it, by id; empty for a new group.
        policy: the owner's.
        circumstances: when and why.
        is_taken: whether a run of another group has this id. Ids that applications choose may be another trace's, or
            its own while other spans of it bear none: the second run to come is then called by its trace, too.

    Returns:
        The runs that are new or whose verdict changed. A copy of a span that was judged already changes no verdict:
        `Verdict.duplicates` is left out when verdicts are compared, and so is the revision. `final` is not: that a run
        has ended is news. Where nothing but copies came, the run has their number and is otherwise as it was.
    """
    judging = _Judging(before, whole, policy, circumstances, is_taken)
    parts = _parts(whole, circumstances.max_spans)
    for part in parts[:-1]:
        judging.judge(part, is_cut=True, full=True)
    judging.judge(parts[-1], is_cut=len(parts) > 1 or whole.parts > 0, full=False)
    return judging.judgement(parts)


def is_changed(before: Verdict, after: Verdict) -> bool:
    """Tells whether a verdict says something else than the one before."""
    return msgspec.structs.replace(after, revision=before.revision, duplicates=before.duplicates) != before


def _parts(whole: GroupFacts, limit: int) -> list[GroupFacts]:
    if len(whole.spans) <= limit:
        return [whole]
    return cut(whole, sorted(range(len(whole.spans)), key=lambda place: cut_order(whole.spans[place])), limit)


def _ended_traces(spans: Sequence[SpanFacts]) -> set[str]:
    return {span.trace_id for span in spans if span.parent_id is None and span.end_ns is not None}


class _Judging:
    def __init__(
        self,
        before: Mapping[str, JudgedRun],
        whole: GroupFacts,
        policy: Policy,
        circumstances: Circumstances,
        is_taken: Callable[[str], bool],
    ) -> None:
        self._policy, self._circumstances, self._is_taken = policy, circumstances, is_taken
        self._all_before = before
        self._whole = whole
        self._before = {run_id: run for run_id, run in before.items() if not _is_sealed(run_id, whole.sealed)}
        self._sealed = dict(whole.sealed)
        self._memory = BusinessMemory()
        self._found: set[str] = set()
        self._pairs: list[tuple[JudgedRun | None, JudgedRun | None]] = []
        self._spans = len(whole.spans)

    def judge(self, part: GroupFacts, *, is_cut: bool, full: bool) -> None:
        """Judges one part; `full`: it is closed for good."""
        if all(span.role is _OTHER for span in part.spans):
            return  # traces of no agent, the most there are
        runs = self._named(assemble(part.arrived(), self._policy))
        ended = _ended_traces(part.spans)
        for run in runs:
            limited = self._limited(run) if is_cut else run
            verdict, seen = judge(limited, self._policy, memory=self._memory)
            self._take(limited, verdict, seen, final=full or ended.issuperset(verdict.trace_ids))
        if full:
            for run in runs:
                self._sealed[run.run_id] = self._sealed.get(run.run_id, 0) + 1

    def judgement(self, parts: Sequence[GroupFacts]) -> Judgement:
        whole = self._whole
        gone = sorted(self._before.keys() - self._found)
        withdrawn = {run_id: at for run_id, at in whole.withdrawn.items() if run_id not in self._found}
        # The next number is that of the news that it is withdrawn (`settling`).
        withdrawn.update((run_id, self._before[run_id].verdict.revision + 1) for run_id in gone)
        return Judgement(
            kept=GroupFacts(
                spans=parts[-1].spans,
                copies=parts[-1].copies,
                parts=whole.parts + len(parts) - 1,
                sealed=self._sealed,
                withdrawn=withdrawn,
                aliases=whole.aliases,
            ),
            spans=self._spans,
            pairs=(*self._pairs, *((self._before[run_id], None) for run_id in gone)),
            withdrawn=tuple(gone),
        )

    def _named(self, runs: Sequence[Run]) -> list[Run]:
        """The runs of one part, each with an id that no other run has."""
        aliases = self._whole.aliases
        for run in runs:
            if run.run_id in self._all_before:
                aliases.pop(run.run_id, None)
            elif run.run_id not in aliases and run.run_id not in self._sealed and self._is_taken(run.run_id):
                aliases[run.run_id] = _by_trace(run)
        return [
            run if run_id == run.run_id else msgspec.structs.replace(run, run_id=run_id)
            for run_id, run in named_runs(runs, aliases).items()
        ]

    def _limited(self, run: Run) -> Run:
        """As `Replay` does with the parts of a group that was cut."""
        part = self._sealed.get(run.run_id, 0) + 1
        run_id = run.run_id if part == 1 else f"{run.run_id}{PART_MARK}{part}"
        return msgspec.structs.replace(run, run_id=run_id, flags=run.flags | {Flag.RUN_LIMIT})

    def _take(self, run: Run, verdict: Verdict, seen: Sequence[Observation], *, final: bool) -> None:
        self._found.add(verdict.run_id)
        before = self._before.get(verdict.run_id)
        circumstances = self._circumstances
        revision = self._whole.withdrawn.get(verdict.run_id, 0) if before is None else before.verdict.revision
        verdict = msgspec.structs.replace(verdict, revision=revision + 1, final=final)
        if before is not None and not is_changed(before.verdict, verdict):
            if before.verdict.duplicates != verdict.duplicates:
                counted = msgspec.structs.replace(before.verdict, duplicates=verdict.duplicates)
                self._pairs.append((before, msgspec.structs.replace(before, verdict=counted)))
            return
        late = before is not None and before.close not in _GOING_ON
        after = JudgedRun(
            run_id=verdict.run_id,
            verdict=verdict,
            close=Close.LATE if late else circumstances.close,
            judged_ns=circumstances.now_ns,
            backfill=self._is_old(verdict) if before is None else before.backfill,
            spans=self._spans,
            tools=Counter(call.facts.tool for call in run.calls),
            labels=() if before is None else before.labels,
            lint=evidence_of(run.calls, seen, self._policy),
        )
        self._pairs.append((before, after))

    def _is_old(self, verdict: Verdict) -> bool:
        received = self._circumstances.received
        came = [received[trace_id] for trace_id in verdict.trace_ids if trace_id in received]
        if not came or verdict.ended_ns is None:
            return False
        return verdict.ended_ns + BACKFILL_AFTER_NS < min(came)


def named_runs(runs: Iterable[Run], aliases: Mapping[str, str]) -> dict[str, Run]:
    """Returns the runs of one part of a group by the ids that they are stored under, but for the part's number.

    Args:
        runs: as `assemble` gave them, in its order.
        aliases: of the group (`GroupFacts.aliases`).
    """
    named: dict[str, Run] = {}
    for run in runs:
        run_id = aliases.get(run.run_id, run.run_id)
        if run_id in named:
            run_id = _by_trace(run)
        while run_id in named:
            run_id += ALIAS_MARK
        named[run_id] = run
    return named


def _by_trace(run: Run) -> str:
    return f"{run.run_id}{ALIAS_MARK}{min(run.trace_ids)}"


def _is_sealed(run_id: str, sealed: Mapping[str, int]) -> bool:
    name, _, part = run_id.partition(PART_MARK)
    return int(part or 1) <= sealed.get(name, 0)
