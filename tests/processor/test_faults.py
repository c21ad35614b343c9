"""What goes wrong in any step of ours never reaches the application, and lets no content through."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry._logs import NoOpLoggerProvider
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.trace import Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_loopguard import canonical, dialects
from otel_loopguard.content import Cleaner
from otel_loopguard.digest import Digester
from otel_loopguard.facts import FactsReader
from otel_loopguard.policy import ContentRule
from otel_loopguard.processor import boundary, sdk, span_processor
from otel_loopguard.processor.boundary import Boundary
from otel_loopguard.processor.live import LiveRuns
from otel_loopguard.processor.nodes import Nodes
from otel_loopguard.processor.span_processor import LoopGuardSpanProcessor
from otel_loopguard.tracker import Tracker
from tests.processor.applications import (
    AGENT,
    ARGUMENTS,
    DIGEST,
    RESULT,
    SEQUENCE,
    TOOL,
    UNKNOWN,
    Application,
    end_badly,
    held,
    sequences,
    stuck_run,
)
from tests.processor.canaries import CANARY
from tests.processor.injecting import broken, calls_in, failing_once, sites_in

ERRORS = (ValueError, MemoryError, RecursionError)


def is_quiet(code: CodeType) -> bool:
    """Tells of a function of the canonical form: an error there means that a value has none: a reason, no failure."""
    return Path(code.co_filename).parent == Path(canonical.__file__).parent


SAYING = "looks_like_name"
"""What asks whether an error's class may be named: without it a failure is only counted."""


@pytest.fixture(autouse=True)
def _warm() -> None:
    """Caches filled by first calls make the later ones alike."""
    stuck_run(Application())


def raising(error: BaseException) -> Callable[..., Any]:
    """A function that raises whatever it is called with."""

    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def test_the_scenario_holds_canaries_and_is_a_finding() -> None:
    """Without ours the canary is exported in every span; with ours it is gone, and the run is found stuck."""
    memory = InMemorySpanExporter()
    bare = TracerProvider(shutdown_on_exit=False)
    bare.add_span_processor(SimpleSpanProcessor(memory))
    application = Application()
    application.tracer = bare.get_tracer("bare")
    stuck_run(application)
    assert [True] * 10 == [CANARY in span.to_json() for span in memory.get_finished_spans()]
    application = Application()
    stuck_run(application)
    assert 10 == len(application.spans)
    assert CANARY not in application.text()
    assert {"error_repeat": 1} == application.processor.counts.findings
    assert {} == application.processor.counts.failures


# --- any call, any function ----------------------------------------------------------------------------------


