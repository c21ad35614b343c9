"""Shows names from outside, and span names made of them, so that no prompt passes as a name.

Invariants: a name that looks like one stays as it is; any other becomes `_n:` and 8 hex of a digest keyed for its
trace. Pure but for the key, which is looked for in the environment once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Final

from otel_loopguard import keys as key_sources
from otel_loopguard.content import NAME_KEYS, Checked, KeyKind, kind_of_key
from otel_loopguard.dialects import PLACEHOLDERS, Reading
from otel_loopguard.digest import Key, Keyring, NameKind, checked_name, looks_like_name
from otel_loopguard.model import Value

MAX_SPAN_NAME: Final = 256
"""Characters of a span's name that may be shown; a longer one is no name."""

_TELLING: Final = frozenset({KeyKind.NAME, KeyKind.CONTENT, KeyKind.WORD})
_CONSTANT: Final = frozenset({"(merged)"})
"""What frameworks write in a name's place: google-adk, for a response to several calls."""
_SUFFIX: Final = re.compile(r"(?:\.[A-Za-z_]{1,32}){0,2}")
"""What instrumentations put behind a name."""
_BEFORE: Final = r"(?:execute|invoke|create)_[a-z]+ |agent_handoff |handoff to |(?:MCP send )?tools/call "
_BEHIND: Final = r"\.(?:agent|handoff|kickoff|run|task|tool|workflow|__call__)"
_AROUND: Final = (
    re.compile(f"(?P<head>{_BEFORE})(?P<name>.+)(?P<tail>)", re.DOTALL),
    re.compile(f"(?P<head>)(?P<name>.+)(?P<tail>{_BEHIND})", re.DOTALL),
)
"""What conventions and instrumentations put around a name, whether or not an attribute has the name, too."""


def as_keyring(keys: Keyring | Key | None) -> Keyring:
    """Returns the keyring that a component of ours works with.

    Args:
        keys: a keyring to share, a key, or None for the one that the environment names.

    Raises:
        KeyConfigError: the environment names a key that cannot be used.
    """
    if isinstance(keys, Keyring):
        return keys
    return Keyring(key_sources.load_key(os.environ) if keys is None else keys)


def names_of(keyring: Keyring, trace_id: str) -> Checked:
    """Returns what shows names in one trace.

    Args:
        keyring: whose digester of the trace is asked for at the first name that does not look like one.
        trace_id: 32 lower-case hex.
    """

    def checked(name: str, kind: NameKind) -> str:
        if name in PLACEHOLDERS or looks_like_name(name, kind=kind):
            return name
        return checked_name(name, keyring.for_trace(trace_id), kind=kind)

    return checked


def odd_names(reading: Reading) -> tuple[str, ...]:
    """Returns the names of a span's tool and agent that do not look like names."""
    tool, agent = reading.tool, reading.agent
    if (not tool or looks_like_name(tool, kind=NameKind.TOOL)) and (
        not agent or looks_like_name(agent, kind=NameKind.AGENT)
    ):
        return ()
    odd = (name for name in (tool, agent) if name and not looks_like_name(name, kind=NameKind.OTHER))
    return tuple(dict.fromkeys(odd))


def shown_span_name(name: str, attributes: Mapping[str, Value], reading: Reading, checked: Checked) -> str:
    """Returns the name of a span that a dialect knows as it may be shown.

    Names of tools and agents, and content, that the span carries and that do not look like names are digested. What
    follows one is kept only if instrumentations write such suffixes: the attribute may have been cut by a limit that
    the span's name is not under. A name that is too long, or cannot be printed, is digested whole.

    Args:
        name: the span's.
        attributes: the span's, before anything was removed.
        reading: the span as its dialect reads it.
        checked: shows names in its trace.
    """
    if looks_like_name(name, kind=NameKind.OTHER):
        return name
    for odd, kind in sorted(_odd_names(attributes, reading), key=lambda pair: -len(pair[0])):
        head, found, tail = name.partition(odd)
        if found:
            name = head + checked(odd, kind) + (tail if _SUFFIX.fullmatch(tail) else "")
    for shape in _AROUND:
        parts = shape.fullmatch(name)
        if parts is not None and parts["name"] not in _CONSTANT:
            name = parts["head"] + checked(parts["name"], NameKind.OTHER) + parts["tail"]
    return name if len(name) <= MAX_SPAN_NAME and name.isprintable() else checked(name, NameKind.OTHER)


def _odd_names(attributes: Mapping[str, Value], reading: Reading) -> Iterator[tuple[str, NameKind]]:
    for name, kind in ((reading.tool, NameKind.TOOL), (reading.agent, NameKind.AGENT)):
        if name and not looks_like_name(name, kind=kind):
            yield name, kind
    for key, text in attributes.items():
        # Content, too: some instrumentations name the span of a task by the task's description.
        if isinstance(text, str) and 0 < len(text) <= MAX_SPAN_NAME and kind_of_key(key) in _TELLING:
            kind = NAME_KEYS.get(key, NameKind.OTHER)
            if not looks_like_name(text, kind=kind):
                yield text, kind
