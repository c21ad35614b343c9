"""Makes findings of claims: one a stretch and kind, with the last count, and marks what the loops wasted.

Invariants: bounded number of findings, further ones counted; one bit a call for what was wasted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.model import Finding, Kind, Severity

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from otel_loopguard.detectors.step import Claim
    from otel_loopguard.detectors.stretch import Stretch
    from otel_loopguard.model import ToolCall


class _Claimed:
    """One finding as it grows."""

    __slots__ = ("at_call", "claim")

    def __init__(self, claim: Claim, at_call: int) -> None:
        self.claim, self.at_call = claim, at_call


class Claims:
    """All that was claimed of one run.

    Args:
        limit: findings kept of each severity, so that many reports never crowd out a loop; `dropped` counts those
            past it.
    """

    __slots__ = ("_claimed", "_kept", "_limit", "_wasted", "dropped")

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._kept: dict[Severity, int] = {}
        self._claimed: list[_Claimed] = []
        self._wasted = bytearray()
        self.dropped = 0

    def note(self, claim: Claim, call: ToolCall) -> bool:
        """Notes a claim that `call` made true, or true again; returns whether it is the first on its stretch."""
        stretch = claim.stretch
        if claim.severity is Severity.LOOP:
            self.count_waste(stretch)
        claims = stretch.claims
        if claims is None:
            claims = stretch.begin_claims()
        elif claim.kind in claims:
            place = claims[claim.kind]
            if place is not None:
                claimed = self._claimed[place]
                if claim.severity is not claimed.claim.severity:
                    self._change(claimed, claim, call)
                claimed.claim = claim
            elif self._has_room(claim.severity):
                claims[claim.kind] = self._keep(claim, call)
            return False
        if self._has_room(claim.severity):
            claims[claim.kind] = self._keep(claim, call)
        else:
            claims[claim.kind] = None
            self.dropped += 1
        return True

    def _has_room(self, severity: Severity) -> bool:
        return self._kept.get(severity, 0) < self._limit

    def _keep(self, claim: Claim, call: ToolCall) -> int:
        self._kept[claim.severity] = self._kept.get(claim.severity, 0) + 1
        self._claimed.append(_Claimed(claim, call.number))
        return len(self._claimed) - 1

    def _change(self, claimed: _Claimed, claim: Claim, call: ToolCall) -> None:
        """A suspicion became a loop, or the other way round: what is claimed became true with this call."""
        self._kept[claimed.claim.severity] -= 1
        self._kept[claim.severity] = self._kept.get(claim.severity, 0) + 1
        if claim.severity is Severity.LOOP:
            claimed.at_call = call.number

    def count_waste(self, stretch: Stretch) -> None:
        """Marks the executed calls of a loop that are not marked yet."""
        if not stretch.loop:
            stretch.loop = True
            stretch.unlisted = [member.number for member in stretch.members[stretch.spared :] if member.executed]
        for number in stretch.unlisted:
            at = number >> 3
            if at >= len(self._wasted):
                self._wasted.extend(bytes(at + 1 - len(self._wasted)))
            self._wasted[at] |= 1 << (number & 7)
        stretch.unlisted.clear()

    @property
    def wasted_calls(self) -> frozenset[int]:
        """Numbers of the calls marked as wasted."""
        marked = bytes(self._wasted)  # mypyc knows no enumeration of a bytearray
        return frozenset(at * 8 + bit for at, byte in enumerate(marked) if byte for bit in range(8) if byte >> bit & 1)

    def any_of(self, kinds: AbstractSet[Kind], severity: Severity, *, apart_from: str | None = None) -> bool:
        """Tells whether there is a finding of one of `kinds` and of `severity`, by another rule than `apart_from`."""
        return any(
            claimed.claim.kind in kinds
            and claimed.claim.severity is severity
            and (apart_from is None or claimed.claim.rule != apart_from)
            for claimed in self._claimed
        )

    def findings(self) -> tuple[Finding, ...]:
        """Returns one finding a stretch and kind, with its last count; ordered by `at_call`, then kind."""
        made = (_finding(claimed) for claimed in self._claimed)
        return tuple(sorted(made, key=lambda finding: (finding.at_call, finding.kind)))


def _finding(claimed: _Claimed) -> Finding:
    claim, stretch = claimed.claim, claimed.claim.stretch
    return Finding(
        kind=claim.kind,
        severity=claim.severity,
        basis=claim.basis,
        tool=stretch.tool,
        agent=stretch.agent,
        count=max(claim.count, stretch.count),
        period=claim.period,
        first_call=stretch.members[0].number,
        at_call=claimed.at_call,
        call_ids=tuple(member.call_id for member in stretch.members if member.call_id is not None),
        digests=stretch.digests,
        calls=tuple(member.number for member in stretch.members),
        rule=claim.rule,
    )
