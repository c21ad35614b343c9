"""What `doctor` sees in a tracer provider, and what of a made-up secret it sees leave."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
from opentelemetry.sdk._logs import LoggerProvider, LogRecordProcessor
from opentelemetry.sdk._logs.export import (
    BatchLogRecordProcessor,
    LogRecordExporter,
    LogRecordExportResult,
    SimpleLogRecordProcessor,
)
from opentelemetry.sdk.trace import (
    ConcurrentMultiSpanProcessor,
    ReadableSpan,
    SpanLimits,
    SpanProcessor,
)
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter, SpanExportResult

from otel_loopguard import LoopGuardLogRecordExporter, LoopGuardLogRecordProcessor, LoopGuardSpanProcessor, dialects
from otel_loopguard.cli.checkup import Diagnosis, Level, child, pipeline
from otel_loopguard.cli.checkup.log_sounding import sound_logs
from otel_loopguard.cli.checkup.shapes import every_key, shapes
from otel_loopguard.cli.checkup.trial import Line, Request
from otel_loopguard.policy import ContentRule
from otel_loopguard.processor.boundary import Boundary
from otel_loopguard.processor.exporter import LoopGuardSpanExporter
from tests.cli.doctoring import (
    GOOD,
    SECRET,
    AtStart,
    Holder,
    Kept,
    provider_of,
    sounded,
    write,
)

# --- processors and exporters ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("processors", "level", "expected"),
    [
        ([LoopGuardSpanProcessor], Level.OK, "beside 0 other processors"),
        ([], Level.PROBLEM, "is not there"),
        ([lambda: Holder(LoopGuardSpanProcessor())], Level.PROBLEM, "lies in"),
        ([lambda: Holder(Holder(LoopGuardSpanProcessor()))], Level.PROBLEM, "lies in"),
        ([LoopGuardSpanProcessor, LoopGuardSpanProcessor], Level.PROBLEM, "2 times"),
        ([lambda: SimpleSpanProcessor(LoopGuardSpanExporter(Kept()))], Level.NOTE, "LoopGuardSpanExporter removes"),
    ],
)
def test_place_of_the_processor(processors: list[Any], level: Level, expected: str) -> None:
    """Missing, twice or hidden by a wrapper is a problem."""
    parts = pipeline.parts_of(provider_of(*(make() for make in processors)))
    (told,) = pipeline.processors(parts)
    assert (level, True) == (told.level, expected in told.what)


def test_exporters_and_how_they_are_fed() -> None:
    """A simple processor is worth a note; exporters inside ours and behind wrappers are seen."""
    batch: Any = BatchSpanProcessor(LoopGuardSpanExporter(Kept()))
    provider = provider_of(SimpleSpanProcessor(Kept()), Holder(batch))
    told = list(pipeline.exporters(pipeline.parts_of(provider)))
    batch.shutdown()
    assert [Level.NOTE, Level.OK] == [one.level for one in told]
    assert "behind LoopGuardSpanExporter" in told[1].what


@pytest.mark.parametrize(
    ("limits", "levels"),
    [
        ({}, [Level.OK]),
        ({"max_attribute_length": 4096}, [Level.OK]),
        ({"max_attribute_length": 4095}, [Level.PROBLEM]),
        ({"max_span_attribute_length": 10, "max_span_attributes": 63}, [Level.PROBLEM] * 2),
        ({"max_span_attributes": 64}, [Level.OK]),
        ({"max_span_attributes": SpanLimits.UNSET}, [Level.OK]),
    ],
)
def test_limits_in_code(limits: dict[str, int], levels: list[Level]) -> None:
    """A limit just short of what tools need is a problem."""
    assert levels == [one.level for one in pipeline.limits(provider_of(span_limits=SpanLimits(**limits)))]


# --- the canary -----------------------------------------------------------------------------------------------


def test_the_canary_knows_every_dialect() -> None:
    """Each dialect that is read has a run whose spans it reads, with content under every key that it knows."""
    made = {run[0].dialect for run in shapes()}
    known = {module.__name__.rpartition(".")[2] for module in dialects._MODULES}  # noqa: SLF001 - the registry
    assert {"genai", "loopguard"} | (made - {"gen_ai"}) == known
    assert len(dialects.content_keys()) == len(every_key())


@pytest.mark.parametrize("concurrent", [False, True])
def test_what_is_clean_is_said_to_be(*, concurrent: bool) -> None:
    """With the processor anywhere no exporter gets content, digests arrive, and no exporter was called."""
    options = {"active_span_processor": ConcurrentMultiSpanProcessor(4)} if concurrent else {}
    first, last = Kept(), Kept()
    batch: Any = BatchSpanProcessor(first)
    found = sounded(provider_of(batch, LoopGuardSpanProcessor(), SimpleSpanProcessor(last), **options))
    batch.shutdown()
    assert [Level.OK] * 4 == [one.level for one in found]
    assert 2 == sum("digests for 12 of 12 made-up tool calls" in one.what for one in found)
    assert [[], []] == [first.spans, last.spans]


def test_a_leak_is_told_by_exporter_and_place() -> None:
    """Without the processor everything is told, and nothing was exported; behind our exporter nothing is."""
    bare, inner = Kept(), Kept()
    found = sounded(provider_of(SimpleSpanProcessor(bare), SimpleSpanProcessor(LoopGuardSpanExporter(inner))))
    leak, clean = found
    assert (Level.LEAK, Level.OK) == (leak.level, clean.level)
    assert "attribute" in leak.what
    assert "more places" in leak.what
    assert [[], []] == [bare.spans, inner.spans]


def test_a_leak_between_processor_and_exporter_is_found() -> None:
    """A processor that puts content back after ours has run is seen through."""

    class Back(SpanProcessor):
        kept: ClassVar[dict[int, Any]] = {}

        def on_start(self, span: Any, parent_context: Any = None) -> None:  # noqa: ARG002 - the SDK's
            self.kept[span.context.span_id] = dict(span.attributes)

        def on_end(self, span: ReadableSpan) -> None:
            assert span.context is not None
            span._attributes = {"note": str(self.kept[span.context.span_id])}  # noqa: SLF001 - as others do

    exporter = Kept()
    provider = provider_of(LoopGuardSpanProcessor(), Back(), SimpleSpanProcessor(exporter))
    assert any(one.level is Level.LEAK and "attribute note" in one.what for one in sounded(provider, everything=True))
    assert [] == exporter.spans


def test_content_that_is_kept_on_purpose_is_no_leak() -> None:
    """`keep` and `drop_tool` let go what they say, and a note says so; a tool's content under `drop_tool` stays."""
    for rule in (ContentRule.KEEP, ContentRule.DROP_TOOL):
        found = sounded(provider_of(LoopGuardSpanProcessor(content=rule), SimpleSpanProcessor(Kept())))
        assert [Level.NOTE, Level.OK] == [one.level for one in found]
        assert f"as `content: {rule.value}` says" in found[0].what


