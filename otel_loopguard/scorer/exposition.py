"""The Prometheus endpoint's text: the text format 0.0.4 and OpenMetrics 1.0, from one snapshot.

Invariants: both formats show the same names and values; what differs is what only OpenMetrics has: units, exemplars
and the end mark. Only metrics of the table are shown. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final

from otel_loopguard.scorer.metrics import METRIC_OF, METRICS, Metric, Shape, Source
from otel_loopguard.scorer.records import Labels, Series, Totals
from otel_loopguard.scorer.totals import Exemplar, Snapshot


class TextFormat(StrEnum):
    """The formats, each by its content type."""

    PLAIN = "text/plain; version=0.0.4; charset=utf-8"
    OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


_TYPES: Final = {"application/openmetrics-text": TextFormat.OPEN_METRICS, "text/plain": TextFormat.PLAIN}
_VERSIONS: Final = {TextFormat.OPEN_METRICS: ("1.0.0",), TextFormat.PLAIN: ("0.0.4",)}
_EXACT: Final = 2**53
_NO_EXEMPLARS: Final[Mapping[Series, Exemplar]] = {}


def negotiated(accept: str | None) -> TextFormat:
    """The format for the value of an `Accept` header: the one that it likes best; the plain one if it likes none.

    Args:
        accept: the header, or None where there is none. Parts that cannot be read are passed over.
    """
    best, liked = TextFormat.PLAIN, 0.0
    for part in (accept or "").split(","):
        kind, *parameters = [one.strip() for one in part.split(";")]
        form = _TYPES.get(kind.lower())
        if form is None:
            continue
        quality, fits = 1.0, True
        for parameter in parameters:
            name, _, value = parameter.partition("=")
            name, value = name.strip().lower(), value.strip().strip('"')
            if name == "q":
                quality = _quality(value)
            elif name == "version":
                fits = value in _VERSIONS[form]
        # Of two that are liked alike, the one that says more.
        if fits and (quality > liked or (quality == liked > 0 and form is TextFormat.OPEN_METRICS)):
            best, liked = form, quality
    return best


def render(snapshot: Snapshot, health: Totals, form: TextFormat) -> bytes:
    """The whole answer of the endpoint.

    Args:
        snapshot: of the totals.
        health: values of the process itself: metrics of source `health`.
        form: which format.
    """
    rich = form is TextFormat.OPEN_METRICS
    exemplars = snapshot.exemplars if rich else _NO_EXEMPLARS
    lines: list[str] = []
    for metric, held in families(snapshot, health):
        family = metric.name if rich else metric.sample
        lines.append(f"# HELP {family} {_escaped(metric.doc, quotes=rich)}")
        lines.append(f"# TYPE {family} {metric.shape}")
        if rich and metric.unit:
            lines.append(f"# UNIT {family} {metric.unit}")
        if metric.shape is Shape.HISTOGRAM:
            lines.extend(_histogram(metric, held, exemplars))
        else:
            lines.extend(f"{_sample(*series)} {_number(value)}{_exemplar(series, exemplars)}" for series, value in held)
    if rich:
        lines.append("# EOF")
    return ("\n".join(lines) + "\n").encode(errors="replace")


def families(snapshot: Snapshot, health: Totals) -> Iterator[tuple[Metric, list[tuple[Series, float]]]]:
    """What is shown, by metric, in the order of the table.

    Yields:
        A metric and its series, sorted; no metric without series. Of the snapshot all but metrics of source `health`,
        and those of `health`; series of no known metric are left out.
    """
    found: dict[str, list[tuple[Series, float]]] = {}
    for values in (snapshot.values, health):
        for series, value in values.items():
            metric = METRIC_OF.get(series[0])
            if metric is not None and (metric.source is Source.HEALTH) is (values is health):
                found.setdefault(metric.name, []).append((series, value))
    for metric in METRICS:
        if metric.name in found:
            yield metric, sorted(found[metric.name])


def histograms(
    metric: Metric, held: list[tuple[Series, float]]
) -> Iterator[tuple[Labels, list[tuple[Series, float]], float]]:
    """The histograms among the series of one metric.

    Yields:
        Labels without `le`; the observations of each bucket in order, with its series, also where there are none; the
        sum.
    """
    sets: dict[Labels, dict[str, float]] = {}
    for (name, labels), value in held:
        rest = tuple([one for one in labels if one[0] != "le"])
        kept = sets.setdefault(rest, {})
        kept["sum" if name.endswith("_sum") else dict(labels)["le"]] = value
    for rest, kept in sets.items():
        buckets = []
        for bound in [*map(repr, metric.buckets), "+Inf"]:
            series = f"{metric.name}_bucket", tuple(sorted([*rest, ("le", bound)]))
            buckets.append((series, kept.get(bound, 0.0)))
        yield rest, buckets, kept.get("sum", 0.0)


def _histogram(metric: Metric, held: list[tuple[Series, float]], exemplars: Mapping[Series, Exemplar]) -> Iterator[str]:
    for labels, buckets, total in histograms(metric, held):
        count = 0.0
        for series, value in buckets:
            count += value
            yield f"{_sample(*series)} {_number(count)}{_exemplar(series, exemplars)}"
        yield f"{_sample(f'{metric.name}_sum', labels)} {_number(total)}"
        yield f"{_sample(f'{metric.name}_count', labels)} {_number(count)}"


def _sample(name: str, labels: Labels) -> str:
    if not labels:
        return name
    written = ",".join([f'{one}="{_escaped(value, quotes=True)}"' for one, value in labels])
    return f"{name}{{{written}}}"


def _exemplar(series: Series, exemplars: Mapping[Series, Exemplar]) -> str:
    found = exemplars.get(series)
    if found is None:
        return ""
    return f' # {{trace_id="{found.trace_id}"}} {_number(found.value)} {found.time_ns / 1e9:.3f}'


def _escaped(text: str, *, quotes: bool) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quotes else text


def _number(value: float) -> str:
    if math.isfinite(value) and value == int(value) and abs(value) < _EXACT:
        return str(int(value))
    return {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}.get(text := repr(value), text)


def _quality(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return value if 0 <= value <= 1 else 0.0
