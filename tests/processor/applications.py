"""An application as the tests of the processor play it: exporters on both sides of ours, and content in every place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult
from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

from otel_loopguard.digest import Key
from otel_loopguard.processor.span_processor import LoopGuardSpanProcessor
from tests.processor.canaries import CANARY

KEY = Key(key_id="test", secret=bytes(range(32)))
PRODUCER, SEQUENCE, CALLS = "loopguard.producer.id", "loopguard.call.sequence", "loopguard.run.calls"
FINDING, UNKNOWN, DIGEST = "loopguard.finding", "loopguard.call.unknown", "loopguard.call.digest"
AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "helper"}
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "lookup"}
ARGUMENTS, RESULT = "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"
MESSAGES = "gen_ai.input.messages"
_NAME, _ATTRIBUTES = 2, 4  # where a sampler finds them


def unchanged(processor: SpanProcessor) -> SpanProcessor:
    """Stands for no wrapper."""
    return processor


class Application:
    """One provider, with an exporter registered before ours and one after.

    Args:
        wrap: what stands around our processor.
        provider: arguments of the SDK's provider.
        options: as `LoopGuardSpanProcessor` takes them.
    """

    def __init__(
        self,
        *,
        wrap: Callable[[SpanProcessor], SpanProcessor] = unchanged,
        provider: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        options = {"keys": KEY, "meter_provider": NoOpMeterProvider(), **options}
        self.before, self.after = InMemorySpanExporter(), InMemorySpanExporter()
        self.processor = LoopGuardSpanProcessor(**options)
        self.provider = TracerProvider(shutdown_on_exit=False, **(provider or {}))
        self.provider.add_span_processor(SimpleSpanProcessor(self.before))
        self.provider.add_span_processor(wrap(self.processor))
        self.provider.add_span_processor(SimpleSpanProcessor(self.after))
        self.tracer = self.provider.get_tracer("tests.application")

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        """What the exporter after ours got, in the order of their ends."""
        return self.after.get_finished_spans()

    def text(self) -> str:
        """All that either exporter got, as text."""
        return "".join(span.to_json() for one in (self.before, self.after) for span in one.get_finished_spans())

    def start(self, name: str, attributes: dict[str, Any], parent: trace.Span | None = None) -> trace.Span:
        """Starts a span below another one, or a root."""
        context = Context() if parent is None else trace.set_span_in_context(parent, Context())
        return self.tracer.start_span(name, context, attributes=attributes)

    def call(self, parent: trace.Span | None = None, result: str = "42", **attributes: Any) -> trace.Span:
        """Makes one tool call that answers."""
        span = self.start("execute_tool lookup", {**TOOL, ARGUMENTS: '{"a": 1}', RESULT: result, **attributes}, parent)
        span.end()
        return span


class ByName(Sampler):
    """Decides by how a span's name begins; samples what it was told nothing of.

    Args:
        decisions: in the order asked.
    """

    def __init__(self, decisions: Mapping[str, Decision]) -> None:
        self._decisions = decisions

    def should_sample(self, *given: Any, **named: Any) -> SamplingResult:
        """Says so; the span keeps its attributes."""
        name = given[2] if len(given) > _NAME else named["name"]
        attributes = given[4] if len(given) > _ATTRIBUTES else named.get("attributes")
        found = [decision for head, decision in self._decisions.items() if name.startswith(head)]
        return SamplingResult(found[0] if found else Decision.RECORD_AND_SAMPLE, attributes)

    def get_description(self) -> str:
        """Says so."""
        return "ByName"


def held(span: ReadableSpan) -> dict[str, Any]:
    """A span's attributes as a plain dict."""
    return dict(span.attributes or {})


def sequences(spans: Sequence[ReadableSpan]) -> dict[str, list[int]]:
    """The sequence numbers on spans, by producer."""
    found: dict[str, list[int]] = {}
    for span in spans:
        attributes = held(span)
        if SEQUENCE in attributes:
            found.setdefault(attributes[PRODUCER], []).append(attributes[SEQUENCE])
    return found


def stuck_run(application: Application, calls: int = 3) -> None:
    """An agent that repeats one call, with a canary wherever content may sit; each span has a text of each sort."""
    agent = application.start(f"invoke_agent {CANARY} of a user", {**AGENT, "gen_ai.agent.name": f"{CANARY} of a user"})
    for _ in range(calls):
        chat = application.start("chat m", {**CHAT, MESSAGES: CANARY, "gen_ai.output.messages": CANARY}, agent)
        end_badly(chat)
        tool = application.start("execute_tool lookup", {**TOOL, ARGUMENTS: f'{{"a": "{CANARY}"}}'}, agent)
        tool.set_attribute(RESULT, f"{CANARY} found")
        inner = application.start("GET", {"http.request.method": "GET"}, tool)
        end_badly(inner)
        end_badly(tool)
    agent.set_attribute("gen_ai.output.messages", CANARY)
    end_badly(agent)


def end_badly(span: trace.Span) -> None:
    """Ends a span with content in an event, a link and its status."""
    span.add_event("exception", {"exception.message": CANARY, "exception.stacktrace": CANARY, "exception.type": "E"})
    span.add_event("gen_ai.client.inference.operation.details", {MESSAGES: CANARY})
    other = SpanContext(1, 2, is_remote=False, trace_flags=TraceFlags(1))
    if "GET" != getattr(span, "name", ""):
        span.add_link(other, {MESSAGES: CANARY})
    span.set_status(Status(StatusCode.ERROR, CANARY))
    span.end()
