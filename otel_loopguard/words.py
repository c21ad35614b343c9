"""Plain words for what verdicts hold: one sentence a finding, one phrase for each outcome, flag and ending.

Invariants: a table for each enumeration, complete (a test holds it), and the only place where people's words for
it stand. Sentences hold checked names, counts and call numbers only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from otel_loopguard.digest import NAME_PREFIX
from otel_loopguard.lint import Lint, LintCode
from otel_loopguard.model import (
    Finding,
    Flag,
    Kind,
    RunOutcome,
    Severity,
    TerminationReason,
    ToolCall,
    Unknown,
    Verdict,
)

FINDINGS: Final = {
    Kind.EXACT_REPEAT: "{tool} was called {times} in a row with equal arguments and an equal result",
    Kind.ERROR_REPEAT: "{tool} was called {times} with equal arguments and failed the same way each time",
    Kind.INTERLEAVED_REPEAT: "{tool} was called {times} with equal arguments and an equal result, other calls between",
    Kind.CYCLE: "the same {period} calls, {tool} among them, came round {times} with equal results",
    Kind.HANDOFF_CYCLE: "agents passed the same {period} calls, {tool} among them, round {times} with equal results",
    Kind.SAME_RESULT: "{tool} gave one and the same answer {times} to differing arguments",
    Kind.NEAR_REPEAT: "{tool} was called {times} with nearly equal arguments and got no further",
    Kind.NEAR_RESULT: "{tool} was called {times} with equal arguments and gave nearly the same text",
    Kind.ARGS_REPEAT: "{tool} was called {times} with equal arguments and gave much the same text",
    Kind.STALLED_POLL: "{tool} was polled {times} without any change",
    Kind.POLL_BUDGET: "{tool} was polled {times} and went over its budget",
    Kind.PAGINATION_STALL: "{tool} turned pages {times} without anything new",
    Kind.DUPLICATE_WRITE: "{tool} was asked for the same write {times}",
    Kind.DENIED_REPEAT: "{tool} was proposed {times} although it was denied each time",
    Kind.RELAPSE: "{tool} went back to a repeat that had been found before, now {times}",
    Kind.NO_PROGRESS: "nothing moved on for {times}, {tool} being the last call",
    Kind.ERROR_CASCADE: "calls failed {times} in a row, {tool} being the last",
    Kind.NO_NEW_COVERAGE: "{tool} read {times} what it had read before",
    Kind.BUDGET: "{tool} was called {times}, more often than its budget allows",
    Kind.OUTAGE: "{tool} met the same passing error {times} and did not recover",
    Kind.PARALLEL_DUPLICATE: "{tool} was called {times} within one turn with equal arguments",
}

_COUNTED_REPEATS: Final = frozenset({Kind.EXACT_REPEAT, Kind.ERROR_REPEAT, Kind.INTERLEAVED_REPEAT})
"""Kinds whose allowed number follows from where in its stretch the finding came true."""

_MS_PER_S: Final = 1000

_SEVERITIES: Final = {
    Severity.LOOP: "",
    Severity.SUSPECT: "suspected: ",
    Severity.REPORT: "for the record: ",
    Severity.BUDGET: "",
    Severity.DUPLICATE_WRITE: "",
    Severity.INDETERMINATE_WRITE: "outcome unknown: ",
    Severity.OUTAGE: "no loop, an outage: ",
}

OUTCOMES: Final = {
    RunOutcome.LOOP: "stuck in a loop",
    RunOutcome.DUPLICATE_WRITE: "the same write was made twice",
    RunOutcome.INDETERMINATE_WRITE: "a write was repeated whose first outcome is unknown",
    RunOutcome.BUDGET_EXCEEDED: "a declared budget was spent",
    RunOutcome.OUTAGE: "a tool was down; not a loop",
    RunOutcome.SUSPECT: "may be stuck",
    RunOutcome.UNSCORABLE: "cannot be judged: what could be a loop is not recorded well enough",
    RunOutcome.INCOMPLETE: "incomplete: no loop in what was seen, but calls are missing",
    RunOutcome.CLEAN: "no loop",
}

ENDINGS: Final = {
    TerminationReason.FINAL_ANSWER: "ended with an answer",
    TerminationReason.LOOP_GUARD: "stopped by the loop guard",
    TerminationReason.TURN_LIMIT: "stopped by the turn limit",
    TerminationReason.DEADLINE: "stopped by its deadline",
    TerminationReason.TOOL_ERROR: "ended by a tool's error",
    TerminationReason.CANCELLED: "cancelled",
    TerminationReason.UNKNOWN: "ending not recorded",
}

FLAGS: Final = {
    Flag.ORPHAN_ROOTS: "tool spans without an agent span above them were put together by their conversation",
    Flag.NO_ROOT: "the trace's root span was not seen",
    Flag.OPEN_SPANS: "some spans had not ended",
    Flag.SPAN_REVISED: "a span came again with more in it, and the fuller version counts",
    Flag.CLOCK_SKEW: "clocks disagree with the order of parents and children",
    Flag.ORDER_UNCERTAIN: "the order of calls that matter is uncertain",
    Flag.SAMPLED: "spans are sampled, so calls may be missing",
    Flag.KEY_CHANGED: "digests were made under different keys and cannot be compared across them",
    Flag.POLICY_MISMATCH: "digests were made under another policy than this one",
    Flag.NO_ARGUMENTS: "calls carry no arguments, so repeats cannot be seen",
    Flag.REDACTED_ARGUMENTS: "arguments were redacted, so repeats cannot be seen",
    Flag.TRUNCATED_ARGUMENTS: "arguments were cut off by an attribute length limit",
    Flag.DROPPED_ATTRIBUTES: "attributes were dropped by a limit",
    Flag.UNPARSABLE_ARGUMENTS: "arguments could not be parsed",
    Flag.SCHEMA_NOT_ARGUMENTS: "the instrumentation records the tool's schema in place of its arguments",
    Flag.NO_RESULTS: "calls carry no results, so progress cannot be seen",
    Flag.REQUESTED_NOT_SEEN: "the model asked for calls that no span shows",
    Flag.REQUESTED_NOT_DISPATCHED: "the model's last requested calls were not made",
    Flag.SEQUENCE_GAP: "numbered calls are missing",
    Flag.GAP_IN_FINDING: "calls are missing inside a finding's own stretch",
    Flag.PRODUCER_NOT_CLOSED: "a producer never said how many calls it made",
    Flag.FINDINGS_DROPPED: "there were more findings than are listed",
    Flag.RUN_LIMIT: "the run is larger than what is judged at once and was cut",
    Flag.NO_TOOL_SPANS: "no tool spans seen: the instrumentation may not make any, so nothing is known of tool calls",
    Flag.CONFLICTING_COPIES: "one span came in versions that contradict each other",
    Flag.BAD_ATTRIBUTES: "attributes of this contract had a wrong shape and were left out",
}

UNKNOWNS: Final = {
    Unknown.NOT_CAPTURED: "not captured",
    Unknown.REDACTED: "redacted",
    Unknown.TRUNCATED: "cut off",
    Unknown.DROPPED: "dropped",
    Unknown.UNPARSABLE: "unparsable",
    Unknown.EXCLUDED: "excluded",
    Unknown.SCHEMA_NOT_ARGUMENTS: "only a schema",
    Unknown.NOT_CONFIGURED: "not configured",
}


_MAX_NAME_CHARS: Final = 80


def safe(text: str, *, limit: int = _MAX_NAME_CHARS) -> str:
    """`text` on one line without control or formatting characters, cut to `limit` characters."""
    shown = text if text.isprintable() else "".join(char if char.isprintable() else "?" for char in text)
    return shown if len(shown) <= limit else shown[: limit - 3] + "..."


def counted(number: int, one: str, many: str | None = None) -> str:
    """`1 call`, `2 calls`."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def times(number: int) -> str:
    """`once`, `twice`, `3 times`."""
    return {1: "once", 2: "twice"}.get(number, f"{number} times")


