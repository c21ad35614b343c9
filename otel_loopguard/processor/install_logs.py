"""Puts the log record processor before those that an application's logger provider has.

Invariants: it is first, because processors hand one record on from one to the next, and what stands before it may have
sent the record as it was. The SDK has no public way to be first.
"""

from __future__ import annotations

from opentelemetry import _logs
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs._internal import SynchronousMultiLogRecordProcessor

from otel_loopguard.digest import Key, Keyring
from otel_loopguard.errors import InstallError
from otel_loopguard.policy import ContentRule
from otel_loopguard.processor.logs import LoopGuardLogRecordProcessor
from otel_loopguard.processor.wrapped import inside


def install_logs(
    provider: _logs.LoggerProvider | None = None,
    *,
    content: ContentRule = ContentRule.DROP_ALL,
    keys: Keyring | Key | None = None,
) -> LoopGuardLogRecordProcessor:
    """Makes a log record processor and puts it first in a provider.

    Args:
        provider: the application's; None for the global one, which must have been set.
        content: as `LoopGuardLogRecordProcessor` takes it.
        keys: the same.

    Returns:
        The processor. A provider that has one already is given no second one: the first is returned.

    Raises:
        InstallError: there is no provider of the SDK behind what was given, or its processors run at the same time.
        KeyConfigError: the key that is configured cannot be used.
    """
    given = _logs.get_logger_provider() if provider is None else provider
    found = sdk_logger_provider(given)
    if found is None:
        where = "no logger provider is set" if provider is None else f"{type(given).__name__} holds none"
        message = (
            f"a logger provider of the OpenTelemetry SDK is needed, and {where}: "
            "call install_logs() after _logs.set_logger_provider(), or pass the provider"
        )
        raise InstallError(message)
    held = found._multi_log_record_processor  # noqa: SLF001 - nothing public tells
    if not isinstance(held, SynchronousMultiLogRecordProcessor):
        message = (
            f"log records cannot be cleaned under {type(held).__name__}, which runs its processors at the same time: "
            "put LoopGuardLogRecordExporter around the exporters instead"
        )
        raise InstallError(message)
    for one in held._log_record_processors:  # noqa: SLF001
        if isinstance(one, LoopGuardLogRecordProcessor):
            return one
    processor = LoopGuardLogRecordProcessor(content=content, keys=keys)
    with held._lock:  # noqa: SLF001
        held._log_record_processors = (processor, *held._log_record_processors)  # noqa: SLF001
    return processor


def sdk_logger_provider(provider: object) -> LoggerProvider | None:
    """Returns the SDK's provider that a provider is, or wraps; None where there is none."""
    return next((one for one in inside(provider, _logs.LoggerProvider) if isinstance(one, LoggerProvider)), None)
