"""Every captured run of a real framework reads as it was made (tests/fixtures/spans/README.md says how).

The scenario's own facts are asserted here by hand; the expected files hold all the rest.
"""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest

from otel_loopguard import policy
from otel_loopguard.model import Flag, Kind, Outcome, RunOutcome, TerminationReason
from otel_loopguard.replay import RunReport
from tests.captures.summary import CAPTURES, EXPECTED, POLICY, SPANS, summary
from tests.conftest import IN_CI
from tests.replaying import facts_of, replay_files, replay_items

PERMUTATIONS = 200 if IN_CI else 10

NO_TOOL_SPANS = {
    "crewai-1.15.30+opentelemetry-instrumentation-crewai-0.62.4+main",
    "haystack-ai-3.4.1+openinference-instrumentation-haystack-0.1.46+pipeline",
    "smolagents-1.26.0+opentelemetry-instrumentation-genai-smolagents-1.2b0+limit",
    "smolagents-1.26.0+opentelemetry-instrumentation-genai-smolagents-1.2b0+main",
    "smolagents-1.26.0+opentelemetry-instrumentation-genai-smolagents-1.2b0+main-content",
}
WITHOUT_CONTENT = {
    "agent-framework-core-1.23.0+native+main",
    "autogen-agentchat-0.7.5+native+limit",
    "autogen-agentchat-0.7.5+native+main",
    "dspy-3.4.1+opentelemetry-instrumentation-genai-dspy-1.3b0+main",
    "google-adk-2.13.0+native+errorraise",
    "google-adk-2.13.0+native+limit",
    "google-adk-2.13.0+native+main",
    "google-adk-2.13.0+native+main-noids",
    "llama-index-core-0.14.25+opentelemetry-instrumentation-genai-llama-index-1.3b0+limit",
    "llama-index-core-0.14.25+opentelemetry-instrumentation-genai-llama-index-1.3b0+main",
    "mcp-2.3.0+native+main",
    "mcp-2.3.0+openinference-instrumentation-mcp-2.0.13+main",
    "vercel-ai-7.0.173+ai-sdk-otel-1.0.173-gen_ai+main-off",
    *(name for name in CAPTURES if name.endswith(("+main-content-off", "+main-off"))),
    *(
        name
        for name in CAPTURES
        if ("genai-langchain" in name or "genai-openai-agents" in name)
        and not name.endswith(("-content", "-contentonly"))
    ),
}
"""Neither arguments nor results are on the spans. `contenttrue`: the old value `true` now means no content."""
WITHOUT_RESULTS = {"mcp-2.3.0+native+stdio", "mcp-2.3.0+openinference-instrumentation-mcp-2.0.13+stdio"}
"""Host spans carry arguments, nothing carries results."""
ONE_AFTER_ANOTHER = {name for name in CAPTURES if name.startswith("dspy")}
"""Frameworks that run what the model asked for in parallel one after another, in turns of their own."""
SILENT_LIMITS = ("agent-framework", "agno", "autogen", "crewai", "vercel")
"""Frameworks that leave no sign of a limit on their spans."""


def scenario(name: str) -> str:
    """`main`, `stuck`…: the last part of a capture's name, without its variant."""
    return name.rpartition("+")[2].partition("-")[0]


def of(*scenarios: str) -> list[str]:
    """Captures of some scenarios that show tool spans."""
    return [name for name in CAPTURES if scenario(name) in scenarios and name not in NO_TOOL_SPANS]


def reports(name: str) -> list[RunReport]:
    """The reports on one capture."""
    return replay_files([SPANS / f"{name}.jsonl"], POLICY)


def one(name: str) -> RunReport:
    """The only report on one capture."""
    (report,) = reports(name)
    return report


def tools(report: RunReport) -> list[str]:
    """Tool names in call order, without the server's name before them."""
    return [call.facts.tool.rpartition("__")[2] for call in report.calls]


