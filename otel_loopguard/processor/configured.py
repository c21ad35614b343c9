"""Reads what the settings name: the key and the policy file. Where one of them cannot be used, removal alone is left.

Invariants: whatever is wrong, there is an answer, and it never lets more content go than the settings say; no message
shows a key, a path, or what a file holds beyond the names of a policy's keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from otel_loopguard import keys
from otel_loopguard.digest import Keyring
from otel_loopguard.errors import KeyConfigError, LoopGuardError
from otel_loopguard.policy import ContentRule, Policy
from otel_loopguard.processor.policy_watch import PolicyWatch, line
from otel_loopguard.processor.settings import POLICY, Problem, Settings

_INSTEAD: Final = "no digest is made, and content is removed all the same"


class Configured(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """What a processor is made of."""

    policy: Policy | None = None
    """None: the default policy."""
    keyring: Keyring | None = None
    content: ContentRule | None = None
    """None: the policy decides."""
    remove_only: bool = False
    watch: PolicyWatch | None = None
    """Looks at the policy file from time to time; None where there is none to look at."""
    problems: tuple[Problem, ...] = ()
    """What is wrong with the key and the policy; may be empty."""


def configured(settings: Settings, environ: Mapping[str, str]) -> Configured:
    """Reads the key and the policy file.

    Args:
        settings: what `environ` says.
        environ: environment variables, of which the key's are read here.

    Returns:
        What to make a processor of. With an unusable key or policy it only removes, by the rule of the settings or,
        where they have none, of the policy; without a usable policy everything.
    """
    problems: list[Problem] = []
    policy, watch, keyring = None, None, None
    if settings.policy_path is not None:
        watch = PolicyWatch(settings.policy_path, every_s=settings.policy_reread_s)
        try:
            policy = watch.load()
        except LoopGuardError as error:
            watch = None
            problems.append(Problem(POLICY, f"{POLICY}: {line(error)}; {_INSTEAD}"))
    try:
        keyring = Keyring(keys.load_key(environ), scope=settings.key_scope)
    except KeyConfigError as error:
        name = keys.KEY if environ.get(keys.KEY, "").strip() else keys.KEY_FILE
        problems.append(Problem(name, f"{error}; {_INSTEAD}"))
    return Configured(
        policy=policy,
        keyring=keyring,
        content=settings.content,
        remove_only=bool(problems),
        watch=watch,
        problems=tuple(problems),
    )
