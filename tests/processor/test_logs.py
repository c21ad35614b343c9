"""The processor and the exporter that remove content from log records: real SDK, captured records, bytes sent."""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pytest
from opentelemetry._logs import LogRecord
from opentelemetry.sdk._logs import (
    LoggerProvider,
    LogRecordLimits,
    LogRecordProcessor,
    ReadableLogRecord,
    ReadWriteLogRecord,
)
from opentelemetry.sdk._logs.export import (
    BatchLogRecordProcessor,
    InMemoryLogRecordExporter,
    LogRecordExporter,
    LogRecordExportResult,
    SimpleLogRecordProcessor,
)
from opentelemetry.sdk.resources import Resource

from otel_loopguard.content import Cleaner
from otel_loopguard.digest import Key, Keyring, NameKind, checked_name
from otel_loopguard.errors import KeyConfigError
from otel_loopguard.policy import ContentRule
from otel_loopguard.processor.logs import SCOPES, LoopGuardLogRecordExporter, LoopGuardLogRecordProcessor
from tests.dialects import captures
from tests.processor.canaries import CANARY, CONTENT, otlp_logs
from tests.processor.emitting import CAPTURES, captured, emit

KEY = Key(key_id="test", secret=bytes(range(32)))
Setup: TypeAlias = Callable[[LogRecordExporter, ContentRule], Sequence[LogRecordProcessor]]


def poisoned(name: str) -> list[tuple[str, dict[str, Any]]]:
    """One capture's records with a canary before each piece of content."""
    return captured(name, lambda text: CONTENT.sub(lambda found: CANARY + found[0], text))


def memory() -> InMemoryLogRecordExporter:
    """An exporter that keeps what it gets."""
    return InMemoryLogRecordExporter()  # type: ignore[no-untyped-call] # not typed in the SDK


def by_processor(inner: LogRecordExporter, content: ContentRule) -> Sequence[LogRecordProcessor]:
    """Ours before the one that exports."""
    return LoopGuardLogRecordProcessor(content=content, keys=KEY), SimpleLogRecordProcessor(inner)


def by_exporter(inner: LogRecordExporter, content: ContentRule) -> Sequence[LogRecordProcessor]:
    """Our exporter before another."""
    return (SimpleLogRecordProcessor(LoopGuardLogRecordExporter(inner, content=content, keys=KEY)),)


def by_batch(inner: LogRecordExporter, content: ContentRule) -> Sequence[LogRecordProcessor]:
    """Our exporter behind a batch processor."""
    return (BatchLogRecordProcessor(LoopGuardLogRecordExporter(inner, content=content, keys=KEY)),)


SETUPS = (by_processor, by_exporter, by_batch)


def exported(
    records: list[tuple[str, dict[str, Any]]], setup: Setup | None, content: ContentRule = ContentRule.DROP_ALL
) -> tuple[ReadableLogRecord, ...]:
    """What reaches an exporter in memory."""
    kept, provider = memory(), LoggerProvider(shutdown_on_exit=False)
    for processor in (SimpleLogRecordProcessor(kept),) if setup is None else setup(kept, content):
        provider.add_log_record_processor(processor)
    emit(records, provider)
    provider.force_flush()
    found = kept.get_finished_logs()
    provider.shutdown()
    return tuple(found)


def one(setup: Setup, content: ContentRule = ContentRule.DROP_ALL, scope: str = "app", **fields: Any) -> LogRecord:
    """What is left of one record."""
    return exported([(scope, fields)], setup, content)[0].log_record


# --- captures -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("setup", SETUPS)
@pytest.mark.parametrize("name", CAPTURES)
def test_no_content_of_a_capture_leaves(name: str, setup: Setup) -> None:
    """With drop_all none of a run's prompts, arguments, results and answers is in the bytes sent; bodies are none."""
    records = poisoned(name)
    got = exported(records, setup)
    assert CANARY.encode() not in otlp_logs(got)
    assert [(None, fields["event_name"]) for _, fields in records] == [
        (record.log_record.body, record.log_record.event_name) for record in got
    ]


@pytest.mark.parametrize("name", CAPTURES)
def test_what_the_captures_hold_would_be_found(name: str) -> None:
    """Where nothing is removed the search finds content, but in runs that were recorded without."""
    withheld = name.startswith("google-adk") and not name.endswith("main-content")
    assert withheld or CANARY.encode() in otlp_logs(exported(poisoned(name), None))


