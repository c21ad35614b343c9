"""The pages over the real store: what was received and judged is listed, filtered, opened and summed up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from otel_loopguard.digest import Keyring
from otel_loopguard.model import RunOutcome, Span
from otel_loopguard.scorer import metrics
from otel_loopguard.scorer.filters import Filters, place
from otel_loopguard.scorer.groups import Limits
from otel_loopguard.scorer.intake import IntakeQueue
from otel_loopguard.scorer.judge import Judge
from otel_loopguard.scorer.pages.addresses import run_path
from otel_loopguard.scorer.pages.source import Health
from otel_loopguard.scorer.pages.store_source import StoreSource, health_of
from otel_loopguard.scorer.records import Close, JudgedRun, Settlement
from otel_loopguard.scorer.settling import encode_json
from otel_loopguard.scorer.store import Store
from tests.lint.linting import calls_of, spans_without_content
from tests.replaying import KEY
from tests.scorer.judged import judged
from tests.scorer.pages.memory_source import DEMO_POLICY, NOW_NS, demo_spans, matches
from tests.scorer.pages.serving import Client, serve

S = 1_000_000_000
NAMES = st.sampled_from(["a", "b", "c'; DROP TABLE run; --"])
FILTERS = st.builds(
    Filters,
    outcome=st.none() | st.sampled_from([RunOutcome.LOOP, RunOutcome.CLEAN]),
    service=st.none() | NAMES,
    release=st.none() | NAMES,
    tool=st.none() | NAMES,
    agent=st.none() | NAMES,
    since_ns=st.none() | st.integers(NOW_NS, NOW_NS + 10),
)
RUNS = st.builds(
    judged,
    judged_ns=st.integers(NOW_NS, NOW_NS + 10),
    outcome=st.sampled_from([RunOutcome.LOOP, RunOutcome.CLEAN]),
    service=st.none() | NAMES,
    release=st.none() | NAMES,
    agent=st.none() | NAMES,
    tools=st.dictionaries(NAMES, st.integers(1, 3)),
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty one."""
    opened = Store(tmp_path / "kept")
    yield opened
    opened.close()


def _settle(store: Store, runs: list[JudgedRun]) -> None:
    """Keeps runs as they are, without their facts."""
    group = store.next_group()
    store.settle(
        Settlement(group=group, rows=(), names=(f"g{group}",), facts=b"", spans=1, runs=tuple(runs), judged_ns=NOW_NS)
    ).result()


def _score(store: Store, spans: tuple[Span, ...], *, now_ns: int = NOW_NS, limits: Limits | None = None) -> None:
    """Receives spans and judges them."""
    judge = Judge(store, DEMO_POLICY, limits=limits, clock=lambda: now_ns + 1000 * S)
    intake = IntakeQueue(store, DEMO_POLICY, Keyring(KEY), learn=judge.learn, clock=lambda: now_ns)
    intake.submit(spans).result()
    while judge.settle_due():
        pass


def _source(store: Store) -> StoreSource:
    return StoreSource(store, lambda: DEMO_POLICY, lambda: Health(started_ns=NOW_NS))


# --- filters --------------------------------------------------------------------------------------------------


@settings(max_examples=50)
@example(runs=[judged(judged_ns=NOW_NS + 3)], filters=Filters(since_ns=NOW_NS + 3), limit=1)
@given(runs=st.lists(RUNS, max_size=12), filters=FILTERS, limit=st.integers(1, 5))
def test_the_database_lets_through_what_memory_does(
    tmp_path_factory: pytest.TempPathFactory, runs: list[JudgedRun], filters: Filters, limit: int
) -> None:
    """Whatever the filters, the pages of the list put together are the matching runs, in order; so the counts."""
    named = [
        msgspec.structs.replace(
            run, run_id=f"r{number}", verdict=msgspec.structs.replace(run.verdict, run_id=f"r{number}")
        )
        for number, run in enumerate(runs)
    ]
    store = Store(tmp_path_factory.mktemp("store"))
    try:
        _settle(store, named)
        source = _source(store)
        found: list[JudgedRun] = []
        before = None
        while block := source.runs(filters, before=before, limit=limit):
            found += block
            before = place(block[-1])
        wanted = [run for run in sorted(named, key=place, reverse=True) if matches(run, filters)]
        assert wanted == found
        whatever = msgspec.structs.replace(filters, outcome=None)
        counts = {one: sum(run.verdict.outcome is one for run in named if matches(run, whatever)) for one in RunOutcome}
        assert {one: number for one, number in counts.items() if number} == source.counts(filters)
    finally:
        store.close()


# --- runs ---------------------------------------------------------------------------------------------------------


def test_what_is_received_is_shown(store: Store) -> None:
    """Each scene of the demo is listed, and its calls are those that were judged."""
    for spans in demo_spans().values():
        _score(store, spans)
    source = _source(store)
    runs = source.runs(Filters(), before=None, limit=9)
    assert 5 == len(runs)
    for run in runs:
        assembled = source.assembled(run.run_id)
        assert assembled is not None
        assert (run.run_id, run.verdict.calls) == (assembled.run_id, len(assembled.calls))
        assert run == source.run(run.run_id)
    assert (None, None) == (source.run("none"), source.assembled("none"))


def test_of_a_run_that_was_cut_the_last_part_is_shown(store: Store) -> None:
    """Parts that are closed have no calls any more; the last one has its own, not those of the first."""
    spans = demo_spans()["stuck"]
    _score(store, spans, limits=Limits(max_spans=4))
    source = _source(store)
    runs = {run.run_id: run for run in source.runs(Filters(), before=None, limit=99)}
    assert len(runs) > 1
    shown = {run_id: source.assembled(run_id) for run_id in runs}
    last = max(runs, key=lambda run_id: int(run_id.partition("~")[2] or 1))
    assert {last: runs[last].verdict.calls} == {
        run_id: len(run.calls) for run_id, run in shown.items() if run is not None
    }


