"""Rules, dashboard, runbook and compose file say what the code and each other say; needs no service."""

from __future__ import annotations

import argparse
import re
from typing import Any, Final

import pytest

from otel_loopguard.cli import serve
from otel_loopguard.scorer.metrics import BACKFILL_RUNS, LABELS, METRICS, PREFIX, Metric, Shape
from otel_loopguard.scorer.own_health import RESULTS
from otel_loopguard.scorer.settings import is_loopback, read_settings
from tests.deploy.queries import (
    DASHBOARD_FILE,
    DEPLOY,
    PROMETHEUS_FILE,
    ROOT,
    RULES_TEST_FILE,
    alerts,
    dashboard_queries,
    grouped_by,
    panels,
    read,
    records,
    rules,
    selectors,
)

COMPOSE: Final = read(DEPLOY / "compose.yaml")
SCRAPED: Final = {"instance", "job"}
"""Labels that Prometheus itself puts on."""
QUERIES: Final = [("rules", rule["expr"]) for rule in rules()] + [
    (DASHBOARD_FILE.name, expr) for _, expr in dashboard_queries()
]


def samples(metric: Metric) -> list[str]:
    """The names of its samples."""
    if metric.shape is Shape.HISTOGRAM:
        return [f"{metric.name}_{end}" for end in ("bucket", "sum", "count")]
    return [metric.sample]


METRIC_OF_SAMPLE: Final = {name: metric for metric in METRICS for name in samples(metric)}


@pytest.mark.parametrize(("where", "expr"), QUERIES)
def test_names_exist(where: str, expr: str) -> None:
    """Each metric, label and value that a query names is in the table of metrics, or is recorded by a rule."""
    del where
    labels = set(SCRAPED)
    for one in selectors(expr):
        metric = METRIC_OF_SAMPLE.get(one.name)
        if metric is None:
            assert one.name == "up" or one.name in records()
            labels |= set(LABELS)
            continue
        own = {*metric.labels, *SCRAPED, *(["le"] if metric.shape is Shape.HISTOGRAM else [])}
        labels |= own
        for label, value in one.conditions:
            assert label in own
            known = LABELS[label].values
            words = re.fullmatch(r"[a-z_|]+", value)
            if known is not None and words is not None:
                assert set() == set(value.split("|")) - set(known)
    assert set() == grouped_by(expr) - labels


def test_every_metric_is_on_the_dashboard() -> None:
    """No metric of the table is left out, and none is shown that is not in it."""
    shown = {METRIC_OF_SAMPLE[one.name].name for _, expr in dashboard_queries() for one in selectors(expr)}
    # What was taken back of a histogram would have to be taken off bucket by bucket.
    left_out = {f"{PREFIX}retracted_run_tool_calls"}
    assert {metric.name for metric in METRICS} - left_out == shown


def test_panels_have_numbers_and_places_of_their_own() -> None:
    """No two panels have one number, and none lies on another."""
    places = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels())
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(places) == len(set(places))
    numbers = [panel["id"] for panel in panels()]
    assert len(numbers) == len(set(numbers))
    assert max(x for x, _ in places) < 24


def test_backfill_never_alerts() -> None:
    """No rule reads a metric of backfill."""
    word = BACKFILL_RUNS.name.removeprefix(PREFIX).partition("_")[0]
    assert [] == [one.name for rule in rules() for one in selectors(rule["expr"]) if word in one.name]


def test_refusals_are_all_results_but_three() -> None:
    """The results that the alert leaves out exist; every other one counts as refused."""
    named = [dict(one.conditions).get("result", "") for one in selectors(alerts()["LoopguardRefusing"]["expr"])]
    assert [["cut_off", "partly_taken", "taken"]] == [sorted(set(text.split("|")) & set(RESULTS)) for text in named]


def test_alerts_lead_to_the_runbook() -> None:
    """Each alert has a severity, a summary and a section of the runbook; each section has an alert."""
    page = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
    assert sorted(alerts()) == sorted(re.findall(r"^### (\w+)$", page, re.MULTILINE))
    for name, rule in alerts().items():
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"]["summary"]
        assert f"docs/runbook.md#{name.lower()}" == rule["annotations"]["runbook_url"]
    sections = re.split(r"^### ", page, flags=re.MULTILINE)[1:]
    points = [re.findall(r"^- \*\*(\w+)\*\*:", section, re.MULTILINE) for section in sections]
    assert [["Means", "Look", "Do"]] * len(sections) == points


