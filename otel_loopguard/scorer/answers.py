"""What senders are answered, for each outcome of a request, in each protocol.

Invariants: the one table of how a refusal is said in HTTP and in gRPC; only refusals of `RETRYABLE` get an answer
that the OTLP specification lets senders repeat (https://opentelemetry.io/docs/specs/otlp/). No content is quoted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import msgspec
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from otel_loopguard.files import explain
from otel_loopguard.scorer.decode import Encoding
from otel_loopguard.scorer.records import RETRYABLE, Refusal, RefusedError

MAX_WAIT_S: Final = 60.0
"""Longest time after which a sender is asked to come again."""

_INVALID_ARGUMENT: Final = 3
_RESOURCE_EXHAUSTED: Final = 8
_UNIMPLEMENTED: Final = 12
_UNAVAILABLE: Final = 14
_UNAUTHENTICATED: Final = 16


class Answer(msgspec.Struct, frozen=True):
    """How one refusal is said."""

    http: int
    """Status of the response. Of those used here, 429 and 503 are repeated by senders, and no other."""
    grpc: int
    """Code of google.rpc. RESOURCE_EXHAUSTED is repeated where a time to wait comes with it, UNAVAILABLE always."""
    text: str
    """For people: what is wrong and, where they can do something, what."""


ANSWERS: Final[Mapping[Refusal, Answer]] = {
    Refusal.DISK_FULL: Answer(503, _UNAVAILABLE, "the scorer's disk is full; send again later"),
    Refusal.STORE_FAILED: Answer(503, _UNAVAILABLE, "the scorer could not write to its disk; send again later"),
    Refusal.BUSY: Answer(503, _UNAVAILABLE, "the scorer has as much to write as it may hold; send again later"),
    Refusal.RATE: Answer(429, _RESOURCE_EXHAUSTED, "more spans a second than the scorer takes; send again later"),
    Refusal.TOO_SLOW: Answer(503, _UNAVAILABLE, "the request did not arrive in time; send again"),
    Refusal.STOPPING: Answer(503, _UNAVAILABLE, "the scorer is stopping; send again later"),
    Refusal.TOO_LARGE: Answer(413, _RESOURCE_EXHAUSTED, "the request is larger than what is taken; send fewer spans"),
    Refusal.TOO_LARGE_UNPACKED: Answer(
        413, _RESOURCE_EXHAUSTED, "the unpacked request is larger than what is taken; send fewer spans"
    ),
    Refusal.BAD_COMPRESSION: Answer(400, _INVALID_ARGUMENT, "the compressed body is damaged"),
    Refusal.UNKNOWN_COMPRESSION: Answer(
        415, _UNIMPLEMENTED, "unknown Content-Encoding; gzip, zstd, deflate and identity are known"
    ),
    Refusal.UNKNOWN_TYPE: Answer(
        415, _UNIMPLEMENTED, "unknown Content-Type; application/x-protobuf and application/json are known"
    ),
    Refusal.MALFORMED: Answer(400, _INVALID_ARGUMENT, "the body is not an OTLP trace request"),
    Refusal.UNAUTHENTICATED: Answer(401, _UNAUTHENTICATED, "a bearer token of this scorer is needed"),
}


def wait_s(refused: RefusedError) -> int | None:
    """Whole seconds after which to send again; None where sending again is of no use."""
    return max(1, math.ceil(min(refused.retry_after_s, MAX_WAIT_S))) if refused.reason in RETRYABLE else None


def status(refused: RefusedError) -> bytes:
    """The refusal as a google.rpc.Status, with RetryInfo where it may be repeated."""
    answer = ANSWERS[refused.reason]
    seconds = wait_s(refused)
    details = []
    if seconds is not None:
        packed = AnyMessage()
        packed.Pack(RetryInfo(retry_delay=Duration(seconds=seconds)))
        details.append(packed)
    return bytes(Status(code=answer.grpc, message=answer.text, details=details).SerializeToString())


def problem(refused: RefusedError, encoding: Encoding) -> bytes:
    """The body of an HTTP response that refuses a request: a google.rpc.Status in the request's encoding."""
    if encoding is Encoding.PROTOBUF:
        return status(refused)
    answer = ANSWERS[refused.reason]
    return msgspec.json.encode({"code": answer.grpc, "message": answer.text})


def taken(rejected: Mapping[str, int], encoding: Encoding) -> bytes:
    """The ExportTraceServiceResponse for a request that was taken.

    Args:
        rejected: its spans that were not, by `files.Reason`; may be empty.
        encoding: of the request.
    """
    if not rejected:
        return b"" if encoding is Encoding.PROTOBUF else b"{}"
    count, text = sum(rejected.values()), _reasons(rejected)
    if encoding is Encoding.PROTOBUF:
        partial = ExportTracePartialSuccess(rejected_spans=count, error_message=text)
        return ExportTraceServiceResponse(partial_success=partial).SerializeToString()
    # Protobuf's JSON mapping has numbers of 64 bits as text.
    return msgspec.json.encode({"partialSuccess": {"rejectedSpans": str(count), "errorMessage": text}})


def _reasons(rejected: Mapping[str, int]) -> str:
    """Such as `2 spans rejected: no_trace_id 2 (a span without a trace id)`."""
    count = sum(rejected.values())
    parts = [f"{reason} {number} ({explain(reason)})" for reason, number in sorted(rejected.items())]
    return f"{count} span{'s' if count > 1 else ''} rejected: {'; '.join(parts)}"
