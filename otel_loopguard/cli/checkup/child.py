"""Runs an application's set-up code in a process of its own, and looks at the tracer provider that it left behind.

Invariants: whatever that code does, nothing of it reaches the user's terminal; what it raised is told by its class and
its own line, never by its text. The process ends without the usual farewells, so that nothing that was queued is sent.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import runpy
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

import msgspec
from opentelemetry import _logs, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_loopguard.cli import checkup
from otel_loopguard.cli.checkup import Check, Diagnosis, connection, installed, log_sounding, pipeline, sounding
from otel_loopguard.cli.checkup.trial import Line, Request
from otel_loopguard.digest import NameKind, looks_like_name
from otel_loopguard.errors import LoopGuardError
from otel_loopguard.processor.boundary import Boundary
from otel_loopguard.processor.configured import configured
from otel_loopguard.processor.install import sdk_provider
from otel_loopguard.processor.settings import Settings
from otel_loopguard.processor.span_processor import LoopGuardSpanProcessor
from otel_loopguard.words import safe

if TYPE_CHECKING:
    from types import TracebackType

_LOGGER: Final = logging.getLogger("otel_loopguard.doctor")
_SET_UP: Final = "mend it, or name code that only sets tracing up"


class _Noting(Boundary):
    """Keeps the last error instead of logging it."""

    def __init__(self) -> None:
        super().__init__(_LOGGER)
        self.last: Exception | None = None

    def caught(self, step: str, error: Exception) -> None:  # noqa: ARG002 - the base class's
        """Takes note of what a step raised."""
        self.last = error


class _Report:
    """Writes what is found as it is found: the process may not live to its end."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.boundary = _Noting()

    def write(self, line: Line) -> None:
        self._file.write(msgspec.json.encode(line).decode() + "\n")
        self._file.flush()

    def part(self, name: str, check: Check, function: Callable[..., Iterable[Diagnosis]], *arguments: Any) -> None:
        """Does one part of the work; where it fails that is one of the things found."""
        self.write(Line(part=name))
        self.boundary.run(name, self._all, function, arguments, otherwise=None)
        if self.boundary.last is not None:
            raised, self.boundary.last = self.boundary.last, None
            self.write(
                Line(
                    diagnosis=checkup.problem(check, f"{name} failed: {described(raised)}", "report it, with this line")
                )
            )

    def _all(self, function: Callable[..., Iterable[Diagnosis]], arguments: tuple[Any, ...]) -> None:
        for diagnosis in function(*arguments):
            self.write(Line(diagnosis=diagnosis))


def described(error: BaseException) -> str:
    """Returns the class of an error and the innermost line it came through, without its text, which may be content."""
    name = type(error).__name__
    shown = name if looks_like_name(name, kind=NameKind.ERROR_TYPE) else "an exception"
    if isinstance(error, ModuleNotFoundError) and error.name:
        shown += f" (no module {safe(error.name)})"
    place = _place(error.__traceback__)
    return f"{shown} at {place}" if place else shown


def _place(traceback: TracebackType | None) -> str:
    """The innermost line that is not the import system's: file name and line number."""
    place = ""
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if not file.startswith("<"):
            place = f"{safe(Path(file).name)}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return place


def removal() -> Iterator[Diagnosis]:
    """Says whether the SDK lets content be taken off."""
    try:
        LoopGuardSpanProcessor(remove_only=True)
    except LoopGuardError as error:
        yield checkup.problem(Check.REMOVAL, safe(str(error), limit=500), "install an SDK version that is supported")
    else:
        yield checkup.ok(Check.REMOVAL, "what an exporter gets is clean")


