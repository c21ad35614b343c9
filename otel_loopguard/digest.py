"""Keyed digests of canonical forms, and the names that may pass as they are.

Invariants: every digest is HMAC-SHA256 under a key of its own kind and scope, over the whole canonical form: never
a prefix, never unkeyed. No key material shows in a repr or an error. A trace keeps the key that its first span
got. No I/O: keys come from `keys.load_key` or from the caller.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from enum import StrEnum
from typing import Any, Final

import msgspec

from otel_loopguard.canonical import at_top, encode
from otel_loopguard.errors import KeyConfigError
from otel_loopguard.model import Value, Word

KEY_BYTES: Final = 32
DIGEST_HEX: Final = 32
"""Hex characters of a digest: HMAC-SHA256 truncated to 128 bits."""
NAME_HEX: Final = 8
NAME_PREFIX: Final = "_n:"
MAX_NAME: Final = 128
"""Characters of a name."""
MAX_PINNED_TRACES: Final = 8192
"""Traces whose digesters one `Keyring` keeps at most, up to 3 kB each; the oldest half goes first."""
MAX_HEADS: Final = 1024
"""Tools whose canonical names are kept at hand under one key; the others' are written anew each time."""

_SALT: Final = b"otel-loopguard/lg1"
_BLOCK_BYTES: Final = 64
_INNER: Final = bytes(byte ^ 0x36 for byte in range(256))
_OUTER: Final = bytes(byte ^ 0x5C for byte in range(256))
_NAME_LIKE: Final = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")
_ERROR_TYPE_LIKE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,127}|[0-9]{3}|_n:[0-9a-f]{8}")


class Key(msgspec.Struct, frozen=True):
    """One secret that digests are keyed with. Its repr shows everything but the secret.

    Raises:
        KeyConfigError: `secret` is not 32 bytes.
    """

    key_id: str
    """Stands beside every digest; digests under different ids are never compared."""
    secret: bytes
    ephemeral: bool = False
    """Made up by this process and known to no other."""

    def __post_init__(self) -> None:
        """Refuse a secret of another length."""
        if len(self.secret) != KEY_BYTES:
            msg = f"digest key {self.key_id!r}: the secret must be {KEY_BYTES} bytes, not {len(self.secret)}"
            raise KeyConfigError(msg)

    def __repr__(self) -> str:
        """Show all but the secret."""
        return f"Key(key_id={self.key_id!r}, secret=<hidden>, ephemeral={self.ephemeral})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Show the same to rich, which reads fields past a plain repr."""
        return [("key_id", self.key_id), ("secret", "<hidden>"), ("ephemeral", self.ephemeral)]


class Scope(StrEnum):
    """Within what equal content has equal digests (DESIGN 5, `key_scope`)."""

    TRACE = "trace"
    """One trace or explicitly named run: digests cannot be correlated across runs."""
    ENVIRONMENT = "environment"
    """Everything under one key."""


class DigestKind(StrEnum):
    """What a digest is of: each kind has a key of its own, so digests of different kinds never compare."""

    CALL = "call"
    RESULT = "result"
    STATE = "state"
    IDEMPOTENCY = "idempotency"
    BUSINESS = "business"
    ITEM = "item"
    NAME = "name"
    CONVERSATION = "conversation"


# Plain strings: hashing an enumeration's member costs more than a lookup may.
_CALL, _RESULT, _STATE, _IDEMPOTENCY, _BUSINESS, _ITEM, _NAME, _CONVERSATION = (kind.value for kind in DigestKind)


class NameKind(Word):
    """What a checked name names; error types must look like classes or status codes."""

    TOOL = "tool"
    AGENT = "agent"
    CALL_ID = "call_id"
    ERROR_TYPE = "error_type"
    OTHER = "other"


_ERROR_TYPE: Final = NameKind.ERROR_TYPE


def hkdf_extract(secret: bytes) -> bytes:
    """Give the pseudorandom key of `secret` (RFC 5869, SHA-256, this package's salt)."""
    return hmac.digest(_SALT, secret, "sha256")


def hkdf_expand(root: bytes, kind: str, scope: str, scope_value: str) -> bytes:
    """Derive the 32-byte sub-key of one kind in one scope: RFC 5869 expand, one block.

    Source: the info is the canonical form of `[kind, scope, scope value]`, so no two can run into each other.
    """
    return hmac.digest(root, encode([kind, scope, scope_value]) + b"\x01", "sha256")


