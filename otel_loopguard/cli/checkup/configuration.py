"""Looks at the settings, the digest key and the policy file, as the processor would read them here.

Invariants: no key, no value of a variable and no path of a key is shown; a policy's mistakes are told by the names of
its keys and their lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from otel_loopguard import keys, policy
from otel_loopguard.cli import checkup
from otel_loopguard.cli.checkup import Check, Diagnosis
from otel_loopguard.errors import KeyConfigError, LoopGuardError, PolicyError
from otel_loopguard.policy.nodes import printable
from otel_loopguard.processor.settings import POLICY, VARIABLES, Settings
from otel_loopguard.words import counted

MAX_POLICY_PROBLEMS: Final = 20
"""Mistakes of a policy that are told one by one. Source: one screen."""


def settings(read: Settings, environ: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Says what is wrong with the variables, or which are set."""
    for one in read.problems:
        yield checkup.problem(Check.SETTINGS, one.line, f"mend {one.variable}, or unset it")
    if not read.problems:
        named = [one.name for one in VARIABLES if environ.get(one.name, "").strip()]
        yield checkup.ok(Check.SETTINGS, f"set: {', '.join(named)}" if named else "none is set, so defaults apply")


def key(environ: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Says where the key comes from, and whether it can be used."""
    try:
        found = keys.load_key(environ)
    except KeyConfigError as error:
        what, _, remedy = str(error).partition("; ")
        yield checkup.problem(Check.KEY, what, remedy or "mend it: no digest is made without a key that can be used")
        return
    if found.ephemeral:
        yield checkup.note(
            Check.KEY,
            "none is set: each process makes up one of its own, so digests of two processes cannot be compared",
            f"nothing, for one process; else set {keys.KEY} or {keys.KEY_FILE}; make a key with: openssl rand -hex 32",
        )
        return
    source = keys.KEY if environ.get(keys.KEY, "").strip() else f"the file named by {keys.KEY_FILE}"
    yield checkup.ok(Check.KEY, f"from {source}, with the id {found.key_id}")


def policy_file(read: Settings) -> Iterator[Diagnosis]:
    """Says whether the policy file can be read, and each thing that is wrong with it."""
    if read.policy_path is None:
        yield checkup.note(
            Check.POLICY,
            f"{POLICY} is not set: the default policy, under which no tool polls, pages or writes",
            "declare tools that do in a policy file (docs/policy.md)",
        )
        return
    # What names no file may be a secret that stands in the wrong variable.
    there = Path(read.policy_path).is_file()
    path = printable(read.policy_path, limit=200) if there else f"the file named by {POLICY}"
    try:
        loaded = policy.load_file(read.policy_path, source=path)
    except PolicyError as error:
        for line in error.problems[:MAX_POLICY_PROBLEMS]:
            yield checkup.problem(Check.POLICY, printable(line, limit=500), f"mend {path}")
        if len(error.problems) > MAX_POLICY_PROBLEMS:
            more = counted(len(error.problems) - MAX_POLICY_PROBLEMS, "more mistake")
            yield checkup.problem(Check.POLICY, f"and {more}", f"mend {path}")
    except LoopGuardError as error:
        yield checkup.problem(Check.POLICY, printable(str(error), limit=500), f"mend {path}")
    else:
        tools = counted(len(loaded.tools.keys() - loaded.noop_tools), "declared tool")
        yield checkup.ok(Check.POLICY, f"{path}: {printable(loaded.label, limit=80)}, {tools}")
