"""Checks between keys of one policy: what contradicts itself, or can never have an effect.

Invariants: each check reads sound sections only, so that one mistake is not reported twice; each message says
what to remove or add.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_loopguard.policy.fields import LADDER
from otel_loopguard.policy.nodes import Problems, join
from otel_loopguard.policy.paths import Path, PathError, compile_path
from otel_loopguard.policy.tables import Section

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_WRITE_ONLY: Final = ("business_key", "business_scope", "business_ttl_s", "idempotency_key", "unknown_outcome")
_READ_ONLY: Final = ("polling", "pagination", "progress", "range")
_NOT_FOR_NOOPS: Final = ("polling", "pagination", "progress", "range", "max_calls")


def check_policy(top: Section, problems: Problems) -> frozenset[str]:
    """Notes what is wrong between the keys of the whole policy; returns the names of the tools that are sound."""
    sound: set[str] = set()
    actions = top["actions"]
    if list(actions) != [word for word in LADDER if word in actions]:
        problems.add(top.written["actions"], "actions", f"the steps are out of order; the order is {', '.join(LADDER)}")
    for name, tool in top["tools"].items():
        if tool.sound:
            before = problems.count
            check_tool(tool, problems)
            if "noop_tools" in top and name in top["noop_tools"]:
                _check_noop(tool, problems)
            if problems.count == before:
                sound.add(name)
    return frozenset(sound)


def _check_noop(tool: Section, problems: Problems) -> None:
    wrong = [name for name in _NOT_FOR_NOOPS if name in tool]
    if tool["effect"] == "write":
        wrong.insert(0, "effect")
    for name in wrong:
        text = "this tool stands in noop_tools, so it does nothing that this could describe; remove one of the two"
        problems.add(tool.written[name], join(tool.path, name), text)


def check_tool(tool: Section, problems: Problems) -> None:
    """Notes what is wrong between the keys of one tool."""
    write = tool["effect"] == "write"
    for name in _READ_ONLY if write else _WRITE_ONLY:
        if name in tool:
            text = (
                "a repeated write never counts as progress, whatever it returns; remove this or `effect: write`"
                if write
                else "this holds for writes only; add `effect: write` or remove it"
            )
            problems.add(tool.written[name], join(tool.path, name), text)
    if "polling" in tool and "pagination" in tool:
        text = "a tool is a poller or a pager, not both; remove one of `polling` and `pagination`"
        problems.add(tool.written["pagination"], join(tool.path, "pagination"), text)
    _check_write(tool, problems)
    _check_polling(tool["polling"], problems)
    _check_pagination(tool["pagination"], problems)
    for rule in tool["progress"]:
        _check_rule(rule, problems)
    _check_ignored(tool, problems)


def _check_write(tool: Section, problems: Problems) -> None:
    for name in ("business_scope", "business_ttl_s"):
        if name in tool and not tool["business_key"]:
            text = "this bounds a business key; add `business_key: […]` or remove it"
            problems.add(tool.written[name], join(tool.path, name), text)
    if tool["unknown_outcome"] == "allow_same_key" and "idempotency_key" not in tool:
        text = "a retry with an equal key needs a key; add `idempotency_key: …`"
        problems.add(tool.written["unknown_outcome"], join(tool.path, "unknown_outcome"), text)


def _check_polling(polling: Section | None, problems: Problems) -> None:
    if polling is None:
        return
    if polling["terminal"] and polling["state"] is None:
        text = "terminal states need a state to compare with; add `state: <path>`"
        problems.add(polling.written["terminal"], join(polling.path, "terminal"), text)
    deadline, interval = polling["deadline_s"], polling["min_interval_s"]
    if deadline == 0:
        text = "a deadline of 0 seconds allows no poll; write null for no deadline"
        problems.add(polling.written["deadline_s"], join(polling.path, "deadline_s"), text)
    elif deadline is not None and interval is not None and deadline < interval:
        text = "the deadline ends before the second poll may begin; raise it or lower `min_interval_s`"
        problems.add(polling.written["deadline_s"], join(polling.path, "deadline_s"), text)
    if "max_unchanged" in polling and polling["max_unchanged"] > polling["max_polls"]:
        text = "this can never be reached, because `max_polls` is lower; lower it or raise `max_polls`"
        problems.add(polling.written["max_unchanged"], join(polling.path, "max_unchanged"), text)


def _check_pagination(pagination: Section | None, problems: Problems) -> None:
    if pagination is not None and pagination["cursor"] is None and pagination["items"] is None:
        text = "a pager needs `cursor`, `items` or both"
        problems.add_at(pagination.line, pagination.column, pagination.path, text)


def _check_rule(rule: Section, problems: Problems) -> None:
    if (rule["path"] is None) is (rule["callable"] is None):
        problems.add_at(rule.line, rule.column, rule.path, "one of `path` and `callable` is needed, and only one")
    if sum(rule[name] is not None for name in ("rule", "in_order", "reaches")) != 1:
        text = "one of `rule`, `in_order` and `reaches` is needed, and only one"
        problems.add_at(rule.line, rule.column, rule.path, text)


def _check_ignored(tool: Section, problems: Problems) -> None:
    ignored = dict(_paths(tool["ignore_args"]))
    if not ignored:
        return
    for where, text in _arguments_in_use(tool):
        used = dict(_paths([text]))
        for name, path in ignored.items():
            if any(path.begins(other) for other in used.values()):
                index = tool["ignore_args"].index(name)
                node = tool.written["ignore_args"].items[index]
                why = f"`{where}` needs this argument, so it cannot be ignored; remove it from one of the two"
                problems.add(node, f"{join(tool.path, 'ignore_args')}[{index}]", why)


def _arguments_in_use(tool: Section) -> Iterator[tuple[str, str]]:
    """Arguments that other keys rely on. The pagination cursor is one: an ignored cursor makes all pages one call."""
    for name in ("identity_args", "path_args", "business_key"):
        for text in tool[name]:
            yield name, text
    for text in tool["defaults"]:
        yield "defaults", f'"{text}"' if '"' not in text else text
    if tool["pagination"] is not None and tool["pagination"]["cursor"] is not None:
        yield "pagination.cursor", tool["pagination"]["cursor"]
    if tool["range"] is not None:
        values: Mapping[str, str | None] = tool["range"].values
        for name, value in values.items():
            if value is not None:
                yield f"range.{name}", value


def _paths(texts: tuple[str, ...] | list[str]) -> Iterator[tuple[str, Path]]:
    for text in texts:
        try:
            yield text, compile_path(text)
        except PathError:
            continue