def test_a_failure_at_any_call_is_caught_and_counted() -> None:
    """One error at the first call from each place: no exception, no canary, every span exported, one failure."""
    application = Application()
    sites = sites_in(lambda: stuck_run(application))
    assert len(sites) > 200
    for turn, (at, code) in enumerate(sites):
        name = code.co_qualname
        application = Application()
        with failing_once(at, ERRORS[turn % len(ERRORS)](CANARY)):
            stuck_run(application)
        assert CANARY not in application.text(), name
        assert 10 == len(application.spans), name
        failures = application.processor.counts.failures
        assert sum(failures.values()) == 1 or is_quiet(code), (name, failures)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_exit_at_any_call_passes_and_lets_nothing_through(error: type[BaseException]) -> None:
    """What is no `Exception` reaches the application from wherever it comes, and no content leaves with it."""
    application = Application()
    sites = sites_in(lambda: stuck_run(application))
    for at, code in sites[:: len(sites) // 80]:
        application = Application()
        with pytest.raises(error), failing_once(at, error(CANARY)):
            stuck_run(application)
        assert CANARY not in application.text(), code
        assert {} == application.processor.counts.failures, code


def test_a_function_that_always_fails_is_caught_at_each_call(caplog: pytest.LogCaptureFixture) -> None:
    """Each of our functions broken for good: no exception, no canary, and each step says so once."""
    application = Application()
    _, codes = calls_in(lambda: stuck_run(application))
    done = 0
    for turn, code in enumerate(codes):
        name = code.co_qualname
        if code.co_filename == boundary.__file__:
            continue
        application = Application()
        caplog.clear()
        with broken(code, ERRORS[turn % len(ERRORS)](CANARY)) as is_broken:
            if not is_broken:
                continue
            stuck_run(application)
        done += 1
        assert CANARY not in application.text(), name
        assert CANARY not in caplog.text, name
        assert 10 == len(application.spans), name
        failures = application.processor.counts.failures
        said = [record.getMessage().partition(" failed: ")[0] for record in caplog.records]
        assert sorted(said) == ([] if code.co_name == SAYING else sorted(failures)), name
        assert failures or is_quiet(code), name
    assert done > 150


# --- step by step --------------------------------------------------------------------------------------------

STEPS: tuple[tuple[str, object, str], ...] = (
    ("start", Nodes, "start"),
    ("end", Nodes, "of"),
    ("end", span_processor, "received"),
    ("dialect", dialects, "read"),
    ("end", Cleaner, "without_content"),
    ("end", sdk, "put_attributes"),
    ("end", sdk, "put_events"),
    ("end", sdk, "put_links"),
    ("end", sdk, "drop_status_text"),
    ("end", sdk, "mapping_of"),
    ("facts", FactsReader, "of_reading"),
    ("facts", Digester, "call"),
    ("detectors", LiveRuns, "observe"),
    ("detectors", Tracker, "observe"),
    ("run", LiveRuns, "answer"),
    ("facts", LiveRuns, "number"),
)


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize(("step", "owner", "name"), STEPS, ids=[f"{step}-{name}" for step, _, name in STEPS])
def test_a_broken_step_is_counted_under_its_name(
    step: str,
    owner: object,
    name: str,
    error: type[Exception],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The step is counted each time and said once, as the error's class and a line of ours."""
    application = Application()
    monkeypatch.setattr(owner, name, raising(error(CANARY)))
    stuck_run(application)
    monkeypatch.undo()
    assert CANARY not in application.text() + caplog.text
    assert 10 == len(application.spans)
    assert application.processor.counts.failures[step] > 1
    said = [text for text in caplog.messages if text.startswith(f"{step} failed: {error.__name__} at otel_loopguard.")]
    assert 1 == len(said)
    assert [None] * len(caplog.records) == [record.exc_info for record in caplog.records]


def test_a_call_that_could_not_be_digested_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the facts lost a tool span carries no digest and no number, but the reason; the next one is whole."""
    application = Application()
    with monkeypatch.context() as patch:
        patch.setattr(FactsReader, "of_reading", raising(ValueError(CANARY)))
        application.call()
    application.call()
    first, second = (held(span) for span in application.spans)
    assert ("not_configured", None, None) == (first[UNKNOWN], first.get(DIGEST), first.get(SEQUENCE))
    assert (None, 1) == (second.get(UNKNOWN), second[SEQUENCE])
    assert {"not_configured": 1} == application.processor.counts.unreadable


def test_a_call_that_could_not_be_compared_keeps_its_digest_and_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scorer judges what the detectors here could not."""
    application = Application()
    monkeypatch.setattr(LiveRuns, "observe", raising(MemoryError(CANARY)))
    agent = application.start("invoke_agent helper", AGENT)
    application.call(agent)
    application.call(agent)
    assert [1, 2] == next(iter(sequences(application.spans).values()))
    assert [True, True] == [DIGEST in held(span) for span in application.spans]


def test_a_failure_ends_with_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed for a while works again afterwards: nothing is switched off for good."""
    application = Application()
    with monkeypatch.context() as patch:
        patch.setattr(Tracker, "observe", raising(RecursionError(CANARY)))
        stuck_run(application)
    stuck_run(application)
    assert {"detectors": 3} == application.processor.counts.failures
    assert {"error_repeat": 1} == application.processor.counts.findings


def test_spans_below_a_tool_whose_start_was_missed_keep_no_error_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands above a span is then not known, and may be a tool."""
    application = Application()
    with monkeypatch.context() as patch:
        patch.setattr(Nodes, "start", raising(MemoryError()))
        tool = application.start("execute_tool lookup", dict(TOOL))
    inner = application.start("GET", {}, tool)
    end_badly(inner)
    end_badly(tool)
    assert CANARY not in application.text()


# --- what the application gave us ----------------------------------------------------------------------------


def test_a_callback_that_raises_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    """The application's own `on_finding` does not stop its spans."""
    application = Application(on_finding=raising(ValueError(CANARY)))
    stuck_run(application)
    assert {"on_finding": 1} == application.processor.counts.failures
    assert 10 == len(application.spans)
    assert CANARY not in application.text() + caplog.text


def test_a_callback_that_exits_passes() -> None:
    """A callback may end the process on a finding, with everything clean by then."""
    application = Application(on_finding=raising(SystemExit(3)))
    with pytest.raises(SystemExit):
        stuck_run(application)
    assert CANARY not in application.text()


def test_a_logger_provider_that_raises_is_counted() -> None:
    """The event is lost; the callback is still called."""

    class Refusing(NoOpLoggerProvider):
        get_logger = raising(ValueError(CANARY))

    told: list[object] = []
    application = Application(logger_provider=Refusing(), on_finding=told.append)
    stuck_run(application)
    assert {"event": 1} == application.processor.counts.failures
    assert 1 == len(told)


def test_a_meter_provider_that_raises_is_counted() -> None:
    """The processor works without its instruments."""

    class Refusing(NoOpMeterProvider):
        get_meter = raising(ValueError(CANARY))

    application = Application(meter_provider=Refusing())
    stuck_run(application)
    assert {"meter": 1} == application.processor.counts.failures
    assert {"error_repeat": 1} == application.processor.counts.findings


@pytest.fixture
def refusing_logger() -> Iterator[None]:
    """A handler on our logger that raises, as one in an application's logging set-up may."""

    class Refusing(logging.Handler):
        def handle(self, record: logging.LogRecord) -> bool:
            raise RuntimeError(record.getMessage())

    logger, handler = logging.getLogger("otel_loopguard"), Refusing()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield
    logger.setLevel(level)
    logger.removeHandler(handler)


@pytest.mark.usefixtures("refusing_logger")
def test_a_log_handler_that_raises_does_not_get_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not when a processor is made, not when a failure is said, not at shutdown."""
    application = Application()
    assert {"log": 1} == application.processor.counts.failures
    with monkeypatch.context() as patch:
        patch.setattr(LiveRuns, "observe", raising(ValueError(CANARY)))
        stuck_run(application)
    application.start("execute_tool x", TOOL).end()
    application.provider.shutdown()
    assert {"log": 1, "detectors": 3, "summary": 1} == application.processor.counts.failures
    assert CANARY not in application.text()


@pytest.mark.usefixtures("refusing_logger")
def test_a_log_handler_that_raises_costs_a_late_span_nothing() -> None:
    """The warning of a wrapped processor fails; the span is digested all the same."""

    class Hiding(SpanProcessor):
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def on_start(self, span: Span, parent_context: Any = None) -> None:
            self._inner.on_start(span, parent_context)

        def _on_ending(self, span: Span) -> None:
            pass

        def on_end(self, span: Any) -> None:
            self._inner.on_end(span)

    application = Application(wrap=Hiding)
    application.call(result=CANARY)
    (span,) = application.spans
    assert DIGEST in held(span)
    assert CANARY not in span.to_json()


# --- odd clocks, little stack, little room ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "end"),
    [(0, 0), (-5, -3), (10, 5), (2**70, 2**70 + 1), (1.5, 2.5), (None, 2**65), (None, float("nan")), ("x", "y")],
)
def test_no_clock_is_too_odd(start: Any, end: Any) -> None:
    """Times that stand still, run back, are floats of seconds, or are none at all: digested, numbered, clean."""
    application = Application()
    for _ in range(4):
        span = application.tracer.start_span(
            "execute_tool lookup", attributes={**TOOL, ARGUMENTS: '{"a": 1}', RESULT: CANARY}, start_time=start
        )
        span.end(end)
    found = [held(one) for one in application.after.get_finished_spans()]
    assert [True] * 4 == [DIGEST in one and SEQUENCE in one for one in found]
    assert [False] * 4 == [CANARY in str(one) for one in found]


def ends_at(depth: int, span: trace.Span) -> bool:
    """Ends a span so many calls deep; tells whether that raised."""
    if depth > 0:
        return ends_at(depth - 1, span)
    try:
        span.end()
    except RecursionError:
        return True
    return False


@pytest.mark.parametrize("content", list(ContentRule))
def test_little_stack_is_no_way_through(content: ContentRule) -> None:
    """However near the limit of recursion a span ends, what a bare SDK survives we survive, and nothing is left."""
    bare = TracerProvider(shutdown_on_exit=False)
    bare.add_span_processor(SimpleSpanProcessor(InMemorySpanExporter()))
    tracer = bare.get_tracer("bare")
    attributes = {**TOOL, ARGUMENTS: f'{{"a": "{CANARY}"}}', RESULT: CANARY}
    ours = Application(content=content)
    ours.call()
    limit = sys.getrecursionlimit()
    here = len(list(_frames()))
    survived = 0
    for room in range(80):
        depth = limit - here - room
        bare_span = tracer.start_span("execute_tool lookup", attributes=attributes)
        span = ours.start("execute_tool lookup", attributes)
        try:
            raised = ends_at(depth, bare_span)
        except RecursionError:
            continue  # there was no room to get there
        assert raised or not ends_at(depth, span), room
        survived += not raised
    assert survived > 10
    assert sum(ours.processor.counts.failures.values()) > 1
    if content is not ContentRule.KEEP:
        assert CANARY not in ours.text()


def _frames() -> Iterator[object]:
    frame: Any = sys._getframe(1)  # noqa: SLF001 - how deep a test runs is nobody's public knowledge
    while frame is not None:
        yield frame
        frame = frame.f_back


def test_a_failure_within_the_counting_of_one_does_not_hang() -> None:
    """A signal or the garbage collector may end a span that fails while a failure is counted: the lock lets it in."""
    boundary_ = Boundary(logging.getLogger("tests.faults"))

    class Counting(dict[str, int]):
        def get(self, key: str, default: Any = None) -> Any:
            if key == "outer":
                boundary_.caught("inner", ValueError())
            return super().get(key, default)

    boundary_._counts = Counting()  # noqa: SLF001 - where the interruption is to come
    boundary_.caught("outer", ValueError())
    assert {"inner": 1, "outer": 1} == boundary_.failures


def test_what_cannot_be_emptied_is_stripped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the way of emptying a span fails too, nothing but its place and its times is left."""
    application = Application()
    monkeypatch.setattr(LoopGuardSpanProcessor, "emptied", raising(ValueError(CANARY)))
    monkeypatch.setattr(span_processor, "received", raising(ValueError(CANARY)))
    span = application.start("execute_tool lookup", {**TOOL, RESULT: CANARY})
    end_badly(span)
    (found,) = application.spans
    assert ("unreadable", {}, (), ()) == (found.name, held(found), found.events, found.links)
    assert {"end": 1, "empty": 1} == application.processor.counts.failures
    assert CANARY not in application.text()
