"""Puts the processors into the global providers, as the environment says.

Invariants: nothing happens without `OTEL_LOOPGUARD_ENABLED=true`; each thing that is wrong is one line of the log.
Where providers are not set yet, because no distribution is installed and the application sets its own later, the API's
`set_tracer_provider` and `set_logger_provider` are replaced until they have been called: OpenTelemetry has no hook for
this, and content would leave until somebody noticed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import wraps
from types import ModuleType
from typing import Any, Final

from opentelemetry import _logs, trace

from otel_loopguard.errors import LoopGuardError
from otel_loopguard.keys import ephemeral_key
from otel_loopguard.policy import ContentRule, Policy
from otel_loopguard.processor.boundary import Boundary
from otel_loopguard.processor.configured import Configured, configured
from otel_loopguard.processor.install import install
from otel_loopguard.processor.install_logs import install_logs, sdk_logger_provider
from otel_loopguard.processor.logs import LoopGuardLogRecordProcessor
from otel_loopguard.processor.settings import ENABLED, MODE, VARIABLES, Mode, Settings
from otel_loopguard.processor.span_processor import LoopGuardSpanProcessor

_LOGGER: Final = logging.getLogger("otel_loopguard")
_KNOWN: Final = frozenset(variable.name for variable in VARIABLES)
_LEAKS: Final = "content is NOT removed"


def begin(environ: Mapping[str, str], boundary: Boundary) -> None:
    """Reads the settings, says what is wrong with them, and puts the processors in place or waits for providers.

    Args:
        environ: environment variables.
        boundary: what is done later, when the application sets its providers, is done inside it.
    """
    settings = Settings.from_environ(environ)
    for problem in settings.problems:
        # Where nothing is switched on, a mistake matters only if it may be why.
        if settings.enabled or problem.variable == ENABLED or problem.variable not in _KNOWN:
            _LOGGER.warning("%s", problem.line)
    if not settings.enabled or settings.sdk_disabled:
        return
    if settings.mode is Mode.OFF:
        _LOGGER.info("%s=%s: no digest is made and no content is removed", MODE, Mode.OFF)
        return
    otherwise = Configured(content=settings.content, remove_only=True)
    found = boundary.run("reading key and policy", configured, settings, environ, otherwise=otherwise)
    for problem in found.problems:
        _LOGGER.error("%s", problem.line)
    _Placing(found, boundary).begin()


class _Placing:
    """Adds to the providers that are there, and waits for those that are not."""

    def __init__(self, found: Configured, boundary: Boundary) -> None:
        self._found = found
        self._boundary = boundary
        self._processor: LoopGuardSpanProcessor | None = None
        self._cleaner: LoopGuardLogRecordProcessor | None = None

    def begin(self) -> None:
        if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            self._when_set(trace, "set_tracer_provider", self._spans)
        else:
            self._guarded(self._spans)
        if sdk_logger_provider(_logs.get_logger_provider()) is not None:
            self._guarded(self._records)
        else:
            self._when_set(_logs, "set_logger_provider", self._records)

    def _when_set(self, module: ModuleType, name: str, then: Callable[[], None]) -> None:
        """Calls `then` once the application has called the API's function of that name."""
        original: Callable[..., object] = getattr(module, name)
        once = iter((True,))

        @wraps(original)
        def set_and_tell(*arguments: Any, **named: Any) -> object:
            answer = original(*arguments, **named)
            if getattr(module, name) is set_and_tell:  # not where somebody else has put theirs around it
                setattr(module, name, original)
            if next(once, False):
                self._guarded(then)
            return answer

        setattr(module, name, set_and_tell)

    def _guarded(self, then: Callable[[], None]) -> None:
        self._boundary.run("setting up without code", self._told, then, otherwise=None)

    def _told(self, then: Callable[[], None]) -> None:
        try:
            then()
        except LoopGuardError as error:
            _LOGGER.error("%s; %s", error, _LEAKS)  # noqa: TRY400 - the line says all, a traceback nothing

    def _spans(self) -> None:
        found = self._found
        self._processor = install(
            trace.get_tracer_provider(),
            policy=found.policy,
            keys=found.keyring,
            content=found.content,
            remove_only=found.remove_only,
            watch=found.watch,
        )
        if found.watch is not None:
            found.watch.changed = self._changed

    def _records(self) -> None:
        found = self._found
        rule = found.content or (ContentRule.DROP_ALL if found.policy is None else found.policy.content)
        self._cleaner = install_logs(_logs.get_logger_provider(), content=rule, keys=found.keyring or ephemeral_key())

    def _changed(self, policy: Policy) -> None:
        """Takes a policy that was read anew; runs on the watch's thread."""
        if self._processor is not None:
            self._processor.set_policy(policy)
        if self._cleaner is not None and self._found.content is None:
            self._cleaner.set_content(policy.content)
