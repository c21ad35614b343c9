"""The order of a run's calls, without trusting clocks more than they deserve.

Order (DESIGN 4): a producer's own start numbers; start time; then turns are made contiguous. Arrival never counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from otel_loopguard.assembly.turns import Candidate
from otel_loopguard.model import Effect, SpanFacts, SpanKey

MAX_COMPARED_HOSTS: Final = 64
"""Past this many clock domains in one run, order between them is taken for uncertain without comparing all."""
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
    """True where equal calls and another call that may part them were timed by clocks that disagree.

    The order then decides whether the calls repeat or follow a change, and nothing says which it was. A declared
    read changes nothing; a call of unknown effect may (DESIGN 6, barrier).
    """
    counts: dict[str, int] = {}
    for call in calls:
        digest = call.facts.call_digest
        if digest is not None:
            counts[digest] = counts.get(digest, 0) + 1
    repeated: dict[str, set[str | None]] = {}
    changing: dict[str, set[str | None]] = {}
    for call in calls:
        host, digest = call.host.host or "", call.facts.call_digest
        if digest is not None and counts[digest] > 1:
            _note(repeated, host, digest)
        if call.facts.effect is not Effect.READ:
            _note(changing, host, digest)
    if len(repeated) > MAX_COMPARED_HOSTS or len(changing) > MAX_COMPARED_HOSTS:
        return True
    return any(
        host != place and (host in skewed or place in skewed) and (len(others) > 1 or others != digests)
        for host, others in changing.items()
        for place, digests in repeated.items()
    )


def _note(by_host: dict[str, set[str | None]], host: str, digest: str | None) -> None:
    """Keeps up to two digests a host: enough to tell whether two hosts have the same single one."""
    digests = by_host.setdefault(host, set())
    if len(digests) < 2:  # noqa: PLR2004 - one to be equal, one to differ
        digests.add(digest)


def _by_start(call: Candidate) -> tuple[int, int, str, str]:
    host = call.host
    return (host.start_ns, host.start_ns if host.end_ns is None else host.end_ns, host.trace_id, host.span_id)
