"""The queries of the rules and of the dashboard, and what they name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

ROOT: Final = Path(__file__).resolve().parents[2]
DEPLOY: Final = ROOT / "deploy"
RULES_FILE: Final = DEPLOY / "prometheus" / "loopguard.rules.yaml"
RULES_TEST_FILE: Final = DEPLOY / "prometheus" / "loopguard.rules.test.yaml"
PROMETHEUS_FILE: Final = DEPLOY / "prometheus" / "prometheus.yaml"
DASHBOARD_FILE: Final = DEPLOY / "grafana" / "loopguard.json"

_SELECTOR: Final = re.compile(r"\b(?P<name>up|loopguard_\w+|\w+:loopguard_\w+:\w+)\b(?:\{(?P<conditions>[^}]*)\})?")
_CONDITION: Final = re.compile(r'(?P<label>\w+)\s*(?:=~|!~|!=|=)\s*"(?P<value>[^"]*)"')
_GROUPING: Final = re.compile(r"\b(?:by|on|without|ignoring|group_left|group_right) \((?P<labels>[^)]*)\)")


class Selector(NamedTuple):
    """One selection of series in a query."""

    text: str
    name: str
    conditions: tuple[tuple[str, str], ...]
    """Label and value, which may be a regular expression."""


def selectors(expr: str) -> Iterator[Selector]:
    """All selections of a query, in order."""
    for found in _SELECTOR.finditer(expr):
        conditions = tuple((one["label"], one["value"]) for one in _CONDITION.finditer(found["conditions"] or ""))
        yield Selector(found[0], found["name"], conditions)


def grouped_by(expr: str) -> set[str]:
    """All labels that a query groups or joins by."""
    return {label.strip() for one in _GROUPING.finditer(expr) for label in one["labels"].split(",") if label.strip()}


def read(path: Path) -> dict[str, Any]:
    """A file of YAML or JSON."""
    content: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content


def rules() -> list[dict[str, Any]]:
    """All rules in order."""
    return [rule for group in read(RULES_FILE)["groups"] for rule in group["rules"]]


def alerts() -> dict[str, dict[str, Any]]:
    """The rules that alert, by name."""
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}


def records() -> dict[str, str]:
    """The queries of the rules that record, by the name that they record."""
    return {rule["record"]: rule["expr"] for rule in rules() if "record" in rule}


def panels() -> list[dict[str, Any]]:
    """The dashboard's panels that show something."""
    found = json.loads(DASHBOARD_FILE.read_text(encoding="utf-8"))["panels"]
    return [panel for panel in found if panel["type"] != "row"]


def dashboard_queries() -> list[tuple[str, str]]:
    """Titles of panels, and each of their queries, as Grafana would ask when all services are chosen."""
    return [(panel["title"], grafana_asks(target["expr"])) for panel in panels() for target in panel.get("targets", ())]


def grafana_asks(expr: str) -> str:
    """A query with the dashboard's variables put in."""
    for name, value in (("$__rate_interval", "10m"), ("$__range", "10m"), ("$service", ".*")):
        expr = expr.replace(name, value)
    assert "$" not in expr, expr
    return expr