def assert_main(report: RunReport, name: str) -> None:
    """Nine calls, as the scenario made them; what is equal is equal where content was recorded."""
    assert tools(report) == [
        *["lookup_order"] * 3,
        *["get_export_status"] * 3,
        *["slow_task"] * 2,
        "cancel_order",
    ]
    calls = [call.facts for call in report.calls]
    turns = [call.turn for call in report.calls]
    assert turns == (list(range(1, 10)) if name in ONE_AFTER_ANOTHER else [1, 2, 3, 4, 5, 6, 7, 7, 8])
    assert [facts.outcome for facts in calls] == [Outcome.OK] * 8 + [Outcome.ERROR]
    if name in WITHOUT_CONTENT:
        assert {facts.call_digest for facts in calls} == {None}
        assert None not in {facts.call_unknown for facts in calls}
        assert (report.verdict.outcome, report.verdict.findings) == (RunOutcome.UNSCORABLE, ())
        return
    assert None not in {facts.call_digest for facts in calls}
    lookups, exports, slow = calls[:3], calls[3:6], calls[6:8]
    assert len({facts.call_digest for facts in lookups}) == len({facts.call_digest for facts in exports}) == 1
    assert len({facts.call_digest for facts in slow}) == 2
    assert len({facts.call_digest for facts in calls}) == 5
    if name in WITHOUT_RESULTS:
        assert {facts.result_digest for facts in calls} == {None}
        assert (report.verdict.outcome, report.verdict.findings) == (RunOutcome.UNSCORABLE, ())
        return
    assert len({facts.result_digest for facts in lookups}) == 1
    assert len({facts.result_digest for facts in exports}) == 3
    assert [(f.kind, f.at_call, f.count) for f in report.verdict.findings] == [(Kind.EXACT_REPEAT, 3, 3)]
    assert (report.verdict.outcome, report.verdict.first_loop_call) == (RunOutcome.LOOP, 3)


@pytest.mark.parametrize("name", of("main", "stream", "modelretry", "stdio", "errorraise"))
def test_main_reads_as_nine_calls(name: str) -> None:
    """Three equal look-ups, three polls that move, two siblings, one failure: nothing more and nothing less."""
    assert_main(one(name), name)


@pytest.mark.parametrize("name", of("stuck"))
def test_stuck_is_found_at_its_third_call(name: str) -> None:
    """Twelve equal calls with equal results."""
    report = one(name)
    assert tools(report) == ["lookup_order"] * 12
    if name in WITHOUT_CONTENT:
        assert (report.verdict.outcome, report.verdict.unknown_calls) == (RunOutcome.UNSCORABLE, {"not_captured": 12})
        return
    (finding,) = report.verdict.findings
    assert (finding.kind, finding.at_call, finding.count) == (Kind.EXACT_REPEAT, 3, 12)
    assert (report.verdict.outcome, report.verdict.wasted_calls) == (RunOutcome.LOOP, 11)


@pytest.mark.parametrize("name", of("poll"))
@pytest.mark.parametrize("declared", [True, False])
def test_a_poll_that_moves_is_clean(name: str, declared: bool) -> None:  # noqa: FBT001 - a parameter
    """Twelve equal calls whose results differ each time, declared as polling or not."""
    (report,) = replay_files([SPANS / f"{name}.jsonl"], POLICY if declared else policy.default())
    assert tools(report) == ["get_export_status"] * 12
    if name in WITHOUT_CONTENT:
        assert report.verdict.outcome is RunOutcome.UNSCORABLE
        return
    assert (report.verdict.outcome, report.verdict.progress_observed) == (RunOutcome.CLEAN, True)
    assert (report.verdict.distinct_digests, len({c.facts.result_digest for c in report.calls})) == (1, 12)


@pytest.mark.parametrize("name", of("session"))
def test_two_runs_of_one_conversation_stay_apart(name: str) -> None:
    """One call twice in each of two runs is no repeat of four."""
    found = reports(name)
    assert [tools(report) for report in found] == [["lookup_order"] * 2] * 2
    assert [report.verdict.outcome for report in found] == [RunOutcome.CLEAN] * 2