class _Hmac:
    """HMAC-SHA256 under one key, the key's two blocks hashed once (RFC 2104)."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, secret: bytes) -> None:
        padded = secret.ljust(_BLOCK_BYTES, b"\0")
        self._inner = hashlib.sha256(padded.translate(_INNER))
        self._outer = hashlib.sha256(padded.translate(_OUTER))

    def hexdigest(self, message: bytes) -> str:
        """Give the 64 hex characters of the HMAC."""
        inner = self._inner.copy()
        inner.update(message)
        outer = self._outer.copy()
        outer.update(inner.digest())
        return outer.hexdigest()


class Digester:
    """Makes the digests of one scope under one key.

    Args:
        key: the key.
        scope: within what digests are to be comparable.
        scope_value: the trace id or explicit run id under `Scope.TRACE`; empty under `Scope.ENVIRONMENT`.
        environment: this key's digester of environment scope, if there is one already; saves deriving it again.

    What is hashed is the canonical form of a list whose places are fixed by the kind, such as `[tool, identity,
    arguments]` for a call; so a tool's name cannot run into its arguments.

    Raises: each method that takes a value raises `canonical.CanonicalError` where it has no canonical form.
    Cost: sub-keys are derived at first use, about 3 µs each; a digest is about 1 µs besides `canonical.encode`.
    Thread safety: all methods may be called from any thread.
    """

    __slots__ = ("_environment", "_heads", "_key", "_macs", "_root", "_scope", "_scope_value", "key_id")

    def __init__(
        self, key: Key, *, scope: Scope = Scope.TRACE, scope_value: str = "", environment: Digester | None = None
    ) -> None:
        self._key = key
        self.key_id: Final = key.key_id
        """The key's id."""
        self._scope = scope
        self._scope_value = scope_value
        self._macs: dict[str, _Hmac] = {}
        self._heads: dict[str, bytes] = {} if environment is None else environment._heads  # noqa: SLF001
        self._root: bytes = hkdf_extract(key.secret) if environment is None else environment._root  # noqa: SLF001
        if scope is Scope.ENVIRONMENT:
            self._environment = self
        else:
            self._environment = environment or Digester(key, scope=Scope.ENVIRONMENT)

    def __repr__(self) -> str:
        return f"Digester(key_id={self.key_id!r}, scope={self._scope.value!r}, scope_value={self._scope_value!r})"

    @property
    def ephemeral(self) -> bool:
        """Whether no other process can have this key."""
        return self._key.ephemeral

    @property
    def scope(self) -> Scope:
        """The scope of all but business keys and names."""
        return self._scope

    @property
    def scope_value(self) -> str:
        """The trace or run id; empty under environment scope."""
        return self._scope_value

    def call(self, tool: str, value: Value, *, identity: Value = None, form: bytes | None = None) -> str:
        """Digest a call: tool, identity fields from context, and arguments (null, absent and `{}` are one).

        Args:
            tool: the tool's name as the application knows it.
            value: arguments, after the policy's contract has been applied; never call ids or envelopes.
            identity: fields from context that the policy makes part of the action's identity, or None.
            form: the canonical form of `value`, where it is known; None to make it.

        Returns:
            32 lower-case hex characters.
        """
        context = b"null" if identity is None else encode(at_top(identity))
        if form is None:
            form = encode(at_top(value))
        elif form == b"{}":
            form = b"null"
        mac = self._macs.get(_CALL) or self._mac(_CALL)
        head = self._heads.get(tool) or self._head(tool)
        return mac.hexdigest(head + context + b"," + form + b"]")[:DIGEST_HEX]

    def result(self, tool: str, value: Value, *, form: bytes | None = None) -> str:
        """Digest a result of one tool; null and `{}` differ here. Returns 32 lower-case hex characters.

        `form`: the canonical form of `value`, where it is known.
        """
        mac = self._macs.get(_RESULT) or self._mac(_RESULT)
        head = self._heads.get(tool) or self._head(tool)
        return mac.hexdigest(head + (encode(value) if form is None else form) + b"]")[:DIGEST_HEX]

    def state(self, value: Value) -> str:
        """Digest a state. Returns 32 lower-case hex characters."""
        return self._hex(_STATE, b"[%b]" % encode(value))

    def idempotency(self, tool: str, value: Value) -> str:
        """Digest a write's idempotency key. Returns 32 lower-case hex characters."""
        return self._hex(_IDEMPOTENCY, self._head(tool) + encode(value) + b"]")

    def business(self, tool: str, value: Value, *, beyond_run: bool = True) -> str:
        """Digest a write's business key. Returns 32 lower-case hex characters.

        Args:
            tool: the tool's name.
            value: the key's fields.
            beyond_run: in environment scope, so that it can be compared with what other runs wrote.
        """
        message = self._head(tool) + encode(at_top(value)) + b"]"
        digester = self._environment if beyond_run else self
        return digester._hex(_BUSINESS, message)  # noqa: SLF001 - another of this class

    def item(self, value: Value) -> int:
        """Digest an item of a list of results. Returns an integer in 0..2^64-1, for sets of items."""
        return int(self._hex(_ITEM, b"[%b]" % encode(value))[:16], 16)

    def name(self, text: str) -> str:
        """Digest a name that may not be shown, always in environment scope. Returns 8 lower-case hex characters."""
        return self._environment._hex(_NAME, b"[%b]" % encode(text))[:NAME_HEX]  # noqa: SLF001

    def conversation(self, text: str) -> str:
        """Digest a conversation, session or task id, always in environment scope: it joins traces.

        Returns 32 lower-case hex characters.
        """
        return self._environment._hex(_CONVERSATION, b"[%b]" % encode(text))  # noqa: SLF001

    def _head(self, tool: str) -> bytes:
        """Give `[tool,` in canonical form: how the messages about one tool begin."""
        head = self._heads.get(tool)
        if head is None:
            head = b"[%b," % encode(tool)
            if len(self._heads) < MAX_HEADS:
                self._heads[tool] = head
        return head

    def _hex(self, kind: str, message: bytes) -> str:
        mac = self._macs.get(kind) or self._mac(kind)
        return mac.hexdigest(message)[:DIGEST_HEX]

    def _mac(self, kind: str) -> _Hmac:
        # Two threads may both derive it; they derive the same.
        mac = self._macs[kind] = _Hmac(hkdf_expand(self._root, kind, self._scope, self._scope_value))
        return mac


