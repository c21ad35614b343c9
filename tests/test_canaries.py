"""No content of a span or a call record shows in anything that the commands print, or in any error.

Canaries are put in place of every value of the captures, and into every content key of every dialect; then the
real commands run, in every form of output, and everything they print is searched.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import logging
import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from otel_loopguard.cli import main
from otel_loopguard.dialects import content_keys
from otel_loopguard.model import Span
from tests.captures.summary import CAPTURES, SPANS
from tests.dialects.encode import ENCODERS
from tests.dialects.encode_instrumentation import ENCODERS as INSTRUMENTATION_ENCODERS

CANARY = "kNrY7x"
CASES = Path(__file__).parent / "fixtures" / "cases"

# Structure that is no content: values of these keys, and the names that the scenario gave its tools and agents.
_STRUCTURE = (
    "gen_ai.operation.name",
    "gen_ai.tool.name",
    "gen_ai.tool.call.id",
    "gen_ai.agent.name",
    "gen_ai.request.model",
    "gen_ai.response.model",
    "openinference.span.kind",
    "traceloop.span.kind",
    "langsmith.span.kind",
    "mcp.method.name",
    "tool.name",
    "tool.call_id",
    "tool.id",
    "tool_call.id",
    "agent.name",
    "llm.model_name",
    "service.name",
    "service.version",
    "error.type",
    "exception.type",
    "logfire.msg_template",
    "logfire.span_type",
    "ai.operationId",
    "ai.toolCall.name",
    "ai.toolCall.id",
    "haystack.tool.name",
    "name",
)


def printed(arguments: list[str], capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> str:
    """Everything that one command prints and logs."""
    with caplog.at_level(logging.DEBUG):
        main(arguments)
    out = capsys.readouterr()
    return out.out + out.err + caplog.text


FORMS = (
    ["replay", "--json"],
    ["replay", "--all-calls", "--no-progress"],
    ["audit"],
    ["audit", "--json"],
    ["lint"],
)


def assert_silent(path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    """Fails where any form of output holds the canary, or holds nothing at all."""
    for form in FORMS:
        shown = printed([*form, str(path)], capsys, caplog)
        assert shown.strip(), form
        assert CANARY.lower() not in shown.lower(), form


def poisoned(value: Any, rng: random.Random) -> Any:
    """An OTLP attribute value with a canary in every text, JSON inside text kept as JSON."""
    if isinstance(value, dict):
        return {key: poisoned(inner, rng) if key != "key" else inner for key, inner in value.items()}
    if isinstance(value, list):
        return [poisoned(inner, rng) for inner in value]
    if not isinstance(value, str):
        return value
    try:
        parsed = json.loads(value)
    except ValueError:
        return f"{CANARY} {value} {CANARY}{rng.randrange(9)}"
    if isinstance(parsed, (dict, list)):
        return json.dumps(_poisoned_json(parsed))
    return value


def _poisoned_json(value: Any) -> Any:
    """Every text leaf of a JSON value with a canary, but for the fields that dialects read structure from."""
    if isinstance(value, dict):
        kept = ("type", "name", "id", "status", "role", "tool_call_id", "tool_name", "kind", "lc_agent_name")
        return {key: inner if key in kept else _poisoned_json(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_poisoned_json(inner) for inner in value]
    return f"{CANARY}{value}" if isinstance(value, str) else value


def poison_line(line: str, rng: random.Random) -> str:
    """One export request with canaries in all that is not structure: attributes, events, statuses."""
    request = json.loads(line)
    for group in request.get("resourceSpans", ()):
        for scope in group.get("scopeSpans", ()):
            for span in scope.get("spans", ()):
                _poison_pairs(span.get("attributes", ()), rng)
                for event in span.get("events", ()):
                    _poison_pairs(event.get("attributes", ()), rng)
                status = span.get("status", {})
                if "message" in status:
                    status["message"] = f"{CANARY} {status['message']}"
    return json.dumps(request)


def _poison_pairs(pairs: Iterable[dict[str, Any]], rng: random.Random) -> None:
    for pair in pairs:
        if pair["key"] not in _STRUCTURE:
            pair["value"] = poisoned(pair["value"], rng)


@pytest.mark.parametrize("name", CAPTURES)
def test_no_capture_leaks(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Every value of a captured run replaced by a canary: nothing that is printed holds one."""
    rng = random.Random(name)
    lines = (SPANS / f"{name}.jsonl").read_text().splitlines()
    poisoned_lines = [poison_line(line, rng) for line in lines]
    assert CANARY in "".join(poisoned_lines)
    # A line that breaks off in the middle of content must be reported by its number alone.
    broken = next(line for line in poisoned_lines if CANARY in line)
    poisoned_lines.append(broken[: broken.index(CANARY) + len(CANARY) + 2])
    path = tmp_path / "spans.jsonl"
    path.write_text("\n".join(poisoned_lines))
    assert_silent(path, capsys, caplog)


