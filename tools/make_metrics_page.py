"""Writes the generated part of docs/metrics.md: every label and every metric of the scorer."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from otel_loopguard.scorer.metrics import LABELS, METRICS, RETRACTED, Metric, Source

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "metrics.md"
MARK: Final = "<!-- generated from otel_loopguard/scorer/metrics.py; change it there -->"
"""Everything after this line of the page is generated."""
_PARTS: Final = (
    (
        "Runs",
        "In the transaction of the verdict, from the first one on: restarts do not begin them anew.",
        (Source.OUTCOME, Source.RUN, Source.EVENT, Source.STATE),
    ),
    ("The scorer itself", "From the start of the process.", (Source.HEALTH,)),
)


def generated_text() -> str:
    """All tables, in Markdown."""
    lines = ["## Labels", "", "| label | says | values |", "| --- | --- | --- |"]
    lines += [
        f"| `{one.name}` | {one.doc} | {', '.join(f'`{value}`' for value in one.values or ())} |"
        for one in LABELS.values()
    ]
    twins = {twin.name for twin in RETRACTED.values()}
    for title, text, sources in _PARTS:
        lines += ["", f"## {title}", "", text, "", "| metric | kind | labels | OTLP | says |"]
        lines.append("| --- | --- | --- | --- | --- |")
        lines += [_row(one) for one in METRICS if one.source in sources and one.name not in twins]
    return "\n".join([*lines, ""])


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in sorted(metric.labels))
    buckets = f" Buckets: {', '.join(f'{bound:g}' for bound in metric.buckets)}." if metric.buckets else ""
    twin = RETRACTED.get(metric.name)
    taken = f" Taken back: `{twin.sample}`." if twin is not None else ""
    otlp = f"`{metric.otlp_name}`" + (f", {metric.unit.otlp}" if metric.unit else "")
    return f"| `{metric.sample}` | {metric.shape} | {labels} | {otlp} | {metric.doc}{buckets}{taken} |"


def page_text(current: str) -> str:
    """The page with its generated part made anew."""
    head, mark, _ = current.partition(MARK)
    if not mark:
        message = f"{PAGE.name} has lost the line {MARK}"
        raise SystemExit(message)
    return f"{head}{mark}\n\n{generated_text()}"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page_text(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
