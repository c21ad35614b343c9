"""Says what a proposed call would complete, were it to come back as its last executed equal call did.

Invariants: pure, constant time, and it changes nothing that the tracker keeps. Only findings that rest on digests
are foreseen: likeness never denies. A call of which no equal one is known can only spend a budget.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from otel_loopguard.detectors.no_progress import UNCHANGED_STEPS
from otel_loopguard.detectors.pagination_stall import STALLED_PAGES
from otel_loopguard.detectors.returns import PARTED, STILL, Place, gap
from otel_loopguard.detectors.rounds import MIN_PERIODS, Laps
from otel_loopguard.detectors.stretch import allowed_unchanged
from otel_loopguard.model import Kind, Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_loopguard.detectors.agents import Agent
    from otel_loopguard.detectors.answers import Record
    from otel_loopguard.model import ToolCall
    from otel_loopguard.policy import ToolContract

_NS_PER_S: Final = 1_000_000_000
LAST_ALLOWED: Final = -1
"""`Foreseen.past` of the call before the one that would be denied."""


class Foreseen(NamedTuple):
    """One finding that a proposed call would complete, or come near to.

    `past` says by how many calls: 0 for the first that is too many, negative before it. `times` is the count that
    the finding would have.
    """

    kind: Kind
    past: int
    times: int


class Standing(NamedTuple):
    """Where a proposed call would stand: in which round of its agent, and what lies between."""

    in_round: int
    now: Place
    before: Place | None
    """Where the turn of the last equal call ended; None where there was none."""


def of_repeats(record: Record, standing: Standing, contract: ToolContract) -> Iterator[Foreseen]:
    """Yields what an unchanged answer would make of the equal calls before it."""
    count = record.next_count(standing.in_round, standing.now)
    if record.waiting:
        if contract.polling is not None:
            yield Foreseen(Kind.STALLED_POLL, count - contract.polling.max_unchanged - 1, count)
        return
    allowed = allowed_by_guard(record, contract)
    if allowed is None:
        return
    trail, before = record.trail, standing.before
    times = 2 if trail is None else trail.times + 1
    between = PARTED if before is None else gap(before, standing.now, contract.window)
    left = not record.is_next(standing.in_round, standing.now) and (before is None or before.acts == standing.now.acts)
    if (left and record.left_a_loop()) or (trail is not None and trail.would_relapse(between, left=left)):
        yield Foreseen(Kind.RELAPSE, 0 if trail is None else trail.returns, times)
    yield Foreseen(Kind.ERROR_REPEAT if record.failing else Kind.EXACT_REPEAT, count - allowed - 1, count)
    still = (2 if trail is None else trail.still + 1) if between == STILL else 1
    if still > count:
        yield Foreseen(Kind.INTERLEAVED_REPEAT, still - allowed - 1, still)


def of_refusals(record: Record, contract: ToolContract) -> Iterator[Foreseen]:
    """Yields what one more refusal would make of those before it."""
    if record.denials is not None:
        count = record.denials.count + 1
        yield Foreseen(Kind.DENIED_REPEAT, count - _plainly_allowed(contract) - 1, count)


def of_rounds(record: Record, laps: Laps | None, kind: Kind, contract: ToolContract) -> Iterator[Foreseen]:
    """Yields the cycle that the rounds of an agent, or of all agents, would complete."""
    mark = record.peek_mark()
    if mark is not None and kind is Kind.HANDOFF_CYCLE:
        mark = mark.across
    if mark is None or laps is None or contract.pattern is not Pattern.PLAIN:
        return
    periods = MIN_PERIODS if contract.declared else max(MIN_PERIODS, contract.undeclared_allowed_repeats + 1)
    found = laps.foresee(mark, periods=periods)
    if found is not None:
        yield Foreseen(kind, found[0], found[2])


def of_pages(record: Record, agent: Agent, contract: ToolContract, hard: int) -> Iterator[Foreseen]:
    """Yields what a page that was turned before would make of the pages in a row without anything new."""
    pages = agent.peek_pages(contract.tool, hard)
    if pages is not None and pages.readable and not record.failing:
        count = pages.stalled_pages + 1
        yield Foreseen(Kind.PAGINATION_STALL, count - STALLED_PAGES, count)


def of_polls(record: Record, call: ToolCall, contract: ToolContract) -> Iterator[Foreseen]:
    """Yields the declared bound of a wait that one more poll would break."""
    poll, polling = record.poll, contract.polling
    if poll is None or polling is None or record.terminal is True:
        return
    count = poll.polls + 1
    waited_ns = call.start_ns - poll.first_ns
    since_ns = call.start_ns - poll.last_ns
    if count > polling.max_polls:
        yield Foreseen(Kind.POLL_BUDGET, count - polling.max_polls - 1, count)
        return
    late = polling.deadline_s is not None and poll.first_ns and waited_ns > polling.deadline_s * _NS_PER_S
    early = polling.min_interval_s and poll.last_ns and 0 <= since_ns < polling.min_interval_s * _NS_PER_S
    if late or early:
        yield Foreseen(Kind.POLL_BUDGET, 0, count)


def of_state(record: Record, steps: int, contract: ToolContract) -> Iterator[Foreseen]:
    """Yields the standstill that one more step would complete; an undeclared tool is given its repeats first."""
    count = steps + 1
    if contract.declared or record.count >= contract.undeclared_allowed_repeats:
        yield Foreseen(Kind.NO_PROGRESS, count - UNCHANGED_STEPS, count)


def of_budget(spent: int, contract: ToolContract) -> Iterator[Foreseen]:
    """Yields the budget that one more call would break."""
    if contract.max_calls is not None:
        yield Foreseen(Kind.BUDGET, spent - contract.max_calls, spent + 1)


def of_write(times: int, contract: ToolContract) -> Iterator[Foreseen]:
    """Yields the duplicate that a write would be, being made for the `times`-th time; 0 where it is none."""
    if times:
        allowed = 1 if contract.declared else contract.undeclared_allowed_repeats
        yield Foreseen(Kind.DUPLICATE_WRITE, times - allowed - 1, times)


def allowed_by_guard(record: Record, contract: ToolContract) -> int | None:
    """Returns how many equal answers a guard lets pass; None for any number. More for tools nobody declared."""
    allowed = contract.allowed_repeats if record.failing else allowed_unchanged(contract, record.result_class)
    if allowed is None or contract.declared:
        return allowed
    return allowed + max(0, contract.undeclared_allowed_repeats - contract.allowed_repeats)


def _plainly_allowed(contract: ToolContract) -> int:
    return contract.allowed_repeats if contract.declared else contract.undeclared_allowed_repeats
