"""From evidence to lints: every threshold, and why it is where it is.

Invariants: pure; a lint that other evidence speaks against is not given: advice that is wrong costs more than none.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Final

from otel_loopguard.digest import NameKind, looks_like_name
from otel_loopguard.lint.gathering import ENDLESS, labels_of
from otel_loopguard.lint.records import (
    FEW_VALUES,
    MAX_VALUES,
    Evidence,
    FieldEvidence,
    Lint,
    LintCode,
    SignalEvidence,
    ToolEvidence,
)
from otel_loopguard.policy import Policy, ToolContract

LONG_RUNS: Final = 2
"""Runs with a long row: in one, there may have been that much to see."""
ENDLESS_ROW: Final = 60
"""Moves in a row that need no second run. Source: the default of `max_polls`, a poller's whole budget."""
LOOKED: Final = 10
"""Results without a value. Source: the default of `max_unchanged`, for so long a poller may show nothing."""
REPEATS: Final = 10
"""Repeats with a result of their own, the same number for the same reason."""


def judge_evidence(evidence: Evidence, policy: Policy, *, called: Container[str] | None = None) -> tuple[Lint, ...]:
    """Returns what there is to say to the owner of a policy.

    Args:
        evidence: of all runs looked at.
        policy: as it is now; rules that it no longer declares are passed over.
        called: names of the tools that these runs called; None: nothing is said of tools that were not.

    Returns:
        In the order of `LintCode`, then by tool.
    """
    found: list[Lint] = []
    for tool in sorted(evidence):
        one, contract = evidence[tool], policy.contract(tool)
        labels = labels_of(contract)
        for label, signal in sorted(one.signals.items()):
            if contract.declared and label not in labels:
                continue
            if _always_moves(label, signal):
                counts = {"moved": signal.moved, "unchanged": signal.still, "runs": signal.long_runs}
                counts["longest"] = signal.longest
                found.append(_of_signal(LintCode.SIGNAL_ALWAYS_MOVES, tool, label, contract, counts))
            if signal.looked >= LOOKED and not signal.found:
                counts = {"looked": signal.looked, "found": 0}
                found.append(_of_signal(LintCode.SIGNAL_NEVER_FOUND, tool, label, contract, counts))
        if not one.same and not contract.has_progress and contract.polling is None:
            found += _of_results(tool, one)
    if called is not None:
        found += [Lint(lint=LintCode.UNUSED_TOOL, tool=tool) for tool in unused_tools(policy, called)]
    order = list(LintCode)
    return tuple(sorted(found, key=lambda lint: order.index(lint.lint)))


def unused_tools(policy: Policy, called: Container[str]) -> tuple[str, ...]:
    """Names that the policy declares and no run called, sorted.

    A name that telemetry shows as a digest cannot be found there, and one of a tool that does nothing need not be.
    """
    declared = sorted(set(policy.tools) - set(policy.noop_tools))
    return tuple(
        [tool for tool in declared if tool not in called and looks_like_name(tool, kind=NameKind.TOOL)],
    )


def _always_moves(label: str, signal: SignalEvidence) -> bool:
    """Tells whether a rule moved on every occasion, and had so many that standing still would have shown.

    A job's state moves a few times and is done, so short rows say nothing however many there are; a row that came to a
    terminal answer does not count at all. Two long ones without a single call unchanged, in two runs, are rare for a
    signal that can stand still; one of a poller's whole budget is, too.
    """
    if signal.still or not label.endswith(ENDLESS):
        return False
    return signal.long_runs >= LONG_RUNS or signal.longest >= ENDLESS_ROW


def _of_results(tool: str, one: ToolEvidence) -> Iterator[Lint]:
    """Says what hides repeats, if anything does.

    Where the field is not known, only reads are spoken of: what is clicked on or scrolled does something each time.
    """
    paths, hidden = _hiding(one.fields, one.repeats)
    if paths:
        counts = {"repeats": one.repeats, "equal": 0, "alike": hidden}
        yield Lint(lint=LintCode.SAME_FIELD_DIFFERS, tool=tool, fields=paths, evidence=counts)
    elif one.reads >= REPEATS:
        yield Lint(lint=LintCode.RESULTS_NEVER_EQUAL, tool=tool, evidence={"repeats": one.reads, "equal": 0})


def _hiding(fields: FieldEvidence | None, repeats: int) -> tuple[tuple[str, ...], int]:
    """The fields that alone keep equal calls from having equal results, and in how many pairs; empty if none do.

    They differ in every pair; in at least `REPEATS` pairs nothing else does, and something is equal. None of them is a
    state, which says more than that time has passed: that takes few values, or one of them again.
    """
    if fields is None or not fields.sets or sum(fields.sets.values()) < repeats:
        return (), 0
    always = frozenset.intersection(*map(frozenset, fields.sets))
    paths = tuple(sorted(always))
    hidden = fields.sets.get(paths, 0)
    few = any(_takes_few(fields, path) for path in paths)
    if not paths or hidden < REPEATS or few or not always.isdisjoint(fields.again):
        return (), 0
    return paths, hidden


def _takes_few(fields: FieldEvidence, path: str) -> bool:
    """Tells whether a field takes few values, or may do so.

    A percentage or a count takes much the same values in each run, and an id or a time does not: some may be equal, as
    two runs may fall into one second. Numbers may be either, unless two runs had many each.
    """
    values = fields.values.get(path, ())
    again = 10 * len(values) < 9 * min(MAX_VALUES, fields.seen.get(path, 0))
    alone = fields.full.get(path, 0) < LONG_RUNS and any(value & 1 for value in values)
    return len(values) < FEW_VALUES or again or alone


def _of_signal(code: LintCode, tool: str, label: str, contract: ToolContract, counts: dict[str, int]) -> Lint:
    return Lint(lint=code, tool=tool, rule=label, key=_key_of(label, contract), evidence=counts)


def _key_of(label: str, contract: ToolContract) -> str:
    state = None if contract.polling is None else contract.polling.state
    pages = contract.pagination
    if state is not None and label == f"{state.text} changes":
        return "polling.state"
    if pages is not None and pages.items is not None and label == f"{pages.items.text} new_items":
        return "pagination.items"
    if pages is not None and pages.cursor is not None and label == f"{pages.cursor.text} changes":
        return "pagination.cursor"
    return "progress"