@pytest.mark.parametrize("setup", SETUPS)
@pytest.mark.parametrize("name", CAPTURES)
def test_only_content_goes(name: str, setup: Setup) -> None:
    """Scopes, ids, times, severities and all attributes that hold no content stay."""
    for old, new in zip(exported(captured(name), None), exported(captured(name), setup), strict=True):
        assert old.instrumentation_scope == new.instrumentation_scope
        assert _frame(old.log_record) == _frame(new.log_record)
        left = dict(new.log_record.attributes or {})
        assert left.items() <= dict(old.log_record.attributes or {}).items()
        gone = dict(old.log_record.attributes or {}).keys() - left.keys()
        names = {"gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions"}
        assert set() == gone - names - {"gen_ai.tool.definitions"}


def _frame(record: LogRecord) -> tuple[object, ...]:
    ids = (record.trace_id, record.span_id, record.trace_flags)
    return (*ids, record.timestamp, record.observed_timestamp, record.severity_text, record.severity_number)


@pytest.mark.parametrize("setup", SETUPS)
@pytest.mark.parametrize("name", CAPTURES)
def test_drop_tool_takes_records_of_tools_alone(name: str, setup: Setup) -> None:
    """A tool's message loses its body; what models were sent and said stays."""
    records = captured(name)
    for old, new in zip(exported(records, None), exported(records, setup, ContentRule.DROP_TOOL), strict=True):
        of_tool = str(old.log_record.event_name).startswith("gen_ai.tool.")
        assert (None if of_tool else old.log_record.body) == new.log_record.body
        assert old.log_record.attributes == new.log_record.attributes


@pytest.mark.parametrize("setup", SETUPS)
def test_keep_hands_on_what_it_got(setup: Setup) -> None:
    """With keep every byte is the same."""
    records = captured(CAPTURES[0])
    assert otlp_logs(exported(records, None)) == otlp_logs(exported(records, setup, ContentRule.KEEP))


def test_every_scope_of_the_captures_is_known() -> None:
    """A framework that writes spans of agents in a scope writes log records there, too."""
    spans = {span.scope for name in captures.names() for span in captures.spans(name)}
    logs = {scope for name in CAPTURES for scope, _ in captured(name)}
    # Those two are what a script around the captured run, and the Vercel AI SDK, which is not Python, call theirs.
    found = {
        scope for scope in spans | logs if not any(scope == known or scope.startswith(f"{known}.") for known in SCOPES)
    }
    assert {"host", "gen_ai"} == found


# --- which records, and what of them ------------------------------------------------------------------------

GENAI: tuple[dict[str, Any], ...] = (
    {"event_name": "gen_ai.user.message"},
    {"attributes": {"event.name": "gen_ai.choice"}},
    {"scope": "openinference.instrumentation.langchain"},
    {"scope": "opentelemetry.instrumentation.genai.openai"},
    {"scope": "pydantic-ai"},
    {"attributes": {"gen_ai.input.messages": CANARY}},
    {"attributes": {"input.value": CANARY}},
)
FAILED = {"exception.type": "ValueError", "exception.message": CANARY, "exception.stacktrace": CANARY}


@pytest.mark.parametrize("setup", SETUPS)
@pytest.mark.parametrize("record", GENAI)
def test_records_of_genai_instrumentations_lose_their_content(record: dict[str, Any], setup: Setup) -> None:
    """Known by event name, scope, or a key that only they write: body, everyday words and error texts go."""
    attributes = {**record.get("attributes", {}), **FAILED, "message": CANARY, "http.route": "/x"}
    left = one(setup, **{"body": {"content": CANARY}, **record, "attributes": attributes})
    assert None is left.body
    event = {key: value for key, value in record.get("attributes", {}).items() if key == "event.name"}
    assert {**event, "exception.type": "ValueError", "http.route": "/x"} == dict(left.attributes or {})


@pytest.mark.parametrize("setup", SETUPS)
def test_other_records_pass_untouched(setup: Setup) -> None:
    """An application's own records are its own matter, error texts and everyday words included."""
    attributes = {**FAILED, "message": CANARY, "input": CANARY, "tools": f"a {CANARY}"}
    left = one(setup, body=f"failed on {CANARY}", attributes=attributes)
    assert (f"failed on {CANARY}", attributes) == (left.body, dict(left.attributes or {}))


