"""What an application is told of a finding: a record for its callback, and the same as a log event."""

from __future__ import annotations

from typing import Final

import msgspec

from otel_loopguard.model import Basis, CallFacts, Finding, Kind, Severity, SpanFacts, Value

EVENT_NAME: Final = "loopguard.finding"


class FindingEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One finding, at the call with which it became true.

    No field holds content: names are checked, `trace_id` and `span_id` are the tool span's, lower-case hex.
    `count` is how many rounds it rested on then, `call` the call's number in its run as this process counts.
    """

    kind: Kind
    severity: Severity
    basis: Basis
    tool: str
    agent: str
    count: int
    call: int
    trace_id: str
    span_id: str
    call_id: str | None = None
    policy: str | None = None

    def attributes(self) -> dict[str, Value]:
        """Returns the attributes of the log event `loopguard.finding`."""
        found: dict[str, Value] = {
            "loopguard.finding.kind": self.kind.value,
            "loopguard.finding.severity": self.severity.value,
            "loopguard.finding.basis": self.basis.value,
            "loopguard.finding.count": self.count,
            "gen_ai.tool.name": self.tool,
            "gen_ai.agent.name": self.agent,
        }
        if self.call_id is not None:
            found["gen_ai.tool.call.id"] = self.call_id
        if self.policy is not None:
            found["loopguard.policy"] = self.policy
        return found


def event_of(finding: Finding, facts: SpanFacts, call: CallFacts) -> FindingEvent:
    """Returns what an application is told of a finding that became true with a call."""
    return FindingEvent(
        kind=finding.kind,
        severity=finding.severity,
        basis=finding.basis,
        tool=finding.tool,
        agent=finding.agent,
        count=finding.count,
        call=finding.at_call,
        trace_id=facts.trace_id,
        span_id=facts.span_id,
        call_id=call.call_id,
        policy=call.policy,
    )
