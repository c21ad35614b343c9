"""Names from outside as label values: capped, so that however many come, there is a bounded number of series.

Invariants: a service, agent or tool that was taken once stays taken, over restarts too, as the stored series tell; past
a cap all others share one value. Of a service's releases the newest are shown; the order is that of their first
verdicts. Not safe for threads: `totals` holds its lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from otel_loopguard.scorer.metrics import (
    AGENT,
    GONE,
    NONE,
    OLD,
    OTHER,
    RELEASE,
    RELEASE_SEEN,
    SERVICE,
    TOOL,
)
from otel_loopguard.scorer.records import Labels, Series, Totals

Release: TypeAlias = tuple[str, str]
"""A service and one of its releases."""
_STEP_S: Final = 1e-3


class Caps(msgspec.Struct, frozen=True, kw_only=True):
    """How many names of each sort become label values; the rest share one."""

    services: int = 20
    agents: int = 10
    """Of one service."""
    tools: int = 50
    """Of one service."""
    releases: int = 20
    """Of one service: the newest."""
    releases_waiting: int = 5
    """More that may wait for their first verdict at one time; a service that names each run so is not waited for."""
    releases_remembered: int = 200
    """Known to be old; one that is forgotten counts as new when it comes again."""


class LabelNames:
    """Which names are label values.

    Args:
        caps: how many.
        stored: the totals, which remember what was taken.
    """

    def __init__(self, caps: Caps, stored: Totals) -> None:
        self._caps = caps
        self._services: set[str] = set()
        self._agents: dict[str, set[str]] = {}
        self._tools: dict[str, set[str]] = {}
        self._known: dict[str, dict[str, float]] = {}
        """When the first run of each release was judged, by service."""
        self._shown: dict[str, list[str]] = {}
        """The releases that are shown, by service, oldest first."""
        self._opened: dict[Series, float] = {}
        for series, value in stored.items():
            self._remember(series, value)
        for service, known in self._known.items():
            self._shown[service] = _oldest_first(known)[-caps.releases :]

    def labels_of(self, names: Mapping[str, str], *, backfill: bool, now_ns: int) -> Labels:
        """What a run with these names is counted under.

        Args:
            names: as `counting.run_labels` has them.
            backfill: whether it is an old run: these have no release in their metrics, and so displace none.
            now_ns: Unix time.
        """
        service = _capped(names[SERVICE], self._services, self._caps.services)
        capped = {
            **names,
            SERVICE: service,
            AGENT: _capped(names[AGENT], self._agents.setdefault(service, set()), self._caps.agents),
            RELEASE: NONE if backfill else self._release(service, names[RELEASE], now_ns),
        }
        return tuple(sorted(capped.items()))

    def opened(self) -> dict[Series, float]:
        """The releases that came since this was asked last: `RELEASE_SEEN` of each, with its value."""
        found, self._opened = self._opened, {}
        return found

    def placed(self, series: Series, displaced: Sequence[Release] = ()) -> Series:
        """A series with its tool capped, and with `GONE` for a release that is not shown, or is one of `displaced`."""
        name, labels = series
        named = dict(labels)
        out_of_sight = not self.is_shown(named) or self._release_of(named) in displaced
        if TOOL not in named and not out_of_sight:
            return series
        if TOOL in named:
            named[TOOL] = _capped(named[TOOL], self._tools.setdefault(named[SERVICE], set()), self._caps.tools)
        if out_of_sight:
            named[RELEASE] = GONE
        return name, tuple(sorted(named.items()))

    def is_shown(self, labels: Mapping[str, str]) -> bool:
        """Whether series with these labels are shown: those of no release, of `OLD`, and of the newest releases."""
        release = labels.get(RELEASE, NONE)
        return release in (NONE, OLD) or release in self._shown.get(labels[SERVICE], ())

    def surplus(self) -> tuple[Release, ...]:
        """The releases that are shown and are not among the newest any more."""
        most = self._caps.releases
        return tuple(
            [(service, one) for service, shown in self._shown.items() if len(shown) > most for one in shown[:-most]]
        )

    def hide(self, releases: Iterable[Release]) -> None:
        """From now on these are old releases."""
        for service, release in releases:
            self._shown[service].remove(release)

    def show_again(self, releases: Sequence[Release]) -> None:
        """Takes `hide` back."""
        for service, release in reversed(releases):
            self._shown[service].insert(0, release)

    def too_old(self, services: Iterable[str]) -> Iterator[Series]:
        """`RELEASE_SEEN` of the releases of these services that need not be remembered."""
        for service in services:
            oldest = _oldest_first(self._known[service])
            for release in oldest[: max(0, len(oldest) - self._caps.releases_remembered)]:
                yield RELEASE_SEEN.series({SERVICE: service, RELEASE: release})

    def forget(self, series: Series) -> None:
        """A release's `RELEASE_SEEN` has gone; other series are passed over."""
        if series[0] == RELEASE_SEEN.sample:
            service, release = self._release_of(dict(series[1]))
            self._known[service].pop(release, None)

    def _remember(self, series: Series, value: float) -> None:
        labels = dict(series[1])
        service = labels.get(SERVICE)
        if service is None:
            return
        if service not in (NONE, OTHER):
            self._services.add(service)
        for label, taken in ((AGENT, self._agents), (TOOL, self._tools)):
            if labels.get(label, NONE) not in (NONE, OTHER):
                taken.setdefault(service, set()).add(labels[label])
        if series[0] == RELEASE_SEEN.sample:
            self._known.setdefault(service, {})[labels[RELEASE]] = value

    def _release(self, service: str, release: str, now_ns: int) -> str:
        """The label of a release; one that is new is shown from now on."""
        if release == NONE:
            return NONE
        shown, known = self._shown.setdefault(service, []), self._known.setdefault(service, {})
        if release in shown:
            return release
        if service == OTHER or release in known or len(shown) >= self._caps.releases + self._caps.releases_waiting:
            return OLD
        shown.append(release)
        # Later than all before, whatever the clock does: after a restart the order is this one.
        known[release] = max([now_ns / 1e9, *(at + _STEP_S for at in known.values())])
        self._opened[RELEASE_SEEN.series({SERVICE: service, RELEASE: release})] = known[release]
        return release

    @staticmethod
    def _release_of(labels: Mapping[str, str]) -> Release:
        return labels.get(SERVICE, NONE), labels.get(RELEASE, NONE)


def _oldest_first(known: Mapping[str, float]) -> list[str]:
    return sorted(known, key=lambda release: (known[release], release))


def _capped(name: str, taken: set[str], cap: int) -> str:
    if name in (NONE, OTHER) or name in taken:
        return name
    if len(taken) >= cap:
        return OTHER
    taken.add(name)
    return name
