"""What of a span, an event or a log record is content, and what stays when content is removed.

Invariants: pure; nothing is cut or masked: a key goes whole or stays as it is, but for names that come from outside,
which are checked as everywhere (`digest.checked_name`). What is not known to be harmless on a span that a dialect
knows is decided by its key alone, so that no value has to be looked at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Final, TypeAlias

from otel_loopguard import attributes as attr
from otel_loopguard.dialects import TELLING_KEYS, content_keys
from otel_loopguard.dialects.own import PREFIX, fits
from otel_loopguard.digest import NameKind, looks_like_name
from otel_loopguard.model import Role, Value
from otel_loopguard.policy import ContentRule

Checked: TypeAlias = Callable[[str, NameKind], str]
"""Gives a name from outside as it may be shown."""

MAX_KNOWN_KEYS: Final = 8192
"""Keys whose kind is remembered; past this all are forgotten (keys may come from outside)."""

NAME_KEYS: Final[Mapping[str, NameKind]] = {
    **dict.fromkeys(
        (
            attr.TOOL_NAME,
            attr.OPENINFERENCE_TOOL,
            attr.HAYSTACK_TOOL,
            attr.VERCEL_TOOL,
            attr.TRACELOOP_ENTITY,
            attr.LANGSMITH_NAME,
            attr.LOGFIRE_NAME,
            "smolagents.tools_names",
        ),
        NameKind.TOOL,
    ),
    **dict.fromkeys(
        # `id`: of a call, on the events of Strands
        (attr.TOOL_CALL_ID, *attr.OPENINFERENCE_CALL_IDS, attr.VERCEL_CALL_ID, attr.JSONRPC_ID, "id"),
        NameKind.CALL_ID,
    ),
    **dict.fromkeys(
        (
            attr.AGENT_NAME,
            "gen_ai.agent.id",
            attr.WORKFLOW_NAME,
            attr.HANDOFF_FROM,
            attr.HANDOFF_TO,
            attr.OPENINFERENCE_AGENT,
            attr.OPENINFERENCE_NODE,
            attr.OPENINFERENCE_NODE_NAME,
            "graph.node.parent_id",
            attr.TRACELOOP_WORKFLOW,
            "traceloop.entity.path",
            attr.TRACELOOP_CREWAI_ROLE,
            attr.LOGFIRE_AGENT,
            attr.LOGFIRE_FROM_AGENT,
            "to_agent",
            "agno.agent",
            "agno.agent.id",
            "crewai.task.agent",
            f"{attr.LANGSMITH_METADATA}lc_agent_name",
            f"{attr.TRACELOOP_PROPERTIES}lc_agent_name",
            "agent_role",
            "handoffs",
            "tools",
        ),
        NameKind.AGENT,
    ),
    **dict.fromkeys((attr.ERROR_TYPE, attr.EXCEPTION_TYPE), NameKind.ERROR_TYPE),
    attr.OPENINFERENCE_METADATA: NameKind.AGENT,  # JSON text that names the agent
}
"""Keys whose values are names of tools, agents, calls and errors, as given by the application or the model."""


class KeyKind(Enum):
    """What an attribute's key says of its value."""

    PLAIN = "plain"
    TELLING = "telling"
    """Plain, and a dialect may know the span by it."""
    NAME = "name"
    CONTENT = "content"
    """In whatever span it stands."""
    WORD = "word"
    """Content in the spans of a dialect; elsewhere an everyday word that any application may use."""
    OWN = "own"
    """Of the contract: an application may write there what only looks like ours."""


# Members under names of their own: to look one up in its class costs 50 ns.
_CONTENT_KEY: Final = KeyKind.CONTENT
_NAME_KEY: Final = KeyKind.NAME
_OWN_KEY: Final = KeyKind.OWN
_WORD_KEY: Final = KeyKind.WORD

_WORDS: Final = frozenset({"content", "error", "events", "input", "message", "output", "raw_input", "response"})
_AGENT_IN_JSON: Final = re.compile(r'("lc_agent_name"\s*:\s*")((?:[^"\\]|\\.)*)')
"""What LangChain puts into the metadata of its runs."""
_TEXT: Final = (attr.EXCEPTION_MESSAGE, attr.EXCEPTION_STACKTRACE, attr.ERROR_MESSAGE)
_HEADS: Final = tuple(sorted({f"{key.removesuffix('.')}." for key in content_keys().difference(_WORDS, _TEXT)}))
"""What keys that hold content begin with, a point behind each: an SDK may keep structured values under one key that
others write as many, one for each part."""


def kind_of_key(key: str) -> KeyKind:
    """Tells what a key says of its value, whatever span it stands in."""
    if key in _WORDS or key in _TEXT:
        return KeyKind.WORD
    if f"{key}.".startswith(_HEADS):
        return KeyKind.CONTENT
    if key in NAME_KEYS:
        return KeyKind.NAME
    if key.startswith(PREFIX):
        return KeyKind.OWN
    return KeyKind.TELLING if key in TELLING_KEYS else KeyKind.PLAIN