def otlp(span: Span) -> dict[str, Any]:
    """The OTLP JSON of one span."""
    return {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "name": span.name,
        "kind": span.kind,
        "startTimeUnixNano": str(span.start_ns),
        "endTimeUnixNano": str(span.end_ns),
        "attributes": _pairs(span.attributes),
        "events": [{"name": event.name, "attributes": _pairs(event.attributes)} for event in span.events],
        "status": {"code": 2, "message": f"failed on {CANARY}"},
    }


def _pairs(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": any_value(value)} for key, value in attributes.items()]


def any_value(value: Any) -> dict[str, Any]:
    """The OTLP JSON of one value."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, bytes):
        return {"bytesValue": base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": _pairs(value)}}
    if isinstance(value, list):
        return {"arrayValue": {"values": [any_value(inner) for inner in value]}}
    return {"stringValue": value}


CARRIED = (
    CANARY,
    json.dumps({"secret": CANARY, CANARY: 1}),
    "{'secret': '" + CANARY + "'}",
    '{"secret": "' + CANARY,
    "error: " + CANARY + " not found",
    [CANARY, {"deep": CANARY}],
    {"secret": CANARY, CANARY: [CANARY]},
)


@pytest.mark.parametrize("dialect", sorted({**ENCODERS, **INSTRUMENTATION_ENCODERS}))
def test_no_content_position_of_any_dialect_leaks(
    dialect: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Canaries as argument names and values, results, errors, events, and under every key that can hold content."""
    encode = {**ENCODERS, **INSTRUMENTATION_ENCODERS}[dialect]
    base = encode("lookup", {"secret": CANARY, CANARY: "x"}, {"text": CANARY}, "call_1")
    spans = [otlp(base)]
    for number, key in enumerate(sorted(content_keys())):
        name = key + "x" if key.endswith(".") else key
        for place, value in enumerate(CARRIED):
            span = otlp(base)
            span["spanId"] = f"{number:08x}{place:08x}"
            span["attributes"] = [pair for pair in span["attributes"] if pair["key"] != name]
            span["attributes"].append({"key": name, "value": any_value(value)})
            span["events"].append(
                {"name": "exception", "attributes": _pairs({"exception.message": CANARY, name: CANARY})}
            )
            spans.append(span)
    path = tmp_path / "spans.jsonl"
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"scope": {"name": base.scope}, "spans": spans}]}]}))
    assert_silent(path, capsys, caplog)


NAMES = (f"ask {CANARY}", f"{CANARY}\u2028", f"\x1b[31m{CANARY}", f"{CANARY}@example.org", f"{CANARY} " * 40)