class _Loader:
    """Runs the application's set-up code and keeps the provider that it made."""

    def __init__(self, request: Request, boundary: _Noting) -> None:
        self._request = request
        self._boundary = boundary
        self.provider: TracerProvider | None = None

    def load(self) -> Iterator[Diagnosis]:
        """Runs it, and says what came of it."""
        request = self._request
        given: object = None
        name = request.app or request.script or ""
        if name:
            try:
                given = self._boundary.run("setup", self._run, otherwise=None)
            except SystemExit:
                yield checkup.problem(Check.SETUP, f"{safe(name, limit=200)} ended the process", _SET_UP)
                return
            if self._boundary.last is not None:
                raised, self._boundary.last = self._boundary.last, None
                what = f"{safe(name, limit=200)} failed: {described(raised)}"
                yield checkup.problem(Check.SETUP, what, f"{_SET_UP}; run it by itself to see all that it says")
                return
        self.provider = sdk_provider(given) or sdk_provider(trace.get_tracer_provider())
        if self.provider is None:
            yield checkup.problem(
                Check.SETUP,
                f"{safe(name, limit=200) or 'opentelemetry-instrument'} left no tracer provider of the SDK behind",
                "name code that calls trace.set_tracer_provider(), or returns the provider"
                if name
                else "pip install opentelemetry-distro, which sets one; or name your own code with --app",
            )
        else:
            kind = pipeline.name_of(self.provider)
            yield checkup.ok(Check.SETUP, f"{safe(name, limit=200) or 'opentelemetry-instrument'} left {kind} behind")

    def make(self) -> Iterator[Diagnosis]:
        """Makes the provider of the first lines of README, with the settings of this environment."""
        yield checkup.skipped(
            Check.SETUP,
            "no code of yours was named: a provider as README makes it is looked at",
            "name it with --app module:attribute or --script FILE",
        )
        found = configured(Settings.from_environ(os.environ), os.environ)
        try:
            provider = TracerProvider(shutdown_on_exit=False)
        except ValueError:
            yield checkup.problem(
                Check.LIMITS, "the SDK makes no provider with the limits of this environment", "mend OTEL_*_LIMIT"
            )
            return
        provider.add_span_processor(
            LoopGuardSpanProcessor(
                policy=found.policy, keys=found.keyring, content=found.content, remove_only=found.remove_only
            )
        )
        provider.add_span_processor(SimpleSpanProcessor(InMemorySpanExporter()))
        self.provider = provider

    def _run(self) -> object:
        if self._request.script is not None:
            path = str(Path(self._request.script).resolve())
            sys.argv = [path]
            sys.path.insert(0, str(Path(path).parent))
            # Not `__main__`: what stands under that condition is the application itself, which has effects.
            runpy.run_path(path, run_name="loopguard_doctor")
            return None
        module, _, attribute = (self._request.app or "").partition(":")
        sys.argv = [module]
        if not any(Path(one or ".").resolve() == Path.cwd() for one in sys.path):
            sys.path.insert(0, str(Path.cwd()))
        found: Any = import_module(module)
        for name in attribute.split(".") if attribute else ():
            found = getattr(found, name)
        if callable(found) and not isinstance(found, trace.TracerProvider):
            found = found()
        return asyncio.run(found) if inspect.iscoroutine(found) else found


def _endpoints(parts: tuple[pipeline.Part, ...]) -> Iterator[Diagnosis]:
    """Tries where exporters that were made in code send to."""
    tried: set[str] = set()
    for part in parts:
        for exporter in part.exporters:
            inner = pipeline.inner_exporter(exporter)
            url = getattr(inner, "_endpoint", None)
            if isinstance(url, str) and url not in tried and type(inner).__module__.startswith("opentelemetry."):
                tried.add(url)
                yield connection.reachable(url, type(inner).__name__)


def run(request: Request, file: TextIO) -> None:
    """Does all of it, and writes what is found line by line."""
    report = _Report(file)
    report.part("the SDK", Check.REMOVAL, removal)
    loader = _Loader(request, _Noting())
    if request.own:
        report.part("your set-up code", Check.SETUP, loader.load)
    else:
        report.part("the default provider", Check.SETUP, loader.make)
    here = installed.Here(installed.installed(), os.environ, sys.modules)
    report.part("what is recorded", Check.RECORDING, installed.recording, here)
    if loader.provider is not None:
        _look(request, report, loader.provider)
    report.write(Line(ended=True))


def _look(request: Request, report: _Report, provider: TracerProvider) -> None:
    parts = pipeline.parts_of(provider)
    if request.own:
        report.part("its processors", Check.PROCESSORS, pipeline.processors, parts)
        report.part("its exporters", Check.EXPORTERS, pipeline.exporters, parts)
    report.part("its limits", Check.LIMITS, pipeline.limits, provider)
    others = Boundary(_LOGGER)
    report.part("the canary", Check.CANARY, sounding.sound, provider, others, request.all_processors)
    if request.own:
        logs = _logs.get_logger_provider()
        report.part("the log canary", Check.LOGS, log_sounding.sound_logs, logs, others, request.all_processors)
    if request.own and request.endpoints:
        report.part("its endpoints", Check.CONNECTION, _endpoints, parts)


def main() -> None:
    """Entry of the child: a request and the file to write to."""
    request = msgspec.json.decode(sys.argv[1], type=Request)
    logging.disable(logging.CRITICAL)
    with Path(sys.argv[2]).open("w", encoding="utf-8") as file:
        run(request, file)
    # No `atexit`: providers would send what is queued, and metrics that count the canary.
    os._exit(0)


if __name__ == "__main__":
    main()
