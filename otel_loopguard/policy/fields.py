"""Every key that a policy file may hold: kind, range, default and meaning.

The one place where they stand. The loader, the JSON Schema and the reference page are all derived from here.
"""

from __future__ import annotations

from typing import Final

from otel_loopguard.policy.contract import BusinessScope, Parallel, UnknownOutcome
from otel_loopguard.policy.kinds import AnyScalar, Anything, Choice, Exactly, Flag, Number, Text
from otel_loopguard.policy.progress import Rule
from otel_loopguard.policy.tables import Field, Listed, Named, Table

FORMAT_VERSION: Final = 1
MODES: Final = ("observe", "enforce")
SCOPES: Final = ("run", "user_turn", "conversation", "task")
CONTENTS: Final = ("drop_all", "drop_tool", "keep")
LADDER: Final = ("deny", "restrict_tool", "stop")
EFFECTS: Final = ("read", "write", "unknown")
PLAIN_RULES: Final = (Rule.INCREASES, Rule.CHANGES, Rule.SHRINKS, Rule.NEW_ITEMS)

_MAX_CALLS: Final = 1_000_000
_MAX_SECONDS: Final = 31_536_000
_LABEL: Final = Text(
    limit=64, numbers=True, pattern=r"[A-Za-z0-9_.:/-]+", pattern_words="letters, digits and _ . : / -"
)
_PATH: Final = Text(limit=300)
_PATHS: Final = Listed(_PATH)
_REPEATS: Final = Number(1, 1000)
_CALLS: Final = Number(1, _MAX_CALLS, nullable=True)
_SECONDS: Final = Number(0, _MAX_SECONDS, whole=False, nullable=True)
_STATES: Final = Listed(AnyScalar(), low=1)

DEFAULTS: Final = Table(
    "defaults",
    {
        "allowed_repeats": Field(
            _REPEATS, "Equal calls of one tool with equal results that are allowed; the next one is a loop.", 2
        ),
        "undeclared_allowed_repeats": Field(
            _REPEATS, "The same before a guard denies a tool that this policy does not declare.", 7
        ),
        "window": Field(Number(2, 64), "Calls back within which an interleaved repeat is looked for.", 8),
        "max_calls": Field(_CALLS, "Calls of one tool allowed in a run; null: no bound.", None),
    },
    "What holds for every tool unless the tool says otherwise.",
)

ERRORS: Final = Table(
    "errors",
    {
        "transient": Field(
            Listed(Text(limit=200, numbers=True)),
            "Failures that waiting may cure. An entry of digits is a status code; any other is an error type, or "
            "text that the error's message holds, whatever its letter case.",
            (),
        ),
        "in_band": Field(
            Flag(), "true: a result that reads like an error message makes the call a failed call.", default=False
        ),
        "not_found": Field(
            Listed(Text(limit=200)),
            "More texts that mean that nothing was found; a short result holding one is classed `not_found`.",
            (),
        ),
    },
    "How failures are told apart.",
)

PROGRESS: Final = Table(
    "progress",
    {
        "path": Field(_PATH, "JMESPath into the result. Either this or `callable`.", None),
        "callable": Field(
            Text(limit=100),
            "Name in the entry point group `otel_loopguard.progress`: a function of (arguments, result) that returns "
            "one number, text or null. Either this or `path`.",
            None,
        ),
        "rule": Field(
            Choice(PLAIN_RULES),
            "`increases`: a number grew. `changes`: the value differs. `shrinks`: a list, table or number got smaller. "
            "`new_items`: the list holds an item not seen before. Or use `in_order` or `reaches`.",
            None,
        ),
        "in_order": Field(_STATES, "States in order; moving to a later one is progress.", None),
        "reaches": Field(_STATES, "States; arriving at one of them is progress, staying there is not.", None),
    },
    "One rule that says when a repeated call made progress. With several, any one suffices.",
)

POLLING: Final = Table(
    "polling",
    {
        "state": Field(_PATH, "JMESPath to the state in the result; a changed state is progress.", None),
        "terminal": Field(_STATES, "States after which polling has nothing more to wait for.", ()),
        "max_polls": Field(Number(1, _MAX_CALLS), "Polls allowed in all.", 60),
        "deadline_s": Field(_SECONDS, "Seconds from the first poll after which polling is over budget.", None),
        "min_interval_s": Field(_SECONDS, "Seconds that must lie between two polls.", None),
        "max_unchanged": Field(Number(1, _MAX_CALLS), "Unchanged polls in a row that are allowed.", 10),
    },
    "Declares that the tool is asked again and again on purpose. `{}` declares it with the default bounds.",
)