def finding_sentence(finding: Finding, calls: Sequence[ToolCall]) -> str:
    """One finding in one sentence: what happened, how much was allowed, where it began and became certain.

    Args:
        finding: of the run.
        calls: the run's calls, in order.
    """
    what = FINDINGS[finding.kind].format(tool=safe(finding.tool), times=times(finding.count), period=finding.period)
    parts = [_SEVERITIES[finding.severity] + what]
    allowed = _allowed(finding, calls)
    if allowed:
        parts.append(f"allowed were {allowed}")
    if finding.rule:
        parts.append(f"by the rule {safe(finding.rule)}")
    parts.append(f"first at call {finding.first_call}, certain at call {finding.at_call}")
    return "; ".join(parts)


def _allowed(finding: Finding, calls: Sequence[ToolCall]) -> int | None:
    """How many rounds of the stretch came before the one that made it a finding; siblings are one round."""
    if finding.kind not in _COUNTED_REPEATS:
        return None
    turn_of = {call.number: call.turn for call in calls[finding.first_call - 1 : finding.at_call]}
    turns = {turn_of.get(number) for number in finding.calls if number < finding.at_call}
    return len(turns - {turn_of.get(finding.at_call), None}) or None


def wasted_sentence(verdict: Verdict) -> str | None:
    """What the repeats cost, or None where nothing was wasted."""
    if not verdict.wasted_calls:
        return None
    cost = [_duration(verdict.wasted_ms)] if verdict.wasted_ms else []
    cost += [counted(verdict.wasted_tokens, "token")] if verdict.wasted_tokens else []
    return f"{counted(verdict.wasted_calls, 'call')} wasted" + (f" ({', '.join(cost)})" if cost else "")


