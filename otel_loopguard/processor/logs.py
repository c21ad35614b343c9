"""Removes content from the log records of GenAI instrumentations, in a log pipeline or before one exporter.

Invariants: a record of anything else passes untouched. Content is only removed, never digested. A failure of ours
empties the record it met, never lets content through, and never reaches the application. Public SDK API only, as it
is from SDK 1.40 on.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Final

from opentelemetry._logs import LogRecord
from opentelemetry.sdk._logs import LogRecordProcessor, ReadableLogRecord, ReadWriteLogRecord
from opentelemetry.sdk._logs.export import LogRecordExporter, LogRecordExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from otel_loopguard import attributes as attr
from otel_loopguard.content import Cleaner, KeyKind
from otel_loopguard.dialects import BY_SCOPE
from otel_loopguard.digest import Key, Keyring
from otel_loopguard.model import Role, Value
from otel_loopguard.policy import ContentRule
from otel_loopguard.processor.boundary import Boundary
from otel_loopguard.processor.naming import as_keyring, names_of

SCOPES: Final = frozenset(
    {
        *(scope for scope in BY_SCOPE if scope != "ai"),
        "agent_framework",
        "autogen-core",
        "langsmith",
        "logfire.openai_agents",
        "mcp-python-sdk",
        "openinference.instrumentation",
        "opentelemetry.instrumentation.genai",
        "opentelemetry.instrumentation.openai_v2",
        "opentelemetry.util.genai",
        "strands",
    }
)
"""Instrumentation scopes whose log records are GenAI ones, with all scopes below them."""

_BELOW: Final = tuple(f"{scope}." for scope in SCOPES)
_EVENTS: Final = "gen_ai."
_TOOL_EVENTS: Final = "gen_ai.tool."
_EVENT_NAME: Final = "event.name"
"""Where event names stood before records had a field for them."""
_TOOL_KEYS: Final = frozenset({attr.TOOL_NAME, attr.TOOL_ARGUMENTS, attr.TOOL_RESULT})
_LOGGER: Final = logging.getLogger(__name__)
_NO_TRACE: Final = 0


class LoopGuardLogRecordProcessor(LogRecordProcessor):
    """Removes content from records as they are emitted; to be added before the processors that export.

    A record is changed in place, as processors hand it from one to the next. What was added before has seen it whole,
    and sends it so.

    Args:
        content: what to remove. `drop_all`: body and content of every GenAI record. `drop_tool`: those of records
            about tools. `keep`: nothing.
        keys: digests names that do not look like names; None for the key that the environment names.

    Raises:
        KeyConfigError: the environment names a key that cannot be used.

    Thread safety: any thread.
    """

    def __init__(self, *, content: ContentRule = ContentRule.DROP_ALL, keys: Keyring | Key | None = None) -> None:
        self._keyring = as_keyring(keys)
        self._records = _Records(content, self._keyring)
        self._boundary = Boundary(_LOGGER)

    @property
    def failures(self) -> Mapping[str, int]:
        """How often each step of ours failed."""
        return self._boundary.failures

    def set_content(self, content: ContentRule) -> None:
        """Removes by another rule from now on."""
        self._records = _Records(content, self._keyring)

    def on_emit(self, log_record: ReadWriteLogRecord) -> None:
        """Cleans a record; called by the SDK on the thread that logs."""
        if not self._boundary.run("clean record", self._clean, log_record, otherwise=False):
            self._boundary.run("empty record", _empty, log_record, otherwise=None)

    def enabled(self, **_asked: object) -> bool:
        """Says that nothing needs to be logged for this processor's sake."""
        return False

    def shutdown(self) -> None:
        """Nothing is held."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:  # noqa: ARG002 - the SDK's
        """Nothing is held."""
        return True

    def _clean(self, log_record: ReadWriteLogRecord) -> bool:
        record = log_record.log_record
        kept = self._records.kept(record, log_record.instrumentation_scope)
        if kept is not None:
            _without_body(record)
            _leave(record, kept)
        return True


class LoopGuardLogRecordExporter(LogRecordExporter):
    """Removes content from records on their way to one exporter; what other exporters hold stays as it is.

    Args:
        inner: gets the cleaned records.
        content: what to remove, as for `LoopGuardLogRecordProcessor`.
        keys: digests names that do not look like names; None for the key that the environment names.

    Raises:
        KeyConfigError: the environment names a key that cannot be used.

    Thread safety: as the inner exporter's.
    """

    def __init__(
        self,
        inner: LogRecordExporter,
        *,
        content: ContentRule = ContentRule.DROP_ALL,
        keys: Keyring | Key | None = None,
    ) -> None:
        self._inner = inner
        self._records = _Records(content, as_keyring(keys))
        self._boundary = Boundary(_LOGGER)

    @property
    def failures(self) -> Mapping[str, int]:
        """How often each step of ours failed."""
        return self._boundary.failures

    def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
        """Hands the records on without their content; returns what the inner exporter says."""
        return self._inner.export(self._boundary.run("clean batch", self._batch, batch, otherwise=()))

    def shutdown(self) -> None:
        """Shuts the inner exporter down."""
        self._inner.shutdown()  # type: ignore[no-untyped-call] # not typed in the SDK

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Has the inner exporter send what it holds; before SDK 1.41 exporters need not be able to."""
        flush = getattr(self._inner, "force_flush", None)
        return True if flush is None else bool(flush(timeout_millis))

    def _batch(self, batch: Sequence[ReadableLogRecord]) -> tuple[ReadableLogRecord, ...]:
        run = self._boundary.run
        shown = []
        for record in batch:
            cleaned = run("clean record", self._clean, record, otherwise=None)
            if cleaned is None:
                cleaned = run("empty record", _cleaned, record, {}, otherwise=None)
            if cleaned is not None:
                shown.append(cleaned)
        return tuple(shown)

    def _clean(self, record: ReadableLogRecord) -> ReadableLogRecord:
        kept = self._records.kept(record.log_record, record.instrumentation_scope)
        return record if kept is None else _cleaned(record, kept)