PAGINATION: Final = Table(
    "pagination",
    {
        "cursor": Field(_PATH, "JMESPath to the next page's cursor in the result.", None),
        "items": Field(_PATH, "JMESPath to the items, or better their ids, in the result.", None),
    },
    "Declares that the tool returns page after page.",
)

RANGE: Final = Table(
    "range",
    {
        "key": Field(_PATH, "Argument that names what is read."),
        "start": Field(_PATH, "Argument that says where reading starts."),
        "length": Field(_PATH, "Argument that says how much is read; null: not told.", None),
    },
    "Declares that the tool reads a part of something larger.",
)

TOOL: Final = Table(
    "tool",
    {
        "effect": Field(Choice(EFFECTS), "Whether the tool changes the world.", "unknown"),
        "allowed_repeats": Field(_REPEATS, "As in `defaults`, for this tool.", None),
        "max_calls": Field(_CALLS, "Calls of this tool allowed in a run; null: as in `defaults`.", None),
        "parallel": Field(
            Choice(tuple(Parallel)),
            "Equal calls of one turn: `share` one outcome, or `run` each.",
            Parallel.SHARE.value,
        ),
        "progress": Field(Listed(PROGRESS, low=1, high=16), "When a repeat made progress.", ()),
        "polling": Field(POLLING, "The tool is a poller.", None),
        "pagination": Field(PAGINATION, "The tool is a pager.", None),
        "range": Field(RANGE, "The tool reads ranges.", None),
        "ignore_args": Field(_PATHS, "Arguments that do not make a call another call.", ()),
        "defaults": Field(
            Named(Anything(), "argument name"), "Values that the tool itself takes for arguments left out.", {}
        ),
        "path_args": Field(
            _PATHS, "Arguments that are file paths: `//`, `/./` and a trailing `/` mean nothing in them.", ()
        ),
        "null_is_absent": Field(Flag(), "true: an argument that is null is as good as left out.", default=False),
        "identity_args": Field(
            _PATHS,
            "Arguments that say what a call is about; the others are wording. Serves near repeats only: the call "
            "digest still holds every argument.",
            (),
        ),
        "ignore_result": Field(_PATHS, "Fields of the result that differ each time and mean nothing.", ()),
        "ignore_result_regex": Field(
            Listed(Text(limit=500), lone=True),
            "RE2 patterns; what they match is removed from every text of the result.",
            (),
        ),
        "business_key": Field(_PATHS, "Arguments that make two writes the same write.", ()),
        "business_scope": Field(
            Choice(tuple(BusinessScope)), "Within what they are the same.", BusinessScope.RUN.value
        ),
        "business_ttl_s": Field(_SECONDS, "For how many seconds they are the same; null: always.", None),
        "idempotency_key": Field(_PATH, "Argument by which the tool itself recognises a retry.", None),
        "unknown_outcome": Field(
            Choice(tuple(UnknownOutcome)),
            "What may follow a write whose outcome is not known: nothing, or a retry with an equal idempotency key.",
            UnknownOutcome.DENY.value,
        ),
    },
    "One tool.",
)

POLICY: Final = Table(
    "policy",
    {
        "version": Field(Exactly(FORMAT_VERSION), "Version of this format."),
        "policy": Field(_LABEL, "Name of the policy."),
        "policy_version": Field(_LABEL, "Your version of it; raise it with every change."),
        "mode": Field(Choice(MODES), "`observe` only reports; `enforce` lets a guard deny and stop.", "observe"),
        "unattended": Field(
            Flag(), "true: no person watches the run, so a guard stops instead of asking.", default=False
        ),
        "scope": Field(Choice(SCOPES), "What is judged as one run.", "run"),
        "content": Field(
            Choice(CONTENTS), "What a processor removes from spans: all content, that of tools, or nothing.", "drop_all"
        ),
        "defaults": Field(DEFAULTS, "For every tool.", None),
        "noop_tools": Field(
            Listed(Text()),
            "Tools that do nothing, such as a notepad for thoughts; a tool under `tools` is none unless named here.",
            ("think",),
        ),
        "identity": Field(
            Listed(Text(), high=16), "Context attributes that are part of what a call is, such as a tenant's id.", ()
        ),
        "errors": Field(ERRORS, "How failures are told apart.", None),
        "actions": Field(
            Listed(Choice(LADDER), low=1), "What a guard does after its warning, in this order.", ("deny", "stop")
        ),
        "tools": Field(Named(TOOL, "tool name"), "Contracts by tool name.", {}),
    },
    "The whole file.",
)

TABLES: Final = (POLICY, DEFAULTS, ERRORS, TOOL, PROGRESS, POLLING, PAGINATION, RANGE)
"""Every table, in the order of the reference page."""
