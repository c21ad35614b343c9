"""Captured spans and the readings that they must give: loading, and showing a reading as plain JSON."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from otel_loopguard import dialects, files
from otel_loopguard.dialects.reading import NOT_CAPTURED, Content, Reading
from otel_loopguard.model import Layer, Outcome, Role, Span

if TYPE_CHECKING:
    from collections.abc import Sequence

SPANS = Path(__file__).parents[1] / "fixtures" / "spans"
READINGS = Path(__file__).parents[1] / "fixtures" / "readings"

LOOKUP = {"order_id": "A12", "include_items": True}
ORDER = {"order_id": "A12", "status": "shipped", "items": [{"sku": "X-1", "qty": 2}, {"sku": "Y-9", "qty": 1}]}
STATES = [
    {"job_id": "J7", "state": "running", "percent": 10},
    {"job_id": "J7", "state": "running", "percent": 60},
    {"job_id": "J7", "state": "done", "percent": 100},
]


def names(*parts: str) -> list[str]:
    """Return the names of the captures that have all of `parts` in them."""
    found = sorted(path.stem for path in SPANS.glob("*.jsonl"))
    return [name for name in found if all(part in name for part in parts)]


@cache
def spans(name: str) -> tuple[Span, ...]:
    """Return one capture's spans in the order of their starts."""
    with (SPANS / f"{name}.jsonl").open("rb") as source:
        items = list(files.read(source, name=name))
    bad = [item for item in items if not isinstance(item, Span)]
    assert not bad, bad
    return tuple(
        sorted((item for item in items if isinstance(item, Span)), key=lambda span: (span.start_ns, span.span_id))
    )


def readings(name: str) -> list[Reading | None]:
    """Return what one capture's spans are read as, in the order of their starts."""
    return [dialects.read(span) for span in spans(name)]


def layers(name: str) -> list[list[Reading]]:
    """Return one capture's tool calls, each as the readings of its spans: the outermost first, then those within it.

    Where a host's spans are there, MCP server spans beside them are left out: they show the same calls again.
    """
    found = zip(spans(name), readings(name), strict=True)
    tools = {
        span.span_id: reading
        for span, reading in found
        if reading is not None and reading.role is Role.TOOL and reading.not_a_call is None
    }
    parents = {span.span_id: span.parent_id for span in spans(name)}
    groups: dict[str, list[Reading]] = {}
    for span_id, reading in tools.items():
        outermost, above = span_id, parents.get(span_id)
        while above is not None:
            outermost, above = above if above in tools else outermost, parents.get(above)
        groups.setdefault(outermost, []).append(reading)
    has_host = any(group[0].layer is Layer.HOST for group in groups.values())
    return [group for group in groups.values() if group[0].layer is Layer.HOST or not has_host]


def calls(name: str) -> list[Reading]:
    """Return one capture's tool calls, each by its outermost span."""
    return [group[0] for group in layers(name)]


def shown(reading: Reading | None) -> dict[str, Any] | None:
    """Show a reading as plain JSON: its values as they are (captures are made up), defaults left out."""
    if reading is None:
        return None
    out: dict[str, Any] = {"role": str(reading.role), "dialect": reading.dialect}
    if reading.role is Role.TOOL and reading.not_a_call is None:
        out["arguments"] = content(reading.arguments)
        out["result"] = content(reading.result)
    for name in reading.__struct_fields__:
        value = getattr(reading, name)
        default = {"layer": Layer.HOST, "outcome": Outcome.UNKNOWN}.get(name)
        if name in ("role", "dialect", "arguments", "result") or value in (default, None, False, NOT_CAPTURED):
            if name == "final_answer" and value is False:
                out[name] = False
            continue
        if isinstance(value, msgspec.Struct):
            fields = json.loads(msgspec.json.encode(value))
            value = {key: item for key, item in fields.items() if item is not None}
        out[name] = value if isinstance(value, bool | dict) else str(value)
    return out


def content(read: Content) -> Any:
    """Show content: the value under `value`, or the reason why there is none."""
    return {"value": msgspec.to_builtins(read.value)} if read.unknown is None else str(read.unknown)


def golden(name: str) -> list[dict[str, Any] | None]:
    """Return the readings that one capture must give."""
    return json.loads((READINGS / f"{name}.json").read_text())  # type: ignore[no-any-return]


def write_golden(name: str) -> None:
    """Write what a capture is read as now, one reading a line: to be checked by hand before it is kept."""
    lines = ",\n".join(json.dumps(shown(reading), ensure_ascii=False) for reading in readings(name))
    (READINGS / f"{name}.json").write_text(f"[\n{lines}\n]\n")


def named(tools: Sequence[Reading], tool: str) -> list[Reading]:
    """Return the calls of one tool."""
    return [reading for reading in tools if reading.tool == tool]
