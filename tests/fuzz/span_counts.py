"""How many spans stand in a request, by readers that share nothing with ours.

Invariants: a span counts wherever it stands in the frame around spans, sound or not; None where these readers refuse.
"""

from __future__ import annotations

import json
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from otel_loopguard.scorer.decode import Encoding

_FIELD: Final = descriptor_pb2.FieldDescriptorProto


def _frame() -> Any:
    """A trace request whose spans are bytes: what is in them is not looked at."""
    file = descriptor_pb2.FileDescriptorProto(name="frame.proto", package="frame", syntax="proto3")
    for name, number, kind in (("Scope", 2, None), ("Group", 2, "Scope"), ("Request", 1, "Group")):
        field = file.message_type.add(name=name).field.add(name="inner", number=number, label=_FIELD.LABEL_REPEATED)
        field.type = _FIELD.TYPE_BYTES if kind is None else _FIELD.TYPE_MESSAGE
        if kind is not None:
            field.type_name = f".frame.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("frame.Request"))


_FRAME: Final = _frame()


def span_count(body: bytes, encoding: Encoding) -> int | None:
    """Counts the spans of a request; None where it is none to this reader.

    Args:
        body: unpacked.
        encoding: how it should be written.
    """
    if encoding is Encoding.JSON:
        return _in_json(body)
    try:
        request = _FRAME.FromString(body)
    except DecodeError:
        return None
    return sum(len(scope.inner) for group in request.inner for scope in group.inner)


def _in_json(body: bytes) -> int | None:
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        return None
    scopes = [scope for group in _inner(request, "resourceSpans") for scope in _inner(group, "scopeSpans")]
    return sum(len(_inner(scope, "spans")) for scope in scopes)


def _inner(value: Any, name: str) -> list[Any]:
    """What stands in a list of this name, however it is spelt; what is no list counts as one entry."""
    if not isinstance(value, dict):
        return []
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    found = []
    for spelling in {name, snake}:
        inner = value.get(spelling)
        found += inner if isinstance(inner, list) else [] if inner is None else [inner]
    return found
