"""Performs each scene twice, without and with the processor, and judges what left.

Invariants: both sides come out of real providers with an exporter each, and differ in the processor alone; nothing goes
anywhere else: the application's providers, environment and exporters are not touched. Deterministic but for the
producer's id, which is random by design.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from opentelemetry._logs import NoOpLoggerProvider
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from otel_loopguard import policy as policies
from otel_loopguard.demo.agent import START_NS, SceneIds, perform
from otel_loopguard.demo.scenes import MADE_UP, POLICY, SCENES, Scene
from otel_loopguard.digest import Digester, Key, Keyring
from otel_loopguard.digest import Scope as KeyScope
from otel_loopguard.errors import InstallError
from otel_loopguard.processor.counting import Counts
from otel_loopguard.processor.finding import FindingEvent
from otel_loopguard.processor.proof import is_disabled
from otel_loopguard.processor.received import attributes_of, received
from otel_loopguard.processor.settings import SDK_DISABLED
from otel_loopguard.processor.span_processor import LoopGuardSpanProcessor
from otel_loopguard.replay import Counts as ReadCounts
from otel_loopguard.replay import Replay, RunReport

KEY: Final = Key(key_id="demo", secret=bytes(range(32)))
"""Fixed, so that the demo prints the same each time; a key that is printed in a package protects nothing."""
_BETWEEN_NS: Final = 60_000_000_000
_LIMITS: Final = dict.fromkeys(
    (
        "max_attributes",
        "max_events",
        "max_links",
        "max_span_attributes",
        "max_event_attributes",
        "max_link_attributes",
        "max_attribute_length",
        "max_span_attribute_length",
    ),
    SpanLimits.UNSET,
)
"""Whatever limits the environment sets for the application."""


class Watched(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """One scene from both sides; `raw` and `left` are in the order in which spans ended, so parallel."""

    scene: Scene
    raw: tuple[ReadableSpan, ...]
    left: tuple[ReadableSpan, ...]
    told: tuple[FindingEvent, ...]
    """What the callback got while the scene went on."""
    report: RunReport
    """Judged from `left`: by `Replay`, but for the verdict where a scorer gave that (`scoring.scored`)."""
    same_raw: bool
    """Whether `raw` is judged alike: same outcome, same findings at the same calls."""


class Demo(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """All scenes, and what the processor counted."""

    watched: tuple[Watched, ...]
    counts: Counts
    read: ReadCounts
    sought: int
    """Made-up values that were looked for."""
    leaked: tuple[str, ...]
    """Made-up values that were found in what left; a promise is broken where there is any."""
    same_replayed: int | None = None
    """Runs of which a scorer says what `Replay` says, field by field; None where no scorer took part."""


def watch(scenes: Sequence[Scene] = SCENES, *, start_ns: int = START_NS) -> Demo:
    """Performs the scenes.

    Args:
        scenes: one after the other, through one processor.
        start_ns: when the first one begins, in nanoseconds since 1970.

    Returns:
        What both sides recorded, and the verdicts.

    Raises:
        InstallError: the SDK is switched off by its environment variable.
        SdkError: the SDK does not do what the processor needs.
    """
    if is_disabled():
        message = f"the demo needs the OpenTelemetry SDK, and {SDK_DISABLED}=true switches it off: unset it"
        raise InstallError(message)
    policy = policies.load(json.dumps(POLICY), source="the demo's policy")
    told: list[FindingEvent] = []
    guard = LoopGuardSpanProcessor(
        policy=policy,
        keys=Keyring(KEY),
        meter_provider=NoOpMeterProvider(),
        logger_provider=NoOpLoggerProvider(),
        on_finding=told.append,
    )
    raw, left = [], []
    said: list[tuple[FindingEvent, ...]] = []
    for scene in scenes:
        raw.append(_spans(scene, start_ns, None))
        left.append(_spans(scene, start_ns, guard))
        said.append(tuple(told))
        told.clear()
        start_ns = max(span.end_time or 0 for span in left[-1]) + _BETWEEN_NS
    reports, read = _judged(left, policy)
    from_raw, _ = _judged(raw, policy)
    watched = [
        Watched(
            scene=scene,
            raw=raw[place],
            left=left[place],
            told=said[place],
            report=reports[place],
            same_raw=_findings(reports[place]) == _findings(from_raw[place]),
        )
        for place, scene in enumerate(scenes)
    ]
    return Demo(watched=tuple(watched), counts=guard.counts, read=read, sought=len(MADE_UP), leaked=leaked(left))


def leaked(groups: Iterable[Sequence[ReadableSpan]]) -> tuple[str, ...]:
    """Returns which of the made-up values stand anywhere in these spans, as an exporter would write them."""
    text = "\n".join(span.to_json() for spans in groups for span in spans)
    return tuple(value for value in MADE_UP if value in text)


def _spans(scene: Scene, start_ns: int, guard: LoopGuardSpanProcessor | None) -> tuple[ReadableSpan, ...]:
    """What an exporter gets of a scene."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(
        sampler=ALWAYS_ON,
        resource=Resource({"service.name": "demo-shop"}),
        shutdown_on_exit=False,
        id_generator=SceneIds(scene.name),
        span_limits=SpanLimits(**_LIMITS),
    )
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    if guard is not None:
        provider.add_span_processor(guard)
    perform(scene, provider, start_ns=start_ns)
    return exporter.get_finished_spans()


def _judged(groups: Sequence[Sequence[ReadableSpan]], policy: policies.Policy) -> tuple[list[RunReport], ReadCounts]:
    """Judges each group as `replay` would; one run a group, in their order, which is that of their starts."""
    replay = Replay(policy, Digester(KEY, scope=KeyScope.ENVIRONMENT))
    for spans in groups:
        for span in spans:
            replay.add(received(span, attributes_of(span)))
    return list(replay.reports()), replay.counts


def _findings(report: RunReport) -> tuple[object, ...]:
    verdict = report.verdict
    return (verdict.outcome, [(found.kind, found.first_call, found.at_call) for found in verdict.findings])
