"""The generated schema and reference page match the code, and the schema accepts what the loader accepts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from otel_loopguard.errors import PolicyError
from otel_loopguard.policy import load, load_file
from otel_loopguard.policy.fields import TABLES
from otel_loopguard.policy.reference import MARK, schema, schema_text, tables_text

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "policy.md"
POLICIES = sorted((ROOT / "tests" / "fixtures" / "policies").rglob("*.yaml"))
VALIDATOR = jsonschema.Draft202012Validator(schema())
HEAD = {"version": 1, "policy": "p", "policy_version": "1"}


def examples() -> list[str]:
    """The YAML examples of the reference page."""
    return re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def test_the_generated_files_are_in_sync() -> None:
    """Run tools/make_policy_reference.py after changing `fields`."""
    assert schema_text() == (ROOT / "otel_loopguard" / "policy" / "schema.json").read_text(encoding="utf-8")
    assert f"\n\n{tables_text()}" == PAGE.read_text(encoding="utf-8").partition(MARK)[2]


def test_every_link_between_tables_leads_somewhere() -> None:
    """A table that a field names has its section on the page."""
    titles = {table.title for table in TABLES}
    assert set(re.findall(r"\(#(\w+)\)", tables_text())) <= titles


def test_the_schema_is_one() -> None:
    """It is valid against its own dialect."""
    jsonschema.Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize("path", POLICIES, ids=lambda path: path.stem)
def test_every_policy_of_the_tests_is_valid(path: Path) -> None:
    """What the loader takes, an editor takes too."""
    assert load_file(path).label
    assert [] == [error.message for error in VALIDATOR.iter_errors(_plain(path.read_text(encoding="utf-8")))]


def test_every_example_of_the_page_is_valid() -> None:
    """The documentation shows policies that load."""
    found = examples()
    assert found
    for text in found:
        assert load(text).label
        assert VALIDATOR.is_valid(_plain(text))


@pytest.mark.parametrize(
    "extra",
    [
        {"version": 2},
        {"policy": "a b"},
        {"policy": ""},
        {"mode": "observ"},
        {"tols": {}},
        {"unattended": "yes"},
        {"defaults": {"allowed_repeats": 0}},
        {"defaults": {"allowed_repeats": 1.5}},
        {"defaults": {"window": 65}},
        {"actions": []},
        {"actions": ["deny", "deny"]},
        {"noop_tools": "think"},
        {"tools": {"t": {"effect": "wirte"}}},
        {"tools": {"t": {"range": {"key": "a"}}}},
        {"tools": {"": {}}},
        {"tools": {"t": {"polling": {"terminal": [None]}}}},
        {"tools": {"t": {"ignore_result_regex": []}}},
        {"tools": {"t": {"progress": []}}},
        {"errors": {"transient": [429, "503"]}},
        {"tools": {"t": {"ignore_result_regex": "x"}}},
        {"tools": {"t": {"polling": {"deadline_s": None}}}},
    ],
    ids=json.dumps,
)
def test_schema_and_loader_agree(extra: dict[str, Any]) -> None:
    """On a single key, the schema refuses exactly what the loader refuses."""
    document = HEAD | extra
    try:
        load(json.dumps(document))
    except PolicyError:
        loads = False
    else:
        loads = True
    assert loads is VALIDATOR.is_valid(document)


def _plain(text: str) -> Any:
    return yaml.safe_load(text)
