"""Reads a policy from disk and finds its progress functions: the only I/O of this package."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final

from otel_loopguard.errors import PolicyError
from otel_loopguard.policy.build import load
from otel_loopguard.policy.nodes import MAX_BYTES, printable

if TYPE_CHECKING:
    from os import PathLike

    from otel_loopguard.policy.document import Policy
    from otel_loopguard.policy.progress import ProgressCallable

ENTRY_POINT_GROUP: Final = "otel_loopguard.progress"


def load_file(path: str | PathLike[str], *, source: str | None = None) -> Policy:
    """Reads a policy file, with progress functions from installed packages.

    Args:
        path: the file.
        source: its name in messages; its path if None.

    Raises:
        PolicyError: the file cannot be read, is not UTF-8, or holds no usable policy.
        MissingExtraError: it needs a library that is not installed.
    """
    name = printable(str(path) if source is None else source, limit=200)
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - takes whatever `open` takes
            raw = file.read(MAX_BYTES + 1)
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise PolicyError((f"{name}: cannot be read ({error.strerror}); check the path and its permissions",)) from None
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise PolicyError((f"{name}:{line}:1: the file is not UTF-8; save it as UTF-8",)) from None
    except ValueError:
        raise PolicyError((f"{name}: this is not a path",)) from None
    return load(text, source=name, resolver=entry_point)


def entry_point(name: str) -> ProgressCallable | None:
    """The progress function of that name from the installed packages; None if there is none or it does not load."""
    for found in entry_points(group=ENTRY_POINT_GROUP, name=name):
        try:
            function: Any = found.load()
        except Exception:  # noqa: BLE001 - another package's import may raise anything; the policy error names it
            return None
        usable: ProgressCallable | None = function if callable(function) else None
        return usable
    return None