@pytest.mark.parametrize("name", NAMES)
def test_names_that_do_not_look_like_names_are_digested(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A prompt in a tool's, agent's, model's, service's or call's name, or in a run id, must not pass as a name."""
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.id": name,
        "gen_ai.agent.name": name,
        "gen_ai.conversation.id": name,
        "error.type": name,
        "loopguard.run.id": name,
        "loopguard.turn.id": name,
        "loopguard.agent.id": name,
        "loopguard.progress.rule": name,
        "loopguard.call.digest": name,
        "loopguard.key.id": name,
    }
    tool = otlp(Span(trace_id="1" * 32, span_id="2" * 16, name=name, start_ns=1, end_ns=2, attributes=attributes))
    chat = {"gen_ai.operation.name": "chat", "gen_ai.request.model": name, "gen_ai.response.id": name}
    root = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name, "gen_ai.conversation.id": name}
    tool["parentSpanId"] = "4" * 16
    others = [
        otlp(
            Span(
                trace_id="1" * 32,
                span_id="3" * 16,
                parent_id="4" * 16,
                name=name,
                start_ns=1,
                end_ns=2,
                attributes=chat,
            )
        ),
        otlp(Span(trace_id="1" * 32, span_id="4" * 16, name=name, start_ns=1, end_ns=2, attributes=root)),
    ]
    resource = {"attributes": _pairs({"service.name": name, "service.version": name, "host.name": name})}
    scopes = [{"scope": {"name": name}, "spans": [tool, *others]}]
    path = tmp_path / "spans.jsonl"
    path.write_text(json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": scopes}]}))
    assert_silent(path, capsys, caplog)


def test_no_call_record_leaks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Canaries in every field of a call record that holds content, and in broken records."""
    record = {
        "run_id": f"run {CANARY}",
        "sequence": 1,
        "turn": f"turn {CANARY}",
        "call_id": f"id {CANARY}",
        "tool": f"tool {CANARY}",
        "arguments": {"secret": CANARY, CANARY: [CANARY]},
        "result": {"secret": CANARY},
        "error": f"cannot open /home/{CANARY}",
        "agent": f"agent {CANARY}",
        "session": CANARY,
        "task": CANARY,
        "tenant": CANARY,
        "user_turn": CANARY,
        "attempt": CANARY,
        "key_id": f"key {CANARY}",
        "effect": CANARY,
    }
    lines = [json.dumps(record)]
    for field in record:
        lines.append(json.dumps(record | {"sequence": len(lines) + 1, field: [CANARY]}))
        lines.append(json.dumps({name: value for name, value in record.items() if name != field}))
        lines.append(json.dumps(record)[: 40 + len(lines)])
    lines.append(json.dumps(record)[:-1] + f', "{CANARY}": 1, "{CANARY}": 2}}')
    path = tmp_path / "calls.jsonl"
    path.write_text("\n".join(lines))
    assert_silent(path, capsys, caplog)


@pytest.mark.parametrize("name", ["E01", "E02", "E03"])
def test_the_privacy_cases(name: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    """Secrets in arguments and results, a path in an error text, a four-digit PIN."""
    expected = json.loads((CASES / name / "expected.json").read_text())["expected"]["privacy"]
    forbidden = expected.get("must_not_contain", ["4071"])
    for form in FORMS:
        shown = printed([*form, str(CASES / name / "calls.jsonl")], capsys, caplog)
        assert [text for text in forbidden if text in shown and name != "E03"] == []
    if name == "E03":
        assert_no_plain_hash_of_the_pin(capsys, caplog)


def assert_no_plain_hash_of_the_pin(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    """Two runs under two keys give two digests, and none is a plain hash of the arguments."""
    path = str(CASES / "E03" / "calls.jsonl")
    first = json.loads(printed(["audit", "--json", path], capsys, caplog).splitlines()[0])
    second = json.loads(printed(["audit", "--json", path], capsys, caplog).splitlines()[0])
    assert first["call_digest"] != second["call_digest"]
    arguments = {"card": "c-1", "pin": "4071"}
    texts = [json.dumps(arguments), json.dumps(arguments, separators=(",", ":")), "4071", f"set_pin{arguments}"]
    plain = {
        hashlib.new(kind, text.encode()).hexdigest()[:32]
        for kind in ("sha256", "sha1", "md5", "blake2b")
        for text in texts
    }
    assert first["call_digest"] not in plain


def test_what_the_tests_search_for_would_be_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A canary that looks like a name does pass, by contract: so the search can fail."""
    record = {"run_id": CANARY, "sequence": 1, "turn": 1, "call_id": "c", "tool": "t", "arguments": {}, "result": 1}
    path = tmp_path / "calls.jsonl"
    path.write_text(json.dumps(record))
    shown = io.StringIO(printed(["replay", "--json", str(path)], capsys, caplog)).getvalue()
    assert CANARY in shown