def test_a_run_is_shown_under_the_id_that_the_judge_gave_it(store: Store) -> None:
    """Two traces that claim one run id, apart from each other, each lead to their own calls."""
    first, second = demo_spans()["stuck"], demo_spans()["poll"]
    own = first[0].trace_id
    claiming = tuple(
        msgspec.structs.replace(span, attributes={**span.attributes, "loopguard.run.id": own}) for span in second
    )
    _score(store, first)
    _score(store, claiming, now_ns=NOW_NS + S)
    source = _source(store)
    tools = {
        run.run_id: {call.facts.tool for call in assembled.calls}
        for run in source.runs(Filters(), before=None, limit=9)
        if (assembled := source.assembled(run.run_id)) is not None
    }
    assert {own: {"lookup_order"}, f"{own}@{second[0].trace_id}": {"get_export_status"}} == tools


def test_the_pages_of_a_running_store(store: Store) -> None:
    """All pages answer over HTTP from the store, while it is written to."""
    for number, spans in enumerate(demo_spans().values()):
        _score(store, spans, now_ns=NOW_NS + number * S)
    run_id = demo_spans()["circle"][0].trace_id

    async def use(client: Client) -> list[tuple[int, str]]:
        found = []
        for path in (
            "/runs.json?outcome=loop",
            run_path(run_id, json=True),
            "/tools.json",
            "/releases.json",
            "/health",
        ):
            async with client.get(path) as answer:
                found.append((answer.status, await answer.text()))
        return found

    answers = serve(_source(store), use)
    assert [200] * 5 == [status for status, _ in answers]
    runs, run, tools, releases = (json.loads(text) for _, text in answers[:4])
    assert (2, 6, 7, 5) == (
        len(runs["runs"]),
        run["assembled_calls"],
        len(tools["tools"]),
        releases["releases"][0]["runs"],
    )
    assert run["remark"] is None


def test_what_lint_needs_is_kept_with_each_run(store: Store) -> None:
    """Two runs whose signal is a clock are advice on the page; a row without evidence reads as it did before."""
    for number in range(2):
        records = calls_of([{"rows": n} for n in range(9)], run_id=f"run-{number}", tool="get_export_status")
        _score(store, tuple(spans_without_content(records, DEMO_POLICY)), now_ns=NOW_NS + number * S)
    _score(store, demo_spans()["refund"], now_ns=NOW_NS + 2 * S)
    (refund,) = [run for run in _source(store).runs(Filters(), before=None, limit=9) if "issue_refund" in run.tools]
    assert (b"lint" in encode_json(refund), {}) == (False, refund.lint)

    async def use(client: Client) -> list[str]:
        found = []
        for path in ("/tools.json", "/tools"):
            async with client.get(path) as answer:
                found.append(await answer.text())
        return found

    told, page = serve(_source(store), use)
    assert [("signal_always_moves", "get_export_status")] == [
        (one["lint"], one["tool"]) for one in json.loads(told)["lint"]
    ]
    assert ["search_cases"] == json.loads(told)["unused"]
    assert (1, 1, True) == (page.count("Policy lint"), page.count("rows increases"), "never that it did not" in page)


# --- health -------------------------------------------------------------------------------------------------------


def test_health_is_made_of_the_metrics() -> None:
    """The page's numbers are those that `/metrics` shows, added up over what the page does not tell apart."""
    series = {
        metrics.REQUESTS.series({"protocol": "http", "result": "taken"}): 5.0,
        metrics.REQUESTS.series({"protocol": "grpc", "result": "taken"}): 2.0,
        metrics.REQUESTS.series({"protocol": "grpc", "result": "busy"}): 3.0,
        metrics.REQUESTS.series({"protocol": "http", "result": "disk_full"}): 0.0,
        metrics.RECEIVED_SPANS.series({"protocol": "http"}): 40.0,
        metrics.RECEIVED_SPANS.series({"protocol": "grpc"}): 2.0,
        metrics.REJECTED_SPANS.series({"reason": "bad_span_id"}): 4.0,
        metrics.OPEN_GROUPS.series({}): 6.0,
        metrics.OPEN_SPANS.series({}): 60.0,
        metrics.JUDGING_LAG.series({}): 1.5,
        metrics.FAILED_COMMITS.series({}): 12.0,
        metrics.FAILED_SETTLEMENTS.series({}): 13.0,
        metrics.WAITING_BYTES.series({}): 7.0,
        metrics.DATA_BYTES.series({}): 8.0,
        metrics.VERDICTS.series({"close": Close.IDLE.value}): 9.0,
        metrics.VERDICTS.series({"close": Close.LATE.value}): 1.0,
        metrics.EVICTED_RUNS.series({"reason": "age"}): 10.0,
        metrics.BACKLOG.series({"sink": "otlp"}): 11.0,
    }
    expected = Health(
        started_ns=NOW_NS,
        requests=10,
        spans=42,
        refused={"busy": 3},
        rejected={"bad_span_id": 4},
        open_groups=6,
        open_spans=60,
        waiting_bytes=7,
        lag_s=1.5,
        failed_commits=12,
        failed_settlements=13,
        verdicts=10,
        disk_bytes=8,
        max_disk_bytes=100,
        free_bytes=50,
        evicted={"age": 10},
        outbox={"otlp": 11},
    )
    assert expected == health_of(series, started_ns=NOW_NS, max_disk_bytes=100, free_bytes=50)
