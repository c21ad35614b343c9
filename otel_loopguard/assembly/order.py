"""The order of a run's calls, without trusting clocks more than they deserve.

Order (DESIGN 4): a producer's own start numbers; start time; then turns are made contiguous. Arrival never counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from otel_loopguard.assembly.turns import Candidate
from otel_loopguard.model import Effect, SpanFacts, SpanKey

SKEW_NS: Final = 1_000_000_000
"""A child that starts this much before its parent shows that their clocks disagree (DESIGN 4: more than 1 s)."""


def in_order(calls: Iterable[Candidate]) -> list[Candidate]:
    """Returns the calls by start: time first, then each producer's own numbers put right within its places."""
    ordered = sorted(calls, key=_by_start)
    places: dict[str, list[int]] = {}
    for place, call in enumerate(ordered):
        host = call.host
        if host.producer is not None and host.started is not None:
            places.setdefault(host.producer, []).append(place)
    for own in places.values():
        numbered = sorted((ordered[place] for place in own), key=lambda call: call.host.started or 0)
        for place, call in zip(own, numbered, strict=True):
            ordered[place] = call
    return ordered


def by_turn(calls: Sequence[Candidate]) -> list[tuple[int, Candidate]]:
    """Returns (turn number from 1, call): turns in the order of their first call, siblings together."""
    members: dict[tuple[str, ...], list[Candidate]] = {}
    for call in calls:
        members.setdefault(call.turn, []).append(call)
    return [(number, call) for number, turn in enumerate(members.values(), start=1) for call in turn]


def skewed_hosts(spans: Iterable[SpanFacts], known: Mapping[SpanKey, SpanFacts]) -> frozenset[str]:
    """Returns the clock domains of spans that start more than a second before their parents.

    A domain without a name counts as the empty string.
    """
    hosts: set[str] = set()
    for span in spans:
        if span.parent_id is None:
            continue
        parent = known.get((span.trace_id, span.parent_id))
        if parent is not None and parent.start_ns - span.start_ns > SKEW_NS:
            hosts.update((span.host or "", parent.host or ""))
    return frozenset(hosts)


def order_matters(calls: Sequence[Candidate], skewed: frozenset[str]) -> bool:
    """True where a declared write and two equal calls were timed by clocks that disagree.

    Their order then decides whether the calls repeat or follow a change, and nothing says which it was.
    """
    writes: set[str] = set()
    equal: dict[str, dict[str, int]] = {}
    for call in calls:
        host = call.host.host or ""
        if call.facts.effect is Effect.WRITE:
            writes.add(host)
        elif call.facts.call_digest is not None:
            hosts = equal.setdefault(call.facts.call_digest, {})
            hosts[host] = hosts.get(host, 0) + 1
    repeated = {host for hosts in equal.values() if sum(hosts.values()) > 1 for host in hosts}
    return any(write != other and (write in skewed or other in skewed) for write in writes for other in repeated)


def _by_start(call: Candidate) -> tuple[int, int, str, str]:
    host = call.host
    return (host.start_ns, host.start_ns if host.end_ns is None else host.end_ns, host.trace_id, host.span_id)
