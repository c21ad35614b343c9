"""What is proved before anything is promised: that exporters get what the processor left, on the installed SDK."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from otel_loopguard.errors import SdkError
from otel_loopguard.processor import proof, sdk
from otel_loopguard.processor.span_processor import LoopGuardSpanProcessor
from tests.processor.applications import KEY

LIMITS = (
    "OTEL_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT",
    "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT",
    "OTEL_SPAN_EVENT_COUNT_LIMIT",
    "OTEL_SPAN_LINK_COUNT_LIMIT",
)


MAKE: Final = "from otel_loopguard import LoopGuardSpanProcessor; print(dict(LoopGuardSpanProcessor().counts.failures))"


@pytest.mark.parametrize("value", ["0", "1", "5", ""])
def test_no_limit_of_the_application_decides_it(value: str) -> None:
    """The private provider has limits of its own: an application with odd ones gets its processor all the same."""
    made = subprocess.run(  # noqa: S603 - a program of ours
        [sys.executable, "-c", MAKE],
        env={"PYTHONPATH": str(Path(__file__).parents[2]), **dict.fromkeys(LIMITS, value)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ("{}\n", "") == (made.stdout, made.stderr)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_TRACES_SAMPLER", "always_off"),
        ("OTEL_TRACES_SAMPLER", "no such sampler"),
        ("OTEL_RESOURCE_ATTRIBUTES", "no equals sign"),
        ("OTEL_SDK_DISABLED", "true"),
        ("OTEL_SDK_DISABLED", " TRUE "),
        ("OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED", "true"),
    ],
)
def test_no_other_setting_of_the_application_decides_it(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor do its sampler, its resource, or that its SDK is switched off."""
    monkeypatch.setenv(name, value)
    assert {} == LoopGuardSpanProcessor(keys=KEY).counts.failures


def left_alone(*_: object) -> None:
    """Stands for a way of changing spans that a new SDK has made useless."""


def drops_all(span: Any, events: Any) -> None:
    """Puts events in place with the count of dropped ones lost."""
    span._events = tuple(events)  # noqa: SLF001 - as the SDK keeps them


@pytest.mark.parametrize(
    ("name", "change", "what"),
    [
        ("put_attributes", left_alone, "content was exported"),
        ("put_events", left_alone, "content was exported"),
        ("drop_status_text", left_alone, "content was exported"),
        ("put_events", drops_all, "the count of dropped events was lost"),
    ],
)
def test_a_change_that_does_not_reach_exporters_is_refused(
    name: str, change: Callable[..., None], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No processor is made that would promise what it cannot hold; the error says what, and which version to take."""
    monkeypatch.setattr(sdk, name, change)
    with pytest.raises(SdkError, match=rf"^with opentelemetry-sdk \d\S+ {what}, so .* install a version") as caught:
        LoopGuardSpanProcessor(keys=KEY)
    assert "canary" not in str(caught.value)


def test_a_sdk_without_the_hook_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where `_on_ending` is never called, an exporter that was registered first has seen the content."""
    monkeypatch.setattr(LoopGuardSpanProcessor, "_on_ending", left_alone)
    with pytest.raises(SdkError, match="content was exported"):
        LoopGuardSpanProcessor(keys=KEY)


@pytest.mark.parametrize("spans", [0, 2])
def test_spans_that_vanish_or_double_are_refused(spans: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One span goes in, one has to come out."""

    def several(self: SimpleSpanProcessor, span: ReadableSpan) -> None:
        self.span_exporter.export([span] * spans)

    monkeypatch.setattr(SimpleSpanProcessor, "on_end", several)
    with pytest.raises(SdkError, match=f"{spans} spans were exported in place of one"):
        LoopGuardSpanProcessor(keys=KEY)


def test_a_processor_that_does_nothing_is_refused() -> None:
    """The proof is of what reaches the exporters, whatever processor it is given."""
    with pytest.raises(SdkError, match="content was exported"):
        proof.prove(SpanProcessor)
