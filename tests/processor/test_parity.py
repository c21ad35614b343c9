"""What left the process gives the same verdict as the raw spans would, and live findings are the verdict's.

The reference is always what `replay` makes of the raw spans or call records; on the other side stand the bytes that an
OTLP exporter sends, read back, and what `on_finding` was told.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from otel_loopguard import attributes as attr
from otel_loopguard import policy as policies
from otel_loopguard.digest import Digester, Keyring, Scope
from otel_loopguard.facts import FactsReader
from otel_loopguard.files.calls import record
from otel_loopguard.model import CallRecord, Finding, Span, SpanFacts, Verdict
from otel_loopguard.observation import Observation
from otel_loopguard.policy import ContentRule, Policy
from otel_loopguard.processor.finding import FindingEvent
from otel_loopguard.replay import Replay, RunReport
from otel_loopguard.tracker import Tracker
from tests.detectors.variants import placed, spans_can_carry, spans_of
from tests.dialects import captures
from tests.processor.playing import Late
from tests.processor.setups import KEY, WAYS, Sent, at_end, at_start, read_back, send
from tests.replaying import items_of

CASES: Final = Path(__file__).parents[1] / "fixtures" / "cases"
DIGESTER: Final = Digester(KEY, scope=Scope.ENVIRONMENT)

SERVER_SPANS_BESIDE: Final = {
    "claude-agent-sdk-0.2.189+openinference-instrumentation-claude-agent-sdk-0.1.22+limit",
    "claude-agent-sdk-0.2.189+openinference-instrumentation-claude-agent-sdk-0.1.22+main",
}
"""An MCP server in the host's own process writes its spans beside the host's, not below: that both show one call can
be told when both are known, and live each counts. The repeat is found all the same, at a higher call number."""


def judged(items: Iterable[Span | CallRecord | SpanFacts], policy: Policy) -> list[RunReport]:
    """The reports of a replay under the key that the processors have."""
    replay = Replay(policy, DIGESTER)
    for item in items:
        replay.add(item)
    return list(replay.reports())


def raw(spans: Iterable[Span], policy: Policy, scope: Scope) -> list[RunReport]:
    """The reports on raw spans."""
    reader = FactsReader(policy, Keyring(KEY, scope=scope).for_trace)
    return judged(map(reader.of_span, spans), policy)


def verdicts(reports: Iterable[RunReport]) -> dict[str, Verdict]:
    """By run."""
    return {report.verdict.run_id: report.verdict for report in reports}


def told(finding: Finding) -> tuple[object, ...]:
    """What is told of a finding when it becomes true."""
    return (finding.kind, finding.severity, finding.basis, finding.tool, finding.agent, finding.count, finding.at_call)


def as_they_came(report: RunReport, policy: Policy) -> list[tuple[object, ...]]:
    """A run's findings as each was at the call with which it became true: later calls move count, tool and severity."""
    tracker, found = Tracker(policy), []
    for call in report.calls:
        kinds = tracker.observe(call).kinds
        found += [told(one) for one in tracker.findings() if one.at_call == call.number and one.kind in kinds]
    return sorted(found)


def live(events: Iterable[FindingEvent]) -> list[tuple[object, ...]]:
    """What `on_finding` was told."""
    return sorted((one.kind, one.severity, one.basis, one.tool, one.agent, one.count, one.call) for one in events)


def assert_same_everywhere(
    reference: Sequence[RunReport], sent: Sent, policy: Policy, *, without: Mapping[str, object] | None = None
) -> None:
    """Both exporters got what gives the reference's verdicts, field by field, and nothing of ours failed."""
    changes = without or {}
    expected = {run: msgspec.structs.replace(one, **changes) for run, one in verdicts(reference).items()}
    read = read_back(sent.before)
    assert read_back(sent.behind) == read
    found = {run: msgspec.structs.replace(one, **changes) for run, one in verdicts(judged(read, policy)).items()}
    assert expected == found
    assert [({}, 0)] * len(sent.counts) == [(one.failures, one.late_spans) for one in sent.counts]


