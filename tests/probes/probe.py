"""What a probe is: a short run of our own making, healthy or stuck, with what a right product says of it and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

Row = dict[str, Any]

LOOP: Final = ("loop",)
SEEN: Final = ("loop", "suspect")


class Probe(NamedTuple):
    """One run. `outcomes`, `kinds` and `latest` say what must be found, and when at the latest, where it is stuck."""

    name: str
    why: str
    rows: Sequence[Row]
    policy: str | None = None
    outcomes: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    latest: int | None = None

    @property
    def healthy(self) -> bool:
        """True where no outcome may be `loop`."""
        return not self.outcomes

    def records(self) -> list[Row]:
        """The call records, placed."""
        return [
            {"run_id": self.name, "sequence": at, "turn": at, "call_id": f"c{at}", **row}
            for at, row in enumerate(self.rows, start=1)
        ]

    def expected(self) -> dict[str, Any]:
        """What stands in the probe's `expected.json`."""
        if self.healthy:
            return {"never": ["loop"], "why": self.why}
        return {"outcomes": list(self.outcomes), "kinds": list(self.kinds), "latest": self.latest, "why": self.why}


def call(tool: str, arguments: Any = None, result: Any = "", **fields: Any) -> Row:
    """One call and what it gave back."""
    return {"tool": tool, "arguments": {} if arguments is None else arguments, "result": result, **fields}


def fail(tool: str, arguments: Any, text: str, **fields: Any) -> Row:
    """One call that failed with this text."""
    return call(tool, arguments, text, error=True, **fields)


def each(tool: str, pairs: Iterable[tuple[Any, Any]], **fields: Any) -> list[Row]:
    """One call for each (arguments, result)."""
    return [call(tool, arguments, result, **fields) for arguments, result in pairs]


def tools(**contracts: str) -> str:
    """A policy that declares these tools, each in YAML's flow form."""
    lines = [f"  {name}: {contract}" for name, contract in contracts.items()]
    return "\n".join(["version: 1", "policy: probe", 'policy_version: "1"', "tools:", *lines, ""])
