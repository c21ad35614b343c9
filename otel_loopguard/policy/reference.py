"""The JSON Schema and the reference page of the policy format, derived from `fields`.

Invariant: both are functions of the code alone, so the files made from them can be checked for being in sync.
"""

from __future__ import annotations

import json
from typing import Any, Final

from otel_loopguard.policy.fields import POLICY, TABLES
from otel_loopguard.policy.tables import Field, Table

_TITLE: Final = "otel-loopguard policy, format version 1"
_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
MARK: Final = "<!-- generated from otel_loopguard/policy/fields.py; change it there -->"
"""Everything after this line of the reference page is generated."""


def schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a policy file. Checks between keys are not part of it."""
    return {"$schema": _DIALECT, "title": _TITLE} | POLICY.schema()


def schema_text() -> str:
    """The schema as the text of `schema.json`."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def tables_text() -> str:
    """The reference page's tables, in Markdown."""
    return "\n".join(_table_text(table) for table in TABLES)


def _table_text(table: Table) -> str:
    rows = [
        f"| `{name}` | {field.kind.describe()} | {_default(field)} | {field.doc} |"
        for name, field in table.fields.items()
    ]
    head = ["| key | value | default | meaning |", "| --- | --- | --- | --- |"]
    return "\n".join([f"### {table.title}", "", table.doc, "", *head, *rows, ""])


def _default(field: Field) -> str:
    if field.required:
        return "required"
    if field.default is None:
        return "none"
    if isinstance(field.default, tuple | dict):
        return f"`{json.dumps(field.default)}`" if field.default else "empty"
    return f"`{json.dumps(field.default) if not isinstance(field.default, str) else field.default}`"
