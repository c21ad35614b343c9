"""A scorer of the demo's own: gets the scenes by OTLP, as from any application, and gives its verdicts and its page.

Invariants: it listens on a free port of the loopback and is gone, with its temporary folder, where `demo_scorer` ends.
No setting, key or policy of the user's counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Status
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan
from opentelemetry.sdk.trace import ReadableSpan

from otel_loopguard.demo.scenes import POLICY
from otel_loopguard.demo.watch import KEY, Demo
from otel_loopguard.errors import ServeError
from otel_loopguard.keys import KEY as KEY_VARIABLE
from otel_loopguard.keys import KEY_ID as KEY_ID_VARIABLE
from otel_loopguard.model import Span, Verdict
from otel_loopguard.processor.received import attributes_of, received
from otel_loopguard.scorer.app import Scorer
from otel_loopguard.scorer.otlp_events import key_values
from otel_loopguard.scorer.posting import Poster, Signal
from otel_loopguard.scorer.settings import read_settings

PATIENCE_S: Final = 60.0
"""How long verdicts are waited for; they come within a second where the machine has nothing else to do."""
SCENES_NS: Final = 600 * 10**9
"""The scenes last less than this together: begun so long ago, they are over."""
_LOOK_EVERY_S: Final = 0.02
_AT_ONCE: Final = {"http": "127.0.0.1:0", "grpc": "off", "grace_s": "0", "zeros_s": "0"}
"""Each scene comes as a whole, so nothing of it is waited for."""


class DemoScorer:
    """A scorer that runs; `demo_scorer` makes it.

    Args:
        scorer: started.
        address: HOST:PORT of its page and of OTLP/HTTP.
        verdict_file: where it writes its verdicts.
    """

    def __init__(self, scorer: Scorer, address: str, verdict_file: Path) -> None:
        self._scorer, self._verdict_file = scorer, verdict_file
        self.page: Final = f"http://{address}/"
        self._poster = Poster(f"http://{address}")

    def is_well(self) -> bool:
        """Tells whether everything runs that should."""
        return self._scorer.is_well()

    def send(self, spans: Sequence[ReadableSpan]) -> None:
        """Exports spans to it in one request; they are on its disk then.

        Raises:
            LoopGuardError: it does not take them.
        """
        self._poster.post(Signal.TRACES, encode_spans(spans))

    def verdicts(self, traces: Sequence[str]) -> dict[str, Verdict]:
        """Waits for the verdicts on these traces, and returns them by trace.

        Raises:
            ServeError: they did not come.
        """
        end = time.monotonic() + PATIENCE_S
        while True:
            found = self._written()
            if found.keys() >= set(traces):
                return found
            if time.monotonic() > end or not self.is_well():
                message = "the demo's scorer gave no verdict: report what stands above, or try `demo` again"
                raise ServeError(message)
            time.sleep(_LOOK_EVERY_S)

    def _written(self) -> dict[str, Verdict]:
        try:
            lines = self._verdict_file.read_bytes().split(b"\n")[:-1]  # behind the last one stands half a line, or none
        except FileNotFoundError:
            return {}
        verdicts = [msgspec.json.decode(line, type=Verdict) for line in lines]
        return {trace_id: verdict for verdict in verdicts for trace_id in verdict.trace_ids}


@contextlib.contextmanager
def demo_scorer() -> Iterator[DemoScorer]:
    """Runs a scorer beside the caller.

    Raises:
        LoopGuardError: it cannot run here, such as where no port of the loopback can be had.
    """
    with tempfile.TemporaryDirectory(prefix="otel-loopguard-demo-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        policy, verdict_file = folder / "policy.yaml", folder / "verdicts.jsonl"
        policy.write_bytes(msgspec.json.encode(POLICY))  # JSON is YAML
        given = {**_AT_ONCE, "data": str(folder / "data"), "policy": str(policy), "verdict_file": str(verdict_file)}
        key = {KEY_VARIABLE: KEY.secret.hex(), KEY_ID_VARIABLE: KEY.key_id}
        with _loop_beside() as loop:
            scorer = Scorer(read_settings(given, {}), key)
            served = asyncio.run_coroutine_threadsafe(scorer.start(), loop).result()
            try:
                yield DemoScorer(scorer, served["http"], verdict_file)
            finally:
                asyncio.run_coroutine_threadsafe(scorer.stop(), loop).result()


@contextlib.contextmanager
def _loop_beside() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="loopguard-demo", daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def scored(demo: Demo, scorer: DemoScorer) -> Demo:
    """Sends a scorer what left, scene by scene, and puts its verdicts in the place of those of `Replay`.

    Raises:
        LoopGuardError: it does not take the spans, or gives no verdict.
    """
    traces = [received(one.left[0], {}).trace_id for one in demo.watched]
    for one in demo.watched:
        scorer.send(one.left)
    verdicts = scorer.verdicts(traces)
    pairs = [(one, verdicts[trace_id]) for one, trace_id in zip(demo.watched, traces, strict=True)]
    return msgspec.structs.replace(
        demo,
        watched=tuple(
            msgspec.structs.replace(one, report=msgspec.structs.replace(one.report, verdict=verdict))
            for one, verdict in pairs
        ),
        same_replayed=sum(one.report.verdict == verdict for one, verdict in pairs),
    )


def encode_spans(spans: Sequence[ReadableSpan]) -> bytes:
    """An OTLP request with these spans, all of one resource and one scope, as a scene's are."""
    plain = [received(span, attributes_of(span)) for span in spans]
    held = ResourceSpans(scope_spans=[ScopeSpans(spans=map(_encoded, plain))])
    held.resource.attributes.extend(key_values(plain[0].resource))
    held.scope_spans[0].scope.name = plain[0].scope
    return ExportTraceServiceRequest(resource_spans=[held]).SerializeToString()


def _encoded(span: Span) -> OtlpSpan:
    """One span; those of the demo have no events and no links."""
    return OtlpSpan(
        trace_id=bytes.fromhex(span.trace_id),
        span_id=bytes.fromhex(span.span_id),
        parent_span_id=bytes.fromhex(span.parent_id or ""),
        name=span.name,
        kind=OtlpSpan.SpanKind.ValueType(span.kind),
        start_time_unix_nano=span.start_ns,
        end_time_unix_nano=span.end_ns or 0,
        attributes=key_values(span.attributes),
        status=Status(code=Status.StatusCode.ValueType(span.status_code), message=span.status_message),
    )