@pytest.mark.parametrize(
    "record",
    [
        {"event_name": "gen_ai.tool.message"},
        {"scope": "pydantic-ai", "attributes": {"gen_ai.operation.name": "execute_tool"}},
        {"attributes": {"gen_ai.tool.call.arguments": CANARY}},
    ],
)
@pytest.mark.parametrize("setup", SETUPS)
def test_drop_tool_knows_records_of_tools(record: dict[str, Any], setup: Setup) -> None:
    """By event name, operation, or what only a tool's records carry."""
    left = one(setup, ContentRule.DROP_TOOL, **{"body": CANARY, **record})
    assert None is left.body
    assert CANARY not in str(dict(left.attributes or {}))


@pytest.mark.parametrize("setup", SETUPS)
def test_names_that_are_prompts_are_digested(setup: Setup) -> None:
    """As on spans, so that a record and a span of one trace show one name."""
    record = captured(CAPTURES[0])[0][1] | {"attributes": {"gen_ai.agent.name": f"ask {CANARY}"}}
    left = one(setup, scope="agent_framework", **record)
    digester = Keyring(KEY).for_trace(f"{left.trace_id:032x}")
    digested = checked_name(f"ask {CANARY}", digester, kind=NameKind.AGENT)
    assert {"gen_ai.agent.name": digested} == dict(left.attributes or {})


@pytest.mark.parametrize("setup", SETUPS)
def test_a_record_outside_any_trace_is_cleaned(setup: Setup) -> None:
    """Names are digested there, too."""
    left = one(setup, scope="pydantic-ai", body=CANARY, attributes={"gen_ai.agent.name": f"ask {CANARY}"})
    assert (0, None) == (left.trace_id, left.body)
    assert CANARY not in str(dict(left.attributes or {}))


@pytest.mark.parametrize("setup", SETUPS)
def test_what_the_sdk_keeps_of_an_exception_goes(setup: Setup) -> None:
    """Newer SDKs take an exception with a record, and make attributes of it."""
    record = LogRecord(body=CANARY, event_name="gen_ai.choice")
    if not hasattr(record, "exception"):
        record.attributes = dict(FAILED)
    else:
        record.exception = ValueError(CANARY)
    kept, provider = memory(), LoggerProvider(shutdown_on_exit=False)
    for processor in setup(kept, ContentRule.DROP_ALL):
        provider.add_log_record_processor(processor)
    provider.get_logger("app").emit(record)
    provider.force_flush()
    (got,) = kept.get_finished_logs()
    provider.shutdown()
    assert None is getattr(got.log_record, "exception", None)
    assert {"exception.type": "ValueError"} == dict(got.log_record.attributes or {})


def test_records_of_pythons_logging_pass_by_their_logger() -> None:
    """A framework's own logger is a scope of its own; another's text is the application's matter."""
    kept = one(by_processor, scope="my.application", body=CANARY)
    gone = one(by_processor, scope="agent_framework.tools", body=CANARY)
    assert (CANARY, None) == (kept.body, gone.body)


# --- beside others ------------------------------------------------------------------------------------------


def test_the_exporter_changes_nothing_that_others_hold() -> None:
    """A private exporter beside it gets the whole record."""
    private, shared = memory(), memory()
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(LoopGuardLogRecordExporter(shared, keys=KEY)))
    provider.add_log_record_processor(SimpleLogRecordProcessor(private))
    records = poisoned(CAPTURES[0])
    emit(records, provider)
    assert otlp_logs(exported(records, None)) == otlp_logs(private.get_finished_logs())
    assert CANARY.encode() not in otlp_logs(shared.get_finished_logs())


def test_the_stated_limit() -> None:
    """What was added before the processor has seen the record, and sends it whole; what comes after does not."""
    bodies: list[Any] = []

    class Sending(InMemoryLogRecordExporter):
        def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
            bodies.extend(record.log_record.body for record in batch)
            return super().export(batch)

    after, provider = memory(), LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(Sending()))  # type: ignore[no-untyped-call]
    provider.add_log_record_processor(LoopGuardLogRecordProcessor(keys=KEY))
    provider.add_log_record_processor(SimpleLogRecordProcessor(after))
    emit(poisoned(CAPTURES[0]), provider)
    assert [True, False] == [CANARY in str(bodies), CANARY.encode() in otlp_logs(after.get_finished_logs())]


