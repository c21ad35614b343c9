"""Verdicts as `gen_ai.evaluation.result` log events in the run's trace, by OTLP/HTTP.

Invariants: attributes are names that were checked, words of closed lists, numbers, and ids; no content. One event a
verdict, the same whenever it is sent: `log.record.uid` tells repeats.

Source: the semantic conventions for generative AI, event `gen_ai.evaluation.result` (status: development).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs, SeverityNumber

from otel_loopguard import attributes as attr
from otel_loopguard.model import Finding, RunOutcome, Severity, Verdict
from otel_loopguard.scorer.metrics import WITHDRAWN
from otel_loopguard.scorer.posting import NeverTakenError, Poster, Signal
from otel_loopguard.scorer.records import JudgedRun

EVENT: Final = "gen_ai.evaluation.result"
EVALUATION: Final = "loopguard"
"""`gen_ai.evaluation.name`."""
SCOPE: Final = "otel_loopguard.scorer"

Scalar: TypeAlias = str | bool | int | float

_PASSED: Final = frozenset({RunOutcome.CLEAN})
_FAILED: Final = frozenset(
    {RunOutcome.LOOP, RunOutcome.DUPLICATE_WRITE, RunOutcome.INDETERMINATE_WRITE, RunOutcome.BUDGET_EXCEEDED}
)
"""The outcomes that are the agent's fault. All others bear no score: nothing was shown either way."""
_WITHDRAWN_BECAUSE: Final = "no run of its own: its spans are part of another"
_UID_OF: Final = uuid.uuid5(uuid.NAMESPACE_URL, "otel-loopguard/verdict")
_SPAN_ID_LENGTH: Final = 16


class VerdictEvents:
    """Sends verdicts as log events.

    Args:
        poster: to the receiver.
        resource: attributes of this scorer, such as `service.name`.
    """

    name: Final = "otlp"

    def __init__(self, poster: Poster, resource: Mapping[str, str]) -> None:
        self._poster = poster
        self._resource = dict(resource)

    def send(self, runs: Sequence[JudgedRun]) -> int:
        """Sends one event each; see `outputs.Sink`. What is refused for good is looked for by halves."""
        try:
            answer = self._poster.post(Signal.LOGS, encode_events(runs, self._resource))
        except NeverTakenError:
            if len(runs) == 1:
                return 1
            middle = len(runs) // 2
            return self.send(runs[:middle]) + self.send(runs[middle:])
        return min(_rejected(answer), len(runs))


def encode_events(runs: Sequence[JudgedRun], resource: Mapping[str, str]) -> bytes:
    """An OTLP request with one log event a run, in their order."""
    held = ResourceLogs(scope_logs=[ScopeLogs(log_records=[_event(run) for run in runs])])
    held.resource.attributes.extend(key_values(resource))
    held.scope_logs[0].scope.name = SCOPE
    return ExportLogsServiceRequest(resource_logs=[held]).SerializeToString()


def explanation(verdict: Verdict) -> str:
    """One line that says why, of names, words and numbers."""
    parts = [_said(finding) for finding in verdict.findings if finding.severity is not Severity.REPORT][:3]
    if verdict.wasted_calls:
        parts.append(
            f"{verdict.wasted_calls} of {verdict.calls} calls wasted"
            f" ({verdict.wasted_ms / 1e3:.1f} s, {verdict.wasted_tokens} tokens)"
        )
    if verdict.flags and verdict.outcome in (RunOutcome.INCOMPLETE, RunOutcome.UNSCORABLE):
        parts.append(f"flags: {', '.join(verdict.flags)}")
    return "; ".join(parts) or f"{verdict.calls} tool calls"


def key_values(given: Mapping[str, Scalar | Sequence[Scalar] | None]) -> list[KeyValue]:
    """Attributes as OTLP has them, without those that are None."""
    return [KeyValue(key=key, value=_any_value(value)) for key, value in given.items() if value is not None]


def _said(finding: Finding) -> str:
    whose = finding.tool or "several tools"
    return f"{finding.severity}: {finding.kind} of {whose}, {finding.count} by call {finding.at_call}"


def _event(run: JudgedRun) -> LogRecord:
    verdict = run.verdict
    passed, fault = verdict.outcome in _PASSED, verdict.outcome in _FAILED
    score: float | None = 1.0 if passed else 0.0 if fault else None
    label, said = verdict.outcome.value, explanation(verdict)
    if run.withdrawn:
        fault, score, label, said = False, None, WITHDRAWN, _WITHDRAWN_BECAUSE
    given: dict[str, Scalar | None] = {
        "gen_ai.evaluation.name": EVALUATION,
        "gen_ai.evaluation.score.label": label,
        "gen_ai.evaluation.score.value": score,
        "gen_ai.evaluation.explanation": said,
        attr.AGENT_NAME: verdict.agent,
        "gen_ai.request.model": verdict.model,
        "log.record.uid": str(uuid.uuid5(_UID_OF, f"{run.run_id}\n{verdict.revision}")),
        attr.RUN_ID: run.run_id,
        "loopguard.run.service": verdict.service,
        "loopguard.run.release": verdict.release,
        "loopguard.run.revision": verdict.revision,
        "loopguard.run.final": verdict.final,
        attr.RUN_CALLS: verdict.calls,
        attr.TERMINATION_REASON: verdict.termination_reason.value,
        attr.POLICY: verdict.policy,
        "loopguard.wasted.calls": verdict.wasted_calls,
        "loopguard.wasted.ms": verdict.wasted_ms,
        "loopguard.wasted.tokens": verdict.wasted_tokens,
        "loopguard.backfill": run.backfill,
    }
    record = LogRecord(
        time_unix_nano=max(0, run.judged_ns),
        observed_time_unix_nano=max(0, run.judged_ns),
        severity_number=SeverityNumber.SEVERITY_NUMBER_WARN if fault else SeverityNumber.SEVERITY_NUMBER_INFO,
        severity_text="WARN" if fault else "INFO",
        event_name=EVENT,
        attributes=key_values(given),
    )
    if verdict.trace_ids:
        trace_id, _, span_id = run.run_id.partition(":")
        if trace_id not in verdict.trace_ids:
            trace_id, span_id = verdict.trace_ids[0], ""
        record.trace_id = bytes.fromhex(trace_id)
        if _is_span_id(span_id):
            # The agent's span, where the run's id has it.
            record.span_id = bytes.fromhex(span_id)
    return record


def _is_span_id(text: str) -> bool:
    return len(text) == _SPAN_ID_LENGTH and set(text) <= set("0123456789abcdef")


def _any_value(value: Scalar | Sequence[Scalar]) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    if isinstance(value, str):
        return AnyValue(string_value=value)
    return AnyValue(array_value=ArrayValue(values=[_any_value(item) for item in value]))


def _rejected(answer: bytes) -> int:
    try:
        return max(0, ExportLogsServiceResponse.FromString(answer).partial_success.rejected_log_records)
    except DecodeError:
        return 0  # some receivers answer a success with JSON or text
