"""Turns the text of a policy into a `Policy`, or says everything that is wrong with it at once.

Invariants: pure; whatever the text, the outcome is a policy, `PolicyError` or `MissingExtraError`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Final, TypeAlias, TypeVar

from otel_loopguard.model import Effect, Pattern
from otel_loopguard.policy import fields
from otel_loopguard.policy.checks import check_policy
from otel_loopguard.policy.contract import (
    ArgumentRules,
    BusinessScope,
    Pagination,
    Parallel,
    Polling,
    Range,
    ToolContract,
    UnknownOutcome,
    WriteRules,
)
from otel_loopguard.policy.document import ContentRule, Defaults, Ladder, Mode, Policy, Scope
from otel_loopguard.policy.error_rules import ErrorRules
from otel_loopguard.policy.nodes import Node, Problems, join, printable
from otel_loopguard.policy.paths import Path, PathError, compile_path, compile_readable, compile_target
from otel_loopguard.policy.patterns import PatternError, compile_pattern
from otel_loopguard.policy.progress import ProgressCallable, ProgressRule, Rule
from otel_loopguard.policy.reading import parse
from otel_loopguard.policy.tables import Section

Resolver: TypeAlias = Callable[[str], "ProgressCallable | None"]
"""Finds the function of a `callable` rule by its name; None if there is none."""
_T = TypeVar("_T")

_SHAPING: Final = (
    "effect", "progress", "pagination", "range", "ignore_args", "defaults", "path_args", "null_is_absent",
    "ignore_result", "ignore_result_regex", "business_key", "business_scope", "idempotency_key", "identity_args",
)  # fmt: skip
"""Keys of a tool that shape its digests or its progress, and so its contract digest. Thresholds do not: calls
before and after a changed threshold can still be compared."""

_DEFAULT_TEXT: Final = '{"version": 1, "policy": "default", "policy_version": "1"}'


def load(text: str, *, source: str = "<policy>", resolver: Resolver | None = None) -> Policy:
    """Reads a policy.

    Args:
        text: YAML, or JSON if it begins with `{`.
        source: name of the text in messages.
        resolver: finds the functions of `callable` progress rules; without one such rules are refused.

    Raises:
        PolicyError: the text cannot be used; lists every problem, each with line, column and key.
        MissingExtraError: the text needs PyYAML, jmespath or google-re2, which is not installed.
    """
    problems = Problems(source)
    top = fields.POLICY.read(parse(text, problems), "", problems)
    sound = check_policy(top, problems)
    builder = _Builder(top, problems, resolver)
    contracts = {name: builder.contract(name, tool) for name, tool in top["tools"].items() if name in sound}
    problems.check()
    return builder.policy(contracts)


def default() -> Policy:
    """The working default where no file is given: observe, nothing declared, label `default@1`."""
    return load(_DEFAULT_TEXT, source="<default>")


class _Builder:
    """Builds contracts from sections that were read; notes paths and patterns that do not compile."""

    def __init__(self, top: Section, problems: Problems, resolver: Resolver | None) -> None:
        self._top = top
        self._problems = problems
        self._resolver = resolver
        given = top["defaults"].values if top["defaults"] is not None else {}
        self._defaults = Defaults(**given)
        names = frozenset(top["noop_tools"])
        # A tool that the owner describes is what the description says, unless the owner also calls it a no-op.
        self._noops = names if "noop_tools" in top else names - top["tools"].keys()

    def policy(self, contracts: Mapping[str, ToolContract]) -> Policy:
        top = self._top
        tools = dict(contracts)
        for name in sorted(self._noops):
            if name not in tools:
                tools[name] = self._bare(name, noop=True)
        return Policy(
            label=f"{top['policy']}@{top['policy_version']}",
            mode=Mode(top["mode"]),
            unattended=top["unattended"],
            scope=Scope(top["scope"]),
            content=ContentRule(top["content"]),
            actions=tuple(Ladder(step) for step in top["actions"]),
            identity=top["identity"],
            defaults=self._defaults,
            noop_tools=self._noops,
            errors=self._errors(),
            digest8=_digest8(_plain(top)),
            tools=tools,
            undeclared=self._bare("", noop=False),
        )

    def _errors(self) -> ErrorRules:
        given = self._top["errors"]
        if given is None:
            return ErrorRules()
        return ErrorRules(
            transient=given["transient"],
            in_band=given["in_band"],
            not_found=tuple(text.casefold() for text in given["not_found"]),
        )

    def _bare(self, name: str, *, noop: bool) -> ToolContract:
        bare = fields.TOOL.read(_EMPTY, "", Problems(""))
        return self._made(name, bare, declared=noop, noop=noop)

    def contract(self, name: str, tool: Section) -> ToolContract:
        """The contract of one declared tool."""
        return self._made(name, tool, declared=True, noop=name in self._noops)

    def _made(self, name: str, tool: Section, *, declared: bool, noop: bool) -> ToolContract:
        polling, pagination = self._polling(tool), self._pagination(tool)
        pattern = Pattern.POLLING if polling else Pattern.PAGINATED if pagination else Pattern.PLAIN
        defaults = self._defaults
        return ToolContract(
            tool=name,
            declared=declared,
            noop=noop,
            effect=Effect(tool["effect"]),
            pattern=pattern,
            allowed_repeats=tool["allowed_repeats"] or defaults.allowed_repeats,
            undeclared_allowed_repeats=defaults.undeclared_allowed_repeats,
            max_calls=tool["max_calls"] or defaults.max_calls,
            parallel=Parallel(tool["parallel"]),
            window=defaults.window,
            digest8=_digest8([self._shape(tool), list(self._top["identity"])]),
            polling=polling,
            pagination=pagination,
            range=self._range(tool),
            progress=self._progress(tool, pagination),
            writes=self._writes(tool),
            identity_args=self._paths(tool, "identity_args", compile_path),
            argument_rules=self._argument_rules(tool),
            ignored_results=self._paths(tool, "ignore_result", compile_target),
            ignored_texts=self._listed(tool, "ignore_result_regex", compile_pattern),
        )

    def _shape(self, tool: Section) -> dict[str, Any]:
        shape = {name: _plain(tool[name]) for name in _SHAPING}
        polling = tool["polling"]
        return shape | {"state": polling and polling["state"], "terminal": polling and list(polling["terminal"])}

    def _argument_rules(self, tool: Section) -> ArgumentRules | None:
        rules = ArgumentRules(
            null_is_absent=tool["null_is_absent"],
            defaults=tool["defaults"],
            paths=self._paths(tool, "path_args", compile_target),
            ignored=self._paths(tool, "ignore_args", compile_target),
        )
        return rules if rules.declared else None

    def _writes(self, tool: Section) -> WriteRules:
        return WriteRules(
            key=self._paths(tool, "business_key", compile_path),
            scope=BusinessScope(tool["business_scope"]),
            ttl_s=tool["business_ttl_s"],
            idempotency=self._one(tool, "idempotency_key", compile_target),
            unknown_outcome=UnknownOutcome(tool["unknown_outcome"]),
        )

    def _polling(self, tool: Section) -> Polling | None:
        given = tool["polling"]
        if given is None:
            return None
        return Polling(**{**given.values, "state": self._one(given, "state", compile_readable)})

    def _pagination(self, tool: Section) -> Pagination | None:
        given = tool["pagination"]
        if given is None:
            return None
        cursor, items = (self._one(given, name, compile_readable) for name in ("cursor", "items"))
        return Pagination(cursor=cursor, items=items)

    def _range(self, tool: Section) -> Range | None:
        given = tool["range"]
        if given is None:
            return None
        key, start, length = (self._one(given, name, compile_path) for name in ("key", "start", "length"))
        return None if key is None or start is None else Range(key=key, start=start, length=length)

    def _progress(self, tool: Section, pagination: Pagination | None) -> tuple[ProgressRule, ...]:
        rules = [self._rule(given) for given in tool["progress"]]
        if pagination is not None and pagination.items is not None:
            path = pagination.items
            rules.append(ProgressRule(rule=Rule.NEW_ITEMS, path=path, name=path.text))
        return tuple(rules)

    def _rule(self, given: Section) -> ProgressRule:
        named = next((name for name in ("in_order", "reaches") if given[name] is not None), None)
        rule = Rule(named or given["rule"] or Rule.CHANGES)
        return ProgressRule(
            rule=rule,
            path=self._one(given, "path", compile_readable),
            callable=self._callable(given),
            name=given["path"] or given["callable"] or "",
            values=given[named] if named else (),
        )

    def _callable(self, given: Section) -> ProgressCallable | None:
        name = given["callable"]
        if name is None:
            return None
        if self._resolver is None:
            text = "functions are not available here; use `path`, or load the policy from a file"
            self._wrong(given, "callable", text)
            return None
        found = self._resolver(name)
        if found is None:
            text = f'no usable function "{printable(name)}" in the entry point group otel_loopguard.progress'
            self._wrong(given, "callable", f"{text}; install the package that offers it")
        return found

    def _one(self, section: Section, name: str, compiler: Callable[[str], _T]) -> _T | None:
        text = section[name]
        return None if text is None else self._compiled(text, section.written[name], join(section.path, name), compiler)

    def _paths(self, section: Section, name: str, compiler: Callable[[str], Path]) -> tuple[Path, ...]:
        return self._listed(section, name, compiler)

    def _listed(self, section: Section, name: str, compiler: Callable[[str], _T]) -> tuple[_T, ...]:
        if not section[name]:
            return ()
        node = section.written[name]
        nodes = node.items or (node,)
        place = join(section.path, name)
        compiled = [
            self._compiled(text, item, f"{place}[{index}]", compiler)
            for index, (text, item) in enumerate(zip(section[name], nodes, strict=True))
        ]
        return tuple(one for one in compiled if one is not None)

    def _compiled(self, text: str, node: Node, path: str, compiler: Callable[[str], _T]) -> _T | None:
        try:
            return compiler(text)
        except (PathError, PatternError) as error:
            self._problems.add(node, path, f'"{printable(text)}" cannot be used: {error}')
            return None

    def _wrong(self, section: Section, name: str, text: str) -> None:
        self._problems.add(section.written[name], join(section.path, name), text)


_EMPTY: Final = parse("{}", Problems(""))


def _plain(value: Any) -> Any:
    """A value as read, as plain JSON."""
    if isinstance(value, Section):
        return {name: _plain(inner) for name, inner in value.values.items()}
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value


def _digest8(value: Any) -> str:
    """8 hex characters over plain JSON. Not keyed: it stands for settings, never for content."""
    return sha256(json.dumps(value, sort_keys=True, ensure_ascii=True).encode()).hexdigest()[:8]
