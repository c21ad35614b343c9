"""The owner's policy: what is declared about tools, and what follows from it for one call.

Pure but for `load_file`. Reading, checking and compiling happen once, in `load`; what is left for every call
is a look-up and the contract's own work.
"""

from __future__ import annotations

from otel_loopguard.policy.build import Resolver, default, load
from otel_loopguard.policy.contract import (
    BusinessScope,
    Pagination,
    Parallel,
    Polling,
    Range,
    ToolContract,
    UnknownOutcome,
)
from otel_loopguard.policy.document import ContentRule, Defaults, Ladder, Mode, Policy, Scope
from otel_loopguard.policy.error_rules import ErrorRules
from otel_loopguard.policy.files import load_file
from otel_loopguard.policy.progress import Digests, ProgressCallable, ProgressRule, Rule

__all__ = [
    "BusinessScope",
    "ContentRule",
    "Defaults",
    "Digests",
    "ErrorRules",
    "Ladder",
    "Mode",
    "Pagination",
    "Parallel",
    "Policy",
    "Polling",
    "ProgressCallable",
    "ProgressRule",
    "Range",
    "Resolver",
    "Rule",
    "Scope",
    "ToolContract",
    "UnknownOutcome",
    "default",
    "load",
    "load_file",
]
