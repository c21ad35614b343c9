"""docs/rollout.md names each metric that the processor has, and no other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from otel_loopguard.processor.counting import Counts, Tallies, instruments

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "rollout.md"


def test_metrics_are_those_of_the_page() -> None:
    """Each instrument that has something to show stands in the table."""
    tallies = Tallies()
    tallies.calls[""] += 1
    tallies.findings[("exact_repeat", "loop", "lookup_order")] += 1
    reader = InMemoryMetricReader()
    instruments(MeterProvider([reader]), lambda: Counts(failures={"end": 1}), lambda: tallies)
    data = reader.get_metrics_data()
    assert data is not None
    (scope,) = data.resource_metrics[0].scope_metrics
    shown = re.findall(r"^\| `(loopguard\.[a-z_.]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(metric.name for metric in scope.metrics) == sorted(shown)
