"""Keyed digests: whole content, keyed by kind and scope, plain HMAC and HKDF, and nothing of the key in sight."""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import rich.console
from hypothesis import given
from hypothesis import strategies as st

from otel_loopguard import digest
from otel_loopguard.canonical import CanonicalError, encode_slow
from otel_loopguard.digest import Digester, Key, Keyring, NameKind, Scope, checked_name
from otel_loopguard.errors import KeyConfigError
from tests.lg1_values import json_values

VECTORS = json.loads((Path(__file__).parent / "vectors/lg1.json").read_text(encoding="utf-8"))
SECRET = bytes(range(32))
KEY = Key("k1", SECRET)
OTHER_KEY = Key("k2", bytes(range(1, 33)))
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
OTHER_TRACE = "5bf92f3577b34da6a3ce929d0e0e4736"
ARGUMENTS = {"order_id": "A-17", "level": 1, "call_id": "x", "id": None, "deep": {"list": [1, {"k": "v"}]}}


def digester(key: Key = KEY, scope: Scope = Scope.TRACE, scope_value: str = TRACE) -> Digester:
    """A digester of one trace, unless told."""
    return Digester(key, scope=scope, scope_value="" if scope is Scope.ENVIRONMENT else scope_value)


def every_digest(one: Digester) -> dict[str, str]:
    """One digest of each kind, over the same content wherever the kind lets it be the same."""
    return {
        "call": one.call("t", "v"),
        "result": one.result("t", "v"),
        "idempotency": one.idempotency("t", "v"),
        "business": one.business("t", "v"),
        "state": one.state("v"),
        "item": f"{one.item('v'):032x}",
        "name": one.name("v"),
        "conversation": one.conversation("v"),
    }


# --- what is computed ------------------------------------------------------------------------------------


def plain_digest(kind: str, scope: str, scope_value: str, parts: list[Any]) -> str:
    """The digest as docs/canonical-form.md defines it, by the standard library alone."""
    root = hmac.new(b"otel-loopguard/lg1", SECRET, hashlib.sha256).digest()
    subkey = hmac.new(root, encode_slow([kind, scope, scope_value]) + b"\x01", hashlib.sha256).digest()
    return hmac.new(subkey, encode_slow(parts), hashlib.sha256).hexdigest()[:32]


@given(tool=st.text(max_size=10), value=json_values, identity=json_values)
def test_digests_are_plain_hmac_over_the_canonical_form(*, tool: str, value: Any, identity: Any) -> None:
    """Each digest equals HMAC-SHA256 by the standard library, cut to 128 bits, under a key by HKDF."""
    one = digester()
    top, top_identity = None if value == {} else value, None if identity == {} else identity
    assert plain_digest("call", "trace", TRACE, [tool, top_identity, top]) == one.call(tool, value, identity=identity)
    assert plain_digest("result", "trace", TRACE, [tool, value]) == one.result(tool, value)
    assert plain_digest("state", "trace", TRACE, [value]) == one.state(value)
    assert plain_digest("idempotency", "trace", TRACE, [tool, value]) == one.idempotency(tool, value)
    assert plain_digest("business", "environment", "", [tool, top]) == one.business(tool, value)
    assert int(plain_digest("item", "trace", TRACE, [value])[:16], 16) == one.item(value)
    assert plain_digest("name", "environment", "", [tool])[:8] == one.name(tool)
    assert plain_digest("conversation", "environment", "", [tool]) == one.conversation(tool)


@pytest.mark.parametrize("row", VECTORS["digests"], ids=lambda row: f"{row['kind']}-{row['digest_hex'][:4]}")
def test_digest_vectors(row: dict[str, Any]) -> None:
    """Each published digest comes out."""
    key = Key("any id", bytes.fromhex(VECTORS["key_hex"]))
    one = Digester(key, scope=Scope(row["scope"]), scope_value=row["scope_value"])
    parts = row["parts"]
    if row["kind"] == "call":
        got = one.call(parts[0], parts[2], identity=parts[1])
    elif row["kind"] == "item":
        got = f"{one.item(parts[0]):016x}"
    else:
        got = getattr(one, row["kind"])(*parts)
    assert row["digest_hex"] == got


def test_hkdf_is_rfc_5869() -> None:
    """Extract and one-block expand give what RFC 5869's formulas say."""
    root = digest.hkdf_extract(SECRET)
    assert hmac.new(b"otel-loopguard/lg1", SECRET, "sha256").digest() == root
    info = b'["call","trace","r"]'
    assert hmac.new(root, info + b"\x01", "sha256").digest() == digest.hkdf_expand(root, "call", "trace", "r")


