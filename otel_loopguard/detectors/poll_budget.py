"""Finds a declared poller that spent its budget: too many polls, too long a wait, or too short an interval."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_loopguard.detectors.step import Claim, Reads
from otel_loopguard.model import Kind, Severity

if TYPE_CHECKING:
    from otel_loopguard.detectors.step import Step

MAX_POLLS_RULE: Final = "max_polls"
DEADLINE_RULE: Final = "deadline_s"
MIN_INTERVAL_RULE: Final = "min_interval_s"

_NS_PER_S: Final = 1_000_000_000


class PollBudget:
    """Fires on `max_polls`, `deadline_s` and `min_interval_s`, in that order; whatever the answers were."""

    __slots__ = ()
    kind = Kind.POLL_BUDGET
    reads = Reads.RARE

    def judge(self, step: Step, /) -> Claim | None:
        """Returns a claim where this wait has broken a declared bound; `rule` names the bound."""
        poll, polling = step.poll, step.contract.polling
        if poll is None or polling is None:
            return None
        if poll.polls > polling.max_polls:
            rule = MAX_POLLS_RULE
        elif polling.deadline_s is not None and poll.last_ns - poll.first_ns > polling.deadline_s * _NS_PER_S:
            rule = DEADLINE_RULE
        elif poll.early:
            rule = MIN_INTERVAL_RULE
        else:
            return None
        return Claim(self.kind, Severity.BUDGET, poll.stretch, poll.polls, rule=rule)
