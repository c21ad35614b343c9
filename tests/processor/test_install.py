"""Where `install` puts the processor: into the SDK's provider, behind whatever an application has around it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ConcurrentMultiSpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import otel_loopguard
from otel_loopguard.errors import InstallError, KeyConfigError
from otel_loopguard.policy import ContentRule
from otel_loopguard.processor.install import install
from tests.processor.applications import DIGEST, KEY, RESULT, TOOL, held
from tests.processor.canaries import CANARY

ROOT: Final = Path(__file__).parents[2]


class Wrapper(trace.TracerProvider):
    """A provider of somebody else's around another one."""

    def __init__(self, inner: Any) -> None:
        self._under = inner

    def get_tracer(self, *arguments: Any, **named: Any) -> trace.Tracer:
        """The inner provider's."""
        tracer: trace.Tracer = self._under.get_tracer(*arguments, **named)
        return tracer


class Alike:
    """Looks like a provider and is none by type, as proxies are that hand on every attribute."""

    def __init__(self, inner: Any) -> None:
        self.wrapped = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.wrapped, name)


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    """Gets what leaves."""
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter: InMemorySpanExporter) -> TracerProvider:
    """An application's, whose exporter was there before us."""
    made = TracerProvider(shutdown_on_exit=False)
    made.add_span_processor(SimpleSpanProcessor(exporter))
    return made


def call(provider: Any, exporter: InMemorySpanExporter) -> dict[str, Any]:
    """Makes a tool call through whatever the application holds; returns what was exported of it."""
    exporter.clear()
    provider.get_tracer("app").start_span("execute_tool lookup", attributes={**TOOL, RESULT: CANARY}).end()
    (span,) = exporter.get_finished_spans()
    assert CANARY not in span.to_json()
    return held(span)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda inner: inner,
        Wrapper,
        lambda inner: Wrapper(Wrapper(inner)),
        Alike,
        lambda inner: Alike(Wrapper(inner)),
    ],
    ids=["bare", "wrapped", "twice", "alike", "mixed"],
)
def test_it_finds_the_sdks_provider(wrap: Any, provider: TracerProvider, exporter: InMemorySpanExporter) -> None:
    """Whatever stands around it, spans of the application are digested and clean."""
    outer = wrap(provider)
    processor = install(outer, keys=KEY)
    assert DIGEST not in call(outer, exporter)  # it has no arguments
    assert 1 == processor.counts.tool_calls


def test_twice_is_once(provider: TracerProvider, exporter: InMemorySpanExporter) -> None:
    """The second call gives the first's processor, through a wrapper too."""
    first = install(provider, keys=KEY)
    assert first is install(Wrapper(provider), keys=KEY, content=ContentRule.KEEP)
    call(provider, exporter)
    assert 1 == first.counts.tool_calls


def test_a_concurrent_multi_processor_is_as_good(exporter: InMemorySpanExporter) -> None:
    """Twice is once there as well."""
    provider = TracerProvider(shutdown_on_exit=False, active_span_processor=ConcurrentMultiSpanProcessor(2))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    first = install(provider, keys=KEY)
    assert first is install(provider, keys=KEY)
    call(provider, exporter)


def test_options_are_the_processors(provider: TracerProvider) -> None:
    """They are handed on as they are."""
    assert ContentRule.DROP_TOOL is install(provider, keys=KEY, content=ContentRule.DROP_TOOL).content


@pytest.mark.parametrize("odd", [object(), None.__class__, Wrapper(trace.NoOpTracerProvider()), Wrapper(None), "text"])
def test_what_holds_no_provider_of_the_sdk_is_named(odd: Any) -> None:
    """The error says what was given and what to do."""
    with pytest.raises(InstallError, match=rf"{type(odd).__name__} holds none: call install\(\) after"):
        install(odd, keys=KEY)


def test_wrappers_in_a_ring_end() -> None:
    """A wrapper that holds itself is no endless search."""
    ring = Wrapper(None)
    ring._under = Wrapper(ring)  # noqa: SLF001 - our own
    with pytest.raises(InstallError):
        install(ring, keys=KEY)


def test_an_unusable_key_is_refused_before_anything_is_added(
    provider: TracerProvider, exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The application keeps its provider as it was."""
    monkeypatch.setenv("OTEL_LOOPGUARD_KEY", "short")
    with pytest.raises(KeyConfigError):
        install(provider)
    provider.get_tracer("app").start_span("execute_tool x", attributes=TOOL).end()
    assert TOOL == held(exporter.get_finished_spans()[0])


def test_it_is_a_public_name() -> None:
    """What README shows."""
    assert install is otel_loopguard.install


# --- the global provider, in a process of its own -------------------------------------------------------------

GLOBAL: Final = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
import otel_loopguard
from otel_loopguard.errors import InstallError

early = trace.get_tracer("early")
try:
    otel_loopguard.install()
except InstallError as error:
    print(error)
memory = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(memory))
trace.set_tracer_provider(provider)
processor = otel_loopguard.install()
attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "x", "gen_ai.tool.call.result": "kNrY7x"}
early.start_span("execute_tool x", attributes=attributes).end()
trace.get_tracer("late").start_span("execute_tool x", attributes=attributes).end()
print(processor.counts.tool_calls, "kNrY7x" in "".join(span.to_json() for span in memory.get_finished_spans()))
"""


def global_provider(**environ: str) -> list[str]:
    """What the program says."""
    ended = subprocess.run(  # noqa: S603 - a program of ours
        [sys.executable, "-c", GLOBAL],
        env={"PYTHONPATH": str(ROOT), "PATH": "", **environ},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert CANARY not in ended.stdout + ended.stderr
    return ended.stdout.splitlines()


def test_the_global_provider() -> None:
    """Before it is set there is an error that says so; afterwards tracers from before are covered, too."""
    said, counted = global_provider()
    assert "no tracer provider is set: call install() after trace.set_tracer_provider()" in said
    assert "2 False" == counted


def test_a_sdk_that_is_switched_off_makes_it_inert() -> None:
    """No proof, no span, no error."""
    assert "0 False" == global_provider(OTEL_SDK_DISABLED="true")[-1]


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_LOOPGUARD_KEY", raising=False)
    monkeypatch.delenv("OTEL_LOOPGUARD_KEY_FILE", raising=False)