def test_key_id_is_no_part_of_the_digest() -> None:
    """One secret under two ids gives one digest: ids are compared beside digests, not inside."""
    assert digester(Key("a", SECRET)).call("t", 1) == digester(Key("b", SECRET)).call("t", 1)


# --- seeded faults: each of these turns red if the digest is made of less or more than the call ----------


@pytest.mark.parametrize("size", [10, 100, 1_000, 100_000])
def test_prefix_digest_would_be_caught(size: int) -> None:
    """Arguments and results that differ in their last character only have different digests, however long."""
    one, start = digester(), "x" * size
    assert one.call("t", {"text": start + "a"}) != one.call("t", {"text": start + "b"})
    assert one.result("t", start + "a") != one.result("t", start + "b")
    assert one.state(start + "a") != one.state(start + "b")
    assert one.item(start + "a") != one.item(start + "b")


def test_id_in_the_digest_would_be_caught() -> None:
    """Nothing but the content counts: the same call has the same digest again, in another object, after other calls."""
    one, again = digester(), digester()
    first = [one.call("t", ARGUMENTS), one.result("t", ARGUMENTS), one.state(ARGUMENTS)]
    again.call("other", 1)
    copied = json.loads(json.dumps(ARGUMENTS))
    assert first == [again.call("t", copied), again.result("t", copied), again.state(copied)]
    assert first == [one.call("t", copied), one.result("t", copied), one.state(copied)]