class Keyring:
    """Hands out digesters, and keeps each trace on the key that it began with.

    Args:
        key: the key for traces that begin from now on.
        scope: scope of the digesters that `for_trace` gives.

    Bound: remembers between half of and all of the last `MAX_PINNED_TRACES` traces. A trace that comes back
    after it was forgotten gets the key of that moment; its digests then carry another key id, which is flagged.
    Thread safety: no lock, so a fork cannot leave one held; first spans of one trace in two threads while
    `rotate` runs may get different keys, which their key ids show.
    """

    __slots__ = ("_environment", "_older", "_scope", "_traces")

    def __init__(self, key: Key, *, scope: Scope = Scope.TRACE) -> None:
        self._scope = scope
        self._environment = Digester(key, scope=Scope.ENVIRONMENT)
        self._traces: dict[str, Digester] = {}
        self._older: dict[str, Digester] = {}

    def __repr__(self) -> str:
        return f"Keyring(key_id={self.key_id!r}, scope={self._scope.value!r})"

    @property
    def key_id(self) -> str:
        """Id of the key for new traces."""
        return self._environment.key_id

    @property
    def ephemeral(self) -> bool:
        """Whether the key for new traces is this process's own."""
        return self._environment.ephemeral

    @property
    def scope(self) -> Scope:
        """The scope of the digesters that `for_trace` gives."""
        return self._scope

    def for_trace(self, trace_id_or_run_id: str) -> Digester:
        """Give the digester of one trace, or of one explicitly named run; pins the key at the first call.

        Cost: 0.1 µs for a known trace, else some 1 µs; each kind of digest derives its sub-key at first use.
        """
        digester = self._traces.get(trace_id_or_run_id)
        return digester if digester is not None else self._pin(trace_id_or_run_id)

    def environment(self) -> Digester:
        """Give the digester of environment scope under the key for new traces."""
        return self._environment

    def rotate(self, new_key: Key) -> None:
        """Use `new_key` for traces that begin from now on; known traces keep theirs, so no overlap is needed."""
        if new_key != self._environment._key:  # noqa: SLF001 - the digester that this keyring made
            self._environment = Digester(new_key, scope=Scope.ENVIRONMENT)

    def _pin(self, scope_value: str) -> Digester:
        digester = self._older.get(scope_value)
        if digester is None and self._scope is Scope.ENVIRONMENT:
            digester = self._environment
        elif digester is None:
            digester = Digester(
                self._environment._key,  # noqa: SLF001
                scope=Scope.TRACE,
                scope_value=scope_value,
                environment=self._environment,
            )
        full = self._traces
        if len(full) >= MAX_PINNED_TRACES // 2:
            fresh: dict[str, Digester] = {}
            if self._traces is full:  # else another thread has made room meanwhile, and what it pinned must stay
                self._older, self._traces = full, fresh
        return self._traces.setdefault(scope_value, digester)


def looks_like_name(text: str, *, kind: NameKind) -> bool:
    """Say whether a name from outside may be shown as it is (DESIGN 2)."""
    if len(text) <= MAX_NAME and text.isascii() and text.isidentifier():
        return True  # a name of any kind, told without a regular expression
    pattern = _ERROR_TYPE_LIKE if kind is _ERROR_TYPE else _NAME_LIKE
    return pattern.fullmatch(text) is not None


def checked_name(text: str, digester: Digester, *, kind: NameKind) -> str:
    """Give a name from outside as it may be shown: itself if it looks like a name, else `_n:` and 8 hex.

    Checking a checked name changes nothing. Cost: 0.3 µs for a name that passes.
    """
    return text if looks_like_name(text, kind=kind) else NAME_PREFIX + digester.name(text)
