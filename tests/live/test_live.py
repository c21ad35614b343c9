"""Real frameworks under their real instrumentation: what leaves holds no content and gives the same findings.

Each pair runs its agent twice with the same scripted model: once raw, once with our processor. Run them with
`python -m pytest -m live`; they need `pip install uv` and, the first time, the package index.
"""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path  # pytest resolves it
from typing import Any, Final

import pytest

from otel_loopguard.cli import main
from tests.live import running, scenario

pytestmark = pytest.mark.live

_OF_ONE_RUN: Final = frozenset({"run_id", "trace_ids", "started", "ended", "wasted_ms", "key_ids"})
"""What differs from run to run of the same script: ids, times, and the key of a replay that needs none."""
_OF_ONE_FINDING: Final = frozenset({"call_ids", "digests"})
"""Some frameworks mint the ids of calls; digests are of one trace."""


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as users install it."""
    if not running.has_uv():
        pytest.skip("making environments needs uv: pip install uv")
    return running.build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module", params=running.names())
def pair(request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> running.Pair:
    """Both runs of one pair."""
    name: str = request.param
    return running.run(name, running.python_of(name, wheel), tmp_path_factory.mktemp("home"))


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_LOOPGUARD_KEY", running.KEY)


def _verdicts(exported: bytes, folder: Path) -> list[dict[str, Any]]:
    """What `replay --json` says of some exported bytes, without what differs from run to run."""
    file = folder / "spans.binpb"
    file.write_bytes(exported)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert 0 == main(["replay", "--json", str(file)])
    return [_comparable(json.loads(line)) for line in printed.getvalue().splitlines()]


def _comparable(verdict: dict[str, Any]) -> dict[str, Any]:
    kept = {name: _unnamed(value) for name, value in verdict.items() if name not in _OF_ONE_RUN}
    kept["findings"] = [
        {name: _unnamed(value) for name, value in finding.items() if name not in _OF_ONE_FINDING}
        for finding in kept["findings"]
    ]
    return kept


def _unnamed(value: Any) -> Any:
    """A digest of a name is of one trace, too."""
    return "_n:" if isinstance(value, str) and value.startswith("_n:") else value


def test_the_raw_run_is_read_as_the_script_says(pair: running.Pair, tmp_path: Path) -> None:
    """Without us, the run has its ten calls, is stuck at the third equal one, and its spans hold content."""
    (verdict,) = _verdicts(pair.raw.received[running.SPANS], tmp_path)
    findings = [
        [finding[name] for name in ("kind", "severity", "tool", "count", "first_call", "at_call")]
        for finding in verdict["findings"]
    ]
    assert ("loop", 10, [["exact_repeat", "loop", "lookup_order", 4, 1, 3]]) == (
        verdict["outcome"],
        verdict["calls"],
        findings,
    )
    recorded = b"".join(pair.raw.received.values())
    assert [True, True] == [canary.encode() in recorded for canary in (scenario.ARGUMENT, scenario.RESULT)]


@pytest.mark.parametrize("path", running.ALL_SPANS)
def test_exported_digests_give_the_same_verdict(pair: running.Pair, path: str, tmp_path: Path) -> None:
    """`replay` says the same of what left as of the raw spans, whichever exporter sent it."""
    raw = _verdicts(pair.raw.received[path], tmp_path)
    assert raw == _verdicts(pair.digests.received[path], tmp_path)


def test_no_content_is_exported(pair: running.Pair) -> None:
    """No canary is in any byte of spans, logs or metrics that left."""
    leaks = {
        path: [canary for canary in scenario.CANARIES if canary.encode() in exported]
        for path, exported in pair.digests.received.items()
    }
    assert {} == {path: found for path, found in leaks.items() if found}
    assert set(running.ALL_SPANS) <= set(leaks)


def test_logs_are_sent_where_the_snippet_sets_them_up(pair: running.Pair) -> None:
    """There the raw side's hold content, or clean ones would prove nothing, and ours hold the finding."""
    text = (running.SNIPPETS / f"{pair.name}.py").read_text(encoding="utf-8")
    if "OTLPLogExporter" in text:
        raw, ours = (side.received["/v1/logs"] for side in (pair.raw, pair.digests))
        assert [True, False] == [scenario.ARGUMENT.encode() in logs for logs in (raw, ours)]
        assert [False, True] == [b"loopguard.finding" in logs for logs in (raw, ours)]
    else:
        assert "/v1/logs" not in pair.raw.received


def test_the_processor_counted_what_it_did(pair: running.Pair) -> None:
    """It saw ten calls, could read all of them, found the repeat, and failed at nothing."""
    counted = {name: pair.digests.counts[name] for name in ("tool_calls", "unreadable", "findings", "failures")}
    expected = {"tool_calls": 10, "unreadable": {}, "findings": {"exact_repeat": 1}, "failures": {}}
    assert (expected, 0) == (counted, pair.digests.counts["late_spans"])


_RAISING: Final = [
    name
    for name in running.names()
    if running.agent(name).stem in {"langchain_agent", "pydantic_ai_agent", "google_adk_agent"}
    and name != "langchain_langsmith"
]
"""Pairs whose framework lets a tool's error end the run; the others tell the model, whatever it is.

LangSmith makes its spans when the application's own has ended, so nothing tells that that one stood above a tool.
"""


@pytest.mark.parametrize("name", _RAISING)
def test_an_error_that_ends_the_run_leaves_nothing_on_the_spans_above(
    name: str, wheel: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Every span that it passes through records it, the application's own too; the verdict is that of the raw spans."""
    both = running.run(name, running.python_of(name, wheel), tmp_path_factory.mktemp("home"), LIVE_FATAL="yes")
    assert scenario.ERROR.encode() in both.raw.received[running.SPANS]
    for path in running.ALL_SPANS:
        exported = both.digests.received[path]
        assert (path, []) == (path, [canary for canary in scenario.CANARIES if canary.encode() in exported])
        assert b"application.kept" in exported
        assert _verdicts(both.raw.received[path], tmp_path) == _verdicts(exported, tmp_path)


def test_behind_logfires_wrapper_its_own_exporters_get_no_content(
    wheel: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Among Logfire's additional processors ours comes late, but before Logfire's exporters; it says that it is late.

    Exporters beside Logfire's wrapper get the raw spans there: that is what `install` is for.
    """
    python = running.python_of("pydantic_ai_logfire", wheel)
    both = running.run("pydantic_ai_logfire_additional", python, tmp_path_factory.mktemp("home"))
    raw, exported = both.raw.received[running.SPANS], both.digests.received[running.SPANS]
    assert _verdicts(raw, tmp_path) == _verdicts(exported, tmp_path)
    assert [] == [canary for canary in scenario.CANARIES if canary.encode() in exported]
    assert both.digests.counts["tool_calls"] == 10
    assert both.digests.counts["late_spans"] > 0