def _duration(milliseconds: float) -> str:
    return f"{milliseconds / _MS_PER_S:.1f} s" if milliseconds >= _MS_PER_S else f"{milliseconds:.0f} ms"


def unknown_sentence(verdict: Verdict) -> str | None:
    """How many calls cannot be compared and why, or None."""
    if not verdict.unknown_calls:
        return None
    total = sum(verdict.unknown_calls.values())
    reasons = ", ".join(f"{UNKNOWNS[Unknown(word)]} {count}" for word, count in verdict.unknown_calls.items())
    return f"arguments not known for {total} of {counted(verdict.calls, 'call')}: {reasons}"


LINTS: Final = {
    LintCode.SIGNAL_ALWAYS_MOVES: (
        "the rule `{rule}` said that it advanced at each of {moved} equal calls with nothing done between them, "
        "{longest} in a row at most, and never that it did not"
    ),
    LintCode.SIGNAL_NEVER_FOUND: "`{rule}` had no value that it can use in any of {looked} results",
    LintCode.SAME_FIELD_DIFFERS: (
        "{repeats} equal calls with nothing done between them never gave an equal result; {alike} of the results "
        "differ from the one before in {fields} and in nothing else"
    ),
    LintCode.RESULTS_NEVER_EQUAL: (
        "{repeats} equal calls with nothing done between them never gave an equal result, and nothing is declared that "
        "says what moves"
    ),
    LintCode.UNUSED_TOOL: "declared, and not called in these runs",
}
_ADVICE: Final = {
    LintCode.SIGNAL_ALWAYS_MOVES: (
        "If this is a time or a counter that moves whether or not anything happened, no repeat of this tool is ever "
        "found: change `{key}` to a field that stands still when nothing happens, and put this one into "
        "`ignore_result`. If each of these calls did get something done, leave it; of a poller, declare its `terminal` "
        "states."
    ),
    LintCode.SIGNAL_NEVER_FOUND: (
        "Compare the path of `{key}` with a result: it may be mistyped, its value of another type than the rule takes "
        "(a number as text), or none of the states listed. Until then the rule decides nothing."
    ),
    LintCode.SAME_FIELD_DIFFERS: (
        "If an id or a time, it hides repeats: `ignore_result: [{paths}]`. If it is what the tool is asked for, say "
        "so: `progress`, or `polling` with its `state`."
    ),
    LintCode.RESULTS_NEVER_EQUAL: (
        "If an id or a time in the results differs each time, it hides repeats: name it in `ignore_result`, or in "
        "`ignore_result_regex` where results are text. If the tool is asked again because its answer moves on, say so: "
        "`progress`, or `polling` with its `state`. On files with content, `otel-loopguard lint` may name the field."
    ),
    LintCode.UNUSED_TOOL: "A name that is spelled otherwise in the spans would look like this.",
}
_MAX_PATH_CHARS: Final = 256
"""A path of `lint.fields` is shorter: cut, it would not be what to write into a policy."""
_NOT_TEXT: Final = frozenset({"null", "true", "false"})
"""What YAML takes for no text where it is not in quotes."""
_LAST_PAGE: Final = " If every answer was the last page, leave it."
_HIDDEN: Final = (
    " A part that begins with `_n:` stands for a key that may be content and is not shown; look it up in a result."
)


def lint_sentence(lint: Lint) -> str:
    """What was seen, with its counts."""
    counts = {name: str(number) for name, number in lint.evidence.items()}
    fields = " and ".join(f"`{safe(path, limit=_MAX_PATH_CHARS)}`" for path in lint.fields)
    return LINTS[lint.lint].format(**counts, rule=safe(lint.rule or ""), fields=fields)


def lint_advice(lint: Lint) -> str:
    """What it means, and what to write into the policy."""
    hidden = [path for path in lint.fields if NAME_PREFIX in path]
    paths = ", ".join(_quoted(safe(path, limit=_MAX_PATH_CHARS)) for path in lint.fields)
    said = _ADVICE[lint.lint].format(key=lint.key, paths=paths)
    if lint.key == "pagination.cursor":
        said += _LAST_PAGE
    return said + _HIDDEN if hidden else said


def _quoted(path: str) -> str:
    return path if path.isidentifier() and path.lower() not in _NOT_TEXT else f'"{path}"'
