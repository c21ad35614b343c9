"""The evidence of one run, from its calls and from what the tracker saw of each.

Invariants: a comparison counts only where nothing was done between two equal calls that could have changed what the
second one gives: no call of theirs but reads, no user turn, no attempt. What was denied, failed or is not known is no
evidence. What only attributes tell counts as what content tells, as far as it goes. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from otel_loopguard.lint.fields import FieldReader, differing, may_hide_repeats
from otel_loopguard.lint.records import (
    FEW_VALUES,
    MAX_SIGNALS,
    MAX_TOOLS,
    MAX_VALUES,
    FieldEvidence,
    SignalEvidence,
    ToolEvidence,
    bounded,
)
from otel_loopguard.model import CallFacts, Effect, Outcome, Pattern, Progress, ResultClass, ToolCall
from otel_loopguard.observation import Observation
from otel_loopguard.policy import Policy, ToolContract

LONG_ROW: Final = 8
"""Moves in a row that make a long one. Source: one more than the default of `undeclared_allowed_repeats`: by then every
limit on repeats would have spoken, had the signal not moved."""
ENDLESS: Final = (" increases", " changes")
"""Rules that can say "advanced" for ever. The others end by their nature: `in_order` and `reaches` have a last state,
what `shrinks` runs out, and new items are what a pager or a queue is asked for."""

_Key: TypeAlias = "tuple[str, str, str | None, str | None, int, str | None]"


class _Signal:
    __slots__ = ("found", "longest", "looked", "moved", "still")

    def __init__(self) -> None:
        self.moved = self.still = self.longest = self.looked = self.found = 0

    def record(self) -> SignalEvidence:
        long_runs = int(self.longest >= LONG_ROW)
        return SignalEvidence(self.moved, self.still, long_runs, self.longest, self.looked, self.found)


class _Equal:
    """Equal calls of one agent."""

    __slots__ = ("last", "others", "own", "paths", "results", "rows", "seen", "tool", "values")

    def __init__(self, tool: _Tool) -> None:
        self.tool = tool
        self.own = 0
        """Deeds of their own, and below how many others there were when the last of them was made."""
        self.others = 0
        self.seen = False
        self.last: str | None = None
        self.results: set[str] = set()
        self.paths: set[str] = set()
        """In which results of theirs differed."""
        self.values: dict[str, set[int]] = {}
        self.rows: dict[str, int] = {}


class _Tool:
    __slots__ = (
        "again",
        "contract",
        "full",
        "labels",
        "reads",
        "repeats",
        "same",
        "seen",
        "sets",
        "signals",
        "values",
    )

    def __init__(self, contract: ToolContract) -> None:
        self.contract = contract
        self.labels = labels_of(contract)
        self.repeats = self.reads = self.same = 0
        self.signals: dict[str, _Signal] = {}
        self.sets: dict[tuple[str, ...], int] = {}
        self.values: dict[str, set[int]] = {}
        self.seen: dict[str, int] = {}
        self.full: dict[str, int] = {}
        self.again: set[str] = set()

    def signal(self, label: str) -> _Signal:
        known = self.signals.get(label)
        if known is None:
            known = _Signal()
            if len(self.signals) < MAX_SIGNALS:
                self.signals[label] = known
        return known

    def record(self) -> ToolEvidence:
        strangers = [label for label in self.signals if label not in self.labels]
        moved = sum([self.signals[label].moved for label in strangers])
        for label in strangers:
            # Which of another policy's rules is asked first is not known: where one decided, others may have said no.
            self.signals[label].still += moved - self.signals[label].moved
        return ToolEvidence(
            repeats=self.repeats,
            reads=self.reads,
            same=self.same,
            signals={label: signal.record() for label, signal in self.signals.items()},
            fields=self._fields(),
        )

    def _fields(self) -> FieldEvidence | None:
        if not self.sets:
            return None
        values = {path: tuple(sorted(seen)[:MAX_VALUES]) for path, seen in self.values.items()}
        again = frozenset(self.again)
        return bounded(FieldEvidence(sets=self.sets, values=values, seen=self.seen, full=self.full, again=again))


def labels_of(contract: ToolContract) -> tuple[str, ...]:
    """What decides on a tool's progress, by the label that observations give it, in the order in which it is asked."""
    labels = [rule.label for rule in contract.progress]
    if contract.polling is not None and contract.polling.state is not None:
        labels.append(f"{contract.polling.state.text} changes")
    if contract.pagination is not None and contract.pagination.cursor is not None and contract.pagination.items is None:
        labels.append(f"{contract.pagination.cursor.text} changes")
    return tuple(labels)


def evidence_of(
    calls: Sequence[ToolCall],
    observations: Sequence[Observation],
    policy: Policy,
    *,
    fields: FieldReader | None = None,
) -> dict[str, ToolEvidence]:
    """Counts what one run tells of its tools.

    Args:
        calls: of one run, in its order.
        observations: as many, as `verdict.judge` gives them.
        policy: under which they were judged.
        fields: what read the items, where content was at hand.

    Returns:
        By tool, only those of which there is evidence; at most `MAX_TOOLS`, the first ones called.

    Cost: constant a call; a run without declared signals in which no call is repeated is told from its digests alone.
    """
    digests = [call.facts.call_digest for call in calls]
    if len(set(digests)) == len(digests) and all(call.facts.signals is None for call in calls):
        return {}
    gathering = _Gathering(policy, fields)
    for call, seen in zip(calls, observations, strict=True):
        if call.executed:
            gathering.take(call, seen)
    return gathering.records()