def test_the_stricter_rule_counts() -> None:
    """What our exporter promises holds although the processor lets it pass, and the other way round."""
    keeping = LoopGuardSpanProcessor(content=ContentRule.KEEP)
    found = sounded(provider_of(keeping, SimpleSpanProcessor(LoopGuardSpanExporter(Kept()))))
    assert [Level.OK, Level.OK] == [one.level for one in found]


def test_spans_exported_at_their_start_are_a_leak_of_their_own() -> None:
    """What is exported before the processor has its turn is told apart, with another remedy."""
    found = sounded(provider_of(LoopGuardSpanProcessor(), AtStart(Kept())), everything=True)
    leak = next(one for one in found if one.level is Level.LEAK)
    assert "have only started" in leak.what
    assert "pending" in leak.remedy


def test_a_processor_that_may_send_is_left_out() -> None:
    """A processor of unknown make gets no canary unless that is asked for, and is named."""
    sent: list[str] = []

    class Sender(SpanProcessor):
        def on_end(self, span: ReadableSpan) -> None:
            sent.append(span.name)

    provider = provider_of(LoopGuardSpanProcessor(), Sender(), SimpleSpanProcessor(Kept()))
    found = sounded(provider)
    assert (Level.NOTE, []) == (found[0].level, sent)
    assert "Sender was left out" in found[0].what
    assert [Level.OK, Level.OK] == [one.level for one in found[1:]]
    assert {Level.OK} == {one.level for one in sounded(provider, everything=True)}
    assert sent


def test_an_exporter_that_cannot_be_watched_is_left_out() -> None:
    """Where an exporter's place cannot be taken, nothing is handed to it."""
    sent: list[object] = []

    class Fixed(SpanExporter):
        __slots__ = ()

        def __setattr__(self, name: str, value: object) -> None:
            raise AttributeError(name)

        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            sent.extend(spans)
            return SpanExportResult.SUCCESS

    found = sounded(provider_of(LoopGuardSpanProcessor(), SimpleSpanProcessor(Fixed())))
    assert ([Level.NOTE, Level.SKIPPED], []) == ([one.level for one in found], sent)


