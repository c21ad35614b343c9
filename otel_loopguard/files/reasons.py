"""Why a piece of input was not read, and which formats there are.

Invariant: a reason is a fixed word, or a fixed word and the name of one of our own fields; it never quotes input.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

MAX_LINE_BYTES: Final = 64 * 1024 * 1024
"""Longest line, document or protobuf message read; the collector's own receivers default to 4 MiB a request."""

MAX_DEPTH: Final = 128
"""Deepest nesting of one attribute value; deeper ones are left out and counted as dropped attributes."""


class Format(StrEnum):
    """What a file holds; `AUTO` finds out from its first bytes and, in text, line by line."""

    AUTO = "auto"
    OTLP_JSON = "otlp-json"
    OTLP_PROTO = "otlp-proto"
    CALLS = "calls"


class Reason(StrEnum):
    """Why a piece of input was not read, or not read whole."""

    NOT_JSON = "not_json"
    NOT_UTF8 = "not_utf8"
    UTF16 = "utf16"
    TRUNCATED = "truncated"
    TOO_LONG = "too_long"
    TOO_DEEP = "too_deep"
    NOT_AN_OBJECT = "not_an_object"
    UNKNOWN_SHAPE = "unknown_shape"
    DUPLICATE_KEY = "duplicate_key"
    MISSING_FIELD = "missing_field"
    BAD_FIELD = "bad_field"
    TWO_RESULTS = "two_results"
    BAD_SPAN = "bad_span"
    NO_TRACE_ID = "no_trace_id"
    NO_SPAN_ID = "no_span_id"
    BAD_TRACE_ID = "bad_trace_id"
    BAD_SPAN_ID = "bad_span_id"
    BASE64_ID = "base64_id"
    BAD_PARENT_ID = "bad_parent_id"
    BAD_LINK_ID = "bad_link_id"
    BAD_TIME = "bad_time"
    NOT_PROTOBUF = "not_protobuf"
    TOO_MANY = "too_many"
    CORRUPT_COMPRESSION = "corrupt_compression"
    ZSTD = "zstd"
    RAW_CONTENT = "raw_content"
    """Of the scorer alone, by its setting `raw`."""
    SKIPPED_LOGS = "skipped_logs"
    SKIPPED_METRICS = "skipped_metrics"

    def of(self, field: str) -> str:
        """This reason with the name of one of our own fields, such as `missing_field:run_id`."""
        return f"{self.value}:{field}"


_EXPLAINED: Final = {
    Reason.NOT_JSON: "not valid JSON",
    Reason.NOT_UTF8: "not UTF-8 text",
    Reason.UTF16: "UTF-16 text; save the file as UTF-8",
    Reason.TRUNCATED: "cut off in the middle",
    Reason.TOO_LONG: f"longer than {MAX_LINE_BYTES // 1024 // 1024} MiB",
    Reason.TOO_DEEP: "nested too deep",
    Reason.NOT_AN_OBJECT: "JSON, but not an object",
    Reason.UNKNOWN_SHAPE: "neither an OTLP trace request nor a call record",
    Reason.DUPLICATE_KEY: "a key stands twice in one object, so its meaning is open",
    Reason.MISSING_FIELD: "a call record without the field",
    Reason.BAD_FIELD: "a call record with a wrong type, or a value out of range (`ts` is in seconds), in the field",
    Reason.TWO_RESULTS: "a call record with both `result` and `observation`",
    Reason.BAD_SPAN: "a span of the wrong shape",
    Reason.NO_TRACE_ID: "a span without a trace id",
    Reason.NO_SPAN_ID: "a span without a span id",
    Reason.BAD_TRACE_ID: "a span whose trace id is not 32 hex characters",
    Reason.BAD_SPAN_ID: "a span whose span id is not 16 hex characters",
    Reason.BASE64_ID: "a span with base64 ids; OTLP JSON has hex ids",
    Reason.BAD_PARENT_ID: "a parent id that is not 16 hex characters (the span was kept, without its parent)",
    Reason.BAD_LINK_ID: "a link to something that is not a span (the span was kept, without the link)",
    Reason.BAD_TIME: "a span whose time is not a number of nanoseconds",
    Reason.NOT_PROTOBUF: "not an OTLP trace message in protobuf",
    Reason.TOO_MANY: "a message or span of more parts than any needs",
    Reason.CORRUPT_COMPRESSION: "damaged gzip data",
    Reason.ZSTD: "zstd data; unpack it first: zstd -dc FILE | otel-loopguard replay -",
    Reason.RAW_CONTENT: "a tool span that still holds arguments, a result or an error's text",
    Reason.SKIPPED_LOGS: "logs, which are not read",
    Reason.SKIPPED_METRICS: "metrics, which are not read",
}


def explain(reason: str) -> str:
    """One plain phrase for a `BadInput.reason`, for people."""
    word, _, field = reason.partition(":")
    try:
        phrase = _EXPLAINED[Reason(word)]
    except ValueError:
        return word
    return f"{phrase} `{field}`" if field else phrase


def is_skip(reason: str) -> bool:
    """True where the input was sound but is not ours to read (logs, metrics): counted, not an error."""
    return reason in (Reason.SKIPPED_LOGS.value, Reason.SKIPPED_METRICS.value)