def test_id_of_the_process_in_the_digest_would_be_caught() -> None:
    """Another process with another hash seed gives the same digests."""
    code = (
        "from otel_loopguard.digest import *; "
        f"d = Digester(Key('k', bytes(range(32))), scope_value={TRACE!r}); "
        f"print(d.call('t', {ARGUMENTS!r}), d.business('t', {{'a', 'b', 'c', 1}}), d.name('n'))"
    )
    one = digester()
    expected = f"{one.call('t', ARGUMENTS)} {one.business('t', {'a', 'b', 'c', 1})} {one.name('n')}"
    run = subprocess.run(  # noqa: S603 - this interpreter, this code
        [sys.executable, "-c", code],
        env={"PYTHONHASHSEED": "7", "PYTHONPATH": str(Path(__file__).parent.parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert expected == run.stdout.strip()


@pytest.mark.parametrize("dropped", list(ARGUMENTS))
def test_dropped_key_would_be_caught(dropped: str) -> None:
    """Each key of the arguments counts, one named like an id or holding null too."""
    one = digester()
    fewer = {key: value for key, value in ARGUMENTS.items() if key != dropped}
    assert one.call("t", ARGUMENTS) != one.call("t", fewer)
    assert one.result("t", ARGUMENTS) != one.result("t", fewer)


def test_dropped_key_inside_would_be_caught() -> None:
    """Keys of nested objects count as well."""
    one = digester()
    assert one.call("t", ARGUMENTS) != one.call("t", {**ARGUMENTS, "deep": {"list": [1, {}]}})


# --- keyed -----------------------------------------------------------------------------------------------


def test_no_unkeyed_hash_equals_a_digest() -> None:
    """Case E03: ten thousand guesses at a PIN, hashed without the key, never meet the digest."""
    one = digester()
    got = {one.call("set_pin", {"card": "c-1", "pin": "4071"}), one.result("set_pin", "4071"), one.state("4071")}
    for pin in range(10_000):
        arguments = {"card": "c-1", "pin": f"{pin:04d}"}
        texts = [
            json.dumps(arguments).encode(),
            encode_slow(arguments),
            encode_slow(["set_pin", None, arguments]),
            f"{pin:04d}".encode(),
        ]
        for text in texts:
            for name in ("sha256", "sha1", "md5", "blake2b"):
                assert hashlib.new(name, text, usedforsecurity=False).hexdigest()[:32] not in got


def test_every_digest_depends_on_the_key() -> None:
    """Under another key every digest of every kind is another one."""
    ours, theirs = every_digest(digester()), every_digest(digester(OTHER_KEY))
    assert [] == [kind for kind in ours if ours[kind] == theirs[kind]]


def test_kinds_never_compare() -> None:
    """Digests of different kinds over the same content share nothing."""
    digests = [one[:8] for one in every_digest(digester()).values()]
    digests[5] = f"{digester().item('v'):016x}"[:8]
    assert len(digests) == len(set(digests))


def test_shape_of_digests() -> None:
    """32 lower-case hex characters; names 8; items 64 bits."""
    shapes = {kind: re.fullmatch(r"[0-9a-f]+", text) is not None for kind, text in every_digest(digester()).items()}
    lengths = {kind: len(text) for kind, text in every_digest(digester()).items()}
    assert {True} == set(shapes.values())
    assert {**dict.fromkeys(lengths, 32), "name": 8} == lengths
    assert all(0 <= digester().item(value) < 2**64 for value in range(100))
    assert any(digester().item(value) >= 2**63 for value in range(100))


# --- scopes ----------------------------------------------------------------------------------------------


def test_trace_scope_cannot_be_correlated_across_traces() -> None:
    """Equal content in two traces has different digests, but for business keys, names and conversations."""
    one, two = every_digest(digester()), every_digest(digester(scope_value=OTHER_TRACE))
    assert {"business", "conversation", "name"} == {kind for kind in one if one[kind] == two[kind]}


def test_business_keys_names_and_conversations_are_always_of_environment_scope() -> None:
    """Their digests under trace scope are those of environment scope; the others' are not."""
    trace, environment = every_digest(digester()), every_digest(digester(scope=Scope.ENVIRONMENT))
    assert {"business", "conversation", "name"} == {kind for kind in trace if trace[kind] == environment[kind]}


def test_scope_and_value_cannot_run_into_each_other() -> None:
    """A run that is named like a scope or like a separator is a scope of its own."""
    names = ["", "environment", "trace", 'a","b', "a", "b"]
    digests = [digester(scope_value=name).call("t", 1) for name in names] + [
        digester(scope=Scope.ENVIRONMENT).call("t", 1)
    ]
    assert len(digests) == len(set(digests))


# --- framing ---------------------------------------------------------------------------------------------


def test_tool_and_arguments_cannot_run_into_each_other() -> None:
    """Calls whose parts, strung together, would read the same have different digests."""
    one = digester()
    calls: list[tuple[str, Any, Any]] = [
        ("t", None, None),
        ("t", "x", None),
        ("t", None, "x"),
        ("tx", None, None),
        ('t",null,"x', None, None),
        ('["t"', None, None),
        ("t", {"a": 1}, {"b": 1}),
        ("t", {"b": 1}, {"a": 1}),
        ("t", None, {"a": 1, "b": 1}),
        ("t", None, [{"a": 1}, {"b": 1}]),
        ("t", None, []),
        ("t", [], None),
    ]
    digests = [one.call(tool, value, identity=identity) for tool, identity, value in calls]
    assert len(digests) == len(set(digests))


def test_null_absent_and_empty_arguments_are_one_call() -> None:
    """No arguments, null and `{}` make one call; an empty list or text does not."""
    one = digester()
    assert one.call("t", None) == one.call("t", {}) == one.call("t", {}, identity={})
    assert one.call("t", None) not in (one.call("t", []), one.call("t", ""), one.call("t", {"a": None}))


def test_null_and_empty_results_differ() -> None:
    """Silence is not an empty answer."""
    one = digester()
    results: list[Any] = [None, {}, [], ""]
    assert 4 == len({one.result("t", value) for value in results})


def test_number_spellings_are_one_call() -> None:
    """Case C18: 1 and 1.0 are one level; 1 and True are not."""
    one = digester()
    assert one.call("zoom", {"level": 1}) == one.call("zoom", {"level": 1.0})
    assert one.call("zoom", {"level": 1}) != one.call("zoom", {"level": True})


def test_identity_enters_the_call() -> None:
    """The same call for another tenant is another call."""
    one = digester()
    calls = [one.call("t", 1, identity=identity) for identity in (None, {"tenant": "a"}, {"tenant": "b"})]
    assert 3 == len(set(calls))


def test_value_without_canonical_form_raises_ours() -> None:
    """Each method passes the one documented error on, and is unharmed by it."""
    one = digester()
    methods = [one.result, one.call, one.idempotency, one.business]
    for method in methods:
        with pytest.raises(CanonicalError):
            method("t", object())
    for single in (one.state, one.item):
        with pytest.raises(CanonicalError):
            single(object())
    assert digester().call("t", 1) == one.call("t", 1)


def test_more_tools_than_are_kept_at_hand_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Digests of tools beyond the cache's bound are right, and the cache does not grow."""
    monkeypatch.setattr(digest, "MAX_HEADS", 3)
    one = digester()
    digests = [one.call(f"tool_{number % 10}", number % 10) for number in range(40)]
    assert [digester().call(f"tool_{number % 10}", number % 10) for number in range(40)] == digests
    assert 3 == len(one._heads)  # noqa: SLF001 - the bound is what is tested


# --- keys ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 16, 31, 33, 64])
def test_key_of_another_length_is_refused(size: int) -> None:
    """A secret is 32 bytes."""
    with pytest.raises(KeyConfigError, match="32 bytes"):
        Key("k", b"\x07" * size)


def test_secret_is_never_shown() -> None:
    """No repr, print or pretty print of any object here shows the secret or a key made of it."""
    key = Key("k1", b"SECRETSECRETSECRETSECRETSECRET12")
    ring = Keyring(key)
    one = ring.for_trace(TRACE)
    one.call("t", 1)
    out = io.StringIO()
    console = rich.console.Console(file=out, width=200)
    for shown in (key, ring, one, ring.environment(), [key], {"k": key}):
        print(repr(shown), str(shown), f"{shown}", file=out)
        console.print(shown)
    assert "SECRET" not in out.getvalue()
    assert "k1" in out.getvalue()
    root = digest.hkdf_extract(key.secret)
    assert root.hex() not in out.getvalue()
    assert repr(root)[2:-1] not in out.getvalue()


def test_a_key_shows_its_id_and_whether_it_is_ephemeral() -> None:
    """Plain and rich representations say everything but the secret, and in its place that it is hidden."""
    assert "Key(key_id='k1', secret=<hidden>, ephemeral=False)" == repr(KEY)
    assert [("key_id", "k1"), ("secret", "<hidden>"), ("ephemeral", False)] == KEY.__rich_repr__()


@pytest.mark.parametrize("ephemeral", [False, True])
def test_whether_a_key_is_ephemeral_is_known_wherever_it_is_used(*, ephemeral: bool) -> None:
    """A keyring and each of its digesters say whether other processes can have the key."""
    ring = Keyring(Key("k", SECRET, ephemeral=ephemeral))
    assert [ephemeral] * 3 == [one.ephemeral for one in (ring, ring.environment(), ring.for_trace(TRACE))]


# --- keyring ---------------------------------------------------------------------------------------------


def test_keyring_gives_what_a_digester_gives() -> None:
    """Its digesters are those of its key and scope."""
    ring = Keyring(KEY)
    assert digester().call("t", 1) == ring.for_trace(TRACE).call("t", 1)
    assert digester(scope=Scope.ENVIRONMENT).call("t", 1) == ring.environment().call("t", 1)
    assert ("k1", Scope.TRACE, TRACE) == (
        ring.for_trace(TRACE).key_id,
        ring.for_trace(TRACE).scope,
        ring.for_trace(TRACE).scope_value,
    )
    assert (Scope.ENVIRONMENT, "") == (ring.environment().scope, ring.environment().scope_value)


@pytest.mark.parametrize("scope", list(Scope))
def test_scope_as_told(scope: Scope) -> None:
    """A keyring says the scope it was given; untold, it and a digester keep traces apart."""
    assert scope is Keyring(KEY, scope=scope).scope
    assert [Scope.TRACE] * 2 == [Keyring(KEY).scope, Digester(KEY, scope_value=TRACE).scope]


def test_keys_of_environment_scope_are_derived_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Traces share the derived keys that are no trace's own, and the root of all."""
    derived: list[tuple[str, str]] = []
    expand = digest.hkdf_expand

    def counted(root: bytes, kind: str, scope: str, scope_value: str) -> bytes:
        derived.append((kind, scope_value))
        return expand(root, kind, scope, scope_value)

    monkeypatch.setattr(digest, "hkdf_expand", counted)
    ring = Keyring(KEY)
    for trace in (TRACE, OTHER_TRACE):
        ring.for_trace(trace).business("t", 1)
        ring.for_trace(trace).call("t", 1)
        ring.for_trace(trace).call("t", 2)
    assert [("business", ""), ("call", TRACE), ("call", OTHER_TRACE)] == derived


def test_keyring_of_environment_scope() -> None:
    """Under environment scope all traces have equal digests."""
    ring = Keyring(KEY, scope=Scope.ENVIRONMENT)
    assert ring.for_trace(TRACE).call("t", 1) == ring.for_trace(OTHER_TRACE).call("t", 1)
    assert Scope.ENVIRONMENT is ring.for_trace(TRACE).scope


@pytest.mark.parametrize("scope", list(Scope))
def test_trace_keeps_its_first_key(scope: Scope) -> None:
    """After a rotation a known trace goes on under its key, a new one gets the new key: no overlap is needed."""
    ring = Keyring(KEY, scope=scope)
    before = every_digest(ring.for_trace(TRACE))
    ring.rotate(OTHER_KEY)
    assert before == every_digest(ring.for_trace(TRACE))
    assert ["k1", "k2", "k2", "k2"] == [
        ring.for_trace(TRACE).key_id,
        ring.for_trace(OTHER_TRACE).key_id,
        ring.environment().key_id,
        ring.key_id,
    ]
    assert every_digest(digester(OTHER_KEY, scope=scope, scope_value=OTHER_TRACE)) == every_digest(
        ring.for_trace(OTHER_TRACE)
    )


def test_rotating_to_the_same_key_changes_nothing() -> None:
    """A key that is loaded again is not a rotation."""
    ring = Keyring(KEY)
    environment = ring.environment()
    ring.rotate(Key("k1", bytes(range(32))))
    assert environment is ring.environment()


def test_pinned_traces_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most so many traces are remembered; the newest half always is."""
    monkeypatch.setattr(digest, "MAX_PINNED_TRACES", 10)
    ring = Keyring(KEY)
    for number in range(100):
        ring.for_trace(f"trace-{number}")
        assert len(ring._traces) + len(ring._older) <= 10  # noqa: SLF001 - the bound is what is tested
    ring.rotate(OTHER_KEY)
    assert {"k1"} == {ring.for_trace(f"trace-{number}").key_id for number in range(95, 100)}
    assert "k2" == ring.for_trace("trace-0").key_id


@pytest.mark.parametrize("scope", list(Scope))
def test_trace_in_use_is_not_forgotten(monkeypatch: pytest.MonkeyPatch, scope: Scope) -> None:
    """A trace whose spans keep coming keeps its key however many others pass."""
    monkeypatch.setattr(digest, "MAX_PINNED_TRACES", 10)
    ring = Keyring(KEY, scope=scope)
    ring.for_trace(TRACE)
    ring.rotate(OTHER_KEY)
    for number in range(100):
        ring.for_trace(f"trace-{number}")
        assert "k1" == ring.for_trace(TRACE).key_id


# --- names -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a", "lookup_order", "mcp.server/tool:v1-2", "_n:0123abcd", "x" * 128])
@pytest.mark.parametrize("kind", [NameKind.TOOL, NameKind.AGENT, NameKind.CALL_ID, NameKind.OTHER])
def test_name_that_looks_like_one_passes(name: str, kind: NameKind) -> None:
    """Names pass as they are."""
    assert name == checked_name(name, digester(), kind=kind)


@pytest.mark.parametrize(
    "name", ["", " ", "a b", "a\n", "\na", "ä", "x" * 129, "SECRET!", "a\x1b[0m", "\ud800", "\uff11"]
)
@pytest.mark.parametrize("kind", list(NameKind))
def test_name_that_looks_like_none_is_digested(name: str, kind: NameKind) -> None:
    """Anything else becomes `_n:` and 8 hex: equal for equal names in every trace, and nothing of the name is left."""
    checked = checked_name(name, digester(), kind=kind)
    assert re.fullmatch(r"_n:[0-9a-f]{8}", checked)
    assert checked == checked_name(name, digester(scope_value=OTHER_TRACE), kind=kind)
    assert checked != checked_name(name + "?", digester(), kind=kind)
    assert checked != checked_name(name, digester(OTHER_KEY), kind=kind)
    assert checked == checked_name(checked, digester(OTHER_KEY), kind=kind)


@pytest.mark.parametrize(
    "name", ["ValueError", "openai.RateLimitError", "404", "_private", "DEADLINE_EXCEEDED", "_n:0123abcd"]
)
def test_error_type_that_looks_like_one_passes(name: str) -> None:
    """Classes and status codes pass."""
    assert name == checked_name(name, digester(), kind=NameKind.ERROR_TYPE)


@pytest.mark.parametrize(
    "name", ["4071", "40", "1e5", "/etc/passwd", "a-b", "a:b", "9lives", ".x", "_n:XYZ", "x" * 129]
)
def test_error_type_that_looks_like_none_is_digested(name: str) -> None:
    """Numbers that are no status code, paths and the like do not pass as error types."""
    assert checked_name(name, digester(), kind=NameKind.ERROR_TYPE).startswith("_n:")
    assert name != checked_name(name, digester(), kind=NameKind.ERROR_TYPE)


def test_a_business_key_that_holds_within_a_run_stays_within_it() -> None:
    """Only what must be compared beyond a run can be correlated beyond it."""
    key = Key(key_id="k", secret=bytes(range(32)))
    one, other = (Digester(key, scope_value=trace) for trace in ("a" * 32, "b" * 32))
    within = [digester.business("refund", {"order": 1}, beyond_run=False) for digester in (one, one, other)]
    assert (within[0] == within[1], within[1] == within[2]) == (True, False)
