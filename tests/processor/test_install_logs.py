"""Where the log record processor goes: first, once, and into the SDK's provider behind any wrapper."""

from __future__ import annotations

import pytest
from opentelemetry import _logs
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs._internal import ConcurrentMultiLogRecordProcessor  # SDK 1.40 has no public name for it
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider

from otel_loopguard.errors import InstallError
from otel_loopguard.keys import ephemeral_key
from otel_loopguard.policy import ContentRule
from otel_loopguard.processor.install import install
from otel_loopguard.processor.install_logs import install_logs
from otel_loopguard.processor.span_processor import LoopGuardSpanProcessor

CANARY = "canary-2c8b"


class Wrapper(_logs.LoggerProvider):
    """A provider of somebody else's around one of the SDK."""

    def __init__(self, inner: _logs.LoggerProvider) -> None:
        self.inner = inner

    def get_logger(self, name: str, *arguments: object, **named: object) -> _logs.Logger:
        """The inner provider's logger."""
        del arguments, named
        return self.inner.get_logger(name)


def _provider() -> tuple[LoggerProvider, InMemoryLogRecordExporter]:
    exporter = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    return provider, exporter


def _bodies(provider: _logs.LoggerProvider, exporter: InMemoryLogRecordExporter) -> list[object]:
    exporter.clear()
    record = _logs.LogRecord(event_name="gen_ai.client.inference.operation.details", body=CANARY)
    provider.get_logger("app").emit(record)
    return [each.log_record.body for each in exporter.get_finished_logs()]


def test_an_exporter_that_was_there_before_gets_clean_records() -> None:
    """Even one that exports at once."""
    provider, exporter = _provider()
    assert [CANARY] == _bodies(provider, exporter)
    install_logs(provider, keys=ephemeral_key())
    assert [None] == _bodies(provider, exporter)


def test_behind_wrappers() -> None:
    """The SDK's provider is found by its type."""
    provider, exporter = _provider()
    outer = Wrapper(Wrapper(provider))
    install_logs(outer, keys=ephemeral_key())
    assert [None] == _bodies(outer, exporter)


def test_only_one() -> None:
    """A second call returns the first's processor."""
    provider, _ = _provider()
    first = install_logs(provider, keys=ephemeral_key())
    assert first is install_logs(provider, keys=ephemeral_key(), content=ContentRule.KEEP)


def test_the_rule_can_change() -> None:
    """What a policy that is read anew says holds for the records that follow."""
    provider, exporter = _provider()
    processor = install_logs(provider, content=ContentRule.KEEP, keys=ephemeral_key())
    assert [CANARY] == _bodies(provider, exporter)
    processor.set_content(ContentRule.DROP_ALL)
    assert [None] == _bodies(provider, exporter)


def test_nothing_of_the_sdk() -> None:
    """The error says what was found and what to do."""
    with pytest.raises(InstallError, match="NoOpLoggerProvider holds none: call install_logs"):
        install_logs(_logs.NoOpLoggerProvider())


def test_processors_that_run_at_the_same_time() -> None:
    """Nobody is first there, so it is refused, with what to do instead."""
    provider = LoggerProvider(
        shutdown_on_exit=False, multi_log_record_processor=ConcurrentMultiLogRecordProcessor(max_workers=1)
    )
    with pytest.raises(InstallError, match="put LoopGuardLogRecordExporter around"):
        install_logs(provider, keys=ephemeral_key())
    provider.shutdown()


def test_install_cleans_log_records_too() -> None:
    """Whoever asks for the span processor means the logs of the same instrumentations as well; asked twice, once."""
    provider, exporter = _provider()
    spans = TracerProvider(shutdown_on_exit=False)
    first = install(spans, logger_provider=provider, keys=ephemeral_key())
    assert first is install(spans, logger_provider=provider)
    assert [None] == _bodies(provider, exporter)


def test_install_says_where_log_records_cannot_be_cleaned(caplog: pytest.LogCaptureFixture) -> None:
    """A pipeline that hands one record to all processors at once is left alone, and said; spans are cleaned."""
    logs = LoggerProvider(multi_log_record_processor=ConcurrentMultiLogRecordProcessor(), shutdown_on_exit=False)
    spans = TracerProvider(shutdown_on_exit=False)
    assert isinstance(install(spans, logger_provider=logs, keys=ephemeral_key()), LoopGuardSpanProcessor)
    assert ["put LoopGuardLogRecordExporter around the exporters instead"] == [
        record.getMessage().rpartition(": ")[2] for record in caplog.records if record.levelname == "WARNING"
    ]
