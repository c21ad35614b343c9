"""Environments, providers and receivers for the tests of `doctor`."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from textwrap import dedent
from typing import Any, Final

import msgspec
import pytest
from opentelemetry.sdk.trace import (
    ReadableSpan,
    SpanProcessor,
    TracerProvider,
)
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from otel_loopguard.cli import main
from otel_loopguard.cli.checkup import Check, Diagnosis, Level, sounding
from otel_loopguard.processor.boundary import Boundary

ROOT: Final = Path(__file__).parents[2]
SECRET: Final = "s3cr3t-kNrY7x"  # noqa: S105 - to be looked for
GENAI: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
GOOD: Final = """
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
    from otel_loopguard import LoopGuardSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(LoopGuardSpanProcessor())
    provider.add_span_processor(BatchSpanProcessor(ConsoleSpanExporter()))
    trace.set_tracer_provider(provider)
"""


def clean_environ(**more: str) -> dict[str, str]:
    """This process's environment without what steers OpenTelemetry, and with more."""
    steering = ("OTEL_", "OPENINFERENCE_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "COVERAGE_PROCESS")
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith(steering)}
    return {**kept, "PYTHONPATH": str(ROOT), **more}


def doctor(*arguments: str, cwd: Path, **environ: str) -> tuple[int, list[Diagnosis]]:
    """Runs the command in this process; it says nothing but diagnoses."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.MonkeyPatch.context() as patch,
    ):
        for name in os.environ.keys() - clean_environ().keys():
            patch.delenv(name)
        for name, value in clean_environ(**environ).items():
            patch.setenv(name, value)
        code = main(["doctor", "--json", *arguments])
    assert ("", False) == (err.getvalue(), SECRET in out.getvalue())
    return code, [msgspec.json.decode(line, type=Diagnosis) for line in out.getvalue().splitlines()]


def doctor_apart(*arguments: str, cwd: Path, **environ: str) -> tuple[int, list[Diagnosis]]:
    """Runs the command as a user does."""
    ended = subprocess.run(  # noqa: S603 - our own command line
        [sys.executable, "-m", "otel_loopguard", "doctor", "--json", *arguments],
        cwd=cwd,
        env=clean_environ(**environ),
        capture_output=True,
        check=False,
    )
    assert (b"", False) == (ended.stderr, SECRET.encode() in ended.stdout)
    return ended.returncode, [msgspec.json.decode(line, type=Diagnosis) for line in ended.stdout.splitlines()]


def of(found: Sequence[Diagnosis], check: Check, *levels: Level) -> list[Diagnosis]:
    """The diagnoses of one check, of some levels or all."""
    return [one for one in found if one.check is check and one.level in (levels or tuple(Level))]


def write(path: Path, text: str) -> Path:
    """Writes a module."""
    path.write_text(dedent(text), encoding="utf-8")
    return path


def package(folder: Path, name: str, version: str) -> None:
    """Makes a package's metadata, as an installer leaves it."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")


class _Handler(BaseHTTPRequestHandler):
    """Answers with the server's status and keeps what came."""

    server: Any

    def do_POST(self) -> None:  # the name that the base class calls
        """Keep one request."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.received.append((self.path, {name.lower(): text for name, text in self.headers.items()}, body))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        if self.server.status // 100 == 3:
            self.send_header("Location", "/elsewhere")
        self.end_headers()

    def log_message(self, format: str, *_: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""


@contextlib.contextmanager
def server(status: int = 200) -> Generator[Any]:
    """An OTLP/HTTP receiver that answers with one status."""
    made: Any = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    made.status, made.received, made.daemon_threads = status, [], True
    made.url = f"http://127.0.0.1:{made.server_address[1]}"
    thread = threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.shutdown()
        made.server_close()
        thread.join()


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Kept(SpanExporter):
    """Keeps what it is given, as if it had sent it."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Keep them."""
        self.spans.extend(spans)
        return SpanExportResult.SUCCESS


class Holder(SpanProcessor):
    """A wrapper that does not pass on `_on_ending`."""

    def __init__(self, inner: SpanProcessor) -> None:
        self.inner = inner

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        """Pass on."""
        self.inner.on_start(span, parent_context)

    def on_end(self, span: ReadableSpan) -> None:
        """Pass on."""
        self.inner.on_end(span)


class AtStart(SpanProcessor):
    """Exports spans when they start, as Logfire's pending spans."""

    def __init__(self, exporter: SpanExporter) -> None:
        self.exporter = exporter

    def on_start(self, span: Any, parent_context: Any = None) -> None:  # noqa: ARG002 - the SDK's
        """Export it."""
        self.exporter.export([span])


def provider_of(*processors: SpanProcessor, **options: Any) -> TracerProvider:
    """A provider with these processors."""
    made = TracerProvider(shutdown_on_exit=False, **options)
    for one in processors:
        made.add_span_processor(one)
    return made


def sounded(provider: TracerProvider, *, everything: bool = False) -> list[Diagnosis]:
    """What the canary tells of a provider."""
    return list(sounding.sound(provider, Boundary(logging.getLogger("test")), everything))
