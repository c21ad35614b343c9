"""Policy lint: advice to the owner of a policy, from what calls turned out to be; it changes no verdict.

Invariants: pure; evidence holds counts, checked names and keyed digests only, is bounded, and adds up to the same in
any order of runs. Missing evidence is never a lint.
"""

from otel_loopguard.lint.advice import judge_evidence, unused_tools
from otel_loopguard.lint.fields import FieldReader
from otel_loopguard.lint.gathering import evidence_of
from otel_loopguard.lint.records import Evidence, Lint, LintCode, ToolEvidence, summed

__all__ = [
    "Evidence",
    "FieldReader",
    "Lint",
    "LintCode",
    "ToolEvidence",
    "evidence_of",
    "judge_evidence",
    "summed",
    "unused_tools",
]