class Cleaner:
    """Removes content from attributes by one rule.

    Args:
        rule: what the policy lets go.

    Thread safety: none needed; what is remembered is a plain dict and a set, of bounded size.
    """

    def __init__(self, rule: ContentRule) -> None:
        self.rule = rule
        self._keeps_all, self._keeps_most = rule is ContentRule.KEEP, rule is ContentRule.DROP_TOOL
        self._kinds: dict[str, KeyKind] = {}
        self.plain: set[str] = set()
        """Keys known to be plain: a span whose keys are all among them, and whose name and scope are no dialect's,
        tells nothing and holds nothing."""

    def keeps(self, role: Role | None) -> bool:
        """Tells whether a span's content stays: all of it, or all but tools'.

        Args:
            role: as its dialect reads it; None for a span of no dialect.
        """
        return self._keeps_all or (self._keeps_most and role is not Role.TOOL)

    def kind_of(self, key: str) -> KeyKind:
        """Tells what a key says, from memory where it was asked before."""
        kind = self._kinds.get(key)
        if kind is None:
            kind = kind_of_key(key)
            if len(self._kinds) >= MAX_KNOWN_KEYS:
                self._kinds.clear()
                self.plain.clear()
            self._kinds[key] = kind
            if kind is KeyKind.PLAIN:
                self.plain.add(key)
        return kind

    def without_content(
        self, attributes: Mapping[str, Value], checked: Checked, *, known: bool, odd: Sequence[str] = ()
    ) -> dict[str, Value] | None:
        """Returns what stays of the attributes of a span, an event or a log record; None where all of it does.

        Args:
            attributes: any mapping; it is not changed.
            checked: gives names as they may be shown.
            known: whether a dialect knows the span that they belong to: everyday words are content there.
            odd: names of the span's tool and agent that do not look like names: frameworks repeat them in lists,
                templates and metadata.
        """
        kinds, plain = self._kinds, self.plain
        kept: dict[str, Value] = {}
        changed = False
        for key, value in attributes.items():
            if key in plain:
                kept[key] = value
                continue
            kind = kinds.get(key)
            if kind is None:
                kind = self.kind_of(key)
            if kind is _CONTENT_KEY or (known and kind is _WORD_KEY) or (kind is _OWN_KEY and not fits(key, value)):
                changed = True
            elif known and kind is _NAME_KEY:
                if key == attr.OPENINFERENCE_METADATA:
                    shown = _in_json(value, checked)
                else:
                    shown = _shown(value, NAME_KEYS[key], checked)
                kept[key] = shown
                changed = changed or shown is not value
            else:
                kept[key] = value
        for name in odd:
            digested = checked(name, NameKind.OTHER)
            for written in _writings(name):
                for key, value in kept.items():
                    shown = _without_name(value, written, digested)
                    if shown is not value:
                        kept[key], changed = shown, True
        return kept if changed else None


def without_error_text(attributes: Mapping[str, Value]) -> dict[str, Value] | None:
    """Returns what stays of attributes without the text of an error; None where they hold none."""
    if not any(key in attributes for key in _TEXT):
        return None
    return {key: value for key, value in attributes.items() if key not in _TEXT}


def _writings(name: str) -> Sequence[str]:
    """A name as it is, and as it stands in JSON text with and without escapes for what is not ASCII."""
    return tuple(dict.fromkeys((name, json.dumps(name, ensure_ascii=False)[1:-1], json.dumps(name)[1:-1])))


def _without_name(value: Value, name: str, digested: str) -> Value:
    if isinstance(value, str):
        return value.replace(name, digested) if name in value else value
    if isinstance(value, list | tuple):
        shown = [_without_name(item, name, digested) for item in value]
        return value if all(new is old for new, old in zip(shown, value, strict=True)) else shown
    if isinstance(value, Mapping):
        parts = {key: _without_name(item, name, digested) for key, item in value.items()}
        return value if all(parts[key] is item for key, item in value.items()) else parts
    return value


def _in_json(value: Value, checked: Checked) -> Value:
    if not isinstance(value, str):
        return value
    shown = _AGENT_IN_JSON.sub(lambda found: f"{found[1]}{_shown(found[2], NameKind.AGENT, checked)}", value)
    return value if shown == value else shown


def _shown(value: Value, kind: NameKind, checked: Checked) -> Value:
    if isinstance(value, str):
        return value if looks_like_name(value, kind=kind) else checked(value, kind)
    if isinstance(value, list | tuple):
        shown = [_shown(item, kind, checked) for item in value]
        return value if all(new is old for new, old in zip(shown, value, strict=True)) else shown
    return value if value is None or isinstance(value, bool | int | float) else checked(str(value), kind)
