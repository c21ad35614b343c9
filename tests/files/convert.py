"""OTLP JSON to protobuf, by protobuf's own JSON mapping: an independent reading to compare ours with."""

from __future__ import annotations

import base64
import json
from typing import Any

from google.protobuf.json_format import ParseDict
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

_IDS = frozenset({"traceId", "spanId", "parentSpanId"})


def to_protobuf(line: bytes | str) -> bytes:
    """One request in OTLP JSON as a protobuf message."""
    message: TracesData = ParseDict(_base64_ids(json.loads(line)), TracesData())
    return bytes(message.SerializeToString())


def _base64_ids(value: Any) -> Any:
    """Protobuf's mapping has base64 where OTLP JSON has hex."""
    if isinstance(value, dict):
        return {
            name: base64.b64encode(bytes.fromhex(entry)).decode() if name in _IDS else _base64_ids(entry)
            for name, entry in value.items()
        }
    return [_base64_ids(entry) for entry in value] if isinstance(value, list) else value
