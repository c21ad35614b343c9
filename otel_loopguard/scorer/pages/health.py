"""The page of the scorer's own health: its numbers, and what should be done about those that are not well.

Invariants: pure; each notice says what is wrong and what to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

import msgspec

from otel_loopguard import words
from otel_loopguard.policy import Policy
from otel_loopguard.scorer.pages.source import Health
from otel_loopguard.scorer.records import Refusal

LATE_S: Final = 30.0
"""From here on the judge is behind: a group should be judged within a second of being due."""
NEARLY_FULL: Final = 0.9
"""Share of the disk's limit from which on there is a notice."""
LITTLE_FREE_BYTES: Final = 512 * 2**20
MUCH_WAITING: Final = 1000
"""Verdicts in an outbox from which on there is a notice."""


class Level(StrEnum):
    """How urgent a notice is."""

    ACT = "act"
    """Something is lost, or will be."""
    LOOK = "look"


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is not well."""

    level: Level
    text: str


class HealthPage(msgspec.Struct, frozen=True, kw_only=True):
    """How the scorer does."""

    health: Health
    notices: tuple[Notice, ...]
    policy: str
    """Its label."""
    policy_mode: str
    policy_digest8: str
    declared_tools: int
    disk_share: float | None
    """Of the limit, 0 to 1 and above."""


_REFUSED: Final = {
    Refusal.DISK_FULL: "the disk was full: free space, or lower --max-data-bytes",
    Refusal.STORE_FAILED: "the data folder could not be written: see the log, and the folder's disk",
    Refusal.BUSY: "more came than could be written: give the scorer a faster disk, or fewer senders",
    Refusal.RATE: "more spans a second came than --max-spans-per-s allows",
    Refusal.TOO_SLOW: "their bodies did not arrive in time: see the network between sender and scorer",
    Refusal.TOO_LARGE: "they were larger than --max-body-bytes: let the sender batch less",
    Refusal.TOO_LARGE_UNPACKED: "they were larger, unpacked, than --max-unpacked-bytes: let the sender batch less",
    Refusal.BAD_COMPRESSION: "their compression was broken: see what stands between sender and scorer",
    Refusal.UNKNOWN_COMPRESSION: "their compression is not known: senders may use gzip, zstd or none",
    Refusal.UNKNOWN_TYPE: "they were no OTLP: senders must use OTLP as protobuf or JSON",
    Refusal.MALFORMED: "they could not be read as OTLP: see what sends them",
    Refusal.UNAUTHENTICATED: "they showed no valid token: give senders the token of --token-file",
}
"""All but those refused because the scorer stopped."""
_LOST: Final = frozenset(
    {
        Refusal.DISK_FULL,
        Refusal.STORE_FAILED,
        Refusal.TOO_LARGE,
        Refusal.TOO_LARGE_UNPACKED,
        Refusal.MALFORMED,
        Refusal.UNAUTHENTICATED,
    }
)


def health_page(health: Health, policy: Policy) -> HealthPage:
    """Makes the page."""
    return HealthPage(
        health=health,
        notices=tuple(_notices(health)),
        policy=policy.label,
        policy_mode=policy.mode.value,
        policy_digest8=policy.digest8,
        declared_tools=len(set(policy.tools) - policy.noop_tools),
        disk_share=round(health.disk_bytes / health.max_disk_bytes, 4) if health.max_disk_bytes else None,
    )


def _notices(health: Health) -> Iterator[Notice]:
    for refusal, why in _REFUSED.items():
        number = health.refused.get(refusal, 0)
        if number:
            level = Level.ACT if refusal in _LOST else Level.LOOK
            yield Notice(level=level, text=f"{words.counted(number, 'request')} refused since the start: {why}")
    rejected = sum(health.rejected.values())
    if rejected:
        yield Notice(level=Level.LOOK, text=f"{words.counted(rejected, 'span')} left out: the reasons stand below")
    if health.lag_s >= LATE_S:
        yield Notice(level=Level.LOOK, text=f"verdicts are {health.lag_s:.0f} s behind: more comes than can be judged")
    failed = health.failed_commits + health.failed_settlements
    if failed:
        text = f"{words.counted(failed, 'time')} the data folder could not be written: see the log, and its disk"
        yield Notice(level=Level.LOOK, text=text)
    if health.free_bytes is not None and health.free_bytes < LITTLE_FREE_BYTES:
        yield Notice(level=Level.ACT, text="the data folder's disk is nearly full: then requests are refused")
    limit = health.max_disk_bytes
    if limit and health.disk_bytes > limit * NEARLY_FULL:
        yield Notice(level=Level.LOOK, text="the data folder is near --max-data-bytes: the oldest judged runs go first")
    for sink, waiting in health.outbox.items():
        if waiting >= MUCH_WAITING:
            yield Notice(level=Level.LOOK, text=f"{waiting} verdicts wait to be sent to {sink}: is it up?")
