"""From a set of span facts to runs: dedupe, layers, run identity, turns, order, gaps (DESIGN 4).

Invariants: pure and order-free; the scorer and offline replay use this one implementation.
"""

from otel_loopguard.assembly.grouping import Grouper, global_write
from otel_loopguard.assembly.runs import assemble

__all__ = ["Grouper", "assemble", "global_write"]
