"""Spans of our own processor, known by their bytes: one of a shape that came often is not read again.

Tool spans of one process are the same bytes but for ids, times, digests and counts. The shape of one is learned: a
regular expression whose groups are these slots, and the facts as bytes with gaps. Another span that it matches is
checked and turned into facts by two calls into C, at a quarter of what reading costs (docs/decisions/0014).
"""

from otel_loopguard.scorer.shapes.known import Recognition, Shapes

__all__ = ["Recognition", "Shapes"]