@pytest.mark.parametrize("name", of("two"))
def test_two_runs_at_once_stay_apart(name: str) -> None:
    """Runs whose calls alternate in time are told apart."""
    found = {report.verdict.agent: report for report in reports(name)}
    assert set(found) == {"OrderAgent", "OtherAgent"}
    assert_main(found["OrderAgent"], name)
    assert tools(found["OtherAgent"]) == ["lookup_order"] * 12


@pytest.mark.parametrize("name", of("handoff"))
def test_a_handoff_is_one_run_of_two_agents(name: str) -> None:
    """The hand-over itself is no tool call, and each agent asked once."""
    report = one(name)
    assert tools(report) == ["lookup_order"] * 2
    assert [call.agent for call in report.calls] == ["OrderAgent", "RefundAgent"]
    assert report.verdict.findings == ()


@pytest.mark.parametrize("name", of("maxturns", "recursion", "calllimit", "usagelimit", "toollimit", "limit"))
def test_a_limit_is_named_where_the_spans_name_it(name: str) -> None:
    """A limit ended the run: the reason comes from evidence, and repeats never stand in for it."""
    report = one(name)
    assert set(tools(report)) == {"lookup_order"}
    assert 3 <= len(report.calls) <= 4
    reason = report.verdict.termination_reason
    if name.startswith(SILENT_LIMITS):
        assert reason in (TerminationReason.UNKNOWN, TerminationReason.FINAL_ANSWER)
    elif "smolagents" in name:
        assert reason is TerminationReason.FINAL_ANSWER
    elif "genai-langchain" in name and scenario(name) == "calllimit":
        # With the content goes the only sign, the text of the middleware.
        assert reason is TerminationReason.UNKNOWN
    else:
        assert reason is TerminationReason.TURN_LIMIT
    assert report.verdict.outcome is (RunOutcome.UNSCORABLE if name in WITHOUT_CONTENT else RunOutcome.LOOP)


@pytest.mark.parametrize("name", sorted(NO_TOOL_SPANS))
def test_a_run_without_tool_spans_says_so(name: str) -> None:
    """No evidence at all is not a clean run."""
    verdict = one(name).verdict
    assert (verdict.outcome, verdict.calls, Flag.NO_TOOL_SPANS in verdict.flags) == (RunOutcome.UNSCORABLE, 0, True)


@pytest.mark.parametrize("name", CAPTURES)
def test_the_whole_verdict_is_as_expected(name: str) -> None:
    """The expected file, read by a person, holds everything that is said of the capture."""
    assert json.loads((EXPECTED / f"{name}.json").read_text()) == summary(reports(name))


@pytest.mark.parametrize("name", CAPTURES)
def test_order_and_repeats_of_delivery_change_nothing(name: str) -> None:
    """Spans in any order, each any number of times, over any requests: the identical verdict."""
    facts = facts_of(SPANS / f"{name}.jsonl", POLICY)
    expected = [_lasting(report) for report in replay_items(facts, POLICY)]
    rng = random.Random(name)
    for _ in range(PERMUTATIONS):
        delivered = [span for span in facts for _ in range(rng.choice((1, 1, 1, 2, 3)))]
        rng.shuffle(delivered)
        assert [_lasting(report) for report in replay_items(delivered, POLICY)] == expected


def _lasting(report: RunReport) -> object:
    """Everything but the count of identical copies, which is what the test changes."""
    counted = {name: getattr(report.verdict, name) for name in report.verdict.__struct_fields__}
    duplicates = counted.pop("duplicates")
    return counted, (duplicates.conflicting, duplicates.reidentified, duplicates.layered), report.observations


def test_every_scenario_is_asserted() -> None:
    """A capture of a new scenario must not slip by with an expected file only."""
    known = {"main", "stream", "modelretry", "stdio", "errorraise", "stuck", "poll", "session", "two", "handoff"}
    known |= {"maxturns", "recursion", "calllimit", "usagelimit", "toollimit", "limit", "pipeline"}
    assert set(Counter(scenario(name) for name in CAPTURES)) == known
