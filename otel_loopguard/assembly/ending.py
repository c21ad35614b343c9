"""How a run ended, and whether everything that was asked for was seen.

Invariants: only explicit evidence counts; repeats never decide how a run ended (DESIGN 1). Evidence inside a
tool call (a sub-agent's own limit) is the sub-agent's, not the run's.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from otel_loopguard.assembly.tree import Tree
from otel_loopguard.assembly.turns import Candidate
from otel_loopguard.model import Finish, Flag, Outcome, Role, SpanFacts, TerminationReason


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a run's end.

    `unseen` counts calls asked for that no span shows and that the ending does not explain.
    """

    termination: TerminationReason
    final_answer: bool
    unseen: int
    responses_without_calls: bool
    flags: frozenset[Flag]


def read(
    containers: Sequence[SpanFacts],
    chats: Sequence[SpanFacts],
    others: Sequence[SpanFacts],
    calls: Sequence[Candidate],
    tree: Tree,
) -> Ending:
    """Reads the end of one run from its spans (any order)."""
    outer = [span for span in containers if not _inside_tool(span, tree)]
    responses = sorted((chat for chat in chats if not _inside_tool(chat, tree)), key=_by_end)
    answered = _answered(outer, responses, others, calls)
    termination = _termination(outer, others, answered=answered)
    if termination is TerminationReason.UNKNOWN and _failed_with_its_last_call(outer, responses, calls):
        termination = TerminationReason.TOOL_ERROR
    flags: set[Flag] = set()
    unseen = _unseen(responses, others, calls)
    last = _asked(responses[-1]) if responses else 0
    if unseen and termination is not TerminationReason.UNKNOWN:
        explained = min(unseen, last)
        if explained:
            flags.add(Flag.REQUESTED_NOT_DISPATCHED)
        unseen -= explained
    if unseen:
        flags.add(Flag.REQUESTED_NOT_SEEN)
    silent = bool(responses) and not any(_asked(chat) for chat in responses) and _all_stopped(responses)
    return Ending(
        termination=termination,
        final_answer=answered,
        unseen=unseen,
        responses_without_calls=silent,
        flags=frozenset(flags),
    )


def _inside_tool(span: SpanFacts, tree: Tree) -> bool:
    above = tree.above(span)
    return above.inside_tool or above.tool is not None


def _answered(
    outer: Sequence[SpanFacts],
    responses: Sequence[SpanFacts],
    others: Sequence[SpanFacts],
    calls: Sequence[Candidate],
) -> bool:
    if any(span.final_answer for span in (*outer, *others) if span.role is not Role.HANDOFF):
        return True
    if not responses:
        return False
    last = responses[-1]
    if _asked(last) or any(call.start_ns >= (last.end_ns or last.start_ns) for call in calls):
        return False
    return bool(last.final_answer) or (last.chat is not None and last.chat.finish is Finish.STOP)


def _termination(outer: Sequence[SpanFacts], others: Sequence[SpanFacts], *, answered: bool) -> TerminationReason:
    said = [span for span in others if span.role is Role.RUN_END and span.termination is not None]
    limits = [span for span in outer if span.termination not in (None, TerminationReason.FINAL_ANSWER)]
    for spans in (said, limits):
        if spans:
            # The last to end speaks for the run: an inner agent's limit may have been handled.
            return max(spans, key=_by_end).termination or TerminationReason.UNKNOWN
    return TerminationReason.FINAL_ANSWER if answered else TerminationReason.UNKNOWN


def _failed_with_its_last_call(
    outer: Sequence[SpanFacts], responses: Sequence[SpanFacts], calls: Sequence[Candidate]
) -> bool:
    """True where the run's own span failed, its last call failed, and no model was asked after that."""
    if not calls or not outer or not min(outer, key=_by_start).failed:
        return False
    last = max([call.host for call in calls], key=_by_end)
    failed = any(call.host is last and call.facts.outcome is Outcome.ERROR for call in calls)
    return failed and not any(chat.start_ns >= (last.end_ns or last.start_ns) for chat in responses)


def _asked(chat: SpanFacts) -> int:
    if chat.chat is None:
        return 0
    if chat.chat.requested is not None:
        return len(chat.chat.requested)
    if chat.chat.requested_calls is not None:
        return chat.chat.requested_calls
    return 1 if chat.chat.finish is Finish.TOOL_CALLS else 0


def _all_stopped(responses: Sequence[SpanFacts]) -> bool:
    return all(
        chat.final_answer
        or (chat.chat is not None and (chat.chat.finish is Finish.STOP or chat.chat.requested is not None))
        for chat in responses
    )


def _unseen(responses: Sequence[SpanFacts], others: Sequence[SpanFacts], calls: Sequence[Candidate]) -> int:
    """Counts calls asked for that nothing shows: by id where ids are there, by number for the rest."""
    asked: set[str] = set()
    unnamed = 0
    for chat in responses:
        if chat.chat is not None and chat.chat.requested is not None:
            asked.update(chat.chat.requested)
        else:
            unnamed += _asked(chat)
    if not asked and not unnamed:
        return 0
    seen = {span.call.call_id for call in calls for span in call.same.spans if span.call is not None}
    no_calls = sum(span.not_a_call is not None or span.role is Role.HANDOFF for span in others)
    unmatched = sum(call.facts.call_id is None or call.facts.call_id not in asked for call in calls) + no_calls
    return max(0, len(asked - seen) + unnamed - unmatched)


def _by_start(span: SpanFacts) -> tuple[int, str, str]:
    return (span.start_ns, span.trace_id, span.span_id)


def _by_end(span: SpanFacts) -> tuple[int, int, str, str]:
    return (span.end_ns or span.start_ns, span.start_ns, span.trace_id, span.span_id)
