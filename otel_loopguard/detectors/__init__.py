"""The kinds of being stuck, one module and one page each; this is their only registry.

A further kind is one module with a `Detector`, its page of the same name, its cases, and one line here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_loopguard.detectors.args_repeat import ArgsRepeat
from otel_loopguard.detectors.budget import Budget
from otel_loopguard.detectors.cycle import Cycle
from otel_loopguard.detectors.denied_repeat import DeniedRepeat
from otel_loopguard.detectors.duplicate_write import DuplicateWrite
from otel_loopguard.detectors.error_cascade import ErrorCascade
from otel_loopguard.detectors.error_repeat import ErrorRepeat
from otel_loopguard.detectors.exact_repeat import ExactRepeat
from otel_loopguard.detectors.handoff_cycle import HandoffCycle
from otel_loopguard.detectors.interleaved_repeat import InterleavedRepeat
from otel_loopguard.detectors.near_repeat import NearRepeat
from otel_loopguard.detectors.near_result import NearResult
from otel_loopguard.detectors.no_new_coverage import NoNewCoverage
from otel_loopguard.detectors.no_progress import NoProgress
from otel_loopguard.detectors.outage import Outage
from otel_loopguard.detectors.pagination_stall import PaginationStall
from otel_loopguard.detectors.parallel_duplicate import ParallelDuplicate
from otel_loopguard.detectors.poll_budget import PollBudget
from otel_loopguard.detectors.relapse import Relapse
from otel_loopguard.detectors.same_result import SameResult
from otel_loopguard.detectors.stalled_poll import StalledPoll

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.detectors.step import Detector

DETECTORS: Final[tuple[Callable[[], Detector], ...]] = (
    ExactRepeat,
    ErrorRepeat,
    Cycle,
    HandoffCycle,
    SameResult,
    NearRepeat,
    NearResult,
    ArgsRepeat,
    StalledPoll,
    PollBudget,
    PaginationStall,
    ParallelDuplicate,
    InterleavedRepeat,
    Relapse,
    DeniedRepeat,
    DuplicateWrite,
    NoProgress,
    ErrorCascade,
    NoNewCoverage,
    Budget,
    Outage,
)
"""One factory a kind; each run has its own detectors, so that a kind may keep state of its own."""