class _Gathering:
    def __init__(self, policy: Policy, fields: FieldReader | None) -> None:
        self._policy, self._fields = policy, fields
        self._tools: dict[str, _Tool] = {}
        self._equal: dict[_Key, _Equal] = {}
        self._deeds = 0

    def records(self) -> dict[str, ToolEvidence]:
        for equal in self._equal.values():
            for label, row in equal.rows.items():
                signal = equal.tool.signal(label)
                signal.moved += row
                signal.longest = max(signal.longest, row)
            for path in equal.paths & equal.values.keys():
                equal.tool.values.setdefault(path, set()).update(equal.values[path])
                equal.tool.seen[path] = equal.tool.seen.get(path, 0) + len(equal.values[path])
                if len(equal.values[path]) >= FEW_VALUES:
                    equal.tool.full[path] = equal.tool.full.get(path, 0) + 1
        found = {name: tool.record() for name, tool in self._tools.items()}
        return {name: record for name, record in found.items() if record != ToolEvidence()}

    def take(self, call: ToolCall, seen: Observation) -> None:
        facts = call.facts
        tool = self._tools.get(facts.tool)
        if tool is None:
            tool = _Tool(self._policy.contract(facts.tool))
            if len(self._tools) < MAX_TOOLS:
                self._tools[facts.tool] = tool
        if tool.contract.noop:
            return
        deed = facts.effect is not Effect.READ
        self._deeds += deed
        failed = facts.outcome is Outcome.ERROR or facts.result_class is ResultClass.ERROR
        if not failed and facts.result_class is ResultClass.CONTENT:
            _look(tool, facts, seen)
        if facts.call_digest is None:
            return
        key = (call.agent, facts.call_digest, facts.key_id, facts.contract, call.user_turn, call.attempt)
        equal = self._equal.get(key)
        if equal is None:
            equal = self._equal[key] = _Equal(tool)
        equal.own += deed
        others = self._deeds - equal.own
        undisturbed = equal.seen and equal.others == others
        equal.others, equal.seen = others, True
        if seen.rule is not None:
            _follow(equal, facts, seen, undisturbed=undisturbed)
        elif not failed and facts.result_digest is not None and may_hide_repeats(facts, tool.contract):
            self._compare(equal, facts.result_digest, undisturbed=undisturbed, is_read=not deed)
            return
        equal.last = None

    def _compare(self, equal: _Equal, digest: str, *, undisturbed: bool, is_read: bool) -> None:
        tool, last = equal.tool, equal.last
        equal.last = digest
        if digest in equal.results:
            tool.same += 1
            return
        equal.results.add(digest)
        repeated = undisturbed and last is not None
        tool.repeats += repeated
        tool.reads += repeated and is_read
        if self._fields is None:
            return
        now = self._fields.of_result(digest)
        if now is not None:
            for path, value in now.items():
                known = equal.values.setdefault(path, set())
                if value in known and known != {value}:
                    tool.again.add(path)
                known.add(value)
        if repeated and last is not None:
            before = self._fields.of_result(last)
            paths = () if before is None or now is None else differing(before, now)
            tool.sets[paths] = tool.sets.get(paths, 0) + 1
            equal.paths.update(paths)


def _look(tool: _Tool, facts: CallFacts, seen: Observation) -> None:
    """Counts whether the declared signals had a value in one result."""
    contract, signals = tool.contract, facts.signals
    if signals is not None:
        if not contract.has_progress:
            return
        values = [mark.value for mark in signals.marks if mark.rule in tool.labels]
        labels = [mark.rule for mark in signals.marks if mark.rule in tool.labels]
        if contract.polling is not None and contract.polling.state is not None:
            labels.append(f"{contract.polling.state.text} changes")
            values.append(signals.state)
        if contract.pattern is Pattern.PAGINATED and len(labels) < len(tool.labels):
            labels.append(tool.labels[-1])
            values.append(signals.cursor)
        for label, value in zip(labels, values, strict=True):
            signal = tool.signal(label)
            signal.looked += 1
            signal.found += value is not None
        return
    if facts.pattern is Pattern.PAGINATED:
        return
    # Attributes alone: a rule that could not decide is named all the same, but for answers that are equal as a whole.
    progress, rule = seen.progress, seen.rule
    if rule is None:
        agreed = facts.contract is not None and facts.contract == contract.digest8
        if progress is Progress.UNCHANGED and agreed and len(tool.labels) == 1:
            tool.signal(tool.labels[0]).looked += 1
    elif progress is Progress.UNKNOWN:
        tool.signal(rule).looked += 1
    else:
        decided = {rule, *tool.labels} if progress is Progress.UNCHANGED else {rule}
        for label in decided:
            signal = tool.signal(label)
            signal.looked += 1
            signal.found += 1


def _follow(equal: _Equal, facts: CallFacts, seen: Observation, *, undisturbed: bool) -> None:
    """Counts what the rules said of one equal call; `seen` names the one that decided."""
    tool, rule = equal.tool, seen.rule
    if rule is None or facts.pattern is Pattern.PAGINATED or facts.effect is Effect.WRITE:
        return  # a write does something each time
    if seen.progress is Progress.UNCHANGED:
        for label in {rule, *tool.labels}:
            tool.signal(label).still += 1
    elif seen.progress is Progress.ADVANCED:
        before = tool.labels[: tool.labels.index(rule)] if rule in tool.labels else ()
        for label in before:
            tool.signal(label).still += 1
        if undisturbed and rule.endswith(ENDLESS):
            equal.rows[rule] = equal.rows.get(rule, 0) + 1
    if seen.terminal is True:
        equal.rows.clear()  # it led somewhere: this is what a signal is for