# --- captures -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", captures.names())
def test_a_capture_gives_the_same_verdicts(name: str) -> None:
    """However the provider is set up, under either key scope, with attributes set at the start or at the end."""
    policy = policies.default()
    spans = [span for span in captures.spans(name) if span.end_ns]
    reference = {scope: raw(spans, policy, scope) for scope in Scope}
    setups: list[tuple[str, Late, Scope]] = [
        ("simple", at_start, Scope.ENVIRONMENT),
        ("simple", at_end, Scope.TRACE),
        ("batch", at_end, Scope.ENVIRONMENT),
        ("simple concurrent", at_start, Scope.TRACE),
        ("batch concurrent", at_end, Scope.ENVIRONMENT),
    ]
    for way, late, scope in setups:
        sent = send(spans, WAYS[way], late=late, scope=scope)
        assert_same_everywhere(reference[scope], sent, policy)
        if name not in SERVER_SPANS_BESIDE:
            expected = sorted(one for report in reference[scope] for one in as_they_came(report, policy))
            found = live(sent.events)
            if late is at_end:  # what an agent is called is not known before its span ends, then
                expected, found = _without_agents(expected), _without_agents(found)
            assert expected == found


def _without_agents(found: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    return [(*one[:4], *one[5:]) for one in found]


@pytest.mark.parametrize("name", sorted(SERVER_SPANS_BESIDE))
def test_live_findings_beside_server_spans(name: str) -> None:
    """The stated exception is still one, and no wider: the same kinds of the same tools are found."""
    policy = policies.default()
    spans = [span for span in captures.spans(name) if span.end_ns]
    (reference,) = raw(spans, policy, Scope.ENVIRONMENT)
    expected, found = as_they_came(reference, policy), live(send(spans).events)
    assert expected != found
    assert [one[:4] for one in expected] == [one[:4] for one in found]


@pytest.mark.parametrize("content", [ContentRule.DROP_TOOL, ContentRule.KEEP])
@pytest.mark.parametrize("name", captures.names("main"))
def test_content_that_stays_changes_no_verdict(name: str, content: ContentRule) -> None:
    """Where content leaves beside the digests, both say the same."""
    policy = policies.default()
    spans = [span for span in captures.spans(name) if span.end_ns]
    assert_same_everywhere(raw(spans, policy, Scope.ENVIRONMENT), send(spans, content=content), policy)


def test_what_is_compared_holds_findings() -> None:
    """Most of the main captures have a loop, and the cases have findings of most kinds."""
    policy = policies.default()
    captured = [
        finding
        for name in captures.names()
        for report in raw(captures.spans(name), policy, Scope.TRACE)
        for finding in report.verdict.findings
    ]
    assert len(captured) > 50
    in_cases = {
        finding.kind
        for name in TOLD_BY_SPANS
        for rows, _ in played_runs(name)
        for report in judged(map(record, placed(rows)), case_policy(name))
        for finding in report.verdict.findings
    }
    assert len(in_cases) > 10


@pytest.mark.parametrize("name", captures.names())
def test_each_span_tells_the_same(name: str) -> None:
    """Role, agent, turn, ending, digests, classes: what a receiver reads of each span is what the raw one said."""
    reader = FactsReader(policies.default(), Keyring(KEY).for_trace)
    spans = {(span.trace_id, span.span_id): span for span in captures.spans(name)}
    for left in read_back(send(spans.values(), scope=Scope.TRACE).behind):
        expected, found = reader.of_span(spans[left.trace_id, left.span_id]), reader.of_span(left)
        assert without_order(expected) == without_order(found)


def without_order(facts: SpanFacts) -> SpanFacts:
    """Facts without what only a processor can say of a span, and what the SDK has no way to set.

    Likenesses stay in the process. A call's failure is in its outcome, whether or not its span's status says it.
    """
    call = facts.call
    if call is not None:
        alone = {name: None for name in Observation.__struct_fields__ if name in call.__struct_fields__}
        call = msgspec.structs.replace(call, **alone, likenesses=None)
    order = dict.fromkeys(("producer", "sequence", "started", "run_calls"))
    failed = facts.failed and call is None
    return msgspec.structs.replace(facts, **order, call=call, failed=failed, dropped_attributes=False)


def test_spans_of_one_call_are_counted_once() -> None:
    """A host's tool span with the arguments and an MCP client's within it with the result: one call with both."""
    (name,) = captures.names("mcp-1.30.0", "opentelemetry-instrumentation-mcp")
    sent = send(captures.spans(name))
    assert [(9, {}), (0, {})] == [(one.tool_calls, one.unreadable) for one in sent.counts]
    assert ["exact_repeat"] == [event.kind for event in sent.events]


# --- cases --------------------------------------------------------------------------------------------------


def of_containers(key: str) -> bool:
    """All attributes but those by which agents and turns are known are set at the end."""
    return key not in (attr.OPERATION, attr.AGENT_NAME)


def case_policy(name: str) -> Policy:
    """The policy of a case."""
    return policies.load_file(CASES / name / "policy.yaml")


def case_runs(name: str) -> list[list[dict[str, Any]]]:
    """The call records of a case, a list a run; empty where it has spans instead."""
    path = CASES / name / "calls.jsonl"
    runs: dict[str, list[dict[str, Any]]] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        row = json.loads(line)
        runs.setdefault(row["run_id"], []).append(row)
    return list(runs.values())


def played_runs(name: str) -> list[tuple[list[dict[str, Any]], list[Span]]]:
    """Those runs of a case that spans can tell, with their spans: ended ones, as no other leaves."""
    policy = case_policy(name)
    found = []
    for number, rows in enumerate(case_runs(name)):
        if not spans_can_carry(rows, policy):
            continue
        spans = [msgspec.structs.replace(one, trace_id=f"{number + 1:032x}") for one in spans_of(placed(rows), policy)]
        if all(span.end_ns for span in spans):
            found.append((rows, spans))
    return found


NAMES: Final = sorted(path.name for path in CASES.iterdir() if path.is_dir())
TOLD_BY_SPANS: Final = [name for name in NAMES if played_runs(name)]
NOT_TOLD_BY_SPANS: Final = {
    "A05": "session",
    "A11": "user turns",
    "C13": "sessions",
    "C14": "no result came, so no tool span ends",
    "E04": "the key changes",
    "F03": "session",
    "F04": "session",
    "F05": "dispatched",
}
"""What spans of today have no place for, or what a processor never sees."""
WRITTEN_ELSEWHERE: Final = {
    "D07": "the SDK's count of dropped attributes, which cannot be set",
    "D14": "sequence numbers of another producer, with gaps",
    "D18": "the trace state of sampled roots, which cannot be set",
}
"""Cases given as spans, with what is on them that no application can put there through the SDK."""


def test_each_case_is_compared_or_has_its_reason() -> None:
    """No case falls out unnoticed."""
    of_spans = {name for name in NAMES if (CASES / name / "deliveries.otlp.jsonl").exists()}
    assert set(NAMES) == {*TOLD_BY_SPANS, *NOT_TOLD_BY_SPANS, *of_spans}
    assert not set(TOLD_BY_SPANS) & set(NOT_TOLD_BY_SPANS)
    assert set(WRITTEN_ELSEWHERE) < of_spans


@pytest.mark.parametrize("scope", Scope)
@pytest.mark.parametrize("late", [at_start, of_containers])
@pytest.mark.parametrize("name", TOLD_BY_SPANS)
def test_a_case_of_records_gives_the_same_findings(name: str, late: Late, scope: Scope) -> None:
    """Played as tool spans with its own policy, a case is judged as its records are; live, too."""
    policy = case_policy(name)
    for rows, spans in played_runs(name):
        (expected,) = judged(map(record, placed(rows)), policy)
        sent = send(spans, policy=policy, late=late, scope=scope)
        (found,) = judged(read_back(sent.behind), policy)
        assert shape(expected.verdict) == shape(found.verdict)
        if scope is Scope.ENVIRONMENT:
            assert digests(expected.verdict) == digests(found.verdict)
        assert as_they_came(expected, policy) == live(sent.events)
        assert_same_everywhere(raw(spans, policy, scope), sent, policy)


def shape(verdict: Verdict) -> tuple[object, ...]:
    """A verdict without run, times and digests."""
    findings = [msgspec.structs.replace(one, digests=()) for one in verdict.findings]
    counts = (verdict.calls, verdict.distinct_calls, verdict.turns, verdict.wasted_calls)
    return (verdict.outcome, findings, counts, verdict.flags, verdict.guard, verdict.unknown_calls)


def digests(verdict: Verdict) -> list[tuple[str, ...]]:
    """The digests of a verdict's findings."""
    return [one.digests for one in verdict.findings]


@pytest.mark.parametrize(
    "name",
    [name for name in NAMES if (CASES / name / "deliveries.otlp.jsonl").exists() and name not in WRITTEN_ELSEWHERE],
)
def test_a_case_of_spans_gives_the_same_verdict(name: str) -> None:
    """Its spans, each once and ended, go through the processor with the case's policy."""
    policy = case_policy(name)
    items = items_of(CASES / name / "deliveries.otlp.jsonl")
    first: dict[tuple[str, str], Span] = {}
    for item in items:
        if isinstance(item, Span) and item.end_ns:
            first.setdefault((item.trace_id, item.span_id), item)
    spans = list(first.values())
    assert_same_everywhere(raw(spans, policy, Scope.ENVIRONMENT), send(spans, policy=policy), policy)