class _Records:
    """Tells what stays of records by one rule."""

    def __init__(self, rule: ContentRule, keyring: Keyring) -> None:
        self._cleaner = Cleaner(rule)
        self._keyring = keyring

    def kept(self, record: LogRecord, scope: InstrumentationScope | None) -> Mapping[str, Value] | None:
        """Returns the attributes that stay of a record that loses its body; None for one that stays whole."""
        attributes: Mapping[str, Value] = record.attributes or {}
        event = record.event_name or attributes.get(_EVENT_NAME)
        event = event if isinstance(event, str) else ""
        if not self._is_genai(event, scope.name if scope else "", attributes):
            return None
        if self._cleaner.keeps(Role.TOOL if _is_of_tool(event, attributes) else None):
            return None
        checked = names_of(self._keyring, f"{record.trace_id or _NO_TRACE:032x}")
        kept = self._cleaner.without_content(attributes, checked, known=True)
        return attributes if kept is None else kept

    def _is_genai(self, event: str, scope: str, attributes: Mapping[str, Value]) -> bool:
        return (
            event.startswith(_EVENTS)
            or scope in SCOPES
            or scope.startswith(_BELOW)
            or any(self._cleaner.kind_of(key) is KeyKind.CONTENT for key in attributes)
        )


def _is_of_tool(event: str, attributes: Mapping[str, Value]) -> bool:
    return (
        event.startswith(_TOOL_EVENTS)
        or attributes.get(attr.OPERATION) == "execute_tool"
        or not _TOOL_KEYS.isdisjoint(attributes)
    )


def _without_body(record: LogRecord) -> None:
    record.body = None
    if getattr(record, "exception", None) is not None:  # newer SDKs keep it beside the attributes made of it
        record.exception = None


def _leave(record: LogRecord, kept: Mapping[str, Value]) -> None:
    """Takes all but these attributes off a record, in place: so the SDK's count of dropped ones stays."""
    held = record.attributes
    if not isinstance(held, MutableMapping):
        record.attributes = dict(kept)
        return
    for key in [key for key in held if key not in kept]:
        del held[key]
    for key, value in kept.items():
        if held[key] is not value:
            held[key] = value


def _empty(log_record: ReadWriteLogRecord) -> None:
    """Leaves nothing on a record that could not be dealt with."""
    _without_body(log_record.log_record)
    log_record.log_record.attributes = {}


@dataclass(frozen=True)
class _CleanedLogRecord(ReadableLogRecord):
    """A copy that knows how many attributes the SDK's limits cost the record it was made from."""

    dropped: int = 0

    @property
    def dropped_attributes(self) -> int:
        return self.dropped


def _cleaned(record: ReadableLogRecord, kept: Mapping[str, Value]) -> ReadableLogRecord:
    shown = copy.copy(record.log_record)
    shown.attributes = kept
    _without_body(shown)
    return _CleanedLogRecord(
        log_record=shown,
        resource=record.resource,
        instrumentation_scope=record.instrumentation_scope,
        limits=record.limits,
        dropped=record.dropped_attributes,
    )