@pytest.mark.parametrize("setup", SETUPS)
def test_dropped_counts_stay(setup: Setup) -> None:
    """What the SDK's limits cost a record is still told; what we removed is not counted."""
    kept, provider = memory(), LoggerProvider(shutdown_on_exit=False)
    for processor in setup(kept, ContentRule.DROP_ALL):
        provider.add_log_record_processor(processor)
    record = LogRecord(attributes={"a": 1, "b": 2, "input.value": CANARY}, event_name="gen_ai.choice")
    logger = provider.get_logger("app")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the SDK says that it dropped some
        emitted: Any = ReadWriteLogRecord(record, Resource({}), limits=LogRecordLimits(max_attributes=2))
        logger.emit(emitted)
    provider.force_flush()
    (got,) = kept.get_finished_logs()
    provider.shutdown()
    assert (1, {"b": 2}) == (got.dropped_attributes, dict(got.log_record.attributes or {}))


def test_nothing_is_logged_for_our_sake() -> None:
    """Newer SDKs ask processors whether anybody wants a record."""
    assert LoopGuardLogRecordProcessor(keys=KEY).enabled(event_name="x") is False
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(LoopGuardLogRecordProcessor(keys=KEY))
    enabled = getattr(provider.get_logger("app"), "enabled", None)
    assert enabled is None or enabled() is False


def test_the_inner_exporter_is_asked_to_flush_and_shut_down() -> None:
    """What it answers and raises is its own."""
    calls: list[object] = []

    class Inner(LogRecordExporter):
        def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
            raise ConnectionError(len(batch))

        def shutdown(self) -> None:
            calls.append("shutdown")

        def force_flush(self, timeout_millis: int = 30_000) -> bool:
            calls.append(timeout_millis)
            return False

    ours = LoopGuardLogRecordExporter(Inner(), keys=KEY)
    with pytest.raises(ConnectionError, match="1"):
        ours.export(exported([("app", {"body": 1})], None))
    assert ours.force_flush(7) is False
    ours.shutdown()
    assert [7, "shutdown"] == calls


def test_an_inner_exporter_that_cannot_flush_is_none_the_worse() -> None:
    """Before SDK 1.41 the SDK's own could not."""
    assert LoopGuardLogRecordExporter(memory(), keys=KEY).force_flush() is True


def test_the_processor_holds_nothing() -> None:
    """It flushes and shuts down at once, and cleans still if records come afterwards."""
    ours = LoopGuardLogRecordProcessor(keys=KEY)
    assert ours.force_flush() is True
    ours.shutdown()


@pytest.mark.parametrize("make", [LoopGuardLogRecordProcessor, lambda: LoopGuardLogRecordExporter(memory())])
def test_the_key_may_be_wrong(make: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that cannot be used is said at once, not with the first record."""
    monkeypatch.setenv("OTEL_LOOPGUARD_KEY", "short")
    with pytest.raises(KeyConfigError):
        make()


# --- failures -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("setup", SETUPS)
def test_a_failure_of_ours_empties_the_record(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It goes on with its ids and times, no body and no attributes; counted each time, said once, without its text."""

    def fail(*_arguments: object, **_options: object) -> None:
        raise ValueError(CANARY)

    monkeypatch.setattr(Cleaner, "without_content", fail)
    records = poisoned(CAPTURES[0])
    with caplog.at_level(logging.DEBUG):
        got = exported(records, setup)
    assert [(None, {})] * len(records) == [
        (record.log_record.body, dict(record.log_record.attributes or {})) for record in got
    ]
    assert CANARY not in caplog.text
    assert 1 == len([record for record in caplog.records if record.name.startswith("otel_loopguard")])


def test_failures_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """By step, in both."""

    def fail(*_arguments: object, **_options: object) -> None:
        raise ValueError

    (record,) = exported([("app", {"event_name": "gen_ai.choice", "body": CANARY})], None)
    monkeypatch.setattr(Cleaner, "without_content", fail)
    exporter = LoopGuardLogRecordExporter(memory(), keys=KEY)
    exporter.export([record, copy.copy(record)])
    processor = LoopGuardLogRecordProcessor(keys=KEY)
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(processor)
    provider.get_logger("app").emit(LogRecord(event_name="gen_ai.choice", body=CANARY))
    assert [{"clean record": 2}, {"clean record": 1}] == [exporter.failures, processor.failures]


def test_what_is_no_log_record_never_reaches_the_application() -> None:
    """Even if another processor hands on something else."""
    ours = LoopGuardLogRecordProcessor(keys=KEY)
    ours.on_emit(None)  # type: ignore[arg-type] # the point of the test
    assert {"clean record": 1, "empty record": 1} == ours.failures