def test_alerts_are_tested_both_ways() -> None:
    """Promtool is given a moment at which each alert fires, and one at which it stays quiet."""
    checks = [check for case in read(RULES_TEST_FILE)["tests"] for check in case["alert_rule_test"]]
    ways = {(check["alertname"], bool(check["exp_alerts"])) for check in checks}
    assert {(name, fires) for name in alerts() for fires in (True, False)} == ways


def test_prometheus_knows_the_job_and_the_rules() -> None:
    """The job has the name that the alerts know; the rules lie beside the configuration."""
    [job] = read(PROMETHEUS_FILE)["scrape_configs"]
    named = {
        value
        for rule in rules()
        for one in selectors(rule["expr"])
        for label, value in one.conditions
        if label == "job"
    }
    assert {job["job_name"]} == named
    assert [True] == [(PROMETHEUS_FILE.parent / name).is_file() for name in read(PROMETHEUS_FILE)["rule_files"]]


# --- compose.yaml ------------------------------------------------------------------------------------------------


def _scorer_settings() -> Any:
    parser = argparse.ArgumentParser()
    serve.add_parser(parser)
    given = vars(parser.parse_args(COMPOSE["services"]["scorer"]["command"]))
    dockerfile = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    return read_settings(given, dict(re.findall(r"^ENV (\w+)=(\S+)$", dockerfile, re.MULTILINE)))


def test_composed_scorer_stands_where_the_others_look() -> None:
    """It is on the loopback, where Prometheus scrapes and the gateway sends; its folder is the volume."""
    settings = _scorer_settings()
    [job] = read(PROMETHEUS_FILE)["scrape_configs"]
    assert [{"targets": [settings.http]}] == job["static_configs"]
    gateway = (ROOT / "collector-config" / "gateway.yaml").read_text(encoding="utf-8")
    assert f"${{env:LOOPGUARD_SEND_TO:-http://{settings.http}}}" in gateway
    assert [f"data:{settings.data}"] == COMPOSE["services"]["scorer"]["volumes"]


def test_composed_services_listen_on_the_loopback_alone() -> None:
    """Prometheus and Grafana are told so; the scorer and the collector do so unless told otherwise."""
    services = COMPOSE["services"]
    assert ["collector", "grafana", "prometheus", "scorer"] == sorted(services)
    assert {"host"} == {service["network_mode"] for service in services.values()}
    assert is_loopback(_scorer_settings().http)
    [listen] = [one for one in services["prometheus"]["command"] if one.startswith("--web.listen-address=")]
    assert f"http://{listen.partition('=')[2]}" == read(DEPLOY / "grafana" / "source.yaml")["datasources"][0]["url"]
    assert "127.0.0.1" == services["grafana"]["environment"]["GF_SERVER_HTTP_ADDR"]
    assert ["LOOPGUARD_QUEUE"] == list(services["collector"]["environment"])
    assert is_loopback(listen.partition("=")[2])


def test_composed_images_are_pinned_and_files_are_there() -> None:
    """Each image has a version of three numbers; each file that is mounted exists and cannot be written to."""
    images = [service["image"] for service in COMPOSE["services"].values() if "image" in service]
    assert [] == [image for image in images if not re.search(r":v?\d+\.\d+\.\d+$", image)]
    mounted = [one for service in COMPOSE["services"].values() for one in service["volumes"] if one.startswith(".")]
    assert [] == [one for one in mounted if not ((DEPLOY / one.partition(":")[0]).is_file() and one.endswith(":ro"))]
    volumes = {one.partition(":")[0] for service in COMPOSE["services"].values() for one in service["volumes"]}
    assert set(COMPOSE["volumes"]) == {one for one in volumes if not one.startswith(".")}


def test_the_composed_collector_is_the_tested_one() -> None:
    """Its image has the version of the build that the tests run."""
    built = read(ROOT / "tests" / "collector" / "builder.yaml")["dist"]["version"]
    assert COMPOSE["services"]["collector"]["image"].endswith(f":{built}")
