"""Contracts and digests for the policy tests."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from otel_loopguard.policy import Resolver, ToolContract, load


class FakeDigests:
    """Digests without a key: equal exactly for equal JSON values."""

    def state(self, value: Any) -> str:
        """32 hex characters."""
        return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]

    def item(self, value: Any) -> int:
        """64 bits."""
        return int(self.state(value)[:16], 16)


DIGESTS = FakeDigests()


def contract(resolver: Resolver | None = None, **keys: Any) -> ToolContract:
    """The contract of a tool `t` with these keys."""
    document = {"version": 1, "policy": "p", "policy_version": "1", "tools": {"t": keys}}
    return load(json.dumps(document), resolver=resolver).contract("t")