def test_processors_that_raise_do_not_end_the_check() -> None:
    """What somebody else's processor raises is kept away; what can be told is told."""

    class Raising(SpanProcessor):
        def on_start(self, span: Any, parent_context: Any = None) -> None:  # noqa: ARG002 - the SDK's
            raise ValueError(SECRET)

    found = sounded(provider_of(Raising(), LoopGuardSpanProcessor(), SimpleSpanProcessor(Kept())), everything=True)
    assert [True] == ["was handed none of the made-up spans" in one.what for one in found]


def test_the_child_in_this_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The child's whole work, line by line: a part, what was found in it, and the end."""
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    text = GOOD.replace("trace.set_tracer_provider(provider)", "").replace("Batch", "Simple")
    text = text.replace("TracerProvider()", "TracerProvider(shutdown_on_exit=False)")
    write(tmp_path / "loopguard_doctor_app.py", text)
    for request in (
        Request(),
        Request(app="loopguard_doctor_app:provider", endpoints=True),
        Request(app="loopguard_doctor_app:no_such"),
    ):
        file = io.StringIO()
        child.run(request, file)
        lines = [msgspec.json.decode(line, type=Line) for line in file.getvalue().splitlines()]
        assert ("the SDK", True) == (lines[0].part, lines[-1].ended)
        levels = {one.diagnosis.level for one in lines if one.diagnosis is not None}
        assert ("no_such" in str(request.app)) == (Level.PROBLEM in levels)


# --- log records ----------------------------------------------------------------------------------------------


class KeptRecords(LogRecordExporter):
    """Keeps what it is given, as if it had sent it."""

    def __init__(self) -> None:
        self.records: list[object] = []

    def export(self, batch: Sequence[Any]) -> LogRecordExportResult:
        """Keep them."""
        self.records.extend(batch)
        return LogRecordExportResult.SUCCESS

    def shutdown(self) -> None:
        """Nothing to do."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:  # noqa: ARG002 - the SDK's
        """Nothing to do."""
        return True


def logs_of(*processors: Any) -> list[Diagnosis]:
    """What the canary tells of a logger provider with these processors."""
    provider = LoggerProvider(shutdown_on_exit=False)
    for one in processors:
        provider.add_log_record_processor(one)
    return list(sound_logs(provider, Boundary(logging.getLogger("test")), everything=False))


@pytest.mark.parametrize("feed", [SimpleLogRecordProcessor, BatchLogRecordProcessor])
def test_log_records_that_are_clean(feed: Any) -> None:
    """With our log processor first, or our exporter around theirs, nothing comes through and nothing is exported."""
    kept = KeptRecords(), KeptRecords()
    feeds = feed(kept[0]), feed(LoopGuardLogRecordExporter(kept[1]))
    assert [Level.OK] * 2 == [one.level for one in logs_of(LoopGuardLogRecordProcessor(), *feeds)]
    assert [[], []] == [one.records for one in kept]
    for one in feeds:
        one.shutdown()


def test_log_records_that_leak() -> None:
    """Without ours the body and the attributes are told by their places."""
    kept = KeptRecords()
    (leak,) = logs_of(SimpleLogRecordProcessor(kept))
    assert (Level.LEAK, []) == (leak.level, kept.records)
    assert "the body of gen_ai.choice" in leak.what


def test_log_processor_that_comes_too_late() -> None:
    """What stands before our log processor sends records whole: told, and seen."""
    found = logs_of(SimpleLogRecordProcessor(KeptRecords()), LoopGuardLogRecordProcessor())
    assert [Level.PROBLEM, Level.LEAK] == [one.level for one in found]


def test_log_content_that_is_kept_on_purpose_is_no_leak() -> None:
    """What the rule lets go is a note; `drop_tool` still keeps tools' records back."""
    for rule in (ContentRule.KEEP, ContentRule.DROP_TOOL):
        found = logs_of(LoopGuardLogRecordProcessor(content=rule), SimpleLogRecordProcessor(KeptRecords()))
        assert [Level.NOTE] == [one.level for one in found]


def test_log_processor_that_may_send_is_left_out() -> None:
    """A processor of unknown make gets no canary, and is named."""
    seen: list[object] = []

    class Sender(LogRecordProcessor):
        def on_emit(self, log_record: Any) -> None:
            seen.append(log_record)

        def shutdown(self) -> None:
            """Nothing to do."""

        def force_flush(self, timeout_millis: int = 30_000) -> bool:  # noqa: ARG002 - the SDK's
            return True

    found = logs_of(Sender())
    assert ([Level.NOTE, Level.SKIPPED], []) == ([one.level for one in found], seen)


def test_without_a_logger_provider_there_is_nothing_to_look_at() -> None:
    """The API's own stand-in is no provider."""
    (told,) = sound_logs(object(), Boundary(logging.getLogger("test")), everything=False)
    assert Level.SKIPPED is told.level
