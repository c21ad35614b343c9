"""Protobuf message types of our own for OTLP traces, with the same fields on the wire and attributes as a map.

Invariants: attributes are a map, in which of equal keys the last wins, and their values are the bytes of a message,
for whoever wants them, so that damage to one costs that one alone. The types stand in a pool of their own, and take no
name that others could use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

_F: Final = FieldDescriptorProto
_FIELDS: Final[dict[str, tuple[tuple[str, int, int, str], ...]]] = {
    "Value": (
        ("string_value", 1, _F.TYPE_STRING, "one"),
        ("bool_value", 2, _F.TYPE_BOOL, "one"),
        ("int_value", 3, _F.TYPE_INT64, "one"),
        ("double_value", 4, _F.TYPE_DOUBLE, "one"),
        ("array_value", 5, _F.TYPE_MESSAGE, "one Array"),
        ("kvlist_value", 6, _F.TYPE_MESSAGE, "one Pairs"),
        ("bytes_value", 7, _F.TYPE_BYTES, "one"),
    ),
    "Array": (("values", 1, _F.TYPE_MESSAGE, "many Value"),),
    "Pair": (("key", 1, _F.TYPE_STRING, ""), ("value", 2, _F.TYPE_MESSAGE, " Value")),
    "Pairs": (("values", 1, _F.TYPE_MESSAGE, "many Pair"),),
    "Resource": (("attributes", 1, _F.TYPE_MESSAGE, "map"),),
    "Scope": (("name", 1, _F.TYPE_STRING, ""),),
    "Status": (("message", 2, _F.TYPE_STRING, ""), ("code", 3, _F.TYPE_INT32, "")),
    "Event": (
        ("time_unix_nano", 1, _F.TYPE_FIXED64, ""),
        ("name", 2, _F.TYPE_STRING, ""),
        ("attributes", 3, _F.TYPE_MESSAGE, "map"),
    ),
    "Link": (("trace_id", 1, _F.TYPE_BYTES, ""), ("span_id", 2, _F.TYPE_BYTES, "")),
    "Span": (
        ("trace_id", 1, _F.TYPE_BYTES, ""),
        ("span_id", 2, _F.TYPE_BYTES, ""),
        ("trace_state", 3, _F.TYPE_STRING, ""),
        ("parent_span_id", 4, _F.TYPE_BYTES, ""),
        ("name", 5, _F.TYPE_STRING, ""),
        ("kind", 6, _F.TYPE_INT32, ""),
        ("start_time_unix_nano", 7, _F.TYPE_FIXED64, ""),
        ("end_time_unix_nano", 8, _F.TYPE_FIXED64, ""),
        ("attributes", 9, _F.TYPE_MESSAGE, "map"),
        ("dropped_attributes_count", 10, _F.TYPE_UINT32, ""),
        ("events", 11, _F.TYPE_MESSAGE, "many Event"),
        ("dropped_events_count", 12, _F.TYPE_UINT32, ""),
        ("links", 13, _F.TYPE_MESSAGE, "many Link"),
        ("status", 15, _F.TYPE_BYTES, ""),
    ),
}
"""Fields that are read, by message: name, number, type, and `one` of several, `many` or `map` with the message's name.

Numbers and types are OTLP's (opentelemetry-proto, trace.proto, common.proto, resource.proto).
"""


def _types() -> dict[str, Any]:
    """Message types of these fields."""
    file = FileDescriptorProto(name="loopguard/otlp_wire.proto", package="loopguard", syntax="proto3")
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for field_name, number, kind, shape in fields:
            how, _, of = shape.partition(" ")
            label = _F.LABEL_REPEATED if how in ("many", "map") else _F.LABEL_OPTIONAL
            field = message.field.add(name=field_name, number=number, type=kind, label=label)
            if how == "one":
                if not message.oneof_decl:
                    message.oneof_decl.add(name="value")
                field.oneof_index = 0
            if how == "map":
                of = f"{name}.AttributesEntry"
                entry = message.nested_type.add(name="AttributesEntry")
                entry.options.map_entry = True
                entry.field.add(name="key", number=1, type=_F.TYPE_STRING, label=_F.LABEL_OPTIONAL)
                entry.field.add(name="value", number=2, type=_F.TYPE_BYTES, label=_F.LABEL_OPTIONAL)
            if of:
                field.type_name = f".loopguard.{of}"
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {name: GetMessageClass(pool.FindMessageTypeByName(f"loopguard.{name}")) for name in _FIELDS}


_TYPES: Final = _types()
parse_span: Final[Callable[[bytes], Any]] = _TYPES["Span"].FromString
parse_resource: Final[Callable[[bytes], Any]] = _TYPES["Resource"].FromString
parse_scope: Final[Callable[[bytes], Any]] = _TYPES["Scope"].FromString
parse_status: Final[Callable[[bytes], Any]] = _TYPES["Status"].FromString
parse_value: Final[Callable[[bytes], Any]] = _TYPES["Value"].FromString
"""Each raises `google.protobuf.message.DecodeError` on bytes that are no such message."""
