"""An application with our processor: plays captured runs, and sends what becomes of their spans by OTLP/HTTP.

Run as a process of its own: `python sending_app.py ENDPOINT FILE PACE_S CAPTURE…`. What it sends goes to FILE, too, one
export request behind the other. It repeats each export until it is taken, so that what is missing at the end was lost
behind it. It prints `done` last.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans  # noqa: E402 - the path comes first
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: E402
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider  # noqa: E402
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult  # noqa: E402

from otel_loopguard.model import Span  # noqa: E402
from tests.captures.summary import POLICY, SPANS  # noqa: E402
from tests.processor.playing import by_resource, play  # noqa: E402
from tests.processor.setups import ours  # noqa: E402
from tests.replaying import items_of  # noqa: E402


class Stubborn(SpanExporter):
    """Repeats each export until it is taken.

    Args:
        endpoint: of the collector.
        file: takes each request once.
    """

    def __init__(self, endpoint: str, file: Path) -> None:
        self._inner = OTLPSpanExporter(endpoint=f"{endpoint}/v1/traces", timeout=2)
        self._file = file

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Sends some spans, however long it takes."""
        with self._file.open("ab") as file:
            file.write(encode_spans(spans).SerializeToString())
        while self._inner.export(spans) is not SpanExportResult.SUCCESS:
            time.sleep(0.1)
        return SpanExportResult.SUCCESS


def main() -> None:
    """Play each capture, with a rest behind it."""
    endpoint, file, pace_s, *captures = sys.argv[1:]
    exporter = Stubborn(endpoint, Path(file))
    for name in captures:
        spans = [item for item in items_of(SPANS / f"{name}.jsonl") if isinstance(item, Span)]
        for resource, group in by_resource(spans):
            provider = TracerProvider(resource=resource, shutdown_on_exit=False)
            provider.add_span_processor(ours(policy=POLICY))
            provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=50))
            play(group, provider)
            provider.force_flush(600_000)
            provider.shutdown()
        time.sleep(float(pace_s))
    print("done")  # noqa: T201


if __name__ == "__main__":
    main()
