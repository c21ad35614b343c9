"""Makes the code of the package fail, call by call or function by function, without knowing how it is written."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import CO_GENERATOR
from types import CodeType, FrameType, FunctionType
from typing import Final

_PACKAGE: Final = "otel_loopguard."
_HOOKS: Final = frozenset({"on_start", "_on_ending", "on_ending", "on_end"})
"""What the SDK calls: nothing of ours stands around them that could catch what comes before their first line."""


def _is_ours(frame: FrameType) -> bool:
    code = frame.f_code
    if code.co_flags & CO_GENERATOR or code.co_name in _HOOKS:
        return False
    return str(frame.f_globals.get("__name__", "")).startswith(_PACKAGE)


def calls_in(scenario: Callable[[], object]) -> tuple[int, list[CodeType]]:
    """Returns how many calls of functions of ours a scenario makes on this thread, and of which; each once."""
    number, codes = 0, dict[CodeType, None]()

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal number
        if event == "call" and _is_ours(frame):
            number += 1
            codes[frame.f_code] = None

    with _tracing(count):
        scenario()
    return number, list(codes)


def sites_in(scenario: Callable[[], object]) -> list[tuple[int, CodeType]]:
    """Returns the first call from each place to each function: its number among all calls, and the function."""
    number, seen = 0, set[tuple[CodeType, CodeType | None, int]]()
    found: list[tuple[int, CodeType]] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal number
        if event != "call" or not _is_ours(frame):
            return
        number += 1
        caller = frame.f_back
        site = (frame.f_code, None if caller is None else caller.f_code, 0 if caller is None else caller.f_lineno)
        if site not in seen:
            seen.add(site)
            found.append((number, frame.f_code))

    with _tracing(note):
        scenario()
    return found


@contextmanager
def failing_once(at: int, error: BaseException) -> Iterator[None]:
    """Raises `error` at the start of the `at`-th call, from 1; Python then stops tracing, so once."""
    number = 0

    def fail(frame: FrameType, event: str, _: object) -> None:
        nonlocal number
        if event == "call" and _is_ours(frame):
            number += 1
            if number == at:
                raise error

    with _tracing(fail):
        yield


@contextmanager
def broken(code: CodeType, error: Exception) -> Iterator[bool]:
    """Has a function raise at each call; gives False where the function is made anew at each use."""
    function = next((one for one in gc.get_referrers(code) if isinstance(one, FunctionType)), None)
    if function is None or code.co_freevars:
        yield False
        return

    function.__globals__["__injected__"] = error
    function.__code__ = _raiser.__code__.replace(co_name=code.co_name)
    try:
        yield True
    finally:
        function.__code__ = code
        del function.__globals__["__injected__"]


def _raiser(*_: object, **__: object) -> None:
    raise __injected__  # type: ignore[name-defined] # noqa: F821 - stands among the broken function's globals


@contextmanager
def _tracing(function: Callable[[FrameType, str, object], None]) -> Iterator[None]:
    before = sys.gettrace()
    sys.settrace(function)
    try:
        yield
    finally:
        sys.settrace(before)
